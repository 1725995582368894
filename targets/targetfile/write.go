// SPDX-License-Identifier: Apache-2.0

package targetfile

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
)

// Write encodes a target file. Equal data gives equal bytes. It fails on a reference to a missing type and on a
// record too large for a chunk. It sorts d's lists in place.
func Write(d *Data) ([]byte, error) {
	return write(d, &writer{codec: codecDeflate, block: blockSize, packer: deflater})
}

func write(d *Data, w *writer) ([]byte, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	w.types(d.Types)
	at := func(i int) int { return i }
	w.named(tableNames, typeNames(d.Types, at))
	w.named(tableConsts, constNames(d.Types, at))
	w.named(tableFuncs, funcEntries(d.Funcs))
	w.named(tableEvents, eventEntries(d.Events))
	w.named(tableSyscalls, syscallEntries(d.Syscalls))
	if w.err != nil {
		return nil, w.err
	}
	return w.file(d.Meta), nil
}

// pack compresses one chunk.
type pack func(chunk []byte) []byte

// deflater makes DEFLATE chunks; see codecDeflate.
func deflater(dict []byte) (pack, error) {
	var out bytes.Buffer
	z, err := flate.NewWriterDict(&out, flate.BestCompression, dict)
	if err != nil {
		return nil, err
	}
	return func(chunk []byte) []byte {
		out.Reset()
		z.Reset(&out)
		sum := binary.LittleEndian.AppendUint32(nil, crc32.Checksum(chunk, castagnoli))
		// Writing to memory does not fail.
		_, _ = z.Write(chunk)
		_ = z.Close()
		return append(sum, out.Bytes()...)
	}, nil
}

// check checks that every reference points into the table of types.
func (d *Data) check() error {
	ok := true
	see := func(r Ref) {
		if r.Position() >= len(d.Types) {
			ok = false
		}
	}
	visit := func(t *Type) {
		see(t.Elem)
		for _, m := range t.Members {
			see(m.Type)
		}
		for _, p := range t.Params {
			see(p.Type)
		}
	}
	for i := range d.Types {
		visit(&d.Types[i])
	}
	for i := range d.Funcs {
		if p := d.Funcs[i].Proto; p != nil {
			visit(p)
		}
	}
	if !ok {
		return fmt.Errorf("a type refers to a type past the last of %d", len(d.Types))
	}
	return nil
}

type writer struct {
	codec  int
	block  int // unpacked bytes after which a block is closed
	packer func(dict []byte) (pack, error)
	tables [numTables]struct{ entries, size, packed, raw, dictPacked, dictRaw int }
	body   []byte
	err    error

	// For a delta (over.go): moved is the list of moved positions.
	baseSum    uint32
	moved      encoder
	movedCount int
}

type entry struct {
	key   string
	value []byte
}

// blocks collects one table.
type blocks struct {
	w   *writer
	all [][]byte  // closed blocks
	at  []encoder // the index entry of each block's first entry
	cur encoder
}

// flush closes the current block.
func (b *blocks) flush() {
	if len(b.cur.b) == 0 {
		return
	}
	if len(b.cur.b) > maxChunk && b.w.err == nil {
		b.w.err = fmt.Errorf("a record of %d bytes is too large for a target file", len(b.cur.b))
	}
	b.all = append(b.all, b.cur.b)
	b.cur.b = nil
}

// packed packs all blocks with a dictionary; the index is unpacked.
func (b *blocks) packed(dict []byte) (index, body []byte) {
	p, err := b.w.packer(dict)
	if err != nil {
		if b.w.err == nil {
			b.w.err = err
		}
		return nil, nil
	}
	var head encoder
	head.uint(len(b.all))
	for i, raw := range b.all {
		one := p(raw)
		head.b = append(head.b, b.at[i].b...)
		head.uint(len(one))
		head.uint(len(raw))
		body = append(body, one...)
	}
	return head.b, body
}

// dictionary returns a dictionary made of pieces from all blocks, which are sorted by name, or of
// the first types, which are the most used ones.
func (b *blocks) dictionary(id int) []byte {
	var whole []byte
	for _, raw := range b.all {
		whole = append(whole, raw...)
	}
	if id == tableTypes || len(whole) <= maxDict {
		return whole[:min(len(whole), maxDict)]
	}
	const piece = 256 // bytes
	var dict []byte
	for i := range maxDict / piece {
		at := i * len(whole) / (maxDict / piece)
		dict = append(dict, whole[at:min(at+piece, len(whole))]...)
	}
	return dict
}

func (b *blocks) finish(id, entries int) {
	b.flush()
	index, body := b.packed(nil)
	alone, err := b.w.packer(nil)
	if err != nil || b.w.err != nil {
		return // flush has recorded the error
	}
	t := &b.w.tables[id]
	var packedDict []byte
	if dict := b.dictionary(id); len(b.all) > 1 && b.w.codec == codecDeflate {
		packedDict = alone(dict)
		if i, with := b.packed(dict); len(packedDict)+len(with) < len(body) {
			index, body, t.dictRaw = i, with, len(dict)
		} else {
			packedDict = nil
		}
	}
	if len(index) > maxChunk && b.w.err == nil {
		b.w.err = fmt.Errorf("table %d has an index of %d bytes", id, len(index))
	}
	packed := alone(index)
	t.entries, t.packed, t.raw, t.dictPacked = entries, len(packed), len(index), len(packedDict)
	t.size = len(packedDict) + len(packed) + len(body)
	b.w.body = append(append(append(b.w.body, packedDict...), packed...), body...)
}

func (w *writer) types(types []Type) {
	b := &blocks{w: w}
	start := 0
	for i := range types {
		if len(b.cur.b) == 0 {
			var at encoder
			at.uint(i - start)
			b.at = append(b.at, at)
			start = i
		}
		var rec encoder
		rec.typ(&types[i])
		b.cur.bytes(rec.b)
		if len(b.cur.b) >= b.w.block {
			b.flush()
		}
	}
	b.finish(tableTypes, len(types))
}

func (w *writer) named(id int, entries []entry) {
	slices.SortStableFunc(entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	b := &blocks{w: w}
	first, prev := "", ""
	for _, e := range entries {
		if len(b.cur.b) == 0 {
			var at encoder
			at.key(first, e.key)
			b.at = append(b.at, at)
			first, prev = e.key, ""
		}
		b.cur.key(prev, e.key)
		b.cur.bytes(e.value)
		prev = e.key
		if len(b.cur.b) >= b.w.block {
			b.flush()
		}
	}
	b.finish(id, len(entries))
}

func (e *encoder) key(prev, key string) {
	n := 0
	for n < len(prev) && n < len(key) && prev[n] == key[n] {
		n++
	}
	e.uint(n)
	e.string(key[n:])
}

// file assembles header, directory and tables. The offsets in the directory depend on its length, which depends on
// the offsets, so they are found by iteration.
func (w *writer) file(m Meta) []byte {
	size := 0
	var moved []byte
	if len(w.moved.b) > 0 {
		p, err := w.packer(nil)
		if err != nil {
			return nil // packing the tables would have failed, too
		}
		moved = p(w.moved.b)
	}
	for {
		var dir encoder
		dir.uint(w.codec)
		off := headerSize + size
		if w.codec == codecZstdOver {
			dir.int64(int64(w.baseSum))
			dir.uint(w.movedCount)
			dir.uint(off)
			dir.uint(len(moved))
			dir.uint(len(w.moved.b))
			off += len(moved)
		}
		dir.string(m.Arch)
		dir.string(m.Release)
		dir.uint(len(m.Gaps))
		for _, g := range m.Gaps {
			dir.string(g)
		}
		for _, t := range w.tables {
			dir.uint(t.entries)
			dir.uint(off + t.dictPacked)
			dir.uint(t.packed)
			dir.uint(t.raw)
			dir.uint(t.dictPacked)
			dir.uint(t.dictRaw)
			off += t.size
		}
		if len(dir.b) <= size {
			return w.join(dir.b, size, moved)
		}
		size = len(dir.b)
	}
}

// join writes the list of replaced positions and the body after the header, at offsets that depend on the size of the
// directory.
func (w *writer) join(dir []byte, size int, moved []byte) []byte {
	out := append([]byte(magic), Version)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(dir)))
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(dir, castagnoli))
	out = append(append(out, dir...), make([]byte, size-len(dir))...)
	return append(append(out, moved...), w.body...)
}

// byName merges entries with equal keys into one with all references.
func byName(each func(add func(key string, r Ref))) []entry {
	at := map[string]int{}
	var all []entry
	each(func(key string, r Ref) {
		i, ok := at[key]
		if !ok {
			i = len(all)
			at[key] = i
			all = append(all, entry{key: key})
		}
		e := encoder{all[i].value}
		e.ref(r)
		all[i].value = e.b
	})
	return all
}

func typeNames(types []Type, at func(i int) int) []entry {
	return byName(func(add func(string, Ref)) {
		for i := range types {
			t := &types[i]
			if l := t.Kind.Letter(); l != 0 && t.Name != "" {
				add(string(l)+t.Name, MakeRef(at(i), 0))
			}
		}
	})
}

func constNames(types []Type, at func(i int) int) []entry {
	return byName(func(add func(string, Ref)) {
		for i := range types {
			for _, n := range types[i].Enumerators {
				add(n.Name, MakeRef(at(i), 0))
			}
		}
	})
}

func funcEntries(funcs []Func) []entry {
	all := make([]entry, len(funcs))
	for i := range funcs {
		var rec encoder
		rec.function(&funcs[i])
		all[i] = entry{funcs[i].Name, rec.b}
	}
	return all
}

func eventEntries(events []Event) []entry {
	all := make([]entry, len(events))
	for i := range events {
		var rec encoder
		rec.event(&events[i])
		all[i] = entry{events[i].Category + ":" + events[i].Name, rec.b}
	}
	return all
}

func syscallEntries(calls []Syscall) []entry {
	all := make([]entry, len(calls))
	for i := range calls {
		var rec encoder
		rec.syscall(&calls[i])
		all[i] = entry{calls[i].Name, rec.b}
	}
	return all
}
