// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// addParts finds the parts of the debug information: the file's own and those of units that the compiler has split
// off.
func (b *Binary) addParts(main *dwarf.Data, addrs []byte, path string, dirs []string) error {
	own := false
	r := main.Reader()
	for {
		cu, err := r.Next()
		if err != nil {
			return fmt.Errorf("the debug information cannot be read: %w", err)
		}
		if cu == nil {
			break
		}
		r.SkipChildren()
		name := splitName(cu)
		if name == "" {
			own = true
			continue
		}
		dir, _ := cu.Val(dwarf.AttrCompDir).(string)
		b.addSplit(name, dir, path, dirs, addrs)
	}
	if own {
		b.parts = append(b.parts, newPart(main))
	}
	if len(b.parts) == 0 {
		return b.addPackage(path, addrs)
	}
	return nil
}

func newPart(d *dwarf.Data) *part { return &part{data: d, types: map[dwarf.Offset]*typeEntry{}} }

// Attributes of skeleton units: DWARF 5's, and those of GNU before it.
const (
	attrDwoName    = dwarf.AttrDwoName
	attrGNUDwoName = dwarf.Attr(0x2130)
)

// splitName returns the file with a unit's information; "" if it is in this file.
func splitName(cu *dwarf.Entry) string {
	for _, a := range []dwarf.Attr{attrDwoName, attrGNUDwoName} {
		if name, ok := cu.Val(a).(string); ok {
			return name
		}
	}
	return ""
}

// addSplit adds the unit in a file NAME.dwo. A missing one is skipped.
func (b *Binary) addSplit(name, dir, path string, dirs []string, addrs []byte) {
	places := []string{
		name, filepath.Join(dir, name), filepath.Join(filepath.Dir(path), name),
		filepath.Join(filepath.Dir(path), filepath.Base(name)),
	}
	for _, d := range dirs {
		places = append(places, filepath.Join(d, name), filepath.Join(d, filepath.Base(name)))
	}
	for _, p := range places {
		f, err := openELF(p)
		if err != nil {
			continue
		}
		s := readSections(f.File)
		f.Close()
		if d, err := s.data(addrs); err == nil {
			b.parts = append(b.parts, newPart(d))
			return
		}
	}
}

// sections are the sections of split debug information; debug/dwarf expects them under their usual names.
type sections struct{ info, abbrev, str, offsets, rnglists []byte }

func readSections(f *elf.File) sections {
	get := func(name string) []byte {
		s := f.Section(name)
		if s == nil || s.Type == elf.SHT_NOBITS {
			return nil
		}
		b, _ := s.Data()
		return b
	}
	return sections{
		get(".debug_info.dwo"),
		get(".debug_abbrev.dwo"),
		get(".debug_str.dwo"),
		get(".debug_str_offsets.dwo"),
		get(".debug_rnglists.dwo"),
	}
}

// data opens the sections; addrs is section .debug_addr of the file itself. Unless a unit says otherwise, debug/dwarf
// expects the first string offset, and the first address, at the start of their sections, where DWARF 5 has a header.
// The addresses are those of the file's first unit; nothing uses them. Split information of DWARF 4, a GNU extension,
// cannot be read.
func (s sections) data(addrs []byte) (*dwarf.Data, error) {
	if len(s.info) < 6 || len(s.abbrev) == 0 || binary.LittleEndian.Uint16(s.info[4:]) < 5 {
		return nil, ErrNone
	}
	offsets := s.offsets[min(8, len(s.offsets)):]
	addrs = addrs[min(8, len(addrs)):]
	d, err := dwarf.New(s.abbrev, nil, nil, s.info, nil, nil, nil, s.str)
	if err != nil {
		return nil, err
	}
	if err := d.AddSection(".debug_str_offsets", offsets); err != nil {
		return nil, err
	}
	if err := d.AddSection(".debug_addr", addrs); err != nil {
		return nil, err
	}
	return d, d.AddSection(".debug_rnglists", s.rnglists)
}

// addPackage adds the units of a package PATH.dwp, which contains the parts of all units one after the other, with an
// index.
func (b *Binary) addPackage(path string, addrs []byte) error {
	f, err := openELF(path + ".dwp")
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the compiler has split it off to files that are not here", ErrNone)
	}
	if err != nil {
		return fmt.Errorf("%s.dwp: %w", path, err)
	}
	defer f.Close()
	all := readSections(f.File)
	section := f.Section(".debug_cu_index")
	if section == nil {
		return fmt.Errorf("%s.dwp has no index of its units", path)
	}
	raw, err := section.Data()
	if err != nil {
		return err
	}
	for _, unit := range packageUnits(raw, f.ByteOrder) {
		s := sections{info: unit.cut(all.info, sectInfo), abbrev: unit.cut(all.abbrev, sectAbbrev), str: all.str,
			offsets: unit.cut(all.offsets, sectStrOffsets), rnglists: unit.cut(all.rnglists, sectRnglists)}
		if d, err := s.data(addrs); err == nil {
			b.parts = append(b.parts, newPart(d))
		}
	}
	if len(b.parts) == 0 {
		return fmt.Errorf("%s.dwp: %w", path, ErrNone)
	}
	return nil
}

// Numbers of sections in the index of a package (DWARF 5, 7.3.5.3).
const (
	sectInfo       = 1
	sectAbbrev     = 3
	sectStrOffsets = 6
	sectRnglists   = 8
)

// extent is the range of a unit's part of a section, by number of the section.
type extent map[uint32][2]uint32

func (x extent) cut(b []byte, section uint32) []byte {
	at, ok := x[section]
	if !ok || uint64(at[0])+uint64(at[1]) > uint64(len(b)) {
		return nil
	}
	return b[at[0] : at[0]+at[1]]
}

// packageUnits reads an index of version 2 or 5: a header of 16 bytes, a hash
// table of 64-bit signatures, one of row numbers, then the section numbers, the
// offsets and the sizes, a row for each unit.
func packageUnits(b []byte, order binary.ByteOrder) []extent {
	if len(b) < 16 {
		return nil
	}
	columns, units, slots := order.Uint32(b[4:]), order.Uint32(b[8:]), order.Uint32(b[12:])
	head := uint64(16) + 12*uint64(slots)
	if columns > 16 || units > 1<<20 || head+4*uint64(columns)*(1+2*uint64(units)) > uint64(len(b)) {
		return nil
	}
	word := func(i uint64) uint32 { return order.Uint32(b[head+4*i:]) }
	var all []extent
	for u := range uint64(units) {
		x := extent{}
		for c := range uint64(columns) {
			x[word(c)] = [2]uint32{word(uint64(columns)*(1+u) + c), word(uint64(columns)*(1+uint64(units)+u) + c)}
		}
		all = append(all, x)
	}
	return all
}
