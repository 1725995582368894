// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"slices"

	"btc/internal/aggregate"
)

// valueBytes is the size in bytes that each shape needs after ValueOff; readers index the value accordingly. avg and
// stats are {u64 count, u64 total}.
var valueBytes = map[string]int{"count": 8, "sum": 8, "min": 8, "max": 8, "avg": 16, "stats": 16}

func (x *Map) check(c *checker, m *Manifest, path place) {
	c.text(path.key("name"), x.Name, maxName)
	c.symbol(path.key("symbol"), x.Symbol)
	c.oneOf(path.key("shape"), x.Shape, shapes)
	c.oneOf(path.key("type"), x.Type, mapTypes)
	c.within(path.key("key_size"), int64(x.KeySize), 0, maxKey)
	c.within(path.key("value_size"), int64(x.ValueSize), 0, maxValue)
	c.within(path.key("max_entries"), int64(x.MaxEntries), 0, maxEntries)
	c.pos(path.key("pos"), &x.Pos)
	c.pos(path.key("update"), x.Update)
	x.checkMetrics(c, path)
	if c.err != nil || x.Shape == "intern" {
		return
	}
	if x.Shape == "stack" {
		c.within(path.key("depth"), int64(x.Depth), 1, maxStack)
		if x.KeySize != 8 || x.ValueSize != 8*x.Depth {
			c.fail(path, "a stack map has a key of 8 and a value of %d bytes, not %d and %d", 8*x.Depth, x.KeySize,
				x.ValueSize)
		}
		return
	}
	x.checkKey(c, m, path)
	x.checkValue(c, m, path)
}

// checkMetrics checks what the names and descriptions of metrics are made of.
func (x *Map) checkMetrics(c *checker, path place) {
	c.text(path.key("help"), x.Help, maxText)
	if c.err == nil && x.Unit != "" && !IsUnit(x.Unit) {
		c.fail(path.key("unit"), "%q is not a unit: letters, digits and _", clip(x.Unit))
	}
	if _, err := aggregate.ParseRange(x.Range); err != nil {
		c.fail(path.key("range"), "%.200v", err)
	}
	c.within(path.key("key_names"), int64(len(x.KeyNames)), 0, maxFields)
	for i, name := range x.KeyNames {
		c.text(path.item("key_names", i), name, maxName)
	}
}

// IsUnit reports whether a string can be a part of a metric's name: letters, digits and "_".
func IsUnit(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '_' && !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= 40
}

// checkStored checks a map whose kernel's form differs; with a key, checkKey does the rest.
func (x *Map) checkStored(c *checker, m *Manifest, path place) {
	if !slices.Contains(m.Requires, StoredMaps) {
		c.fail(path.key("stored"), "the file does not require the feature %s", StoredMaps)
	}
	if x.Type != "hash" && x.Type != "percpu_hash" || x.Gens != 1 || x.LenKey != 0 || x.Cache != nil {
		c.fail(path.key("stored"), "only a hash without slots, counted elements or cache is stored in another form")
	}
	size := x.KeySize
	switch {
	case x.Shape == "plain" && !x.Stored.Parts && x.Key == nil:
		size = 4
	case valueBytes[x.Shape] == 0 && x.Shape != "hist" && x.Shape != "lhist" || isExtreme(x.Shape) && !x.Stored.Parts:
		c.fail(path.key("stored"), "a map of %s is not stored in another form", clip(x.Shape))
	case x.Key == nil && x.KeySize != 0:
		c.fail(path.key("key_size"), "%d: a scalar in a hash has none", x.KeySize)
	case x.Stored.Parts:
		size = (size+7)/8*8 + 8
	case x.Key == nil:
		size = 4
	}
	if x.Stored.KeySize != size {
		c.fail(path.key("stored.key_size"), "%d: the keys have %d bytes", x.Stored.KeySize, size)
	}
	if x.Stored.Low && (x.Shape != "hist" || x.Bits != 0 || x.Stored.Parts) {
		c.fail(path.key("stored.low"), "only a hist() of powers of two in one piece counts numbers twice")
	}
	if x.Stored.Parts && x.ValueSize%8 != 0 {
		c.fail(path.key("value_size"), "%d is not a number of words", x.ValueSize)
	}
}

func isExtreme(shape string) bool { return shape == "min" || shape == "max" }

func (x *Map) checkKey(c *checker, m *Manifest, path place) {
	if x.Stored != nil {
		if x.checkStored(c, m, path); x.Key == nil {
			return
		}
	}
	isArray := x.Type == "array" || x.Type == "percpu_array"
	if x.Type == "ringbuf" || x.Type == "perf_event_array" {
		c.fail(path.key("type"), "%s cannot be the type of a script's map", x.Type)
	}
	if isArray != (x.Key == nil) {
		c.fail(path.key("key"), "a keyed map must be a hash with a key layout, a scalar an array without one")
		return
	}
	if isArray {
		if x.KeySize != 4 {
			c.fail(path.key("key_size"), "%d: the key of an array has 4 bytes", x.KeySize)
		}
		c.within(path.key("gens"), int64(x.Gens), 1, 2)
		if x.MaxEntries < x.Gens {
			c.fail(path.key("max_entries"), "%d is less than the %d slots", x.MaxEntries, x.Gens)
		}
		if x.Gens == 2 {
			if g := m.Global("gen"); g == nil || x.GenOff < 0 || x.GenOff%4 != 0 || x.GenOff+4 > g.Size {
				c.fail(path.key("gen_off"), "%d is not the offset of a word in the global gen", x.GenOff)
			}
		}
		return
	}
	c.within(path.key("gens"), int64(x.Gens), 0, 1)
	if x.LenKey != 0 {
		lens := m.Map("len")
		if lens == nil || lens.Type != "array" || lens.KeySize != 4 || lens.ValueSize != 8 || x.LenKey < 1 ||
			x.LenKey >= lens.MaxEntries {
			c.fail(path.key("len_key"), "%d is not the key of a word in the map len", x.LenKey)
		}
	}
	x.checkCache(c, m, path.key("front"))
	x.Key.checkWhole(c, m, path.key("key"))
	if x.Key.Size != x.KeySize && !(isNumber(x.Key.Kind) && x.KeySize == 8 && x.Key.Size < 8) {
		c.fail(path.key("key.size"), "%d is not the key size %d", x.Key.Size, x.KeySize)
	}
	if x.MaxEntries == 0 {
		c.fail(path.key("max_entries"), "a hash needs at least 1")
	}
}

// checkCache checks a per-CPU cache, which readers parse by these numbers.
func (x *Map) checkCache(c *checker, m *Manifest, path place) {
	f := x.Cache
	if f == nil {
		return
	}
	c.within(path.key("cpus"), int64(f.CPUs), 1, maxEntries)
	c.within(path.key("slots"), int64(f.Slots), 1, maxEntries)
	c.within(path.key("slot_size"), int64(f.SlotSize), 8, maxValue)
	g := m.Global(f.Global)
	kind, value, key := "percpu_hash", x.ValueSize, x.KeySize
	if x.Shape == "hist" {
		kind, value, key = "hash", 8, x.KeySize+8
	}
	on := m.Global(f.Enable)
	switch {
	case c.err != nil:
	case f.Enable != "" && (on == nil || on.Section != ".rodata" || on.Size != 8):
		c.fail(path.key("enable"), "%q is not a constant of 8 bytes", clip(f.Enable))
	case x.Type != kind || valueBytes[x.Shape] == 0 && x.Shape != "hist":
		c.fail(path, "a %s of %s has no per-CPU cache", x.Type, clip(x.Shape))
	case g == nil || g.Section != ".bss" || int64(f.CPUs)*int64(f.Slots) > int64(g.Size/f.SlotSize):
		c.fail(path.key("global"), "%q is not a global with %d x %d slots of %d bytes", clip(f.Global), f.CPUs,
			f.Slots, f.SlotSize)
	case f.ValueOff < 0 || value > f.SlotSize-f.ValueOff:
		c.fail(path.key("value_off"), "a value of %d bytes at %d is not in a slot of %d", value, f.ValueOff, f.SlotSize)
	case f.KeyOff < 0 || key > f.SlotSize-f.KeyOff:
		c.fail(path.key("key_off"), "a key of %d bytes at %d is not in a slot of %d", key, f.KeyOff, f.SlotSize)
	}
}

func (x *Map) checkValue(c *checker, m *Manifest, path place) {
	c.within(path.key("present"), int64(x.Present), -1, max(-1, int64(x.ValueSize)-8))
	c.within(path.key("value_off"), int64(x.ValueOff), 0, int64(x.ValueSize))
	need := valueBytes[x.Shape]
	switch x.Shape {
	case "plain":
		if x.Value == nil {
			c.fail(path.key("value"), "missing")
			return
		}
		x.Value.checkWhole(c, m, path.key("value"))
		need = x.Value.Size
	case "min", "max":
		c.within(path.key("value_off"), int64(x.ValueOff), 8, int64(x.ValueSize)) // after the word for "set"
	case "hist":
		c.within(path.key("bits"), int64(x.Bits), 0, 5)
		if x.Bits >= 0 && x.Bits <= 5 {
			need = 8 * x.Buckets().Len()
		}
	case "lhist":
		n := aggregate.LhistBuckets(x.Min, x.Max, x.Step)
		if n == 0 {
			c.fail(path, "min %d, max %d and step %d are not valid bounds of a histogram", x.Min, x.Max, x.Step)
		}
		need = 8 * n
	case "tseries":
		need = 24
		x.checkSeries(c, path)
	}
	if x.ValueOff+need > x.ValueSize {
		c.fail(path.key("value_size"), "%[2]d bytes at offset %[3]d do not fit in %[1]d bytes", x.ValueSize, need,
			x.ValueOff)
	}
}

func (x *Map) checkSeries(c *checker, path place) {
	c.within(path.key("interval"), x.Interval, 1, 1<<62)
	c.within(path.key("intervals"), x.Intervals, 1, maxIntervals)
	if x.Agg != "" {
		c.oneOf(path.key("agg"), x.Agg, seriesAggs)
	}
	if k := x.Key; k == nil || k.Kind != "tuple" || len(k.Fields) < 1 || len(k.Fields) > 2 ||
		k.Fields[len(k.Fields)-1].Layout.Size != 8 {
		c.fail(path.key("key"), "the key of a tseries must end with the number of an interval")
	}
}

// Scalar reports whether a map of the script has no keys.
func (x *Map) Scalar() bool { return x.Key == nil || x.Shape == "tseries" && len(x.Key.Fields) == 1 }

// isNumber reports whether values of a kind take 8 bytes in memory, regardless of their own size.
func isNumber(kind string) bool { return kind == "int" || kind == "bool" || kind == "enum" }

// fixedSizes are the minimum sizes of layouts that a reader parses by offsets.
var fixedSizes = map[string]int{
	"ptr": 8, "kstack": 8, "ustack": 16, "ksym": 8, "usym": 16, "inet": 20, "mac": 6,
	"timestamp": 8, "probe": 8, "username": 8, "cgroup_path": 8, "buffer": 4,
}

// checkWhole checks the layout of a whole value, and bounds the size of its printed form, because fields may share
// bytes.
func (l *Layout) checkWhole(c *checker, m *Manifest, path place) {
	l.check(c, m, path, 0)
	if c.err == nil && l.printed() > maxPrinted {
		c.tooLarge(path, "the printed form of a value is larger than %d MiB", maxPrinted>>20)
	}
}

// printed returns the approximate size in bytes of a printed value, at most maxPrinted+1.
func (l *Layout) printed() int64 {
	const number = 24
	n := max(number, int64(l.Size))
	switch l.Kind {
	case "tuple", "record":
		n = number
		for i := range l.Fields {
			f := &l.Fields[i]
			n = min(n+int64(len(f.Name))+f.Layout.printed(), maxPrinted+1)
		}
	case "array":
		n = min(number+int64(l.Count)*l.Elem.printed(), maxPrinted+1)
	case "kstack", "ustack":
		n = 64 * int64(max(l.Depth, 127))
	case "timestamp", "cgroup_path":
		n += 12 * int64(len(l.Format)) // %c is 24 bytes
		if l.FormatFrom != "" {
			n += maxText
		}
	case "enum":
		for _, name := range l.Enum {
			n = max(n, int64(len(name)))
		}
	}
	return n
}

// check walks a layout.
func (l *Layout) check(c *checker, m *Manifest, path place, depth int) {
	if c.layouts++; c.layouts > MaxLayouts {
		c.tooLarge(path, "more than %d layouts", MaxLayouts)
	}
	if c.err != nil {
		return
	}
	if depth > maxDepth {
		c.tooLarge(path, "layouts nested too deeply (max %d)", maxDepth)
		return
	}
	c.oneOf(path.key("kind"), l.Kind, layouts)
	c.within(path.key("size"), int64(l.Size), 0, maxValue)
	c.text(path.key("name"), l.Name, maxText)
	c.text(path.key("core"), l.CORE, maxName)
	c.text(path.key("format"), l.Format, maxText)
	if l.FormatFrom != "" {
		c.oneOf(path.key("kind"), l.Kind, loadFormats)
		c.textParam(m, path.key("format_from"), l.FormatFrom)
	}
	if c.err != nil {
		return
	}
	switch l.Kind {
	case "int", "enum", "bool":
		for _, name := range l.Enum {
			c.name(path.key("enum"), name)
		}
		if l.Size != 1 && l.Size != 2 && l.Size != 4 && l.Size != 8 {
			c.fail(path.key("size"), "an integer has 1, 2, 4 or 8 bytes, not %d", l.Size)
		}
		if l.IDOf != "" && (l.IDOf != "cgroup" || l.Kind != "int" || l.Size != 8) {
			c.fail(path.key("id_of"), "expected the ID of a cgroup, found %d bytes of %s", l.Size, l.Kind)
		}
	case "tuple", "record":
		c.within(path.key("fields"), int64(len(l.Fields)), 0, maxFields)
		for i := range l.Fields {
			l.Fields[i].checkIn(c, m, path.item("fields", i), 0, l.Size, depth+1)
			if l.Fields[i].Var {
				c.fail(path.item("fields", i).key("var"), "only events can have variable fields")
			}
		}
	case "array":
		l.checkArray(c, m, path, depth)
	}
	if l.Size < fixedSizes[l.Kind] {
		c.fail(path.key("size"), "%s needs at least %d bytes, not %d", l.Kind, fixedSizes[l.Kind], l.Size)
	}
	if l.Kind == "kstack" || l.Kind == "ustack" {
		c.within(path.key("depth"), int64(l.Depth), 0, maxStack)
		l.checkStack(c, m, path)
	}
	if l.Kind == "timestamp" {
		c.within(path.key("clock"), int64(l.Clock), 0, 3)
	}
}

func (l *Layout) checkStack(c *checker, m *Manifest, path place) {
	if x := m.Map(l.Stack); x == nil || x.Shape != "stack" {
		c.fail(path.key("stack"), "unknown stack map %q", clip(l.Stack))
	}
}

func (l *Layout) checkArray(c *checker, m *Manifest, path place, depth int) {
	if l.Elem == nil {
		c.fail(path.key("elem"), "missing")
		return
	}
	c.within(path.key("count"), int64(l.Count), 0, maxValue)
	l.Elem.check(c, m, path.key("elem"), depth+1)
	if c.err == nil && int64(l.Count)*max(1, int64(l.Elem.Size)) > int64(l.Size) {
		c.fail(path.key("size"), "%[2]d elements of %[3]d bytes do not fit in %[1]d bytes", l.Size, l.Count, l.Elem.Size)
	}
}

// checkIn checks a field of an object of size bytes whose fields start at lo.
func (f *Field) checkIn(c *checker, m *Manifest, path place, lo, size, depth int) {
	c.name(path.key("name"), f.Name)
	f.Layout.check(c, m, path.key("layout"), depth)
	need := f.Layout.Size
	if f.BitSize != 0 || f.BitOff != 0 {
		if !isNumber(f.Layout.Kind) {
			c.fail(path.key("bit_size"), "a %s is not a bitfield", clip(f.Layout.Kind))
		}
		c.within(path.key("bit_off"), int64(f.BitOff), 0, 63)
		c.within(path.key("bit_size"), int64(f.BitSize), 1, int64(8*min(need, 8)-f.BitOff))
	}
	if f.Var {
		need = 4
		if f.Layout.Kind != "string" && f.Layout.Kind != "buffer" {
			c.fail(path.key("var"), "a %s cannot have a variable length", clip(f.Layout.Kind))
		}
	}
	if f.Off < lo || f.Off > size || need > size-f.Off {
		c.fail(path.key("off"), "%d bytes at offset %d are outside the range %d to %d", need, f.Off, lo, size)
	}
}

// argKinds are the requirements on the fields of each event kind: their minimum and maximum
// number, and whether they are integers.
var argKinds = map[string]struct {
	min, max int
	ints     bool
}{
	"printf":       {0, maxFields, false},
	"errorf":       {0, maxFields, false},
	"warnf":        {0, maxFields, false},
	"cat":          {0, maxFields, false},
	"system":       {0, maxFields, false},
	"join":         {1, 1, false},
	"print":        {1, 1, false},
	"print_map":    {0, 2, true},
	"clear":        {0, 0, true},
	"zero":         {0, 0, true},
	"exit":         {0, 1, true},
	"time":         {0, 0, true},
	"error":        {1, 1, true},
	"helper_error": {2, 2, true},
	"proc":         {1, 1, true},
	"unwind":       {3, 3, true},
	"unwatch":      {1, 1, true},
	"skboutput":    {3, 3, true},
}

func (e *Event) check(c *checker, m *Manifest, i int) {
	path := whole.item("events", i)
	if e.ID != i {
		c.fail(path.key("id"), "%d is not the event's index %d", e.ID, i)
	}
	c.oneOf(path.key("kind"), e.Kind, eventKinds)
	c.within(path.key("size"), int64(e.Size), 8, maxRecord)
	c.text(path.key("format"), e.Format, maxText)
	if e.FormatFrom != "" {
		c.oneOf(path.key("kind"), e.Kind, eventFormats)
		c.textParam(m, path.key("format_from"), e.FormatFrom)
	}
	c.text(path.key("map"), e.Map, maxName)
	c.pos(path.key("pos"), &e.Pos)
	c.chain(path.key("chain"), e.Chain)
	want := argKinds[e.Kind]
	c.within(path.key("fields"), int64(len(e.Fields)), int64(want.min), int64(want.max))
	if c.err != nil {
		return
	}
	for j := range e.Fields {
		f, fp := &e.Fields[j], path.item("fields", j)
		f.checkIn(c, m, fp, 8, e.Size, 0)
		if c.err == nil && f.Layout.printed() > maxShown {
			c.tooLarge(fp, "the printed form of a value is larger than %d MiB", maxShown>>20)
		}
		if f.Var && !e.Tail {
			c.fail(fp.key("var"), "the event has no tail")
		}
		if want.ints && f.Layout.Kind != "int" {
			c.fail(fp.key("layout.kind"), "%s expects an int", e.Kind)
		}
	}
	switch e.Kind {
	case "print_map", "clear", "zero":
		if x := m.Map(e.Map); x == nil || x.Shape == "intern" || x.Shape == "stack" {
			c.fail(path.key("map"), "the script has no map %q", clip(e.Map))
		}
	}
}

// Signed reports whether the map's numbers are signed: its values, or the arguments of its aggregation.
func (x *Map) Signed() bool { return x.Shape != "count" && x.Value != nil && x.Value.Signed }

// Rule returns how the map's values are combined.
func (x *Map) Rule() aggregate.Rule {
	return aggregate.Rule{Shape: x.Shape, Agg: x.Agg, Signed: x.Signed()}
}

// Buckets returns the buckets of a histogram.
func (x *Map) Buckets() aggregate.Buckets {
	if x.Shape == "lhist" {
		return aggregate.Buckets{Min: x.Min, Max: x.Max, Step: x.Step}
	}
	return aggregate.Buckets{Bits: x.Bits}
}
