package target

import (
	_ "embed"
	"fmt"
	"unsafe"
)

// The default targets are made by tools/target from the kernels of a current
// distribution; Release names them.
//
// They are embedded as strings, which stay in the program's read-only pages: no
// byte of them is read before a look-up needs it.
var (
	//go:embed default_x86_64.target
	defaultX86 string
	//go:embed default_aarch64.target
	defaultARM64 string
)

// Default is the embedded target for an architecture (Arch's Name or GOARCH).
// It fails where none is embedded. Each call makes a Target of its own.
func Default(arch string) (*Target, error) {
	a := ArchByName(arch)
	if a == nil {
		return nil, fmt.Errorf("no default target for the architecture %q (x86_64 and arm64 have one); give a file with --target", arch)
	}
	file := map[string]string{"x86_64": defaultX86, "aarch64": defaultARM64}[a.Name]
	// A File never writes to its bytes.
	return New(unsafe.Slice(unsafe.StringData(file), len(file)))
}
