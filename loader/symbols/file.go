// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"

	"btc/internal/elffile"
	"btc/internal/xz"
)

// fileSyms are a file's functions, by offset in the file.
type fileSyms struct {
	table
	buildID string // in hex
	used    uint64 // time of last use, in terms of Table.clock
	// private: names that the process has chosen, by a debug file below its root directory, or by a file of which only the inode
	// is known to be that of the mapping. They are of this process only, or it could rename the functions of a library that
	// others have mapped, too. They are not used if the file was read for a process of the host before.
	private bool
}

// parsed is the result of reading one ELF file.
type parsed struct {
	table
	buildID  string
	full     bool // more functions than a table can hold
	stripped bool // symbols may be in a separate file
	link     string
	linkSum  uint32 // CRC-32 of the file that link names
}

// parseFile reads the symbol tables of an ELF file.
func parseFile(r io.ReaderAt) (*parsed, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	p := &parsed{buildID: elffile.BuildID(f), stripped: f.Section(".symtab") == nil}
	if p.stripped {
		p.link, p.linkSum, _ = debugLink(f)
	}
	p.add(f, f)
	if p.stripped {
		p.addMini(f)
		p.addGo(f)
	}
	p.sort()
	return p, nil
}

// maxMini bounds .gnu_debugdata when it is decompressed, in bytes.
const maxMini = 32 << 20

// addMini adds the functions of the file in .gnu_debugdata, as Fedora's programs have it.
func (p *parsed) addMini(f *elf.File) {
	data, _ := elffile.ReadSection(f, ".gnu_debugdata", maxMini)
	if data == nil {
		return
	}
	if b, err := xz.Decompress(data, maxMini); err == nil {
		if mini, err := elf.NewFile(bytes.NewReader(b)); err == nil {
			p.add(mini, f)
		}
	}
}

// addGo adds the functions of a Go program, which keeps their names when it is stripped.
func (p *parsed) addGo(f *elf.File) {
	g := elffile.ReadGoTable(f)
	if g == nil {
		return
	}
	g.Each(func(fn *elffile.GoFunction) bool {
		name := fn.Name()
		if off, ok := FileOffset(f, fn.Addr); ok && len(name) > 0 {
			p.full = !p.table.add(off, fn.End-fn.Addr, name)
		}
		return !p.full
	})
}

// parseDebugFile reads the functions of file and of debug, the separate file with the symbols stripped from it. Both have the
// same build id, unless debug was found by its checksum.
func parseDebugFile(file, debug io.ReaderAt, linked bool) (*parsed, error) {
	f, err := elf.NewFile(file)
	if err != nil {
		return nil, err
	}
	d, err := elf.NewFile(debug)
	if err != nil {
		return nil, err
	}
	p := &parsed{buildID: elffile.BuildID(f)}
	if !linked && elffile.BuildID(d) != p.buildID {
		return nil, errors.New("the debug file is of another build")
	}
	p.add(f, f)
	p.add(d, f)
	p.sort()
	return p, nil
}

// add adds the functions of f's tables, at offsets in layout's file.
func (p *parsed) add(f, layout *elf.File) {
	eachFunction(f, func(s *elffile.Symbol, name []byte) bool {
		off, ok := FileOffset(layout, s.Value)
		p.full = ok && !p.table.add(off, s.Size, name)
		return !p.full
	})
}

// eachFunction calls yield with the functions that an ELF file defines. An indirect
// function counts as one.
func eachFunction(f *elf.File, yield func(s *elffile.Symbol, name []byte) bool) error {
	return elffile.EachSymbol(f, func(s *elffile.Symbol) bool {
		if s.Type != elf.STT_FUNC && s.Type != elf.STT_LOOS || !s.Defined() {
			return true
		}
		name := s.Name()
		return len(name) == 0 || yield(s, name)
	})
}

// FileOffset returns the offset in the file of a virtual address, by the segments.
func FileOffset(f *elf.File, addr uint64) (uint64, bool) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Vaddr <= addr && addr-p.Vaddr < p.Filesz {
			return addr - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}

// CodeOffset is like FileOffset, for an address in a segment that contains code.
func CodeOffset(f *elf.File, addr uint64) (uint64, bool) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Vaddr <= addr && addr-p.Vaddr < p.Filesz {
			return addr - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}
