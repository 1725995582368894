// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"btc/internal/option"
	"btc/loader/options"
	"btc/tests/docs/generated"
)

var updateReference = flag.Bool("update", false, "rewrite the generated parts of docs/reference/options.md")

// TestOptionsReference compares the reference page of options with the option tables.
func TestOptionsReference(t *testing.T) {
	var btc strings.Builder
	for _, p := range manPages(rootCommand()) {
		if p.path == "btc" || p.path == "btrun" {
			continue
		}
		fmt.Fprintf(&btc, "\n### %s\n\n", p.path)
		fmt.Fprintf(&btc, "    %s\n\n", strings.TrimSuffix(p.path, p.c.name)+p.c.usage())
		btc.WriteString(cell(sentence(p.c.summary)) + ".\n")
		table := p.c.options
		if p.c.name == "run" {
			loaders := new(options.Values).Table()
			table = slices.DeleteFunc(slices.Clone(table), func(o option.Option) bool {
				return slices.ContainsFunc(loaders, func(l option.Option) bool {
					return l.Name == o.Name && o.Name != "mode" && o.Name != "list"
				})
			})
			btc.WriteString("The options of [btrun](#btrun) are accepted, too, except `--capture`.\n")
		}
		btc.WriteString(optionTable(table))
	}
	generated.Check(t, "../../docs/reference/options.md", map[string]string{
		"btrun": optionTable(loader().options), "btc": btc.String(), "environment": environmentTable(),
	}, *updateReference)
}

// optionTable formats options as a Markdown table, with a row for each group.
func optionTable(table option.Table) string {
	var b strings.Builder
	group := ""
	for i := range table {
		o := &table[i]
		if o.Hidden {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("\n| option | what it does |\n|---|---|\n")
		}
		if o.Group != "" && o.Group != group {
			group = o.Group
			fmt.Fprintf(&b, "| **%s** | |\n", group)
		}
		help := cell(sentence(o.Help))
		for _, c := range o.Choices {
			if c.Help != "" {
				help += fmt.Sprintf("<br>`%s`: %s", c.Name, cell(c.Help))
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(o.Form(), "|", `\|`), help)
	}
	return b.String()
}

// environmentTable formats the environment variables as a Markdown table.
func environmentTable() string {
	var b strings.Builder
	b.WriteString("| variable | read by | what it does |\n|---|---|---|\n")
	for _, v := range environment {
		names := "`" + strings.ReplaceAll(v.name, ", ", "`, `") + "`"
		pages := "`" + strings.ReplaceAll(strings.Join(v.pages, "`, `"), "-", " ") + "`"
		fmt.Fprintf(&b, "| %s | %s | %s |\n", names, pages, cell(sentence(v.what)))
	}
	return b.String()
}

// cell escapes characters of help that are special in Markdown.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`).Replace(text)
}
