package target

import (
	_ "embed"
	"fmt"
	"unsafe"
)

// The default target of x86_64 is made by tools/target from the kernel of a
// current distribution; Release names it.
//
// It is embedded as a string, which stays in the program's read-only pages: no
// byte of it is read before a look-up needs it.
//
//go:embed default_x86_64.target
var defaultX86 string

// Default is the embedded target for an architecture (Arch's Name or GOARCH).
// It fails where none is embedded. Each call makes a Target of its own.
func Default(arch string) (*Target, error) {
	a := ArchByName(arch)
	if a == nil || a.Name != "x86_64" {
		return nil, fmt.Errorf("no default target for the architecture %q (x86_64 has one); give a file with --target", arch)
	}
	// A File never writes to its bytes.
	return New(unsafe.Slice(unsafe.StringData(defaultX86), len(defaultX86)))
}
