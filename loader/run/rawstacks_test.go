// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"btc/internal/manifest"
	"btc/internal/unwind"
	"btc/loader/host"
	"btc/loader/load"
)

// TestEqualStacks checks that stacks that the loader has unwound are one key with equal ones that programs have unwound, by
// the rule of each kind of map.
func TestEqualStacks(t *testing.T) {
	const depth = 16
	stack := manifest.Layout{Kind: "ustack", Size: 16, Stack: "ustack_16", Depth: depth}
	key := &manifest.Layout{Kind: "tuple", Size: 24, Fields: []manifest.Field{{Off: 0, Layout: manifest.Layout{Kind: "int", Size: 8}}, {Off: 8, Layout: stack}}}
	signed := &manifest.Layout{Kind: "int", Size: 8, Signed: true}
	maps := []manifest.Map{{Name: "ustack_16", Symbol: "ustack_16", Shape: "stack", KeySize: 8, ValueSize: 8 * depth, Depth: depth, User: true}}
	for name, size := range map[string]int{"count": 8, "sum": 8, "avg": 16, "stats": 16, "min": 16, "max": 16, "hist": 66 * 8, "lhist": 4 * 8, "plain": 8, "set": 8} {
		m := manifest.Map{Name: "@" + name, Symbol: name, Shape: name, KeySize: 24, ValueSize: size, Key: key, Value: signed, Present: -1}
		switch name {
		case "plain":
			m.Adds = true
		case "set": // assigned
			m.Shape = "plain"
		case "min", "max":
			m.ValueOff = 8
		case "lhist":
			m.MapParams = manifest.MapParams{Min: 0, Max: 2, Step: 1}
		}
		maps = append(maps, m)
	}
	m := &manifest.Manifest{Maps: maps}
	l := &load.Loaded{Maps: map[string]*ebpf.Map{}}
	for i := range m.Maps {
		x := &m.Maps[i]
		x.Type, x.MaxEntries = "hash", 16
		km, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: uint32(x.KeySize), ValueSize: uint32(x.ValueSize), MaxEntries: 16})
		if err != nil {
			t.Skip("skipped: cannot make BPF maps here: ", err)
		}
		defer km.Close()
		l.Maps[x.Symbol] = km
	}
	tab, err := newMapTable(m, l, &host.Host{Possible: 1})
	if err != nil {
		t.Fatal(err)
	}
	waited := 0
	tab.await = func(uint64) { waited++ }

	frames, others := []uint64{0x1000, 0x2000, 0x3000}, []uint64{0x1000, 0x2000}
	id := unwind.StackID(frames, depth)
	const raw, again, cut = 5 << unwind.StackLenBits, 6 << unwind.StackLenBits, 7 << unwind.StackLenBits
	tab.storeStack(depth, raw, frames)
	tab.storeStack(depth, again, frames)
	tab.storeStack(depth, cut, others)
	put := func(name string, id uint64, words ...uint64) {
		t.Helper()
		k := binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, 1), id), 9)
		b := make([]byte, m.Map("@"+name).ValueSize)
		for i, w := range words {
			binary.NativeEndian.PutUint64(b[8*i:], w)
		}
		if err := l.Maps[name].Put(k, b); err != nil {
			t.Fatal(err)
		}
	}
	fill := func(with bool) {
		for i, x := range []uint64{raw, again, id, cut} {
			if x == id && !with { // no program has found the stack
				continue
			}
			n := uint64(i + 1)
			put("count", x, n)
			put("sum", x, 10*n)
			put("avg", x, n, 100*n)
			put("stats", x, n, 100*n)
			put("min", x, 1, n)
			put("max", x, 1, -n)
			put("hist", x, 0, n)
			put("lhist", x, n, 0, n)
			put("plain", x, n)
			put("set", x, n)
		}
	}
	for _, drain := range []bool{false, true} {
		for _, with := range []bool{true, false} {
			if !with {
				for name := range l.Maps {
					if name != "ustack_16" {
						tab.take(m.Map("@" + name))
					}
				}
			}
			fill(with)
			n := map[bool]uint64{true: 1 + 2 + 3, false: 1 + 2}[with]
			want := map[string]uint64{"count": n, "sum": 10 * n, "avg": 100 * n, "stats": 100 * n, "min": 1, "max": 1<<64 - 1, "hist": 0, "lhist": 0, "plain": 0, "set": 0}
			for name, value := range want {
				x := m.Map("@" + name)
				read := tab.elements
				if drain {
					read = tab.take
				}
				all, err := read(x)
				if err != nil || len(all) != 2 {
					t.Errorf("%s: %d elements, %v; want 2", name, len(all), err)
					continue
				}
				for _, el := range all {
					got := binary.NativeEndian.Uint64(el.Key[8:])
					if got == unwind.StackID(others, depth) {
						continue
					}
					if got != id || binary.NativeEndian.Uint64(el.Key[16:]) != 9 {
						t.Errorf("%s: key %x", name, el.Key)
					}
					if !slices.Equal(tab.frames(&stack, got), frames) {
						t.Errorf("%s: frames %#x", name, tab.frames(&stack, got))
					}
					switch {
					case el.Value != value:
						t.Errorf("%s: %d, want %d", name, int64(el.Value), int64(value))
					case name == "hist" && !slices.Equal(el.Buckets, []uint64{0, n}), name == "lhist" && !slices.Equal(el.Buckets, []uint64{n, 0, n}):
						t.Errorf("%s: %d", name, el.Buckets)
					case name == "plain" && binary.NativeEndian.Uint64(el.Bytes) != n:
						t.Errorf("%s: %d, want %d", name, el.Bytes, n)
					case name == "set":
						if got := binary.NativeEndian.Uint64(el.Bytes); with && got != 3 || !with && got != 1 && got != 2 {
							t.Errorf("set: %d, with the program's own %v", got, with)
						}
					case (name == "avg" || name == "stats") && el.Count != n:
						t.Errorf("%s: of %d, want %d", name, el.Count, n)
					}
				}
			}
		}
	}
	if waited != 0 {
		t.Error("reading a map waits")
	}
	if got := tab.frames(&stack, raw); !slices.Equal(got, frames) || waited != 1 {
		t.Errorf("frames %#x after %d waits", got, waited)
	}
}
