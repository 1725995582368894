// SPDX-License-Identifier: Apache-2.0

package tier

import "testing"

func TestRuns(t *testing.T) {
	for _, c := range []struct {
		variable      string
		real, kernels bool
	}{{"", false, false}, {"real", true, false}, {"kernels,real", true, true}, {"realkernels", false, false}} {
		t.Setenv(Variable, c.variable)
		if Real.Runs() != c.real || Kernels.Runs() != c.kernels {
			t.Errorf("%s=%q: real %v, kernels %v", Variable, c.variable, Real.Runs(), Kernels.Runs())
		}
		t.Run(c.variable, func(t *testing.T) {
			defer func() {
				if t.Skipped() == c.real {
					t.Errorf("skipped: %v", t.Skipped())
				}
			}()
			Real.Need(t, "takes an hour")
		})
	}
}
