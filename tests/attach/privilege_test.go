package attach

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// withMounts runs a command with a BPF file system of its own where the kernel has
// the directory for it, and with tracefs: a machine that has just started need not
// have mounted them. Only root may write to the first, as where systemd has mounted it.
const withMounts = `[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing || exit
if [ -d /sys/fs/bpf ]; then mount -t bpf -o mode=0700 bpf /sys/fs/bpf || exit; fi; exec "$@"`

// with runs btrun as a user of no rights but for some capabilities, and gives
// its output and whether it went well.
func with(t *testing.T, capabilities, object string, args ...string) (string, bool) {
	t.Helper()
	sets := "-all"
	if capabilities != "" {
		sets += ",+" + strings.ReplaceAll(capabilities, ",", ",+")
	}
	cmd := exec.Command("unshare", append([]string{"--mount", "--propagation", "private", "sh", "-c", withMounts, "sh",
		"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
		"--bounding-set", sets, "--inh-caps", sets, "--ambient-caps", sets, program(t, "btrun"), "-q", object}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// What the kernel lets CAP_BPF and CAP_PERFMON do works with them; what needs
// more says what.
func TestCapabilities(t *testing.T) {
	needRoot(t)
	for _, tool := range []string{"setpriv", "unshare"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("skipped: ", err)
		}
	}
	const end = " interval:ms:1 { exit(); }"
	program(t, "btrun")
	for _, tc := range []struct {
		name, script, caps string
		need               string // a file without which the case is skipped
		says               string // "": it works
	}{
		{"nothing", "begin { exit(); }", "", "", "Missing CAP_BPF and CAP_PERFMON capabilities: run as root"},
		{"no perfmon", "begin { exit(); }", "bpf", "", "Missing CAP_PERFMON capability: run as root"},
		{"no bpf", "begin { exit(); }", "perfmon", "", "Missing CAP_BPF capability: run as root"},
		{"begin", "begin { exit(); }", "bpf,perfmon", "", ""},
		{"interval", end, "bpf,perfmon", "", ""},
		{"admin", end, "sys_admin", "", ""},
		{"profile", "profile:hz:99 { @[kstack, ustack] = count(); exit(); }", "bpf,perfmon", "", ""},
		{"software", "software:faults:1 { exit(); }", "bpf,perfmon", "", ""},
		{"rawtracepoint", "rawtracepoint:sched_switch { @ = args.prev.pid; exit(); }", "bpf,perfmon", "/sys/kernel/btf/vmlinux", ""},
		{"iterator", "iter:task { @ = count(); }", "bpf,perfmon", "/sys/kernel/btf/vmlinux", ""},
		{"task", "interval:ms:1 { @ = curtask->pid; exit(); }", "bpf,perfmon", "/sys/kernel/btf/vmlinux", ""},
		{"tracepoint", "tracepoint:sched:sched_switch { exit(); }", "bpf,perfmon", "events/sched", "CAP_DAC_READ_SEARCH"},
		{"tracepoint, read", "tracepoint:sched:sched_switch { exit(); }", "bpf,perfmon,dac_read_search", "events/sched", ""},
		{"syscalls, read", "tracepoint:syscalls:sys_enter_* { exit(); }", "bpf,perfmon,dac_read_search", "events/syscalls", ""},
		{"uprobe, admin", "uprobe:/bin/bash:main { }" + end, "sys_admin", "/bin/bash", ""},
		{"iterator, pinned", "iter:task:not-to-be-made { printf(\"x\\n\"); }", "bpf,perfmon", "/sys/fs/bpf", "this user may not write there"},
		{"self", "self:signal:SIGUSR1 { @ = 1; }" + end, "bpf,perfmon", "", ""},
		{"watchpoint, kernel", "watchpoint:0xffffffff82000000:8:w { @ = 1; }" + end, "bpf,perfmon", "", "it needs CAP_SYS_ADMIN"},
		{"programs of others", "fentry:bpf:*:nonesuch { @ = 1; }" + end, "bpf,perfmon", "/sys/kernel/btf/vmlinux", "it needs CAP_SYS_ADMIN"},
		{"tracepoint, record", "tracepoint:sched:sched_switch { @ = args.prev_pid; exit(); }", "bpf,perfmon,dac_read_search", "events/sched", ""},
		{"symbols", `begin { @ = kaddr("vfs_read"); exit(); }`, "bpf,perfmon", "", "CAP_SYSLOG"},
		{"symbols, syslog", `begin { @ = kaddr("vfs_read"); exit(); }`, "bpf,perfmon,syslog", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if group, ok := strings.CutPrefix(tc.need, "events/"); ok {
				needTracepoints(t, group)
			} else if _, err := os.Stat(tc.need); tc.need != "" && err != nil {
				t.Skip("skipped: ", err)
			}
			if fi, err := os.Stat(tracefs(t)); tc.name == "tracepoint" && err == nil && fi.Mode()&0o005 != 0 {
				t.Skip("skipped: everyone may read tracefs here")
			}
			out, ok := with(t, tc.caps, compile(t, tc.script), "--allow", "pins=/sys/fs/bpf")
			if tc.says == "" && !ok || tc.says != "" && (ok || !strings.Contains(out, tc.says)) {
				t.Errorf("%s with %q: %v, %s; want %q", tc.script, tc.caps, ok, out, tc.says)
			}
		})
	}
	// The kernel has links of uprobes that need less, since 6.6.
	t.Run("uprobe", func(t *testing.T) {
		if _, err := os.Stat("/bin/bash"); err != nil {
			t.Skip("skipped: ", err)
		}
		out, ok := with(t, "bpf,perfmon", compile(t, "uprobe:/bin/bash:main { @[probe] = count(); }"), "-c", "/bin/bash -c true")
		switch {
		case ok && !strings.Contains(out, "main]: 1"):
			t.Errorf("the uprobe did not fire: %s", out)
		case !ok && !strings.Contains(out, "it needs CAP_SYS_ADMIN"):
			t.Errorf("refused without the reason: %s", out)
		}
	})
}
