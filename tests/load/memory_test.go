// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"math/bits"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"btc/compile"
	"btc/targets/kernel"
	"btc/tests/load/objload"
)

// mapLayouts are the maps in the table of sizes in docs/layouts.md.
var mapLayouts = []struct{ name, script, m string }{
	{"`@x[pid] = v`, `@x[pid]++`", "@x[pid]++", "x"},
	{"`@[pid] = count()`, `sum()`", "@x[pid] = count()", "x"},
	{"`@[comm] = count()`", "@x[comm] = count()", "x"},
	{"`@[pid] = avg()`, `stats()`, `min()`, `max()`", "@x[pid] = stats(arg2)", "x"},
	{"`@[pid] = hist(v)`", "@x[pid] = hist(arg2)", "x"},
	{"`@[pid] = lhist(v, 0, 1000, 10)`", "@x[pid] = lhist(arg2, 0, 1000, 10)", "x"},
	{"`@[kstack] = count()`", "@x[kstack] = count()", "x"},
	{"frames of `kstack`, for each depth used", "@x[kstack] = count()", "kstack_127"},
	{"per-CPU caches of `@[pid] = count()`", "@x[pid] = count()", ".bss"},
	{"`@ = sum(v)`", "@x = sum(arg2)", "x"},
	{"`@ = hist(v)`", "@x = hist(arg2)", "x"},
}

// mapSize is the kernel memory of a map: a fixed part and a part for each CPU.
type mapSize struct{ once, eachCPU int }

func (s mapSize) on(cpus int) int { return s.once + cpus*s.eachCPU }

// sizeOf computes the kernel memory of a map from its definition, by the rules of Linux 6.4 and later
// for the overhead of an element.
func sizeOf(m *ebpf.MapSpec) mapSize {
	round := func(n uint32) int { return int(n+7) &^ 7 }
	const element, bucket, pointer = 48, 16, 8 // struct htab_elem and struct bucket on 64-bit kernels
	n := int(m.MaxEntries)
	buckets := bucket << bits.Len(uint(n-1))
	switch m.Type {
	case ebpf.Hash: // one spare element per CPU and a pointer to it, for replacing in place
		size := element + round(m.KeySize) + round(m.ValueSize)
		return mapSize{n*size + buckets, size + pointer}
	case ebpf.PerCPUHash:
		return mapSize{n*(element+round(m.KeySize)+pointer) + buckets, n * round(m.ValueSize)}
	case ebpf.PerCPUArray:
		return mapSize{n * pointer, n * round(m.ValueSize)}
	case ebpf.Array:
		return mapSize{n * round(m.ValueSize), 0}
	}
	return mapSize{}
}

// TestMapMemory checks the table in docs/layouts.md against the maps of compiled objects, and the rule
// of the table against the memory that this kernel reports for the maps.
func TestMapMemory(t *testing.T) {
	doc, err := os.ReadFile("../../docs/layouts.md")
	if err != nil {
		t.Fatal(err)
	}
	target, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range mapLayouts {
		out, diags := compile.Compile(compile.Input{PlainNames: true, Name: "memory.bt", Text: "kprobe:vfs_read { " + l.script + "; }", Target: target})
		if out == nil {
			t.Fatalf("%s: %v", l.script, diags.Err())
		}
		m := spec(t, out).Maps[l.m]
		if m == nil {
			t.Fatalf("%s: no map %s", l.script, l.m)
		}
		size := sizeOf(m)
		if row := memoryRow(l.name, m, size); !strings.Contains(string(doc), row+"\n") {
			t.Errorf("docs/layouts.md: missing row\n%s", row)
		}
		checkMemory(t, l.script, m, size)
	}
}

// memoryRow returns a row of the documented table.
func memoryRow(name string, m *ebpf.MapSpec, s mapSize) string {
	n := int(m.MaxEntries)
	kind := strings.Replace(strings.ToLower(m.Type.String()), "percpu", "percpu_", 1)
	key := fmt.Sprintf("%d", s.on(0)/n)
	if each := s.eachCPU / n; each > 0 {
		key += fmt.Sprintf(" + %d x CPUs", each)
	}
	return fmt.Sprintf("| %s | `%s`, %d + %d | %s | %s | %s |", name, kind, m.KeySize, m.ValueSize, key, amount(s.on(2)), amount(s.on(128)))
}

func amount(n int) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.2f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f KB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d B", n)
}

// checkMemory creates the map and asks the kernel for its size. The kernel rounds arrays up to pages
// and adds the map itself, which is smaller than a page.
func checkMemory(t *testing.T, name string, m *ebpf.MapSpec, s mapSize) {
	t.Helper()
	var major, minor int
	fmt.Sscanf(release(), "%d.%d", &major, &minor)
	if os.Geteuid() != 0 || major < 6 || major == 6 && minor < 4 {
		return // the check of the documented table does not need root
	}
	if err := objload.Prepare(); err != nil {
		t.Fatal(err)
	}
	made := m.Copy()
	made.Key, made.Value, made.Contents = nil, nil, nil
	live, err := ebpf.NewMap(made)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer live.Close()
	info, err := live.Info()
	if err != nil {
		t.Fatal(err)
	}
	is, ok := info.Memlock()
	if !ok {
		t.Fatalf("%s: the kernel does not report the memory of the map", name)
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		t.Fatal(err)
	}
	if want := s.on(cpus); int(is) < want || int(is) > want+2*os.Getpagesize() {
		t.Errorf("%s: %s: computed size %d bytes, kernel reports %d (%d CPUs)", name, m.Name, want, is, cpus)
	}
}
