// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/internal/probe"
)

// conversions lists the conversions of a format in order, without "%%".
func conversions(format string) []string {
	var all []string
	for _, d := range directives(format) {
		if d.conv != "%" {
			all = append(all, d.conv)
		}
	}
	return all
}

// plainPercent returns a format in which '%' followed by a space is literal, as it was before conversions had flags.
func plainPercent(format string) string {
	return replaceDirectives(format, func(m string) string {
		if strings.HasPrefix(m, "% ") {
			return "%" + m
		}
		return m
	})
}

// printf checks printf(format, ...), and the like.
func (b *body) printf(c *callSite) {
	format, ok := b.literal(c, 0)
	if !ok {
		for _, x := range c.args[1:] {
			b.expr(x)
		}
		return
	}
	convs := conversions(format)
	if plain := plainPercent(format); len(convs) > len(c.args)-1 && len(conversions(plain)) == len(c.args)-1 {
		b.fail(diag.Deprecated, c.args[0], "'%%' before a space begins a conversion, but there is no argument for it: it is printed literally").
			Hint("write %%%%")
		format, convs = plain, conversions(plain)
	}
	c.Format, c.Args = format, c.args[1:]
	all := make([]*types.Type, len(c.Args))
	for i, x := range c.Args {
		if i < len(convs) && convs[i] == "s" {
			all[i] = b.asString(x)
		} else {
			all[i] = b.value(x)
		}
	}
	if len(convs) > len(all) {
		b.fail(diag.BadFormat, c.at, "not enough arguments for format string (%d supplied, %d expected)", len(all),
			len(convs))
		return
	}
	if len(convs) < len(all) {
		d := b.fail(diag.BadFormat, c.at, "too many arguments for format string (%d supplied, %d expected)", len(all),
			len(convs))
		if text := noConversion(format); text != "" {
			d.Hint("%s is not a conversion; expected %%d %%i %%u %%o %%x %%X %%c %%p for numbers, %%s for anything, %%r %%rx %%rh for buffers",
				text)
		}
		return
	}
	for i, conv := range convs {
		b.conversion(c.Args[i], conv, all[i])
	}
}

// conversion checks one conversion against its argument.
func (b *body) conversion(x ast.Expr, conv string, t *types.Type) {
	if invalid(t) && t.Kind == types.Invalid {
		return
	}
	ok := false
	switch conv {
	case "s":
		ok = true
	case "d", "i", "u", "o", "x", "X", "c", "p":
		ok = t.IsInteger() || t.Kind == types.Pointer
	case "r", "rx", "rh":
		ok = t.Kind == types.Buffer
	case "gr":
		ok = t.IsInteger()
	default:
		d := b.fail(diag.BadFormat, x, "unsupported format specifier: %s", conv)
		if strings.ContainsAny(conv, "eEfFgG") {
			d.Hint("BPF has no floating-point numbers: print the parts, as in %%d.%%02d with x / 100 and x %% 100")
		}
		return
	}
	if !ok {
		b.fail(diag.BadFormat, x, "unsupported format specifier for type '%s': %s", t, conv)
	}
}

// print checks print(x), print(@m[, top[, div]]).
func (b *body) print(c *callSite) {
	if _, ok := ast.Unparen(c.args[0]).(*ast.Map); ok {
		m := b.mapArg(c, c.args[0])
		for _, x := range c.args[1:] {
			if isParam(x) { // the parameter's value may be set at load time
				if !invalid(b.value(x)) {
					c.Args = append(c.Args, x)
				}
			} else if _, ok := b.constInt(x, "print"); ok {
				if e := b.out.Expr(x); e.Type.Kind == types.Enum {
					e.Type = types.TInt64
				}
				c.Args = append(c.Args, x)
			}
		}
		if m.agg != nil && m.agg.Kind == types.Stats && len(c.args) > 1 {
			b.fail(diag.Ignored, c.at, "print()'s top and div arguments are ignored when used on stats() maps.")
		}
		if b.loops > 0 {
			b.fail(diag.PrintInLoop, c.at,
				"Due to it's asynchronous nature using 'print()' in a loop can lead to unexpected behavior. The map will likely be updated before the runtime can 'print' it.")
		}
		return
	}
	if len(c.args) > 1 {
		b.fail(diag.BadArguments, c.at, "Non-map print() only takes 1 argument, %d found", len(c.args))
	}
	c.Args = c.args[:1]
	if el, ok := elemArg(c.args[0]); ok {
		if m := b.maps["@"+el.Map.Name]; m != nil && m.agg != nil && !m.agg.IsReadable() && m.agg.Kind != types.Stats {
			b.elemKeys(c, el)
			b.fail(diag.BadMapUse, el,
				"Map type %s cannot print the value of individual keys. You must print the whole map.", m.agg)
			return
		}
	}
	x := ast.Unparen(c.args[0])
	t := b.value(x)
	call := b.out.Expr(x).Call
	switch {
	case call == nil || call.Fn == nil || invalid(t):
	case call.Fn.Name == "ctx" && b.point.Kind != probe.Iter:
		b.fail(diag.BadArguments, c.at, "%s type passed to print() is not printable", contextName(t))
	case (call.Fn.Name == "kptr" || call.Fn.Name == "uptr") && b.out.Expr(call.Args[0]).Type.IsInteger():
		c.Args = call.Args // the original number
	}
}

// contextName returns the type of a context for messages.
func contextName(t *types.Type) string {
	if t.Elem == nil || t.Elem.Kind == types.None {
		return "struct bpf_perf_event_data *"
	}
	return t.String()
}

// exit checks exit([code]).
func (b *body) exit(c *callSite) {
	if len(c.args) > 0 {
		b.integer(c.args[0], "exit")
		c.Args = c.args
	}
}

// time checks time([format]).
func (b *body) time(c *callSite) {
	c.Format = "%H:%M:%S\n"
	if len(c.args) > 0 {
		if format, from, ok := b.loadString(c, 0); ok {
			c.Format, c.From = format, from
		}
	}
}

// join checks join(array[, separator]).
func (b *body) join(c *callSite) {
	c.Text = " "
	t := b.value(c.args[0])
	if !invalid(t) && !t.IsInteger() && t.Kind != types.Pointer {
		b.fail(diag.BadArguments, c.args[0], "join() only supports int or pointer arguments (%s provided)", t)
	}
	c.Args = c.args[:1]
	if len(c.args) > 1 {
		if sep, from, ok := b.loadString(c, 1); ok {
			c.Text, c.From = sep, from
		}
	}
}
