// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"fmt"
	"reflect"
	"slices"

	"btc/internal/arch"
)

// Difference is the reason why one module cannot support two targets.
type Difference struct {
	Pos  Pos
	Text string
}

// Unifier makes a module support the architectures of others, too, all compiled from the
// same script for different targets. Everything in the modules must be equal: the same
// maps, events and programs, value for value. Constants in the code may differ, and become
// constants that depend on the architecture.
type Unifier struct {
	m      *Module
	arches []*arch.Arch // m's and those of the modules that were added
	// uses are the operands that differ, in the order in which they were found.
	uses      []operand
	constants map[operand]map[*arch.Arch]int64
}

// operand is the argument arg of a value.
type operand struct {
	user *Value
	arg  int
}

// NewUnifier starts with m alone.
func NewUnifier(m *Module) *Unifier {
	return &Unifier{m: m, arches: []*arch.Arch{m.Target.Arch()}, constants: map[operand]map[*arch.Arch]int64{}}
}

// Add compares another module with the first. A module that differs is not added.
func (u *Unifier) Add(other *Module) *Difference { return u.add(other, other.Target.Arch()) }

func (u *Unifier) add(other *Module, a *arch.Arch) *Difference {
	c := &unifier{}
	c.module(u.m, other)
	if c.diff != nil {
		return c.diff
	}
	if slices.Contains(u.arches, a) {
		return nil
	}
	u.arches = append(u.arches, a)
	for _, d := range c.constants {
		if u.constants[d.operand] == nil {
			u.constants[d.operand] = map[*arch.Arch]int64{}
			u.uses = append(u.uses, d.operand)
		}
		u.constants[d.operand][a] = d.value
	}
	return nil
}

// Apply changes the constants of the first module that depend on the architecture.
func (u *Unifier) Apply() {
	for _, o := range u.uses {
		at, others := At(o.user.Block, o.user.Index(), o.user.Pos), u.constants[o]
		first := o.user.Args[o.arg].Imm
		o.user.Args[o.arg] = at.PerArch(u.arches, func(a *arch.Arch) int64 {
			if n, ok := others[a]; ok {
				return n
			}
			return first
		})
	}
}

// unifier compares one other module.
type unifier struct {
	diff      *Difference
	constants []otherConstant
	// The values, blocks and slots of other that correspond to m's, by their IDs: other's IDs may differ.
	values []*Value
	blocks []*Block
	slots  []*Slot
}

// otherConstant is an operand of the first module with the constant that the other has.
type otherConstant struct {
	operand
	value int64
}

func (u *unifier) differ(p Pos, format string, args ...any) {
	if u.diff == nil {
		u.diff = &Difference{p, fmt.Sprintf(format, args...)}
	}
}

func (u *unifier) module(m, other *Module) {
	switch {
	case len(m.Maps) != len(other.Maps) || len(m.Events) != len(other.Events) || len(m.Globals) != len(other.Globals):
		u.differ(NoPos, "maps or messages differ there")
	case len(m.Funcs) != len(other.Funcs):
		u.differ(NoPos, "the script's patterns match different probes there")
	}
	if u.diff != nil {
		return
	}
	for i, x := range m.Maps {
		if !reflect.DeepEqual(x, other.Maps[i]) {
			u.differ(x.Pos, "%s has a different type there", x.Name)
		}
	}
	for i, e := range m.Events {
		if !reflect.DeepEqual(e, other.Events[i]) {
			u.differ(e.Pos, "the arguments have different types there")
		}
	}
	for i, g := range m.Globals {
		if !reflect.DeepEqual(g, other.Globals[i]) {
			u.differ(NoPos, "the constants of %s differ there", g.Name)
		}
	}
	if !reflect.DeepEqual(m.Meta, other.Meta) {
		u.differ(NoPos, "settings differ there")
	}
	for i, f := range m.Funcs {
		u.function(f, other.Funcs[i])
	}
}

func (u *unifier) function(f, g *Func) {
	if f.Name != g.Name || !reflect.DeepEqual(f.Prog, g.Prog) || !reflect.DeepEqual(f.Params, g.Params) ||
		len(f.Blocks) != len(g.Blocks) || len(f.Slots) != len(g.Slots) {
		u.differ(f.Pos, "the program of the probe differs there")
		return
	}
	u.values, u.blocks, u.slots = make([]*Value, f.nextValue), make([]*Block, f.nextBlock), make([]*Slot, f.nextSlot)
	for i, s := range f.Slots {
		u.slots[s.ID] = g.Slots[i]
		if s.Size != g.Slots[i].Size || s.Align != g.Slots[i].Align {
			u.differ(f.Pos, "an object has a different size there")
		}
	}
	for i, b := range f.Blocks {
		c := g.Blocks[i]
		u.blocks[b.ID] = c
		if len(b.Params) != len(c.Params) || len(b.Values) != len(c.Values) {
			u.differ(f.Pos, "the program of the probe differs there")
			return
		}
		for j, v := range b.Params {
			u.values[v.ID] = c.Params[j]
		}
		for j, v := range b.Values {
			u.values[v.ID] = c.Values[j]
		}
	}
	for i, b := range f.Blocks {
		u.block(f, b, g.Blocks[i])
	}
}

func (u *unifier) block(f *Func, b, c *Block) {
	if b.Cold != c.Cold || b.Term.Kind != c.Term.Kind || len(b.Term.Succs) != len(c.Term.Succs) {
		u.differ(f.Pos, "the program of the probe differs there")
		return
	}
	for i, v := range b.Params {
		if v.Type != c.Params[i].Type {
			u.differ(f.Pos, "the program of the probe differs there")
		}
	}
	for i, v := range b.Values {
		u.value(v, c.Values[i])
	}
	if b.Term.Arg != nil && !u.same(b.Term.Arg, c.Term.Arg) {
		u.differ(b.Term.Pos, "a condition differs there")
	}
	for i, e := range b.Term.Succs {
		d := c.Term.Succs[i]
		same := u.blocks[e.To.ID] == d.To && len(e.Args) == len(d.Args)
		for j := 0; same && j < len(e.Args); j++ {
			same = u.same(e.Args[j], d.Args[j])
		}
		if !same {
			u.differ(b.Term.Pos, "a value differs there")
		}
	}
}

func (u *unifier) value(v, w *Value) {
	if v.Op != w.Op || v.Type != w.Type || v.Imm != w.Imm || v.Mem != w.Mem || v.Cond != w.Cond ||
		v.Sym != w.Sym || v.CORE != w.CORE || v.Kind != w.Kind || len(v.Args) != len(w.Args) {
		u.differ(v.Pos, "it has a different type or position there")
		return
	}
	for i, x := range v.Args {
		y := w.Args[i]
		switch {
		case u.same(x, y):
		case x.IsConst() && y.IsConst() && x.Type == TI64 && y.Type == TI64 && computes(v.Op):
			u.constants = append(u.constants, otherConstant{operand{v, i}, y.Imm})
		default:
			u.differ(v.Pos, "a value differs there")
		}
	}
}

// computes reports whether any integer may be an operand, not only a constant.
func computes(op Op) bool {
	switch op {
	case OpAdd,
		OpSub,
		OpMul,
		OpUDiv,
		OpUMod,
		OpAnd,
		OpOr,
		OpXor,
		OpShl,
		OpLShr,
		OpAShr,
		OpZext,
		OpSext,
		OpICmp,
		OpSelect,
		OpStore,
		OpMapSet,
		OpMapAdd,
		OpSum,
		OpAvg,
		OpMin,
		OpMax,
		OpStats,
		OpHist,
		OpLhist:
		return true
	}
	return false
}

// same compares operands.
func (u *unifier) same(x, y *Value) bool {
	if !x.Op.Info().Inline || x.Op == OpParam {
		return u.values[x.ID] == y // compared at their definitions
	}
	if (x.Slot == nil) != (y.Slot == nil) || x.Slot != nil && u.slots[x.Slot.ID] != y.Slot {
		return false
	}
	return x.Op == y.Op && x.Type == y.Type && x.Sym == y.Sym && x.Imm == y.Imm
}
