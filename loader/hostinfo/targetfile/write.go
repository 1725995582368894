package targetfile

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Write makes the bytes of a target file. The same data gives the same bytes
// (for one version of the zstd library). It fails on a reference to a type that
// is not there and on a record too large for a chunk; it sorts d's lists.
func Write(d *Data) ([]byte, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(true), zstd.WithSingleSegment(true))
	if err != nil {
		return nil, err
	}
	w := &writer{zstd: enc}
	w.types(d.Types)
	w.named(tableNames, typeNames(d.Types))
	w.named(tableConsts, constNames(d.Types))
	w.named(tableFuncs, funcEntries(d.Funcs))
	w.named(tableEvents, eventEntries(d.Events))
	w.named(tableSyscalls, syscallEntries(d.Syscalls))
	if w.err != nil {
		return nil, w.err
	}
	return w.file(d.Meta), nil
}

// check proves that every reference points into the table of types.
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
		return fmt.Errorf("a type refers to one beyond the %d that there are", len(d.Types))
	}
	return nil
}

type writer struct {
	zstd   *zstd.Encoder
	tables [numTables]struct{ entries, size, packed, raw int }
	body   []byte
	err    error
}

type entry struct {
	key   string
	value []byte
}

// blocks collects one table: its index and its packed blocks.
type blocks struct {
	w      *writer
	index  encoder
	n      int
	packed []byte
	cur    encoder
}

// flush packs the current block.
func (b *blocks) flush() {
	if len(b.cur.b) == 0 {
		return
	}
	if len(b.cur.b) > maxChunk && b.w.err == nil {
		b.w.err = fmt.Errorf("a record of %d bytes is too large for a target file", len(b.cur.b))
	}
	packed := b.w.zstd.EncodeAll(b.cur.b, nil)
	b.index.uint(len(packed))
	b.index.uint(len(b.cur.b))
	b.packed = append(b.packed, packed...)
	b.cur.b = nil
	b.n++
}

func (b *blocks) finish(id, entries int) {
	b.flush()
	var head encoder
	head.uint(b.n)
	raw := append(head.b, b.index.b...)
	if len(raw) > maxChunk && b.w.err == nil {
		b.w.err = fmt.Errorf("table %d has an index of %d bytes", id, len(raw))
	}
	index := b.w.zstd.EncodeAll(raw, nil)
	t := &b.w.tables[id]
	t.entries, t.packed, t.raw = entries, len(index), len(raw)
	t.size = len(index) + len(b.packed)
	b.w.body = append(append(b.w.body, index...), b.packed...)
}

func (w *writer) types(types []Type) {
	b := &blocks{w: w}
	start := 0
	for i := range types {
		if len(b.cur.b) == 0 {
			b.index.uint(i - start)
			start = i
		}
		var rec encoder
		rec.typ(&types[i])
		b.cur.bytes(rec.b)
		if len(b.cur.b) >= blockSize {
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
			b.index.key(first, e.key)
			first, prev = e.key, ""
		}
		b.cur.key(prev, e.key)
		b.cur.bytes(e.value)
		prev = e.key
		if len(b.cur.b) >= blockSize {
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

// file puts header, directory and tables together. The offsets in the directory
// depend on its length, which depends on the offsets: they are found by repetition.
func (w *writer) file(m Meta) []byte {
	size := 0
	for {
		var dir encoder
		dir.string(m.Arch)
		dir.string(m.Release)
		dir.uint(len(m.Gaps))
		for _, g := range m.Gaps {
			dir.string(g)
		}
		off := headerSize + size
		for _, t := range w.tables {
			dir.uint(t.entries)
			dir.uint(off)
			dir.uint(t.packed)
			dir.uint(t.raw)
			off += t.size
		}
		if len(dir.b) <= size {
			return w.join(dir.b, size)
		}
		size = len(dir.b)
	}
}

// join puts the body size bytes behind the header, whatever the directory takes of them.
func (w *writer) join(dir []byte, size int) []byte {
	out := append([]byte(magic), Version)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(dir)))
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(dir, crc32.MakeTable(crc32.Castagnoli)))
	out = append(append(out, dir...), make([]byte, size-len(dir))...)
	return append(out, w.body...)
}

// byName collects entries whose keys may repeat into one with all references.
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

func typeNames(types []Type) []entry {
	return byName(func(add func(string, Ref)) {
		for i := range types {
			t := &types[i]
			if l := t.Kind.Letter(); l != 0 && t.Name != "" {
				add(string(l)+t.Name, MakeRef(i, 0))
			}
		}
	})
}

func constNames(types []Type) []entry {
	return byName(func(add func(string, Ref)) {
		for i := range types {
			for _, n := range types[i].Enumerators {
				add(n.Name, MakeRef(i, 0))
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
