// SPDX-License-Identifier: Apache-2.0

package load

import (
	"slices"
	"testing"

	"btc/backend/emit"
	"btc/targets/kernel"
)

// TestVerified compares the estimate of the forecast with the number of instructions that the verifier
// of this kernel processes. For a program without callbacks, which the verifier may walk several times,
// the estimate must be within a factor of 4.
func TestVerified(t *testing.T) {
	dir, list := withManifests(t, compiled(t))
	reports := forecasts(t, dir, list, func() (*kernel.Target, error) { return kernel.Default("x86_64") })
	subprograms := map[string]bool{}
	for _, s := range list {
		subprograms[s.name] = slices.ContainsFunc(s.out.Funcs, func(f *emit.Func) bool { return f.Prog == nil })
	}
	var factors []float64
	for _, l := range native(t) {
		r := reports[l.Object]
		if !l.OK || l.Old || r == nil || l.Insns < 200 || subprograms[l.Object] {
			continue
		}
		for _, p := range r.Programs {
			if p.Name != l.Program || p.Verified == 0 {
				continue
			}
			f := float64(p.Verified) / float64(l.Insns)
			factors = append(factors, f)
			if f < 0.25 || f > 4 {
				t.Errorf("%s/%s: verifier processed %d instructions, forecast %d", l.Object, l.Program, l.Insns, p.Verified)
			}
		}
	}
	if len(factors) == 0 {
		t.Fatal("no programs compared")
	}
	slices.Sort(factors)
	at := func(part float64) float64 { return factors[int(part*float64(len(factors)-1))] }
	t.Logf("%d programs: estimate divided by kernel's count: minimum %.2f, 10 %% %.2f, median %.2f, 90 %% %.2f, maximum %.2f",
		len(factors), at(0), at(0.1), at(0.5), at(0.9), at(1))
}
