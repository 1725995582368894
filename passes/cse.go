// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"slices"

	"btc/ir"
)

// cse is common subexpression elimination (CSE), by hash-based global value numbering (GVN): it
// merges equal values, which are pure ops with the same operands and reads of what cannot change
// while one program runs.
//
// requires:    -
// establishes: no two pure or stable values of equal operands where one dominates the other
// invalidates: use counts (no block or edge changes)
//
//	v1:i64 = pid
//	v2:i64 = add v0, 8
//	v3:i64 = pid
//	v4:i64 = add v0, 8
//	v5:i64 = nsecs
//	v6:i64 = nsecs                     ; the clock advances
//	->
//	v1:i64 = pid
//	v2:i64 = add v0, 8
//	v5:i64 = nsecs
//	v6:i64 = nsecs
//
// A process is reported to the loader only once, so a second seenproc is removed, too. So is a
// second read of memory that the program does not own, such as a pointer that is tested and
// followed, unless it is in a loop that the first is not in.
func cse(m *ir.Module) []ir.Diag {
	readsOnce := !writesForeign(m) && !ownAddressTaken(m)
	m.EachFunc(func(_ int, f *ir.Func) { cseFunc(m, f, readsOnce) })
	return nil
}

// stableHelpers are the helpers that ops with the trait Stable are lowered to.
var stableHelpers = map[string]bool{
	"get_current_pid_tgid": true, "get_current_uid_gid": true, "get_smp_processor_id": true, "get_current_task": true,
	"get_current_task_btf": true, "get_current_cgroup_id": true, "get_numa_node_id": true, "get_func_ip": true, "get_attach_cookie": true,
}

// mergeable reports whether equal operands have equal results throughout a run.
func mergeable(m *ir.Module, v *ir.Value) bool {
	switch {
	case v.Type.Kind == ir.Void, isFormTest(v):
		return false
	case v.Op.Info().Effect == ir.Pure, v.Op.Is(ir.Stable):
		return true
	case v.Op == ir.OpCall:
		return stableHelpers[v.Sym]
	case v.Op == ir.OpLoad:
		return v.Args[0].Type == ir.TCtx
	case v.Op == ir.OpGlobal:
		g := m.Global(v.Sym)
		return g != nil && g.Kind.Constant()
	}
	return false
}

// isFormTest reports whether v tests for an architecture or a helper. A loader that knows the result removes the test
// together with the branch after it (manifest.Form): another branch must have a test of its own.
func isFormTest(v *ir.Value) bool {
	if v.Op != ir.OpCORE {
		return false
	}
	_, helper := ir.HelperTest(v.CORE)
	_, arch := ir.ArchTest(v.CORE)
	return helper || arch
}

// hashOf returns a hash that is equal for equal values. It does not look at names: few values
// differ in nothing else.
func hashOf(v *ir.Value) uint64 {
	const prime = 1099511628211
	h := uint64(v.Op)<<8 ^ uint64(v.Mem)<<16 ^ uint64(v.Imm)
	sum := uint64(0)
	for i, a := range v.Args {
		x := uint64(a.ID+1)*prime ^ uint64(a.Imm)
		if !swappable(v) {
			x *= uint64(2*i + 3)
		}
		sum += x
	}
	return (h ^ sum) * prime
}

// swappable reports whether the operands may be exchanged (in an icmp, with the
// condition).
func swappable(v *ir.Value) bool {
	return len(v.Args) == 2 && (v.Op.Is(ir.Commutes) || v.Op == ir.OpICmp) && v.Args[0].Type == v.Args[1].Type
}

// equal reports whether two mergeable values are always the same.
func equal(v, w *ir.Value) bool {
	if v.Op != w.Op || v.Type != w.Type || v.Imm != w.Imm || v.Mem != w.Mem || v.Kind != w.Kind ||
		v.Sym != w.Sym || v.CORE != w.CORE || len(v.Args) != len(w.Args) {
		return false
	}
	if v.Cond == w.Cond && slices.EqualFunc(v.Args, w.Args, sameOperand) {
		return true
	}
	cond := w.Cond
	if v.Op == ir.OpICmp {
		cond = cond.Swap()
	}
	return swappable(v) && v.Cond == cond && sameOperand(v.Args[0], w.Args[1]) && sameOperand(v.Args[1], w.Args[0])
}

func cseFunc(m *ir.Module, f *ir.Func, readsOnce bool) {
	d := ir.Dominators(f)
	known := map[uint64][]*ir.Value{}
	subst := ir.Subst{}
	loops := ir.Loops(f, d)
	for _, b := range d.Order { // a dominator comes before what it dominates
		keep := b.Values[:0]
		for _, v := range b.Values {
			for i, a := range v.Args {
				v.Args[i] = subst.Of(a)
			}
			read := readsOnce && isRead(v)
			if !read && !mergeable(m, v) && v.Op != ir.OpSeenProc {
				keep = append(keep, v)
				continue
			}
			k := hashOf(v)
			anew := func(w *ir.Value) bool { return read && loops.Of(w.Block) != loops.Of(b) }
			if w := dominating(d, known[k], v, b, anew); w != nil {
				subst[v] = w
				v.Block = nil
				continue
			}
			known[k] = append(known[k], v)
			keep = append(keep, v)
		}
		b.Values = keep
	}
	subst.Apply(f)
}

// isRead reports whether v reads memory that programs do not write.
func isRead(v *ir.Value) bool {
	if v.Op != ir.OpRead {
		return false
	}
	switch v.Args[0].Type.Kind {
	case ir.KAddr, ir.UAddr, ir.Addr, ir.BTF, ir.Ctx:
		return true
	}
	return false
}

// ownAddressTaken reports whether the address of memory that the programs write, such
// as "&$x", becomes a number that a read may go through.
func ownAddressTaken(m *ir.Module) bool {
	for _, f := range m.Funcs {
		taken := map[*ir.Value]bool{}
		for _, b := range f.Blocks {
			for _, v := range b.Values {
				if v.Op == ir.OpCast && v.Args[0].Type.IsPtr() && v.Args[0].Type.Kind != ir.Ctx &&
					v.Args[0].Type.Kind != ir.BTF {
					taken[v] = true
				}
			}
		}
		if len(taken) == 0 {
			continue
		}
		for _, b := range f.Blocks {
			for _, v := range b.Values {
				for i, x := range v.Args {
					if taken[x] && !copies(v, i) {
						return true
					}
				}
			}
			escapes := false
			b.Term.Uses(func(x **ir.Value) { escapes = escapes || taken[*x] })
			if escapes {
				return true
			}
		}
	}
	return false
}

// copies reports whether v copies the memory at its i-th argument and keeps no address.
func copies(v *ir.Value, i int) bool {
	switch v.Op {
	case ir.OpStr, ir.OpReadMem:
		return i == 1
	}
	return v.Op == ir.OpCall || v.Op == ir.OpICmp
}

// writesForeign reports whether the module writes memory that programs do not own.
func writesForeign(m *ir.Module) bool {
	for _, f := range m.Funcs {
		for _, b := range f.Blocks {
			for _, v := range b.Values {
				if v.Op == ir.OpCall && (v.Sym == "probe_write_user" || v.Sym == "override_return") {
					return true
				}
			}
		}
	}
	return false
}

const maxEqual = 64

// dominating finds a value with v's hash that equals v and whose block dominates b, other
// than v itself. Of many candidates, such as the failure paths of each printf in a long
// clause, it looks only at the last ones.
func dominating(d *ir.DomTree, candidates []*ir.Value, v *ir.Value, b *ir.Block,
	other func(w *ir.Value) bool) *ir.Value {
	for _, w := range candidates[max(0, len(candidates)-maxEqual):] {
		if equal(v, w) && d.Dominates(w.Block, b) && !other(w) {
			return w
		}
	}
	return nil
}
