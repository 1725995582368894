// SPDX-License-Identifier: Apache-2.0

// Package option implements the command-line options of btc and btrun: a table of options, from which command lines
// are parsed and help, man pages, completions and the reference page are generated.
//
// It takes a table and arguments, calls the setter of each given option, and returns the operands. It never writes
// output or ends the program.
//
// btrun parses its command line with it: pflag would add 156 KB to a program whose size is limited. btc, which has
// commands, gives the same table to cobra (cmd/btc/cli.go, about 120 lines) for commands and completions in three shells:
// without it the completion scripts and their protocol would be ours.
package option

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"btc/internal/spell"
)

// Option is a row of a table. It is written --name=value, --name value, -xvalue, -x=value or -x value; one-letter
// switches can be combined, as in -qv.
type Option struct {
	Name    string // long name, without the dashes; "" for none
	Short   string // one letter; "" for none
	Aliases string // other accepted long names, separated by spaces, not shown in help
	Value   string // placeholder of the value, such as FILE; "" for a switch
	Help    string
	Choices []Choice // accepted values; nil: any. If To is a func, it checks the value itself
	// Optional: the value can be omitted. A value must then be attached with "=".
	Optional bool
	Repeat   bool // the option can be given several times
	Hidden   bool // not shown in help and the manual
	// Group is the heading that help prints before the first option of a group.
	Group string
	// Alone: the option requests something other than the program's usual work, and can only be combined with the
	// options named in With.
	Alone bool
	With  string // names separated by spaces
	// To is where the value is stored: a *bool for a switch, a *string, a *[]string that collects repeated values, or
	// a func(value string) error.
	To any
}

// In returns the option with its group set.
func (o Option) In(group string) Option {
	o.Group = group
	return o
}

// has reports whether a list of words separated by spaces contains a word.
func has(list, word string) bool {
	return word != "" && strings.Contains(" "+list+" ", " "+word+" ")
}

// Choice is one of the values of an option.
type Choice struct{ Name, Help string }

// Choices returns choices without help.
func Choices(names ...string) []Choice {
	var all []Choice
	for _, n := range names {
		all = append(all, Choice{Name: n})
	}
	return all
}

// Words returns the values that an option accepts.
func (o *Option) Words() []string {
	var all []string
	for _, c := range o.Choices {
		all = append(all, c.Name)
	}
	return all
}

// Spelling returns the option's name in messages: --name, or -x if it has no long name.
func (o *Option) Spelling() string {
	if o.Name == "" {
		return "-" + o.Short
	}
	return "--" + o.Name
}

// Form returns the option with its placeholder, such as "-o, --output FILE".
func (o *Option) Form() string {
	var forms []string
	if o.Short != "" {
		forms = append(forms, "-"+o.Short)
	}
	if o.Name != "" {
		forms = append(forms, "--"+o.Name)
	}
	form := strings.Join(forms, ", ")
	switch {
	case o.Value == "":
		return form
	case o.Optional:
		return form + "[=" + o.Value + "]"
	}
	return form + " " + o.Value
}

// accepts reports whether a value is one of the choices. A choice "NAME=DIR" matches values that begin with "NAME=".
func (o *Option) accepts(value string) bool {
	for _, c := range o.Choices {
		name, _, open := strings.Cut(c.Name, "=")
		if value == c.Name && !open || open && strings.HasPrefix(value, name+"=") {
			return true
		}
	}
	return false
}

// Set assigns a value if the option accepts it.
func (o *Option) Set(value string) error {
	set, checked := o.To.(func(string) error)
	if checked {
		return set(value)
	}
	if words := strings.Join(o.Words(), " "); words != "" && !o.accepts(value) {
		return fmt.Errorf("%s: %q is not one of %s", o.Spelling(), value, strings.ReplaceAll(words, " ", ", "))
	}
	switch to := o.To.(type) {
	case *bool:
		*to = true
	case *string:
		*to = value
	case *[]string:
		*to = append(*to, value)
	}
	return nil
}

// Table lists the options of a program or command, in the order of its help.
type Table []Option

// find returns the option of a spelling such as "--pid" or "-p", or nil.
func (t Table) find(spelling string) *Option {
	for i := range t {
		o := &t[i]
		name, long := strings.CutPrefix(spelling, "--")
		switch {
		case long && name != "" && (name == o.Name || has(o.Aliases, name)):
			return o
		case !long && o.Short != "" && spelling == "-"+o.Short:
			return o
		}
	}
	return nil
}

// Line is a parsed command line.
type Line struct {
	Operands []string
	After    []string // arguments after "--"
	given    []*Option
}

// All returns the operands, including those after "--".
func (l *Line) All() []string { return append(slices.Clone(l.Operands), l.After...) }

// Parse parses a command line and calls the setters of its options, in order. Options can precede or follow operands.
func (t Table) Parse(args []string) (*Line, error) {
	l := &Line{}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		var err error
		switch {
		case arg == "--":
			l.After = args
			return l, l.Check()
		case strings.HasPrefix(arg, "--"):
			args, err = t.long(l, arg, args)
		case len(arg) > 1 && arg[0] == '-':
			args, err = t.short(l, arg, args)
		default:
			l.Operands = append(l.Operands, arg)
		}
		if err != nil {
			return l, err
		}
	}
	return l, l.Check()
}

// long applies one option with a long name and returns the arguments after it.
func (t Table) long(l *Line, arg string, rest []string) ([]string, error) {
	name, value, joined := strings.Cut(arg, "=")
	o := t.find(name)
	switch {
	case o == nil:
		return nil, t.Unknown(name)
	case o.Value == "" && joined:
		return nil, NoValue(name)
	case o.Value != "" && !joined && !o.Optional:
		if len(rest) == 0 {
			return nil, NeedsValue(name)
		}
		value, rest = rest[0], rest[1:]
	}
	return rest, l.Set(o, value)
}

// short applies the options of an argument such as "-qv" or "-p5".
func (t Table) short(l *Line, arg string, rest []string) ([]string, error) {
	for i := 1; i < len(arg); i++ {
		name := "-" + arg[i:i+1]
		o := t.find(name)
		switch {
		case o == nil && i == 1:
			return nil, t.Unknown(arg)
		case o == nil && arg[i] == '=':
			return nil, NoValue("-" + arg[i-1:i])
		case o == nil:
			return nil, fmt.Errorf("unknown option %s in %s", name, arg)
		case o.Value == "" || o.Optional:
			if err := l.Set(o, ""); err != nil {
				return nil, err
			}
			continue
		}
		value := strings.TrimPrefix(arg[i+1:], "=")
		if i+1 == len(arg) {
			if len(rest) == 0 {
				return nil, NeedsValue(name)
			}
			value, rest = rest[0], rest[1:]
		}
		return rest, l.Set(o, value)
	}
	return rest, nil
}

// Set calls the setter of an option and records that it was given.
func (l *Line) Set(o *Option, value string) error {
	l.given = append(l.given, o)
	return o.Set(value)
}

// Check returns an error if options are given that cannot be combined.
func (l *Line) Check() error {
	for _, alone := range l.given {
		if !alone.Alone {
			continue
		}
		for _, o := range l.given {
			if o != alone && o.Name != alone.Name && !has(alone.With, o.Name) {
				return fmt.Errorf("%s cannot be combined with %s", alone.Spelling(), o.Spelling())
			}
		}
	}
	return nil
}

// NeedsValue returns the error for an option without its required value.
func NeedsValue(spelling string) error { return fmt.Errorf("option %s needs a value", spelling) }

// NoValue returns the error for a switch with a value.
func NoValue(spelling string) error { return fmt.Errorf("option %s does not accept a value", spelling) }

// Unknown returns the error for an option that is not in the table; it suggests the nearest name.
func (t Table) Unknown(spelling string) error {
	text := "unknown option " + spelling
	name := strings.TrimLeft(spelling, "-")
	var names []string
	for i := range t {
		names = append(names, t[i].Name)
		names = append(names, strings.Fields(t[i].Aliases)...)
	}
	if near := spell.Nearest(name, names); near != "" && len(name) > 1 {
		return errors.New(text + "; did you mean --" + near + "?")
	}
	return errors.New(text)
}
