// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"

	"btc/internal/manifest"
	"btc/ir"
)

// lowering is the state of one lowering pass: the module, and the builder at the value that
// is being replaced.
type lowering struct {
	*ir.Builder
	m     *ir.Module
	diags []ir.Diag
	nests map[string]bool // see nestingMaps; lower-aggregations only
	// taken has the ranges of the numbers that histograms receive; lower-aggregations only.
	taken map[*ir.Value]ir.Range
}

// rule lowers one op: it emits code through l and returns the replacement of v (nil for ops
// without result).
type rule func(l *lowering, v *ir.Value) *ir.Value

// rules maps ops to the rules that a pass applies.
type rules map[ir.Op]rule

// apply runs the rules over the whole module.
func (rs rules) apply(m *ir.Module) []ir.Diag { return rs.applyWith(&lowering{m: m}) }

func (rs rules) applyWith(l *lowering) []ir.Diag {
	for _, f := range l.m.Funcs {
		ir.Rewrite(f, func(b *ir.Builder, v *ir.Value) (*ir.Value, bool) {
			r, ok := rs[v.Op]
			if !ok {
				return nil, false
			}
			l.Builder = b
			return r(l, v), true
		})
	}
	return l.diags
}

// refuse reports a construct that cannot be compiled; it returns a value with which the
// pass can go on and find further errors.
func (l *lowering) refuse(v *ir.Value, hint, format string, args ...any) *ir.Value {
	l.diags = append(l.diags, ir.Diag{Pos: v.Pos, Text: fmt.Sprintf(format, args...), Hint: hint})
	return zeroOf(v.Type)
}

// zeroOf returns the zero value of a type; nil for void.
func zeroOf(t ir.Type) *ir.Value {
	switch t.Kind {
	case ir.Void:
		return nil
	case ir.I1:
		return ir.Bool(false)
	case ir.I64:
		return ir.Const(0)
	}
	return ir.Null(t)
}

// continueAt moves the insertion point to the start of blk.
func (l *lowering) continueAt(blk *ir.Block) { *l.Builder = *ir.At(blk, 0, l.Pos) }

// prog returns the program at the insertion point. Only programs have a context.
func (l *lowering) prog() *ir.Prog {
	p := l.Func().Prog
	if p == nil {
		panic("BUG: context builtin in subprogram " + l.Func().Name)
	}
	return p
}

// key32 returns the address of an array map's key.
func (l *lowering) key32(index *ir.Value) *ir.Value {
	k := l.Slot("index", 4, 4)
	l.Store(ir.U32, k, 0, index)
	return k
}

// lookup returns the nullable address of an element of the map called name.
func (l *lowering) lookup(name string, key *ir.Value) *ir.Value {
	return l.Call("map_lookup_elem", ir.TMapVal(name, true), ir.MapOperand(name), key)
}

// The flags of bpf_map_update_elem.
const (
	updateAny     = 0 // BPF_ANY
	updateNoExist = 1 // BPF_NOEXIST
	updateExist   = 2 // BPF_EXIST
)

// update calls bpf_map_update_elem; the result is 0 or a negative error. Before 6.4 the
// kernel calls the map's own function, which returns an int: the upper half of the register
// is not a sign extension.
func (l *lowering) update(name string, key, value *ir.Value, flags int64) *ir.Value {
	return l.Extend(ir.S32, l.Call("map_update_elem", ir.TI64, ir.MapOperand(name), key, value, ir.Const(flags)))
}

// intern finds or creates an internal map. The caller fills in its fields.
func intern(m *ir.Module, name, kind string, keySize, valueSize, entries int) *ir.Map {
	if x := m.Map(name); x != nil {
		return x
	}
	x := &ir.Map{Name: name, Shape: ir.ShapeIntern, Pos: ir.NoPos, BPF: ir.BPFMap{Name: name, Type: kind,
		KeySize: keySize, ValueSize: valueSize, MaxEntries: entries, Present: -1, Gens: 1, Loss: -1}}
	m.Maps = append(m.Maps, x)
	return x
}

// needLoss assigns x an index among the loss counters, words of the global "lost".
func needLoss(m *ir.Module, x *ir.Map) {
	if x.BPF.Loss >= 0 {
		return
	}
	lost := global(m, "lost", ir.GlobalData, 0)
	x.BPF.Loss = lost.Size / 8
	lost.Size += 8
}

// lose counts a loss of x: a record that did not fit, an element that could not be created, a
// scratch slot that was not free. All CPUs share the counter: these failures are rare or have
// taken a global lock anyway, and an atomic add takes 4 instructions, an update of a per-CPU map
// 18.
func (l *lowering) lose(x *ir.Map) {
	needLoss(l.m, x)
	p := l.GlobalAddr(ir.TMapVal(".bss", false), "lost", 8*l.lossHere(x))
	l.AtomicAdd(ir.U64, p, 0, ir.Const(1))
}

// lossHere returns the counter of the current position, among those where the script adds to x:
// each has its own, so that a message can name the position. An op at none of them counts
// as the first.
func (l *lowering) lossHere(x *ir.Map) int {
	for i := range x.Updates {
		u := &x.Updates[i]
		switch {
		case u.Pos != l.Pos:
			continue
		case u.Loss == 0 && i == 0:
			u.Loss = x.BPF.Loss + 1
		case u.Loss == 0:
			lost := global(l.m, "lost", ir.GlobalData, 0)
			lost.Size += 8
			u.Loss = lost.Size / 8
		}
		return u.Loss - 1
	}
	return x.BPF.Loss
}

// global finds or creates a global.
func global(m *ir.Module, name string, kind ir.GlobalKind, size int) *ir.Global {
	if g := m.Global(name); g != nil {
		return g
	}
	g := &ir.Global{Name: name, Kind: kind, Size: size}
	m.Globals = append(m.Globals, g)
	return g
}

// hostConst loads an 8-byte constant that the loader sets from the host.
func (l *lowering) hostConst(what manifest.HostValue) *ir.Value {
	global(l.m, string(what), ir.GlobalConst, 8)
	return l.Global(ir.U64, string(what), 0)
}
