// SPDX-License-Identifier: Apache-2.0

package ir

import "testing"

func TestEveryOpHasARule(t *testing.T) {
	for i := range Ops {
		op := Op(i)
		if op == OpInvalid || op.Info().Inline {
			if rules[op] != nil {
				t.Errorf("%s cannot occur in programs but has a rule", op)
			}
		} else if rules[op] == nil {
			t.Errorf("no rule for %s", op)
		}
	}
}
