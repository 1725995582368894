// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/dwarf"
	"testing"

	"btc/frontend/types"
)

// TestBitfield checks where bitfields are that DWARF describes from the start of the struct (DWARF 4) or of their unit.
func TestBitfield(t *testing.T) {
	entry := func(fields ...any) *dwarf.Entry {
		e := &dwarf.Entry{}
		for i := 0; i < len(fields); i += 2 {
			e.Field = append(e.Field, dwarf.Field{Attr: fields[i].(dwarf.Attr), Val: int64(fields[i+1].(int))})
		}
		return e
	}
	const size, data, old, bytes = dwarf.AttrBitSize, dwarf.AttrDataBitOffset, dwarf.AttrBitOffset, dwarf.AttrByteSize
	for _, c := range []struct {
		entry           *dwarf.Entry
		unit, off       int // before
		at, bit, length int // after
	}{
		{entry(), 4, 8, 8, 0, 0},
		{entry(size, 3), 4, 8, 8, 0, 0}, // no offset
		{entry(size, 0, data, 5), 4, 0, 0, 0, 0},
		{entry(size, 65, data, 0), 8, 0, 0, 0, 0},
		{entry(size, 64, data, 64), 8, 0, 8, 0, 64},
		{entry(size, 3, data, 5), 1, 0, 0, 5, 3},
		{entry(size, 3, data, 5), 2, 0, 0, 5, 3},
		{entry(size, 3, data, 37), 4, 0, 4, 5, 3},
		{entry(size, 3, data, 37), 8, 0, 0, 37, 3},
		{entry(size, 3, data, 37), 3, 0, 0, 0, 0}, // not the size of an integer
		{entry(size, 3, data, 37), 16, 0, 0, 0, 0},
		{entry(size, 8, data, 28), 4, 0, 3, 4, 8}, // crosses its unit
		{entry(size, 3, old, 24), 4, 4, 4, 5, 3},
		{entry(size, 3, old, 0, bytes, 1), 4, 4, 4, 5, 3},
		{entry(size, 3, old, 40), 4, 0, 0, 0, 0}, // before the struct
	} {
		m := types.Member{Off: c.off, Type: &types.Type{Kind: types.Int, Size: c.unit}}
		bitfield(c.entry, &m)
		if m.Off != c.at || m.BitOff != c.bit || m.BitSize != c.length {
			t.Errorf("%v in a unit of %d bytes at %d: %d bits at bit %d of byte %d, want %d, %d, %d", c.entry.Field, c.unit, c.off, m.BitSize, m.BitOff, m.Off, c.length, c.bit, c.at)
		}
	}
}
