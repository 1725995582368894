// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"slices"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/types"
	"btc/ir"
)

// text returns the address of a string, or of the memory that a pointer points to, and its maximum size in bytes with
// the NUL; one byte more than it has if it may lack the NUL. It is copied if one of the expressions in later may change it.
func (f *fn) text(x ast.Expr, later ...ast.Expr) (at *ir.Value, capacity int64) {
	t := f.body.Type(x)
	switch {
	case t.Kind == types.Pointer:
		return f.address(x), int64(f.info.Config.MaxStrlen)
	case slices.ContainsFunc(later, changes):
		at = f.temp(x, t)
	default:
		at = f.addr(x)
	}
	capacity = int64(t.Size)
	if t.Full { // the kernel copies capacity-1 bytes and a NUL
		capacity++
	}
	return f.Cast(ir.TKAddr, at), capacity
}

// strlen returns the length without the NUL.
func (f *fn) strlen(_ ast.Expr, c *check.Call) *ir.Value {
	at, capacity := f.text(c.Args[0])
	if f.body.Type(c.Args[0]).Kind == types.Pointer {
		capacity++ // a longer string counts as one byte longer
	}
	v := f.Emit(ir.OpStrLen, ir.TI64, at)
	v.Imm = capacity
	return v
}

// concat writes one string followed by another.
func (f *fn) concat(c *check.Call, dst *ir.Value, capacity int) {
	x, nx := f.text(c.Args[0], c.Args[1])
	y, ny := f.text(c.Args[1])
	f.Emit(ir.OpStrConcat, ir.TVoid, dst, x, ir.Const(nx), y, ir.Const(ny)).Imm = int64(capacity)
}

// memcmp returns the difference of the first bytes (int8) that differ, 0 for none.
func (f *fn) memcmp(_ ast.Expr, c *check.Call) *ir.Value {
	if c.N == 0 {
		return ir.Const(0)
	}
	var at [2]*ir.Value
	for i, x := range c.Args {
		room := (int(c.N) + 7) / 8 * 8
		at[i] = f.Slot("bytes", room, 8)
		f.zero(at[i], room)
		if t := f.body.Type(x); t.Kind == types.String || t.Kind == types.Array || t.Kind == types.Struct {
			f.bytesOf(x, at[i], min(int(c.N), t.Size))
		} else {
			f.Store(ir.U64, at[i], 0, f.num(x)) // the lowest byte first
		}
	}
	v := f.Emit(ir.OpMemCmp, ir.TI64, at[0], at[1])
	v.Imm = c.N
	return v
}

func (f *fn) strstr(_ ast.Expr, c *check.Call) *ir.Value { return f.find(c.Args[0], c.Args[1]) }

func (f *fn) strcontains(_ ast.Expr, c *check.Call) *ir.Value {
	return f.BoolInt(f.ICmp(ir.SGE, f.find(c.Args[0], c.Args[1]), ir.Const(0)))
}

// find returns the offset of a string in another, -1 when it is not there.
func (f *fn) find(text, needle ast.Expr) *ir.Value {
	at, capacity := f.text(text, needle)
	if lit, ok := f.literal(needle); ok {
		v := f.Emit(ir.OpStrFind, ir.TI64, at, ir.Const(capacity))
		v.Sym = cString(lit)
		return v
	}
	word, n := f.text(needle)
	return f.Emit(ir.OpStrFindMem, ir.TI64, at, ir.Const(capacity), word, ir.Const(n))
}

// cString returns a string up to its first NUL.
func cString(text string) string {
	text, _, _ = strings.Cut(text, "\x00")
	return text
}
