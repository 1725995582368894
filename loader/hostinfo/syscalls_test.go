package hostinfo

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSyscallNumbers(t *testing.T) {
	names := SyscallNames("x86_64")
	for nr, want := range map[int]string{0: "read", 59: "execve", 334: "rseq", 400: "", 424: "pidfd_send_signal", 435: "clone3"} {
		if names[nr] != want {
			t.Errorf("%d is %q, want %q", nr, names[nr], want)
		}
	}
	if n := SyscallEvents("x86_64")["newfstat"]; n != 5 {
		t.Errorf("newfstat is %d", n)
	}
	if n := SyscallEvents("aarch64")["newuname"]; n != 160 {
		t.Errorf("newuname is %d", n)
	}
}

// Of the running kernel's tracepoints of system calls, the table has all but a
// few that are newer than it.
func TestSyscallEventsOfThisKernel(t *testing.T) {
	dir, err := Tracefs()
	if err != nil {
		t.Skip("skipped: ", err)
	}
	entries, err := os.ReadDir(dir + "/events/syscalls")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	machine, err := Machine()
	if err != nil {
		t.Fatal(err)
	}
	numbers := SyscallEvents(machine)
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
		t.Errorf("openat is %d", n)
	}
}
