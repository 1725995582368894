// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"math/rand"
	"sort"
	"testing"

	"btc/ir"
	"btc/ir/interp"
	"btc/targets/kernel"
	"btc/tests/irgen"
)

// checkOptimisations runs each optimisation separately, and then all of them, on a generated module.
// The result must be valid and behave the same.
func checkOptimisations(t *testing.T, data []byte) {
	t.Helper()
	before := irgen.Module(data, irgen.Mixed)
	names := make([]string, 0, len(optimisations))
	for name := range optimisations {
		names = append(names, name)
	}
	sort.Strings(names)
	all := before.Clone()
	for _, name := range names {
		alone := before.Clone()
		for _, m := range []*ir.Module{alone, all} {
			text := m.String()
			optimisations[name](m)
			if err := ir.Verify(m); err != nil {
				t.Fatalf("%s: %v\nbefore\n%s\nafter\n%s", name, err, text, m)
			}
			if err := interp.Equivalent(before, m, irgen.Inputs()); err != nil {
				t.Fatalf("%s: %v\nbefore\n%s\nafter\n%s", name, err, text, m)
			}
		}
	}
}

func TestOptimisationsKeepMeaning(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for range 150 {
		data := make([]byte, r.Intn(400))
		r.Read(data)
		checkOptimisations(t, data)
	}
}

// checkPipeline runs the whole pipeline. The lowered module must behave as the original one in the
// interpreter.
func checkPipeline(t *testing.T, data []byte) {
	t.Helper()
	before := irgen.Module(data, irgen.Mixed)
	var err error
	if before.Target, err = kernel.Default("x86_64"); err != nil {
		t.Fatal(err)
	}
	after := before.Clone()
	if err := Run(after, Options{Verify: ir.VerifyStage}); err != nil {
		return // too large for a kernel
	}
	if err := interp.Equivalent(before, after, irgen.Inputs()); err != nil {
		t.Fatalf("%v\nbefore\n%s\nafter\n%s", err, before, after)
	}
}

func TestPipelineKeepsMeaning(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	for range 100 {
		data := make([]byte, r.Intn(400))
		r.Read(data)
		checkPipeline(t, data)
	}
}

func FuzzPipeline(f *testing.F) {
	f.Add([]byte("some bytes to begin with"))
	f.Fuzz(func(t *testing.T, data []byte) { checkPipeline(t, data[:min(len(data), 600)]) })
}

func FuzzOptimisations(f *testing.F) {
	f.Add([]byte("some bytes to begin with"))
	f.Fuzz(func(t *testing.T, data []byte) { checkOptimisations(t, data[:min(len(data), 600)]) })
}
