// SPDX-License-Identifier: Apache-2.0

package cdef

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"btc/targets/kernel"
)

// TestTables looks up every constant of the tables by name. A name is either in the common table or in
// those of architectures, and must not have the same value in all of these.
func TestTables(t *testing.T) {
	common := constantsIn(t, constantsCommon)
	own := map[string]map[string]string{"amd64": constantsIn(t, constantsX86), "arm64": constantsIn(t, constantsARM64), "riscv64": constantsIn(t, constantsRISCV64)}
	for name, value := range own["amd64"] {
		if own["arm64"][name] == value && own["riscv64"][name] == value {
			t.Errorf("%s is %s on all architectures, but not in the common table", name, value)
		}
	}
	for arch := range own {
		all := maps.Clone(common)
		for name, value := range own[arch] {
			if _, twice := common[name]; twice {
				t.Errorf("%s: %s is also in the common table", arch, name)
			}
			all[name] = value
		}
		if len(all) < 5500 {
			t.Errorf("%s: only %d constants", arch, len(all))
		}
		for name, value := range all {
			v, ok := tableConstant(arch, name)
			if !ok || strconv.FormatInt(v, 10) != value {
				t.Fatalf("%s: %s = %d, %v; want %s", arch, name, v, ok, value)
			}
			if _, found := tableConstant(arch, name+"_"); found && all[name+"_"] == "" {
				t.Fatalf("%s: found nonexistent %s_", arch, name)
			}
		}
		for _, head := range []string{"", "A", "AF_", "CLOCK_", "SYS_op", "__NR_", "zzz", "~"} {
			var want []string
			for name := range all {
				if head != "" && strings.HasPrefix(name, head) {
					want = append(want, name)
				}
			}
			slices.Sort(want)
			if got := tableNames(arch, head); !slices.Equal(got, want) {
				t.Errorf("%s: names from %q: %d, want %d", arch, head, len(got), len(want))
			}
		}
		for _, name := range []string{"", "A", "ZZZZ", "_", "~"} {
			if v, ok := tableConstant(arch, name); ok {
				t.Errorf("%s: found nonexistent %q: %d", arch, name, v)
			}
		}
		for name, want := range map[string]int64{"CLOCK_BOOTTIME": 7, "STATX_BTIME": 0x800, "VM_EXEC": 4, "NF_DROP": 0, "FALLOC_FL_PUNCH_HOLE": 2} {
			if v, ok := tableConstant(arch, name); !ok || v != want {
				t.Errorf("%s: %s = %d, %v; want %d", arch, name, v, ok, want)
			}
		}
	}
	for arch, want := range map[string]int64{"amd64": 0, "arm64": 63, "riscv64": 63, "vax": -1} {
		if v, ok := tableConstant(arch, "__NR_read"); ok != (want >= 0) || ok && v != want {
			t.Errorf("%s: __NR_read = %d, %v; want %d", arch, v, ok, want)
		}
	}
}

// constantsIn returns the constants of a table by name. The names must be sorted.
func constantsIn(t *testing.T, table string) map[string]string {
	all, last := map[string]string{}, ""
	for line := range strings.Lines(table) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name <= last {
			t.Errorf("%s after %s: not sorted", name, last)
		}
		all[name], last = value, name
	}
	return all
}

// TestKernelFlags compares the kernel's internal flags with the bits that the enumerators in the target
// define.
func TestKernelFlags(t *testing.T) {
	kernel, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	compared, last := 0, ""
	for line := range strings.Lines(constantsKernel) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name+" " <= last+" " {
			t.Errorf("%s after %s: not sorted", name, last)
		}
		last = name
		v, ok := tableConstant("arm64", name)
		if !ok || strconv.FormatInt(v, 10) != value {
			t.Errorf("%s = %d, %v; want %s", name, v, ok, value)
		}
		enumerator := "__" + name // REQ_SYNC: __REQ_SYNC
		if strings.HasPrefix(name, "__GFP_") {
			enumerator = "_" + name + "_BIT" // __GFP_IO: ___GFP_IO_BIT
		}
		if _, bit, ok := kernel.EnumConst(enumerator); ok {
			compared++
			if v != 1<<bit {
				t.Errorf("%s = %#x, but %s is bit %d", name, v, enumerator, bit)
			}
		}
	}
	if compared < 30 {
		t.Errorf("compared only %d flags with the target", compared)
	}
}
