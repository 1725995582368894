// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"btc/internal/manifest"
)

// text parses a program with one instruction per word: "mov", "wide" (two slots), "ja+N", "jeq+N",
// "exit". A leading "x" marks it as removed.
func text(t *testing.T, s string) (*code, asm.Instructions) {
	t.Helper()
	var insns asm.Instructions
	var gone []bool
	for i, word := range strings.Fields(s) {
		word, dead := strings.CutPrefix(word, "x")
		gone = append(gone, dead)
		name, off, _ := strings.Cut(word, "+")
		var n int16
		if off != "" {
			if _, err := fmt.Sscan(off, &n); err != nil {
				t.Fatal(err)
			}
		}
		ins := map[string]asm.Instruction{
			"mov": asm.Mov.Imm(asm.R0, int32(i)), "wide": asm.LoadImm(asm.R1, int64(i), asm.DWord), "exit": asm.Return(),
			"ja": {OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Ja)}, "jeq": asm.JEq.Imm(asm.R1, 7, ""),
		}[name]
		ins.Offset = n
		insns = append(insns, ins)
	}
	insns[0] = insns[0].WithSymbol("f")
	c, ok := newCode(insns)
	if !ok {
		t.Fatalf("%s: no code", s)
	}
	for i, dead := range gone {
		c.gone[i] = c.gone[i] || dead
	}
	return c, insns
}

func words(insns asm.Instructions) string {
	var out []string
	for _, ins := range insns {
		word := "mov"
		switch {
		case ins.OpCode.Class() == asm.LdClass:
			word = "wide"
		case ins.OpCode.Class() != asm.JumpClass:
		case ins.OpCode.JumpOp() == asm.Exit:
			word = "exit"
		case ins.OpCode.JumpOp() == asm.Ja:
			word = fmt.Sprintf("ja+%d", ins.Offset)
		default:
			word = fmt.Sprintf("jeq+%d", ins.Offset)
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

func TestCompact(t *testing.T) {
	for _, c := range []struct{ in, want, at string }{
		{"mov exit", "mov exit", "[0 1]"},
		{"xmov mov exit", "mov exit", "[-1 0 1]"},
		{"mov ja+2 mov mov exit", "mov exit", "[0 -1 -1 -1 1]"}, // unreachable code is removed, too
		{"jeq+2 mov ja+2 wide exit", "jeq+2 mov ja+2 wide exit", "[0 1 2 3 4 5]"},
		{"jeq+3 wide exit mov exit", "jeq+3 wide exit mov exit", ""},
		{"jeq+3 mov xmov ja+2 wide exit", "jeq+2 mov ja+2 wide exit", "[0 1 -1 2 3 4 5]"},
		{"jeq+2 mov xmov mov exit", "jeq+1 mov mov exit", "[0 1 -1 2 3]"},
		{"mov jeq+-2 exit", "mov jeq+-2 exit", ""},
		{"mov xmov jeq+-3 exit", "mov jeq+-2 exit", ""},
		{"jeq+2 ja+2 mov ja+1 mov exit", "jeq+1 ja+1 ja+1 mov exit", ""},
		{"jeq+1 ja+1 ja+1 mov exit", "jeq+1 ja+1 ja+1 mov exit", ""},
	} {
		code, _ := text(t, c.in)
		out, at := code.compact()
		if got := words(out); got != c.want || out[0].Symbol() != "f" {
			t.Errorf("%s: %s (symbol %q), want %s", c.in, got, out[0].Symbol(), c.want)
		}
		if got := fmt.Sprint(at); c.at != "" && got != c.at {
			t.Errorf("%s: new indices %s, want %s", c.in, got, c.at)
		}
	}
}

// call returns a call of a subprogram.
func call(to string) asm.Instruction {
	return asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoCall, Constant: -1}.WithReference(to)
}

// TestDropUncalled checks that subprograms called only from dead code are removed with it.
func TestDropUncalled(t *testing.T) {
	named := func(name string, body ...asm.Instruction) asm.Instructions {
		body[0] = body[0].WithSymbol(name)
		return append(body, asm.Return())
	}
	var insns asm.Instructions
	for _, f := range []asm.Instructions{
		named("main", call("a")), named("a", call("b")), named("b", call("a"), call("b")), named("c", call("d")), named("d", call("c"), call("main")),
	} {
		insns = append(insns, f...)
	}
	var left []string
	for _, ins := range DropUncalled(insns) {
		if ins.Symbol() != "" {
			left = append(left, ins.Symbol())
		}
	}
	if got := strings.Join(left, " "); got != "main a b" {
		t.Errorf("functions left: %s, want main a b", got)
	}
	if out, at, _ := Decide(insns, nil, nil); at != nil || len(out) != len(insns) {
		t.Errorf("nothing to decide, but %d of %d instructions left, new indices %v", len(out), len(insns), at)
	}
}

func TestNewCodeRefusesWildJumps(t *testing.T) {
	jump := asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Ja), Offset: 9}
	if _, ok := newCode(asm.Instructions{jump.WithSymbol("f"), asm.Return()}); ok {
		t.Error("no error for a jump past the end")
	}
}

// form returns a relocated test followed by a branch on it: 1 leads to "mov 1", 0 to "mov 2".
func form(branch asm.JumpOp) asm.Instructions {
	test := btf.WithCORERelocationMetadata(asm.Mov.Imm(asm.R3, 1), &btf.CORERelocation{})
	return asm.Instructions{
		test,
		{OpCode: branch.Op(asm.ImmSource), Dst: asm.R3, Offset: 2},
		asm.Mov.Imm(asm.R0, 1), asm.Return(),
		asm.Mov.Imm(asm.R0, 2), asm.Return(),
	}
}

// TestDecideForms checks that a test with a known result is removed together with its dead side, and
// that a test with an unknown result, and code that only resembles a test, is kept.
func TestDecideForms(t *testing.T) {
	result := func(f *manifest.Form) (yes, known bool) { return f.Arch == "here", f.Arch != "" }
	function := func(name string, insns asm.Instructions) asm.Instructions {
		insns[0] = insns[0].WithSymbol(name)
		return insns
	}
	constants := func(insns asm.Instructions) (all []int64) {
		for i := range insns {
			if insns[i].Dst == asm.R0 && insns[i].OpCode.ALUOp() == asm.Mov {
				all = append(all, insns[i].Constant)
			}
		}
		return all
	}
	for _, c := range []struct {
		name   string
		branch asm.JumpOp
		form   manifest.Form
		want   []int64
		left   int
	}{
		{"taken", asm.JNE, manifest.Form{Arch: "here"}, []int64{2}, 0},
		{"branch not taken", asm.JNE, manifest.Form{Arch: "there"}, []int64{1}, 0},
		{"branch taken if 0", asm.JEq, manifest.Form{Arch: "there"}, []int64{2}, 0},
		{"branch not taken if 0", asm.JEq, manifest.Form{Arch: "here"}, []int64{1}, 0},
		{"unknown", asm.JNE, manifest.Form{Helper: "loop"}, []int64{1, 2}, 1},
		{"another branch", asm.JGT, manifest.Form{Arch: "here"}, []int64{1, 2}, 1},
		{"outside of the program", asm.JNE, manifest.Form{Arch: "here", Insn: 99}, []int64{1, 2}, 1},
		{"at the branch", asm.JNE, manifest.Form{Arch: "here", Insn: 1}, []int64{1, 2}, 1},
		{"at the end", asm.JNE, manifest.Form{Arch: "here", Insn: 5}, []int64{1, 2}, 1},
		{"of another function", asm.JNE, manifest.Form{Arch: "here", Function: "other"}, []int64{1, 2}, 0},
	} {
		out, at, left := Decide(function("main", form(c.branch)), []manifest.Form{c.form}, result)
		if got := constants(out); !slices.Equal(got, c.want) || (at == nil) != (len(c.want) == 2) || len(left) != c.left || out[0].Symbol() != "main" {
			t.Errorf("%s: got %v, new indices %v, remaining tests %v; want %v", c.name, got, at, left, c.want)
		}
	}
	// For a test in a subprogram, the main function is unchanged; remaining tests are reported at
	// their new index.
	main := asm.Instructions{call("sub"), asm.Return()}
	both := append(function("main", main), function("sub", append(form(asm.JNE), form(asm.JNE)...))...)
	out, at, left := Decide(both, []manifest.Form{{Function: "sub", Insn: 0, Arch: "there"}, {Function: "sub", Insn: 6, Helper: "loop"}}, result)
	if got := constants(out); !slices.Equal(got, []int64{1}) || !slices.Equal(at, []int{0, 1}) {
		t.Errorf("in a subprogram: got %v, %v, %v", got, at, left)
	}
}

// TestFix checks that the tests of one helper are fixed to 0, and that the tests of others are still
// relocated.
func TestFix(t *testing.T) {
	insns := append(form(asm.JNE), form(asm.JNE)...)
	insns[0] = insns[0].WithSymbol("main")
	forms := []manifest.Form{{Insn: 0, Helper: "a"}, {Insn: 6, Helper: "b"}}
	if !Fix(insns, forms, "b") || insns[6].Constant != 0 || btf.CORERelocationMetadata(&insns[6]) != nil {
		t.Error("test of b not fixed")
	}
	if insns[0].Constant != 1 || btf.CORERelocationMetadata(&insns[0]) == nil {
		t.Error("test of a fixed")
	}
	if Fix(insns, forms, "b") {
		t.Error("fixed twice")
	}
}
