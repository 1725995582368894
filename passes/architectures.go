package passes

import (
	"btc/ir"
	"btc/ir/target"
)

// architectures writes out what differs between the architectures that the
// object serves: each value becomes a test, which a loader decides by a
// relocation, and a form for each of them. The kernel drops the test's losing
// side; our loader takes the test itself out, so that nothing of it is run.
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
			return l.byArch(func(a *target.Arch) *ir.Value { return l.savedOn(a, v.Sym, v.Args[0]) })
		},
		ir.OpPerArch: func(l *lowering, v *ir.Value) *ir.Value {
			return l.byArch(func(a *target.Arch) *ir.Value {
				n, _ := ir.PerArchValue(v.Sym, a)
				return ir.Const(n)
			})
		},
	}.apply(m)
}

// byArch is what make gives for the architecture that the program runs on.
func (l *lowering) byArch(make func(*target.Arch) *ir.Value) *ir.Value {
	return l.IfValue(l.OnX86(), ir.TI64,
		func() *ir.Value { return make(target.ArchByName("x86_64")) },
		func() *ir.Value { return make(target.ArchByName("arm64")) })
}

// saved reads what is kept among the registers of v's context. It stays one op
// as long as values are still to be recognised as equal.
func (l *lowering) saved(v *ir.Value, name string) *ir.Value {
	if len(l.m.Arches) < 2 {
		return l.savedOn(l.arch(), name, v.Args[0])
	}
	out := l.Emit(ir.OpSaved, ir.TI64, v.Args[0])
	out.Sym = name
	return out
}

// savedOn reads it where one architecture keeps it.
func (l *lowering) savedOn(a *target.Arch, name string, ctx *ir.Value) *ir.Value {
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
