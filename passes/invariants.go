package passes

import "btc/ir"

// invariants makes one value of builtins that cannot change while a program
// runs: who runs, where, and what the context holds. The program cannot leave
// its CPU (all kernels disable migration at least), and its context is constant.
//
// requires:    high IR
// establishes: of two equal invariant builtins neither dominates the other
// invalidates: nothing but the uses of what it removes
//
//	v1:i64 = tid
//	...
//	v5:i64 = tid
//	v6:i64 = add v5, 1
//	->
//	v1:i64 = tid
//	...
//	v6:i64 = add v1, 1
func mergeInvariants(m *ir.Module) []ir.Diag {
	for _, f := range m.Funcs {
		w := invariantWalk{d: ir.Dominators(f), known: map[invariant]*ir.Value{}, subst: ir.Subst{}}
		w.walk(f.Entry())
		w.subst.Apply(f)
	}
	return nil
}

// invariant is what two equal builtins have in common.
type invariant struct {
	op  ir.Op
	imm int64
	sym string
	arg *ir.Value
	t   ir.Type
}

func invariantOf(v *ir.Value) (invariant, bool) {
	k := invariant{op: v.Op, imm: v.Imm, sym: v.Sym, t: v.Type}
	switch v.Op {
	case ir.OpPid, ir.OpTid, ir.OpUid, ir.OpGid, ir.OpCPU, ir.OpCurtask, ir.OpCgroup, ir.OpNumaID, ir.OpNcpus, ir.OpAttachID:
		return k, true
	case ir.OpArg, ir.OpRetval, ir.OpFuncIP, ir.OpReg, ir.OpUsermode:
		k.arg = v.Args[0]
		return k, true
	}
	return k, false
}

type invariantWalk struct {
	d     *ir.DomTree
	known map[invariant]*ir.Value
	subst ir.Subst
}

// walk goes down the dominator tree; what a block adds is forgotten behind it.
func (w *invariantWalk) walk(b *ir.Block) {
	var added []invariant
	for i := 0; i < len(b.Values); i++ {
		v := b.Values[i]
		k, ok := invariantOf(v)
		if !ok {
			continue
		}
		if first := w.known[k]; first != nil {
			w.subst[v] = first
			b.Remove(i)
			i--
			continue
		}
		w.known[k] = v
		added = append(added, k)
	}
	for _, c := range w.d.Children(b) {
		w.walk(c)
	}
	for _, k := range added {
		delete(w.known, k)
	}
}
