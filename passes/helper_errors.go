// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"slices"

	"btc/ir"
)

// Errors of helpers are reported if the calling value has a site, which it has if the script was
// compiled for that (Meta.Sites). Otherwise the functions of this file emit no code.

// Kernel errors that are distinguished (asm-generic/errno-base.h).
const (
	errNoEntry = 2 // ENOENT: there is no such element
	errTooBig  = 7 // E2BIG: the map is full
)

// check reports to the loader when a helper's result r is negative. Before 6.4 some helpers
// return an int: the upper half of the register is not a sign extension.
func (l *lowering) check(helper string, r *ir.Value) {
	if l.Pos.Site == 0 {
		return
	}
	r = l.Extend(ir.S32, r)
	l.IfCold(l.ICmp(ir.SLT, r, ir.Const(0)), func() { l.failed(helper, r) })
}

// checkBut is like check, but does not report errno, which is not a failure here.
func (l *lowering) checkBut(helper string, r *ir.Value, errno int64) {
	if l.Pos.Site == 0 {
		return
	}
	r = l.Extend(ir.S32, r)
	l.IfCold(l.ICmp(ir.SLT, r, ir.Const(0)), func() {
		l.If(l.ICmp(ir.NE, r, ir.Const(-errno)), func() { l.failed(helper, r) }, nil)
	})
}

// absent reports to the loader that a map has no such element.
func (l *lowering) absent() {
	if l.Pos.Site > 0 {
		l.failed("map_lookup_elem", ir.Const(0))
	}
}

// checkSet reports to the loader when the scalar at p, whose slot always exists, was not
// set.
func (l *lowering) checkSet(x *ir.Map, key, p *ir.Value) {
	if key == nil && l.Pos.Site > 0 {
		l.IfCold(l.ICmp(ir.EQ, l.isSet(x, p), ir.Const(0)), l.absent)
	}
}

// failed reports to the loader that a helper failed, and its error.
func (l *lowering) failed(helper string, code *ir.Value) {
	e := l.ownEvent(ir.EvHelperError, "index", "code")
	l.send(e, ir.Const(int64(l.site(helper))), code)
}

// site returns the index of the message about a helper at the current position.
func (l *lowering) site(helper string) int {
	want := l.m.Meta.Sites[l.Pos.Site-1]
	want.Helper = helper
	for i, e := range l.m.Meta.Errors {
		if e.Helper == helper && e.Pos == want.Pos && e.End == want.End && slices.Equal(e.Chain, want.Chain) {
			return i
		}
	}
	l.m.Meta.Errors = append(l.m.Meta.Errors, want)
	return len(l.m.Meta.Errors) - 1
}

// at emits code that fails on behalf of a value other than the one that is being replaced.
func (l *lowering) at(v *ir.Value, code func()) {
	pos := l.Pos
	if v.Pos.Site > 0 {
		l.Pos = v.Pos
	}
	code()
	l.Pos = pos
}

// mayFail reports whether v's failure is reported, so that v is kept even if its result is
// unused.
func mayFail(v *ir.Value) bool {
	if v.Pos.Site == 0 {
		return false
	}
	switch v.Op {
	case ir.OpRead, ir.OpMapGet, ir.OpStr, ir.OpReadMem, ir.OpMapGetMem:
		return true
	}
	return false
}
