// SPDX-License-Identifier: Apache-2.0

package targetfile

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sort"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// File is an open target file. It caches unpacked chunks. It is not safe for concurrent use.
type File struct {
	Meta Meta

	data   []byte
	codec  int
	tables [numTables]table
	sum    uint32 // checksum of the directory

	// For a delta (over.go).
	base    *File
	baseSum uint32
	moved   table // location of the list of replaced positions
	movedTo []int
}

// table is one table; its index is decoded by the first lookup.
type table struct {
	entries     int
	off         int // offset of the index chunk; the blocks follow it
	packed, raw int // size of the index chunk
	dictPacked  int // size of the dictionary's chunk, which is before the index
	dictRaw     int // 0: there is none
	loaded      bool
	dict        []byte
	blocks      []block
}

type block struct {
	first       string // named tables: the first key
	start       int    // table of types: the first position
	off         int
	packed, raw int
	data        []byte // unpacked, nil until needed
}

// Open checks the header and directory of a target file. It keeps data without copying it; the caller must not modify
// it.
func Open(data []byte) (*File, error) {
	f, err := open(data)
	if err == nil && f.codec == codecZstdOver {
		return nil, damage("a delta to another target cannot be read alone")
	}
	return f, err
}

func open(data []byte) (*File, error) {
	if len(data) < headerSize || string(data[:len(magic)]) != magic {
		return nil, damage("bad magic")
	}
	if v := data[len(magic)]; v != Version {
		return nil, damage("format version %d, this program reads version %d: capture the target again", v, Version)
	}
	dirLen := int64(binary.LittleEndian.Uint32(data[len(magic)+1:]))
	sum := binary.LittleEndian.Uint32(data[len(magic)+5:])
	if dirLen > int64(len(data)-headerSize) {
		return nil, damage("truncated")
	}
	dir := data[headerSize : headerSize+int(dirLen)]
	if crc32.Checksum(dir, castagnoli) != sum {
		return nil, damage("checksum of the directory")
	}
	f := &File{data: data, sum: sum}
	return f, f.directory(&decoder{b: dir})
}

func (f *File) directory(d *decoder) error {
	f.codec = d.uint()
	switch f.codec {
	case codecDeflate, codecZstd:
	case codecZstdOver:
		f.baseSum = uint32(d.int64())
		f.moved.entries, f.moved.off, f.moved.packed, f.moved.raw = d.uint(), d.uint(), d.uint(), d.uint()
	default:
		d.fail("unknown codec")
	}
	f.Meta.Arch = d.string()
	f.Meta.Release = d.string()
	for range d.count(1) {
		f.Meta.Gaps = append(f.Meta.Gaps, d.string())
	}
	for i := range f.tables {
		t := &f.tables[i]
		t.entries, t.off, t.packed, t.raw = d.uint(), d.uint(), d.uint(), d.uint()
		t.dictPacked, t.dictRaw = d.uint(), d.uint()
	}
	return d.end()
}

// unpack returns the content of the chunk at off. t is the table whose dictionary the chunk was packed with, nil for
// a chunk without one.
func (f *File) unpack(t *table, off, packed, raw int) ([]byte, error) {
	if off < headerSize || packed > len(f.data) || off > len(f.data)-packed {
		return nil, damage("a chunk is past its end (truncated?)")
	}
	if raw > maxChunk {
		return nil, damage("a chunk of %d bytes", raw)
	}
	unpack := inflate
	if f.codec != codecDeflate {
		unpack = unpackZstd
	}
	out, err := unpack(t, f.data[off:off+packed], raw)
	if err != nil {
		return nil, damage("chunk at %d: %v", off, err)
	}
	if len(out) != raw {
		return nil, damage("chunk at %d has %d bytes instead of %d", off, len(out), raw)
	}
	return out, nil
}

// inflate unpacks a DEFLATE chunk of raw bytes.
func inflate(t *table, chunk []byte, raw int) ([]byte, error) {
	if len(chunk) < 4 {
		return nil, io.ErrUnexpectedEOF
	}
	var dict []byte
	if t != nil {
		dict = t.dict
	}
	out := make([]byte, raw)
	r := flate.NewReaderDict(bytes.NewReader(chunk[4:]), dict)
	if _, err := io.ReadFull(r, out); err != nil {
		return nil, err
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return nil, fmt.Errorf("more than %d bytes, or no end: %v", raw, err)
	}
	if crc32.Checksum(out, castagnoli) != binary.LittleEndian.Uint32(chunk) {
		return nil, errors.New("checksum")
	}
	return out, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// unpackZstd unpacks a zstd frame of raw bytes.
func unpackZstd(_ *table, chunk []byte, raw int) ([]byte, error) {
	dec, err := zstdDecoder()
	if err != nil {
		return nil, err
	}
	return dec.DecodeAll(chunk, make([]byte, 0, raw))
}

// zstdDecoder is shared by all files: its tables are larger than most chunks. It is not an initialized variable, so
// that programs that only write do not link it.
func zstdDecoder() (*zstd.Decoder, error) {
	makeDecoder.Do(func() {
		unpacker, errDecoder = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(maxChunk), zstd.WithDecodeAllCapLimit(true))
	})
	return unpacker, errDecoder
}

var (
	makeDecoder sync.Once
	unpacker    *zstd.Decoder
	errDecoder  error
)

// index decodes a table's list of blocks.
func (f *File) index(id int) (*table, error) {
	t := &f.tables[id]
	if t.loaded || t.entries == 0 {
		return t, nil
	}
	if t.dictRaw > 0 {
		if t.dictPacked > t.off {
			return nil, damage("a dictionary begins before the start of the file")
		}
		dict, err := f.unpack(nil, t.off-t.dictPacked, t.dictPacked, min(t.dictRaw, maxDict+1))
		if err != nil {
			return nil, err
		}
		t.dict = dict
	}
	raw, err := f.unpack(nil, t.off, t.packed, t.raw)
	if err != nil {
		return nil, err
	}
	d := &decoder{b: raw}
	blocks := make([]block, d.count(3))
	off, start, key := t.off+t.packed, 0, ""
	for i := range blocks {
		b := &blocks[i]
		if id == tableTypes {
			start += d.uint()
			b.start = start
		} else {
			key = d.key(key)
			b.first = key
		}
		b.off = off
		b.packed, b.raw = d.uint(), d.uint()
		off += b.packed
		if off > len(f.data) || start > t.entries {
			return nil, damage("table %d is past its end (truncated?)", id)
		}
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	t.blocks, t.loaded = blocks, true
	return t, nil
}

// key decodes a prefix-compressed key.
func (d *decoder) key(prev string) string {
	shared := d.uint()
	rest := d.bytes()
	if shared > len(prev) {
		d.fail("key without a prefix")
		return ""
	}
	return prev[:shared] + string(rest)
}

func (f *File) content(t *table, b *block) ([]byte, error) {
	if b.data == nil {
		data, err := f.unpack(t, b.off, b.packed, b.raw)
		if err != nil {
			return nil, err
		}
		b.data = data
	}
	return b.data, nil
}

// lookup finds the record of a key in a named table.
func (f *File) lookup(id int, key string) (value []byte, ok bool, err error) {
	value, ok, err = f.lookupOwn(id, key)
	if f.base == nil || err != nil {
		return value, ok, err
	}
	if ok {
		return value, len(value) > 0, nil
	}
	return f.base.lookup(id, key)
}

func (f *File) lookupOwn(id int, key string) (value []byte, ok bool, err error) {
	t, err := f.index(id)
	if err != nil {
		return nil, false, err
	}
	i := sort.Search(len(t.blocks), func(i int) bool { return t.blocks[i].first > key })
	if i == 0 {
		return nil, false, nil
	}
	data, err := f.content(t, &t.blocks[i-1])
	if err != nil {
		return nil, false, err
	}
	// Entries are sorted, so only the length of the match with key matters, and no key has to be assembled.
	d := &decoder{b: data}
	match := 0 // length of the common prefix of key and the entry before
	for len(d.b) > 0 {
		shared, rest := d.uint(), d.bytes()
		value := d.bytes()
		if d.err != nil {
			return nil, false, d.err
		}
		if shared > match {
			continue // differs from key at the same byte as the entry before
		}
		match = shared
		for n := 0; n < len(rest) && match < len(key) && rest[n] == key[match]; n++ {
			match++
		}
		if match == len(key) && shared+len(rest) == len(key) {
			return value, true, nil
		}
	}
	return nil, false, nil
}

// scan calls fn for the entries of a named table whose key begins with prefix,
// in order, until fn returns false.
func (f *File) scan(id int, prefix string, fn func(key string, value []byte) bool) error {
	if f.base != nil {
		return f.scanOver(id, prefix, fn)
	}
	return f.scanOwn(id, prefix, fn)
}

func (f *File) scanOwn(id int, prefix string, fn func(key string, value []byte) bool) error {
	t, err := f.index(id)
	if err != nil {
		return err
	}
	i := sort.Search(len(t.blocks), func(i int) bool { return t.blocks[i].first > prefix })
	for i = max(i-1, 0); i < len(t.blocks); i++ {
		data, err := f.content(t, &t.blocks[i])
		if err != nil {
			return err
		}
		d := &decoder{b: data}
		key := ""
		for len(d.b) > 0 {
			key = d.key(key)
			value := d.bytes()
			if d.err != nil {
				return d.err
			}
			if key < prefix {
				continue
			}
			if !strings.HasPrefix(key, prefix) || !fn(key, value) {
				return nil
			}
		}
	}
	return nil
}

// NumTypes returns the number of type records.
func (f *File) NumTypes() int {
	n := f.tables[tableTypes].entries
	if f.base != nil {
		n += f.base.NumTypes() - f.moved.entries
	}
	return n
}

// Type decodes the record that ref points to, ignoring its pointers.
func (f *File) Type(ref Ref) (Type, error) {
	pos := ref.Position()
	if pos < 0 || pos >= f.NumTypes() {
		return Type{}, damage("reference to type %d of %d", pos, f.NumTypes())
	}
	if f.base != nil {
		record, own, err := f.ownRecord(pos)
		if err != nil {
			return Type{}, err
		}
		if !own {
			return f.base.Type(ref)
		}
		pos = record
	}
	t, err := f.index(tableTypes)
	if err != nil {
		return Type{}, err
	}
	i := sort.Search(len(t.blocks), func(i int) bool { return t.blocks[i].start > pos })
	if i == 0 {
		return Type{}, damage("no block for type %d", pos)
	}
	b := &t.blocks[i-1]
	data, err := f.content(t, b)
	if err != nil {
		return Type{}, err
	}
	d := &decoder{b: data}
	for i := b.start; i < pos && d.err == nil; i++ {
		d.bytes()
	}
	rec := &decoder{b: d.bytes(), err: d.err}
	typ := rec.typ()
	return typ, rec.end()
}

// Named finds the types of a kind and name in order of position (capture sorts by number of
// references); most names have one. The result is nil if there is none.
func (f *File) Named(k Kind, name string) ([]Ref, error) {
	value, ok, err := f.lookup(tableNames, string(k.Letter())+name)
	if !ok {
		return nil, err
	}
	return refs(value)
}

// EnumOf finds the enums that define a constant; see Named.
func (f *File) EnumOf(constant string) ([]Ref, error) {
	value, ok, err := f.lookup(tableConsts, constant)
	if !ok {
		return nil, err
	}
	return refs(value)
}

func refs(value []byte) ([]Ref, error) {
	d := &decoder{b: value}
	var all []Ref
	for len(d.b) > 0 {
		all = append(all, d.ref())
	}
	return all, d.err
}

// Func finds a function.
func (f *File) Func(name string) (Func, bool, error) {
	value, ok, err := f.lookup(tableFuncs, name)
	if !ok {
		return Func{}, false, err
	}
	d := &decoder{b: value}
	fn := d.function(name)
	return fn, d.end() == nil, d.err
}

// Event finds a tracepoint of a category other than syscalls.
func (f *File) Event(category, name string) (Event, bool, error) {
	value, ok, err := f.lookup(tableEvents, category+":"+name)
	if !ok {
		return Event{}, false, err
	}
	d := &decoder{b: value}
	ev := d.event()
	ev.Category, ev.Name = category, name
	return ev, d.end() == nil, d.err
}

// Syscall finds a system call.
func (f *File) Syscall(name string) (Syscall, bool, error) {
	value, ok, err := f.lookup(tableSyscalls, name)
	if !ok {
		return Syscall{}, false, err
	}
	d := &decoder{b: value}
	s := d.syscall(name)
	return s, d.end() == nil, d.err
}

// TypeNames calls fn for the names of a kind that begin with prefix, sorted,
// until it returns false.
func (f *File) TypeNames(k Kind, prefix string, fn func(name string) bool) error {
	return f.scan(tableNames, string(k.Letter())+prefix, func(key string, _ []byte) bool { return fn(key[1:]) })
}

// Consts calls fn for the enumerator names that begin with prefix; see TypeNames.
func (f *File) Consts(prefix string, fn func(name string) bool) error {
	return f.scan(tableConsts, prefix, func(key string, _ []byte) bool { return fn(key) })
}

// Funcs calls fn for the functions whose name begins with prefix, sorted by
// name and without prototypes, until it returns false.
func (f *File) Funcs(prefix string, fn func(fn Func) bool) error {
	return f.scan(tableFuncs, prefix, func(key string, value []byte) bool {
		d := &decoder{b: value}
		flags := d.uint()
		fun := Func{Name: key, Traceable: flags&funcTraceable != 0, Kfunc: flags&funcKfunc != 0}
		if flags&funcModule != 0 {
			fun.Module = d.string()
		}
		return fn(fun)
	})
}

// ModuleFuncs calls fn for the functions of modules, with prototypes.
func (f *File) ModuleFuncs(fn func(fn Func)) error {
	return f.scan(tableFuncs, "", func(key string, value []byte) bool {
		if (&decoder{b: value}).uint()&funcModule != 0 {
			fn((&decoder{b: value}).function(key))
		}
		return true
	})
}

// Events calls fn for the tracepoints whose "category:event" begins with
// prefix; see TypeNames. Those of category syscalls follow from Syscalls.
func (f *File) Events(prefix string, fn func(name string) bool) error {
	return f.scan(tableEvents, prefix, func(key string, _ []byte) bool { return fn(key) })
}

// Syscalls calls fn for every system call, sorted by name; see TypeNames.
func (f *File) Syscalls(prefix string, fn func(name string) bool) error {
	return f.scan(tableSyscalls, prefix, func(key string, _ []byte) bool { return fn(key) })
}

// TableInfo describes one table of a file, for tools.
type TableInfo struct {
	Name            string
	Entries, Blocks int
	Packed          int // bytes in the file
}

// Tables describes every table. Those whose index is damaged have no blocks.
func (f *File) Tables() []TableInfo {
	names := [numTables]string{"types", "names", "constants", "functions", "events", "syscalls"}
	var all []TableInfo
	for id, name := range names {
		info := TableInfo{Name: name, Entries: f.tables[id].entries}
		if t, err := f.index(id); err == nil {
			info.Blocks, info.Packed = len(t.blocks), t.packed+t.dictPacked
			for _, b := range t.blocks {
				info.Packed += b.packed
			}
		}
		all = append(all, info)
	}
	return all
}
