// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/dwarf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// addParts finds the parts of the debug information: the file's own and those of units that the compiler has split
// off.
func (b *Binary) addParts(path string, dirs []string) error {
	own := b.newPart(b.main, len(b.raw.info))
	isOwn, seen := false, map[[2]string]bool{}
	r := b.main.Reader()
	for _, u := range b.raw.units {
		if u.first >= u.end {
			continue
		}
		r.Seek(u.first)
		cu, err := own.next(r)
		if err != nil || cu == nil {
			return fmt.Errorf("the debug information cannot be read: %w", err)
		}
		name := splitName(cu)
		if name == "" {
			isOwn = true
			continue
		}
		dir, _ := cu.Val(dwarf.AttrCompDir).(string)
		if file := [2]string{dir, name}; !seen[file] {
			seen[file] = true
			b.addSplit(name, dir, path, dirs)
		}
	}
	if isOwn {
		b.parts = append(b.parts, own)
	}
	if len(b.parts) == 0 {
		return b.addPackage(path)
	}
	return nil
}

// newPart returns a part with size bytes of entries.
func (b *Binary) newPart(d *dwarf.Data, size int) *part {
	b.left += readFactor * size
	return &part{data: d, types: map[dwarf.Offset]*typeEntry{}, left: &b.left}
}

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
func (b *Binary) addSplit(name, dir, path string, dirs []string) {
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
		raw, err := readDebug(f.File, ".dwo", &b.total)
		f.Close()
		if err == nil && b.split(raw) == nil {
			return
		}
	}
}

// split adds a part from the sections of split debug information. Unless a unit says otherwise, debug/dwarf expects
// the first string offset, and the first address, at the start of their sections, where DWARF 5 has a header. The
// addresses are those of the file's first unit; nothing uses them. Split information of DWARF 4, a GNU extension,
// cannot be read.
func (b *Binary) split(raw *rawDebug) error {
	if len(raw.info) < 6 || len(raw.abbrev) == 0 || raw.order.Uint16(raw.info[4:]) < 5 {
		return ErrNone
	}
	raw.offsets = raw.offsets[min(8, len(raw.offsets)):]
	raw.addrs = b.raw.addrs[min(8, len(b.raw.addrs)):]
	raw.line, raw.ranges = nil, nil
	d, err := raw.parse()
	if err == nil {
		b.parts = append(b.parts, b.newPart(d, len(raw.info)))
	}
	return err
}

// addPackage adds the units of a package PATH.dwp, which contains the parts of all units one after the other, with an
// index.
func (b *Binary) addPackage(path string) error {
	f, err := openELF(path + ".dwp")
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the compiler has split it off to files that are not here", ErrNone)
	}
	if err != nil {
		return fmt.Errorf("%s.dwp: %w", path, err)
	}
	defer f.Close()
	all, err := readDebug(f.File, ".dwo", &b.total)
	if err != nil {
		return fmt.Errorf("%s.dwp: %w", path, err)
	}
	index, err := readSection(f.File, "cu_index", &b.total)
	if err != nil {
		return fmt.Errorf("%s.dwp: %w", path, err)
	}
	if index == nil {
		return fmt.Errorf("%s.dwp has no index of its units", path)
	}
	left := 2 * (len(all.info) + len(all.abbrev))
	for _, unit := range packageUnits(index, f.ByteOrder) {
		raw := &rawDebug{order: f.ByteOrder, info: unit.cut(all.info, sectInfo), abbrev: unit.cut(all.abbrev, sectAbbrev), str: all.str,
			offsets: unit.cut(all.offsets, sectStrOffsets), rnglists: unit.cut(all.rnglists, sectRnglists)}
		if left -= len(raw.info) + len(raw.abbrev); left < 0 {
			return fmt.Errorf("%s.dwp: %w", path, errRepeats)
		}
		b.split(raw)
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
