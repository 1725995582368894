// SPDX-License-Identifier: Apache-2.0

package cdef

import (
	_ "embed"
	"fmt"
	"strings"

	"btc/frontend/cpp"
	"btc/targets/kernel"
)

// predefinedC is predefined for every script: function-like macros of the system's headers, which a table of
// constants cannot hold.
//
//go:embed predefined.h
var predefinedC string

// Predefined returns the environment of a script's C text: the macros of the compiler and of the
// target, and the constants of the system's headers.
func Predefined(t *kernel.Target) cpp.Options {
	arch := t.Arch().GOARCH
	return cpp.Options{
		Predefined: predefined(t),
		Constant:   func(name string) (int64, bool) { return tableConstant(arch, name) },
	}
}

func predefined(t *kernel.Target) string {
	var b strings.Builder
	names := []string{
		"BPFTRACE_HAVE_BTF", "__LP64__", "_LP64", "__linux__", "__linux", "__STDC__", "__LITTLE_ENDIAN__", "__BTC__",
	}
	for _, name := range append(names, t.Arch().Macros...) {
		fmt.Fprintf(&b, "#define %s 1\n", name)
	}
	fmt.Fprintf(&b, "#define LINUX_VERSION_CODE %d\n", versionCode(t.Release()))
	return b.String() + predefinedC
}

// versionCode returns a kernel release as LINUX_VERSION_CODE; 0 for an invalid one.
func versionCode(release string) int {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(release, "%d.%d.%d", &major, &minor, &patch); n < 2 {
		return 0
	}
	return major<<16 | minor<<8 | min(patch, 255)
}
