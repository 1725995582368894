// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"btc/internal/option"
	"btc/internal/spell"
)

// command is a command of btc: its help, manual page and completions are generated from it, and the command line is
// parsed with it.
type command struct {
	name     string
	operands string // as shown in the usage line
	summary  string // one line, lower case
	about    string // further paragraphs of the help and the manual page
	options  option.Table
	status   string // the exit status, in a sentence; "" if 0 is success and 1 failure
	examples []example
	sub      []*command
	// run does the work and returns the exit status. It is nil where sub has commands.
	run func(line *option.Line) int
	// wrongUse is the exit status of a wrong command line, if it is not 1.
	wrongUse int
	// files are the extensions, without dot, of files that are completed as operands; nil: none.
	files []string
}

// example is a command line that the help and the manual page show.
type example struct{ line, what string }

// usage returns the usage line after the command's path.
func (c *command) usage() string {
	line := c.name
	if len(c.options) > 0 {
		line += " [options]"
	}
	if c.operands != "" {
		line += " " + c.operands
	}
	return line
}

// exitStatus is the error of a command that has already reported its error.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// cobra converts c and its subcommands to commands of the library.
func (c *command) cobra() *cobra.Command {
	cc := &cobra.Command{
		Use: c.usage(), Short: c.summary, Long: c.about, DisableFlagsInUseLine: true,
		SilenceErrors: true, SilenceUsage: true, Args: cobra.ArbitraryArgs, ValidArgsFunction: c.complete,
	}
	line := &option.Line{}
	addFlags(cc, c.options, line)
	cc.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return c.wrong(cc, flagError(err, c.options)) })
	cc.SetHelpFunc(func(cc *cobra.Command, _ []string) { fmt.Fprint(cc.OutOrStdout(), c.help(cc.CommandPath())) })
	for _, s := range c.sub {
		cc.AddCommand(s.cobra())
	}
	cc.RunE = func(cc *cobra.Command, args []string) error {
		if c.run == nil {
			return c.wrong(cc, c.unknown(args))
		}
		if dash := cc.ArgsLenAtDash(); dash >= 0 {
			line.Operands, line.After = args[:dash], args[dash:]
		} else {
			line.Operands = args
		}
		if err := line.Check(); err != nil {
			return c.wrong(cc, err)
		}
		if status := c.run(line); status != 0 {
			return exitStatus(status)
		}
		return nil
	}
	return cc
}

// wrong reports a wrong command line.
func (c *command) wrong(cc *cobra.Command, err error) error {
	what, join := "options", "; "
	if c.run == nil {
		what = "commands"
	}
	if strings.HasSuffix(err.Error(), "?") {
		join = " "
	}
	fail("%v%s`%s -h` lists the %s", err, join, cc.CommandPath(), what)
	return exitStatus(max(c.wrongUse, 1))
}

// has reports whether c has a command of this name.
func (c *command) has(name string) bool {
	return slices.ContainsFunc(c.sub, func(s *command) bool { return s.name == name })
}

// unknown returns the error of operands where a command of c is expected.
func (c *command) unknown(args []string) error {
	var names []string
	for _, s := range c.sub {
		names = append(names, s.name)
	}
	if len(args) == 0 {
		return fmt.Errorf("missing command: %s", strings.Join(names, ", "))
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	if near := spell.Nearest(args[0], names); near != "" {
		text += "; did you mean " + near + "?"
	}
	return errors.New(text)
}

// complete offers the files that a command accepts as operands.
func (c *command) complete(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	if len(c.files) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.files, cobra.ShellCompDirectiveFilterFileExt
}

// help returns the output of -h for the command with a path such as "btc target show".
func (c *command) help(path string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: %s\n", strings.TrimSuffix(path, c.name)+c.usage())
	fmt.Fprintf(&b, "\n%s.\n", sentence(c.summary))
	if c.about != "" {
		b.WriteString("\n" + wrapped(c.about))
	}
	if len(c.sub) > 0 {
		b.WriteString("\nCommands:\n")
		width := 0
		for _, s := range c.sub {
			width = max(width, len(s.name))
		}
		for _, s := range c.sub {
			fmt.Fprintf(&b, "  %-*s  %s\n", width, s.name, s.summary)
		}
		fmt.Fprintf(&b, "\n`%s COMMAND -h` describes a command and its options.\n", path)
	}
	if len(c.options) > 0 {
		if c.options[0].Group == "" {
			b.WriteString("\nOptions:\n")
		}
		b.WriteString(c.options.Help())
	}
	if c.status != "" {
		b.WriteString("\n" + wrapped("Exit status: "+c.status))
	}
	for i, e := range c.examples {
		if i == 0 {
			b.WriteString("\nExamples:\n")
		}
		fmt.Fprintf(&b, "  %s\n      %s\n", e.line, e.what)
	}
	return b.String()
}

// wrapped wraps a paragraph to lines of at most 100 columns, like the list of options.
func wrapped(text string) string {
	const width = 100
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		switch {
		case column > 0 && column+1+len(word) > width:
			b.WriteString("\n")
			column = 0
		case column > 0:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String() + "\n"
}

// sentence begins with a capital letter.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// addFlags adds the options of a table to a command; options that are given are set on line.
func addFlags(cc *cobra.Command, table option.Table, line *option.Line) {
	flags := cc.Flags()
	flags.SortFlags = false
	aliases := map[string]string{}
	for i := range table {
		o := &table[i]
		flags.AddFlag(&pflag.Flag{
			Name: o.Name, Shorthand: o.Short, Usage: o.Help, Value: &flagValue{o, line},
			NoOptDefVal: withoutValue(o), Hidden: o.Hidden,
		})
		for _, alias := range strings.Fields(o.Aliases) {
			aliases[alias] = o.Name
		}
		cc.RegisterFlagCompletionFunc(o.Name, completion(o))
	}
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if real, ok := aliases[name]; ok {
			name = real
		}
		return pflag.NormalizedName(name)
	})
}

// completion completes the value of an option: its choices, directories or files.
func completion(o *option.Option) cobra.CompletionFunc {
	switch {
	case len(o.Choices) > 0:
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var all []string
			for _, c := range o.Choices {
				all = append(all, cobra.CompletionWithDesc(c.Name, c.Help))
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		}
	case o.Value == "DIR":
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	case strings.Contains(o.Value, "FILE"):
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	}
	return cobra.NoFileCompletions
}

// The value that the library passes to Set for an option without a value.
const (
	switchOn = "true"
	noValue  = "\x00"
)

func withoutValue(o *option.Option) string {
	switch {
	case o.Value == "":
		return switchOn
	case o.Optional:
		return noValue
	}
	return ""
}

// flagValue is an option as a value of the library's flags.
type flagValue struct {
	o    *option.Option
	line *option.Line
}

func (v *flagValue) String() string { return "" }

func (v *flagValue) Type() string {
	if v.o.Value == "" {
		return "bool"
	}
	return v.o.Value
}

func (v *flagValue) Set(value string) error {
	switch {
	case v.o.Value == "" && value != switchOn:
		return option.NoValue(v.o.Spelling())
	case v.o.Value == "" || value == noValue:
		value = ""
	}
	return v.line.Set(v.o, value)
}

// flagError converts an error of the library's parser to the wording of btrun's.
func flagError(err error, table option.Table) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	dashes := func(name string) string {
		if len(name) == 1 {
			return "-" + name
		}
		return "--" + name
	}
	switch {
	case errors.As(err, &unknown):
		if word := unknown.GetSpecifiedShortnames(); len(word) > 1 { // a long name with a single dash?
			return table.Unknown("-" + strings.SplitN(word, "=", 2)[0])
		}
		return table.Unknown(dashes(unknown.GetSpecifiedName()))
	case errors.As(err, &missing):
		return option.NeedsValue(dashes(missing.GetSpecifiedName()))
	case errors.As(err, &invalid):
		return invalid.Unwrap()
	}
	return err
}

// execute runs a command line of btc and returns the exit status.
func execute(root *command, args []string) int {
	cc := root.cobra()
	cc.CompletionOptions.DisableDefaultCmd = true // completion is our own command
	cc.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help"})
	cc.SetArgs(args)
	err := cc.Execute()
	var status exitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	}
	return fail("%v", err)
}

// helpOf prints the help of a command named by words, such as "target show".
func helpOf(w io.Writer, root *command, words []string) int {
	c, path := root, root.name
	if len(words) == 1 && words[0] == "btrun" {
		c, path, words = loader(), "btrun", nil
	}
	for i, word := range words {
		var next *command
		for _, s := range c.sub {
			if s.name == word {
				next = s
			}
		}
		if next == nil {
			return fail("%v; `%s` lists the commands", c.unknown(words[i:]),
				strings.Join(append([]string{"btc help"}, words[:i]...), " "))
		}
		c, path = next, path+" "+word
	}
	fmt.Fprint(w, c.help(path))
	return 0
}

// fail prints an error that has no position in a script, and returns the exit status.
func fail(format string, args ...any) int {
	fmt.Fprintf(os.Stderr, "btc: "+format+"\n", args...)
	return 1
}

// pattern returns a regular expression that is compiled when it is first used: most runs of btc use
// none of them, and a run takes a few milliseconds in all.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
