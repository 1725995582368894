// SPDX-License-Identifier: Apache-2.0

// Unpackmodules copies some modules of a kernel package, uncompressed, together with all modules that
// they depend on:
//
//	go run ./tests/kernels/cmd/unpackmodules TREE OUT NAME...
//
// It writes to OUT a file NAME.ko for each module, NAME.btf with the module's own BTF, and the file
// "order", which lists the names such that each follows its dependencies. A module that the kernel does
// not have is left out: it is built in or does not exist on this architecture. Compressed modules are
// unpacked with xz.
package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: unpackmodules TREE OUT NAME...")
		os.Exit(2)
	}
	if err := unpack(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintf(os.Stderr, "unpackmodules: %v\n", err)
		os.Exit(1)
	}
}

type unpacker struct {
	files map[string]string // module -> path
	out   string
	order []string
	done  map[string]bool
}

func unpack(tree, out string, names []string) error {
	u := &unpacker{files: map[string]string{}, out: out, done: map[string]bool{}}
	err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if name, _, ok := strings.Cut(filepath.Base(path), ".ko"); ok && err == nil && d.Type().IsRegular() {
			u.files[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, n := range names {
		if err := u.module(n); err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
	}
	return os.WriteFile(filepath.Join(out, "order"), []byte(strings.Join(u.order, "\n")+"\n"), 0o644)
}

// module writes a module after its dependencies.
func (u *unpacker) module(name string) error {
	path, ok := u.files[name]
	if !ok || u.done[name] {
		return nil
	}
	u.done[name] = true
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if strings.HasSuffix(path, ".xz") {
		if raw, err = exec.Command("xz", "-dcq", path).Output(); err != nil {
			return fmt.Errorf("xz: %w", err)
		}
	}
	f, err := elf.NewFile(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	info, err := section(f, ".modinfo")
	if err != nil {
		return err
	}
	for field := range strings.SplitSeq(string(info), "\x00") {
		needs, ok := strings.CutPrefix(field, "depends=")
		if !ok {
			continue
		}
		for n := range strings.SplitSeq(needs, ",") {
			if err := u.module(strings.ReplaceAll(n, "-", "_")); err != nil {
				return fmt.Errorf("%s: %w", n, err)
			}
		}
	}
	if types, err := section(f, ".BTF"); err == nil {
		if err := os.WriteFile(filepath.Join(u.out, name+".btf"), types, 0o644); err != nil {
			return err
		}
	}
	u.order = append(u.order, name)
	return os.WriteFile(filepath.Join(u.out, name+".ko"), raw, 0o644)
}

func section(f *elf.File, name string) ([]byte, error) {
	s := f.Section(name)
	if s == nil {
		return nil, fmt.Errorf("no section %s", name)
	}
	return s.Data()
}
