// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"slices"

	"btc/internal/probe"
	"btc/ir"
)

// opaque-values limits path explosion in the kernel's verifier, by hiding values that it knows to
// be different on different paths. A value that is one of two constants and is tested later, or a
// value that is tested twice, makes two states on each path to the last test; n such values that
// are live at once make 2^n states. An opaque copy makes one.
//
// requires:    core IR; loops are in their last form
// establishes: at most maxKnown values of the script that are known to differ by path are live
// across a join, not counting those whose range the verifier must know
// invalidates: use counts, liveness, ranges
//
//	b3(v5:i64):                          ; 7 or 100
//	  ...                                ; more of them, live at one join
//	  v21:i1 = icmp eq v5, 7
//	->
//	b3(v5:i64):
//	  v40:i64 = opaque v5
//	  ...
//	  v21:i1 = icmp eq v40, 7
//
// Values that are part of an address, operands of a call, or control a loop stay known.
func opaqueValues(m *ir.Module) []ir.Diag {
	m.EachFunc(func(_ int, f *ir.Func) {
		if k := newKnown(f); k != nil {
			k.hide(k.crowded())
		}
	})
	return nil
}

// maxKnown is how many values may be known to differ by path at a join: 2^2 states there. The verifier
// compares a path that arrives at an instruction with the states it kept there, and walks on unless one of them
// covers it: a known number that a later branch depends on is precise (5.3), and only a state whose range
// contains it covers it (regsafe and is_state_visited in kernel/bpf/verifier.c).
const maxKnown = 2

// maxInWeb is how many tests of values that may be copies of each other need no copies of their own. Registers and
// spilled words that were moved from each other have one ID, and a test of one narrows all (find_equal_scalars, 5.10; sync_linked_regs
// in new kernels).
const maxInWeb = 8

// known is what the verifier knows of the integers of a function.
type known struct {
	f        *ir.Func
	order    []*ir.Block
	preds    [][]ir.Pred
	ranged   ir.ValueSet       // values whose range is needed
	runtime  ir.ValueSet       // not a constant on any host
	free     ir.ValueSet       // not computed from what the host decides before load
	number   ir.ValueSet       // free, and not a pointer to the verifier
	fixed    ir.ValueSet       // computed from constants alone: known on each path
	branched []bool            // a branch depends on it
	tests    [][]test          // by Value.ID: its tests against constants
	pointers map[*ir.Slot]bool // slots that hold pointers
	web      []int             // by Value.ID: values between which numbers flow unchanged, or changed by a constant, have one
	inWeb    []int             // by web: the number of tests
}

// test is a use of a comparison: an operand of user, or the terminator of the block.
type test struct {
	block *ir.Block
	user  *ir.Value // nil for the terminator
}

func (t test) compares() *ir.Value {
	if t.user != nil {
		return t.user.Args[0]
	}
	return t.block.Term.Arg
}

// newKnown returns nil for a function with few branches.
func newKnown(f *ir.Func) *known {
	k := &known{
		f:        f,
		order:    ir.ReversePostorder(f),
		preds:    ir.Preds(f),
		branched: make([]bool, f.NumValues()),
		tests:    make([][]test, f.NumValues()),
		pointers: map[*ir.Slot]bool{},
	}
	branches := 0
	for _, b := range k.order {
		for _, v := range b.Values {
			switch {
			case v.Op == ir.OpICmp:
				branches++
			case v.Op == ir.OpStore && v.Args[0].Op == ir.OpSlotAddr && v.Args[1].Type.IsPtr():
				k.pointers[v.Args[0].Slot] = true
			}
		}
	}
	if branches <= maxKnown {
		return nil
	}
	k.ranged = k.findRanged()
	k.runtime = k.greatest(k.isRuntime)
	k.free = k.greatest(k.isFree)
	k.number = k.greatest(k.isNumber)
	k.fixed = k.greatest(k.isFixed)
	k.findTests()
	k.findWebs()
	return k
}

// findWebs joins the values that may be copies of each other: what the verifier learns from a test of one, it knows of
// the others.
func (k *known) findWebs() {
	k.web = make([]int, k.f.NumValues())
	for i := range k.web {
		k.web[i] = i
	}
	find := func(i int) int {
		for k.web[i] != i {
			k.web[i] = k.web[k.web[i]]
			i = k.web[i]
		}
		return i
	}
	for _, b := range k.order {
		for _, list := range [][]*ir.Value{b.Params, b.Values} {
			for _, v := range list {
				switch {
				case v.Type != ir.TI64:
				case v.Op == ir.OpParam, v.Op == ir.OpSelect, (v.Op == ir.OpAdd || v.Op == ir.OpSub) && v.Args[1].IsConst():
					k.operands(v, func(a *ir.Value) {
						if a.ID >= 0 && a.Type == ir.TI64 {
							k.web[find(v.ID)] = find(a.ID)
						}
					})
				}
			}
		}
	}
	k.inWeb = make([]int, len(k.web))
	for i := range k.web {
		k.web[i] = find(i)
		k.inWeb[k.web[i]] += len(k.tests[i])
	}
}

// operands calls use for the operands of v; for a parameter, for those of all edges.
func (k *known) operands(v *ir.Value, use func(*ir.Value)) {
	if v.Op != ir.OpParam {
		for _, a := range v.Args {
			use(a)
		}
		return
	}
	for i, p := range v.Block.Params {
		if p == v {
			for _, pred := range k.preds[v.Block.ID] {
				use(pred.Edge().Args[i])
			}
		}
	}
}

// findRanged finds the values that addresses, calls and the exits of loops depend on.
func (k *known) findRanged() ir.ValueSet {
	set := ir.NewValueSet(k.f)
	var work []*ir.Value
	add := func(v *ir.Value) {
		if v.ID >= 0 && !set.Has(v) {
			set.Add(v)
			work = append(work, v)
		}
	}
	loops := ir.Loops(k.f, ir.Dominators(k.f))
	for _, b := range k.order {
		for _, v := range b.Values {
			switch {
			case v.Op == ir.OpCall, v.Op == ir.OpCallSub: // sizes and offsets need bounds (check_func_arg)
				for _, a := range v.Args {
					add(a)
				}
			case v.Type.IsPtr(): // offsets: an access needs bounds (check_mem_region_access)
				for _, a := range v.Args {
					add(a)
				}
			}
		}
		// A loop ends for the verifier when the branch out of it is decided.
		for l := loops.Of(b); l != nil && b.Term.Kind == ir.Br; l = l.Parent {
			for _, e := range b.Term.Succs {
				if in := loops.Of(e.To); in == nil || !within(in, l) {
					add(b.Term.Arg)
				}
			}
		}
	}
	for len(work) > 0 {
		v := work[len(work)-1]
		work = work[:len(work)-1]
		k.operands(v, add)
	}
	return set
}

// greatest returns the largest set of integers that all have the property, which may look at the
// set.
func (k *known) greatest(property func(v *ir.Value, set ir.ValueSet) bool) ir.ValueSet {
	set := ir.NewValueSet(k.f)
	each := func(do func(v *ir.Value)) {
		for _, b := range k.order {
			for _, v := range b.Params {
				do(v)
			}
			for _, v := range b.Values {
				do(v)
			}
		}
	}
	each(func(v *ir.Value) {
		if v.Type == ir.TI64 {
			set.Add(v)
		}
	})
	// From all integers down, until nothing is removed: so values that depend on each other around a loop stay.
	for changed := true; changed; {
		changed = false
		each(func(v *ir.Value) {
			if set.Has(v) && !property(v, set) {
				set[v.ID/64] &^= 1 << (v.ID % 64)
				changed = true
			}
		})
	}
	return set
}

func (k *known) all(v *ir.Value, set ir.ValueSet) bool {
	all := true
	k.operands(v, func(a *ir.Value) { all = all && (a.IsConst() || a.Type == ir.TI1 || set.Has(a)) })
	return all
}

// isRuntime: v comes from a call or from memory on each path, whichever of them the host decides for.
func (k *known) isRuntime(v *ir.Value, set ir.ValueSet) bool {
	switch v.Op {
	case ir.OpCall, ir.OpCallSub, ir.OpLoad:
		return true
	case ir.OpParam, ir.OpSelect:
		all := true
		k.operands(v, func(a *ir.Value) { all = all && (a.Type == ir.TI1 || a.ID >= 0 && set.Has(a)) })
		return all
	}
	some := false
	for _, a := range v.Args {
		if !a.IsConst() && !set.Has(a) {
			return false
		}
		some = some || !a.IsConst()
	}
	return some && !v.Op.Is(ir.HostDecides)
}

// isFree: neither v nor the branch that chose it depends on the host, unless it chose among values that are constants
// on no host.
func (k *known) isFree(v *ir.Value, set ir.ValueSet) bool {
	if v.Op.Is(ir.HostDecides) {
		return false
	}
	free := true
	var look func(a *ir.Value)
	look = func(a *ir.Value) {
		switch {
		case a == nil || a.ID < 0:
		case a.Op == ir.OpICmp:
			look(a.Args[0])
			look(a.Args[1])
		case a.Type == ir.TI64:
			free = free && set.Has(a)
		}
	}
	k.operands(v, look)
	// The branches that choose among a parameter's values are at the ends of the predecessors, or one block up where a
	// predecessor is a block on a split edge.
	if v.Op == ir.OpParam && !k.runtime.Has(v) {
		for _, pred := range k.preds[v.Block.ID] {
			look(pred.Block.Term.Arg)
			if up := k.preds[pred.Block.ID]; len(up) == 1 {
				look(up[0].Block.Term.Arg)
			}
		}
	}
	return free
}

// isNumber: v is free, and a scalar to the verifier on each path. Typed programs load pointers from their context and
// through pointers (check_ptr_to_btf_access).
func (k *known) isNumber(v *ir.Value, set ir.ValueSet) bool {
	if !k.free.Has(v) {
		return false
	}
	switch v.Op {
	case ir.OpParam, ir.OpAdd, ir.OpSub, ir.OpSelect:
		return k.all(v, set)
	case ir.OpLoad:
		a := v.Args[0]
		// Fewer than eight bytes are no pointer, nor is what a map holds; a word of the stack is one if a pointer was spilled
		// to it (check_stack_read).
		return v.Mem.Size() < 8 || a.Type.Kind == ir.MapVal || a.Type.Kind == ir.Ctx && k.untyped() ||
			a.Op == ir.OpSlotAddr && !k.pointers[a.Slot]
	case ir.OpCast:
		return false
	}
	return true
}

// untyped reports whether the function's context has numbers only.
func (k *known) untyped() bool {
	if k.f.Prog == nil {
		return false
	}
	switch k.f.Prog.Type().Program {
	case probe.ProgKprobe, probe.ProgTracepoint, probe.ProgRawTracepoint, probe.ProgPerfEvent:
		return true
	}
	return false
}

func (k *known) isFixed(v *ir.Value, set ir.ValueSet) bool {
	switch v.Op {
	case ir.OpBoolInt:
		return true
	case ir.OpParam, ir.OpSelect, ir.OpZext, ir.OpSext:
		return k.all(v, set)
	}
	return v.Op.Is(ir.Binary) && k.all(v, set)
}

// findTests lists the comparisons of each value with a constant, and finds what
// comparisons depend on.
func (k *known) findTests() {
	var work []*ir.Value
	ask := func(v *ir.Value) {
		if v.ID >= 0 && v.Type == ir.TI64 && !k.branched[v.ID] {
			k.branched[v.ID] = true
			work = append(work, v)
		}
	}
	note := func(c *ir.Value, t test) {
		if c.Op != ir.OpICmp || c.Args[0].Type != ir.TI64 {
			return
		}
		if x := tested(c); x.ID >= 0 && c.Args[1].IsConst() {
			k.tests[x.ID] = append(k.tests[x.ID], t)
		}
		ask(c.Args[0])
		ask(c.Args[1])
	}
	for _, b := range k.order {
		for _, v := range b.Values {
			if v.Op == ir.OpSelect || v.Op == ir.OpBoolInt {
				note(v.Args[0], test{b, v})
			}
		}
		if b.Term.Kind == ir.Br {
			note(b.Term.Arg, test{b, nil})
		}
	}
	for len(work) > 0 {
		v := work[len(work)-1]
		work = work[:len(work)-1]
		if v.Op == ir.OpParam || v.Op == ir.OpSelect || v.Op.Is(ir.Binary) {
			k.operands(v, ask)
		}
	}
}

// tested returns the value that a comparison with a constant tells the verifier about: for a
// test of bits, the value that has them.
func tested(c *ir.Value) *ir.Value {
	if x := c.Args[0]; x.Op == ir.OpAnd && x.Args[1].IsConst() {
		return x.Args[0]
	}
	return c.Args[0]
}

// differs reports whether the verifier may know different numbers for v on two paths to a
// point after its definition, from its definition or from comparisons.
func (k *known) differs(v *ir.Value) (computed, compared bool) {
	if v.Type != ir.TI64 || k.ranged.Has(v) {
		return false, false
	}
	compared = k.isCompared(v)
	switch {
	case !k.number.Has(v), v.Op != ir.OpParam && v.Op != ir.OpSelect && v.Op != ir.OpBoolInt:
	case k.fixed.Has(v):
		computed = true
	case k.branched[v.ID]:
		k.operands(v, func(a *ir.Value) { computed = computed || a.IsConst() || k.fixed.Has(a) })
	}
	return computed, compared
}

// isCompared reports whether comparisons of v, or of copies of it, tell the verifier different numbers.
func (k *known) isCompared(v *ir.Value) bool {
	tests := len(k.tests[v.ID])
	return tests > 1 || tests > 0 && k.inWeb[k.web[v.ID]] > maxInWeb
}

// crowded lists the values that live across a join with more than maxKnown of them.
func (k *known) crowded() []*ir.Value {
	live := ir.Live(k.f)
	at := make([][]*ir.Value, len(k.preds))
	states := make([]int, len(k.preds)) // the number of paths, as a power of two
	for _, b := range k.order {
		for _, list := range [][]*ir.Value{b.Params, b.Values} {
			for _, v := range list {
				if computed, compared := k.differs(v); !computed && !compared {
					continue
				}
				needed := live.Blocks(v)
				for _, t := range k.tests[v.ID] { // a comparison is made where it is used
					needed = append(slices.Clip(needed), live.Blocks(t.compares())...)
				}
				for _, to := range needed {
					if n := len(at[to.ID]); len(k.preds[to.ID]) > 1 && (n == 0 || at[to.ID][n-1] != v) {
						at[to.ID] = append(at[to.ID], v)
						states[to.ID] += max(1, len(k.tests[v.ID])-1)
					}
				}
			}
		}
	}
	listed := ir.NewValueSet(k.f)
	var all []*ir.Value
	for _, b := range k.order {
		if states[b.ID] <= maxKnown {
			continue
		}
		for _, v := range at[b.ID] {
			if !listed.Has(v) {
				listed.Add(v)
				all = append(all, v)
			}
		}
	}
	return all
}

// hide gives each value an opaque copy, and each comparison of one that is compared
// again a copy of its own.
func (k *known) hide(values []*ir.Value) {
	computed := make([]bool, len(values))
	for i, v := range values { // before the first copy, which the sets do not know
		computed[i], _ = k.differs(v)
	}
	subst := ir.Subst{}
	for i, v := range values {
		if k.isCompared(v) {
			for _, t := range k.tests[v.ID] {
				k.separate(t)
			}
		}
		switch {
		case computed[i] && v.Op == ir.OpParam:
			subst[v] = k.insert(v.Block, 0, v, v.Block.Term.Pos)
		case computed[i]:
			subst[v] = k.insert(v.Block, v.Index()+1, v, v.Pos)
		}
	}
	subst.Apply(k.f)
	for v, copied := range subst {
		copied.Args[0] = v
	}
}

// separate makes a test compare an opaque copy of its own.
func (k *known) separate(t test) {
	at, operand := len(t.block.Values), &t.block.Term.Arg
	if t.user != nil {
		at, operand = t.user.Index(), &t.user.Args[0]
	}
	c := *operand
	if x := c.Args[0]; !k.number.Has(x) || k.ranged.Has(x) {
		return
	}
	copied := k.insert(t.block, at, c.Args[0], c.Pos)
	again := k.f.NewValue(ir.OpICmp, ir.TI1, c.Pos, copied, c.Args[1])
	again.Cond = c.Cond
	t.block.Insert(at+1, again)
	*operand = again
}

// insert makes an opaque copy of v in b.
func (k *known) insert(b *ir.Block, at int, v *ir.Value, pos ir.Pos) *ir.Value {
	c := k.f.NewValue(ir.OpOpaque, ir.TI64, pos, v)
	b.Insert(at, c)
	return c
}
