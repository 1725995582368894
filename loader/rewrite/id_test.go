// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"btc/internal/manifest"
)

// TestIDFromCookie checks that the number of an attach point is obtained from the link, through a stack
// slot that the program does not use.
func TestIDFromCookie(t *testing.T) {
	body := func(frame int16) *ebpf.ProgramSpec {
		return &ebpf.ProgramSpec{Type: ebpf.Kprobe, Instructions: asm.Instructions{
			asm.StoreMem(asm.RFP, -frame, asm.R1, asm.DWord).WithSymbol("main"), asm.LoadImm(asm.R2, 1<<40, asm.DWord), asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R0, 0), asm.Return(),
		}}
	}
	spec, mp := body(24), program(24, 3)
	if err := IDFromCookie(spec, mp); err != nil {
		t.Fatal(err)
	}
	got := spec.Instructions
	if len(got) != 9 || got[0].Symbol() != "main" || got[4].Symbol() != "" {
		t.Fatalf("instructions %v", got)
	}
	if store := got[2]; store.Offset != -32 || store.Src != asm.R0 {
		t.Errorf("cookie stored at %v", store)
	}
	if load := got[6]; load.Dst != asm.R3 || load.Src != asm.RFP || load.Offset != -32 || load.OpCode != asm.LoadMem(asm.R3, asm.RFP, -32, asm.DWord).OpCode {
		t.Errorf("number loaded from %v", load)
	}
	if err := IDFromCookie(body(512), program(512, 3)); err == nil {
		t.Error("no error for a full frame")
	}
	if err := IDFromCookie(body(8), program(8, 9)); err == nil {
		t.Error("no error for a nonexistent instruction")
	}
	if err := IDFromCookie(body(8), program(8, 0)); err == nil {
		t.Error("no error for a store")
	}
	if err := IDFromCookie(body(8), &manifest.Program{Name: "p"}); err == nil || !strings.Contains(err.Error(), "older btc") {
		t.Errorf("program with unknown frame size: error = %v", err)
	}
}

// program returns a program with a frame size and the instructions that use the number of its attach
// point.
func program(frame int, ids ...int) *manifest.Program {
	return &manifest.Program{Name: "p", IDInsns: ids, Code: &manifest.Code{Context: "none", Frame: frame}}
}

// TestPatchID checks that indices count 8-byte instructions: the 64-bit load before the marked one
// counts as two.
func TestPatchID(t *testing.T) {
	insns := asm.Instructions{asm.LoadImm(asm.R1, 1<<40, asm.DWord), asm.Mov.Imm(asm.R2, 5), asm.Return()}
	if err := PatchID(insns, &manifest.Program{IDInsns: []int{2}}, 77); err != nil {
		t.Fatal(err)
	}
	if insns[1].Constant != 77 || insns[0].Constant != 1<<40 {
		t.Errorf("instructions %v", insns)
	}
	for _, bad := range []int{0, 1, 3, 9} {
		if err := PatchID(insns, &manifest.Program{IDInsns: []int{bad}}, 1); err == nil {
			t.Errorf("instruction %d was patched", bad)
		}
	}
}
