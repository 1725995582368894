// SPDX-License-Identifier: Apache-2.0

package permit

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"btc/internal/manifest"
	"btc/loader/object"
)

// TestMapMemory checks the memory of full maps on four CPUs: of each element (48 bytes more in a hash), and of the
// buckets of a hash, a power of two.
func TestMapMemory(t *testing.T) {
	for _, c := range []struct {
		typ        ebpf.MapType
		key, value uint32
		n          uint32
		want       uint64
	}{
		{ebpf.Array, 4, 9, 10, 10 * 16},
		{ebpf.PerCPUArray, 4, 8, 10, 10 * (8 + 4*8)},
		{ebpf.Hash, 5, 8, 4, 4*(48+8+8) + 4*16},
		{ebpf.LRUHash, 8, 8, 5, 5*(48+8+8) + 8*16},
		{ebpf.PerCPUHash, 8, 12, 1, 48 + 8 + 8 + 4*16 + 16},
		{ebpf.LRUCPUHash, 8, 8, 3, 3*(48+8+8+4*8) + 4*16},
		{ebpf.Hash, 8, 8, 0, 16},
		{ebpf.RingBuf, 0, 0, 4096, 4096},
	} {
		if got := MapMemory(&ebpf.MapSpec{Type: c.typ, KeySize: c.key, ValueSize: c.value, MaxEntries: c.n}, 4); got != c.want {
			t.Errorf("%s of %d: %d bytes, want %d", c.typ, c.n, got, c.want)
		}
	}
	s := &ebpf.ProgramSpec{Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}}
	if got := ProgramMemory(s, 3); got != 3*(8<<10+2*24) {
		t.Errorf("three copies of a program: %d bytes", got)
	}
	if got := ProgramMemory(s, 0); got != 0 {
		t.Errorf("no copy: %d bytes", got)
	}
}

// TestCheckMemory checks the limit, which is inclusive, and what a user is told about it.
func TestCheckMemory(t *testing.T) {
	array := func(n uint32) *ebpf.MapSpec { return &ebpf.MapSpec{Type: ebpf.Array, ValueSize: 8, MaxEntries: n} }
	o := &object.Object{
		Spec:     &ebpf.CollectionSpec{Maps: map[string]*ebpf.MapSpec{"a_x": array(1000), "b_x": array(2000), "c_x": array(2000)}},
		Manifest: &manifest.Manifest{Maps: []manifest.Map{{Name: "@a", Symbol: "a_x"}, {Name: "@b", Symbol: "b_x"}, {Name: "@c", Symbol: "c_x"}}},
	}
	const maps = 8 * 5000
	for _, c := range []struct {
		programs, limit uint64
		from, want      string
	}{
		{0, 0, "", ""}, {0, maps, "", ""}, {5, maps + 5, "", ""},
		{0, maps - 1, "", "the maps would need 39 KiB on this machine with 2 CPUs, 15 KiB of it @b, but the limit is 39 KiB: change it with --max-memory"},
		{5, maps + 4, "the policy", "the maps would need 39 KiB on this machine with 2 CPUs, 15 KiB of it @b, but the limit is 39 KiB: it is from the policy"},
		{16001, 10 << 20, "", ""},
		{16001, 100, "", "the object would need 54 KiB on this machine with 2 CPUs, 15 KiB of it for copies of its programs, but the limit is 100 bytes: change it with --max-memory"},
		{16000, 100, "", "the maps would need 54 KiB on this machine with 2 CPUs, 15 KiB of it @b, but the limit is 100 bytes: change it with --max-memory"},
	} {
		got := ""
		if _, err := CheckMemory(o, 2, c.programs, c.limit, c.from); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%d bytes of programs, limit %d: %q, want %q", c.programs, c.limit, got, c.want)
		}
	}
	huge := &object.Object{Spec: &ebpf.CollectionSpec{Maps: map[string]*ebpf.MapSpec{}}, Manifest: &manifest.Manifest{}}
	for _, name := range strings.Split("abcdefgh", "") {
		huge.Spec.Maps[name] = &ebpf.MapSpec{Type: ebpf.PerCPUArray, ValueSize: 1<<32 - 1, MaxEntries: 1<<32 - 1}
	}
	if _, err := CheckMemory(huge, 1<<10, 0, 1<<52, ""); err == nil {
		t.Error("no error for a sum that could overflow")
	}
}

// TestSizes checks sizes as people write and read them.
func TestSizes(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 bytes", 10<<10 - 1: "10239 bytes", 10 << 10: "10 KiB", 10<<20 - 1: "10239 KiB", 10 << 20: "10 MiB", 10<<30 - 1: "10239 MiB", 10 << 30: "10 GiB", 1 << 44: "16384 GiB",
	} {
		if got := Size(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for text, want := range map[string]uint64{
		"1": 1, "512M": 512 << 20, "2g": 2 << 30, "3K": 3 << 10, "1T": 1 << 40, "4KiB": 4 << 10, "5MIB": 5 << 20, "6GiB": 6 << 30, "7TiB": 7 << 40,
		"9007199254740992K": 1 << 63, "9223372036854775808": 1 << 63,
		"": 0, "0": 0, "M": 0, "-1": 0, "1X": 0, "1.5G": 0, "1MM": 0, "9007199254740993K": 0, "9223372036854775809": 0, "1 M": 0,
	} {
		got, err := ParseSize(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
}
