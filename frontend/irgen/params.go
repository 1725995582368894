// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"fmt"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/diag"
	"btc/ir"
)

// paramSection is the section where the loader stores parameters.
const paramSection = ".rodata.params"

// params creates the load-time parameters: $N as a number, as a string, or both, $#, and the named options.
func (b *builder) params() {
	add := func(name string, size int, at diag.Span, p ir.Param) {
		p.Pos = b.pos(at, -1)
		b.m.Globals = append(b.m.Globals, &ir.Global{Name: name, Kind: ir.GlobalParam, Size: size, Param: &p})
	}
	for _, p := range b.info.Params {
		name := fmt.Sprintf("$%d", p.N)
		if p.Int {
			add(intParam(p.N), 8, p.At, ir.Param{Name: name, Type: "int"})
		}
		if p.Sign {
			add(signParam(p.N), 8, p.At, ir.Param{Name: name, Type: "sign"})
		}
		if p.Str {
			add(strParam(p.N), b.info.Config.MaxStrlen, p.At, ir.Param{Name: name, Type: "string"})
		}
		if p.IPv4 {
			add(addrParam(p.N), 4, p.At, ir.Param{Name: name, Type: "ipv4"})
		}
	}
	if b.info.ParamCount {
		add(paramCount, 8, b.info.Script.Span(), ir.Param{Name: "$#", Type: "int"})
	}
	for i, o := range b.info.Options {
		size := 8
		if o.Kind == "string" {
			size = b.info.Config.MaxStrlen
		}
		add(b.optionName(i), size, o.At, ir.Param{Name: o.Name, Type: o.Kind, Default: o.Default, Help: o.Help})
	}
}

const paramCount = "param_count"

func intParam(n int) string  { return fmt.Sprintf("param_%d", n) }
func signParam(n int) string { return fmt.Sprintf("param_%d_sign", n) }
func addrParam(n int) string { return fmt.Sprintf("param_%d_ipv4", n) }
func strParam(n int) string  { return fmt.Sprintf("param_%d_str", n) }

// optionName returns the C identifier of the i-th option, made from its name, with a number if two names would become
// the same identifier.
func (b *builder) optionName(i int) string {
	name := "opt_" + identifier(b.info.Options[i].Name)
	for _, o := range b.info.Options[:i] {
		if "opt_"+identifier(o.Name) == name {
			return fmt.Sprintf("%s_%d", name, i)
		}
	}
	return name
}

func (b *builder) optionGlobal(o *check.Option) string {
	for i, have := range b.info.Options {
		if have == o {
			return b.optionName(i)
		}
	}
	panic("BUG: the option " + o.Name + " is not recorded")
}

// getopt returns the value of a numeric option.
func (f *fn) getopt(_ ast.Expr, c *check.Call) *ir.Value {
	return f.Global(ir.U64, f.optionGlobal(c.Option), 0)
}

// stringFrom returns the global of the string parameter that check.Call.From and types.Type.FormatFrom name.
func (b *builder) stringFrom(from string) string {
	name, isOption := strings.CutPrefix(from, "--")
	for i, o := range b.info.Options {
		if isOption && o.Name == name {
			return b.optionName(i)
		}
	}
	for _, p := range b.info.Params {
		if from == fmt.Sprintf("$%d", p.N) {
			return strParam(p.N)
		}
	}
	if from != "" {
		panic("BUG: the parameter " + from + " is not recorded")
	}
	return ""
}

// optionAddr returns the address of the value of a string option.
func (f *fn) optionAddr(o *check.Option) *ir.Value {
	return f.GlobalAddr(ir.TMapVal(paramSection, false), f.optionGlobal(o), 0)
}
