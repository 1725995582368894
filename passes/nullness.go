// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"slices"

	"btc/ir"
)

// maxUndecided is how many elements with an undecided null test may live across a join: the
// kernel's verifier checks the code after the join once for each combination, which are
// 2^maxUndecided.
const maxUndecided = 2

// nullness finds where the result of a lookup is null on one path and not null on another.
type nullness struct {
	d     *ir.DomTree
	preds [][]ir.Pred
	// tests lists the blocks that only one side of a null test of the lookup leads to.
	tests map[*ir.Value][]*ir.Block
	// live lists, by Block.ID, the lookups that live across the join at its start.
	live [][]*ir.Value
}

func newNullness(f *ir.Func, d *ir.DomTree, preds [][]ir.Pred) *nullness {
	n := &nullness{d: d, preds: preds, tests: map[*ir.Value][]*ir.Block{}, live: make([][]*ir.Value, len(preds))}
	for _, b := range d.Order {
		test := b.Term.Arg
		if b.Term.Kind != ir.Br || test.Op != ir.OpICmp || test.Args[0].Op != ir.OpCall || !isLookup(test.Args[0]) {
			continue
		}
		for _, e := range b.Term.Succs {
			if len(preds[e.To.ID]) == 1 {
				n.tests[test.Args[0]] = append(n.tests[test.Args[0]], e.To)
			}
		}
	}
	return n
}

// decided reports whether all paths to b leave the same side of a test of v.
func (n *nullness) decided(v *ir.Value, b *ir.Block) bool {
	return slices.ContainsFunc(n.tests[v], func(side *ir.Block) bool { return n.d.Dominates(side, b) })
}

// extend reports whether the result of first may live as far as v. blocks are those on the
// paths between; it then counts their joins.
func (n *nullness) extend(first, v *ir.Value, blocks []*ir.Block) bool {
	if n.decided(first, v.Block) {
		return true
	}
	var joins []*ir.Block
	for _, b := range blocks {
		if len(n.preds[b.ID]) < 2 || slices.Contains(n.live[b.ID], first) || n.decided(first, b) {
			continue
		}
		if len(n.live[b.ID]) == maxUndecided {
			return false
		}
		joins = append(joins, b)
	}
	for _, b := range joins {
		n.live[b.ID] = append(n.live[b.ID], first)
	}
	return true
}
