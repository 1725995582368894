// SPDX-License-Identifier: Apache-2.0

// Unpackkernel writes the uncompressed kernel of a vmlinuz to a file: an ELF vmlinux from an x86
// bzImage, or the flat Image of arm64 and riscv64, which Debian does not always compress. QEMU boots
// these formats without emulating the decompression, and they contain the kernel's BTF.
//
//	go run ./tests/kernels/cmd/unpackkernel VMLINUZ OUT
//
// It runs xz, lz4 or zstd, depending on the compression of the image.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
)

// packers are the compression formats of Debian kernels, recognized by their first bytes.
var packers = []struct {
	magic   string
	command []string
}{
	{"\xfd7zXZ\x00", []string{"xz", "-dcq", "--single-stream"}},
	{"\x28\xb5\x2f\xfd", []string{"zstd", "-dcq"}},
	{"\x02\x21\x4c\x18", []string{"lz4", "-dcq"}},
	{"\x1f\x8b", []string{"gzip", "-dcq"}},
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: unpackkernel VMLINUZ OUT")
		os.Exit(2)
	}
	if err := unpack(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "unpackkernel: %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func unpack(image, out string) error {
	b, err := os.ReadFile(image)
	if err != nil {
		return err
	}
	if bareImage(b) {
		return os.WriteFile(out, b, 0o644)
	}
	packed, err := payload(b)
	if err != nil {
		return err
	}
	for _, p := range packers {
		if !bytes.HasPrefix(packed, []byte(p.magic)) {
			continue
		}
		cmd := exec.Command(p.command[0], p.command[1:]...)
		cmd.Stdin = bytes.NewReader(packed)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		vmlinux, err := cmd.Output()
		// The length of the image follows the compressed stream. Decompressors report it as trailing
		// garbage after they have unpacked everything.
		if !bytes.HasPrefix(vmlinux, []byte("\x7fELF")) {
			return fmt.Errorf("output of %s is not an ELF file: %v %s", p.command[0], err, stderr.String())
		}
		return os.WriteFile(out, vmlinux, 0o644)
	}
	return fmt.Errorf("unknown compression format (first bytes %x)", packed[:min(6, len(packed))])
}

// bareImage reports whether b is an uncompressed Image of arm64 or riscv64, by the magic
// number of its header (Documentation/arch/arm64/booting.rst, arch/riscv/boot-image-header.rst).
func bareImage(b []byte) bool {
	return len(b) > 64 && (string(b[0x38:0x3c]) == "ARM\x64" || string(b[0x38:0x3c]) == "RSC\x05")
}

// payload finds the compressed kernel by the setup header of the x86 boot protocol.
func payload(b []byte) ([]byte, error) {
	const (
		setupSectors  = 0x1f1
		headerMagic   = 0x202
		payloadOffset = 0x248
		headerEnd     = 0x250
	)
	if len(b) < headerEnd || string(b[headerMagic:headerMagic+4]) != "HdrS" {
		return nil, fmt.Errorf("not an x86 bzImage")
	}
	setup := int(b[setupSectors])
	if setup == 0 {
		setup = 4
	}
	start := (setup+1)*512 + int(binary.LittleEndian.Uint32(b[payloadOffset:]))
	size := int(binary.LittleEndian.Uint32(b[payloadOffset+4:]))
	if start < 0 || size < 0 || start+size > len(b) {
		return nil, fmt.Errorf("truncated: payload of %d bytes at offset %d, file size %d", size, start, len(b))
	}
	return b[start : start+size], nil
}
