// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/adapt"
	"btc/loader/diag"
	"btc/loader/resolve"
)

// largeMaps is the size of all maps, in bytes, from which the host's memory decides: btrun refuses an object whose
// maps may take more than half of it.
const largeMaps = 64 << 20

// usualRate is the number of samples per second that hosts permit: the kernel starts with 100,000 and lowers the
// limit while samples take too long.
const usualRate = 1000

// hostOnly reports what no target tells: symbols and cgroups that are looked up when the object is loaded,
// permissions, and memory.
func (c *checker) hostOnly() {
	for i := range c.m.Globals {
		g := &c.m.Globals[i]
		pos := manifest.Pos{}
		if g.Pos != nil {
			pos = *g.Pos
		}
		switch g.Host {
		case manifest.HostKaddr:
			c.find(Unknown, nil, pos, "the address of the kernel symbol %s is known only on the host", g.Text)
		case manifest.HostUaddr, manifest.HostUaddrCode:
			c.find(Unknown, nil, pos, "the address of a symbol of a program is known only on the host")
		case manifest.HostCgroupID:
			c.find(Unknown, nil, pos, "the cgroup %s exists only on the host", g.Text)
		case manifest.HostKfuncAllowed:
			c.find(Unknown, nil, pos, "which programs may call a kernel function is known only on the host")
		}
	}
	for _, u := range c.m.Unsafe {
		c.find(Unknown, nil, u.Pos, "%s() needs a permission on the host: --allow or --unsafe", u.Name)
	}
	for i := range c.m.Events {
		if e := &c.m.Events[i]; e.Kind == "skboutput" {
			c.find(Unknown, nil, e.Pos, "skboutput() needs a permission on the host: --allow files=DIR or --unsafe")
		}
	}
	for i := range c.m.Programs {
		p := &c.m.Programs[i]
		if path := resolve.PinPath(p); path != "" {
			c.find(Unknown, p, p.Pos, "pinning at %s needs a permission on the host: --allow pins=DIR or --unsafe", path)
		}
		timer := p.Kind == probe.Profile || p.Kind == probe.Interval
		if timer && p.Attach.Unit == "hz" && p.Attach.Count > usualRate {
			c.find(Unknown, p, p.Pos, "%s: the host limits the rate of samples (kernel.perf_event_max_sample_rate)", p.Attach.Text)
		}
	}
	size := uint64(0)
	for _, m := range c.o.Spec.Maps {
		n := uint64(m.KeySize) + uint64(m.ValueSize)
		switch m.Type {
		case ebpf.RingBuf: // the loader sizes it by the host's memory
			continue
		case ebpf.PerCPUHash, ebpf.LRUCPUHash, ebpf.PerCPUArray:
			n *= 8 // a machine of eight CPUs
		}
		size += n * uint64(m.MaxEntries)
	}
	if size > largeMaps {
		c.find(Unknown, nil, manifest.Pos{}, "the maps may take %d MiB on a machine of eight CPUs, and the host's memory decides", size>>20)
	}
}

// dPath are the functions at which programs may call bpf_d_path (btf_allowlist_d_path of kernel/trace/bpf_trace.c,
// since 5.10); iterators may call it as well.
var dPath = []string{"dentry_open", "filp_close", "security_file_open", "security_file_permission", "security_inode_getattr",
	"security_path_truncate", "vfs_fallocate", "vfs_getattr", "vfs_truncate"}

// wholeValues checks the layouts of kernel structs that are copied whole.
func (c *checker) wholeValues() error {
	names := adapt.WholeTypes(c.m)
	if len(names) == 0 {
		return nil
	}
	spec, err := newTypes(c.t).spec(names)
	if err != nil {
		return err
	}
	if err := adapt.Whole(c.m, spec); err != nil {
		c.refuse(nil, manifest.Pos{}, err)
	}
	for _, name := range names {
		if _, err := spec.AnyTypesByName(name); err != nil {
			c.find(Unknown, nil, manifest.Pos{}, "%s is copied whole, and the target has no such type", name)
		}
	}
	return nil
}

// neverReturn are functions whose exit newer kernels do not let fexit trace (noreturn_deny of kernel/bpf/verifier.c, 6.16 and stable
// kernels).
var neverReturn = []string{"__ia32_sys_exit", "__ia32_sys_exit_group", "__module_put_and_kthread_exit", "__x64_sys_exit",
	"__x64_sys_exit_group", "do_exit", "do_group_exit", "kthread_complete_and_exit", "kthread_exit",
	"make_task_dead", "panic", "rewind_stack_and_make_dead"}

// depends returns why only the host knows whether the kernel accepts a program at a function, or "".
func (c *checker) depends(p *manifest.Program, name string) string {
	switch p.Kind {
	case probe.Kprobe, probe.Kretprobe:
		if slices.Contains(blacklisted, name) {
			return "kernels do not let " + name + " be probed with a kprobe, depending on their configuration"
		}
	case probe.Fentry, probe.Fexit:
		if fn, ok := c.t.Func(name); ok && fn.Proto != nil {
			if text := c.byValue(prototype(fn.Proto)); text != "" {
				return name + " " + text
			}
		}
		if p.Kind == probe.Fexit && slices.Contains(neverReturn, name) {
			return name + " never returns, and newer kernels do not let its return be traced"
		}
	default:
		return ""
	}
	if slices.ContainsFunc(c.t.Gaps(), func(gap string) bool { return strings.Contains(gap, "assumed traceable") }) {
		return "the target was captured without the list of traceable functions, so whether " + name + " can be probed is known only on the host"
	}
	return ""
}

// byValue returns why only newer kernels can enter a function with fentry, or "": x86_64 passes structs since
// Linux 6.1, and more than six words since 6.7; the trampolines of other architectures came later. Distributions
// backport both, so the version does not decide.
func (c *checker) byValue(proto *adapt.Prototype) string {
	words, structs := 0, false
	for _, p := range proto.Params {
		words += max(1, (p.Size+7)/8)
		structs = structs || p.Class == "struct"
	}
	x86, version := c.t.Arch().Label == "x86_64", release(c.t.Release())
	switch {
	case words > 6 && (version < 6007 || !x86):
		return fmt.Sprintf("has %d words of arguments, which some kernels cannot pass to fentry", words)
	case structs && (version < 6001 || !x86):
		return "passes a struct, which some kernels cannot pass to fentry"
	}
	return ""
}

// blacklisted are functions that kernels list as traceable but do not let kprobes enter (NOKPROBE_SYMBOL, and the
// sections that kprobes exclude), on one of Linux 5.10 to 7.2.
var blacklisted = strings.Fields(`
__die __die_body __die_header __rcu_irq_enter_check_tick aggr_post_handler aggr_pre_handler
atomic_notifier_call_chain ct_user_enter ct_user_exit do_int3 do_kern_addr_fault do_trap dump_kprobe
get_kprobe io_check_error kprobe_emulate_call kprobe_emulate_call_indirect
kprobe_emulate_ifmodifiers kprobe_emulate_jcc kprobe_emulate_jmp kprobe_emulate_jmp_indirect
kprobe_emulate_loop kprobe_emulate_ret kprobe_exceptions_notify kprobe_fault_handler
kprobe_ftrace_handler kprobe_int3_handler kprobe_post_process kprobes_inc_nmissed_count
kretprobe_rethook_handler nmi_cpu_backtrace_handler nmi_handle notifier_call_chain oops_begin
oops_end opt_pre_handler optimized_callback pci_serr_error perf_event_nmi_handler
perf_ibs_nmi_handler pre_handler_kretprobe reenter_kprobe resume_singlestep setup_detour_execution
setup_singlestep spurious_kernel_fault synthesize_relcall synthesize_reljump unknown_nmi_error
user_enter_callable user_exit_callable`)

// refuse reports an error of the loader.
func (c *checker) refuse(p *manifest.Program, pos manifest.Pos, err error) {
	text := err.Error()
	var at *diag.Error
	if errors.As(err, &at) {
		pos, text = at.Pos, at.Text
	}
	c.find(Fails, p, pos, "%s", text)
}
