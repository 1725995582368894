// SPDX-License-Identifier: Apache-2.0

//go:build linux

package arch_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"btc/internal/arch"
	"btc/internal/kernelfs"
)

func TestSyscallNumbers(t *testing.T) {
	names := arch.ByName("x86_64").SyscallNames()
	for nr, want := range map[int]string{0: "read", 59: "execve", 334: "rseq", 400: "", 424: "pidfd_send_signal", 435: "clone3"} {
		if names[nr] != want {
			t.Errorf("name of %d = %q, want %q", nr, names[nr], want)
		}
	}
	if n := arch.ByName("x86_64").SyscallEvents()["newfstat"]; n != 5 {
		t.Errorf("number of newfstat = %d", n)
	}
	if n := arch.ByName("aarch64").SyscallEvents()["newuname"]; n != 160 {
		t.Errorf("number of newuname = %d", n)
	}
}

// TestSyscallEventsOfThisKernel checks that the table has all system call tracepoints of the running
// kernel, except for a few newer ones.
func TestSyscallEventsOfThisKernel(t *testing.T) {
	dir, err := kernelfs.Tracefs()
	if err != nil {
		t.Skip("skipped: ", err)
	}
	entries, err := os.ReadDir(dir + "/events/syscalls")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	numbers := arch.Host().SyscallEvents()
	var unknown []string
	for _, e := range entries {
		if name, ok := strings.CutPrefix(e.Name(), "sys_enter_"); ok {
			if _, ok := numbers[name]; !ok {
				unknown = append(unknown, name)
			}
		}
	}
	if len(unknown) > 8 {
		t.Errorf("not in the table: %v", unknown)
	}
	t.Log("not in the table: ", unknown)
	if n := numbers["openat"]; n != unix.SYS_OPENAT {
		t.Errorf("number of openat = %d", n)
	}
}

func TestForeignSyscall(t *testing.T) {
	for event, want := range map[string]bool{
		"sys_enter_open": true, "sys_exit_open": true, "sys_enter_openat": false, "sys_enter_nosuch": false, "sys_exit_read": false, "open": false,
	} {
		if got := arch.ByName("arm64").ForeignSyscall(event); got != want {
			t.Errorf("%s on arm64 = %v", event, got)
		}
	}
	if arch.ByName("vax").ForeignSyscall("sys_enter_open") {
		t.Error("open reported as missing on an unknown architecture")
	}
}
