// SPDX-License-Identifier: Apache-2.0

package interp

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"btc/ir"
)

// State returns all that can be observed of a machine: each nonempty map of the script with its
// elements by meaning, sorted, then events and actions.
func (k *Machine) State() []string {
	var lines []string
	for _, x := range k.Module.Maps {
		if x.Shape != ir.ShapeIntern && x.Shape != ir.ShapeStack {
			lines = append(lines, k.maps[x.Name].lines()...)
		}
	}
	sort.Strings(lines)
	for _, e := range k.Events {
		lines = append(lines, "event "+e)
	}
	for _, a := range k.Actions {
		lines = append(lines, "action "+a)
	}
	return lines
}

// lines returns one line per set element: @x[key]: value.
func (b *bpfMap) lines() []string {
	var lines []string
	if b.def.Key == nil {
		key := make([]byte, 4)
		putUint(key, b.generation())
		if text, ok := b.elementText(b.entries[string(key)]); ok {
			lines = append(lines, b.def.Name+": "+text)
		}
		return lines
	}
	all := b.withCaches()
	for _, s := range sortedKeys(all) {
		e := all[s]
		if text, ok := b.elementText(e); ok {
			lines = append(lines, fmt.Sprintf("%s[%s]: %s", b.def.Name, b.m.decode(b.def.Key, e.key), text))
		}
	}
	return lines
}

// withCaches returns a hash's elements together with the per-CPU caches, which count as further
// CPUs.
func (b *bpfMap) withCaches() map[string]*entry {
	t := &b.spec.Cache
	if t.Global == "" {
		return b.entries
	}
	all := map[string]*entry{}
	for s, e := range b.entries {
		all[s] = &entry{key: e.key, vals: slices.Clone(e.vals)}
	}
	tables := b.m.mem.object(b.m.globals[t.Global]).data
	for slot := range slices.Chunk(tables, t.SlotSize) {
		if getUint(slot[:8]) == 0 {
			continue
		}
		key, value := slot[t.KeyOff:][:b.spec.KeySize], slices.Clone(slot[t.ValueOff:t.KeyOff])
		if b.def.Shape == ir.ShapeHist {
			bucket := getUint(slot[t.KeyOff+b.spec.KeySize:])
			value = make([]byte, b.spec.ValueSize)
			copy(value[8*bucket:], slot[:8])
		}
		e := all[string(key)]
		if e == nil {
			e = &entry{key: key}
			all[string(key)] = e
		}
		e.vals = append(e.vals, b.m.mem.alloc("front", value))
	}
	return all
}

// elementText returns the value's meaning; false when a scalar is not set.
func (b *bpfMap) elementText(e *entry) (string, bool) {
	scalar := b.def.Key == nil
	a := b.total(e)
	switch b.def.Shape {
	case ir.ShapePlain:
		v := b.value(e.vals[0])
		if scalar && getUint(v[b.spec.Present:][:8]) == 0 {
			return "", false
		}
		return b.m.decode(b.def.Value, v[b.spec.ValueOff:]), true
	case ir.ShapeCount:
		return itoa(int64(a.count)), a.set || !scalar
	case ir.ShapeSum:
		return itoa(a.sum), a.set
	case ir.ShapeMin, ir.ShapeMax:
		return itoa(a.sum), a.set
	case ir.ShapeAvg, ir.ShapeStats:
		return fmt.Sprintf("count %d total %d", a.count, a.sum), a.set
	case ir.ShapeHist, ir.ShapeLhist:
		return b.histText(e)
	case ir.ShapeTseries:
		return b.seriesText(e), true
	}
	return "", false
}

// seriesText formats each CPU's value, meta and interval.
func (b *bpfMap) seriesText(e *entry) string {
	var parts []string
	for cpu, addr := range e.vals {
		v := b.value(addr)
		if interval := getUint(v[16:24]); interval != 0 {
			parts = append(parts,
				fmt.Sprintf("cpu %d: %d meta %d interval %d", cpu, int64(getUint(v[:8])), getUint(v[8:16]), interval))
		}
	}
	return strings.Join(parts, ", ")
}

// histText lists the nonempty buckets as index=count.
func (b *bpfMap) histText(e *entry) (string, bool) {
	var parts []string
	for i := range buckets(b.def) {
		n := uint64(0)
		for _, addr := range e.vals {
			n += getUint(b.value(addr)[8*i : 8*i+8])
		}
		if n != 0 {
			parts = append(parts, fmt.Sprintf("%d=%d", i, n))
		}
	}
	return strings.Join(parts, " "), len(parts) > 0
}

// RunAll runs the inputs on a new machine and returns the return values and the final
// state.
func RunAll(m *ir.Module, inputs []Input) (returned []int64, state []string, err error) {
	k := New(m)
	for i, in := range inputs {
		r, err := k.Run(in)
		if err != nil {
			return nil, nil, fmt.Errorf("input %d: %w", i, err)
		}
		returned = append(returned, r)
	}
	return returned, k.State(), nil
}

// Equivalent runs the inputs, one after the other, through both modules and reports the
// first observable difference: return values, maps, events, actions. A Trap in either is an
// error too.
func Equivalent(before, after *ir.Module, inputs []Input) error {
	r1, s1, err := RunAll(before, inputs)
	if err != nil {
		return fmt.Errorf("before: %w", err)
	}
	r2, s2, err := RunAll(after, inputs)
	if err != nil {
		return fmt.Errorf("after: %w", err)
	}
	for i := range r1 {
		if r1[i] != r2[i] {
			return fmt.Errorf("input %d returns %d before and %d after", i, r1[i], r2[i])
		}
	}
	if a, b := strings.Join(s1, "\n"), strings.Join(s2, "\n"); a != b {
		return fmt.Errorf("state before:\n%s\nstate after:\n%s", a, b)
	}
	return nil
}
