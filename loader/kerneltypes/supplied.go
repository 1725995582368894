// SPDX-License-Identifier: Apache-2.0

package kerneltypes

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"btc/internal/arch"
	"btc/internal/safefile"
)

// file is a BTF file, or a section of an ELF file.
type file struct {
	io.ReaderAt
	f *os.File
}

func (f *file) Close() error { return f.f.Close() }

// open opens raw BTF, or an ELF file with a section .BTF (a vmlinux with debug information).
func open(path string) (*file, error) {
	f, err := safefile.OpenPseudo(path)
	if err != nil {
		return nil, err
	}
	var magic [4]byte
	if n, _ := f.ReadAt(magic[:], 0); n < len(magic) || string(magic[:]) != elf.ELFMAG {
		return &file{f, f}, nil
	}
	r, err := btfSection(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &file{r, f}, nil
}

func btfSection(f io.ReaderAt) (io.ReaderAt, error) {
	e, err := elf.NewFile(f)
	if err != nil {
		return nil, err
	}
	s := e.Section(".BTF")
	switch {
	case e.Type == elf.ET_REL || e.Machine == elf.EM_BPF: // a module or BPF object
		return nil, errors.New("an object file, not a kernel")
	case s == nil || s.Type == elf.SHT_NOBITS:
		return nil, errors.New("an ELF file without BTF (section .BTF)")
	case s.Flags&elf.SHF_COMPRESSED == 0:
		return s.ReaderAt, nil
	}
	b, err := s.Data()
	return bytes.NewReader(b), err
}

// Kernel identifies the kernel whose types are needed.
type Kernel struct {
	Release string // as uname -r prints it
	Machine string // as uname -m prints it
	// System is the content of os-release(5); "" if unknown.
	System string
}

// arch returns btfhub's name of the architecture.
func (k *Kernel) arch() string {
	if a := arch.ByName(k.Machine); a != nil {
		return a.Label
	}
	return k.Machine
}

// InDir finds the kernel's types in a directory: DIR/RELEASE.btf, or DIR/DISTRIBUTION/VERSION/ARCH/RELEASE.btf as
// btfhub's archive has them. Two distributions can have kernels with the same release name: os-release decides, and
// without it the choice is an error. The error wraps fs.ErrNotExist if there is no file.
func (k *Kernel) InDir(dir string) (string, error) {
	name := k.Release + ".btf"
	if k.Release == "" || strings.Contains(name, "/") {
		return "", fmt.Errorf("a kernel release %q: %w", k.Release, fs.ErrNotExist)
	}
	id, version := osRelease(k.System, "ID"), osRelease(k.System, "VERSION_ID")
	for _, path := range []string{filepath.Join(dir, name), filepath.Join(dir, id, version, k.arch(), name)} {
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() {
			return path, nil
		}
	}
	found := k.everywhere(dir, name)
	switch len(found) {
	case 0:
	case 1:
		return found[0], nil
	default:
		return "", fmt.Errorf("several distributions have a kernel %s: give one of %s", k.Release,
			strings.Join(found, ", "))
	}
	if packed := k.everywhere(dir, name+".tar.xz"); len(packed) > 0 {
		return "", fmt.Errorf("%s is packed: unpack it with tar -xJf", packed[0])
	}
	return "", notFound(
		fmt.Sprintf("%s has no types for Linux %s: neither %s nor DISTRIBUTION/VERSION/%s/%s", dir, k.Release, name,
			k.arch(), name),
	)
}

// notFound is fs.ErrNotExist with another message.
type notFound string

func (e notFound) Error() string   { return string(e) }
func (e notFound) Is(o error) bool { return o == fs.ErrNotExist }

// everywhere searches the directories of all distributions and versions.
func (k *Kernel) everywhere(dir, name string) []string {
	var found []string
	distributions, _ := safefile.Entries(dir)
	for _, d := range distributions {
		versions, _ := safefile.Entries(filepath.Join(dir, d.Name()))
		for _, v := range versions {
			path := filepath.Join(dir, d.Name(), v.Name(), k.arch(), name)
			if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() {
				found = append(found, path)
			}
		}
	}
	slices.Sort(found)
	return found
}

// osRelease returns a value of os-release(5).
func osRelease(text, key string) string {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}

// Images returns the files in which distributions keep a kernel with its types.
func (k *Kernel) Images() []string {
	r := k.Release
	return []string{
		"/boot/vmlinux-" + r, "/lib/modules/" + r + "/vmlinux-" + r, "/lib/modules/" + r + "/build/vmlinux",
		"/usr/lib/debug/boot/vmlinux-" + r, "/usr/lib/debug/lib/modules/" + r + "/vmlinux", "/usr/lib/debug/boot/vmlinux-" + r + ".debug",
	}
}

// Modules names the modules of the running kernel whose own types have one of
// the names.
func Modules(names []string) ([]string, error) { return modules(filepath.Dir(Path), names) }

func modules(dir string, names []string) ([]string, error) {
	entries, err := safefile.Entries(dir)
	if err != nil {
		return nil, err
	}
	base, err := nameTable(filepath.Join(dir, filepath.Base(Path)), names)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		if e.Name() == filepath.Base(Path) {
			continue
		}
		has, err := base.inModule(filepath.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the module may have been unloaded by now
			return nil, fmt.Errorf("types of the module %s: %w", e.Name(), err)
		}
		if has {
			all = append(all, e.Name())
		}
	}
	return all, nil
}

// baseNames are the wanted names in the kernel's own table. A module's BTF continues that table: it does not repeat a
// name that the kernel has, even if the kernel only declares the type.
type baseNames struct {
	names []string
	at    map[uint32]string
	size  uint32
}

func nameTable(path string, names []string) (*baseNames, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &source{window: window{r: f}}
	if err := s.header(); err != nil {
		return nil, err
	}
	at, err := s.findNames(names)
	return &baseNames{names, at, uint32(s.strings.size)}, err
}

// inModule reports whether a module describes a type of one of the names.
func (b *baseNames) inModule(path string) (bool, error) {
	f, err := open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	s := &source{window: window{r: f}}
	if err := s.header(); err != nil {
		return false, err
	}
	own, err := s.findNames(b.names)
	if err != nil || len(own)+len(b.at) == 0 {
		return false, err
	}
	wanted := maps.Clone(b.at)
	for at, name := range own {
		wanted[at+b.size] = name
	}
	_, found, err := s.scan(wanted, isNamed)
	return len(found) > 0, err
}
