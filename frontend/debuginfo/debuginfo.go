// SPDX-License-Identifier: Apache-2.0

// Package debuginfo reads the DWARF debug information of programs and libraries:
// the parameters of functions, the types they name, and the addresses of source
// lines.
//
// It takes the files that attach points name, on the machine that compiles, and returns types of the language.
// Nothing is read unless a script needs it. The results are bound to one build of a file by its identity
// (internal/elffile), which the loader compares with the file on the host.
package debuginfo

import (
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"btc/frontend/types"
	"btc/internal/elffile"
	"btc/internal/safefile"
)

// Finder opens files by their names in attach points.
type Finder struct {
	// Dirs are searched for separate debug files before the standard directories.
	Dirs []string
	// Files maps names in attach points to files on this machine to use instead.
	Files map[string]string

	opened map[string]*Binary
	failed map[string]error

	first *Finder // see After
	wait  func()
}

// After returns a Finder that shares the files of f, for a second user. Before it opens a file it calls wait, which
// must return only when the first user is done.
func (f *Finder) After(wait func()) *Finder {
	if f == nil {
		return nil
	}
	return &Finder{first: f, wait: wait}
}

// ErrNone is the error for a file without debug information, in itself or in a separate file.
var ErrNone = errors.New("no debug information")

// Open reads the file that an attach point names. The result is cached: each file is opened once.
func (f *Finder) Open(name string) (*Binary, error) {
	if f.first != nil {
		f.wait()
		return f.first.Open(name)
	}
	if b := f.opened[name]; b != nil {
		return b, nil
	}
	if err := f.failed[name]; err != nil {
		return nil, err
	}
	if f.opened == nil {
		f.opened, f.failed = map[string]*Binary{}, map[string]error{}
	}
	b, err := f.open(name)
	if err != nil {
		f.failed[name] = err
		return nil, err
	}
	f.opened[name] = b
	return b, nil
}

// ObjectSize returns the size in bytes of a variable of the file that an attach point names, by its
// symbol tables; 0 if it is not known.
func (f *Finder) ObjectSize(name, symbol string) uint64 {
	if f.first != nil {
		f.wait()
		return f.first.ObjectSize(name, symbol)
	}
	path, ok := f.Files[name]
	if !ok {
		if path, ok = elffile.Find(name); !ok {
			return 0
		}
	}
	file, err := openELF(path)
	if err != nil {
		return 0
	}
	defer file.Close()
	size := uint64(0)
	elffile.EachSymbol(file.File, func(s *elffile.Symbol) bool {
		found := s.Type == elf.STT_OBJECT && s.Section != elf.SHN_UNDEF && string(s.Name()) == symbol
		if found {
			size = s.Size
		}
		return !found
	})
	return size
}

func (f *Finder) open(name string) (b *Binary, err error) {
	defer func() {
		if p := recover(); p != nil { // debug/dwarf may panic on damaged input
			b, err = nil, fmt.Errorf("%s: the debug information is damaged: %v", name, p)
		}
	}()
	path, ok := f.Files[name]
	if !ok {
		if path, ok = elffile.Find(name); !ok {
			return nil, fmt.Errorf("no file %s on this machine", name)
		}
	}
	file, err := openELF(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer file.Close()
	b = &Binary{Path: path, Machine: file.Machine, loading: map[*types.Composite]bool{}, weights: map[*types.Composite]int{}}
	if b.ID, err = elffile.Identity(file.File); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	debug := file
	if !hasDebug(file.File) {
		if debug, err = f.separate(path, file); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		defer debug.Close()
	}
	b.total, b.left = maxDebugBytes, minBudget
	raw, err := readDebug(debug.File, "", &b.total)
	if err == nil {
		b.main, err = raw.parse()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: the debug information cannot be read: %w", path, err)
	}
	b.raw = raw
	b.symbols(file.File)
	if err := b.addParts(path, f.Dirs); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// elfFile is an ELF file that was opened safely.
type elfFile struct {
	*elf.File
	f *os.File
}

func (e *elfFile) Close() error { return e.f.Close() }

func openELF(path string) (*elfFile, error) {
	f, err := safefile.Open(path)
	if err != nil {
		return nil, err
	}
	var e *elf.File
	if err = checkNames(f); err == nil {
		e, err = elf.NewFile(f)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &elfFile{e, f}, nil
}

func hasDebug(f *elf.File) bool {
	for _, name := range []string{".debug_info", ".zdebug_info"} {
		if s := f.Section(name); s != nil && s.Type != elf.SHT_NOBITS && s.Size > 0 {
			return true
		}
	}
	return false
}

// separate finds the debug file of a stripped one: by build id, by the name in section .gnu_debuglink, or by its own
// name with ".debug".
func (f *Finder) separate(path string, file *elfFile) (*elfFile, error) {
	id := elffile.BuildID(file.File)
	dir, base := filepath.Split(path)
	var names []string
	for _, d := range append(append([]string(nil), f.Dirs...), "/usr/lib/debug") {
		if len(id) > 2 {
			names = append(names, filepath.Join(d, ".build-id", id[:2], id[2:]+".debug"))
		}
	}
	links := []string{base + ".debug"}
	if link := debugLink(file.File); link != "" {
		links = append([]string{link}, links...)
	}
	absolute, _ := filepath.Abs(dir)
	for _, link := range links {
		for _, d := range f.Dirs {
			names = append(names, filepath.Join(d, link))
		}
		names = append(names, filepath.Join(dir, link), filepath.Join(dir, ".debug", link),
			filepath.Join("/usr/lib/debug", absolute, link))
	}
	for _, name := range names {
		if sameFile(name, path) {
			continue
		}
		d, err := openELF(name)
		if err != nil {
			continue
		}
		if hasDebug(d.File) && elffile.BuildID(d.File) == id {
			return d, nil
		}
		d.Close()
	}
	return nil, ErrNone
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// debugLink returns the file name in section .gnu_debuglink; its checksum is not checked, because the build id
// identifies the file.
func debugLink(f *elf.File) string {
	s := f.Section(".gnu_debuglink")
	if s == nil || s.Size > 4096 {
		return ""
	}
	b, err := s.Data()
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(string(b), "\x00")
	return filepath.Base(name)
}

// part is debug information that is read separately: the file's own, or a unit that the compiler has split off.
type part struct {
	data  *dwarf.Data
	types map[dwarf.Offset]*typeEntry
	left  *int // budget, see next
}

// Binary is one file with its debug information.
type Binary struct {
	Path    string
	ID      string // identity of the build, see elffile.Identity
	Machine elf.Machine

	main  *dwarf.Data // has the line tables
	raw   *rawDebug   // of main
	total uint64      // what may still be read of debug information, in bytes
	left  int         // budget of the parts, see next
	parts []*part
	names []symbol        // functions of the symbol tables, by address
	known map[string]bool // their names
	index *index          // index of names, built when first needed

	loading map[*types.Composite]bool // whose members are being read
	weights map[*types.Composite]int  // number of composites that one contains by value
}

// maxNested bounds the symbols before an address that are tried: labels inside a function have a size of 0.
const maxNested = 1000

// symbol is a function of the symbol tables.
type symbol struct {
	name       string
	addr, size uint64
}

func (b *Binary) symbols(f *elf.File) {
	b.known = map[string]bool{}
	left := maxNames
	elffile.EachSymbol(f, func(s *elffile.Symbol) bool {
		if s.Type == elf.STT_FUNC && s.Defined() {
			name := string(s.Name())
			left -= len(name)
			b.known[name] = true
			b.names = append(b.names, symbol{name, s.Value, s.Size})
		}
		return left > 0
	})
	slices.SortStableFunc(b.names, func(x, y symbol) int { return cmp.Compare(x.addr, y.addr) })
}

// at returns the name of the function that contains an address, "" if none does.
func (b *Binary) at(addr uint64) string {
	i, _ := slices.BinarySearchFunc(b.names, addr, func(s symbol, addr uint64) int {
		if s.addr <= addr {
			return -1
		}
		return 1
	})
	for tries := 0; i > 0 && tries < maxNested; tries++ { // of several names for one function, the first one
		i--
		if s := &b.names[i]; addr-s.addr < s.size {
			for i > 0 && b.names[i-1].addr == s.addr && addr-s.addr < b.names[i-1].size {
				i--
			}
			return b.names[i].name
		}
	}
	return ""
}
