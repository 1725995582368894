// SPDX-License-Identifier: Apache-2.0

package interp

import (
	"encoding/binary"
	"slices"
	"strings"

	"btc/ir"
)

// bpfMap is a map as the kernel keeps it. Scalars of the language are arrays.
type bpfMap struct {
	m       *Machine
	def     *ir.Map
	spec    ir.BPFMap
	perCPU  bool
	entries map[string]*entry
	order   []string // keys of a hash in order of insertion
}

// entry has one value, or one for each CPU.
type entry struct {
	key  []byte
	vals []uint64 // addresses
}

// Errors of helpers.
const (
	enoent = -2
	e2big  = -7
	efault = -14
	eexist = -17
	einval = -22
)

func newMap(k *Machine, x *ir.Map) *bpfMap {
	b := &bpfMap{m: k, def: x, spec: x.BPF, entries: map[string]*entry{}}
	if b.spec.Type == "" {
		b.spec = layout(x)
	}
	b.perCPU = strings.Contains(b.spec.Type, "percpu")
	if b.array() {
		for i := range max(b.spec.MaxEntries, 1) {
			key := make([]byte, 4)
			putUint(key, uint64(i))
			b.insert(key)
		}
	}
	return b
}

func (b *bpfMap) array() bool { return strings.HasSuffix(b.spec.Type, "array") }

func (b *bpfMap) insert(key []byte) *entry {
	e := &entry{key: append([]byte(nil), key...)}
	n := 1
	if b.perCPU {
		n = CPUs
	}
	for range n {
		e.vals = append(e.vals, b.m.mem.allocKept("map "+b.def.Name, make([]byte, b.spec.ValueSize)))
	}
	b.entries[string(key)] = e
	b.order = append(b.order, string(key))
	return e
}

// lookup returns the address of the value for a CPU, 0 if absent.
func (b *bpfMap) lookup(key []byte, cpu int) uint64 {
	e := b.entries[string(key)]
	if e == nil {
		return 0
	}
	if !b.perCPU {
		cpu = 0
	}
	return e.vals[cpu]
}

// update implements bpf_map_update_elem.
func (b *bpfMap) update(key, value []byte, flags int64, cpu int) int64 {
	e := b.entries[string(key)]
	switch {
	case flags == 1 && e != nil:
		return eexist
	case e == nil && b.array():
		return e2big
	case flags == 2 && e == nil:
		return enoent
	}
	if e == nil {
		if e = b.make(key); e == nil {
			return e2big
		}
	}
	if !b.perCPU {
		cpu = 0
	}
	copy(b.m.mem.object(e.vals[cpu]).data, value)
	return 0
}

// make adds an element; a full LRU map evicts its oldest, other maps refuse.
func (b *bpfMap) make(key []byte) *entry {
	if len(b.entries) >= b.spec.MaxEntries {
		if !strings.HasPrefix(b.spec.Type, "lru") || len(b.order) == 0 {
			return nil
		}
		b.delete([]byte(b.order[0]))
	}
	return b.insert(key)
}

func (b *bpfMap) delete(key []byte) bool {
	if b.entries[string(key)] == nil || b.array() {
		return false
	}
	delete(b.entries, string(key))
	for i, s := range b.order {
		if s == string(key) {
			b.order = append(b.order[:i:i], b.order[i+1:]...)
			break
		}
	}
	return true
}

// Put sets an element of a map as a loader does; of a per-CPU map, on all CPUs.
func (k *Machine) Put(name string, key, value []byte) {
	b := k.maps[name]
	e := b.entries[string(key)]
	if e == nil {
		e = b.insert(key)
	}
	for _, addr := range e.vals {
		copy(k.mem.object(addr).data, value)
	}
}

// PutMap sets an element of an array_of_maps to an array with the elements.
func (k *Machine) PutMap(name string, number uint32, elements [][]byte) {
	outer := k.maps[name]
	key := binary.NativeEndian.AppendUint32(nil, number)
	e := outer.entries[string(key)]
	if e == nil {
		e = outer.insert(key)
	}
	def := *k.Module.Map(outer.spec.Inner)
	def.BPF.MaxEntries = len(elements)
	in := newMap(k, &def)
	for i, data := range elements {
		copy(k.mem.object(in.entries[string(binary.NativeEndian.AppendUint32(nil, uint32(i)))].vals[0]).data, data)
	}
	k.inner[e.vals[0]] = in
}

// Element returns the value of a map's element on each CPU, nil if there is none.
func (k *Machine) Element(name string, key []byte) [][]byte {
	e := k.maps[name].entries[string(key)]
	if e == nil {
		return nil
	}
	var all [][]byte
	for _, addr := range e.vals {
		all = append(all, k.mem.object(addr).data)
	}
	return all
}

// Keys returns the keys of a map in the order of insertion.
func (k *Machine) Keys(name string) []string { return slices.Clone(k.maps[name].order) }

// value returns the bytes at an address that lookup returned.
func (b *bpfMap) value(addr uint64) []byte { return b.m.mem.object(addr).data }

// layout returns the BPF map of docs/layouts.md for a map of the language.
func layout(x *ir.Map) ir.BPFMap {
	b := ir.BPFMap{KeySize: 4, MaxEntries: 1, Present: -1, Gens: 1, Loss: -1, Type: "array"}
	perCPU := false
	switch x.Shape {
	case ir.ShapePlain:
		b.ValueSize = x.Value.MemSize()
		if x.Key == nil {
			b.Present, b.ValueOff = 0, 8
			b.ValueSize += 8
		}
	case ir.ShapeCount:
		b.ValueSize, perCPU = 8, !x.Read
		if x.Key == nil {
			b.Present = 0
		}
	case ir.ShapeSum:
		b.ValueSize, perCPU = 8, !x.Read
		if x.Key == nil {
			b.ValueSize, b.Present, b.ValueOff = 16, 0, 8
		}
	case ir.ShapeMin, ir.ShapeMax, ir.ShapeAvg, ir.ShapeStats:
		b.ValueSize, perCPU = 16, !x.Read || x.Shape == ir.ShapeMin || x.Shape == ir.ShapeMax
		if x.Key == nil {
			b.Present = 0
		}
	case ir.ShapeHist, ir.ShapeLhist:
		b.ValueSize, perCPU = 8*buckets(x), x.Key == nil && !x.Read
	case ir.ShapeTseries:
		b.ValueSize, perCPU = 24, true
	case ir.ShapeStack:
		b.Type, b.KeySize, b.ValueSize, b.MaxEntries = "hash", 8, 8*x.Depth, 4096
	}
	if x.Key != nil {
		b.Type, b.KeySize, b.MaxEntries = "hash", x.Key.MemSize(), x.MaxEntries
		if b.MaxEntries == 0 {
			b.MaxEntries = 4096
		}
		if strings.Contains(x.Declared, "lru") {
			b.Type = "lru_hash"
		}
	}
	if perCPU {
		b.Type = map[string]string{"array": "percpu_array", "hash": "percpu_hash", "lru_hash": "lru_percpu_hash"}[b.Type]
	}
	return b
}

// buckets returns the number of buckets of a histogram.
func buckets(x *ir.Map) int {
	if x.Shape == ir.ShapeLhist {
		return int((x.Max-x.Min)/x.Step) + 2
	}
	n := 1 << x.Bits
	return 1 + 2*n + n*(63-x.Bits)
}
