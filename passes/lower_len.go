// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"strings"

	"btc/ir"
)

// The length of a map, in lower-maps and lower-aggregations.
//
// Before 6.6 a program cannot read how many elements a hash has. So a map whose length the
// script reads is counted: an insert adds 1 to a word of the map "len", a delete subtracts
// 1. The loader, which deletes too (clear), counts its deletes in a word of its own,
// because it cannot change the programs' word atomically; the length is the difference.
//
// An LRU map evicts silently: its elements are counted by iteration.

// put stores an element and counts it if it is new; the result is 0 or a negative error.
func (l *lowering) put(x *ir.Map, key, value *ir.Value) *ir.Value {
	if x.BPF.Len == 0 {
		return l.update(x.Name, key, value, updateAny)
	}
	r := l.insertNew(x, key, value)
	return l.IfValue(l.ICmp(ir.EQ, r, ir.Const(eexist)), ir.TI64, func() *ir.Value {
		// An element that another CPU deletes at the same time stays deleted, as if it had
		// been set before.
		l.update(x.Name, key, value, updateExist)
		return ir.Const(0)
	}, func() *ir.Value { return r })
}

// insertNew creates an element that does not exist yet, and counts it.
func (l *lowering) insertNew(x *ir.Map, key, value *ir.Value) *ir.Value {
	r := l.update(x.Name, key, value, updateNoExist)
	if x.BPF.Len > 0 {
		l.If(l.ICmp(ir.EQ, r, ir.Const(0)), func() { l.count(x, 1) }, nil)
	}
	return r
}

// count adds n to the number of x's elements.
func (l *lowering) count(x *ir.Map, n int64) {
	p := l.lookup("len", l.key32(ir.Const(int64(x.BPF.Len-1))))
	l.If(l.NotNull(p), func() { l.AtomicAdd(ir.U64, l.NonNull(p), 0, ir.Const(n)) }, nil)
}

// lenWord returns a word of the map "len".
func (l *lowering) lenWord(key int) *ir.Value {
	p := l.lookup("len", l.key32(ir.Const(int64(key))))
	return l.IfValue(l.NotNull(p), ir.TI64,
		func() *ir.Value { return l.Load(ir.U64, l.NonNull(p), 0) },
		func() *ir.Value { return ir.Const(0) })
}

func lowerMapLen(l *lowering, v *ir.Value) *ir.Value {
	x := l.mapOf(v)
	if strings.HasPrefix(x.BPF.Type, "lru") {
		return l.walkLen(x, v)
	}
	n := l.Sub(l.lenWord(x.BPF.Len-1), l.lenWord(x.BPF.Len))
	// A delete may be counted before the insert that it follows.
	return l.Select(l.ICmp(ir.SLT, n, ir.Const(0)), ir.Const(0), n)
}

// walkLen counts the elements by iteration.
func (l *lowering) walkLen(x *ir.Map, v *ir.Value) *ir.Value {
	l.m.Meta.AddNeed(ir.Need{Feature: walkHelper, Construct: "len() of an LRU map", Pos: v.Pos})
	walk := l.Emit(ir.OpMapIter, ir.TI64, v.Args[0])
	rest := l.Split()
	head, body := l.Func().NewBlockAfter(l.Block()), l.Func().NewBlockAfter(l.Block())
	n := head.AddParam(ir.TI64)
	l.Jump(head, ir.Const(0))
	l.continueAt(head)
	next := l.Emit(ir.OpMapNext, ir.TMapVal(x.Name, true), v.Args[0], walk)
	l.Br(l.NotNull(next), body, rest)
	l.continueAt(body)
	l.Jump(head, l.AddImm(n, 1))
	l.continueAt(rest)
	return n
}
