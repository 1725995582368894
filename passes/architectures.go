// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"slices"

	"btc/internal/arch"
	"btc/ir"
)

// architectures expands ops whose code differs between the architectures that the object
// supports: each value becomes a chain of tests, which the loader decides by relocations,
// and one form per architecture. The kernel drops the dead forms; btrun also removes the
// tests, so they cost nothing at run time.
//
// requires:    core ops; an object for one architecture has nothing to do
// establishes: no saved, no perarch
// invalidates: blocks and edges
//
//	v1:i64 = saved arg0(v0)
//	->
//	  v1:i64 = core field_exists field(struct pt_regs___x86_64:di)
//	  v2:i1 = icmp ne v1, 0
//	  br v2, b1, b2
//	b1:
//	  v3:i64 = load.u64 [v0+112]
//	  jump b3(v3)
//	b2:
//	  v4:i64 = load.u64 [v0+0]
//	  jump b3(v4)
//	b3(v5:i64):
func architectures(m *ir.Module) []ir.Diag {
	if len(m.Arches) < 2 {
		return nil
	}
	return rules{
		ir.OpSaved: func(l *lowering, v *ir.Value) *ir.Value {
			return l.byArch(func(a *arch.Arch) *ir.Value { return l.savedOn(a, v.Sym, v.Args[0]) })
		},
		ir.OpPerArch: func(l *lowering, v *ir.Value) *ir.Value {
			return l.byArch(func(a *arch.Arch) *ir.Value {
				n, _ := ir.PerArchValue(v.Sym, a)
				return ir.Const(n)
			})
		},
	}.apply(m)
}

// byArch returns the result of make for the architecture that the program runs on. The tests
// are in the order of the table of architectures.
func (l *lowering) byArch(make func(*arch.Arch) *ir.Value) *ir.Value {
	served := slices.DeleteFunc(slices.Clone(arch.All()),
		func(a *arch.Arch) bool { return !slices.Contains(l.m.Arches, a) })
	var from func(i int) *ir.Value
	from = func(i int) *ir.Value {
		if i == len(served)-1 {
			return make(served[i])
		}
		return l.IfValue(l.OnArch(served[i]), ir.TI64,
			func() *ir.Value { return make(served[i]) },
			func() *ir.Value { return from(i + 1) })
	}
	return from(0)
}

// saved reads a value kept among the registers of v's context. It stays one op until common
// subexpressions have been eliminated.
func (l *lowering) saved(v *ir.Value, name string) *ir.Value {
	if len(l.m.Arches) < 2 {
		return l.savedOn(l.arch(), name, v.Args[0])
	}
	out := l.Emit(ir.OpSaved, ir.TI64, v.Args[0])
	out.Sym = name
	return out
}

// savedOn reads it at the offset at which one architecture keeps it.
func (l *lowering) savedOn(a *arch.Arch, name string, ctx *ir.Value) *ir.Value {
	s, ok := a.Saved(name)
	if !ok {
		panic("BUG: " + a.Name + " has no " + name)
	}
	n := l.AddImm(l.Load(ir.U64, ctx, s.Offset), s.Add)
	if s.Mask == 0 {
		return n
	}
	return l.BoolInt(l.ICmp(ir.EQ, l.And(n, ir.Const(s.Mask)), ir.Const(s.Want)))
}
