// SPDX-License-Identifier: Apache-2.0

package option

import "strings"

// Widths of help output, in columns.
const (
	helpWidth   = 100
	formColumns = 26
)

// Help returns the table as --help prints it: a heading for each group, and for each option its form, its
// description, and its choices if they have descriptions.
func (t Table) Help() string {
	var b strings.Builder
	group := ""
	for i := range t {
		o := &t[i]
		if o.Hidden {
			continue
		}
		if o.Group != "" && o.Group != group {
			group = o.Group
			b.WriteString("\n" + group + ":\n")
		}
		form := o.Form()
		if o.Short == "" {
			form = "    " + form
		}
		row(&b, "  "+form, o.Help)
		for _, c := range o.Choices {
			if c.Help != "" {
				row(&b, "        "+c.Name, c.Help)
			}
		}
	}
	return b.String()
}

// row writes a form and its description, wrapped to several lines if needed.
func row(b *strings.Builder, form, text string) {
	const width = helpWidth - formColumns
	if len(form)+2 > formColumns {
		b.WriteString(form + "\n")
		form = ""
	}
	for {
		line := text
		if len(text) > width {
			line = text[:strings.LastIndexByte(text[:width+1], ' ')]
		}
		b.WriteString(strings.TrimRight(form+strings.Repeat(" ", formColumns-len(form))+line, " ") + "\n")
		if len(line) == len(text) {
			return
		}
		form, text = "", text[len(line)+1:]
	}
}
