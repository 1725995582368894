// SPDX-License-Identifier: Apache-2.0

package permit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// policyHost runs programs in a mount namespace in which /etc contains nothing but a policy.
type policyHost struct {
	dir        string // directory of btc, btrun and the objects
	btc, btrun string
}

func newPolicyHost(t *testing.T) *policyHost {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root")
	}
	const try = "mount -t tmpfs -o mode=755 none /etc"
	if out, err := exec.Command("unshare", "-m", "sh", "-c", try).CombinedOutput(); err != nil {
		t.Skipf("skipped: cannot create a mount namespace: %v %s", err, out)
	}
	dir := t.TempDir()
	return &policyHost{dir: dir, btc: build(t, dir, "btc"), btrun: build(t, dir, "btrun")}
}

// object compiles a script.
func (h *policyHost) object(t *testing.T, script string) string {
	t.Helper()
	f, err := os.CreateTemp(h.dir, "*.o")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if out, err := exec.Command(h.btc, "compile", "-e", script, "-o", f.Name()).CombinedOutput(); err != nil {
		t.Fatalf("%s: %s", script, out)
	}
	return f.Name()
}

// run runs a command under a policy; the shell command setup may change the file first.
func (h *policyHost) run(t *testing.T, policy, setup string, args ...string) (string, error) {
	t.Helper()
	script := `mount -t tmpfs -o mode=755 none /etc && mkdir /etc/btrun && printf %s "$POLICY" > /etc/btrun/policy.json && ` +
		setup + ` exec "$@"`
	cmd := exec.Command("unshare", append([]string{"-m", "sh", "-c", script, "sh"}, args...)...)
	cmd.Env = append(os.Environ(), "POLICY="+policy)
	cmd.Dir = h.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestPolicy tries actions that the policy does not permit, in each way of running an object.
func TestPolicy(t *testing.T) {
	h := newPolicyHost(t)
	const policy = "{\n \"probes\": [\"tracepoint:syscalls:sys_enter_getpgid\", \"interval\", \"uprobe:/usr/bin/*\"],\n" +
		" \"allow\": [\"signal\"],\n \"max_memory\": \"64M\",\n \"max_duration\": \"1s\"\n}"
	counts := h.object(t, `t:syscalls:sys_enter_getpgid { @ = count(); } end { printf("ended\n"); }`)
	hello := h.object(t, `begin { printf("hello\n"); exit(); }`)
	raw := h.object(t, `rawtracepoint:sched_switch { @ = count(); }`)
	pattern := h.object(t, `t:syscalls:sys_enter_getpg* { @ = count(); }`)
	shell := h.object(t, `begin { system("echo ran"); exit(); }`)
	cat := h.object(t, `begin { cat("/proc/version"); exit(); }`)
	big := h.object(t, `let @x = hash(1000000); begin { @x[1] = 1; exit(); }`)
	link := filepath.Join(h.dir, "link")
	if err := os.Symlink(h.btrun, link); err != nil {
		t.Fatal(err)
	}
	user := h.object(t, `uprobe:`+link+`:"main.main" { @ = count(); }`)
	for _, c := range []struct {
		says  string
		fails bool
		args  []string
	}{
		{"hello\n", false, []string{h.btrun, hello}},
		{"ended\n", false, []string{h.btrun, counts}}, // ended by max_duration
		{"", false, []string{h.btrun, "--dry-run", counts}},
		{"rawtracepoint:sched_switch is not permitted", true, []string{h.btrun, raw}},
		{"policy.json:2 permits tracepoint:syscalls:sys_enter_getpgid, interval", true, []string{h.btrun, "--dry-run", raw}},
		{"tracepoint:syscalls:sys_enter_getpgrp is not permitted", true, []string{h.btrun, pattern}},
		{"rawtracepoint:sched_switch is not permitted", true, []string{h.btc, "run", "-e", `rawtracepoint:sched_switch { }`}},
		{"uprobe:" + link, true, []string{h.btrun, user}},
		{"no option allows it on this host: /etc/btrun/policy.json:3 permits signal", true, []string{h.btrun, shell}},
		{"--allow system is not permitted", true, []string{h.btrun, "--allow", "system", shell}},
		{"--unsafe is not permitted on this host: /etc/btrun/policy.json:3 permits signal", true, []string{h.btrun, "--unsafe", hello}},
		{"--unsafe is not permitted", true, []string{h.btc, "run", "--unsafe", "-e", `begin { system("echo ran"); }`}},
		{"cat() is not permitted", true, []string{h.btrun, cat}},
		{"/etc/btrun/policy.json:4 permits at most 64 MiB", true, []string{h.btrun, "--max-memory", "1G", big}},
		{"but the limit is 64 MiB: it is from /etc/btrun/policy.json:4", true, []string{h.btrun, big}},
		{"/etc/btrun/policy.json:5 permits at most 1s", true, []string{h.btrun, "--timeout", "2s", hello}},
		{"-c is not permitted", true, []string{h.btrun, "-c", "echo ran", counts}},
		{`writing ` + h.dir + `/out is not permitted`, true, []string{h.btrun, "-o", h.dir + "/out", hello}},
		{"is not permitted", true, []string{h.btrun, "--capture", h.dir + "/out"}},
		{"reading /proc/version is not permitted", true, []string{h.btrun, "--btf", "/proc/version", hello}},
		{"reading /proc/version is not permitted", true, []string{h.btrun, "--list", "--traceable-functions", "/proc/version", "kprobe:*"}},
		{"attach points are not listed: /etc/btrun/policy.json:2", false, []string{h.btrun, "--list", "tracepoint:sched:*"}},
		{"tracepoint:syscalls:sys_enter_getpgid\nbtrun: ", false, []string{h.btrun, "--list", "tracepoint:syscalls:sys_enter_getpg*"}},
		{"refuses rawtracepoint:sched_switch: /etc/btrun/policy.json:2 permits", false, []string{h.btrun, "--inspect", raw}},
		{`refuses the object runs the shell command "echo ran": /etc/btrun/policy.json:3`, false, []string{h.btrun, "--inspect", shell}},
		{"limits --timeout 1s", false, []string{h.btrun, "--inspect", hello}},
		{`"policy": "/etc/btrun/policy.json"`, false, []string{h.btrun, "--inspect", "-f", "json", hello}},
	} {
		out, err := h.run(t, policy, "", c.args...)
		if strings.Contains(out, "not permitted (") || strings.Contains(out, "Operation not permitted") {
			t.Skip("skipped: this machine does not let root load programs: ", out)
		}
		name := strings.Join(c.args, " ")
		if !strings.Contains(out, c.says) || (err != nil) != c.fails || strings.Contains(out, "\nran") ||
			strings.HasPrefix(out, "ran") {
			t.Errorf("%s: error = %v, want output %q, got:\n%s", name, err, c.says, out)
		}
		if _, err := os.Stat(filepath.Join(h.dir, "out")); err == nil {
			t.Fatalf("%s: file was written", name)
		}
	}
}

// TestBrokenPolicy checks that a policy that is untrusted or invalid permits nothing.
func TestBrokenPolicy(t *testing.T) {
	h := newPolicyHost(t)
	hello := h.object(t, `begin { printf("hello\n"); exit(); }`)
	for _, c := range []struct{ says, policy, setup string }{
		{"", `{}`, "chown 0:5 /etc/btrun/policy.json;"},
		{"", `{}`, "mv /etc/btrun /etc/other; ln -s other /etc/btrun;"},
		{"", `{`, "rm -r /etc/btrun;"},
		{"", `{`, "rm /etc/btrun/policy.json;"},
		{"policy.json:1: unexpected end of file in the JSON object", `{`, ""},
		{`policy.json:1: unknown key "probe"; did you mean probes?`, `{"probe": []}`, ""},
		{"belongs to user 5", `{}`, "chown 5 /etc/btrun/policy.json;"},
		{"belongs to user 5", `{}`, "chown 5 /etc/btrun;"},
		{"can be written by others", `{}`, "chmod 666 /etc/btrun/policy.json;"},
		{"can be written by others", `{}`, "chmod g+w /etc/btrun;"},
		{"can be written by others", `{}`, "chmod 777 /etc;"},
		{"can be written by others", `{}`, "mv /etc/btrun/policy.json /tmp/policy-$$; ln -s /tmp/policy-$$ /etc/btrun/policy.json; trap 'rm -f /tmp/policy-$$' EXIT; sh -c \"$1 $2\"; exit $?;"},
		{"dangling symbolic link", `{}`, "ln -sf /none /etc/btrun/policy.json;"},
		{"dangling symbolic link", `{}`, "rm -r /etc/btrun; ln -s /none /etc/btrun;"},
		{"not a regular file", `{}`, "rm /etc/btrun/policy.json; mkfifo /etc/btrun/policy.json;"},
		{"not a regular file", `{}`, "rm /etc/btrun/policy.json; mkdir /etc/btrun/policy.json;"},
		{"not a directory", `{}`, "rm -r /etc/btrun; echo > /etc/btrun;"},
		{"/etc/btrun/policy.conf is not read", `{}`, "mv /etc/btrun/policy.json /etc/btrun/policy.conf;"},
	} {
		out, err := h.run(t, c.policy, c.setup, h.btrun, hello)
		if strings.Contains(out, "Operation not permitted") {
			t.Skip("skipped: this machine does not let root load programs: ", out)
		}
		ran := strings.Contains(out, "hello")
		if ran != (c.says == "") || ran != (err == nil) || !strings.Contains(out, c.says) {
			t.Errorf("%s %s: error = %v, want output %q, got:\n%s", c.policy, c.setup, err, c.says, out)
		}
		if c.says == "" {
			continue
		}
		for _, args := range [][]string{{"--dry-run", hello}, {"--inspect", hello}, {"--list", "tracepoint:sched:*"}, {"--capture", h.dir + "/out"}} {
			if out, err := h.run(t, c.policy, c.setup, append([]string{h.btrun}, args...)...); err == nil &&
				!strings.Contains(c.setup, "trap") {
				t.Errorf("%s with %s %s: no error, output:\n%s", args, c.policy, c.setup, out)
			}
		}
	}
}

// TestBudgetNeedsStatistics checks that, if btrun may not enable the kernel's statistics, a run with a
// budget does not start, whether the budget comes from an option or the policy.
func TestBudgetNeedsStatistics(t *testing.T) {
	h := newPolicyHost(t)
	if b, err := os.ReadFile("/proc/sys/kernel/bpf_stats_enabled"); err != nil || strings.TrimSpace(string(b)) != "0" {
		t.Skip("skipped: needs kernel.bpf_stats_enabled=0")
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("skipped: no setpriv")
	}
	timer := h.object(t, `i:ms:1 { exit(); }`)
	weak := []string{"setpriv", "--bounding-set=-sys_admin", h.btrun}
	if out, err := h.run(t, `{}`, "", append(weak, timer)...); err != nil {
		t.Skip("skipped: this machine does not load programs without CAP_SYS_ADMIN: ", out)
	}
	for _, c := range []struct {
		policy string
		args   []string
	}{
		{`{}`, append(weak, "--budget", "1%", timer)}, {`{"budget": "2%"}`, append(weak, timer)}, {`{"budget": "2%"}`, append(weak, "--budget", "1%", timer)},
	} {
		out, err := h.run(t, c.policy, "", c.args...)
		if err == nil || !strings.Contains(out, "cannot be enforced") || !strings.Contains(out, "CAP_SYS_ADMIN") {
			t.Errorf("%s %v: error = %v, want one about CAP_SYS_ADMIN, output:\n%s", c.policy, c.args, err, out)
		}
	}
	out, err := h.run(t, `{"budget": "2%"}`, "", h.btrun, "--budget", "3%", timer)
	if err == nil ||
		!strings.Contains(out,
			"--budget 3% is not permitted on this host: /etc/btrun/policy.json:1 permits at most 2%") {
		t.Errorf("--budget above the policy's: error = %v, output:\n%s", err, out)
	}
	if out, err := h.run(t, `{"budget": "2%"}`, "", h.btrun, timer); err != nil {
		t.Errorf("budget of the policy: error = %v, output:\n%s", err, out)
	}
}
