// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"

	"btc/ir"
)

// Reading min() and max() maps: a loop looks at the value of each CPU and ends after the
// last CPU (bpf_map_lookup_percpu_elem, 5.19, returns null there).

const (
	percpuHelper = "map_lookup_percpu_elem"
	// maxCPUs is the largest NR_CPUS that kernels are built with.
	maxCPUs = 8192
)

// readExtreme returns the minimum or maximum over all CPUs of the element at key, 0
// when no CPU has one.
func (l *lowering) readExtreme(x *ir.Map, key *ir.Value, pos ir.Pos) *ir.Value {
	for _, helper := range []string{percpuHelper, rangeHelper} {
		l.m.Meta.AddNeed(ir.Need{
			Feature: helper, Pos: pos,
			Construct: fmt.Sprintf("reading the %s() map %s in the script", x.Shape, x.Name),
		})
	}
	iter := l.Emit(ir.OpRangeIter, ir.TI64, ir.Const(maxCPUs))
	rest := l.Split()
	result := rest.AddParam(ir.TI64)
	head := l.Func().NewBlockAfter(l.Block())
	body := l.Func().NewBlockAfter(head)
	set, best := head.AddParam(ir.TI64), head.AddParam(ir.TI64)
	l.Jump(head, ir.Const(0), ir.Const(0))
	l.continueAt(head)
	next := l.Emit(ir.OpRangeNext, ir.TI64, iter)
	head.Br(l.ICmp(ir.NE, next, ir.Const(0)), ir.Edge{To: body}, ir.Edge{To: rest, Args: []*ir.Value{best}}, l.Pos)
	l.continueAt(body)
	p := l.Call(percpuHelper, ir.TMapVal(x.Name, true), ir.MapOperand(x.Name), key, l.AddImm(next, -1))
	found := l.Func().NewBlockAfter(l.Block())
	l.Block().Br(l.NotNull(p), ir.Edge{To: found}, ir.Edge{To: rest, Args: []*ir.Value{best}}, l.Pos)
	l.continueAt(found)
	p = l.NonNull(p)
	// The first word is 0 on a CPU that has not seen a value: its 0 is neither a minimum nor a maximum.
	mine, n := l.Load(ir.U64, p, 0), l.Load(ir.U64, p, 8)
	take := l.IfValue(
		l.ICmp(ir.EQ, mine, ir.Const(0)),
		ir.TI1,
		func() *ir.Value { return ir.Bool(false) },
		func() *ir.Value {
			return l.IfValue(
				l.ICmp(ir.EQ, set, ir.Const(0)),
				ir.TI1,
				func() *ir.Value { return ir.Bool(true) },
				func() *ir.Value {
					return l.ICmp(better(x, x.Shape == ir.ShapeMax), n, best)
				},
			)
		},
	)
	best = l.Select(take, n, best)
	set = l.Or(set, mine)
	l.Jump(head, set, best)
	l.continueAt(rest)
	return result
}

// better returns the condition under which a value replaces the current minimum or maximum.
func better(x *ir.Map, max bool) ir.Cond {
	c := ir.ULT
	if x.Value.Signed {
		c = ir.SLT
	}
	if max {
		c = c.Swap()
	}
	return c
}
