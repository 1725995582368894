package check

import "testing"

func TestGlobText(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "kprobe", true}, {"k*", "kprobe", true}, {"k*", "fentry", false}, {"*probe", "kprobe", true}, {"*e*e*", "fentry", false},
		{"f*t*y", "fentry", true}, {"kprobe", "kprobe", true}, {"probe", "kprobe", false}, {"x*", "kprobe", false},
	} {
		if got := globText(tc.pattern, tc.text); got != tc.want {
			t.Errorf("globText(%q, %q) = %v", tc.pattern, tc.text, got)
		}
	}
}
