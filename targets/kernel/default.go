// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	_ "embed"
	"fmt"
	"strings"
	"unsafe"

	"btc/internal/arch"
	"btc/targets/targetfile"
)

// The default targets are made by tools/maketarget from the kernels of a current distribution;
// see Release.
//
// The others are deltas to that of x86_64.
//
// They are embedded as strings, which stay in the program's read-only pages: none is read
// before a lookup needs it.
var (
	//go:embed default_x86_64.target
	defaultX86 string
	//go:embed default_aarch64.target
	defaultARM64 string
	//go:embed default_riscv64.target
	defaultRISCV64 string
)

// embedded returns the file of an architecture. All but the first are deltas to the first.
func embedded(a *arch.Arch) string {
	return map[string]string{"x86_64": defaultX86, "aarch64": defaultARM64, "riscv64": defaultRISCV64}[a.Name]
}

// Default returns the embedded target for an architecture (a name that arch.ByName knows). It
// fails where none is embedded. Each call makes a new Target.
func Default(name string) (*Target, error) {
	a, first := arch.ByName(name), arch.All()[0]
	if a == nil {
		return nil, fmt.Errorf("no default target for architecture %q (available: %s); use --target FILE", name,
			strings.Join(arch.Labels(), ", "))
	}
	base, err := targetfile.Open(bytesOf(embedded(first)))
	if err != nil || a == first {
		return fromFile(base, err)
	}
	return fromFile(targetfile.OpenOver(bytesOf(embedded(a)), base))
}

// bytesOf returns the bytes of an embedded file, which a File never writes to.
func bytesOf(file string) []byte { return unsafe.Slice(unsafe.StringData(file), len(file)) }
