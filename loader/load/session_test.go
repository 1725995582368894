package load

import (
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// fnOf is a function as the reader of objects gives it.
func fnOf(name string, insns ...asm.Instruction) asm.Instructions {
	out := append(asm.Instructions{}, insns...)
	out[0] = btf.WithFuncMetadata(out[0], &btf.Func{Name: name, Type: &btf.FuncProto{Return: &btf.Void{}}}).WithSymbol(name)
	return out
}

// The program of both ends jumps behind the entry's part at a return; what both
// call is there once, and not at all when it is not the same.
func TestJoinEnds(t *testing.T) {
	shared := fnOf("shared", asm.Mov.Imm(asm.R0, 7), asm.Return())
	call := asm.Instruction{OpCode: asm.FnGetCurrentTask.Call().OpCode, Src: asm.PseudoCall}.WithReference("shared")
	entry := append(fnOf("in", asm.LoadImm(asm.R1, 5, asm.DWord), call, asm.Return()), shared...)
	ret := append(fnOf("out", asm.Mov.Imm(asm.R0, 2), call, asm.Return()), shared...)
	got, err := joinEnds(entry, ret, 99)
	if err != nil {
		t.Fatal(err)
	}
	if want := 5 + 3 + 3 + 2; len(got) != want {
		t.Fatalf("%d instructions, want %d:\n%v", len(got), want, got)
	}
	if ins := got[1]; ins.Src != asm.PseudoKfuncCall || ins.Constant != 99 {
		t.Errorf("no call of the kernel's function: %v", ins)
	}
	// The jump counts in words of 8 bytes: a 64-bit immediate has two.
	if ins := got[4]; ins.OpCode.JumpOp() != asm.JNE || ins.Offset != 4 {
		t.Errorf("the jump is %v", ins)
	}
	if got[8].Constant != 2 || got[8].Symbol() != "" || btf.FuncMetadata(&got[8]) != nil {
		t.Errorf("the return's part begins with %v (%s)", got[8], got[8].Symbol())
	}
	symbols := map[string]int{}
	for i := range got {
		if s := got[i].Symbol(); s != "" {
			symbols[s]++
		}
	}
	if len(symbols) != 2 || symbols["in"] != 1 || symbols["shared"] != 1 {
		t.Errorf("symbols %v", symbols)
	}
	other := append(fnOf("out", asm.Mov.Imm(asm.R0, 2), call, asm.Return()), fnOf("shared", asm.Mov.Imm(asm.R0, 8), asm.Return())...)
	if _, err := joinEnds(entry, other, 99); err == nil {
		t.Error("two functions of one name that differ went together")
	}
}
