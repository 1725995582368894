// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"slices"
	"strings"
	"syscall"
	"testing"
)

// The names in errno.h that differ from those in Go's package syscall.
var otherWords = []int{5, 9, 11, 12, 18, 23, 25, 33, 34, 35, 37, 38, 40, 74, 84, 95, 102, 122, 125, 133}

func TestNamesAreThoseOfLinux(t *testing.T) {
	capital := func(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
	for i, name := range errorNames("") {
		want := capital(syscall.Errno(i).Error())
		if strings.HasPrefix(want, "Errno ") {
			want = "Unknown error"
		}
		if i > 0 && !slices.Contains(otherWords, i) && name != want {
			t.Errorf("error %d: %q, want %q", i, name, want)
		}
	}
	for i, name := range signalNames("") {
		want := capital(syscall.Signal(i).String())
		if i > 0 && !strings.HasPrefix(want, "Signal ") && name != want {
			t.Errorf("signal %d: %q, want %q", i, name, want)
		}
	}
	if errors, signals := len(errorNames("")), len(signalNames("")); errors != 134 || signals != 65 {
		t.Errorf("only %d errors and %d signals", errors, signals)
	}
}
