// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"encoding/binary"
	"math/bits"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// open creates a map in the kernel.
func open(t *testing.T, typ ebpf.MapType, entries int) (*ebpf.Map, *Map) {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: typ, KeySize: 4, ValueSize: 8, MaxEntries: uint32(entries)})
	if err != nil {
		t.Skip("skipped: cannot make BPF maps here: ", err)
	}
	t.Cleanup(func() { m.Close() })
	return m, &Map{FD: m.FD(), KeySize: 4, ValueSize: 8, MaxEntries: entries, PerCPU: typ == ebpf.PerCPUHash, CPUs: ebpf.MustPossibleCPU()}
}

func fill(t *testing.T, m *ebpf.Map, n int, perCPU bool) {
	t.Helper()
	for i := range uint32(n) {
		var v any = uint64(i) * 3
		if perCPU {
			all := make([]uint64, ebpf.MustPossibleCPU())
			for c := range all {
				all[c] = uint64(i)*3 + uint64(c)
			}
			v = all
		}
		if err := m.Put(i, v); err != nil {
			t.Fatal(err)
		}
	}
}

func checkAll(t *testing.T, entries []Entry, n int) {
	t.Helper()
	seen := map[uint32]bool{}
	for _, e := range entries {
		k := binary.NativeEndian.Uint32(e.Key)
		seen[k] = true
		for cpu, v := range e.Values {
			if got := binary.NativeEndian.Uint64(v); got != uint64(k)*3+uint64(cpu) {
				t.Errorf("key %d on CPU %d: value %d", k, cpu, got)
			}
		}
	}
	if len(seen) != n || len(entries) != n {
		t.Errorf("%d entries with %d keys, want %d", len(entries), len(seen), n)
	}
}

// walk reads a map without batches.
func walk(t *testing.T, m *Map, drain bool) (all []Entry) {
	t.Helper()
	if err := m.oneByOne(drain, func(e Entry) { all = append(all, e) }); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestReadAndDrain(t *testing.T) {
	const n = 3000
	for _, typ := range []ebpf.MapType{ebpf.Hash, ebpf.PerCPUHash} {
		m, raw := open(t, typ, n+100)
		fill(t, m, n, raw.PerCPU)
		all, err := raw.All()
		if err != nil {
			t.Fatal(err)
		}
		checkAll(t, all, n)
		checkAll(t, walk(t, raw, false), n)
		all, err = raw.Drain()
		if err != nil {
			t.Fatal(err)
		}
		checkAll(t, all, n)
		if left, err := raw.All(); err != nil || len(left) != 0 {
			t.Errorf("%d entries left, %v", len(left), err)
		}
		fill(t, m, 10, raw.PerCPU)
		checkAll(t, walk(t, raw, true), 10)
		if keys, err := raw.Keys(); err != nil || len(keys) != 0 {
			t.Errorf("%d keys left, %v", len(keys), err)
		}
	}
}

// jhash is the kernel's hash of one 32-bit word (include/linux/jhash.h) with the seed 0.
func jhash(key uint32) uint32 {
	const initial = 0xdeadbeef
	rol := bits.RotateLeft32
	a, b, c := uint32(initial+4)+key, uint32(initial+4), uint32(initial+4)
	c ^= b
	c -= rol(b, 14)
	a ^= c
	a -= rol(c, 11)
	b ^= a
	b -= rol(a, 25)
	c ^= b
	c -= rol(b, 16)
	a ^= c
	a -= rol(c, 4)
	b ^= a
	b -= rol(a, 14)
	c ^= b
	c -= rol(b, 24)
	return c
}

// TestLargeBucket checks that a bucket with more elements than fit in the first batch is read
// completely.
func TestLargeBucket(t *testing.T) {
	const entries, valueSize = 64, 16 << 10 // the first batch holds 16
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: valueSize, MaxEntries: entries, Flags: unix.BPF_F_ZERO_SEED})
	if err != nil {
		t.Skip("skipped: cannot make BPF maps here: ", err)
	}
	defer m.Close()
	value := make([]byte, valueSize)
	n := 0
	for key := uint32(0); n < 40; key++ {
		if jhash(key)&(entries-1) == 0 {
			if err := m.Put(key, value); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	x := &Map{FD: m.FD(), KeySize: 4, ValueSize: valueSize, MaxEntries: entries, CPUs: ebpf.MustPossibleCPU()}
	seen := map[string]bool{}
	if _, err := x.batches(false, func(e Entry) { seen[string(e.Key)] = true }); err != nil || len(seen) != n {
		t.Errorf("read %d of %d elements, error = %v", len(seen), n, err)
	}
}

func TestLookupAndZero(t *testing.T) {
	m, raw := open(t, ebpf.Hash, 10)
	fill(t, m, 3, false)
	key := binary.NativeEndian.AppendUint32(nil, 2)
	e, ok, err := raw.Lookup(key)
	if err != nil || !ok || binary.NativeEndian.Uint64(e.Values[0]) != 6 {
		t.Errorf("Lookup = %v, %v, %v", e, ok, err)
	}
	if err := raw.Zero(key); err != nil {
		t.Fatal(err)
	}
	if e, _, _ := raw.Lookup(key); binary.NativeEndian.Uint64(e.Values[0]) != 0 {
		t.Errorf("not zeroed: %v", e)
	}
	if _, ok, err := raw.Lookup(binary.NativeEndian.AppendUint32(nil, 9)); ok || err != nil {
		t.Errorf("missing key: %v, %v", ok, err)
	}
}

func TestInsertZero(t *testing.T) {
	m, raw := open(t, ebpf.PerCPUHash, 4)
	fill(t, m, 3, true)
	key := func(k uint32) []byte { return binary.NativeEndian.AppendUint32(nil, k) }
	for _, c := range []struct {
		key  uint32
		made bool
	}{{2, false}, {7, true}, {7, false}, {8, false}} { // the map is full for the last one
		if made, err := raw.InsertZero(key(c.key)); made != c.made || err != nil {
			t.Errorf("key %d: %v, %v", c.key, made, err)
		}
	}
	if e, ok, _ := raw.Lookup(key(2)); !ok || binary.NativeEndian.Uint64(e.Values[0]) != 6 {
		t.Errorf("existing element: %v", e)
	}
	if e, ok, _ := raw.Lookup(key(7)); !ok || binary.NativeEndian.Uint64(e.Values[0]) != 0 {
		t.Errorf("new element: %v, %v", e, ok)
	}
}

// TestEmpty checks that a new map is empty and can be drained.
func TestEmpty(t *testing.T) {
	_, raw := open(t, ebpf.Hash, 10)
	if all, err := raw.Drain(); err != nil || len(all) != 0 {
		t.Errorf("Entries = %v, %v", all, err)
	}
}
