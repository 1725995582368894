// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"testing"
)

// TestHints checks the hints for misspelled and renamed names.
func TestHints(t *testing.T) {
	for _, test := range []struct{ script, hint string }{
		{`config = { max_strlan = 3 } begin { }`, "did you mean max_strlen?"},
		{`begin { $count = 1; print($coutn); }`, "did you mean $count?"},
		{`begin { @count = 1; print(@coutn); }`, "did you mean @count?"},
		{`begin { let $x : uint46 = 1; }`, "did you mean uint64?"},
		{`begin { $r = (a=1, bcd=2); print($r.bce); }`, "did you mean bcd?"},
		{`software:page-fualts:1 { }`, "did you mean page-faults?"},
		{`hardware:cache-mises:9 { }`, "did you mean cache-misses?"},
		{`begin { print(nsces); }`, "did you mean nsecs?"},
		{`begin { pritnf("x"); }`, "did you mean printf?"},
		{`begin { print(curtask.comn); }`, "did you mean comm?"},
		{`begin { print(curtask.vruntime); }`, "it is a nested field: se.vruntime"},
		{`kprobe:f { print(((struct inet_sock *)arg0)->inet_dport); }`, "it is a nested field: sk.__sk_common.skc_dport"},
		{`kprobe:vfs_read { print(((struct bio *)arg0).bi_partno); }`, "this kernel has it as bi_bdev.__bd_flags (its low 8 bits, since 6.10)"},
		{`kprobe:vfs_read { $t = ((struct inode *)arg0).i_atime; }`, "this kernel has it as i_atime_sec, i_atime_nsec"},
		{`kprobe:vfs_read { print(((struct inode *)arg0).i_atime.tv_secs); }`, "this kernel has it as i_atime_sec, i_atime_nsec"},
		{`kprobe:vfs_read { print(offsetof(struct request, rq_disk)); }`, "this kernel has it as q->disk"},
		{`kprobe:vfs_read { print(((struct dentry *)arg0).d_shortname); }`, "this kernel has it as d_iname"},
		{`begin { print(strlen); }`, "strlen is a function: strlen(...)"},
		{`kprobe:vfs_read { print(((struct sock *)arg0).sk_state); }`, "this kernel has it as __sk_common.skc_state (its name in BTF)"},
		{`kprob:vfs_read { }`, "did you mean kprobe?"},
		{`BEGN { }`, "did you mean begin?"},
		{`interval:100mss { }`, "a duration is a number followed by ns, us, ms, s, m, h or d: interval:100ms"},
		{"#define FOOBAR 1\nbegin { print(FOOBRA); }", "did you mean FOOBAR?"},
		{`enum color { RED, GREEN } begin { print(GREN); }`, "did you mean GREEN?"},
		{`enum color { RED } begin { print((enum colr)1); }`, "did you mean enum color?"},
		{`enum color { RED = 3 } begin { print((enum color)7); }`, "it has RED = 3"},
		{`struct apple { int x; } begin { print(((struct aple *)0)->x); }`, "did you mean struct apple?"},
		{`begin { print(TCP_ESTABLISHD); }`, "did you mean TCP_ESTABLISHED?"},
		{`begin { print(SIGKIL); }`, "did you mean SIGKILL?"},
		{`kprobe:vfs_read { print(reg("rdi")); }`, "did you mean di?"},
		{`kprobe:vfs_read { print(reg("nothing")); }`, "the registers are r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_rax ip pc cs flags sp ss"},
		{`kprobe:vfs_read { signal("SIGKIL"); }`, "did you mean SIGKILL?"},
		{`macro add_one(x) { x + 1 } begin { print(add_oen(1)); }`, "did you mean add_one?"},
		{`fn add_one($x : int64) : int64 { return $x; } begin { print(add_oen(1)); }`, "did you mean add_one?"},
		{`begin { asert(1, "x"); }`, "did you mean assert?"},
		{`begin { printf("%q", 1); }`, "%q is not a conversion; expected %d %i %u %o %x %X %c %p for numbers, %s for anything, %r %rx %rh for buffers"},
		{`begin { print(nsecs(monotnic)); }`, "boot, monotonic, tai or sw_tai"},
		{`begin { print(10sec); }`, "durations end in ns, us, ms, s, m, h or d, C integers in u, l, ul, ll or ull"},
		{`begin { whlie (pid) { } }`, "did you mean while?"},
		{`begin { fro $x : 0..3 { } }`, "did you mean for?"},
		{`begin { if pid { } elseif (tid) { } }`, "did you mean else if?"},
		{`begin { retrun 1; }`, "did you mean return?"},
		{`begin { unrol(3) { } }`, "did you mean unroll?"},
		{`begin { prinft("x"); }`, "did you mean printf?"},
		{`kprobe:vfs_read { print(((struct fiel *)arg0)->f_flags); }`, "did you mean struct file?"},
		{`begin /comm == bash/ { }`, `string literals need double quotes: "bash"`},
		{`kprobe:vfs_read { print(args.count); }`, "a kprobe has arg0, arg1, ...; fentry:vfs_read has named, typed args"},
		{`kretprobe:vfs_read { print(args->count); }`, "fexit:vfs_read has named, typed args and retval"},
		{`kprobe:vfs_read { print(retval); }`, "kretprobe:vfs_read and fexit:vfs_read have it: the function has not run yet here"},
		{`kretprobe:vfs_read { print(arg0); }`, "fexit:vfs_read has args and retval; or keep it: kprobe:vfs_read { @a[tid] = arg0; }"},
		{`uprobe:/bin/bash:readline { print(retval); }`, "uretprobe:/bin/bash:readline has it: the function has not run yet here"},
		{`uretprobe:/bin/bash:readline { print(arg0); }`, "keep it: uprobe:/bin/bash:readline { @a[tid] = arg0; }"},
		{`tracepoint:sched:sched_switch { print(arg0); }`, "a tracepoint has named args: args.name"},
		{`begin { @x = lhist(pid); }`, "@x = lhist(number, min, max, step)"},
		{`begin { if (strncmp(comm, "ba") == 0) { } }`, "strncmp(string, string, length), which is 0 for equal strings"},
		{`begin { printf("%.2f", pid); }`, "BPF has no floating-point numbers: print the parts, as in %d.%02d with x / 100 and x % 100"},
		{`interval:1 { }`, "for one second write interval:s:1 or interval:1s; the units are hz, us, ms and s"},
		{`profile:hz:99hz { }`, "for a rate write profile:hz:99, for a period profile:10ms or profile:ms:10"},
	} {
		_, l := checkText(test.script)
		var hints []string
		for _, d := range l.Sorted() {
			hints = append(hints, d.Hints...)
		}
		if !slices.Contains(hints, test.hint) {
			t.Errorf("%s: hints %q, want %q", test.script, hints, test.hint)
		}
	}
}

// TestNoFollowingErrors checks that a consequence of an error is not reported as a second one.
func TestNoFollowingErrors(t *testing.T) {
	for _, script := range []string{
		`begin { @x = kstack(perf, 5, 6); }`,
		`begin { @x[1] = count(); print(@x, 5, 10, 3); }`,
		`begin { @x = 1; clear(@x, 2); }`,
		`begin { print(nsecs(boot, tai)); }`,
		`begin { $x = nosuch; if ($x == "a") { print($x); } }`,
	} {
		if _, l := checkText(script); l.Len() != 1 {
			t.Errorf("%s: want one message, got:\n%v", script, l.Err())
		}
	}
}
