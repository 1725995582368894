// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"btc/compile"
	"btc/loader/object"
	"btc/targets/kernel"
)

// forecastOf compiles a script and checks it against the default target of x86_64.
func forecastOf(t *testing.T, script string) *Report {
	t.Helper()
	target, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	out, diags := compile.Compile(compile.Input{Name: "x.bt", Text: script, Target: target, Compiler: "btc"})
	if out == nil {
		t.Fatalf("%q: %v", script, diags)
	}
	path := filepath.Join(t.TempDir(), "x.o")
	for name, data := range map[string][]byte{path: out.Object, strings.TrimSuffix(path, ".o") + ".json": out.Manifest} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o, err := object.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Check(o, target)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAbsentPoints checks that a missing attach point has the same effect as in the loader: a pattern
// without a match is dropped if its clause has another attach point.
func TestAbsentPoints(t *testing.T) {
	for _, c := range []struct {
		script string
		want   Verdict // of the object
		first  Verdict // of the first program
	}{
		{`kprobe:nosuch_function* { }`, Fails, Fails},
		{`kprobe:nosuch_function*, kprobe:vfs_read { }`, OK, Skipped},
		{`kprobe:nosuch_function, kprobe:vfs_read { }`, Fails, Fails},
		{`kprobe:nosuch_function, kprobe:vfs_read { print(probe); }`, OK, Skipped}, // treated like a pattern
		{`config = { missing_probes = warn } kprobe:nosuch_function { } kprobe:vfs_read { }`, OK, Skipped},
		{`config = { missing_probes = warn } kprobe:nosuch_function { }`, Fails, Skipped}, // nothing is left
		{`kprobe:nosuch_function* { } kprobe:vfs_read { }`, Fails, Fails},
		{`config = { missing_probes = ignore } kprobe:nosuch_function* { } kprobe:vfs_read { }`, OK, Skipped},
	} {
		r := forecastOf(t, c.script)
		if r.Verdict != c.want || r.Programs[0].Verdict != c.first {
			t.Errorf("%s\nobject %s, first program %s: want %s, %s (%v)", c.script, r.Verdict, r.Programs[0].Verdict,
				c.want, c.first, r.Findings)
		}
	}
}

// TestLoaderErrors checks that limits and errors of attach points are those that the loader reports.
func TestLoaderErrors(t *testing.T) {
	for script, want := range map[string]string{
		`config = { max_probes = 2 } kprobe:vfs_* { }`:     "exceeds the current limit of 2 probes",
		`kprobe:nosuch_function { }`:                       "No matches for kprobe nosuch_function.",
		`tracepoint:sched:sched_swi*, tracepoint:x:y* { }`: "No matches for tracepoint x:y*: the script runs without it",
		`software:cpu-clock:100, uprobe:/bin/cat:main { }`: "uprobe:/bin/cat:main depends on the host's files",
		`kprobe:vfs_read+4 { }`:                            "kprobe:vfs_read+4 depends on the instructions of the host's kernel",
		`kprobe:nosuch_module:f { }`:                       "kprobe:nosuch_module:f depends on the module nosuch_module",
	} {
		r := forecastOf(t, script)
		found := false
		for _, f := range r.Findings {
			found = found || strings.Contains(f.Text, want)
		}
		if !found {
			t.Errorf("%s: findings %+v, want %q", script, r.Findings, want)
		}
	}
}

// TestHostDecides checks scripts that a loader or a kernel refuses although the target has all their attach points: the
// verdict is never ok.
func TestHostDecides(t *testing.T) {
	many := func(n int, point string) string {
		text := ""
		for i := range n {
			text += fmt.Sprintf("%s { @[%d] = count() } ", point, i)
		}
		return text
	}
	for _, c := range []struct {
		script string
		want   Verdict
		text   string
	}{
		{`rawtracepoint:sched_switch { @ = max(arg3) }`, OK, ""},
		{`rawtracepoint:sched_switch { @ = max(arg4) }`, Fails, "4 words of arguments"},
		{`rawtracepoint:sched_wakeup { $a = arg1; if (pid > 1) { @ = max($a) } }`, Fails, "word 2"},
		{`rawtracepoint:sched_wak* { @ = max(arg1) }`, Fails, "word 2"},
		{`fentry:vfs_read { @ = max(args.count) }`, OK, ""},
		{`interval:s:1 { print(kaddr("jiffies_64")) }`, Unknown, "jiffies_64"},
		{`interval:s:1 { if (cgroup == cgroupid("/sys/fs/cgroup/a")) { print(1) } }`, Unknown, "/sys/fs/cgroup/a"},
		{`kprobe:vfs_read { signal("KILL") }`, Unknown, "--allow"},
		{`tracepoint:ftrace:print { @ = count() }`, Fails, "No matches"},
		{`kprobe:vfs_read { print(((struct nft_chain *)arg0).use) }`, Unknown, "struct nft_chain exists only while the module nf_tables is loaded"},
		{`fentry:__netif_receive_skb { skboutput("x.pcap", args.skb, 100, 0) }`, Unknown, "--allow files=DIR"},
		{`iter:task:pinned { $a = ctx.task.pid; }`, Unknown, "pins"},
		{`profile:hz:50000 { @ = count() }`, Unknown, "perf_event_max_sample_rate"},
		{`profile:hz:99 { @ = count() }`, OK, ""},
		{`kprobe:do_int3 { @ = count() }`, Unknown, "kprobe"},
		{`fexit:do_exit { @ = count() }`, Unknown, "never returns"},
		{`fentry:__rcu_read_lock { @ = count() }`, Fails, "calls it to enter a program"},
		{`fexit:migrate_disable { @ = count() }`, Fails, "calls it to enter a program"},
		{`fentry:__rcu_read_* { @ = count() }`, Fails, "No matches"},
		{`fentry:_printk { @ = count() }`, Fails, "variadic"},
		{`fentry:vfs_open { print(path(args.path)) }`, Fails, "path()"},
		{`fentry:filp_close { print(path(args.filp.f_path)) }`, OK, ""},
		{many(70, "tracepoint:sched:sched_switch"), OK, ""},
		{many(45, "fentry:vfs_read"), OK, ""},
		{`let @a = hash(10000000); kprobe:vfs_read { @a[tid] = 1 }`, Unknown, "MiB"},
	} {
		r := forecastOf(t, c.script)
		if r.Verdict != c.want || !strings.Contains(fmt.Sprint(r.Findings), c.text) {
			t.Errorf("%.90q: verdict %s, want %s with %q; findings: %v", c.script, r.Verdict, c.want, c.text, r.Findings)
		}
	}
}

// TestWalks checks that walks by unwind tables count only for stacks that have them by default.
func TestWalks(t *testing.T) {
	length := func(stack string) int {
		r := forecastOf(t, "config = { unstable_dw_ustack = enable; } profile:hz:99 { @["+stack+"] = count(); }")
		return r.Programs[0].Instructions
	}
	if plain, marked := length("ustack"), length("dw_ustack"); plain > 200 || marked < 500 {
		t.Errorf("instructions with ustack: %d, with dw_ustack: %d", plain, marked)
	}
}
