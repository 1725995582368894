// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/binary"
	"testing"

	"github.com/cilium/ebpf"

	"btc/internal/manifest"
	"btc/loader/host"
	"btc/loader/load"
)

func TestStackRefs(t *testing.T) {
	k := manifest.Layout{Kind: "kstack", Size: 8, Stack: "k"}
	u := manifest.Layout{Kind: "ustack", Size: 16, Stack: "u"}
	l := &manifest.Layout{Kind: "tuple", Size: 48, Fields: []manifest.Field{
		{Off: 0, Layout: manifest.Layout{Kind: "int", Size: 8}}, {Off: 8, Layout: k},
		{Off: 16, Layout: manifest.Layout{Kind: "array", Size: 32, Count: 2, Elem: &u}}}}
	got := stackRefs(l, 100)
	want := []stackRef{{"k", 108}, {"u", 116}, {"u", 132}}
	if len(got) != len(want) {
		t.Fatalf("got %v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %v, want %v", got[i], want[i])
		}
	}
}

// TestSweepFreesUnusedStacks checks that stacks that no map refers to are removed from a stack table
// that is more than half full, and that their frames stay known for events that were already sent.
func TestSweepFreesUnusedStacks(t *testing.T) {
	stack := manifest.Layout{Kind: "kstack", Size: 8, Stack: "stk", Depth: 2}
	m := &manifest.Manifest{Maps: []manifest.Map{
		{Name: "@", Symbol: "at", Shape: "count", Type: "hash", KeySize: 8, ValueSize: 8, MaxEntries: 8, Key: &stack, Present: -1},
		{Name: "stk", Symbol: "stk", Shape: "stack", Type: "hash", KeySize: 8, ValueSize: 16, MaxEntries: 8, Depth: 2, Present: -1},
	}}
	l := &load.Loaded{Maps: map[string]*ebpf.Map{}}
	for i := range m.Maps {
		x := &m.Maps[i]
		km, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: uint32(x.KeySize), ValueSize: uint32(x.ValueSize), MaxEntries: uint32(x.MaxEntries)})
		if err != nil {
			t.Skip("skipped: cannot make BPF maps here: ", err)
		}
		defer km.Close()
		l.Maps[x.Symbol] = km
	}
	for id := uint64(1); id <= 6; id++ {
		frames := binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, id*100), 0)
		if err := l.Maps["stk"].Put(id, frames); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []uint64{2, 5} {
		if err := l.Maps["at"].Put(id, uint64(1)); err != nil {
			t.Fatal(err)
		}
	}
	tab, err := newMapTable(m, l, &host.Host{Possible: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.sweep(&m.Maps[0], 0, 0); err != nil {
		t.Fatal(err)
	}
	keys, err := tab.open["stk"].Keys()
	if err != nil || len(keys) != 2 {
		t.Errorf("%d stacks left, %v", len(keys), err)
	}
	for id := uint64(1); id <= 6; id++ {
		if f := tab.frames(&stack, id); len(f) != 1 || f[0] != id*100 {
			t.Errorf("frames of %d = %v", id, f)
		}
	}

	// A program found stack 3 in the table before it was removed, and used it afterwards; then the table
	// fills up again.
	if err := l.Maps["at"].Put(uint64(3), uint64(1)); err != nil {
		t.Fatal(err)
	}
	for id := uint64(7); id <= 12; id++ {
		if err := l.Maps["stk"].Put(id, binary.NativeEndian.AppendUint64(make([]byte, 0, 16), id*100)[:8:16][:16]); err != nil {
			t.Fatal(err)
		}
	}
	if err := tab.sweepFull("stk", &printer{}); err != nil {
		t.Fatal(err)
	}
	if keys, err := tab.open["stk"].Keys(); err != nil || len(keys) != 2 {
		t.Errorf("%d stacks left in the full table, %v", len(keys), err)
	}
	for _, id := range []uint64{2, 3, 5, 9} {
		if f := tab.frames(&stack, id); len(f) != 1 || f[0] != id*100 {
			t.Errorf("frames of %d after the second sweep = %v", id, f)
		}
	}
}
