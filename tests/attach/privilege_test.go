// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// withMounts runs a command with tracefs and, if the kernel has a directory for it, with its own BPF
// file system, because a machine that has just started may not have mounted them. Only root may write
// to the BPF file system, as with systemd.
const withMounts = `[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing || exit
if [ -d /sys/fs/bpf ]; then mount -t bpf -o mode=0700 bpf /sys/fs/bpf || exit; fi; exec "$@"`

// with runs btrun as a user without privileges, except for the given capabilities. It returns the
// output and whether the command succeeded.
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

// TestCapabilities checks that features for which CAP_BPF and CAP_PERFMON suffice work with these, and
// that for other features, the error names what they need.
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
		need               string // file without which the case is skipped
		says               string // expected message; "" if it works
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
		{"iterator, pinned", "iter:task:not-to-be-made { printf(\"x\\n\"); }", "bpf,perfmon", "/sys/fs/bpf", "not writable"},
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
				t.Errorf("%s with %q: ok = %v, output %s, want %q", tc.script, tc.caps, ok, out, tc.says)
			}
		})
	}
	// Since 6.6, the kernel has uprobe links that need fewer capabilities.
	t.Run("uprobe", func(t *testing.T) {
		if _, err := os.Stat("/bin/bash"); err != nil {
			t.Skip("skipped: ", err)
		}
		out, ok := with(t, "bpf,perfmon", compile(t, "uprobe:/bin/bash:main { @[probe] = count(); }"), "-c", "/bin/bash -c true")
		switch {
		case ok && !strings.Contains(out, "main]: 1"):
			t.Errorf("uprobe did not fire: %s", out)
		case !ok && !strings.Contains(out, "it needs CAP_SYS_ADMIN"):
			t.Errorf("error without the reason: %s", out)
		}
	})
}

// capabilitiesOf returns a line of /proc/PID/status, such as CapEff, for each thread of a process.
func capabilitiesOf(t *testing.T, pid int, line string) []uint64 {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(tasks) == 0 {
		t.Fatal(tasks, err)
	}
	var all []uint64
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has exited
		}
		m := regexp.MustCompile(`(?m)^` + line + `:\s(\S+)$`).FindSubmatch(b)
		if m == nil {
			t.Fatalf("%s not found in %s", line, b)
		}
		n, err := strconv.ParseUint(string(m[1]), 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// TestPrivilegesAreDropped checks that after attaching, no thread of btrun has a capability that the
// rest of the run does not need, and that none can gain one through execve.
func TestPrivilegesAreDropped(t *testing.T) {
	needRoot(t)
	own := capabilitiesOf(t, os.Getpid(), "CapEff")[0]
	const (
		bpf, perfmon, ptrace, read, syslog = 1 << unix.CAP_BPF, 1 << unix.CAP_PERFMON, 1 << unix.CAP_SYS_PTRACE, 1 << unix.CAP_DAC_READ_SEARCH, 1 << unix.CAP_SYSLOG
		users, kill                        = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETPCAP, 1 << unix.CAP_KILL
	)
	for _, c := range []struct {
		name, script string
		args         []string
		want         uint64
	}{
		{"counts", "interval:s:9 { @ = count(); }", nil, bpf | perfmon},
		{"kernel stacks", "profile:hz:9 { @[kstack] = count(); }", nil, bpf | perfmon | syslog},
		{"user stacks", "profile:hz:9 { @[(ustack, 1)] = count(); }", nil, bpf | perfmon | ptrace | read | users},
		{"printed symbols", `interval:s:9 { printf("%s\n", usym(1)); }`, nil, bpf | perfmon | ptrace | read | users},
		{"files", `interval:s:9 { cat("/etc/hostname"); }`, nil, bpf | perfmon | read},
		{"a command", "interval:s:9 { @ = 1; }", []string{"-c", "/bin/sleep 100"}, bpf | perfmon | kill},
		{"system", `interval:s:9 { system("true"); }`, []string{"--allow", "system"}, own},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := trace(t, append(c.args, compile(t, c.script))...)
			defer r.stop(t)
			want := c.want & own
			for _, line := range []string{"CapEff", "CapPrm"} {
				for _, have := range capabilitiesOf(t, r.cmd.Process.Pid, line) {
					if have != want {
						t.Errorf("%s = %#x, want %#x", line, have, want)
					}
				}
			}
			nnp := uint64(1)
			if c.name == "system" {
				nnp = 0
			}
			for _, have := range capabilitiesOf(t, r.cmd.Process.Pid, "NoNewPrivs") {
				if have != nnp {
					t.Errorf("NoNewPrivs = %d, want %d", have, nnp)
				}
			}
		})
	}
}

// TestRunWithoutPrivileges checks that everything still works after the privileges were dropped:
// symbols of processes that start later, cat(), system(), reading maps, end programs, removing a pin.
func TestRunWithoutPrivileges(t *testing.T) {
	needRoot(t)
	needTracepoints(t, "sched")
	shell := shellNamed(t, "btclater")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("of another user\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(secret, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	r := trace(t, compile(t, fmt.Sprintf(`tracepoint:sched:sched_process_exit / comm == "btclater" / { @[ustack(3)] = count(); printf("%%s %%s\n", comm, ustack(1)); print(@); cat(%q); clear(@); }
		end { printf("ended\n"); }`, secret)))
	for range 3 {
		if err := exec.Command(shell, "-c", "(:); true").Run(); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && strings.Count(r.stdout.String(), "of another user\n") < 3; {
		time.Sleep(20 * time.Millisecond)
	}
	out := r.stop(t)
	for _, want := range []string{`btclater \n\s+[A-Za-z_]\w*\+\d+\n`, "of another user\n", "ended\n"} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%q not found in %s", want, out)
		}
	}
}
