// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"testing"

	"btc/internal/arch"
)

// TestGuards checks that relocations that test for an architecture or a helper are recognized, and no
// others.
func TestGuards(t *testing.T) {
	for _, c := range []struct {
		ref          CORERef
		arch, helper string
	}{
		{CORERef{Type: "struct pt_regs___x86_64"}, arch.ByName("x86_64").Label, ""},
		{CORERef{Type: "struct pt_regs___tralala"}, "", ""},
		{CORERef{Type: "enum bpf_func_id___loop"}, "", "loop"},
		{CORERef{Type: "struct pt_regs"}, "", ""},
	} {
		if label, ok := ArchTest(c.ref); label != c.arch || ok != (c.arch != "") {
			t.Errorf("architecture of %s = %q, %t", c.ref, label, ok)
		}
		if name, ok := HelperTest(c.ref); name != c.helper || ok != (c.helper != "") {
			t.Errorf("helper of %s = %q, %t", c.ref, name, ok)
		}
	}
}

// TestPerArchValues checks that there is a constant for each architecture, or a single one if they are
// equal.
func TestPerArchValues(t *testing.T) {
	x86, arm := arch.ByName("x86_64"), arch.ByName("arm64")
	f := &Func{Name: "f"}
	b := AtEnd(f.NewBlock(), NoPos)
	number := func(list map[*arch.Arch]int64) *Value {
		return b.PerArch([]*arch.Arch{x86, arm}, func(a *arch.Arch) int64 { return list[a] })
	}
	if v := number(map[*arch.Arch]int64{x86: 3, arm: 3}); !v.IsConst() || v.Imm != 3 {
		t.Errorf("equal numbers: got %s", v.Text())
	}
	v := number(map[*arch.Arch]int64{x86: 3, arm: -4})
	for a, want := range map[*arch.Arch]int64{x86: 3, arm: -4} {
		if got, ok := PerArchValue(v.Sym, a); got != want || !ok {
			t.Errorf("number for %s = %d, %t; want %d", a.Name, got, ok, want)
		}
	}
	if _, ok := PerArchValue("x86_64=3", arm); ok {
		t.Error("found a number for an unknown architecture")
	}
	if _, ok := PerArchValue("x86_64=three", x86); ok {
		t.Error("found a number in a value that is not a constant")
	}
}
