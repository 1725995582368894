// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"

	"btc/internal/manifest"
)

// branching is the work on a program with an if: its condition is line 2 of the script, its body line 3. The instructions are
// at the lines given.
func branching(t *testing.T, lines string, insns ...insn) *covering {
	t.Helper()
	flow, ok := newCode(plain(insns...))
	if !ok || len(lines) != len(insns) {
		t.Fatalf("%d instructions, %d lines", len(insns), len(lines))
	}
	words := 0
	c := &covering{code: flow, mp: &manifest.Program{}, at: -24, before: map[int]asm.Instructions{}, after: map[int]asm.Instructions{}, jumps: map[int]int{}, falls: map[int]int{}, back: map[int]int{}}
	c.Cover = &Cover{Map: 3, Samples: 4, CPUs: 1, Sample: func(int, *manifest.Test) int { return 1 }, Index: func(Counter) (int, bool) { words++; return words, true }}
	span := func(line int) manifest.Span { return manifest.Span{Line: line, Col: 1, EndLine: line, EndCol: 9} }
	c.clause.Branches = []manifest.Branch{{Cond: span(2), Body: span(3), Tests: []manifest.Test{{Span: span(2), Left: "x", Op: ">", Kind: "int", Size: 8, Number: 4}}}}
	for _, line := range lines {
		c.lines = append(c.lines, position{int(line - '0'), 2})
	}
	return c
}

// TestLeaving checks on which edges a condition is true and false, and when that is not known.
func TestLeaving(t *testing.T) {
	x := load(asm.R0, asm.R1, 0, asm.DWord)
	other, body := movImm(asm.R7, 1), set(asm.RFP, -8, 1)
	end := func(more ...insn) []insn { return append(more, movImm(asm.R0, 0), exit()) }
	test := func(op asm.JumpOp, off int16) insn { return jump(op, asm.R0, 4, off) }
	for _, c := range []struct {
		name, lines, want string
		insns             []insn
	}{
		{"jump if false", "22344", "1>2 true, 1>3 false", end(x, test(asm.JLE, 1), body)},
		{"jump if true", "224344", "1>2 false, 1>3 true", end(x, test(asm.JGT, 1), jump(asm.Ja, 0, 0, 1), body)},
		{"two operands", "222344", "1>4 false, 2>3 true, 2>4 false", end(x, test(asm.JLE, 2), test(asm.JEq, 1), body)},
		{"registers moved on the edge", "2223344", "1>2 true, 1>5 false", end(x, test(asm.JLE, 3), other, body, body)},
		{"code of another statement between", "242344", "2>3 true, 2>4 false", end(x, other, test(asm.JLE, 1), body)},
		{"loop", "22344", "1>2 true, 1>4 false", []insn{x, test(asm.JLE, 2), body, jump(asm.Ja, 0, 0, -4), exit()}},
		{"body moved before the condition", "322444", "unknown", end(body, x, test(asm.JLE, 1), other)},
		{"body moved to the top of a loop, which a break ends", "32244", "unknown", end(body, x, test(asm.JLE, -3))},
		{"end of the body shared with else", "22344344", "1>2 true, 1>4 false", end(x, test(asm.JLE, 2), body, jump(asm.Ja, 0, 0, 1), other, body)},
		{"end of the program at a line of the body", "22333", "1>2 true, 1>3 false", end(x, test(asm.JLE, 1), body)},
		{"code of another statement before the body", "22244344", "unknown", end(x, test(asm.JEq, 3), test(asm.JGT, 1), jump(asm.Ja, 0, 0, 2), other, body)},
		{"no code of the body", "22444", "unknown", end(x, test(asm.JLE, 1), other)},
		{"decided elsewhere", "2244344", "unknown", end(x, other, other, test(asm.JLE, 1), body)},
		{"an operand decided elsewhere", "22244344", "unknown", end(x, test(asm.JLE, 4), other, other, test(asm.JEq, 1), body)},
		{"body at both edges", "2234344", "unknown", end(x, test(asm.JLE, 2), body, jump(asm.Ja, 0, 0, 0), body)},
	} {
		w := branching(t, c.lines, c.insns...)
		edges, ok := w.leaving(&w.clause.Branches[0])
		var all []string
		for _, e := range edges {
			all = append(all, fmt.Sprintf("%d>%d %v", e.from, e.to, e.holds))
		}
		got := strings.Join(all, ", ")
		if !ok {
			got = "unknown"
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestCountEdge checks that registers that are used after an edge are not changed, or restored after a value is drawn.
func TestCountEdge(t *testing.T) {
	all := []insn{mov(asm.R6, asm.R1)}
	for r := asm.R2; r <= asm.R9; r++ {
		if r != asm.R6 {
			all = append(all, movImm(r, 1))
		}
	}
	program := func(live ...asm.Register) []insn {
		out := append(all[:8:8], load(asm.R0, asm.R6, 0, asm.DWord), jump(asm.JLE, asm.R0, 4, 1), set(asm.RFP, -8, 1))
		for _, r := range live {
			out = append(out, store(asm.RFP, -8, r, asm.DWord))
		}
		return append(out, movImm(asm.R0, 0), exit())
	}
	for _, c := range []struct {
		name    string
		live    []asm.Register
		counted bool
		drawn   bool
	}{
		{"nothing", nil, true, true},
		{"those that a call keeps", []asm.Register{asm.R6, asm.R7, asm.R8, asm.R9}, true, true},
		{"those that a call changes", []asm.Register{asm.R1, asm.R2, asm.R3, asm.R0}, true, true},
		{"too many to save", []asm.Register{asm.R1, asm.R2, asm.R3, asm.R4, asm.R5}, true, false},
		{"all but two", []asm.Register{asm.R2, asm.R3, asm.R4, asm.R5, asm.R6, asm.R7, asm.R8, asm.R9}, true, false},
		{"all but one", []asm.Register{asm.R0, asm.R2, asm.R3, asm.R4, asm.R5, asm.R6, asm.R7, asm.R8, asm.R9}, false, false},
	} {
		insns := program(c.live...)
		lines := strings.Repeat("1", 8) + "223" + strings.Repeat("4", len(insns)-11)
		w := branching(t, lines, insns...)
		w.branches()
		if counted := len(w.uncounted) == 0; counted != c.counted {
			t.Errorf("%s: counted %v", c.name, counted)
			continue
		}
		value, drawn := simulate(w.endings) // of the edge that is taken, on which the condition is false
		if drawn != c.drawn {
			t.Errorf("%s: drawn %v", c.name, drawn)
		}
		other, drawn := simulate(w.after[9])
		if c.counted && (drawn || len(w.after) != 1) {
			t.Errorf("%s: code on the edge where the condition is true: %v", c.name, w.after)
		}
		for _, r := range c.live {
			if c.counted && (value[r] != r || other[r] != r) {
				t.Errorf("%s: r%d is changed: %v, %v", c.name, r, w.endings, w.after)
			}
		}
	}
}

// simulate returns for each register whose value it has after some code, and whether a helper is called.
func simulate(code asm.Instructions) (value map[asm.Register]asm.Register, calls bool) {
	value = map[asm.Register]asm.Register{}
	for r := asm.R0; r < asm.RFP; r++ {
		value[r] = r
	}
	for i := range code {
		ins := &code[i]
		_, sets := uses(ins)
		calls = calls || ins.IsBuiltinCall()
		from, moves := value[ins.Src], ins.OpCode.Class().IsALU() && ins.OpCode.ALUOp() == asm.Mov && ins.OpCode.Source() == asm.RegSource
		for r := asm.R0; r < asm.RFP; r++ {
			if sets&(1<<r) != 0 {
				value[r] = noRegister
			}
		}
		if moves {
			value[ins.Dst] = from
		}
	}
	return value, calls
}
