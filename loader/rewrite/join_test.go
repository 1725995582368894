// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// TestJoinRuns joins programs that exit early, one of them with a function of its own, and runs the result: all are called, in
// order, with the context.
func TestJoinRuns(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Skip("skipped: ", err)
	}
	defer m.Close()
	// Each clause multiplies the word by 10, and adds a digit that its function returns.
	clause := func(digit int32) asm.Instructions {
		return asm.Instructions{
			asm.Call.Label("digit").WithSymbol("clause"),
			asm.Mov.Reg(asm.R6, asm.R0), // the caller keeps its context there
			asm.LoadMapValue(asm.R1, m.FD(), 0),
			asm.LoadMem(asm.R2, asm.R1, 0, asm.DWord),
			asm.Mul.Imm(asm.R2, 10),
			asm.Add.Reg(asm.R2, asm.R6),
			asm.StoreMem(asm.R1, 0, asm.R2, asm.DWord),
			asm.Return(),
			asm.Mov.Imm(asm.R0, digit).WithSymbol("digit"),
			asm.Return(),
		}
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, License: "GPL",
		Instructions: Join([]asm.Instructions{clause(1), clause(2), clause(3)})})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	defer p.Close()
	ret, err := p.Run(&ebpf.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got uint64
	if err := m.Lookup(uint32(0), &got); err != nil || got != 123 || ret != 0 {
		t.Errorf("word %d, result %d (%v), want 123 and 0", got, ret, err)
	}
}
