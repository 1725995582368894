package load

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"btc/loader/manifest"
)

// The number of an attach point comes from the link, by way of a place in the
// frame that the program does not use.
func TestIDFromCookie(t *testing.T) {
	body := func(frame int16) *ebpf.ProgramSpec {
		return &ebpf.ProgramSpec{Type: ebpf.Kprobe, Instructions: asm.Instructions{
			asm.StoreMem(asm.RFP, -frame, asm.R1, asm.DWord).WithSymbol("main"), asm.LoadImm(asm.R2, 1<<40, asm.DWord), asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R0, 0), asm.Return(),
		}}
	}
	spec, mp := body(24), &manifest.Program{Name: "p", IDInsns: []int{3}}
	if err := idFromCookie(spec, mp); err != nil {
		t.Fatal(err)
	}
	got := spec.Instructions
	if len(got) != 9 || got[0].Symbol() != "main" || got[4].Symbol() != "" {
		t.Fatalf("%v", got)
	}
	if store := got[2]; store.Offset != -32 || store.Src != asm.R0 {
		t.Errorf("the cookie is put at %v", store)
	}
	if load := got[6]; load.Dst != asm.R3 || load.Src != asm.RFP || load.Offset != -32 || load.OpCode != asm.LoadMem(asm.R3, asm.RFP, -32, asm.DWord).OpCode {
		t.Errorf("the number is taken from %v", load)
	}
	if err := idFromCookie(body(512), mp); err == nil {
		t.Error("a full frame has room")
	}
	if err := idFromCookie(body(8), &manifest.Program{Name: "p", IDInsns: []int{9}}); err == nil {
		t.Error("a subprogram has the number in the frame of another")
	}
	if err := idFromCookie(body(8), &manifest.Program{Name: "p", IDInsns: []int{0}}); err == nil {
		t.Error("a store takes the number")
	}
}
