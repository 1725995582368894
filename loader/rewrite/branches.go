// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"github.com/cilium/ebpf/asm"

	"btc/internal/manifest"
)

// MaxBranches is the number of conditions of a clause that are counted: each takes time in proportion to the program.
const MaxBranches = 1 << 8

// branches counts how often the conditions of if statements and while loops are true and false, on the edges that leave the
// code of a condition. Those of which it cannot tell the edges, or for which there are no registers, are uncounted.
func (c *covering) branches() {
	if len(c.clause.Branches) == 0 {
		return
	}
	live, defined := c.live(), c.defined()
	for n := range c.clause.Branches {
		if n >= MaxBranches {
			c.uncounted = append(c.uncounted, n)
			continue
		}
		edges, ok := c.leaving(&c.clause.Branches[n])
		for i := range edges {
			ok = ok && c.countEdge(&edges[i], live, defined)
		}
		if !ok {
			c.uncounted = append(c.uncounted, n)
		}
	}
}

// condEdge is an edge that leaves the code of a condition.
type condEdge struct {
	from, to int
	holds    bool // the condition is true on it
	branch   *manifest.Branch
}

// leaving returns the edges that leave the code of a condition: that up to its jumps. The condition is true on those that lead to
// the beginning of the body. It is false if it is not known where the condition is decided, or if code of the body can be reached
// without it: that is shared with other statements, or was moved out of the body.
func (c *covering) leaving(b *manifest.Branch) (all []condEdge, ok bool) {
	at, body := c.within(&b.Cond), c.within(&b.Body)
	cond := make([]bool, len(c.next))
	for i := range cond {
		cond[i] = at[i] && c.target[i] >= 0
	}
	for i := range at {
		at[i] = !at[i]
	}
	c.reaching(cond, at)
	outside := make([]bool, len(c.next))
	work := []int{c.first}
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		if i >= 0 && i < len(c.next) && !outside[i] && !cond[i] {
			outside[i] = true
			work = append(work, c.next[i], c.target[i])
		}
	}
	to := make([]bool, len(c.next)) // the body's first instructions can be reached
	for i := range cond {
		for _, v := range []int{c.next[i], c.target[i]} {
			if v = c.enters(v, &b.Cond, body); cond[i] && v >= 0 {
				if outside[v] {
					return nil, false
				}
				to[v] = true
			}
		}
	}
	c.reaching(to, cond)
	yes, no := false, false
	for i := range cond {
		for _, v := range []int{c.next[i], c.target[i]} {
			if !cond[i] || v < 0 || v < len(cond) && cond[v] {
				continue
			}
			if v >= len(cond) || to[v] && c.enters(v, &b.Cond, body) < 0 {
				return nil, false // something else decides
			}
			all = append(all, condEdge{i, v, to[v], b})
			yes, no = yes || to[v], no || !to[v]
		}
	}
	return all, yes && no
}

// within reports for each instruction of the program whether it is in a part of the script.
func (c *covering) within(s *manifest.Span) []bool {
	out := make([]bool, len(c.next))
	for i := c.first; i < len(out); i++ {
		out[i] = c.lines[i].in(s)
	}
	return out
}

// reaching adds the instructions from which one of the set can be reached, other than through those in stop.
func (c *covering) reaching(set, stop []bool) {
	for changed := true; changed; {
		changed = false
		for i := len(set) - 1; i >= c.first; i-- {
			for _, v := range []int{c.next[i], c.target[i]} {
				if v >= 0 && v < len(set) && set[v] && !set[i] && !stop[i] {
					set[i], changed = true, true
				}
			}
		}
	}
}

// enters returns the first instruction of a body that code begins with, after the rest of the condition, which moves registers; -1
// if it begins with something else.
func (c *covering) enters(i int, cond *manifest.Span, body []bool) int {
	for range c.next {
		switch {
		case i < 0 || i >= len(c.next):
			return -1
		case body[i] && !c.idle(i):
			return i
		case c.target[i] >= 0 || !c.gone[i] && !c.lines[i].in(cond):
			return -1
		}
		i = c.next[i]
	}
	return -1
}

// countEdge inserts code on an edge, which leaves the registers that are live after it as they are.
func (c *covering) countEdge(e *condEdge, live, defined []registers) bool {
	taken := e.to == c.target[e.from]
	if _, used := c.jumps[e.from]; used && taken || len(c.after[e.from]) > 0 && !taken {
		return false // it leads to an ending
	}
	s := ending{counter: Counter{Kind: True, Clause: c.mp.Clause, Line: e.branch.Cond.Line, Col: e.branch.Cond.Col}, reg: noRegister}
	if !e.holds {
		s.counter.Kind, s.counter.Col = Not, -s.counter.Col // unless it is known which test it is
		if t := testAt(e.branch.Tests, c.lines[e.from]); t != nil {
			s.counter.Line, s.counter.Col = t.Span.Line, t.Span.Col
			s.test, s.reg, s.half = c.sampled(e.from, t)
		}
	}
	word, ok := c.Index(s.counter)
	if !ok {
		return false
	}
	changed := callerSaved
	moved, ok := held(live[e.to]&defined[e.from]&changed, ^live[e.to]&^changed&^(1<<s.reg))
	if s.test == nil || !ok { // no value is drawn
		changed, s.test = 1<<asm.R1|1<<asm.R2, nil
		if moved, ok = held(live[e.to]&defined[e.from]&changed, ^live[e.to]&^changed); !ok {
			return false
		}
	}
	var p prologue
	for _, m := range moved {
		p.emit(mov(m[1], m[0]))
	}
	if s.test != nil && s.reg != noRegister && s.reg != asm.R5 {
		p.emit(mov(asm.R5, s.reg))
	}
	c.countAndDraw(&p, &s, word, asm.R5)
	for _, m := range moved {
		p.emit(mov(m[0], m[1]))
	}
	if !taken {
		c.after[e.from] = p.insns
		return true
	}
	c.jumps[e.from] = Slots(c.endings)
	p.emit(jump(asm.Ja, 0, 0, 0))
	c.endings = append(c.endings, p.insns...)
	c.back[len(c.endings)-1] = e.to
	return true
}

// held returns registers with their replacements, of those that are free; false if there are too few.
func held(lost, free registers) (moved [][2]asm.Register, ok bool) {
	to := asm.R0
	for r := asm.R0; r < asm.RFP; r++ {
		if lost&(1<<r) == 0 {
			continue
		}
		for to < asm.RFP && free&(1<<to) == 0 {
			to++
		}
		if to == asm.RFP {
			return nil, false
		}
		moved = append(moved, [2]asm.Register{r, to})
		to++
	}
	return moved, true
}

// registers is a set of registers.
type registers uint16

// callerSaved are the registers that a call changes.
const callerSaved registers = 1<<6 - 1

// uses returns the registers that an instruction reads and those that it sets. A call may read fewer.
func uses(ins *asm.Instruction) (reads, sets registers) {
	dst, src := registers(1)<<ins.Dst, registers(1)<<ins.Src
	op := ins.OpCode
	fromRegister := op.Class().IsALU() && op.Source() == asm.RegSource || op.Class().IsJump() && op.Source() == asm.RegSource
	if fromRegister {
		reads = src
	}
	switch class := op.Class(); class {
	case asm.ALUClass, asm.ALU64Class:
		if op.ALUOp() != asm.Mov {
			reads |= dst
		}
		return reads, dst
	case asm.LdClass:
		return 0, dst
	case asm.LdXClass:
		return src, dst
	case asm.StClass:
		return dst, 0
	case asm.StXClass:
		if op.Mode() == asm.AtomicMode { // it may return the old value
			return dst | src | 1<<asm.R0, 0
		}
		return dst | src, 0
	}
	switch op.JumpOp() {
	case asm.Exit:
		return 1 << asm.R0, 0
	case asm.Call:
		return callerSaved &^ (1 << asm.R0), callerSaved
	case asm.Ja:
		return 0, 0
	}
	return reads | dst, 0
}

// live returns the registers that may be read from an instruction on.
func (c *covering) live() []registers {
	live := make([]registers, len(c.next))
	for changed := true; changed; {
		changed = false
		for i := len(c.next) - 1; i >= 0; i-- {
			reads, sets := uses(&c.insns[i])
			var after registers
			for _, v := range []int{c.next[i], c.target[i]} {
				if v >= 0 && v < len(live) {
					after |= live[v]
				}
			}
			if now := reads | after&^sets; now != live[i] {
				live[i], changed = now, true
			}
		}
	}
	return live
}

// defined returns the registers that have a value after an instruction, on all paths.
func (c *covering) defined() []registers {
	in, out := make([]registers, len(c.next)), make([]registers, len(c.next))
	for i := range in {
		in[i], out[i] = 1<<asm.RFP-1, 1<<asm.RFP-1
	}
	in[0] = 1 << asm.R1
	for changed := true; changed; {
		changed = false
		for i := range c.next {
			_, sets := uses(&c.insns[i])
			now := in[i] | sets
			if c.insns[i].OpCode.Class().IsJump() && c.insns[i].OpCode.JumpOp() == asm.Call {
				now = in[i]&^callerSaved | 1<<asm.R0
			}
			if now != out[i] {
				out[i], changed = now, true
			}
			for _, v := range []int{c.next[i], c.target[i]} {
				if v > 0 && v < len(in) && in[v]&now != in[v] {
					in[v], changed = in[v]&now, true
				}
			}
		}
	}
	return out
}
