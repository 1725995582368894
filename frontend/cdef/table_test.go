package cdef

import (
	"strconv"
	"strings"
	"testing"
)

// TestTables finds every constant of the tables under its name, and no other.
func TestTables(t *testing.T) {
	for arch, table := range map[string]string{"amd64": constantsX86, "arm64": constantsARM64} {
		last := ""
		for line := range strings.Lines(table) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if name <= last && name+" " <= last+" " {
				t.Fatalf("%s: %s is not in its place after %s", arch, name, last)
			}
			last = name
			v, ok := tableConstant(arch, name)
			if !ok || strconv.FormatInt(v, 10) != value {
				t.Fatalf("%s: %s is %d, %v; want %s", arch, name, v, ok, value)
			}
			if _, ok := tableConstant(arch, name+"_"); ok && !strings.Contains(table, "\n"+name+"_ ") {
				t.Fatalf("%s: %s_ is found", arch, name)
			}
		}
		for _, name := range []string{"", "A", "ZZZZ", "_", "~"} {
			if v, ok := tableConstant(arch, name); ok {
				t.Errorf("%s: %q is found: %d", arch, name, v)
			}
		}
		for name, want := range map[string]int64{"CLOCK_BOOTTIME": 7, "STATX_BTIME": 0x800, "VM_EXEC": 4, "NF_DROP": 0, "FALLOC_FL_PUNCH_HOLE": 2} {
			if v, ok := tableConstant(arch, name); !ok || v != want {
				t.Errorf("%s: %s is %d, %v; want %d", arch, name, v, ok, want)
			}
		}
	}
}
