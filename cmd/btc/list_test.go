// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"btc/internal/probe"
	"btc/targets/kernel"
)

func listed(t *testing.T, verbose bool, operand string) string {
	t.Helper()
	tgt, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := (&lister{t: tgt, out: &out, verbose: verbose}).list(operand); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestList(t *testing.T) {
	script := filepath.Join(t.TempDir(), "x.bt")
	if err := os.WriteFile(script, []byte("BEGIN { } k:vfs_read, t:sched:sched_wakeup*, U:/bin/x:a:b { } i:s:1 { }"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		verbose bool
		operand string
		want    string // all lines
	}{
		{false, "tcp_sendms", ""},
		{false, "*cp_sendmsg", "fentry:sunrpc:svc_tcp_sendmsg\nfentry:vmlinux:mptcp_sendmsg\nfentry:vmlinux:tcp_sendmsg\nkprobe:mptcp_sendmsg\nkprobe:svc_tcp_sendmsg\nkprobe:tcp_sendmsg\n"},
		{false, "kr:tcp_sendmsg,K:vmlinux:tcp_sendmsg", "kretprobe:tcp_sendmsg\nkprobe:vmlinux:tcp_sendmsg\n"},
		{true, "fexit:tcp_sendmsg", "fexit:vmlinux:tcp_sendmsg\n    struct sock * sk\n    struct msghdr * msg\n    size_t size\n    int retval\n"},
		{false, "t:*:sched_wak*", "tracepoint:sched:sched_wake_idle_without_ipi\ntracepoint:sched:sched_wakeup\ntracepoint:sched:sched_wakeup_new\ntracepoint:sched:sched_waking\n"},
		{true, "tracepoint:syscalls:sys_enter_close", "tracepoint:syscalls:sys_enter_close\n    int __syscall_nr\n    unsigned int fd\n"},
		{true, "rt:sched_wakeup", "rawtracepoint:vmlinux:sched_wakeup\n    struct task_struct * p\n"},
		{false, "s:cpu*", "software:cpu-clock:\nsoftware:cpu-migrations:\nsoftware:cpu:\n"},
		{false, "interval:*", "interval:hz:\ninterval:ms:\ninterval:s:\ninterval:us:\n"},
		{true, "k:vfs_read,kr:vfs_read", "kprobe:vfs_read\n    struct file * arg0\n    char * arg1\n    size_t arg2\n    loff_t * arg3\nkretprobe:vfs_read\n    ssize_t retval\n"},
		{true, "t:task:task_rename", "tracepoint:task:task_rename\n    pid_t pid\n    char oldcomm[16]\n    char newcomm[16]\n    short oom_score_adj\n"},
		{false, "enum pid_typ*", "enum pid_type\n"},
		{true, "kr:tcp_ack_tstamp", "kretprobe:tcp_ack_tstamp\n    void\n"},
		{false, "self:*", "self:signal:SIGUSR1\n"},
		{true, "iter:task", "iter:task\n    struct bpf_iter_meta * meta\n    struct task_struct * task\n"},
		{false, "struct bpf_iter__task_f*", "struct bpf_iter__task_file\n"},
		{true, "struct path", "vmlinux: struct path {\n\tstruct vfsmount *mnt;\n\tstruct dentry *dentry;\n};\n\n"},
		{false, script, "kprobe:vfs_read\ntracepoint:sched:sched_wakeup\ntracepoint:sched:sched_wakeup_new\nusdt:/bin/x:a:b\ninterval:s:\n"},
	} {
		if have := listed(t, c.verbose, c.operand); have != c.want {
			t.Errorf("%s: got\n%swant\n%s", c.operand, have, c.want)
		}
	}
}

func TestGlobText(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true}, {"a*", "a:b", true}, {"*b*", "abc", true}, {"a*a", "a", false}, {"a*b*c", "axbxc", true},
		{"a*b*c", "acb", false}, {"a", "ab", false}, {"*ab", "aab", true},
	} {
		if have := probe.Glob(c.pattern, c.text); have != c.want {
			t.Errorf("probe.Glob(%q, %q) = %v", c.pattern, c.text, have)
		}
	}
}
