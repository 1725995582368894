// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"btc/internal/manifest"
	"btc/loader/attach"
	"btc/loader/bpfmap"
	"btc/loader/host"
	"btc/loader/load"
	"btc/loader/output"
	"btc/loader/render"
)

// mapTable provides access to an object's maps by name. elements, take, zero and sweep are safe for
// concurrent use.
type mapTable struct {
	mu       sync.Mutex // guards the fields below
	manifest *manifest.Manifest
	loaded   *load.Loaded
	open     map[string]*bpfmap.Map
	gen      []byte            // local copy of the slot numbers; only this process writes them
	zeroed   map[string]bool   // scalars reset to 0 by zero()
	deleted  map[string]uint64 // elements that we deleted, for maps whose elements are counted
	swept    sweeps
	// await waits for a stack that the loader unwinds; nil: there are none.
	await func(id uint64)
	known aliases
	// next is the table of the object that replaces this one, from the moment at which that one counts: it serves the
	// maps that it has kept. kept are the names of such maps, in this table.
	next *mapTable
	kept map[string]bool
}

func newMapTable(m *manifest.Manifest, l *load.Loaded, h *host.Host) (*mapTable, error) {
	t := &mapTable{
		manifest: m,
		loaded:   l,
		open:     map[string]*bpfmap.Map{},
		zeroed:   map[string]bool{},
		deleted:  map[string]uint64{},
	}
	for i := range m.Maps {
		x := &m.Maps[i]
		km := l.Maps[x.Symbol]
		if km == nil {
			return nil, fmt.Errorf("map %s was not created", x.Symbol)
		}
		key, value := x.Raw()
		t.open[x.Name] = &bpfmap.Map{
			FD: km.FD(), KeySize: key, ValueSize: value, MaxEntries: int(km.MaxEntries()),
			PerCPU: strings.Contains(x.Type, "percpu"), CPUs: h.Possible,
		}
	}
	if g := m.Global("gen"); g != nil {
		t.gen = make([]byte, g.Size)
	}
	return t, nil
}

func (t *mapTable) slot(m *manifest.Map) uint32 {
	if m.Gens != 2 {
		return 0
	}
	return binary.NativeEndian.Uint32(t.gen[m.GenOff:]) & 1
}

// lock locks the table that serves a map, and returns it with its description of the map.
func (t *mapTable) lock(m *manifest.Map) (*mapTable, *manifest.Map) {
	t.mu.Lock()
	for t.next != nil && t.next.kept[m.Name] {
		next := t.next
		t.mu.Unlock()
		t, m = next, next.manifest.Map(m.Name)
		t.mu.Lock()
	}
	return t, m
}

func slotKey(slot uint32) []byte { return binary.NativeEndian.AppendUint32(nil, slot) }

// elements returns the current content of a map. A scalar has one element.
func (t *mapTable) elements(m *manifest.Map) ([]render.Element, error) {
	t, m = t.lock(m)
	defer t.mu.Unlock()
	raw := t.open[m.Name]
	if m.Key == nil && m.Stored == nil {
		e, ok, err := raw.Lookup(slotKey(t.slot(m)))
		if err != nil || !ok {
			return nil, fmt.Errorf("%s: no value: %w", m.Name, err)
		}
		return t.reduce(m, []bpfmap.Entry{e}), nil
	}
	out, _, err := t.walk(m, false)
	return out, err
}

// walk reads a keyed map and merges the values of the CPUs. With drain it also empties the map. It
// returns the keys that it deleted from the kernel's map as well: a tseries has several keys for
// one element.
func (t *mapTable) walk(m *manifest.Map, drain bool) (out []render.Element, keys [][]byte, err error) {
	raw := t.open[m.Name]
	if m.Stored != nil {
		return t.walkStored(m, drain)
	}
	refs := t.resolvable(m)
	if m.Shape == "tseries" {
		read := raw.All
		if drain {
			read = raw.Drain
		}
		entries, err := read()
		for i := range entries {
			e := &entries[i]
			keys = append(keys, e.Key)
			e.Key = t.canonicalKey(refs, slices.Clone(e.Key))
		}
		return t.reduce(m, entries), keys, err
	}
	cached, err := t.cached(m)
	if err != nil {
		return nil, nil, err
	}
	if len(refs) > 0 {
		return t.walkStacks(m, drain, refs, cached)
	}
	var room []byte // one allocation for many keys
	err = raw.Each(drain, func(e bpfmap.Entry) {
		if more := cached[string(e.Key)]; more != nil {
			e.Values = append(slices.Clip(e.Values), more...)
			delete(cached, string(e.Key))
		}
		if cap(room)-len(room) < len(e.Key) {
			room = make([]byte, 0, max(32<<10, len(e.Key)))
		}
		from := len(room)
		room = append(room, e.Key...)
		e.Key = room[from:len(room):len(room)]
		out = append(out, render.Reduce(m, e))
		if drain {
			keys = append(keys, e.Key)
		}
	})
	for key, values := range cached { // not in a hash
		out = append(out, render.Reduce(m, bpfmap.Entry{Key: []byte(key), Values: values}))
	}
	return out, keys, err
}

// walkStacks is like walk, for a map with stacks in its keys that the loader may have unwound: entries of equal stacks are
// one, like the parts of CPUs.
func (t *mapTable) walkStacks(m *manifest.Map, drain bool, refs []stackRef, cached map[string][][]byte) (out []render.Element, keys [][]byte, err error) {
	var order []string
	values := map[string][][]byte{}
	from := map[string]string{} // the key in the map of a value that cannot be added to another
	add := func(key []byte, more [][]byte) {
		own := string(key)
		k := string(t.canonicalKey(refs, key))
		if values[k] == nil {
			order, from[k] = append(order, k), own
		} else if m.Shape == "plain" && !m.Adds && from[k] != own {
			if own != k { // what was assigned before the program knew the stack is the older value
				return
			}
			values[k], from[k] = nil, own
		}
		values[k] = append(values[k], more...)
	}
	err = t.open[m.Name].Each(drain, func(e bpfmap.Entry) {
		key := slices.Clone(e.Key)
		if drain {
			keys = append(keys, slices.Clone(key))
		}
		parts := make([][]byte, len(e.Values))
		for i, v := range e.Values {
			parts[i] = slices.Clone(v)
		}
		add(key, parts)
	})
	for key, parts := range cached {
		add([]byte(key), parts)
	}
	for _, k := range order {
		out = append(out, render.Reduce(m, bpfmap.Entry{Key: []byte(k), Values: values[k]}))
	}
	return out, keys, err
}

// walkStored is like walk, for a map that the kernel stores in another form. A scalar is one
// element; it is unset if the kernel has no entry for it.
func (t *mapTable) walkStored(m *manifest.Map, drain bool) (out []render.Element, keys [][]byte, err error) {
	var entries []bpfmap.Entry
	refs := t.resolvable(m)
	at := map[string]int{} // index in entries, by the script's key
	err = t.open[m.Name].Each(drain, func(e bpfmap.Entry) {
		if drain {
			keys = append(keys, slices.Clone(e.Key))
		}
		key := t.canonicalKey(refs, slices.Clone(e.Key[:m.KeySize]))
		i, ok := at[string(key)]
		if !ok {
			i = len(entries)
			at[string(key)] = i
			entries = append(entries, bpfmap.Entry{Key: key, Values: [][]byte{make([]byte, m.ValueSize)}})
		}
		if m.Stored.Parts && (m.Shape == "min" || m.Shape == "max") {
			for _, v := range e.Values { // of a CPU
				set := make([]byte, m.ValueSize)
				binary.NativeEndian.PutUint64(set[m.ValueOff-8:], 1)
				copy(set[m.ValueOff:], v)
				entries[i].Values = append(entries[i].Values, set)
			}
			return
		}
		to := entries[i].Values[0]
		if m.Stored.Parts {
			part := binary.NativeEndian.Uint64(e.Key[len(e.Key)-8:])
			if part >= uint64(len(to)/8) {
				return
			}
			to = to[8*part:][:8]
		}
		for _, v := range e.Values {
			addWords(to, v)
		}
	})
	if m.Stored.Low {
		for _, e := range entries {
			once(e.Values[0])
		}
	}
	if m.Key != nil {
		return t.reduce(m, entries), keys, err
	}
	found := len(entries) > 0
	if !found {
		entries = append(entries, bpfmap.Entry{Values: [][]byte{make([]byte, m.ValueSize)}})
	}
	out = t.reduce(m, entries[:1])
	out[0].Set = out[0].Set || found
	return out, keys, err
}

// once corrects buckets of a hist() that also count the values of a neighboring bucket
// (manifest.Stored.Low), so that each value counts once.
func once(buckets []byte) {
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(buckets[8*i:]) }
	last := len(buckets)/8 - 1
	if last < 4 {
		return
	}
	binary.NativeEndian.PutUint64(buckets[8*2:], word(2)-word(0)-word(1))
	binary.NativeEndian.PutUint64(buckets[8*(last-1):], word(last-1)-word(last))
}

// addWords adds the words (u64) of b to those of a.
func addWords(a, b []byte) {
	for i := 0; i+8 <= len(a); i += 8 {
		n := binary.NativeEndian.Uint64(a[i:]) + binary.NativeEndian.Uint64(b[i:])
		binary.NativeEndian.PutUint64(a[i:], n)
	}
}

// cached reads the per-CPU cache of a hash: the values that each CPU holds there, by key.
func (t *mapTable) cached(m *manifest.Map) (map[string][][]byte, error) {
	f := m.Cache
	if f == nil {
		return nil, nil
	}
	v := t.loaded.Variables[f.Global]
	if v == nil {
		return nil, fmt.Errorf("%s: the object has no variable %s", m.Name, f.Global)
	}
	// Read twice: a slot that was in use in the first read has its key by the second, in whichever
	// order the stores of other CPUs become visible.
	taken, tables := make([]byte, v.Size()), make([]byte, v.Size())
	for _, b := range [][]byte{taken, tables} {
		if err := v.Get(b); err != nil {
			return nil, fmt.Errorf("%s: per-CPU cache: %w", m.Name, err)
		}
	}
	return cachedValues(m, taken, tables), nil
}

// cachedValues decodes per-CPU caches. A slot is in use if it is not 0 in taken, an earlier read of
// them.
func cachedValues(m *manifest.Map, taken, tables []byte) map[string][][]byte {
	f := m.Cache
	out := map[string][][]byte{}
	for at := range f.CPUs * f.Slots {
		at *= f.SlotSize
		if binary.NativeEndian.Uint64(taken[at:]) == 0 {
			continue
		}
		slot := tables[at : at+f.SlotSize]
		key := string(slot[f.KeyOff : f.KeyOff+m.KeySize])
		if m.Shape != "hist" {
			out[key] = append(out[key], slot[f.ValueOff:f.ValueOff+m.ValueSize])
			continue
		}
		if out[key] == nil {
			out[key] = [][]byte{make([]byte, m.ValueSize)}
		}
		bucket := binary.NativeEndian.Uint64(slot[f.KeyOff+m.KeySize:])
		if bucket < uint64(m.ValueSize/8) {
			sum := out[key][0][8*bucket:]
			binary.NativeEndian.PutUint64(sum,
				binary.NativeEndian.Uint64(sum)+binary.NativeEndian.Uint64(slot[f.ValueOff:]))
		}
	}
	return out
}

func (t *mapTable) reduce(m *manifest.Map, entries []bpfmap.Entry) []render.Element {
	if m.Shape == "tseries" {
		return render.ReduceSeries(m, entries)
	}
	out := make([]render.Element, len(entries))
	for i, e := range entries {
		out[i] = render.Reduce(m, e)
		out[i].Set = out[i].Set || t.zeroed[m.Name]
	}
	return out
}

// take reads a map and empties it. An update by a program during take is either in the result or in
// the map afterwards.
func (t *mapTable) take(m *manifest.Map) ([]render.Element, error) {
	t, m = t.lock(m)
	defer t.mu.Unlock()
	return t.takeLocked(m)
}

func (t *mapTable) takeLocked(m *manifest.Map) ([]render.Element, error) {
	raw := t.open[m.Name]
	if m.Key != nil || m.Stored != nil {
		out, keys, err := t.walk(m, true)
		t.zeroed[m.Name] = false
		if e := t.forget(m, len(keys)); err == nil {
			err = e
		}
		return out, err
	}
	old := t.slot(m)
	if m.Gens == 2 {
		if err := t.flip(m); err != nil {
			return nil, err
		}
	}
	e, ok, err := raw.Lookup(slotKey(old))
	if err != nil || !ok {
		return nil, fmt.Errorf("%s: no value: %w", m.Name, err)
	}
	if err := raw.Zero(slotKey(old)); err != nil {
		return nil, err
	}
	out := t.reduce(m, []bpfmap.Entry{e})
	t.zeroed[m.Name] = false
	return out, nil
}

// forget reports n deletions to the programs, if they count the map's elements.
func (t *mapTable) forget(m *manifest.Map, n int) error {
	lens := t.open["len"]
	if m.LenKey == 0 || n == 0 || lens == nil {
		return nil
	}
	t.deleted[m.Name] += uint64(n)
	key := binary.NativeEndian.AppendUint32(nil, uint32(m.LenKey))
	return lens.Set(key, binary.NativeEndian.AppendUint64(nil, t.deleted[m.Name]))
}

// flip switches the programs to the other slot, and waits until none uses the old one.
func (t *mapTable) flip(m *manifest.Map) error {
	binary.NativeEndian.PutUint32(t.gen[m.GenOff:], t.slot(m)^1)
	v := t.loaded.Variables["gen"]
	if v == nil {
		return fmt.Errorf("the object has no variable gen")
	}
	if err := v.Set(t.gen); err != nil {
		return fmt.Errorf("slot of %s: %w", m.Name, err)
	}
	waitForPrograms()
	return nil
}

// waitForPrograms waits until all programs that are running now have ended. If the kernel cannot
// report that, it waits for a time that is long enough.
func waitForPrograms() {
	if attach.WaitForPrograms() != nil {
		time.Sleep(20 * time.Millisecond)
	}
}

// zero sets all values to 0 and keeps the keys.
func (t *mapTable) zero(m *manifest.Map) ([]render.Element, error) {
	t, m = t.lock(m)
	defer t.mu.Unlock()
	raw := t.open[m.Name]
	if m.Key == nil {
		was, err := t.takeLocked(m)
		t.zeroed[m.Name] = err == nil && len(was) > 0 && was[0].Set
		return was, err
	}
	// Deleted and reinserted, because an update between reading an element and writing zeros over
	// it would be lost.
	was, keys, err := t.walk(m, true)
	gone := len(keys)
	for _, key := range keys {
		made, e := raw.InsertZero(key)
		if made {
			gone--
		}
		if e != nil && err == nil {
			err = e
		}
	}
	if e := t.forget(m, gone); err == nil {
		err = e
	}
	return was, err
}

// frames returns the stack with an ID, innermost frame first.
func (t *mapTable) frames(l *manifest.Layout, id uint64) []uint64 {
	m := t.manifest.Map(l.Stack)
	if m == nil || id == 0 {
		return nil
	}
	if t.await != nil && isRaw(id) {
		t.await(id)
	}
	raw := t.rawFrames(m.Name, id)
	if other := t.known.find(m.Name, id); raw == nil && other != 0 {
		raw = t.rawFrames(m.Name, other)
	}
	var out []uint64
	for b := raw; len(b) >= 8; b = b[8:] {
		addr := binary.NativeEndian.Uint64(b)
		if addr == 0 || l.Depth > 0 && len(out) == l.Depth {
			break
		}
		out = append(out, addr)
	}
	return out
}

// scripts lists the script's maps in byte order of their names.
func (t *mapTable) scripts() []*manifest.Map {
	var out []*manifest.Map
	for i := range t.manifest.Maps {
		if x := &t.manifest.Maps[i]; x.Shape != "intern" && x.Shape != "stack" {
			out = append(out, x)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// printMaps prints maps of the script at the end of the output. The printer also reads them, one
// after the other, because nothing changes them any more.
func (s *session) printMaps(maps []*manifest.Map) {
	if !s.manifest.Config.PrintMapsOnExit && !s.opts.Sink.Document || s.opts.Mode != "" {
		maps = nil
	}
	s.front.later(0, manifest.Pos{}, func(w *writer) {
		w.sink.End(func(show func(*output.Map)) {
			for _, m := range maps {
				w.guarded(m.Pos, func() {
					elems, err := s.maps.elements(m)
					if err != nil {
						w.msg.report(m.Pos, err)
						return
					}
					show(&output.Map{Map: m, Elements: elems, Top: s.opts.top(0, 0)})
				})
			}
		})
		w.endDocument(true)
	})
}
