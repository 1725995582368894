// Command target makes and inspects target files.
//
// The default target that the compiler embeds is made from the kernel of
// Debian's current release, which tests/kernels fetches, unpacks and boots once
// to copy its tracefs (see tests/kernels/getkernels.sh; it leaves the folder
// build/kernels/6.12 with vmlinux.btf, tracefs.tar and release):
//
//	go run ./tools/target make -dir build/kernels/6.12 -arch x86_64 -o ir/target/default_x86_64.target
//
// The same inputs give the same bytes. System call numbers come from the tables
// of golang.org/x/sys/unix in the version that go.mod pins.
//
//	go run ./tools/target info FILE         what a target file holds, with sizes
//	go run ./tools/target classes -dir DIR  compares the event -> struct mapping with the truth in
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

	"btc/loader/hostinfo"
	"btc/loader/hostinfo/capture"
	"btc/loader/hostinfo/targetfile"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "target:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("give a command: make, info or classes")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	dir := flags.String("dir", "", "folder with vmlinux.btf, tracefs.tar and release")
	arch := flags.String("arch", "x86_64", "architecture, as uname -m prints it")
	out := flags.String("o", "", "target file to write")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "make":
		return makeTarget(*dir, *arch, *out)
	case "info":
		return info(flags.Arg(0))
	case "classes":
		return classes(*dir, *arch)
	}
	return fmt.Errorf("unknown command %q", args[0])
}

func makeTarget(dir, arch, out string) error {
	if dir == "" || out == "" {
		return errors.New("make needs -dir and -o")
	}
	data, err := describe(dir, arch)
	if err != nil {
		return err
	}
	if gaps := data.Meta.Gaps; len(gaps) > 0 {
		return fmt.Errorf("the description is not complete: %s", strings.Join(gaps, "; "))
	}
	for _, s := range data.Syscalls {
		if s.Nr < 0 {
			fmt.Fprintf(os.Stderr, "no number for the system call %s\n", s.Name)
		}
	}
	file, err := targetfile.Write(data)
	if err != nil {
		return err
	}
	if err := os.WriteFile(out, file, 0o644); err != nil {
		return err
	}
	return info(out)
}

// describe reads a kernel's own description from a folder.
func describe(dir, arch string) (*targetfile.Data, error) {
	src := capture.Source{Arch: arch}
	release, err := os.ReadFile(filepath.Join(dir, "release"))
	if err != nil {
		return nil, err
	}
	src.Release = strings.TrimSpace(string(release))
	if src.BTF, err = os.ReadFile(filepath.Join(dir, "vmlinux.btf")); err != nil {
		return nil, err
	}
	archive, err := os.Open(filepath.Join(dir, "tracefs.tar"))
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	tree, err := untar(archive)
	if err != nil {
		return nil, err
	}
	src.Tracefs = tree
	if f, err := tree.Open("kallsyms"); err == nil {
		src.Kallsyms, err = hostinfo.ReadKallsyms(f)
		if err != nil {
			return nil, err
		}
	}
	if src.Syscalls, err = syscallNumbers(arch); err != nil {
		return nil, err
	}
	return capture.Make(src)
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

func info(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	f, err := targetfile.Open(data)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d bytes, %s, Linux %s\n", name, len(data), f.Meta.Arch, f.Meta.Release)
	for _, gap := range f.Meta.Gaps {
		fmt.Println("  missing:", gap)
	}
	for _, t := range f.Tables() {
		fmt.Printf("  %-9s %6d entries %5d blocks %8d bytes packed\n", t.Name, t.Entries, t.Blocks, t.Packed)
	}
	return nil
}
