// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
	"strings"
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

// TestErrors checks that errors of the kernel are returned, and which ones are not errors: a missing element, an
// existing one, a full map.
func TestErrors(t *testing.T) {
	closed := &Map{FD: -1, KeySize: 4, ValueSize: 8, MaxEntries: 4}
	key := make([]byte, 4)
	_, _, lookup := closed.Lookup(key)
	_, insert := closed.InsertZero(key)
	_, all := closed.All()
	_, drain := closed.Drain()
	_, keys := closed.Keys()
	for what, err := range map[string]error{
		"map lookup": lookup, "map update": closed.Zero(key), "map update ": insert, "map update  ": closed.Set(key, make([]byte, 8)), "map delete": closed.Delete(key),
		"reading a map": all, "reading a map ": drain, "map walk": keys, "map walk ": closed.oneByOne(false, nil),
	} {
		if want := strings.TrimSpace(what) + ": "; !errors.Is(err, unix.EBADF) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	m, raw := open(t, ebpf.Hash, 2)
	fill(t, m, 2, false)
	missing := binary.NativeEndian.AppendUint32(nil, 9)
	if err := raw.Zero(missing); err != nil {
		t.Errorf("zero a missing element: %v", err)
	}
	if err := raw.Delete(missing); err != nil {
		t.Errorf("delete a missing element: %v", err)
	}
	if err := raw.Set(missing, make([]byte, 8)); !errors.Is(err, unix.E2BIG) {
		t.Errorf("set in a full map: %v", err)
	}
	if all, err := raw.All(); err != nil || len(all) != 2 {
		t.Errorf("%d elements, %v", len(all), err)
	}
}

// TestSetAndDelete checks that single elements are written and removed, and values of the wrong size refused.
func TestSetAndDelete(t *testing.T) {
	m, raw := open(t, ebpf.Hash, 10)
	fill(t, m, 3, false)
	key, value := binary.NativeEndian.AppendUint32(nil, 1), binary.NativeEndian.AppendUint64(nil, 77)
	if err := raw.Set(key, value); err != nil {
		t.Fatal(err)
	}
	if e, ok, err := raw.Lookup(key); !ok || err != nil || len(e.Values) != 1 || binary.NativeEndian.Uint64(e.Values[0]) != 77 {
		t.Errorf("%v, %v, %v", e, ok, err)
	}
	if err := raw.Delete(key); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := raw.Lookup(key); ok || err != nil {
		t.Errorf("after the deletion: %v, %v", ok, err)
	}
	for _, c := range []struct {
		perCPU bool
		size   int
	}{{false, 4}, {true, 8}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("per CPU %v, %d bytes: no panic", c.perCPU, c.size)
				}
			}()
			(&Map{FD: raw.FD, KeySize: 4, ValueSize: 8, PerCPU: c.perCPU}).Set(key, make([]byte, c.size))
		}()
	}
}

// TestSmallValues checks that values of several CPUs, which the kernel pads to 8 bytes, have the map's size.
func TestSmallValues(t *testing.T) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 3, MaxEntries: 2})
	if err != nil {
		t.Skip("skipped: cannot make BPF maps here: ", err)
	}
	defer m.Close()
	cpus := ebpf.MustPossibleCPU()
	values := make([][]byte, cpus)
	for i := range values {
		values[i] = []byte{1, byte(i), 3}
	}
	if err := m.Put(uint32(1), values); err != nil {
		t.Fatal(err)
	}
	raw := &Map{FD: m.FD(), KeySize: 4, ValueSize: 3, MaxEntries: 2, PerCPU: true, CPUs: cpus}
	check := func(what string, all []Entry, err error) {
		if err != nil || len(all) != 2 || len(all[1].Values) != cpus {
			t.Fatalf("%s: %v, %v", what, all, err)
		}
		for i, v := range all[1].Values {
			if !bytes.Equal(v, values[i]) {
				t.Errorf("%s: CPU %d: %v, want %v", what, i, v, values[i])
			}
		}
	}
	all, err := raw.All()
	check("batches", all, err)
	check("one by one", walk(t, raw, false), nil)
}

// TestWithoutBatches checks that a map whose type has no batches is read key by key.
func TestWithoutBatches(t *testing.T) {
	const stackTrace = ebpf.StackTrace // no batches: EOPNOTSUPP
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: stackTrace, KeySize: 4, ValueSize: 8, MaxEntries: 4})
	if err != nil {
		t.Skip("skipped: cannot make BPF maps here: ", err)
	}
	defer m.Close()
	raw := &Map{FD: m.FD(), KeySize: 4, ValueSize: 8, MaxEntries: 4}
	if all, err := raw.All(); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}
