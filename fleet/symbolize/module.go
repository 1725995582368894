// SPDX-License-Identifier: Apache-2.0

package symbolize

import (
	"bytes"
	"debug/elf"
	"fmt"
	slashed "path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"btc/internal/elffile"
	"btc/loader/format"
)

// module is a program, a library, the kernel or a module of it: its files, which have the same build id.
type module struct {
	files *Files
	name  string // in the recording
	id    string

	layout  *elfFile // has the content of the segments, or at least their addresses
	symbols *elfFile // has the most symbols
	debug   *elfFile // has the debug information
	all     []*elfFile

	segments []segment
	named    []symbol // ascending
	units    *units   // of debug; nil: none
	known    map[lookup][]format.Frame
}

// segment is a part of the file that is loaded.
type segment struct{ offset, addr, size uint64 }

// symbol is a function of a symbol table.
type symbol struct {
	addr, size uint64
	name       string
	section    elf.SectionIndex
}

func (m *module) empty() bool { return m.layout == nil }

func (m *module) close() {
	for _, e := range m.all {
		e.close()
	}
}

// add opens a file and uses it for what the module lacks.
func (m *module) add(path string) {
	if m.debug != nil && m.layout != nil && m.symbols != nil && loaded(m.layout) || len(m.all) >= 16 {
		return
	}
	e := openELF(path)
	if e == nil || e.id != m.id {
		e.close()
		return
	}
	m.all = append(m.all, e)
	if m.layout == nil || loaded(e) && !loaded(m.layout) {
		m.layout = e
	}
	if m.symbols == nil && e.has(".symtab") {
		m.symbols = e
	}
	if m.debug == nil && e.has(".debug_info", ".zdebug_info") {
		m.debug = e
	}
}

// loaded reports whether a file has the content of its segments: the program headers of a debug file do not say where they were.
func loaded(e *elfFile) bool {
	code := false
	for _, s := range e.Sections {
		if s.Flags&elf.SHF_EXECINSTR != 0 && s.Size > 0 {
			if s.Type != elf.SHT_NOBITS {
				return true
			}
			code = true
		}
	}
	return !code && slices.ContainsFunc(e.Progs, func(p *elf.Prog) bool {
		return p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Filesz > 0
	})
}

// open reads the tables of the module.
func (m *module) open() {
	if m.layout == nil {
		return
	}
	m.segments = segmentsOf(m.layout.File)
	for _, e := range m.all {
		m.addSymbols(e)
	}
	if m.symbols == nil {
		switch mini, err := m.layout.miniDebug(); {
		case err != nil:
			m.files.warnOnce(fmt.Sprintf("%s: .gnu_debugdata: %v", m.layout.path, err))
		case mini != nil:
			m.addSymbols(mini)
		}
		m.addGo()
	}
	sort.SliceStable(m.named, func(i, j int) bool {
		a, b := &m.named[i], &m.named[j]
		if a.addr != b.addr {
			return a.addr < b.addr
		}
		if len(a.name) != len(b.name) { // as btrun: the last is tried first
			return len(a.name) > len(b.name)
		}
		return a.name > b.name
	})
	m.named = slices.Compact(m.named)
	if m.debug != nil {
		var err error
		if m.units, err = m.readUnits(); err != nil {
			m.files.warnOnce(fmt.Sprintf("%s: the debug information cannot be read: %v", m.debug.path, err))
		}
	}
}

// segmentsOf returns the segments with code. Those of a debug file have no content, and no offset of the file that it was made
// of: linkers put each segment at the first offset that is equal to its address modulo the alignment.
func segmentsOf(f *elf.File) (all []segment) {
	end := uint64(0)
	whole := loaded(&elfFile{File: f})
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD {
			continue
		}
		s := segment{p.Off, p.Vaddr, p.Filesz}
		if align := p.Align; !whole && align > 0 && align&(align-1) == 0 {
			s.offset, s.size = end+(p.Vaddr-end)&(align-1), p.Memsz
		}
		end = s.offset + s.size
		if p.Flags&elf.PF_X != 0 {
			all = append(all, s)
		}
	}
	return all
}

// maxName bounds a name in debug information, in bytes, as elffile bounds those in symbol tables.
const maxName = 1 << 14

// maxSymbols bounds the functions of a module.
const maxSymbols = 1 << 23

// maxNames bounds the names of the functions of all modules, in bytes: those of a table may have the same text. A variable for
// tests.
var maxNames = 1 << 30

// addSymbol adds a function. It reports whether there is room for more.
func (m *module) addSymbol(s symbol) bool {
	if m.files.names += len(s.name); m.files.names > maxNames {
		m.files.warnOnce(fmt.Sprintf("%s: too many names of functions: the others are not read", m.layout.path))
		return false
	}
	m.named = append(m.named, s)
	return len(m.named) < maxSymbols
}

func (m *module) addSymbols(e *elfFile) {
	elffile.EachSymbol(e.File, func(s *elffile.Symbol) bool {
		kind := s.Type == elf.STT_FUNC || s.Type == elf.STT_LOOS || s.Type == elf.STT_NOTYPE && m.kernel()
		if name := s.Name(); kind && s.Section != elf.SHN_UNDEF && (s.Value != 0 || e.Type == elf.ET_REL) && len(name) > 0 && name[0] != '$' {
			return m.addSymbol(symbol{s.Value, s.Size, string(name), s.Section})
		}
		return true
	})
}

func (m *module) addGo() {
	g := elffile.ReadGoTable(m.layout.File)
	if g == nil {
		return
	}
	g.Each(func(f *elffile.GoFunction) bool {
		if name := f.Name(); len(name) > 0 {
			return m.addSymbol(symbol{f.Addr, f.End - f.Addr, string(name), 1})
		}
		return true
	})
}

// kernel reports whether the module is the kernel or one of its modules.
func (m *module) kernel() bool {
	return !strings.HasPrefix(m.name, "/") && !strings.HasPrefix(m.name, "[")
}

// address returns the address in the file that a frame's is, and the section that it is relative to, of a kernel module.
func (m *module) address(f *format.Frame) (addr uint64, section elf.SectionIndex, ok bool) {
	if !m.kernel() {
		for _, s := range m.segments {
			if f.FileOffset >= s.offset && f.FileOffset-s.offset < s.size {
				return f.FileOffset - s.offset + s.addr, 0, true
			}
		}
		return 0, 0, false
	}
	// Where the kernel is in memory differs at each boot. Its functions are known by their names; of several with one name, it
	// is the one at the same distance from the begin of the code.
	var found []*symbol
	text := uint64(0)
	for i := range m.named {
		s := &m.named[i]
		if s.name == "_text" {
			text = s.addr
		}
		if f.Sym != "" && s.name == f.Sym {
			found = append(found, s)
		}
	}
	if m.layout.Type != elf.ET_REL && text != 0 {
		return text + f.FileOffset, 0, true
	}
	if len(found) != 1 {
		return 0, 0, false
	}
	return found[0].addr + f.Offset, found[0].section, true
}

// symbol returns the function of the symbol tables at an address, preferably with a name.
func (m *module) symbol(addr uint64, section elf.SectionIndex, prefer string) *symbol {
	i := sort.Search(len(m.named), func(i int) bool { return m.named[i].addr > addr }) - 1
	var found *symbol
	for n := 0; i >= 0 && n < 64; i-- {
		s := &m.named[i]
		if found != nil && s.addr != found.addr {
			break
		}
		if section != 0 && s.section != section {
			continue
		}
		if addr-s.addr < s.size || s.size == 0 && n == 0 {
			if found == nil || s.name == prefer {
				found = s
			}
		}
		n++
	}
	return found
}

// frames returns a frame, preceded by those of functions that were inlined into it.
func (m *module) frames(f *format.Frame, returns bool) []format.Frame {
	key := lookup{*f, returns}
	if known, ok := m.known[key]; ok {
		return known
	}
	if len(m.known) >= maxKnown || m.known == nil {
		m.known = map[lookup][]format.Frame{}
	}
	frames := m.resolve(f, returns)
	m.known[key] = frames
	return frames
}

// lookup is what was looked up in a module.
type lookup struct {
	frame   format.Frame
	returns bool
}

// maxKnown bounds the results that are kept for a module.
const maxKnown = 1 << 18

func (m *module) resolve(f *format.Frame, returns bool) []format.Frame {
	addr, section, ok := m.address(f)
	if !ok {
		return []format.Frame{*f}
	}
	pc := addr
	if returns && pc > 0 {
		pc--
	}
	var lines []position
	if m.units != nil {
		lines = m.units.at(pc, section, f.Sym)
	}
	for i := range lines { // a recording with longer ones is not read
		if len(lines[i].name) > maxName {
			lines[i].name = ""
		}
		if len(lines[i].file) > maxName {
			lines[i].file = ""
		}
	}
	outer := *f
	linkage := ""
	if n := len(lines); n > 0 {
		linkage = lines[n-1].name
		outer.Source, outer.Line = lines[n-1].file, lines[n-1].line
	}
	if s := m.symbol(pc, section, linkage); outer.Sym == "" && s != nil {
		outer.Sym, outer.Offset = elffile.Demangled(s.name), addr-s.addr
	} else if outer.Sym == "" && linkage != "" {
		outer.Sym, outer.Offset = elffile.Demangled(linkage), addr-lines[len(lines)-1].begin
	}
	frames := make([]format.Frame, 0, len(lines)+1)
	for i := range max(len(lines)-1, 0) {
		inner := *f
		inner.Sym, inner.Offset, inner.Inlined = elffile.Demangled(lines[i].name), 0, true
		inner.Source, inner.Line = lines[i].file, lines[i].line
		frames = append(frames, inner)
	}
	return append(frames, outer)
}

// alternate opens the file that .gnu_debugaltlink names: a dwz file with what several debug files have in common.
func (m *module) alternate() (*elfFile, error) {
	link, _ := elffile.ReadSection(m.debug.File, ".gnu_debugaltlink", 4096)
	if link == nil {
		return nil, nil
	}
	name, id, _ := bytes.Cut(link, []byte{0})
	alt := &module{files: m.files, id: fmt.Sprintf("%x", id)}
	path := filepath.FromSlash(string(name))
	if path = filepath.Join(filepath.Dir(m.debug.path), path); m.files.below(path) {
		alt.add(path)
	}
	for _, dir := range m.files.dirs {
		if validID(alt.id) {
			for _, prefix := range []string{"", "usr/lib/debug", "lib/debug"} {
				alt.add(filepath.Join(dir, prefix, ".build-id", alt.id[:2], alt.id[2:]+".debug"))
			}
		}
		if i := strings.Index(string(name), ".dwz/"); i >= 0 {
			for _, prefix := range []string{"", "usr/lib/debug"} {
				alt.add(filepath.Join(dir, prefix, filepath.FromSlash(slashed.Clean("/"+string(name[i:])))))
			}
		}
	}
	if alt.debug == nil {
		for _, path := range m.files.indexed()[alt.id] {
			alt.add(path)
		}
	}
	m.all = append(m.all, alt.all...)
	if alt.debug == nil {
		return nil, fmt.Errorf("it needs the file %s of .gnu_debugaltlink, with the build id %s, which is not below the directories", name, alt.id)
	}
	return alt.debug, nil
}
