// SPDX-License-Identifier: Apache-2.0

package load

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"btc/internal/manifest"
	"btc/loader/object"
)

// TestLoopsThatBecomeLonger checks a program whose loop had a proved bound until the loader patched its number of
// iterations (manifest.Program.IDInsns): nothing would count it.
func TestLoopsThatBecomeLonger(t *testing.T) {
	loop := func(n int32) *ebpf.ProgramSpec {
		callback := asm.LoadImm(asm.R2, -1, asm.DWord).WithReference("body")
		callback.Src = asm.PseudoFunc
		return &ebpf.ProgramSpec{Name: "main", Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R1, n).WithSymbol("main"), callback, asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R4, 0), asm.FnLoop.Call(), asm.Mov.Imm(asm.R0, 0), asm.Return(),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("body"), asm.Return()}}
	}
	mp := manifest.Program{Name: "main", Kind: "begin"}
	o := &object.Object{Manifest: &manifest.Manifest{Programs: []manifest.Program{mp}}, Spec: &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{"main": loop(10)}}}
	l, err := newLoops(o, 1)
	if l != nil || err != nil {
		t.Fatalf("newLoops = %v, %v; want no loops", l, err)
	}
	if _, slots, err := l.count(o, &mp, loop(10), 0); slots != 0 || err != nil {
		t.Errorf("the same program: %d slots inserted, %v", slots, err)
	}
	if _, _, err := l.count(o, &mp, loop(1<<22), 0); err == nil || !strings.Contains(err.Error(), "changed when it is loaded") {
		t.Errorf("the program with more iterations: %v", err)
	}
}
