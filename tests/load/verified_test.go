// SPDX-License-Identifier: Apache-2.0

package load

import (
	"slices"
	"testing"

	"btc/backend/emit"
	"btc/ir/kernel"
)

// TestVerified checks the forecast's estimate against what this machine's kernel
// goes through. Of a program without callbacks, which the kernel walks several times,
// it is within a factor of 4.
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
				t.Errorf("%s/%s: the kernel goes through %d instructions, the forecast says %d", l.Object, l.Program, l.Insns, p.Verified)
			}
		}
	}
	if len(factors) == 0 {
		t.Fatal("no program was compared")
	}
	slices.Sort(factors)
	at := func(part float64) float64 { return factors[int(part*float64(len(factors)-1))] }
	t.Logf("%d programs: estimate by kernel %.2f at least, %.2f, %.2f in the median, %.2f, %.2f at most",
		len(factors), at(0), at(0.1), at(0.5), at(0.9), at(1))
}
