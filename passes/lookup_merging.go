// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"strings"

	"btc/ir"
)

// lookup-merging is common subexpression elimination of map lookups (lookup merging): accesses to
// one element share one lookup, so that
//
//	kretprobe:f /@start[tid]/ { @ns = hist(nsecs - @start[tid]); delete(@start[tid]); }
//
// needs one lookup and one delete. Keys with equal contents share one slot.
//
// A pointer that is null on one path to a join and not null on another is two states of the
// kernel's verifier, and n such pointers are 2^n states: nullness limits how many live
// across a join. Lookups beyond the limit are kept.
//
// requires:    core IR, slots not placed
// establishes: between two equal lookups, one dominating the other, there is an update or
// delete of their map or a change of their key
// invalidates: nothing but the uses of what it removes
//
//	store.u64 [s0+0], v1
//	v2:mapval(@x)? = call map_lookup_elem(@x, s0+0)
//	...
//	store.u64 [s1+0], v1
//	v5:mapval(@x)? = call map_lookup_elem(@x, s1+0)
//	->
//	store.u64 [s0+0], v1
//	v2:mapval(@x)? = call map_lookup_elem(@x, s0+0)
//	...                                               ; v5 is v2
//
// Another CPU may delete the element in between. Its memory stays valid until the program
// ends (RCU); the program then sees the value as of the first lookup.
func lookupMerging(m *ir.Module) []ir.Diag {
	m.EachFunc(func(_ int, f *ir.Func) {
		ir.RemoveUnreachable(f)
		d := ir.Dominators(f)
		mergeKeys(f, d)
		mergeCalls(f, d)
	})
	return nil
}

// keyWrite is one write to a key slot.
type keyWrite struct {
	off, size int64
	what      *ir.Value // value stored; nil for the name of the current thread
	text      string    // a constant's identity
}

// key is a slot that serves as a key only: written completely before its first
// use, in one block, by stores and get_current_comm.
type key struct {
	slot   *ir.Slot
	block  *ir.Block
	last   int // position of the last write
	writes []keyWrite
}

// mergeKeys replaces each key slot by an equal one that is complete at the other one's
// first write.
func mergeKeys(f *ir.Func, d *ir.DomTree) {
	keys := findKeys(f, d)
	same := map[*ir.Slot]*ir.Slot{}
	seen := map[keyHash][]*key{}
	for _, k := range keys {
		h := k.hash()
		alike := seen[h]
		for _, first := range alike[:min(len(alike), maxAlike)] {
			if first.before(k, d) && first.equal(k) {
				same[k.slot] = first.slot
				break
			}
		}
		if same[k.slot] == nil {
			seen[h] = append(alike, k)
		}
	}
	if len(same) == 0 {
		return
	}
	for _, b := range f.Blocks {
		kept := b.Values[:0]
		for _, v := range b.Values {
			if w, ok := writeOf(v); ok && same[w] != nil {
				v.Block = nil
				continue
			}
			kept = append(kept, v)
		}
		b.Values = kept
	}
	f.Uses(func(v **ir.Value) {
		if (*v).Op == ir.OpSlotAddr && same[(*v).Slot] != nil {
			*v = ir.SlotAddr(same[(*v).Slot], int((*v).Imm))
		}
	})
}

// keyHash is equal for equal keys.
type keyHash struct {
	size, writes int
	last         keyWrite
}

// maxAlike bounds the keys of one hash that a key is compared with.
const maxAlike = 64

func (k *key) hash() keyHash {
	return keyHash{k.slot.Size, len(k.writes), k.writes[len(k.writes)-1]}
}

func (k *key) equal(o *key) bool {
	if k.slot.Size != o.slot.Size || len(k.writes) != len(o.writes) {
		return false
	}
	for i := range k.writes {
		if k.writes[i] != o.writes[i] {
			return false
		}
	}
	return true
}

// before reports whether k is complete before o's writes begin.
func (k *key) before(o *key, d *ir.DomTree) bool {
	if k.block == o.block {
		return k.last < o.last
	}
	return d.Dominates(k.block, o.block)
}

// writeOf returns the write to a key slot that v does.
func writeOf(v *ir.Value) (*ir.Slot, bool) {
	switch {
	case v.Op == ir.OpStore && v.Args[0].Op == ir.OpSlotAddr,
		v.Op == ir.OpCall && v.Sym == "get_current_comm" && v.Args[0].Op == ir.OpSlotAddr:
		return v.Args[0].Slot, true
	}
	return nil, false
}

func newWrite(v *ir.Value) keyWrite {
	w := keyWrite{off: v.Args[0].Imm + v.Imm}
	if v.Op == ir.OpCall {
		w.size = v.Args[1].Imm
		return w
	}
	w.size, w.what = int64(v.Mem.Size()), v.Args[1]
	if w.what.ID < 0 { // inline operands are equal if they print alike
		w.text, w.what = v.Args[1].Text(), nil
	}
	return w
}

// findKeys lists the key slots so that a dominating one comes before those it dominates.
func findKeys(f *ir.Func, d *ir.DomTree) []*key {
	of := map[*ir.Slot]*key{}
	bad := map[*ir.Slot]bool{}
	var order []*key
	for _, b := range d.Order {
		for i, v := range b.Values {
			slot, writes := writeOf(v)
			for j, a := range v.Args {
				if a.Op != ir.OpSlotAddr {
					continue
				}
				k := of[a.Slot]
				switch {
				case writes && j == 0 && a.Slot == slot:
					if k == nil {
						k = &key{slot: slot, block: b}
						of[slot] = k
						order = append(order, k)
					}
					if k.block != b || k.last < 0 {
						bad[slot] = true // written in another block, or after a use
					}
					k.last = i
					k.writes = append(k.writes, newWrite(v))
				case isKeyUse(v, j) && a.Imm == 0 && k != nil && d.Dominates(k.block, b):
					if k.block == b {
						k.last = -k.last - 1 // closed
					}
				default:
					bad[a.Slot] = true
				}
			}
		}
		b.Term.Uses(func(v **ir.Value) {
			if (*v).Op == ir.OpSlotAddr {
				bad[(*v).Slot] = true
			}
		})
	}
	var keys []*key
	for _, k := range order {
		if k.last < 0 {
			k.last = -k.last - 1
		}
		if !bad[k.slot] {
			keys = append(keys, k)
		}
	}
	return keys
}

// isKeyUse reports whether operand j of v is a map's key.
func isKeyUse(v *ir.Value, j int) bool {
	return j == 1 && v.Op == ir.OpCall && strings.HasPrefix(v.Sym, "map_") && strings.HasSuffix(v.Sym, "_elem")
}

func isLookup(v *ir.Value) bool {
	return v.Op == ir.OpCall && v.Sym == "map_lookup_elem" && v.Args[1].Op == ir.OpSlotAddr
}

// mergeCalls replaces lookups by equal ones that dominate them.
func mergeCalls(f *ir.Func, d *ir.DomTree) {
	between := &between{preds: ir.Preds(f)}
	between.visited = make([]int32, len(between.preds))
	live := newNullness(f, d, between.preds)
	subst := ir.Subst{}
	seen := map[lookupKey][]*ir.Value{}
	for _, b := range d.Order {
		for i := 0; i < len(b.Values); i++ {
			v := b.Values[i]
			if !isLookup(v) {
				continue
			}
			key := lookupKey{v.Args[0].Sym, v.Args[1].Slot, v.Args[1].Imm}
			if first := sameLookup(seen[key], v, d, between, live); first != nil {
				subst[v] = first
				live.tests[first] = append(live.tests[first], live.tests[v]...)
				b.Remove(i)
				i--
				continue
			}
			seen[key] = append(seen[key], v)
		}
	}
	subst.Apply(f)
}

// lookupKey is equal for lookups in one map with the key in one slot.
type lookupKey struct {
	mapName string
	slot    *ir.Slot
	off     int64
}

// Bounds of the search for an equal lookup, which would be quadratic for a clause of ten
// thousand statements.
const (
	maxCandidates = 16  // the last ones
	maxBetween    = 128 // blocks on the paths between two lookups
)

// sameLookup finds a lookup whose result equals v's, and that the verifier can follow as
// far as v.
func sameLookup(seen []*ir.Value, v *ir.Value, d *ir.DomTree, between *between, live *nullness) *ir.Value {
	for _, first := range seen[max(0, len(seen)-maxCandidates):] {
		if d.Dominates(first.Block, v.Block) && !between.changed(first, v) && live.extend(first, v, between.blocks) {
			return first
		}
	}
	return nil
}

// between searches the paths between two lookups.
type between struct {
	preds   [][]ir.Pred
	visited []int32 // by Block.ID: the last search that saw the block
	search  int32
	work    []*ir.Block
	blocks  []*ir.Block // blocks that the last search visited after first's block
}

// changed reports whether some path from first to v changes the key or the set of elements
// of the map.
func (s *between) changed(first, v *ir.Value) bool {
	changes := func(vs []*ir.Value) bool {
		for _, x := range vs {
			if changesElement(x, v) {
				return true
			}
		}
		return false
	}
	s.blocks = s.blocks[:0]
	i, j := first.Index(), v.Index()
	if first.Block == v.Block && i < j {
		return changes(v.Block.Values[i+1 : j])
	}
	if changes(first.Block.Values[i+1:]) || changes(v.Block.Values[:j]) {
		return true
	}
	// Backwards from v: each path ends at first, which dominates it, also one around a loop.
	s.search++
	s.visited[first.Block.ID] = s.search
	s.work = append(s.work[:0], v.Block)
	s.blocks = append(s.blocks, v.Block)
	for len(s.work) > 0 {
		b := s.work[len(s.work)-1]
		s.work = s.work[:len(s.work)-1]
		for _, p := range s.preds[b.ID] {
			if s.visited[p.Block.ID] == s.search {
				continue
			}
			s.visited[p.Block.ID] = s.search
			if len(s.blocks) == maxBetween || changes(p.Block.Values) {
				return true
			}
			s.work = append(s.work, p.Block)
			s.blocks = append(s.blocks, p.Block)
		}
	}
	return false
}

// changesElement reports whether x may change the result of lookup v. A helper with the key
// as an operand other than a map's key may write it.
func changesElement(x, v *ir.Value) bool {
	if x.Op == ir.OpCallSub {
		return true
	}
	if x.Op == ir.OpCall && (x.Sym == "map_update_elem" || x.Sym == "map_delete_elem") &&
		x.Args[0].Sym == v.Args[0].Sym {
		return true
	}
	for j, a := range x.Args {
		if a.Op == ir.OpSlotAddr && a.Slot == v.Args[1].Slot && !isKeyUse(x, j) && x.Op != ir.OpLoad {
			return true
		}
	}
	return false
}
