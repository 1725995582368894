package load

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
)

// text is a program in a line a word: "mov", "wide" (two places), "ja+N",
// "jeq+N", "exit"; "x" before one marks it as gone.
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
		{"mov ja+2 mov mov exit", "mov exit", "[0 -1 -1 -1 1]"}, // what no path leads to goes, too
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
			t.Errorf("%s: moved to %s, want %s", c.in, got, c.at)
		}
	}
}

// What only a losing form called goes with it.
func TestDropUncalled(t *testing.T) {
	call := func(to string) asm.Instruction {
		return asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoCall, Constant: -1}.WithReference(to)
	}
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
	for _, ins := range dropUncalled(insns) {
		if ins.Symbol() != "" {
			left = append(left, ins.Symbol())
		}
	}
	if got := strings.Join(left, " "); got != "main a b" {
		t.Errorf("%s are left, want main a b", got)
	}
	if out, at := Decide(insns, "amd64", func(asm.BuiltinFunc) bool { return true }); at != nil || len(out) != len(insns) {
		t.Errorf("nothing was to be decided: %d of %d instructions, moved to %v", len(out), len(insns), at)
	}
}

func TestNewCodeRefusesWildJumps(t *testing.T) {
	jump := asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Ja), Offset: 9}
	if _, ok := newCode(asm.Instructions{jump.WithSymbol("f"), asm.Return()}); ok {
		t.Error("a jump behind the end")
	}
}
