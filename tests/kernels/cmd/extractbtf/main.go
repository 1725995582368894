// SPDX-License-Identifier: Apache-2.0

// Extractbtf writes the BTF of an uncompressed kernel image to a file: the same bytes as
// /sys/kernel/btf/vmlinux on a host that runs this kernel. The image is an ELF vmlinux with a .BTF
// section or a flat image (arm64's Image), in which the BTF is found by its header.
//
//	go run ./tests/kernels/cmd/extractbtf IMAGE OUT
package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: extractbtf IMAGE OUT")
		os.Exit(2)
	}
	if err := extract(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "extractbtf:", err)
		os.Exit(1)
	}
}

func extract(image, out string) error {
	b, err := os.ReadFile(image)
	if err != nil {
		return err
	}
	var found []byte
	if bytes.HasPrefix(b, []byte(elf.ELFMAG)) {
		found, err = section(b)
	} else {
		found, err = search(b)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", image, err)
	}
	return os.WriteFile(out, found, 0o644)
}

func section(vmlinux []byte) ([]byte, error) {
	f, err := elf.NewFile(bytes.NewReader(vmlinux))
	if err != nil {
		return nil, err
	}
	s := f.Section(".BTF")
	if s == nil {
		return nil, fmt.Errorf("no .BTF section: not a kernel with CONFIG_DEBUG_INFO_BTF")
	}
	return s.Data()
}

// search returns the longest BTF with a valid header: the type section and the string section follow
// each other, and the string section begins and ends with NUL.
func search(image []byte) ([]byte, error) {
	const header = 24
	magic := []byte{0x9f, 0xeb, 1, 0}
	var best []byte
	for at := 0; ; at += len(magic) {
		i := bytes.Index(image[at:], magic)
		if i < 0 {
			break
		}
		at += i
		b := image[at:]
		if len(b) < header {
			break
		}
		word := func(i int) uint64 { return uint64(binary.LittleEndian.Uint32(b[4*i:])) }
		start, types, typesLen, strs, strsLen := word(1), word(2), word(3), word(4), word(5)
		end := start + strs + strsLen
		if start < header || types != 0 || strs != typesLen || strsLen == 0 || end > uint64(len(b)) {
			continue
		}
		if b[start+strs] == 0 && b[end-1] == 0 && end > uint64(len(best)) {
			best = b[:end]
		}
	}
	if best == nil {
		return nil, fmt.Errorf("no BTF found: not a kernel with CONFIG_DEBUG_INFO_BTF")
	}
	return best, nil
}
