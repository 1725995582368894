// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"btc/internal/manifest"
	"btc/internal/option"
	"btc/loader/options"
)

// bundleCompletion returns the completions of a bundle: the options of the loader, and after -- those of the script. They need
// nothing but the shell, because a host has no btc. The names in an object can be hostile, and quotes do not help: compgen -W and
// complete -a of fish expand $(...) in the words themselves. Parameters with other characters than those of isPlain are omitted.
func bundleCompletion(shell, name string, m *manifest.Manifest) string {
	table := append(option.Table{{Name: "completion", Value: "SHELL", Choices: option.Choices("bash", "zsh", "fish"), Help: "print completions for a shell"}},
		new(options.Values).Table()...)
	var script option.Table
	seen := map[string]bool{}
	for i := range m.Params {
		if p := &m.Params[i]; isPlain(p.Name) && !seen[p.Name] {
			seen[p.Name] = true
			script = append(script, option.Option{Name: p.Name, Value: "VALUE", Help: p.Help})
		}
	}
	var b strings.Builder
	switch shell {
	case "bash":
		fn := "_" + strings.Map(identifier, name)
		fmt.Fprintf(&b, "%s() {\n  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} w\n", fn)
		fmt.Fprintf(&b, "  for w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    [[ $w == -- ]] && { COMPREPLY=($(compgen -W %s -- \"$word\")); compopt -o nospace; return; }\n  done\n  case $before in\n", quoted(words(script, "=")))
		for i := range table {
			if o := &table[i]; len(o.Choices) > 0 && o.Value != "" {
				fmt.Fprintf(&b, "  --%s) COMPREPLY=($(compgen -W %s -- \"$word\")); return ;;\n", o.Name, quoted(strings.Join(o.Words(), " ")))
			}
		}
		fmt.Fprintf(&b, "  esac\n  [[ $word == -* ]] && COMPREPLY=($(compgen -W %s -- \"$word\"))\n}\ncomplete -o default -F %s -- %s\n", quoted(words(table, "")+" --"), fn, quoted(name))
	case "zsh":
		fmt.Fprintf(&b, "#compdef %s\nlocal -a options script\noptions=(\n", plainLine(name))
		pairs(&b, table, "")
		b.WriteString(")\nscript=(\n")
		pairs(&b, script, "=")
		b.WriteString(")\nif (( ${words[(I)--]} && ${words[(I)--]} < CURRENT )); then\n  _describe -o 'option of the script' script -S ''\nelse\n  case $words[CURRENT-1] in\n")
		for i := range table {
			if o := &table[i]; len(o.Choices) > 0 && o.Value != "" {
				fmt.Fprintf(&b, "  --%s) compadd -- %s; return ;;\n", o.Name, strings.Join(o.Words(), " "))
			}
		}
		b.WriteString("  esac\n  _describe -o option options || _files\nfi\n")
	case "fish":
		for i := range table {
			o := &table[i]
			if o.Hidden {
				continue
			}
			fmt.Fprintf(&b, "complete -c %s -n 'not contains -- -- (commandline -opc)' -l %s", quoted(name), o.Name)
			if o.Short != "" {
				fmt.Fprintf(&b, " -s %s", o.Short)
			}
			if o.Value != "" && !o.Optional {
				b.WriteString(" -r")
			}
			if len(o.Choices) > 0 {
				fmt.Fprintf(&b, " -f -a %s", quoted(strings.Join(o.Words(), " ")))
			}
			fmt.Fprintf(&b, " -d %s\n", quoted(plainLine(o.Help)))
		}
		for i := range script {
			fmt.Fprintf(&b, "complete -c %s -n 'contains -- -- (commandline -opc)' -f -a %s -d %s\n", quoted(name), quoted("--"+script[i].Name+"="), quoted(plainLine(script[i].Help)))
		}
	}
	return b.String()
}

// isPlain reports whether a shell expands nothing in a name.
func isPlain(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool { return identifier(r) != r && r != '.' && r != '-' })
}

// identifier replaces what a shell function's name cannot have.
func identifier(r rune) rune {
	if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return r
	}
	return '_'
}

// quoted quotes a word for a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// plainLine returns text for a description.
func plainLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\'' || r == '\\' {
			return ' '
		}
		return r
	}, s)
}

// words returns the options of a table, each followed by end.
func words(table option.Table, end string) string {
	var all []string
	for i := range table {
		if !table[i].Hidden {
			all = append(all, "--"+table[i].Name+end)
		}
	}
	return strings.Join(all, " ")
}

// pairs writes options with their help for zsh's _describe.
func pairs(b *strings.Builder, table option.Table, end string) {
	for i := range table {
		if !table[i].Hidden {
			fmt.Fprintf(b, "  %s\n", quoted("--"+table[i].Name+end+":"+strings.ReplaceAll(plainLine(table[i].Help), ":", " ")))
		}
	}
}
