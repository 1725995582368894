package cdef

import (
	"strconv"
	"strings"
	"testing"

	"btc/ir/target"
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

// TestKernelFlags compares the flags of the kernel's own with the bits that the
// target's enumerators name.
func TestKernelFlags(t *testing.T) {
	kernel, err := target.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	compared, last := 0, ""
	for line := range strings.Lines(constantsKernel) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name+" " <= last+" " {
			t.Errorf("%s is not in its place after %s", name, last)
		}
		last = name
		v, ok := tableConstant("arm64", name)
		if !ok || strconv.FormatInt(v, 10) != value {
			t.Errorf("%s is %d, %v; want %s", name, v, ok, value)
		}
		enumerator := "__" + name // REQ_SYNC: __REQ_SYNC
		if strings.HasPrefix(name, "__GFP_") {
			enumerator = "_" + name + "_BIT" // __GFP_IO: ___GFP_IO_BIT
		}
		if _, bit, ok := kernel.EnumConst(enumerator); ok {
			compared++
			if v != 1<<bit {
				t.Errorf("%s is %#x, and %s is bit %d", name, v, enumerator, bit)
			}
		}
	}
	if compared < 30 {
		t.Errorf("%d flags were compared with the target's", compared)
	}
}
