// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"testing"
)

// TestWarningsOfLibrary checks that a warning in a standard macro is reported at the call in the script if it is about
// the values that the script passes, and not at all if it is about how the library is written.
func TestWarningsOfLibrary(t *testing.T) {
	const cast = "Expression of type: uint64 being cast to type: int64. This may cause unexpected results. Use an explicit cast to suppress this warning."
	for _, x := range []struct {
		script string
		want   []string
	}{
		{"begin { print(is_err((int64)-1)); print(is_err(5)); }", nil},
		{"begin { print(comm((uint64)1)); }", nil},
		{"begin { @h[1] = nsecs; let $v = (int64)1; print(find(@h, 1, $v)); }", []string{"test.bt:1:49: warning[W0201]: in find(): " + cast}},
		{"macro get(@m, $v) { find(@m, 1, $v) }\nbegin { @h[1] = nsecs; let $v = (int64)1; print(get(@h, $v)); }", []string{"test.bt:1:21: warning[W0201]: in find(): " + cast}},
		{"macro mine(x) { (int64)x }\nbegin { print(mine((int64)1)); }", []string{"test.bt:1:17: warning[W0209]: Unnecessary cast: expression is already of type int64"}},
	} {
		_, l := checkText(x.script)
		var have []string
		for _, d := range l.Sorted() {
			have = append(have, d.Error())
		}
		if !slices.Equal(have, x.want) {
			t.Errorf("%s\n%q, want %q", x.script, have, x.want)
		}
	}
}
