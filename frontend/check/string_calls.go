// SPDX-License-Identifier: Apache-2.0

package check

import (
	"net/netip"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
)

// searchRows returns the rows of functions that search strings or return the name of a number.
func searchRows() []Function {
	return []Function{
		{Name: "strlen", min: 1, max: 1, result: types.TUint64, check: (*body).stringArgs},
		{Name: "strstr", min: 2, max: 2, result: types.TInt64, check: (*body).stringArgs},
		{Name: "strcontains", min: 2, max: 2, result: types.TBool, check: (*body).stringArgs, usage: "strcontains(haystack, needle)"},
		{Name: "strerror", min: 1, max: 1, result: types.MakeString(NameSize), check: (*body).numberName},
		{Name: "signal_name", min: 1, max: 1, result: types.MakeString(NameSize), check: (*body).numberName},
		{Name: "syscall_name", min: 1, max: 1, result: types.MakeString(NameSize), check: (*body).numberName},
		{Name: "str_concat", min: 2, max: 2, result: types.MakeString(concatSize), check: (*body).stringArgs},
		{Name: "memcmp", min: 3, max: 3, result: types.TInt64, check: (*body).memcmp},
		{Name: "pton", min: 1, max: 1, check: (*body).pton},
		{Name: "macaddr", min: 1, max: 1, result: types.TMac, check: (*body).macaddr, usage: "macaddr(address)"},
	}
}

// NameSize is the capacity in bytes of the strings of strerror and the like.
const NameSize = 64

// concatSize is the capacity in bytes of the result of str_concat.
const concatSize = 1024

// memcmp checks memcmp(a, b, n) of strings, arrays, structs and numbers; n is constant, and at most
// the size of a number.
func (b *body) memcmp(c *callSite) {
	c.Args = c.args[:2]
	n, ok := b.constInt(c.args[2], c.Fn.Name)
	if ok && (n < 0 || n > concatSize) {
		b.fail(diag.BadArguments, c.args[2], "memcmp() compares 0 to %d bytes", concatSize)
		ok = false
	}
	for _, x := range c.Args {
		t := b.value(x)
		switch {
		case invalid(t):
			ok = false
		case isWord(t):
			if n > int64(t.Size) {
				b.fail(diag.BadArguments, c.args[2], "memcmp() of type %s compares at most %d bytes", t, t.Size)
				ok = false
			}
		case t.Kind != types.String && t.Kind != types.Array && t.Kind != types.Struct:
			b.fail(diag.BadArguments, x, "memcmp() only supports string, array and struct arguments (%s provided)", t)
			ok = false
		}
	}
	c.N = n
	if !ok {
		c.e.Type = types.TInvalid
	}
}

// isWord reports whether values of a type are numbers, booleans or pointers.
func isWord(t *types.Type) bool { return t.IsInteger() || t.Kind == types.Pointer }

// stringArg types an argument that is a string. The builtin probe is a string if its name is known
// at compile time; only the host knows what a pattern matched.
func (b *body) stringArg(x ast.Expr) *types.Type {
	t := b.asString(x)
	if t.Kind != types.Probe {
		return t
	}
	return b.probeString(x)
}

// maxProbeName is the capacity in bytes, NUL included, for the name of a probe that a program reads. The loader
// truncates longer names.
const maxProbeName = 512

// probeString makes the builtin probe a string.
func (b *body) probeString(x ast.Expr) *types.Type {
	e := b.out.Expr(ast.Unparen(x))
	if b.point.NamedByHost() {
		e.Type, e.ProbeString = types.MakeString(maxProbeName), true
	} else {
		b.stringConst(x, e, b.point.Text)
	}
	return e.Type
}

// stringArgs checks functions whose arguments are strings or pointers to characters. The memory at
// a pointer is read as by str().
func (b *body) stringArgs(c *callSite) {
	c.Args = c.args
	for _, x := range c.args {
		if t := b.stringArg(x); !invalid(t) && t.Kind != types.String && !isChars(t) {
			b.fail(diag.BadArguments, x, "%s() only supports string arguments and pointers to char (%s provided)",
				c.Fn.Name, t)
			c.e.Type = types.TInvalid
		}
	}
}

// isChars reports whether t is char *, of the kernel (where char is unsigned) or of a program.
func isChars(t *types.Type) bool {
	return t.Kind == types.Pointer && t.Elem.Kind == types.Int && t.Elem.Size == 1
}

// numberName checks strerror(n) and similar functions.
func (b *body) numberName(c *callSite) {
	c.Args = c.args
	if invalid(b.integer(c.args[0], c.Fn.Name)) {
		c.e.Type = types.TInvalid
	}
}

// pton checks pton("address"): the bytes of an address. One that is a parameter, pton(str($1)), is an IPv4 address
// given at load time, unless its value is given at compile time: the family decides the type.
func (b *body) pton(c *callSite) {
	if call, ok := ast.Unparen(c.args[0]).(*ast.Call); ok && call.Func.Text == "str" {
		if p, ok := loneParam(call); ok {
			b.needsValue(p.N) // the value determines the family
			if c.Param = b.param(p); c.Param != nil {
				c.Param.IPv4 = true
			}
			c.e.Type = types.MakeArray(types.TUint8, 4)
			return
		}
		b.value(c.args[0])
		b.unsupported(c.args[0], "pton() needs a string that is known at compile time")
		return
	}
	text, ok := b.literal(c, 0)
	if !ok {
		return
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		b.fail(diag.BadArguments, c.args[0], "pton() expects an string argument of an IPv4/IPv6 address, got %s", text)
		return
	}
	bytes := addr.AsSlice()
	c.Text = string(bytes)
	c.e.Type = types.MakeArray(types.TUint8, len(bytes))
}

// loneParam returns the parameter $1 of str($1).
func loneParam(call *ast.Call) (*ast.Positional, bool) {
	if len(call.Args) != 1 {
		return nil, false
	}
	p, ok := ast.Unparen(call.Args[0]).(*ast.Positional)
	return p, ok
}

// macaddr checks macaddr(a): the first 6 bytes of an array, string or buffer, or those at an address.
func (b *body) macaddr(c *callSite) {
	t := b.value(c.args[0])
	c.Args = c.args
	size, literal := t.Size, b.isLiteralString(c.args[0])
	if loc := b.out.Expr(c.args[0]).Location; loc != nil && loc.Chars > 0 {
		size = loc.Chars
	}
	if call, ok := ast.Unparen(c.args[0]).(*ast.Call); ok && call.Func.Text == "str" {
		_, param := loneParam(call)
		literal = literal || param
	}
	fail := func(format string, args ...any) {
		b.fail(diag.BadArguments, c.args[0], format, args...)
		c.e.Type = types.TInvalid
	}
	bytes := t.Kind == types.String || t.Kind == types.Buffer || t.Kind == types.Array && t.Elem.IsInteger()
	switch {
	case invalid(t):
		c.e.Type = types.TInvalid
	case t.Kind == types.Int, t.Kind == types.Pointer: // the address of the bytes
	case !bytes:
		fail("macaddr() only supports array or pointer arguments (%s provided)", t)
	case literal:
		fail("macaddr() does not support literal string arguments")
	case size < 6:
		fail("macaddr() argument must be at least 6 bytes in size")
	}
}
