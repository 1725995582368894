// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"btc/internal/arch"
	"btc/internal/manifest"
	"btc/loader/host"
	"btc/loader/kerneltypes"
	"btc/loader/sites"
	"btc/targets/kernel"
)

// fact is a line of --info.
type fact struct{ name, value string }

func yesNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// printInfo prints what a bug report needs: the system, this program, and the features of
// the running kernel. The headings and names are those of bpftrace --info.
func printInfo() int {
	h, err := host.Probe()
	if err != nil {
		return fail("%v", err)
	}
	section("System", systemFacts())
	section("Build", buildFacts())
	helper := func(kind ebpf.ProgramType, fn asm.BuiltinFunc) string {
		return yesNo(features.HaveProgramHelper(kind, fn) == nil)
	}
	section("Kernel helpers", []fact{
		{"dpath", helper(ebpf.Tracing, asm.FnDPath)}, {"get_tai_ns", helper(ebpf.Kprobe, asm.FnKtimeGetTaiNs)},
		{"get_func_ip", helper(ebpf.Kprobe, asm.FnGetFuncIp)},
		{"lookup_percpu_elem", helper(ebpf.Kprobe, asm.FnMapLookupPercpuElem)},
		{"loop", helper(ebpf.Kprobe, asm.FnLoop)}, {"probe_read", helper(ebpf.Kprobe, asm.FnProbeRead)},
		{"probe_read_kernel", helper(ebpf.Kprobe, asm.FnProbeReadKernel)},
		{"probe_read_user", helper(ebpf.Kprobe, asm.FnProbeReadUser)},
		{"get_current_cgroup_id", helper(ebpf.Kprobe, asm.FnGetCurrentCgroupId)},
		{"ktime_get_boot_ns", helper(ebpf.Kprobe, asm.FnKtimeGetBootNs)},
		{"send_signal", helper(ebpf.Kprobe, asm.FnSendSignal)},
		{"override_return", helper(ebpf.Kprobe, asm.FnOverrideReturn)},
		{"for_each_map_elem", helper(ebpf.Kprobe, asm.FnForEachMapElem)},
		{"skb_output", helper(ebpf.Tracing, asm.FnSkbOutput)},
	})
	limit := "4096"
	if features.HaveLargeInstructions() == nil {
		limit = "1000000"
	}
	section("Kernel features", []fact{
		{"Instruction limit", limit}, {"btf", yesNo(exists(kerneltypes.Path))}, {"module btf", yesNo(moduleTypes())},
		{"bounded loops", yesNo(features.HaveBoundedLoops() == nil)},
	})
	types := []fact{}
	for _, m := range []struct {
		name string
		kind ebpf.MapType
	}{
		{"hash", ebpf.Hash}, {"percpu hash", ebpf.PerCPUHash}, {"array", ebpf.Array}, {"percpu array", ebpf.PerCPUArray},
		{"stack_trace", ebpf.StackTrace}, {"perf_event_array", ebpf.PerfEventArray}, {"ring buffer", ebpf.RingBuf},
	} {
		types = append(types, fact{m.name, yesNo(features.HaveMapType(m.kind) == nil)})
	}
	section("Map types", types)
	program := func(kind ebpf.ProgramType) string { return yesNo(features.HaveProgramType(kind) == nil) }
	// That such a program loads is not enough: the kernel must be able to attach it.
	tracing := features.HaveProgramHelper(ebpf.Tracing, asm.FnGetCurrentPidTgid) == nil && exists(kerneltypes.Path)
	section("Probe types", []fact{
		{"kprobe", yesNo(exists("/sys/bus/event_source/devices/kprobe"))},
		{"uprobe", yesNo(exists("/sys/bus/event_source/devices/uprobe"))}, {"tracepoint", program(ebpf.TracePoint)},
		{"rawtracepoint", program(ebpf.RawTracepoint)}, {"perf_event", program(ebpf.PerfEvent)},
		{"kprobe_multi", yesNo(h.KprobeMulti())}, {"uprobe_multi", yesNo(h.UprobeMulti())},
		{"kprobe_session", yesNo(h.KprobeSession())}, {"fentry", yesNo(tracing)}, {"iter", yesNo(haveIterators(h))},
	})
	return 0
}

// haveIterators reports whether this kernel has iterators over tasks.
func haveIterators(h *host.Host) bool {
	found, err := sites.List(h, "iter:task", sites.Options{})
	return err == nil && len(found) > 0
}

func section(title string, facts []fact) {
	fmt.Println(title)
	for _, f := range facts {
		fmt.Printf("  %s: %s\n", f.name, f.value)
	}
	fmt.Println()
}

func systemFacts() []fact {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return []fact{{"OS", err.Error()}}
	}
	text := unix.ByteSliceToString
	caps := "none"
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		_, after, _ := strings.Cut(string(status), "CapEff:")
		caps = "0x" + strings.TrimLeft(strings.Fields(after + " 0")[0], "0")
	}
	return []fact{
		{"OS", text(name.Sysname[:]) + " " + text(name.Release[:]) + " " + text(name.Version[:])}, {"Arch", text(name.Machine[:])},
		{"user", fmt.Sprint(os.Geteuid())}, {"capabilities", caps},
		{"tracefs", yesNo(exists("/sys/kernel/tracing/events"))},
		{"lockdown", firstLine("/sys/kernel/security/lockdown")},
		{"unprivileged_bpf_disabled", firstLine("/proc/sys/kernel/unprivileged_bpf_disabled")},
		{"kptr_restrict", firstLine("/proc/sys/kernel/kptr_restrict")},
		{"perf_event_paranoid", firstLine("/proc/sys/kernel/perf_event_paranoid")},
	}
}

func buildFacts() []fact {
	facts := []fact{
		{"version", "btc " + version},
		{"language", "bpftrace " + bpftraceVersion},
		{"manifest", manifest.Schema},
	}
	for _, a := range arch.All() {
		if t, err := kernel.Default(a.Name); err == nil {
			facts = append(facts, fact{"embedded target", "Linux " + t.Release() + " " + a.Label})
		}
	}
	return facts
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// moduleTypes reports whether the kernel publishes types of its modules.
func moduleTypes() bool {
	entries, err := os.ReadDir("/sys/kernel/btf")
	return err == nil && len(entries) > 1
}

func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "not readable"
	}
	return strings.TrimSpace(strings.SplitN(string(b), "\n", 2)[0])
}
