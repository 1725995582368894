// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// typed runs a script that was compiled with the types of this kernel.
func typed(t *testing.T, script string, args ...string) (string, error) {
	t.Helper()
	object := filepath.Join(t.TempDir(), "x.o")
	if out, err := exec.Command(program(t, "btc"), "compile", "--target", "host", "-o", object, "-e", script).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	out, err := exec.Command(program(t, "btrun"), append(args, object)...).CombinedOutput()
	return string(out), err
}

// embedded runs a script that was compiled with the embedded types, which is faster.
func embedded(t *testing.T, script string, args ...string) (string, error) {
	t.Helper()
	out, err := exec.Command(program(t, "btrun"), append(args, compile(t, script))...).CombinedOutput()
	return string(out), err
}

// newer are the kinds that are missing in the embedded types.
var newer = map[string]bool{"dmabuf": true, "kmem_cache": true}

// TestIterators checks that each kind of iterator on this kernel that scripts can use visits its
// objects, and that their members have the kernel's types.
func TestIterators(t *testing.T) {
	needRoot(t)
	list, err := exec.Command(program(t, "btrun"), "--list", "iter:*").CombinedOutput()
	if err != nil {
		t.Skipf("skipped: no kernel types: %v %s", err, list)
	}
	kinds := map[string]bool{}
	for k := range strings.Lines(string(list)) {
		kinds[strings.TrimSpace(strings.TrimPrefix(k, "iter:"))] = true
	}
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	local, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	port := func(a net.Addr) string { _, p, _ := net.SplitHostPort(a.String()); return p }
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	comm := filepath.Base(self)
	comm = comm[:min(len(comm), 15)]
	table := map[string]struct{ body, wants string }{
		"bpf_link":   {`printf("%d %d\n", ctx.link.id, ctx.link.type);`, `^[1-9][0-9]* 4$`}, // BPF_LINK_TYPE_ITER: itself
		"bpf_map":    {`printf("%s %d\n", ctx.map.name, ctx.map.max_entries);`, `^events_[0-9a-f]+ [1-9][0-9]*$`},
		"bpf_prog":   {`printf("%d %s\n", ctx.prog.aux.id, ctx.prog.aux.name);`, `^[1-9][0-9]* iter_bpf_prog`},
		"cgroup":     {`printf("%d %d\n", ctx.cgroup.level, ctx.cgroup.kn.id);`, `^0 1$`}, // the root
		"dmabuf":     {`printf("%d\n", ctx.dmabuf.size);`, `^Attached 1 probe$`},          // there may be no objects
		"ipv6_route": {`printf("%d %d\n", ctx.rt.fib6_dst.plen, ctx.rt.fib6_metric);`, `^(Attached 1 probe|[0-9]+ [0-9]+)$`},
		"kmem_cache": {`printf("%s %d\n", str(ctx.s.name), ctx.s.object_size);`, `^task_struct [1-9][0-9]+$`},
		"ksym":       {`if (ctx.ksym.name == "vfs_read") { printf("%s %c\n", ctx.ksym.name, ctx.ksym.type); }`, `^vfs_read T$`},
		"netlink":    {`printf("%d %d\n", ctx.sk.sk.sk_protocol, ctx.sk.portid);`, `^0 0$`}, // the kernel, NETLINK_ROUTE
		"task":       {`printf("%d %d %s\n", ctx.task.tgid, ctx.task.pid, ctx.task.comm);`, `^[1-9][0-9]* [1-9][0-9]* ` + regexp.QuoteMeta(comm) + `$`},
		"task_file":  {`if (ctx.task.comm == "COMM") { printf("%d %s\n", ctx.fd, path(ctx.file.f_path)); }`, `^[0-9]+ (/dev/null|/.+|pipe:\[[0-9]+\])$`},
		"task_vma":   {`if (ctx.task.comm == "COMM") { printf("%d %s\n", ctx.vma.vm_end > ctx.vma.vm_start, path(ctx.vma.vm_file.f_path)); }`, `^1 ` + regexp.QuoteMeta(self) + `$`},
		"tcp":        {`printf("%s %d\n", ntop(ctx.sk_common.skc_rcv_saddr), ctx.sk_common.skc_num);`, `^127\.0\.0\.1 ` + port(tcp.Addr()) + `$`},
		"udp":        {`printf("%s %d %d\n", ntop(ctx.udp_sk.inet.sk.__sk_common.skc_rcv_saddr), ctx.udp_sk.inet.sk.__sk_common.skc_num, ctx.uid);`, `^127\.0\.0\.1 ` + port(udp.LocalAddr()) + ` 0$`},
		"unix":       {`printf("%s %d\n", str(ctx.unix_sk.addr.name[0].sun_path), ctx.uid);`, `^` + regexp.QuoteMeta(local.Addr().String()) + ` 0$`},
	}
	for kind, tc := range table {
		t.Run(kind, func(t *testing.T) {
			if !kinds[kind] {
				t.Skip("skipped: no such iterator in this kernel")
			}
			body := strings.ReplaceAll(tc.body, "COMM", comm)
			run := typed
			if !newer[kind] {
				run = embedded
			}
			out, err := run(t, "iter:"+kind+" { "+body+" }")
			if err != nil || !regexp.MustCompile("(?m)"+tc.wants).MatchString(out) {
				t.Errorf("%s: error %v, %s not found in\n%.2000s", body, err, tc.wants, out)
			}
		})
		delete(kinds, kind)
	}
	for kind := range kinds {
		if out, err := typed(t, "iter:"+kind+" { @ = count(); }"); err != nil {
			t.Errorf("iter:%s, a kind without a test case: %v %s", kind, err, out)
		}
	}
}

// TestIteratorOfProcess checks that iterators over tasks can be limited to a process, and iterators
// over objects that belong to no process cannot.
func TestIteratorOfProcess(t *testing.T) {
	needRoot(t)
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		t.Skip("skipped: no kernel types: ", err)
	}
	if kernelBefore(6, 1) {
		t.Skip("skipped: iterators of this kernel cannot be limited to a process")
	}
	sleep := exec.Command("sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { sleep.Process.Kill(); sleep.Wait() }()
	pid := fmt.Sprint(sleep.Process.Pid)
	for kind, body := range map[string]string{"task": "", "task_file": `ctx.fd == 0`, "task_vma": `ctx.vma.vm_start == 0 || true`} {
		if body == "" {
			body = "true"
		}
		out, err := exec.Command(program(t, "btrun"), "-q", "-p", pid, compile(t, `iter:`+kind+` { if (`+body+`) { @[ctx.task.tgid] = count(); } }`)).CombinedOutput()
		if err != nil || !regexp.MustCompile(`\A\s*@\[`+pid+`\]: [1-9][0-9]*\s*\z`).Match(out) {
			t.Errorf("iter:%s: %v %s", kind, err, out)
		}
	}
	out, err := exec.Command(program(t, "btrun"), "-p", pid, compile(t, `iter:bpf_prog { @ = count(); }`)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "-p cannot be used: the objects of iter:bpf_prog do not belong to a process") {
		t.Errorf("iter:bpf_prog with -p: %v %s", err, out)
	}
}

// TestManyCgroups checks that the output of a cgroup iterator that exceeds the kernel's buffer is an
// error: the kernel does not continue where it stopped.
func TestManyCgroups(t *testing.T) {
	needRoot(t)
	root := "/sys/fs/cgroup"
	if _, err := os.Stat(root + "/cgroup.controllers"); err != nil {
		if root = root + "/unified"; !isDir(root) {
			t.Skip("skipped: cgroup v2 is not mounted")
		}
	}
	if kernelBefore(6, 1) {
		t.Skip("skipped: no cgroup iterator in this kernel")
	}
	dir, err := os.MkdirTemp(root, "btc-test-")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	t.Cleanup(func() {
		for i := range 20 {
			os.Remove(fmt.Sprintf("%s/%d", dir, i))
		}
		os.Remove(dir)
	})
	for i := range 20 {
		if err := os.Mkdir(fmt.Sprintf("%s/%d", dir, i), 0o755); err != nil {
			t.Skip("skipped: ", err)
		}
	}
	const script = `iter:cgroup { printf("%d %s\n", ctx.cgroup.level, str(ctx.cgroup.kn.name)); @n = count(); }`
	out, err := embedded(t, script)
	if err != nil || !strings.Contains(out, filepath.Base(dir)) || len(regexp.MustCompile(`(?m)^[1-9] [0-9]+$`).FindAllString(out, -1)) < 20 {
		t.Errorf("error = %v, output %s", err, out)
	}
	const long = `iter:cgroup { print(buf(ctx.cgroup, 900)); print(buf(ctx.cgroup, 900)); print(buf(ctx.cgroup, 900)); }`
	if out, err := embedded(t, long); err == nil || !strings.Contains(out, "the kernel visits all objects in one go") {
		t.Errorf("error = %v, output %.500s", err, out)
	}
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}
