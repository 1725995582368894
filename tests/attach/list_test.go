// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestListsAreTheReferences checks that lists of probes are equal to bpftrace's, byte for byte, if it
// is installed.
func TestListsAreTheReferences(t *testing.T) {
	needRoot(t)
	oracle, err := filepath.Abs("../setup/bpftrace-oracle")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("../../build/oracle/version"); err != nil {
		t.Skip("skipped: no reference bpftrace (tests/setup/oracle.sh makes it): ", err)
	}
	// If the kernel does not list its traceable functions: those that the patterns below match.
	functions := filepath.Join(t.TempDir(), "functions")
	if err := os.WriteFile(functions, []byte("vfs_read\nvfs_readv\nvfs_write\n__traceiter_sched_switch\n__probestub_sched_switch\n__bpf_trace_sched_switch\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const btrun, btc = "btrun", "btc"
	for _, tc := range []struct {
		pattern  string
		programs []string
	}{
		{"tracepoint:sched:*", []string{btrun, btc}},
		{"t:syscalls:sys_*", []string{btrun, btc}},
		{"tracepoint:*:*", []string{btrun, btc}},
		{"*:sched_switch", []string{btrun, btc}},
		{"rawtracepoint:vmlinux:sched_switch", []string{btrun, btc}},
		{"software:*", []string{btrun, btc}},
		{"interval:*", []string{btrun, btc}},
		{"profile:*", []string{btrun, btc}},
		{"self:*", []string{btrun, btc}},
		{"fentry:vfs_read", []string{btrun, btc}},
		{"fexit:vmlinux:vfs_read", []string{btrun, btc}},
		{"kprobe:vfs_read", []string{btc}},
		{"kretprobe:vfs_read", []string{btc}},
		{"hardware:*", []string{btc}},
		{"struct path", []string{btc}},
		{"enum pid_type", []string{btc}},
	} {
		for _, verbose := range []string{"-v"} { // includes the lines printed without -v
			args := strings.Fields("--traceable-functions " + functions + " -l " + verbose)
			out, err := exec.Command(oracle, append(args, tc.pattern)...).Output()
			if err != nil {
				t.Fatalf("bpftrace -l %s: %v", tc.pattern, err)
			}
			want := ""
			for line := range strings.Lines(string(out)) {
				if !strings.HasPrefix(line, "WARNING: ") {
					want += line
				}
			}
			for _, name := range tc.programs {
				args := []string{"--list", tc.pattern}
				if name == btc {
					args = []string{"list", "--target", "host", tc.pattern}
				}
				if verbose != "" {
					args = append(args, verbose)
				}
				have, err := exec.Command(program(t, name), args...).Output()
				if err != nil || string(have) != want {
					t.Errorf("%s %q %s: error %v, %d lines, want %d as bpftrace%s", name, tc.pattern, verbose, err,
						strings.Count(string(have), "\n"), strings.Count(want, "\n"), firstDifference(string(have), want))
				}
			}
		}
	}
}

func firstDifference(have, want string) string {
	h, w := strings.Split(have, "\n"), strings.Split(want, "\n")
	for i := range min(len(h), len(w)) {
		if h[i] != w[i] {
			return "; first difference: have " + h[i] + ", want " + w[i]
		}
	}
	return ""
}

// TestListsAgree checks that btc, for a target captured here, lists what btrun lists.
func TestListsAgree(t *testing.T) {
	needRoot(t)
	for _, pattern := range []string{"tracepoint:*", "tracepoint:sched:*", "rawtracepoint:*", "rt:vmlinux:sched_wake*", "fentry:vfs_read*", "fexit:vmlinux:tcp_*", "kprobe:rcu_*", "kretprobe:vmlinux:vfs_*", "iter:*", "software:*", "hardware:*", "profile:*", "interval:", "self:*", "kprobe:nosuch*"} {
		have, err := exec.Command(program(t, "btc"), "list", "--target", "host", pattern).CombinedOutput()
		want, wantErr := exec.Command(program(t, "btrun"), "--list", pattern).CombinedOutput()
		if strings.Contains(string(want), "this kernel has no kprobes") { // a captured target assumes the functions of the types
			continue
		}
		if (err == nil) != (wantErr == nil) || err == nil && string(have) != string(want) {
			t.Errorf("%s: btc: %v, %d lines, btrun: %v, %d lines%s", pattern, err, strings.Count(string(have), "\n"), wantErr, strings.Count(string(want), "\n"), firstDifference(string(have), string(want)))
		}
	}
}
