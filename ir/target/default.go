package target

import (
	_ "embed"
	"fmt"
	"unsafe"

	"btc/loader/hostinfo/targetfile"
)

// The default targets are made by tools/target from the kernels of a current
// distribution; Release names them.
//
// That of arm64 is over that of x86_64: it holds what differs.
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
	base, err := targetfile.Open(bytesOf(defaultX86))
	if err != nil || a.Name == "x86_64" {
		return fromFile(base, err)
	}
	return fromFile(targetfile.OpenOver(bytesOf(defaultARM64), base))
}

// bytesOf are the bytes of an embedded file, which a File never writes to.
func bytesOf(file string) []byte { return unsafe.Slice(unsafe.StringData(file), len(file)) }
