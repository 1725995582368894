// SPDX-License-Identifier: Apache-2.0

package regalloc

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"btc/backend/mach"
	"btc/ir"
)

// allocate allocates with the checker enabled. It is not an error if the frame is too small for a
// random function with many live values.
func allocate(t *testing.T, f *mach.Func) bool {
	t.Helper()
	err := Allocate(f, Options{Check: true})
	var tooLarge ir.Diag
	if errors.As(err, &tooLarge) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range f.Blocks {
		for n := range b.Insns {
			b.Insns[n].Encode() // panics if not in machine form
		}
	}
	return true
}

func TestRandomFunctions(t *testing.T) {
	spilled := 0
	for seed := range uint64(600) {
		f := randomFunc(seed, 5+int(seed%60), int(seed%17))
		if allocate(t, f) && f.FrameUsed > 0 {
			spilled++
		}
	}
	if spilled < 200 {
		t.Errorf("only %d functions spilled: the generator tests too little", spilled)
	}
}

func FuzzAllocate(f *testing.F) {
	f.Add(uint64(1), uint8(30), uint8(12))
	f.Fuzz(func(t *testing.T, seed uint64, size, pressure uint8) {
		allocate(t, randomFunc(seed, int(size), int(pressure%40)))
	})
}

// TestCheckerFindsErrors breaks correct allocations, and requires that the checker detects most of
// the errors.
func TestCheckerFindsErrors(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	caught, tried := 0, 0
	for seed := range uint64(400) {
		f := randomFunc(seed, 20, 8)
		f.Order()
		before := takeSnapshot(f)
		if Allocate(f, Options{}) != nil {
			continue
		}
		if err := before.check(f); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		b := f.Blocks[r.IntN(len(f.Blocks))]
		if len(b.Insns) == 0 {
			continue
		}
		i := &b.Insns[r.IntN(len(b.Insns))]
		if len(i.Args) == 0 || i.Op.IsCall() {
			continue
		}
		k := r.IntN(len(i.Args))
		if !i.Args[k].IsReg() || i.Args[k].Reg == mach.R10 || i.From == nil {
			continue
		}
		i.Args[k].Reg = (i.Args[k].Reg + 1 + mach.Reg(r.IntN(8))) % numRegs
		tried++
		if before.check(f) != nil {
			caught++
		}
	}
	if tried < 50 || caught < tried*9/10 {
		t.Errorf("checker found %d of %d errors", caught, tried)
	}
}

func TestFrameOverflowIsAnError(t *testing.T) {
	f := randomFunc(3, 40, 16)
	f.FrameUsed = 512
	err := Allocate(f, Options{Check: true})
	var e ir.Diag
	if !errors.As(err, &e) || !strings.Contains(e.Text, "512 for variables") {
		t.Fatalf("error = %v, want one about variables", err)
	}
}
