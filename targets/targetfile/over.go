// SPDX-License-Identifier: Apache-2.0

package targetfile

import (
	"bytes"
	"maps"
	"slices"
	"sort"
)

// A target of one architecture may be written as a delta to that of another, its base: it then contains only the
// differences. Nine of ten types and functions are the same in two kernels of one release. With Debian's kernels of
// Linux 7.2 and six modules, arm64 takes 0.44 MB as a delta to x86_64 and 2.01 MB alone, a third architecture 0.76
// and 1.98 MB.
//
// Compressing with the base as a dictionary of zstd would save the pairing of types, but the base, 6.7 MB, has to be
// decompressed before the first lookup, which takes 38 ms; compiling a one-line script takes 12. Without deltas btc,
// at 14 MB, would be 2.7 MB larger.
//
// Both files share one numbering of types. A type that corresponds to one of the base has the position of that type;
// the others follow after the base's last. The list of replaced positions, a chunk, says which of the base's
// positions have a record here; in the table of types these records come first. In named tables an entry hides that
// of the base, and an entry without a value deletes it.

// OpenOver is like Open, for a delta to base that WriteZstdOver wrote. The file takes ownership of
// base.
func OpenOver(data []byte, base *File) (*File, error) {
	f, err := open(data)
	if err != nil {
		return nil, err
	}
	if f.codec != codecZstdOver {
		return nil, damage("not a delta to another target")
	}
	if f.baseSum != base.sum {
		return nil, damage("a delta to a different target than the given one")
	}
	f.base = base
	return f, nil
}

// ownRecord returns the record of the table of types for the type at a position; own is false if it is in the base.
func (f *File) ownRecord(pos int) (record int, own bool, err error) {
	n := f.base.NumTypes()
	if pos >= n {
		return f.moved.entries + pos - n, true, nil
	}
	if f.movedTo == nil && f.moved.entries > 0 {
		raw, err := f.unpack(nil, f.moved.off, f.moved.packed, f.moved.raw)
		if err != nil {
			return 0, false, err
		}
		d := &decoder{b: raw}
		at := 0
		for range min(f.moved.entries, len(raw)) {
			at += d.uint()
			f.movedTo = append(f.movedTo, at)
		}
		if err := d.end(); err != nil {
			return 0, false, err
		}
	}
	record, own = slices.BinarySearch(f.movedTo, pos)
	return record, own, nil
}

// scanOver is like scan, for a delta: it merges both files.
func (f *File) scanOver(id int, prefix string, fn func(key string, value []byte) bool) error {
	var mine []entry
	err := f.scanOwn(id, prefix, func(key string, value []byte) bool {
		mine = append(mine, entry{key, value})
		return true
	})
	if err != nil {
		return err
	}
	more := true
	emit := func(e entry) {
		if more && len(e.value) > 0 {
			more = fn(e.key, e.value)
		}
	}
	err = f.base.scan(id, prefix, func(key string, value []byte) bool {
		for len(mine) > 0 && mine[0].key < key {
			emit(mine[0])
			mine = mine[1:]
		}
		if len(mine) > 0 && mine[0].key == key {
			emit(mine[0])
			mine = mine[1:]
		} else {
			emit(entry{key, value})
		}
		return more
	})
	for _, e := range mine {
		emit(e)
	}
	return err
}

// WriteZstdOver is like WriteZstd, but writes a delta to base; OpenOver reads it.
func WriteZstdOver(d *Data, base *File) ([]byte, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	o := &overlay{d: d, at: make([]int, len(d.Types)), taken: make([]bool, base.NumTypes())}
	for pos := range base.NumTypes() {
		t, err := base.Type(MakeRef(pos, 0))
		if err != nil {
			return nil, err
		}
		o.base = append(o.base, t)
	}
	if err := o.match(base); err != nil {
		return nil, err
	}
	w := zstdWriter()
	w.codec, w.baseSum = codecZstdOver, base.sum
	own := o.renumber(w)
	w.types(own)
	named := func(id int, entries []entry) {
		if w.err == nil {
			entries, w.err = over(base, id, entries)
			w.named(id, entries)
		}
	}
	at := func(i int) int { return o.at[i] }
	named(tableNames, typeNames(d.Types, at))
	named(tableConsts, constNames(d.Types, at))
	named(tableFuncs, funcEntries(o.funcs()))
	named(tableEvents, eventEntries(d.Events))
	named(tableSyscalls, syscallEntries(d.Syscalls))
	if w.err != nil {
		return nil, w.err
	}
	return w.file(d.Meta), nil
}

// over drops the entries that the base also has, and adds one without a value for each that only the base has.
func over(base *File, id int, entries []entry) ([]entry, error) {
	theirs := map[string][]byte{}
	err := base.scan(id, "", func(key string, value []byte) bool {
		theirs[key] = value
		return true
	})
	var all []entry
	for _, e := range entries {
		value, ok := theirs[e.key]
		delete(theirs, e.key)
		if !ok || !bytes.Equal(value, e.value) {
			all = append(all, e)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(theirs)) {
		all = append(all, entry{key: key})
	}
	return all, err
}

// overlay finds which types of d correspond to types of the base.
type overlay struct {
	d     *Data
	base  []Type
	at    []int  // by position in d: the new position, -1 if not assigned yet
	taken []bool // by position in base: a type of d is paired with it
	work  [][2]int
}

// pair pairs the type i of d with the type j of the base, unless one of them is already
// paired.
func (o *overlay) pair(i, j int) {
	if o.at[i] < 0 && !o.taken[j] {
		o.at[i], o.taken[j] = j, true
		o.work = append(o.work, [2]int{i, j})
	}
}

// match pairs types of one kind and name, and types without a name that paired ones refer
// to at the same position.
func (o *overlay) match(base *File) error {
	for i := range o.at {
		o.at[i] = -1
	}
	type name struct {
		kind Kind
		name string
	}
	// An enum without a name, to which usually nothing refers, is identified by its first constant.
	nameOf := func(t *Type) name {
		if t.Name == "" && len(t.Enumerators) > 0 {
			return name{t.Kind, " " + t.Enumerators[0].Name}
		}
		return name{t.Kind, t.Name}
	}
	named := map[name][]int{}
	for j := range o.base {
		if n := nameOf(&o.base[j]); n.name != "" {
			named[n] = append(named[n], j)
		}
	}
	same := func(a, b *Type) bool {
		return a.Size == b.Size && len(a.Members) == len(b.Members) && len(a.Enumerators) == len(b.Enumerators)
	}
	for _, exact := range []bool{true, false} {
		for i := range o.d.Types {
			t := &o.d.Types[i]
			for _, j := range named[nameOf(t)] {
				if !exact || same(t, &o.base[j]) {
					o.pair(i, j)
				}
			}
		}
	}
	for i := range o.d.Funcs {
		f, ok, err := base.Func(o.d.Funcs[i].Name)
		if err != nil {
			return err
		}
		if ok && f.Proto != nil && o.d.Funcs[i].Proto != nil {
			o.refs(o.d.Funcs[i].Proto, f.Proto)
		}
	}
	o.follow()
	o.arrays()
	return nil
}

// follow pairs the types that paired types refer to.
func (o *overlay) follow() {
	for len(o.work) > 0 {
		p := o.work[0]
		o.work = o.work[1:]
		o.refs(&o.d.Types[p[0]], &o.base[p[1]])
	}
}

func (o *overlay) refs(a, b *Type) {
	o.ref(a.Elem, b.Elem)
	for i := range min(len(a.Params), len(b.Params)) {
		o.ref(a.Params[i].Type, b.Params[i].Type)
	}
	// Further members may be in between; unnamed ones are identified by their number among the unnamed members of
	// their kind.
	type member struct {
		name string
		nr   int
	}
	theirs, count := map[member]Ref{}, map[string]int{}
	for _, m := range b.Members {
		theirs[member{m.Name, count[m.Name]}] = m.Type
		count[m.Name]++
	}
	clear(count)
	for _, m := range a.Members {
		if r, ok := theirs[member{m.Name, count[m.Name]}]; ok {
			o.ref(m.Type, r)
		}
		count[m.Name]++
	}
}

func (o *overlay) ref(a, b Ref) {
	i, j := a.Position(), b.Position()
	if i < 0 || j < 0 || a.Pointers() != b.Pointers() {
		return
	}
	if s, t := &o.d.Types[i], &o.base[j]; s.Name == "" && t.Name == "" && s.Kind == t.Kind && s.Len == t.Len {
		o.pair(i, j)
	}
}

// arrays pairs the remaining arrays: those with paired elements and equal length.
func (o *overlay) arrays() {
	type array struct {
		elem Ref
		n    int
	}
	theirs := map[array]int{}
	for j, t := range o.base {
		if t.Kind == Array {
			theirs[array{t.Elem, t.Len}] = j
		}
	}
	for again := true; again; {
		again = false
		for i := range o.d.Types {
			t := &o.d.Types[i]
			if t.Kind != Array || o.at[i] >= 0 {
				continue
			}
			elem := t.Elem
			if p := elem.Position(); p >= 0 {
				if o.at[p] < 0 {
					continue
				}
				elem = MakeRef(o.at[p], elem.Pointers())
			}
			if j, ok := theirs[array{elem, t.Len}]; ok && !o.taken[j] {
				o.pair(i, j)
				again = true
			}
		}
	}
	o.work = nil
}

// renumber assigns positions to the types without a counterpart and returns the records to
// store; it records the moved ones in w.
func (o *overlay) renumber(w *writer) []Type {
	next := len(o.base)
	var moved, added []int // positions in d
	for i := range o.at {
		if o.at[i] < 0 {
			o.at[i] = next
			next++
			added = append(added, i)
		}
	}
	for i := range o.at {
		if o.at[i] < len(o.base) {
			var mine, theirs encoder
			t := o.typ(&o.d.Types[i])
			mine.typ(&t)
			theirs.typ(&o.base[o.at[i]])
			if !bytes.Equal(mine.b, theirs.b) {
				moved = append(moved, i)
			}
		}
	}
	sort.Slice(moved, func(a, b int) bool { return o.at[moved[a]] < o.at[moved[b]] })
	var own []Type
	last := 0
	for _, i := range moved {
		w.moved.uint(o.at[i] - last)
		last = o.at[i]
	}
	w.movedCount = len(moved)
	for _, i := range append(moved, added...) {
		own = append(own, o.typ(&o.d.Types[i]))
	}
	return own
}

func (o *overlay) newRef(r Ref) Ref {
	if p := r.Position(); p >= 0 {
		return MakeRef(o.at[p], r.Pointers())
	}
	return r
}

// typ returns a type with the new references.
func (o *overlay) typ(t *Type) Type {
	n := *t
	n.Elem = o.newRef(t.Elem)
	n.Members, n.Params = slices.Clone(t.Members), slices.Clone(t.Params)
	for i := range n.Members {
		n.Members[i].Type = o.newRef(n.Members[i].Type)
	}
	for i := range n.Params {
		n.Params[i].Type = o.newRef(n.Params[i].Type)
	}
	return n
}

func (o *overlay) funcs() []Func {
	all := slices.Clone(o.d.Funcs)
	for i := range all {
		if all[i].Proto != nil {
			p := o.typ(all[i].Proto)
			all[i].Proto = &p
		}
	}
	return all
}
