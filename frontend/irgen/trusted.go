// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"btc/frontend/check"
	"btc/ir"
)

// maxErrno is the largest error number that a pointer can encode (MAX_ERRNO).
const maxErrno = 4095

// withTrusted calls use with a pointer whose type the kernel knows, guarded against null and error numbers: before
// 5.16, passing one of those to a helper crashed the host.
func (f *fn) withTrusted(t *check.Trusted, use func(at *ir.Value)) {
	switch {
	case t.Value != nil:
		v := f.num(t.Value)
		for _, one := range t.Any {
			f.withTrusted(one, func(at *ir.Value) {
				f.onlyIf(f.ICmp(ir.EQ, v, f.Cast(ir.TI64, at)), func() { use(at) })
			})
		}
	case t.From != nil:
		f.withTrusted(t.From, func(at *ir.Value) {
			for _, s := range t.Steps {
				a := f.Emit(ir.OpFieldAddr, at.Type, at)
				a.CORE = ir.CORERef{Type: s.CORE, Path: s.Path}
				at = a
			}
			if !t.Load {
				use(at)
				return
			}
			f.unlessNull(f.LoadAs(ir.TBTF(t.Type, true), ir.U64, at, 0), use)
		})
	case t.Iterated:
		v := f.LoadAs(ir.TBTF(t.Type, false), ir.U64, f.ctx, 8*t.Slot)
		f.endUnless(v)
		use(v)
	default:
		f.unlessNull(f.LoadAs(ir.TBTF(t.Type, true), ir.U64, f.ctx, 8*t.Slot), func(at *ir.Value) {
			if !t.Result {
				use(at)
				return
			}
			f.onlyIf(f.ICmp(ir.ULT, f.Cast(ir.TI64, at), ir.Const(-maxErrno)), func() { use(at) })
		})
	}
}

func (f *fn) unlessNull(p *ir.Value, use func(at *ir.Value)) {
	f.onlyIf(f.NotNull(p), func() { use(f.NonNull(p)) })
}

// onlyIf generates code that runs if a condition is true.
func (f *fn) onlyIf(cond *ir.Value, then func()) {
	yes, rest := f.f.NewBlock(), f.f.NewBlock()
	f.branch(cond, yes, rest)
	f.start(yes, true)
	then()
	f.jump(rest)
	f.start(rest, true)
}
