// SPDX-License-Identifier: Apache-2.0

package regalloc

import (
	"fmt"
	"maps"
	"slices"

	"btc/backend/mach"
)

// snapshot is what check needs to know of a function before allocation.
type snapshot struct {
	text   string
	params map[*mach.Block][]mach.Reg
	terms  map[*mach.Block]mach.Term
}

func takeSnapshot(f *mach.Func) *snapshot {
	s := &snapshot{text: f.String(), params: map[*mach.Block][]mach.Reg{}, terms: map[*mach.Block]mach.Term{}}
	for _, b := range f.Blocks {
		s.params[b] = b.Params
		t := b.Term
		t.Succs = slices.Clone(t.Succs)
		s.terms[b] = t
	}
	return s
}

// contents is, for each register (0 to 9) and frame offset (negative), the virtual
// registers and constants it is known to hold. A missing entry means unknown.
type contents map[int]tokens

type tokens map[mach.Operand]bool

// checker replays a function.
type checker struct {
	before *snapshot
	b      *mach.Block
	now    contents
	report bool
	err    error
}

// check replays f, in machine form, against the function before allocation: it tracks which
// value is where through every instruction that the allocator inserted, meets the facts of
// different paths, and requires that each original instruction reads the values it read
// before. It uses none of the allocator's own data.
func (s *snapshot) check(f *mach.Func) error {
	in := map[*mach.Block]contents{}
	entry := contents{}
	for n, p := range s.params[f.Blocks[0]] {
		entry[n+1] = tokens{mach.RegOp(p): true}
	}
	in[f.Blocks[0]] = entry
	work := []*mach.Block{f.Blocks[0]}
	for len(work) > 0 {
		b := work[0]
		work = work[1:]
		c := checker{before: s, b: b, now: in[b].clone()}
		c.block()
		for n := range b.Term.Succs {
			to := b.Term.Succs[n].To
			after := c.edge(s.terms[b].Succs[n])
			if old, seen := in[to]; !seen {
				in[to] = after
				work = append(work, to)
			} else if old.meet(after) {
				work = append(work, to)
			}
		}
	}
	for _, b := range f.Blocks {
		if in[b] == nil {
			return fmt.Errorf("b%d is not reached", b.ID)
		}
		c := checker{before: s, b: b, now: in[b].clone(), report: true}
		if c.block(); c.err != nil {
			return c.err
		}
	}
	return nil
}

func (c contents) clone() contents {
	d := make(contents, len(c))
	for loc, t := range c {
		d[loc] = maps.Clone(t)
	}
	return d
}

// meet keeps the facts that hold in both and reports whether c lost any.
func (c contents) meet(other contents) bool {
	lost := false
	for loc, t := range c {
		for o := range t {
			if !other[loc][o] {
				delete(t, o)
				lost = true
			}
		}
	}
	return lost
}

// edge returns the state after the edge: parameters take the locations of their arguments.
func (c *checker) edge(e mach.Edge) contents {
	params := c.before.params[e.To]
	after := c.now.clone()
	for _, t := range after {
		for _, p := range params {
			delete(t, mach.RegOp(p))
		}
	}
	for loc, t := range c.now {
		for n, p := range params {
			if t[e.Args[n]] {
				after[loc][mach.RegOp(p)] = true
			}
		}
	}
	return after
}

func (c *checker) fail(what string, format string, args ...any) {
	if c.report && c.err == nil {
		c.err = fmt.Errorf("b%d: %s: %s", c.b.ID, what, fmt.Sprintf(format, args...))
	}
}

func (c *checker) block() {
	for n := range c.b.Insns {
		i := &c.b.Insns[n]
		if i.From == nil {
			c.inserted(i)
		} else {
			c.old(i)
		}
	}
	t := c.before.terms[c.b]
	for n, o := range t.Args {
		c.reads(t.String(), c.b.Term.Args[n], o)
	}
}

// reads requires that machine operand got holds what want was.
func (c *checker) reads(what string, got, want mach.Operand) {
	if got == want {
		if got.IsReg() && got.Reg != mach.R10 {
			c.fail(what, "operand %s was not allocated", want)
		}
		return
	}
	if !got.IsReg() || !c.now[int(got.Reg)][want] {
		c.fail(what, "reads %s, which does not hold %s", got, want)
	}
}

// inserted follows a move, a spill or a reload.
func (c *checker) inserted(i *mach.Insn) {
	switch {
	case i.Op == mach.Mov && i.Args[0].IsReg():
		c.set(int(i.Dst), c.now[int(i.Args[0].Reg)])
	case i.Op == mach.Mov:
		c.set(int(i.Dst), tokens{i.Args[0]: true})
	case i.Spill == 0 || i.Off >= 0:
		c.fail(i.String(), "inserted, but not a move")
	case i.Op == mach.Load:
		if len(c.now[i.Off]) == 0 {
			c.fail(i.String(), "contents of the slot unknown")
		}
		c.set(int(i.Dst), c.now[i.Off])
	case i.Args[1].IsReg():
		c.set(i.Off, c.now[int(i.Args[1].Reg)])
	default:
		c.set(i.Off, tokens{i.Args[1]: true})
	}
}

func (c *checker) set(loc int, t tokens) {
	if t == nil {
		delete(c.now, loc)
		return
	}
	c.now[loc] = maps.Clone(t)
}

// old checks an instruction of the original function.
func (c *checker) old(i *mach.Insn) {
	from := i.From
	what := from.String() + " -> " + i.String()
	got, want := i.Args, from.Args
	switch {
	case i.Op == mach.Select && i.Cond != from.Cond:
		if i.Cond != from.Cond.Negate() {
			c.fail(what, "condition")
		}
		want = []mach.Operand{want[0], want[1], want[3], want[2]}
	case i.Op.Commutative() && got[1].IsReg() && want[1].IsReg() && !c.now[int(got[1].Reg)][want[1]]:
		want = []mach.Operand{want[1], want[0]}
	}
	for n := range want {
		c.reads(what, got[n], want[n])
	}
	if i.Op.Tied() && got[0] != mach.RegOp(i.Dst) || i.Op == mach.Select && got[2] != mach.RegOp(i.Dst) {
		c.fail(what, "not in machine form")
	}
	if i.Op.IsCall() {
		for n := range got {
			if got[n] != mach.RegOp(mach.R1+mach.Reg(n)) {
				c.fail(what, "argument %d is in %s", n+1, got[n])
			}
		}
		for r := range int(numCaller) {
			delete(c.now, r)
		}
	}
	if i.Dst == mach.NoReg {
		return
	}
	c.now[int(i.Dst)] = tokens{}
	if from.Dst.IsVirt() {
		for _, t := range c.now { // copies from an earlier iteration of the loop are stale
			delete(t, mach.RegOp(from.Dst))
		}
		c.now[int(i.Dst)][mach.RegOp(from.Dst)] = true
	}
}
