package symbols

import (
	"debug/elf"
	"fmt"
	"io"
	"sort"
	"strings"

	"btc/loader/binary"
	"btc/loader/order"
)

// fileSyms are a file's functions, by offset in the file.
type fileSyms struct {
	syms    []fileSym
	buildID string // in hex
}

type fileSym struct {
	off, size uint64
	name      string
}

// lookup finds the function at an offset in the file. A function without a size
// reaches to the next.
func (s *fileSyms) lookup(off uint64) (name string, in uint64, ok bool) {
	i := sort.Search(len(s.syms), func(i int) bool { return s.syms[i].off > off }) - 1
	// An outer function may surround a smaller one that ended before.
	for n := 0; i >= 0 && n < 8; i, n = i-1, n+1 {
		f := &s.syms[i]
		if off < f.off+f.size || f.size == 0 && n == 0 {
			return f.name, off - f.off, true
		}
	}
	return "", 0, false
}

// readFileSyms reads the symbol tables of an ELF file; nil when it is none.
// When the file was stripped, the separate file of its symbols is read too: path is
// the file's name, roots the folders that it counts from.
func readFileSyms(r io.ReaderAt, path string, roots []string) *fileSyms {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil
	}
	s := &fileSyms{buildID: binary.BuildID(f)}
	s.add(f, f)
	if f.Section(".symtab") == nil {
		s.addDebugFile(f, binary.BuildID(f), path, roots)
	}
	order.By(s.syms, func(a, b fileSym) int {
		switch {
		case a.off != b.off:
			if a.off < b.off {
				return -1
			}
			return 1
		case len(a.name) != len(b.name):
			return len(b.name) - len(a.name) // the lookup tries the last one, the shortest, first
		}
		return strings.Compare(b.name, a.name)
	})
	return s
}

// add takes the functions of f's tables, at offsets in layout's file.
func (s *fileSyms) add(f, layout *elf.File) {
	tab, _ := readSymbols(f)
	for _, sym := range tab {
		if off, ok := FileOffset(layout, sym.Value); ok {
			s.syms = append(s.syms, fileSym{off, sym.Size, sym.Name})
		}
	}
}

// readSymbols gives the functions of both symbol tables. debug/elf checks
// bounds, but may panic on files that are wrong in new ways.
func readSymbols(f *elf.File) (funcs []elf.Symbol, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("symbol table: %v", p)
		}
	}()
	static, _ := f.Symbols()
	dynamic, _ := f.DynamicSymbols()
	for _, s := range append(static, dynamic...) {
		if t := elf.ST_TYPE(s.Info); (t == elf.STT_FUNC || t == elf.STT_LOOS) && s.Value != 0 && s.Section != elf.SHN_UNDEF && s.Name != "" {
			funcs = append(funcs, s)
		}
	}
	return funcs, nil
}

// Functions lists the functions that an ELF file defines: name (without symbol
// version), virtual address and size. An indirect function counts as one.
func Functions(f *elf.File) ([]elf.Symbol, error) { return readSymbols(f) }

// FileOffset is the offset in the file of a virtual address, by the segments.
func FileOffset(f *elf.File, addr uint64) (uint64, bool) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Vaddr <= addr && addr-p.Vaddr < p.Filesz {
			return addr - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}

// CodeOffset is FileOffset for an address in a segment that holds code.
func CodeOffset(f *elf.File, addr uint64) (uint64, bool) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Vaddr <= addr && addr-p.Vaddr < p.Filesz {
			return addr - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}
