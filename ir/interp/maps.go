// SPDX-License-Identifier: Apache-2.0

package interp

import (
	"encoding/binary"
	"math/bits"

	"btc/ir"
)

// mapOps operate on the storage that docs/layouts.md describes.
func mapOps() map[ir.Op]opFunc {
	return map[ir.Op]opFunc{
		ir.OpMapGet:    mapGet,
		ir.OpMapGetMem: mapGetMem,
		ir.OpMapSet:    mapSet,
		ir.OpMapSetMem: mapSetMem,
		ir.OpMapAdd:    mapAdd,
		ir.OpMapDel:    mapDel,
		ir.OpMapHas: func(fr *frame, v *ir.Value) int64 {
			c := fr.cellOf(v, 1)
			return truth(c.present())
		},
		ir.OpMapLen:  func(fr *frame, v *ir.Value) int64 { return int64(len(fr.mapOf(v).entries)) },
		ir.OpCount:   change(1, func(c *cell, _ int64) { c.add(0, 1) }),
		ir.OpSum:     change(2, sum),
		ir.OpAvg:     change(2, average),
		ir.OpStats:   change(2, average),
		ir.OpMin:     change(2, func(c *cell, n int64) { c.extreme(n, c.less) }),
		ir.OpMax:     change(2, func(c *cell, n int64) { c.extreme(n, func(a, b int64) bool { return c.less(b, a) }) }),
		ir.OpHist:    change(2, func(c *cell, n int64) { c.add(8*histBucket(n, c.b.def.Bits), 1) }),
		ir.OpLhist:   change(2, func(c *cell, n int64) { c.add(8*lhistBucket(n, c.b.def), 1) }),
		ir.OpTseries: tseries,
		ir.OpAggGet:  aggGet,
	}
}

func (fr *frame) mapOf(v *ir.Value) *bpfMap {
	if a := v.Args[0]; a.Op != ir.OpMapRef && a.Type.Kind == ir.MapVal { // an element of an array_of_maps
		b := fr.inner[uint64(fr.arg(v, 0))]
		if b == nil {
			fr.trap("not a map")
		}
		return b
	}
	b := fr.maps[v.Args[0].Sym]
	if b == nil {
		fr.trap("no map %s", v.Args[0].Sym)
	}
	return b
}

// cell is one element of a map as this CPU sees it.
type cell struct {
	b     *bpfMap
	key   []byte
	cpu   int
	value []byte // nil if there is no such element
}

// cellOf finds the element that v accesses; keyArg is the index of its key.
func (fr *frame) cellOf(v *ir.Value, keyArg int) *cell {
	c := &cell{b: fr.mapOf(v), cpu: fr.in.CPU}
	if c.b.def.Key == nil {
		c.key = make([]byte, 4)
		putUint(c.key, c.b.generation())
	} else {
		if keyArg >= len(v.Args) {
			fr.trap("no key")
		}
		c.key = append([]byte(nil), fr.bytes(fr.arg(v, keyArg), c.b.spec.KeySize, false)...)
	}
	c.find()
	return c
}

// generation returns the current slot of a scalar (docs/layouts.md, two slots).
func (b *bpfMap) generation() uint64 {
	if b.spec.Gens != 2 {
		return 0
	}
	gen, ok := b.m.globals["gen"]
	if !ok {
		return 0
	}
	return uint64(b.m.mem.object(gen).data[b.spec.GenOff] & 1)
}

func (c *cell) find() {
	if addr := c.b.lookup(c.key, c.cpu); addr != 0 {
		c.value = c.b.value(addr)
	}
}

// create makes the element when it is missing; false when the map is full.
func (c *cell) create() bool {
	if c.value == nil && c.b.make(c.key) != nil {
		c.find()
	}
	return c.value != nil
}

// present reports whether the element is set.
func (c *cell) present() bool {
	if c.value == nil || c.b.spec.Present < 0 {
		return c.value != nil
	}
	e := c.b.entries[string(c.key)]
	for _, addr := range e.vals {
		if getUint(c.b.value(addr)[c.b.spec.Present:][:8]) != 0 {
			return true
		}
	}
	return false
}

// word returns the 8 bytes at an offset of the value.
func (c *cell) word(off int) []byte { return c.value[off : off+8] }

func (c *cell) add(off int, n int64) {
	w := c.word(off)
	putUint(w, getUint(w)+uint64(n))
}

// object returns the value proper.
func (c *cell) object() []byte { return c.value[c.b.spec.ValueOff:] }

// set marks a scalar as set.
func (c *cell) set() {
	if c.b.spec.Present >= 0 {
		putUint(c.word(c.b.spec.Present), 1)
	}
}

func (c *cell) signed() bool { return c.b.def.Value != nil && c.b.def.Value.Signed }

func (c *cell) less(a, b int64) bool {
	if c.signed() {
		return a < b
	}
	return uint64(a) < uint64(b)
}

// change makes an op that changes one element; args is the index of the key.
func change(keyArg int, do func(c *cell, n int64)) opFunc {
	return func(fr *frame, v *ir.Value) int64 {
		c := fr.cellOf(v, keyArg)
		if !c.create() {
			return 0 // a full map drops it
		}
		n := int64(0)
		if keyArg == 2 {
			n = fr.arg(v, 1)
		}
		do(c, n)
		return 0
	}
}

// tseries adds a value to the interval of its element: value, meta, interval.
func tseries(fr *frame, v *ir.Value) int64 {
	c := fr.cellOf(v, 4)
	if !c.create() {
		return 0
	}
	n, now, interval := fr.arg(v, 1), uint64(fr.arg(v, 2)), uint64(fr.arg(v, 3))
	agg := c.b.def.Agg
	if getUint(c.word(16)) != interval && agg != "" {
		putUint(c.word(0), 0)
		putUint(c.word(8), 0)
	}
	switch agg {
	case "":
		putUint(c.word(0), uint64(n))
		putUint(c.word(8), now)
	case "avg":
		c.add(8, 1)
		c.add(0, n)
	case "sum":
		c.add(0, n)
	default:
		old := int64(getUint(c.word(0)))
		if getUint(c.word(8)) == 0 || agg == "min" && c.less(n, old) || agg == "max" && c.less(old, n) {
			putUint(c.word(0), uint64(n))
		}
		putUint(c.word(8), 1)
	}
	putUint(c.word(16), interval)
	return 0
}

func sum(c *cell, n int64) {
	c.add(c.b.spec.ValueOff, n)
	c.set()
}

// average counts in the first word and sums in the second.
func average(c *cell, n int64) {
	c.add(0, 1)
	c.add(8, n)
}

func (c *cell) extreme(n int64, better func(a, b int64) bool) {
	if getUint(c.word(0)) == 0 || better(n, int64(getUint(c.word(8)))) {
		putUint(c.word(8), uint64(n))
	}
	putUint(c.word(0), 1)
}

// histBucket returns the bucket of a log2 histogram with k bits.
func histBucket(v int64, k int) int {
	n := int64(1) << k
	switch {
	case v < 0:
		return 0
	case v < 2*n:
		return int(v) + 1
	}
	p := bits.Len64(uint64(v)) - 1
	return int(1 + n*int64(p-k+1) + (v >> (p - k)) - n)
}

func lhistBucket(v int64, x *ir.Map) int {
	switch {
	case v < x.Min:
		return 0
	case v >= x.Max:
		return buckets(x) - 1
	}
	return int((v-x.Min)/x.Step) + 1
}

// number returns a scalar value, extended as its type requires.
func (c *cell) number() int64 {
	l := c.b.def.Value
	return extend(ir.MemKindOf(l.Size, l.Signed), int64(getUint(c.object()[:8])))
}

func mapGet(fr *frame, v *ir.Value) int64 {
	c := fr.cellOf(v, 1)
	if !c.present() {
		return 0
	}
	return c.number()
}

func mapGetMem(fr *frame, v *ir.Value) int64 {
	c := fr.cellOf(v, 2)
	to := fr.bytes(fr.arg(v, 1), c.b.def.Value.MemSize(), true)
	clearBytes(to)
	if c.present() {
		copy(to, c.object())
	}
	return 0
}

func mapSet(fr *frame, v *ir.Value) int64 {
	if c := fr.cellOf(v, 2); c.create() {
		putUint(c.object()[:8], uint64(fr.arg(v, 1)))
		c.set()
	}
	return 0
}

func mapSetMem(fr *frame, v *ir.Value) int64 {
	c := fr.cellOf(v, 2)
	from := fr.bytes(fr.arg(v, 1), c.b.def.Value.MemSize(), false)
	if c.create() {
		copy(c.object(), from)
		c.set()
	}
	return 0
}

func mapAdd(fr *frame, v *ir.Value) int64 {
	c := fr.cellOf(v, 2)
	if !c.create() {
		return 0
	}
	old := c.number()
	putUint(c.object()[:8], uint64(old+fr.arg(v, 1)))
	c.set()
	return old
}

// mapDel removes the element; a scalar becomes unset.
func mapDel(fr *frame, v *ir.Value) int64 {
	c := fr.cellOf(v, 1)
	was := c.present()
	if c.b.array() {
		for _, addr := range c.b.entries[string(c.key)].vals {
			clearBytes(c.b.value(addr))
		}
	} else {
		c.b.delete(c.key)
	}
	return truth(was)
}

// aggGet reads an aggregation: the total of all CPUs.
func aggGet(fr *frame, v *ir.Value) int64 {
	c := fr.cellOf(v, 1)
	if c.value == nil {
		return 0
	}
	switch v.Imm {
	case ir.AggCount:
		return int64(c.b.total(c.b.entries[string(c.key)]).count)
	case ir.AggTotal:
		return c.b.total(c.b.entries[string(c.key)]).sum
	}
	return c.read()
}

// read returns the aggregation of an element as the script reads it.
func (c *cell) read() int64 {
	a := c.b.total(c.b.entries[string(c.key)])
	switch c.b.def.Shape {
	case ir.ShapeAvg, ir.ShapeStats:
		if a.count == 0 {
			return 0
		}
		if c.signed() {
			return a.sum / int64(a.count)
		}
		return int64(uint64(a.sum) / a.count)
	case ir.ShapeCount:
		return int64(a.count)
	}
	return a.sum
}

// aggregate combines the values of the CPUs.
type aggregate struct {
	set   bool
	count uint64
	sum   int64 // or the extreme
}

func (b *bpfMap) total(e *entry) aggregate {
	var a aggregate
	word := func(v []byte, off int) uint64 { return binary.LittleEndian.Uint64(v[off:]) }
	c := &cell{b: b}
	for _, addr := range e.vals {
		v := b.value(addr)
		switch b.def.Shape {
		case ir.ShapeCount:
			a.count += word(v, b.spec.ValueOff)
		case ir.ShapeSum:
			a.sum += int64(word(v, b.spec.ValueOff))
			a.set = a.set || b.spec.Present < 0 || word(v, b.spec.Present) != 0
		case ir.ShapeAvg, ir.ShapeStats:
			a.count += word(v, 0)
			a.sum += int64(word(v, 8))
		case ir.ShapeMin, ir.ShapeMax:
			n := int64(word(v, 8))
			better := c.less(n, a.sum) == (b.def.Shape == ir.ShapeMin)
			if word(v, 0) != 0 && (!a.set || better) {
				a.set, a.sum = true, n
			}
		}
	}
	a.set = a.set || a.count > 0
	return a
}
