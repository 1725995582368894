// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"strings"

	"btc/ir"
)

// read-forwarding lets a helper that reads a number write it to its destination, a
// record or a key, instead of a temporary slot.
//
// requires:    core IR, slots without an offset
// establishes: -
// invalidates: liveness, use counts
//
//	call probe_read_user(s0+0, 4, v1)
//	v2:i64 = load.u32 [s0+0]
//	store.u32 [s1+16], v2
//	->
//	call probe_read_user(s1+16, 4, v1)
//
// On failure a helper writes zeros, as it would to the temporary slot. The bytes are
// written earlier than before: nothing between may read them.
func forwardReads(m *ir.Module) []ir.Diag {
	m.EachFunc(func(_ int, f *ir.Func) { forwardReadsFunc(f) })
	return nil
}

func forwardReadsFunc(f *ir.Func) {
	uses, mentions := map[*ir.Value]int{}, map[*ir.Slot]int{}
	f.Uses(func(v **ir.Value) {
		uses[*v]++
		if (*v).Op == ir.OpSlotAddr {
			mentions[(*v).Slot]++
		}
	})
	var into *slotUse
	for _, b := range f.Blocks {
		for i := 0; i < len(b.Values); i++ {
			store := b.Values[i]
			call, load := readBefore(b, store)
			if call == nil || uses[load] != 1 || uses[call] != 0 || mentions[load.Args[0].Slot] != 2 {
				continue
			}
			if into == nil {
				into = pointsInto(f)
			}
			if !untouched(into, b.Values[call.Index()+1:i], store) {
				continue
			}
			to := *store.Args[0]
			to.Imm += store.Imm
			call.Args[0] = &to
			b.Remove(i)
			b.Remove(load.Index())
			i -= 2
		}
	}
}

// readBefore returns the call and the load whose result, read in the same block, a store
// writes to a slot; nil when it writes something else.
func readBefore(b *ir.Block, store *ir.Value) (call, load *ir.Value) {
	if store.Op != ir.OpStore || store.CORE.Type != "" || store.Args[0].Op != ir.OpSlotAddr {
		return nil, nil
	}
	load = store.Args[1]
	if load.Op != ir.OpLoad || load.Block != b || load.CORE.Type != "" || load.Mem.Size() != store.Mem.Size() ||
		load.Args[0].Op != ir.OpSlotAddr || load.Args[0].Imm+load.Imm != 0 {
		return nil, nil
	}
	for i := load.Index() - 1; i >= 0; i-- {
		v := b.Values[i]
		if len(v.Args) == 0 || v.Args[0].Op != ir.OpSlotAddr || v.Args[0].Slot != load.Args[0].Slot {
			continue
		}
		size := int64(load.Mem.Size())
		if v.Op != ir.OpCall || v.Sym != "probe_read_user" && v.Sym != "probe_read_kernel" ||
			v.Args[0].Imm != 0 || !v.Args[1].IsConst() || v.Args[1].Imm != size {
			return nil, nil
		}
		return v, load
	}
	return nil, nil
}

// untouched reports whether none of the values accesses, or may access, the bytes that
// store writes.
func untouched(into *slotUse, values []*ir.Value, store *ir.Value) bool {
	slot := into.index[store.Args[0].Slot]
	first := store.Args[0].Imm + store.Imm
	for _, v := range values {
		for k, a := range v.Args {
			set := into.of(a)
			if set == nil || !set.has(slot) {
				continue
			}
			at, size := a.Imm, accessed(v)
			if v.Op != ir.OpCall {
				at += v.Imm
			}
			apart := at+size <= first || first+int64(store.Mem.Size()) <= at
			if k != 0 || a.Op != ir.OpSlotAddr || size < 0 || !apart {
				return false
			}
		}
	}
	return true
}

// accessed returns how many bytes v reads or writes at most through its first argument, -1 when
// unknown.
func accessed(v *ir.Value) int64 {
	switch v.Op {
	case ir.OpStore, ir.OpLoad:
		if v.CORE.Type == "" {
			return int64(v.Mem.Size())
		}
	case ir.OpCall:
		if strings.HasPrefix(v.Sym, "probe_read_") && v.Args[1].IsConst() {
			return v.Args[1].Imm
		}
	}
	return -1
}
