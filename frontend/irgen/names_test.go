// SPDX-License-Identifier: Apache-2.0

package irgen

import "testing"

// TestSyscallNames checks for the names in bpftrace 0.27: without newer system calls, but with those of
// the x32 ABI.
func TestSyscallNames(t *testing.T) {
	x86 := syscallNames("x86_64")
	for n, want := range map[int]string{0: "read", 335: "uretprobe", 336: "", 469: "file_setattr", 512: "rt_sigaction", 547: "pwritev2"} {
		if x86[n] != want {
			t.Errorf("name of system call %d = %q, want %q", n, x86[n], want)
		}
	}
	if len(x86) != 548 {
		t.Errorf("%d names, want 548", len(x86))
	}
}
