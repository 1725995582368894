// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"bytes"
	"debug/elf"
	"slices"
	"testing"
)

// table returns a table of n rows.
func table(n int, id string) *Table {
	t := &Table{Machine: elf.EM_X86_64, BuildID: id, Base: 0x400000, Segments: []Segment{{0x1000, 0x401000, 0x3000}, {0x8000, 0x408800, 0x1000}}}
	for i := range n {
		t.Rows = append(t.Rows, Row{uint32(0x1000 + 16*i), uint8(i % 9), uint8(i % 16), int16(i), int16(-i), int16(i % 7)})
	}
	return t
}

// TestChunks looks rows up in the elements of a map as the program in the kernel does.
func TestChunks(t *testing.T) {
	for _, n := range []int{1, ChunkRows - 1, ChunkRows, ChunkRows + 1, 3*ChunkRows + 17} {
		tab := table(n, "")
		chunks := tab.Chunks()
		if want := 1 + (n+ChunkRows-1)/ChunkRows; len(chunks) != want {
			t.Fatalf("%d rows: %d elements, want %d", n, len(chunks), want)
		}
		find := func(pc uint32) (r Row) {
			chunk := 0
			for i := range MaxChunks {
				if first := le.Uint32(chunks[0][4*i:]); first != NoPC && first <= pc {
					chunk = 1 + i
				}
			}
			if chunk == 0 {
				return r
			}
			for b := chunks[chunk]; len(b) > 0; b = b[RowSize:] {
				if first := le.Uint32(b); first <= pc {
					r = Row{first, b[4], b[5], int16(le.Uint16(b[6:])), int16(le.Uint16(b[8:])), int16(le.Uint16(b[10:]))}
				}
			}
			return r
		}
		for _, c := range chunks {
			if len(c) != ChunkSize {
				t.Fatalf("an element of %d bytes", len(c))
			}
		}
		for pc := uint32(0xff0); pc < uint32(0x1000+16*n+32); pc += 5 {
			if got, want := find(pc), tab.Lookup(pc); got != want {
				t.Fatalf("%d rows: %#x: %+v, want %+v", n, pc, got, want)
			}
		}
	}
}

// TestBias finds the offset of an address in mappings of a file.
func TestBias(t *testing.T) {
	tab := table(1, "")
	for _, c := range []struct {
		start, offset, bias uint64
		ok                  bool
	}{
		{0x7f0000001000, 0x1000, 0x7f0000000000, true},
		{0x7f0000002000, 0x2000, 0x7f0000000000, true}, // a part of the segment
		{0x7f0000008000, 0x8000, 0x7f0000008000 - 0x8800, true},
		{0x7f0000004000, 0x4000, 0, false},
		{0x7f0000000000, 0, 0, false},
	} {
		if bias, ok := tab.Bias(c.start, c.offset); bias != c.bias || ok != c.ok {
			t.Errorf("mapping at %#x of offset %#x: %#x, %t; want %#x", c.start, c.offset, bias, ok, c.bias)
		}
	}
}

func equal(a, b *Table) bool {
	return a.Machine == b.Machine && a.BuildID == b.BuildID && a.Base == b.Base && a.Frames == b.Frames && slices.Equal(a.Segments, b.Segments) && slices.Equal(a.Rows, b.Rows)
}

// pack returns a pack of tables with a build id of each length.
func pack(tb testing.TB) []byte {
	tb.Helper()
	tables := map[string][]byte{}
	for i := range 20 {
		id := bytes.Repeat([]byte("a0"), i+1)
		b, err := table(10*i, string(id)).MarshalBinary()
		if err != nil {
			tb.Fatal(err)
		}
		tables[string(id)] = b
	}
	var b bytes.Buffer
	if err := WritePack(&b, tables); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// TestPack finds each table of a pack, and reports one that is not what it should be.
func TestPack(t *testing.T) {
	p := pack(t)
	for i := range 20 {
		id := string(bytes.Repeat([]byte("a0"), i+1))
		got, err := ReadTable(bytes.NewReader(p), id)
		if err != nil || got == nil || !equal(got, table(10*i, id)) {
			t.Errorf("%s: another table, error = %v", id, err)
		}
	}
	for _, id := range []string{"a1", "00", "ff", "a0a1"} {
		if got, err := ReadTable(bytes.NewReader(p), id); got != nil || err != nil {
			t.Errorf("%s: %v, %v", id, got, err)
		}
	}
	for _, id := range []string{"", "x", "a", string(bytes.Repeat([]byte("00"), MaxBuildID+1))} {
		if _, err := ReadTable(bytes.NewReader(p), id); err == nil {
			t.Errorf("build id %q: no error", id)
		}
	}
	for i := range p[:packHead+20*packEntry] {
		if got, _ := ReadTable(bytes.NewReader(p[:i]), "a0"); got != nil {
			t.Errorf("%d bytes of a pack have a table", i)
		}
	}
	// The entry of another table.
	swapped := bytes.Clone(p)
	copy(swapped[packHead+MaxBuildID+8:][:16], p[packHead+packEntry+MaxBuildID+8:][:16])
	if got, err := ReadTable(bytes.NewReader(swapped), "a0"); err == nil {
		t.Errorf("the table of another build id: %+v", got)
	}
}

// TestWrongTables changes what a table must hold.
func TestWrongTables(t *testing.T) {
	good, err := table(5, "abcd").MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	rows := len(good) - 5*RowSize
	for name, change := range map[string]func(b []byte) []byte{
		"rows not in order":  func(b []byte) []byte { copy(b[rows+RowSize:], b[rows:rows+4]); return b },
		"unknown kind":       func(b []byte) []byte { b[rows+4] = KindUnknown + 1; return b },
		"other magic":        func(b []byte) []byte { b[7]++; return b },
		"one byte less":      func(b []byte) []byte { return b[:len(b)-1] },
		"one byte more":      func(b []byte) []byte { return append(b, 0) },
		"more rows":          func(b []byte) []byte { b[32]++; return b },
		"a number not known": func(b []byte) []byte { b[36]++; return b },
	} {
		tab := &Table{}
		if err := tab.UnmarshalBinary(change(bytes.Clone(good))); err == nil || tab.Rows != nil {
			t.Errorf("%s: %v, %d rows", name, err, len(tab.Rows))
		}
	}
}

// FuzzPack reads any bytes as a pack and as a table. What is read is written and read again.
func FuzzPack(f *testing.F) {
	one, err := table(3, "a0").MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(one)
	f.Add(pack(f)[:packHead+20*packEntry+300])
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, id := range []string{"a0", "a0a0a0"} {
			tab, err := ReadTable(bytes.NewReader(b), id)
			if err != nil || tab == nil {
				continue
			}
			again, err := tab.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			got := &Table{}
			if err := got.UnmarshalBinary(again); err != nil || !equal(got, tab) || got.BuildID != id {
				t.Fatalf("another table, error = %v", err)
			}
			Walk(tab.Machine, Registers{PC: 0x401010, SP: 0x1000, FP: 0x2000}, memory{tab}, MaxFrames)
		}
	})
}

// memory has the same word everywhere.
type memory struct{ t *Table }

func (m memory) Word(addr uint64) (uint64, bool)           { return addr + 0x401000, addr%64 != 0 }
func (m memory) Find(addr uint64) (*Table, uint64, Reason) { return m.t, m.t.Base, Whole }

// words is memory with one table for all addresses.
type words struct {
	t    *Table
	word map[uint64]uint64
}

func (m words) Word(addr uint64) (uint64, bool) {
	v, ok := m.word[addr]
	return v, ok
}
func (m words) Find(addr uint64) (*Table, uint64, Reason) { return m.t, 0, Whole }

// TestWalkFrames checks that frame pointers are followed as the program in the kernel does (passes, TestWalk).
func TestWalkFrames(t *testing.T) {
	tab := &Table{Rows: []Row{{Kind: KindFrames}}}
	for _, c := range []struct {
		name    string
		machine elf.Machine
		fp      uint64
		word    map[uint64]uint64
		want    []uint64
		why     Reason
	}{
		{"whole", elf.EM_X86_64, 0x1010, map[uint64]uint64{0x1010: 0, 0x1018: 0x305}, []uint64{0x110, 0x305}, Whole},
		{"frame pointer that stays", elf.EM_X86_64, 0x1010, map[uint64]uint64{0x1010: 0x1010, 0x1018: 0x305}, []uint64{0x110, 0x305}, BadValue},
		{"record at sp", elf.EM_X86_64, 0xff0, map[uint64]uint64{0xff0: 0xff0, 0xff8: 0x305}, []uint64{0x110}, BadValue},
		{"not aligned, not resident", elf.EM_X86_64, 0x1014, nil, []uint64{0x110}, BadValue},
		{"not resident", elf.EM_X86_64, 0x1010, nil, []uint64{0x110}, NotResident},
		{"signed", elf.EM_AARCH64, 0x1010, map[uint64]uint64{0x1010: 0, 0x1018: 0x0042<<48 | 0x305}, []uint64{0x110, 0x305}, Whole},
		{"signed in all bits", elf.EM_AARCH64, 0x1010, map[uint64]uint64{0x1010: 0, 0x1018: 0xffff<<48 | 0x305}, []uint64{0x110, 0x305}, Whole},
	} {
		got, why := Walk(c.machine, Registers{PC: 0x110, SP: 0x1000, FP: c.fp}, words{tab, c.word}, MaxFrames)
		if !slices.Equal(got, c.want) || why != c.why {
			t.Errorf("%s: %#x, %v; want %#x, %v", c.name, got, why, c.want, c.why)
		}
	}
}
