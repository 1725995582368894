// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strconv"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
)

// Option is a named load-time parameter of the script: getopt("name", default,
// "help").
type Option struct {
	Name string
	// Kind is "int", "bool" or "string"; Default is a value of that kind, as a string.
	Kind, Default string
	Help          string
	At            diag.Span

	typ *types.Type
}

// maxOption bounds the length of an option's name in bytes.
const maxOption = 64

// maxOptions bounds the number of options.
const maxOptions = 128

// getopt checks getopt("name"[, default[, "description"]]). The type is that of the default; without one the option is
// a boolean switch.
func (b *body) getopt(c *callSite) {
	for _, a := range c.args {
		b.expr(a)
	}
	name := b.out.Expr(c.args[0]).Const
	if name == nil || !name.IsStr || name.Str == "" || len(name.Str) > maxOption {
		b.fail(diag.BadArguments, c.args[0], "First argument to 'getopt' must be a string literal.")
		return
	}
	o := &Option{Name: name.Str, Kind: "bool", Default: "false", At: c.at.Span(), typ: types.TBool}
	if len(c.args) > 1 && !b.optionDefault(o, c.args[1]) {
		b.fail(diag.BadArguments, c.args[1],
			"Second argument to 'getopt' must be a string literal, integer literal, or a boolean literal.")
		return
	}
	if len(c.args) > 2 {
		help := b.out.Expr(c.args[2]).Const
		if help == nil || !help.IsStr {
			b.fail(diag.BadArguments, c.args[2],
				"Function 'getopt' requires the third parameter to be a string literal.")
			return
		}
		o.Help = help.Str
	}
	if c.Option = b.option(o, c.at); c.Option != nil {
		c.e.Type = o.typ
	}
}

// optionDefault sets kind and default from a constant.
func (b *body) optionDefault(o *Option, x ast.Expr) bool {
	e := b.out.Expr(x)
	c := e.Const
	switch {
	case c == nil || c.Host:
		return false
	case c.IsStr:
		o.Kind, o.Default, o.typ = "string", c.Str, types.MakeString(b.info.Config.MaxStrlen)
		return len(c.Str) < b.info.Config.MaxStrlen
	case e.Type.Kind == types.Bool:
		o.Default = strconv.FormatBool(c.Int != 0)
		return true
	case e.Type.Kind != types.Int:
		return false
	}
	o.Kind, o.Default, o.typ = "int", exact(c, e.Type).String(), types.TUint64
	if o.Default[0] == '-' {
		o.typ = types.TInt64
	}
	return true
}

// option finds an option of the same name, or records this one.
func (c *checker) option(o *Option, at ast.Node) *Option {
	for _, have := range c.info.Options {
		if have.Name != o.Name {
			continue
		}
		if have.Kind != o.Kind || have.Default != o.Default {
			c.fail(diag.BadArguments, at, "Command line option '%s' needs to have the same default value in all places it is used. Previous default value: %s", o.Name, have.Default).
				Note(have.At, "its first use is here")
			return nil
		}
		if have.Help != "" && o.Help != "" && have.Help != o.Help {
			c.fail(diag.BadArguments, at, "Command line option '%s' must have the same description in all places it's used. Hint: You can wrap it in a macro", o.Name).
				Note(have.At, "its first use is here")
			return nil
		}
		if have.Help == "" {
			have.Help = o.Help
		}
		return have
	}
	if len(c.info.Options) == maxOptions {
		c.fail(diag.TooLarge, at, "too many options (max %d)", maxOptions)
		return nil
	}
	c.info.Options = append(c.info.Options, o)
	return o
}
