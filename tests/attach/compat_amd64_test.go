// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// int80 returns a function that makes system call 20 of the 32-bit ABI, getpid. In the 64-bit ABI, 20
// is writev.
func int80(t *testing.T) func() {
	code := []byte{0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3} // mov eax, 20; int 0x80; ret
	mem, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	copy(mem, code)
	if err := unix.Mprotect(mem, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		t.Skip("skipped: cannot map executable memory: ", err)
	}
	start := &mem[0]
	entry := &start
	return *(*func())(unsafe.Pointer(&entry))
}

// endsInSignal reports whether the kernel answers a system call with a signal, as it does where the 32-bit ABI is disabled at boot
// (ia32_emulation=0, Linux 6.7).
func endsInSignal(call func()) (yes bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { yes = recover() != nil }()
	call()
	return false
}

// TestCallsOf32Bits checks that system calls of the 32-bit ABI are not counted as calls of the
// tracepoint, neither for few tracepoints nor for many.
func TestCallsOf32Bits(t *testing.T) {
	needRoot(t)
	if b, err := os.ReadFile("/proc/sys/abi/vsyscall32"); err != nil {
		t.Skip("skipped: no 32-bit ABI in this kernel: ", err, string(b))
	}
	call := int80(t)
	if endsInSignal(call) {
		t.Skip("skipped: this kernel refuses system calls of the 32-bit ABI")
	}
	for _, pattern := range []string{"sys_enter_*", "sys_exit_*", "sys_enter_writev", "sys_exit_writev"} {
		r := trace(t, compile(t, fmt.Sprintf(`tracepoint:syscalls:%s /pid == %d/ { @[probe] = count(); }`, pattern, os.Getpid())))
		for range 5 {
			call()
		}
		unix.Writev(-1, [][]byte{{0}})
		out := r.stop(t)
		want := "@[tracepoint:syscalls:" + strings.ReplaceAll(pattern, "*", "writev") + "]: 1\n"
		if !strings.Contains(out, want) || strings.Contains(out, "_getpid]") {
			t.Errorf("%s: %q not found in %s", pattern, want, out)
		}
	}
}
