// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"testing"

	"btc/frontend/expand"
)

// TestValuesAreNoTypes checks that each builtin that may be written without parentheses is a value in
// "(name) - 1" and in sizeof, not the name of a type, and that no function is.
func TestValuesAreNoTypes(t *testing.T) {
	isValue := expand.Values(IsValue)
	for name, fn := range functionTable() {
		if name == "arg" {
			name = "arg0"
		}
		if got := isValue(name); got != fn.value {
			t.Errorf("%s: value: %v, want %v", name, got, fn.value)
		}
		if !fn.value || fn.unsupported {
			continue
		}
		for _, script := range []string{"kprobe:f { print((%s) - 1); }", "kprobe:f { print(sizeof(%s)); }"} {
			script = fmt.Sprintf(script, name)
			_, l := checkText(script)
			for _, d := range l.Sorted() {
				if d.Code == "E0205" {
					t.Errorf("%s: %s", script, d.Message)
				}
			}
		}
	}
	if !isValue("has_cpid") {
		t.Error("has_cpid, a macro of the library, is not a value")
	}
}
