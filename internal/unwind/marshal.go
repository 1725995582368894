// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
)

// A table in a pack or in a directory of tables is a head of tableHead bytes, the build id, the segments and the rows.
// All numbers are little-endian. The magic changes with the meaning of rows.
const (
	tableMagic  = "btcunwt1"
	tableHead   = 40
	segmentSize = 24
	// MaxBuildID bounds the bytes of a build id.
	MaxBuildID = 64
	// MaxSegments bounds Table.Segments.
	MaxSegments = 64
	// MaxTable bounds the bytes of one table.
	MaxTable = tableHead + MaxBuildID + MaxSegments*segmentSize + MaxRows*RowSize
)

var errBadTable = errors.New("not a valid unwind table")

// le is the order of bytes in files.
var le = binary.LittleEndian

// MarshalBinary returns the form of a table in files.
func (t *Table) MarshalBinary() ([]byte, error) {
	id, err := hex.DecodeString(t.BuildID)
	if err != nil || len(id) > MaxBuildID || len(t.Segments) > MaxSegments || len(t.Rows) > MaxRows {
		return nil, errors.New("unwind table too large")
	}
	b := make([]byte, 0, tableHead+len(id)+len(t.Segments)*segmentSize+len(t.Rows)*RowSize)
	b = append(b, tableMagic...)
	b = le.AppendUint64(b, t.Base)
	frames := uint32(0)
	if t.Frames {
		frames = 1
	}
	for _, n := range []uint32{uint32(t.Machine), frames, uint32(len(id)), uint32(len(t.Segments)), uint32(len(t.Rows)), 0} {
		b = le.AppendUint32(b, n)
	}
	b = append(b, id...)
	for _, s := range t.Segments {
		b = le.AppendUint64(le.AppendUint64(le.AppendUint64(b, s.Offset), s.Addr), s.Size)
	}
	for i := range t.Rows {
		b = t.Rows[i].append(b)
	}
	return b, nil
}

// UnmarshalBinary reads a table, which is not trusted.
func (t *Table) UnmarshalBinary(b []byte) error {
	*t = Table{}
	if len(b) < tableHead || string(b[:len(tableMagic)]) != tableMagic {
		return errBadTable
	}
	word := func(i int) uint32 { return le.Uint32(b[16+4*i:]) }
	ids, segments, rows := uint64(word(2)), uint64(word(3)), uint64(word(4))
	if word(0) > 1<<16-1 || word(1) > 1 || word(5) != 0 || ids > MaxBuildID || segments > MaxSegments || rows > MaxRows ||
		uint64(len(b)) != tableHead+ids+segments*segmentSize+rows*RowSize {
		return errBadTable
	}
	t.Base, t.Machine, t.Frames = le.Uint64(b[8:]), elf.Machine(word(0)), word(1) == 1
	b = b[tableHead:]
	t.BuildID, b = hex.EncodeToString(b[:ids]), b[ids:]
	for range segments {
		t.Segments = append(t.Segments, Segment{le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:])})
		b = b[segmentSize:]
	}
	t.Rows = make([]Row, rows)
	for i := range t.Rows {
		r := &t.Rows[i]
		half := func(at int) int16 { return int16(le.Uint16(b[at:])) }
		*r = Row{le.Uint32(b), b[4], b[5], half(6), half(8), half(10)}
		if r.PC == NoPC || i > 0 && r.PC <= t.Rows[i-1].PC || r.Kind > KindUnknown && r.Kind < KindReg {
			*t = Table{}
			return errBadTable
		}
		b = b[RowSize:]
	}
	return nil
}

// A pack is a head of packHead bytes, its index of entries of packEntry bytes, ascending by build id, and the tables. An
// entry has the build id, padded with zeros, and the offset and size of the table.
const (
	packMagic = "btcunwp1"
	packHead  = 16
	packEntry = MaxBuildID + 8 + 16
	// MaxPacked bounds the tables of a pack.
	MaxPacked = 1 << 18
)

var errBadPack = errors.New("not a valid pack of unwind tables")

// WritePack writes a pack of marshalled tables, by build id in hex.
func WritePack(w io.Writer, tables map[string][]byte) error {
	if len(tables) > MaxPacked {
		return fmt.Errorf("too many files: %d (max %d)", len(tables), MaxPacked)
	}
	keys := make(map[string]string, len(tables))
	for id := range tables {
		key, err := packKey(id)
		if err != nil {
			return err
		}
		keys[string(key)] = id
	}
	order := make([]string, 0, len(keys))
	for key := range keys {
		order = append(order, key)
	}
	sort.Strings(order)
	head := le.AppendUint64([]byte(packMagic), uint64(len(order)))
	at := uint64(packHead + packEntry*len(order))
	for _, key := range order {
		size := uint64(len(tables[keys[key]]))
		head = le.AppendUint64(le.AppendUint64(append(head, key...), at), size)
		at += size
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, key := range order {
		if _, err := w.Write(tables[keys[key]]); err != nil {
			return err
		}
	}
	return nil
}

// packKey is a build id in an index: its bytes, padded, and their number.
func packKey(id string) ([]byte, error) {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) == 0 || len(b) > MaxBuildID {
		return nil, fmt.Errorf("invalid build id %q", id)
	}
	n := len(b)
	return le.AppendUint64(append(b, make([]byte, MaxBuildID-n)...), uint64(n)), nil
}

// FindPacked returns the table of a build id in a pack; nil if it has none. The pack is not trusted: of its index only
// the entries are read that a binary search needs.
func FindPacked(r io.ReaderAt, id string) (*Table, error) {
	key, err := packKey(id)
	if err != nil {
		return nil, err
	}
	head := make([]byte, packHead)
	if _, err := r.ReadAt(head, 0); err != nil || string(head[:len(packMagic)]) != packMagic || le.Uint64(head[8:]) > MaxPacked {
		return nil, errBadPack
	}
	n := int(le.Uint64(head[8:]))
	entry := make([]byte, packEntry)
	var failure error
	read := func(i int) bool {
		_, err := r.ReadAt(entry, packHead+int64(i)*packEntry)
		if err != nil {
			failure = errBadPack
		}
		return err == nil
	}
	i := sort.Search(n, func(i int) bool { return failure != nil || read(i) && string(entry[:len(key)]) >= string(key) })
	if failure != nil || i == n || !read(i) || string(entry[:len(key)]) != string(key) {
		return nil, failure
	}
	at, size := le.Uint64(entry[len(key):]), le.Uint64(entry[len(key)+8:])
	if size > MaxTable || at > 1<<62 {
		return nil, errBadPack
	}
	return readTable(io.NewSectionReader(r, int64(at), int64(size)), size, id)
}

// readTable reads a table that must be of a build id.
func readTable(r io.Reader, size uint64, id string) (*Table, error) {
	head := make([]byte, tableHead)
	if _, err := io.ReadFull(r, head); err != nil || size < tableHead {
		return nil, errBadTable
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(size-tableHead))) // grows with what is there
	if err != nil {
		return nil, errBadTable
	}
	t := &Table{}
	if err := t.UnmarshalBinary(append(head, b...)); err != nil {
		return nil, err
	}
	if t.BuildID != strings.ToLower(id) {
		return nil, fmt.Errorf("the table of build id %s is of %q", id, t.BuildID)
	}
	return t, nil
}

// IsPack reports whether a file is a pack.
func IsPack(r io.ReaderAt) bool {
	magic := make([]byte, len(packMagic))
	_, err := r.ReadAt(magic, 0)
	return err == nil && string(magic) == packMagic
}

// ReadTable reads the table of a build id from a file that has it alone, or from a pack. It is nil if a pack has none.
func ReadTable(r io.ReaderAt, id string) (*Table, error) {
	if IsPack(r) {
		return FindPacked(r, id)
	}
	return readTable(io.NewSectionReader(r, 0, MaxTable), MaxTable, id)
}

// CacheName returns the name of the file with a build id's table in a directory of tables.
func CacheName(id string) string { return id + ".unwind" }
