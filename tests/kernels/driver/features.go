// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Feature is something that a job may need from the machine it runs on.
type Feature struct {
	Name    string
	Missing string // reason for skipping a job if the feature is missing
	Present func() bool
}

// Features lists every feature that a case may name.
func Features() []Feature {
	return []Feature{
		{"root", "not root", func() bool { return os.Geteuid() == 0 }},
		{"btf", "the kernel has no BTF", exists("/sys/kernel/btf/vmlinux")},
		{"kprobe", "the kernel has no kprobes, or refuses them at the entry of functions (riscv64 with Linux 6.12)", kprobe},
		{"uprobe", "the kernel has no uprobes", exists("/sys/bus/event_source/devices/uprobe")},
		{"tracepoint", "tracefs is not mounted", exists("/sys/kernel/tracing/events/sched")},
		{"syscalls", "the kernel has no system call tracepoints", exists("/sys/kernel/tracing/events/syscalls")},
		{"open-call", "the architecture has no system call open", exists("/sys/kernel/tracing/events/syscalls/sys_enter_open")},
		{"perf", "the kernel has no perf events", exists("/sys/bus/event_source/devices/software")},
		{"watchpoint", "the machine has no hardware breakpoints for perf, or they do not fire", watchpoint},
		{"fentry", "the kernel refuses fentry", func() bool { return fentry() == nil }},
		{"no-fentry", "the kernel has fentry", func() bool { return errors.Is(fentry(), os.ErrPermission) }},
		{"for-each", "the kernel has no helper that walks a map (bpf_for_each_map_elem, 5.13)", forEach},
		{"no-for-each", "the kernel has the helper that walks a map", func() bool { return !forEach() }},
		{"loop", "the kernel has no helper that repeats a subprogram (bpf_loop, 5.17)", loop},
		{"no-loop", "the kernel has the helper that repeats a subprogram", func() bool { return !loop() }},
		{"percpu-lookup", "the kernel has no helper that reads another CPU's value (bpf_map_lookup_percpu_elem, 5.19)",
			func() bool { return helper(asm.FnMapLookupPercpuElem) }},
		{"no-pmu", "the machine has hardware counters", func() bool { return !cycles() }},
		{"ipv6", "the loopback device has no IPv6 address", ipv6Loopback},
		{"usdt", "no C compiler made the workload that has static probes", onPath("usdt")},
		{"modules", "no module with types of its own can be loaded (Linux 5.11)", modules},
		{"disk", "the machine has no disk for tests", exists("/dev/scratch")},
		{"bash", "there is no bash", exists("/bin/bash")},
		{"openssl", "there is no openssl", onPath("openssl")},
		{"thread", "no C compiler made the workload that calls pthread_create", onPath("thread")},
		{"getaddrinfo", "no C compiler made the workload that calls getaddrinfo", onPath("getaddrinfo")},
	}
}

func exists(path string) func() bool {
	return func() bool {
		_, err := os.Stat(path)
		return err == nil
	}
}

// kprobe reports whether a kprobe can be opened, on a function that every kernel has.
func kprobe() bool {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Kprobe, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return false
	}
	defer prog.Close()
	l, err := link.Kprobe("vfs_read", prog, nil)
	if err == nil {
		l.Close()
	}
	return err == nil
}

// watchedWord is written while a breakpoint is on it.
var watchedWord uint64

// watchpoint reports whether a hardware breakpoint counts a write of this thread. Some virtual machines let one be set
// that never fires.
func watchpoint() bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_BREAKPOINT, Size: unix.PERF_ATTR_SIZE_VER5, Sample: 1,
		Bp_type: 2 /* write */, Ext1: uint64(uintptr(unsafe.Pointer(&watchedWord))), Ext2: 8}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	atomic.AddUint64(&watchedWord, 1)
	count := make([]byte, 8)
	n, err := unix.Read(fd, count)
	return err == nil && n == 8 && binary.NativeEndian.Uint64(count) > 0
}

// cycles reports whether the counter of CPU cycles can be opened.
func cycles() bool {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CPU_CYCLES, Size: unix.PERF_ATTR_SIZE_VER5, Sample: 1 << 20}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}

// fentry attaches a program to a function that every kernel has. On arm64 this fails before Linux 6.4.
func fentry() error {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, AttachTo: "vfs_read", License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return err
	}
	defer prog.Close()
	l, err := link.AttachTracing(link.TracingOptions{Program: prog})
	if err == nil {
		l.Close()
	}
	return err
}

// modulesDir holds the modules of a guest's kernel and the file with their load order.
const modulesDir = "/modules"

// modules loads nf_conntrack and its dependencies. The module that the cases load themselves, to trace
// the loading, is unloaded.
func modules() bool {
	_ = unix.DeleteModule("nf_conntrack_irc", 0)
	return loadModules()
}

var loadModules = sync.OnceValue(func() bool {
	order, err := os.ReadFile(filepath.Join(modulesDir, "order"))
	if err != nil {
		return false
	}
	for _, name := range strings.Fields(string(order)) {
		if f, err := os.Open(filepath.Join(modulesDir, name+".ko")); err == nil && name != "nf_conntrack_irc" {
			_ = unix.FinitModule(int(f.Fd()), "", 0) // the check of the types reports whether this worked
			f.Close()
		}
	}
	return exists("/sys/kernel/btf/nf_conntrack")()
})

func forEach() bool { return helper(asm.FnForEachMapElem) }

func loop() bool { return helper(asm.FnLoop) }

func helper(call asm.BuiltinFunc) bool { return features.HaveProgramHelper(ebpf.Kprobe, call) == nil }

func onPath(program string) func() bool {
	return func() bool {
		_, err := exec.LookPath(program)
		return err == nil
	}
}

func ipv6Loopback() bool {
	b, _ := os.ReadFile("/proc/net/if_inet6")
	return bytes.Contains(b, []byte(strings.Repeat("0", 31)+"1 "))
}

// missingFeature returns why a job with these needs cannot run here, or "".
func missingFeature(needs []string) string {
	all := Features()
	for _, need := range needs {
		i := slices.IndexFunc(all, func(f Feature) bool { return f.Name == need })
		if i < 0 {
			return fmt.Sprintf("it needs %q, which no feature is called", need)
		}
		if !all[i].Present() {
			return all[i].Missing
		}
	}
	return ""
}
