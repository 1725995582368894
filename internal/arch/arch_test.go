// SPDX-License-Identifier: Apache-2.0

package arch

import "testing"

func TestByName(t *testing.T) {
	for _, name := range []string{"x86_64", "amd64", "aarch64", "arm64"} {
		if ByName(name) == nil {
			t.Errorf("unknown architecture %s", name)
		}
	}
	if ByName("vax") != nil {
		t.Error("found nonexistent architecture vax")
	}
	if r, ok := ByName("arm64").Reg("r3"); !ok || r.Offset != 24 || r.Member != "regs[3]" {
		t.Errorf("arm64 r3: %+v", r)
	}
}

// TestSyscallFunc checks that the function of a system call has a prefix for the architecture.
func TestSyscallFunc(t *testing.T) {
	for _, c := range [][3]string{
		{"arm64", "__x64_sys_openat", "__arm64_sys_openat"}, {"x86_64", "__arm64_sys_open*", "__x64_sys_open*"},
		{"x86_64", "__x64_sys_openat", "__x64_sys_openat"}, {"arm64", "vfs_read", "vfs_read"},
		{"arm64", "__ia32_sys_openat", "__ia32_sys_openat"}, {"vax", "__x64_sys_openat", "__x64_sys_openat"},
	} {
		if got := ByName(c[0]).SyscallFunc(c[1]); got != c[2] {
			t.Errorf("function of %s on %s = %s, want %s", c[1], c[0], got, c[2])
		}
	}
}

// TestRows checks invariants of the rows: a name identifies one row, and a marker is a register of
// its own architecture only.
func TestRows(t *testing.T) {
	names, markers := map[string]*Arch{}, map[string]*Arch{}
	for _, a := range All() {
		for _, name := range []string{a.Name, a.GOARCH, a.Label, a.Machine.String()} {
			if other := names[name]; other != nil && other != a {
				t.Errorf("%s names both %s and %s", name, other.Name, a.Name)
			}
			names[name] = a
		}
		if a.Marker == "" || markers[a.Marker] != nil {
			t.Errorf("%s: the marker %q is not its own", a.Name, a.Marker)
		}
		markers[a.Marker] = a
		for name, at := range a.AsmRegs {
			if int(at) >= a.RegsSize || at%8 != 0 {
				t.Errorf("%s: register %s at offset %d of %d", a.Name, name, at, a.RegsSize)
			}
		}
		for _, name := range []string{SavedRetval, SavedIP, SavedFunc, SavedUsermode, "arg0", "arg5"} {
			if s, ok := a.Saved(name); !ok || s.Offset >= a.RegsSize {
				t.Errorf("%s: %s = %+v, %v", a.Name, name, s, ok)
			}
		}
		if ByMachine(a.Machine) != a {
			t.Errorf("%s not found by %s", a.Name, a.Machine)
		}
	}
}

// TestNumbers checks figures of each architecture that the kernel's headers define.
func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		name               string
		audit              uint32 // AUDIT_ARCH_... (linux/audit.h)
		regs, args         int    // sizeof(struct pt_regs) or user_pt_regs, integer arguments in registers
		arg0, result, ip   int    // offsets
		pastProbe, insn    int64
		fentry             [2]int
		bigArg, wholeArg   bool
		syscallArg, number int // offsets of a system call's first argument and number
	}{
		{"x86_64", 0xc000003e, 168, 6, 112, 80, 128, 1, 0, [2]int{}, false, false, 112, 120},
		{"aarch64", 0xc00000b7, 272, 8, 0, 0, 256, 0, 4, [2]int{6, 4}, true, true, 272, 280},
		{"riscv64", 0xc00000f3, 256, 8, 80, 80, 0, 0, 0, [2]int{6, 8}, true, false, 0, 0},
	} {
		a := ByName(c.name)
		if a == nil {
			t.Fatalf("no %s", c.name)
		}
		if got := a.AuditArch(); got != c.audit {
			t.Errorf("%s: audit number %#x, want %#x", c.name, got, c.audit)
		}
		if a.RegsSize != c.regs || len(a.Args) != c.args || a.Args[0].Offset != c.arg0 || a.Result.Offset != c.result || a.IP.Offset != c.ip {
			t.Errorf("%s: %d bytes, %d arguments from %d, result at %d, IP at %d", c.name, a.RegsSize, len(a.Args), a.Args[0].Offset, a.Result.Offset, a.IP.Offset)
		}
		if a.PastProbe != c.pastProbe || int64(a.InsnSize) != c.insn || a.FentrySince != c.fentry || a.BigArg != c.bigArg || a.WholeArg != c.wholeArg {
			t.Errorf("%s: %d past the probe, instructions of %d, fentry since %v, %v, %v", c.name, a.PastProbe, a.InsnSize, a.FentrySince, a.BigArg, a.WholeArg)
		}
		var calls SyscallRegs
		if a.SyscallRegs != nil {
			calls = *a.SyscallRegs
		}
		if int(calls.Args[0]) != c.syscallArg || int(calls.Nr) != c.number {
			t.Errorf("%s: system calls: %+v", c.name, calls)
		}
	}
	if ByName("vax") != nil || ByMachine(0) != nil {
		t.Error("found an architecture that does not exist")
	}
}
