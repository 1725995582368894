// SPDX-License-Identifier: Apache-2.0

package symbolize

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"slices"
	"sort"
	"strings"

	"btc/internal/elffile"
)

// units are the compilation units of a file's debug information (DWARF 2 to 5).
type units struct {
	data    *dwarf.Data
	alt     *dwarf.Data // of .gnu_debugaltlink; nil: none
	altText []byte      // its .debug_str
	ranges  []unitRange // ascending by low
	longest uint64      // of ranges
	loaded  map[dwarf.Offset]*unit
	nodes   int // of all loaded units
	// relative: addresses are relative to sections, of which several begin at 0 (a kernel module).
	relative bool
}

type unitRange struct {
	low, high uint64
	unit      dwarf.Offset
}

// position is a function and a line in it.
type position struct {
	name  string // as in symbol tables, if there is such a name
	file  string
	line  int
	begin uint64 // address of the function
}

// unit is a compilation unit.
type unit struct {
	functions []function
	rows      []row // of the line table, by sequence
	sequences []sequence
	files     []*dwarf.LineFile
}

// function is a function, or a place where one was inlined.
type function struct {
	ranges             [][2]uint64
	entry              dwarf.Offset
	outer              int // index of the function that it is inlined into; -1: it is not inlined
	callFile, callLine int
}

type row struct {
	addr       uint64
	file, line int
}

type sequence struct {
	low, high uint64
	from, to  int // in rows
}

// maxNodes bounds what is loaded of a module at once: entries, ranges and rows. A variable for tests.
var maxNodes = 1 << 22

// Limits of debug information.
const (
	maxDebug  = 4 << 30 // bytes of all sections, decompressed
	maxRows   = 1 << 24
	maxOrigin = 16 // from one entry to the one with the name
	maxInline = 256
)

// Attributes that package dwarf does not name, or not for all versions (DWARF 5, table 7.5; binutils' dwarf2.def).
const (
	attrLinkageMIPS dwarf.Attr = 0x2007
	attrDwoGNU      dwarf.Attr = 0x2130
	attrDwo         dwarf.Attr = 0x76
)

// guarded returns the error of f, or a panic as an error: package dwarf may panic on damaged input.
func guarded(f func() error) (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("damaged: %v", x)
		}
	}()
	return f()
}

// bounded returns an error if the sections are too large when they are decompressed.
func (e *elfFile) bounded() error {
	size := uint64(0)
	for _, s := range e.Sections {
		if strings.HasPrefix(s.Name, ".zdebug") {
			s.Open() // sets Size to that of the content
		}
		if size += s.Size; size > maxDebug || s.Size > maxDebug {
			return fmt.Errorf("more than %d GiB", maxDebug>>30)
		}
	}
	return nil
}

// readUnits reads where the units are.
func (m *module) readUnits() (u *units, err error) {
	if err := m.debug.bounded(); err != nil {
		return nil, err
	}
	u = &units{loaded: map[dwarf.Offset]*unit{}, relative: m.debug.Type == elf.ET_REL}
	err = guarded(func() (err error) {
		if u.data, err = m.debug.DWARF(); err != nil {
			return err
		}
		alt, err := m.alternate()
		if alt != nil {
			if err := alt.bounded(); err != nil {
				return fmt.Errorf("%s: %w", alt.path, err)
			}
			u.altText, _ = elffile.ReadSection(alt.File, ".debug_str", maxDebug)
			u.alt, err = alt.DWARF()
		}
		if err != nil {
			m.files.warnOnce(m.debug.path + ": some names are missing: " + err.Error())
		}
		return u.readRanges(m)
	})
	if err != nil {
		return nil, err
	}
	return u, nil
}

func (u *units) readRanges(m *module) error {
	var partial []dwarf.Offset // units in one place, or in several, which DWARF 2 cannot say
	for r := u.data.Reader(); ; r.SkipChildren() {
		e, err := r.Next()
		if e == nil || err != nil || len(u.ranges) > maxNodes {
			break // what was read is used
		}
		if e.Tag != dwarf.TagCompileUnit && e.Tag != dwarf.TagSkeletonUnit {
			continue
		}
		for _, attr := range []dwarf.Attr{attrDwo, attrDwoGNU} {
			if name, ok := e.Val(attr).(string); ok {
				m.files.warnOnce(fmt.Sprintf("%s: debug information in separate files (-gsplit-dwarf), such as %s, is not read: there are no lines and inlined functions", m.debug.path, name))
				e = nil
				break
			}
		}
		if e == nil {
			continue
		}
		ranges, _ := u.data.Ranges(e)
		if e.AttrField(dwarf.AttrRanges) == nil {
			partial = append(partial, e.Offset)
		}
		for _, x := range ranges {
			if x[0] < x[1] {
				u.ranges = append(u.ranges, unitRange{x[0], x[1], e.Offset})
			}
		}
	}
	u.readARanges(m, partial)
	for _, r := range u.ranges {
		u.longest = max(u.longest, r.high-r.low)
	}
	sort.SliceStable(u.ranges, func(i, j int) bool { return u.ranges[i].low < u.ranges[j].low })
	return nil
}

// readARanges adds where units are by .debug_aranges (DWARF 5, 6.1.2).
func (u *units) readARanges(m *module, units []dwarf.Offset) {
	data, _ := elffile.ReadSection(m.debug.File, ".debug_aranges", 1<<28)
	order := m.debug.ByteOrder
	for len(units) > 0 && len(data) >= 12 {
		size := uint64(order.Uint32(data))
		if size < 8 || size > uint64(len(data)-4) {
			return // also with offsets of 64 bits, which no compiler for Linux writes
		}
		set := data[4 : 4+size]
		data = data[4+size:]
		head, width := dwarf.Offset(order.Uint32(set[2:])), int(set[6])
		i := sort.Search(len(units), func(i int) bool { return units[i] > head })
		if i == len(units) || units[i]-head > 32 || width != 8 || set[7] != 0 {
			continue
		}
		for at := 12; at+16 <= len(set); at += 16 { // aligned to 16 bytes from the begin of the size
			low, n := order.Uint64(set[at:]), order.Uint64(set[at+8:])
			if n > 0 && low+n > low {
				u.ranges = append(u.ranges, unitRange{low, low + n, units[i]})
			}
		}
	}
}

// at returns the functions at an address with their lines: the innermost one first. The last one is not inlined.
func (u *units) at(pc uint64, section elf.SectionIndex, name string) (all []position) {
	guarded(func() error {
		i := sort.Search(len(u.ranges), func(i int) bool { return u.ranges[i].low > pc })
		for n := 0; i > 0 && n < 1<<12; n++ {
			i--
			r := &u.ranges[i]
			if pc-r.low >= u.longest {
				break
			}
			if pc >= r.high {
				continue
			}
			x := u.load(r.unit)
			if x == nil {
				continue
			}
			if all = u.chain(x, pc); len(all) > 0 && (!u.relative || all[len(all)-1].name == name) {
				return nil
			}
			all = nil
		}
		return nil
	})
	return all
}

// chain returns the functions of a unit at an address.
func (u *units) chain(x *unit, pc uint64) (all []position) {
	found := -1
	for i := range x.functions { // inner ones are after outer ones
		for _, r := range x.functions[i].ranges {
			if r[0] <= pc && pc < r[1] {
				found = i
			}
		}
	}
	if found < 0 {
		return nil
	}
	file, line := x.line(pc, u.relative)
	for i := found; i >= 0 && len(all) < maxInline; i = x.functions[i].outer {
		f := &x.functions[i]
		p := position{name: u.name(f.entry), file: file, line: line}
		for _, r := range f.ranges {
			if p.begin == 0 || r[0] < p.begin && r[0] <= pc {
				p.begin = r[0]
			}
		}
		all = append(all, p)
		file, line = x.file(f.callFile), f.callLine
	}
	return all
}

// load reads a unit.
func (u *units) load(at dwarf.Offset) *unit {
	if x, ok := u.loaded[at]; ok {
		return x
	}
	if u.nodes > maxNodes {
		clear(u.loaded)
		u.nodes = 0
	}
	x := &unit{}
	u.loaded[at] = x
	r := u.data.Reader()
	r.Seek(at)
	e, err := r.Next()
	if e == nil || err != nil {
		return x
	}
	for i := range e.Field { // the directory may be in the alternate file
		if f := &e.Field[i]; f.Class == dwarf.ClassStringAlt {
			f.Val, f.Class = u.text(f), dwarf.ClassString
		}
	}
	if lines, err := u.data.LineReader(e); err == nil && lines != nil {
		x.readLines(lines)
	}
	scope := []int{-1} // for each entry with children that is not closed: the function in which it is
	for len(scope) > 0 && u.nodes <= 2*maxNodes {
		e, err := r.Next()
		if e == nil || err != nil {
			break
		}
		if e.Tag == 0 {
			scope = scope[:len(scope)-1]
			continue
		}
		in := scope[len(scope)-1]
		u.nodes++
		if inlined := e.Tag == dwarf.TagInlinedSubroutine; inlined || e.Tag == dwarf.TagSubprogram {
			if ranges, _ := u.data.Ranges(e); len(ranges) > 0 {
				u.nodes += len(ranges) // any number of entries may have the same list
				f := function{ranges: ranges, entry: e.Offset, outer: -1}
				if inlined {
					f.outer = in
					f.callFile, f.callLine = int(integer(e.Val(dwarf.AttrCallFile))), int(integer(e.Val(dwarf.AttrCallLine)))
				}
				in = len(x.functions)
				x.functions = append(x.functions, f)
			}
		}
		if e.Children {
			scope = append(scope, in)
		}
	}
	u.nodes += len(x.rows)
	return x
}

func integer(v any) int64 {
	switch n := v.(type) {
	case int64:
		return n
	case uint64:
		return int64(n)
	}
	return 0
}

// readLines reads the line table.
func (x *unit) readLines(lines *dwarf.LineReader) {
	x.files = lines.Files()
	index := map[*dwarf.LineFile]int{}
	for i, f := range x.files {
		if f != nil {
			index[f] = i
		}
	}
	var e dwarf.LineEntry
	from := 0
	for len(x.rows) < maxRows && lines.Next(&e) == nil {
		if e.EndSequence {
			if from < len(x.rows) {
				rows := x.rows[from:]
				sort.SliceStable(rows, func(i, j int) bool { return rows[i].addr < rows[j].addr })
				x.sequences = append(x.sequences, sequence{rows[0].addr, e.Address, from, len(x.rows)})
			}
			from = len(x.rows)
			continue
		}
		file, ok := index[e.File]
		if !ok { // added by the line program
			file = len(x.files)
			x.files = append(x.files, e.File)
			index[e.File] = file
		}
		x.rows = append(x.rows, row{e.Address, file, e.Line})
	}
}

// line returns the line at an address; none if it is in several sequences, each in a section of its own.
func (x *unit) line(pc uint64, relative bool) (file string, line int) {
	found := -1
	for i, s := range x.sequences {
		if s.low <= pc && pc < s.high {
			if found >= 0 && relative {
				return "", 0
			}
			found = i
		}
	}
	if found < 0 {
		return "", 0
	}
	s := x.sequences[found]
	rows := x.rows[s.from:s.to]
	i := sort.Search(len(rows), func(i int) bool { return rows[i].addr > pc }) - 1
	if i < 0 || rows[i].line <= 0 {
		return "", 0
	}
	return x.file(rows[i].file), rows[i].line
}

func (x *unit) file(i int) string {
	if i < 0 || i >= len(x.files) || x.files[i] == nil {
		return ""
	}
	return x.files[i].Name
}

// name returns the name of the function of an entry, which may be that of another entry, or in the alternate file.
func (u *units) name(at dwarf.Offset) (name string) {
	data := u.data
	for range maxOrigin {
		r := data.Reader()
		r.Seek(at)
		e, err := r.Next()
		if e == nil || err != nil {
			return name
		}
		for _, attr := range []dwarf.Attr{dwarf.AttrLinkageName, attrLinkageMIPS} {
			if text := u.text(e.AttrField(attr)); text != "" {
				return text
			}
		}
		if name == "" {
			name = u.text(e.AttrField(dwarf.AttrName))
		}
		origin := e.AttrField(dwarf.AttrAbstractOrigin)
		if origin == nil {
			origin = e.AttrField(dwarf.AttrSpecification)
		}
		if origin == nil {
			return name
		}
		switch v := origin.Val.(type) {
		case dwarf.Offset:
			at = v
		default:
			if origin.Class != dwarf.ClassReferenceAlt || u.alt == nil {
				return name
			}
			data, at = u.alt, dwarf.Offset(integer(v))
		}
	}
	return name
}

// text returns a string.
func (u *units) text(f *dwarf.Field) string {
	if f == nil {
		return ""
	}
	if s, ok := f.Val.(string); ok {
		return s
	}
	if at := integer(f.Val); f.Class == dwarf.ClassStringAlt && at >= 0 && at < int64(len(u.altText)) {
		text, _, _ := bytes.Cut(u.altText[at:min(at+1<<16, int64(len(u.altText)))], []byte{0})
		return string(slices.Clone(text))
	}
	return ""
}
