// Extractbtf writes the raw .BTF section of an uncompressed kernel image
// (vmlinux) to a file: the same bytes as /sys/kernel/btf/vmlinux on a host
// which runs that kernel.
//
//	go run ./tests/kernels/cmd/extractbtf VMLINUX OUT
package main

import (
	"debug/elf"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: extractbtf VMLINUX OUT")
		os.Exit(2)
	}
	if err := extract(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "extractbtf:", err)
		os.Exit(1)
	}
}

func extract(vmlinux, out string) error {
	f, err := elf.Open(vmlinux)
	if err != nil {
		return fmt.Errorf("%s: %w", vmlinux, err)
	}
	defer f.Close()
	s := f.Section(".BTF")
	if s == nil {
		return fmt.Errorf("%s: no .BTF section: not a kernel with CONFIG_DEBUG_INFO_BTF", vmlinux)
	}
	b, err := s.Data()
	if err != nil {
		return fmt.Errorf("%s: .BTF: %w", vmlinux, err)
	}
	return os.WriteFile(out, b, 0o644)
}
