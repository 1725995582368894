// SPDX-License-Identifier: Apache-2.0

// Command maketarget makes and inspects target files.
//
// The default target that the compiler embeds is made from the kernel of
// Debian's current release, which tests/kernels fetches, unpacks and boots once
// to copy its tracefs (see tests/kernels/getkernels.sh; it leaves the directory
// build/kernels/6.12-full with vmlinux.btf, modules/*.btf, tracefs.tar and release):
//
//	go run ./tools/maketarget make -dir build/kernels/6.12-full -modules LIST \
//		-more build/kernels/sid:STRUCTS -o targets/kernel/default_x86_64.target
//
//	go run ./tools/maketarget make -dir build/kernels/6.12-full-arm64 -arch aarch64 -modules LIST \
//		-more build/kernels/sid-arm64:STRUCTS \
//		-over targets/kernel/default_x86_64.target -o targets/kernel/default_aarch64.target
//
// with LIST and STRUCTS as tests/kernels/maketargets.sh has them, which runs both.
//
//	go run ./tools/maketarget others -dir build/kernels/6.12 -o targets/kernel/other_kernels.txt \
//		build/kernels/6.1 build/kernels/5.10 build/kernels/sid
//
// lists the tracepoints and fields that these other kernels have and the first
// does not. The same inputs give the same bytes.
//
//	go run ./tools/maketarget info FILE         shows the contents of a target file, with sizes
//	go run ./tools/maketarget classes -dir DIR  compares the event -> struct mapping with the truth in
//	                                        DIR/vmlinux (needs a kernel that was booted with nokaslr)
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing/fstest"

	"btc/internal/arch"
	"btc/internal/kernelfs"
	"btc/targets/capture"
	"btc/targets/targetfile"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "target:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("expected a command: make, others, info or classes")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	dir := flags.String("dir", "", "directory with vmlinux.btf, tracefs.tar and release")
	arch := flags.String("arch", "x86_64", "architecture, as uname -m prints it")
	out := flags.String("o", "", "target file to write")
	over := flags.String("over", "", "write only the differences from this target file; info: the base of FILE")
	types := flags.String("more", "", "DIR:NAME,NAME...: structs that another kernel has, with what they refer to")
	whole := flags.String("modules", "",
		"comma-separated modules to include as a whole; others only with tracepoints and types near them (default: all as a whole)")
	gaps := flags.Bool("gaps", false, "write the file even if parts cannot be read, such as tracefs.tar")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "make":
		return makeTarget(*dir, *arch, *out, *over, *types, *whole, *gaps)
	case "info":
		return info(flags.Arg(0), *over)
	case "classes":
		return classes(*dir, *arch)
	case "others":
		return otherKernels(*dir, *arch, *out, flags.Args())
	}
	return fmt.Errorf("unknown command %q", args[0])
}

func makeTarget(dir, arch, out, over, types, whole string, partial bool) error {
	if dir == "" || out == "" {
		return errors.New("make needs -dir and -o")
	}
	data, err := describeParts(dir, arch, partial, strings.FieldsFunc(whole, func(r rune) bool { return r == ',' })...)
	if err != nil {
		return err
	}
	if types != "" {
		if err := more(data, types, arch); err != nil {
			return err
		}
	}
	if gaps := data.Meta.Gaps; len(gaps) > 0 && !partial {
		return fmt.Errorf("the description is not complete: %s", strings.Join(gaps, "; "))
	}
	for _, s := range data.Syscalls {
		if s.Nr < 0 {
			fmt.Fprintf(os.Stderr, "no number for the system call %s\n", s.Name)
		}
	}
	var file []byte
	if over == "" {
		file, err = targetfile.WriteZstd(data)
	} else if base, errBase := openTarget(over, ""); errBase != nil {
		return errBase
	} else {
		file, err = targetfile.WriteZstdOver(data, base)
	}
	if err != nil {
		return err
	}
	if err := os.WriteFile(out, file, 0o644); err != nil {
		return err
	}
	return info(out, over)
}

// describe reads a kernel's own description from a directory.
func describe(dir, machine string) (*targetfile.Data, error) {
	return describeParts(dir, machine, false)
}

// describeParts is like describe; if partial is set the tracefs may be missing.
func describeParts(dir, machine string, partial bool, whole ...string) (*targetfile.Data, error) {
	src := capture.Source{Arch: machine}
	release, err := os.ReadFile(filepath.Join(dir, "release"))
	if err != nil {
		return nil, err
	}
	src.Release = strings.TrimSpace(string(release))
	if src.BTF, err = os.ReadFile(filepath.Join(dir, "vmlinux.btf")); err != nil {
		return nil, err
	}
	if err := tracefs(&src, filepath.Join(dir, "tracefs.tar")); err != nil &&
		!(partial && errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	if src.Modules, err = modules(filepath.Join(dir, "modules")); err != nil {
		return nil, err
	}
	if len(whole) > 0 {
		capture.Abridge(&src, whole)
	}
	src.Syscalls = arch.ByName(machine).SyscallNumbers()
	return capture.Make(src)
}

// tracefs reads an archive of gettracefs.sh.
func tracefs(src *capture.Source, path string) error {
	archive, err := os.Open(path)
	if err != nil {
		return err
	}
	defer archive.Close()
	tree, err := untar(archive)
	if err != nil {
		return err
	}
	src.Tracefs = tree
	f, err := tree.Open("kallsyms")
	if err == nil {
		src.Kallsyms, err = kernelfs.ReadKallsyms(f)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// modules reads the types of the modules in a directory, by name.
func modules(dir string) ([]capture.Module, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.btf"))
	if err != nil {
		return nil, err
	}
	var all []capture.Module
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		all = append(all, capture.Module{Name: strings.TrimSuffix(filepath.Base(path), ".btf"), BTF: raw})
	}
	return all, nil
}

// untar reads an archive into memory.
func untar(r io.Reader) (fs.FS, error) {
	tree := fstest.MapFS{}
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if err == io.EOF {
			return tree, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		var b bytes.Buffer
		if _, err := io.Copy(&b, archive); err != nil {
			return nil, err
		}
		tree[path.Clean(h.Name)] = &fstest.MapFile{Data: b.Bytes(), Mode: 0o444}
	}
}

// openTarget opens a target file, which may be a delta to another one.
func openTarget(name, over string) (*targetfile.File, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if over == "" {
		return targetfile.Open(data)
	}
	base, err := openTarget(over, "")
	if err != nil {
		return nil, err
	}
	return targetfile.OpenOver(data, base)
}

func info(name, over string) error {
	f, err := openTarget(name, over)
	if err != nil {
		return err
	}
	size, err := os.Stat(name)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d bytes, %s, Linux %s\n", name, size.Size(), f.Meta.Arch, f.Meta.Release)
	for _, gap := range f.Meta.Gaps {
		fmt.Println("  missing:", gap)
	}
	for _, t := range f.Tables() {
		fmt.Printf("  %-9s %6d entries %5d blocks %8d bytes packed\n", t.Name, t.Entries, t.Blocks, t.Packed)
	}
	return nil
}
