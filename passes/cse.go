package passes

import "btc/ir"

// cse makes one of equal values: pure ops of the same operands, and reads of
// what cannot change while one program runs.
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
//	v6:i64 = nsecs                     ; a clock goes on
//	->
//	v1:i64 = pid
//	v2:i64 = add v0, 8
//	v5:i64 = nsecs
//	v6:i64 = nsecs
func cse(m *ir.Module) []ir.Diag {
	for _, f := range m.Funcs {
		cseFunc(m, f)
	}
	return nil
}

// stableOps read what stays the same for one run of a program: who runs, on
// which CPU (the kernel disables migration), and the saved registers.
var stableOps = map[ir.Op]bool{
	ir.OpPid: true, ir.OpTid: true, ir.OpUid: true, ir.OpGid: true, ir.OpCPU: true, ir.OpCurtask: true, ir.OpCgroup: true,
	ir.OpNumaID: true, ir.OpNcpus: true, ir.OpArg: true, ir.OpRetval: true, ir.OpFuncIP: true, ir.OpReg: true, ir.OpUsermode: true,
}

// stableHelpers are the helpers behind them.
var stableHelpers = map[string]bool{
	"get_current_pid_tgid": true, "get_current_uid_gid": true, "get_smp_processor_id": true, "get_current_task": true,
	"get_current_task_btf": true, "get_current_cgroup_id": true, "get_numa_node_id": true, "get_func_ip": true, "get_attach_cookie": true,
}

// mergeable reports whether equal operands give equal results throughout a run.
func mergeable(m *ir.Module, v *ir.Value) bool {
	switch {
	case v.Type.Kind == ir.Void:
		return false
	case v.Op.Info().Effect == ir.Pure, stableOps[v.Op]:
		return true
	case v.Op == ir.OpCall:
		return stableHelpers[v.Sym]
	case v.Op == ir.OpLoad:
		return v.Args[0].Type == ir.TCtx
	case v.Op == ir.OpGlobal:
		g := m.Global(v.Sym)
		return g != nil && g.Kind != ir.GlobalData
	}
	return false
}

// valueKey says when two values are equal. An op has at most three operands
// here.
type valueKey struct {
	op   ir.Op
	typ  ir.Type
	imm  int64
	mem  ir.MemKind
	cond ir.Cond
	kind ir.COREKind
	sym  string
	core ir.CORERef
	args [3]operandKey
}

type operandKey struct {
	id   int // -1 for inline operands
	op   ir.Op
	typ  ir.Type
	imm  int64
	sym  string
	slot *ir.Slot
}

func keyOfOperand(v *ir.Value) operandKey {
	if v.ID >= 0 {
		return operandKey{id: v.ID}
	}
	return operandKey{-1, v.Op, v.Type, v.Imm, v.Sym, v.Slot}
}

func keyOfValue(v *ir.Value) valueKey {
	k := valueKey{op: v.Op, typ: v.Type, imm: v.Imm, mem: v.Mem, cond: v.Cond, kind: v.Kind, sym: v.Sym, core: v.CORE}
	for i, a := range v.Args {
		k.args[i] = keyOfOperand(a)
	}
	swappable := commutes[v.Op] || v.Op == ir.OpICmp
	if swappable && len(v.Args) == 2 && k.args[0].id >= 0 && k.args[1].id >= 0 && k.args[0].id > k.args[1].id && v.Args[0].Type == v.Args[1].Type {
		k.args[0], k.args[1] = k.args[1], k.args[0]
		if v.Op == ir.OpICmp {
			k.cond = k.cond.Swap()
		}
	}
	return k
}

func cseFunc(m *ir.Module, f *ir.Func) {
	d := ir.Dominators(f)
	known := map[valueKey][]*ir.Value{}
	subst := ir.Subst{}
	for _, b := range d.Order { // a dominator comes before what it dominates
		keep := b.Values[:0]
		for _, v := range b.Values {
			for i, a := range v.Args {
				v.Args[i] = subst.Of(a)
			}
			if !mergeable(m, v) || len(v.Args) > 3 {
				keep = append(keep, v)
				continue
			}
			k := keyOfValue(v)
			if w := dominating(d, known[k], b); w != nil {
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

// dominating finds a value among equal ones whose block dominates b.
func dominating(d *ir.DomTree, equal []*ir.Value, b *ir.Block) *ir.Value {
	for _, v := range equal {
		if d.Dominates(v.Block, b) {
			return v
		}
	}
	return nil
}
