// SPDX-License-Identifier: Apache-2.0

package isel

import (
	"math/bits"
	"slices"

	"btc/ir"
)

// findUnread finds extensions whose new bits are never read (demanded bits), as when a
// value is only stored in as many bytes, perhaps through a block's parameter. They become
// their argument, and loads ignore the sign.
//
//	b1: v1 = load.s32 ..; jump b3(v1)
//	b2: v2 = ...; jump b3(v2)
//	b3(v3): store.u32 .., v3
func (s *selector) findUnread() {
	extends := func(v *ir.Value) bool {
		switch v.Op {
		case ir.OpSext, ir.OpZext:
			return s.alias[v.ID] == nil && !s.isPointer(v.Args[0])
		case ir.OpLoad, ir.OpGlobal:
			return v.Mem.Signed()
		}
		return false
	}
	if !slices.ContainsFunc(s.order, func(b *ir.Block) bool { return slices.ContainsFunc(b.Values, extends) }) {
		return
	}
	read := s.readBits()
	for _, b := range s.order {
		for _, v := range b.Values {
			if !extends(v) || read[v.ID] > 8*v.Mem.Size() {
				continue
			}
			if v.Op == ir.OpSext || v.Op == ir.OpZext {
				s.alias[v.ID] = v.Args[0]
			} else {
				s.plain[v.ID] = true
			}
		}
	}
}

// isPointer reports whether v is a pointer for the kernel: only a 32-bit move makes a
// number of it.
func (s *selector) isPointer(v *ir.Value) bool {
	for {
		if v = s.resolve(v); v.Type.IsPtr() || v.Op == ir.OpParam || v.Op == ir.OpSelect {
			return true
		}
		if v.Op != ir.OpAdd && v.Op != ir.OpSub {
			return false
		}
		v = v.Args[0]
	}
}

// readBits returns, by Value.ID, how many of the lower bits of each value are demanded.
func (s *selector) readBits() []int {
	read := make([]int, len(s.alias))
	changed := true
	need := func(v *ir.Value, n int) {
		if v.ID >= 0 && read[v.ID] < n {
			read[v.ID], changed = n, true
		}
	}
	for changed {
		changed = false
		for n := len(s.order) - 1; n >= 0; n-- {
			b := s.order[n]
			t := &b.Term
			if t.Arg != nil {
				need(t.Arg, 64)
			}
			for _, n := range liveSuccs(b) {
				for i, a := range t.Succs[n].Args {
					need(a, read[t.Succs[n].To.Params[i].ID])
				}
			}
			for i := len(b.Values) - 1; i >= 0; i-- {
				needs(b.Values[i], read[b.Values[i].ID], need)
			}
		}
	}
	return read
}

// needs calls need for v's arguments when the lower n bits of v are read.
func needs(v *ir.Value, n int, need func(v *ir.Value, n int)) {
	switch v.Op {
	case ir.OpStore:
		need(v.Args[0], 64)
		need(v.Args[1], 8*v.Mem.Size())
		return
	case ir.OpZext, ir.OpSext:
		need(v.Args[0], min(n, 8*v.Mem.Size()))
		return
	case ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpOr, ir.OpXor: // carries only go up
		need(v.Args[0], n)
		need(v.Args[1], n)
		return
	case ir.OpAnd:
		for i, a := range v.Args {
			m := n
			if c := v.Args[1-i]; c.IsConst() {
				m = min(n, bits.Len64(uint64(c.Imm)))
			}
			need(a, m)
		}
		return
	case ir.OpShl:
		if c := v.Args[1]; c.IsConst() {
			need(v.Args[0], max(0, n-int(c.Imm&63)))
			return
		}
	case ir.OpSelect:
		need(v.Args[0], 64)
		need(v.Args[1], n)
		need(v.Args[2], n)
		return
	}
	for _, a := range v.Args {
		need(a, 64)
	}
}
