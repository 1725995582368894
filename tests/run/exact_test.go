// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// exactScript counts one system call in every way that must be exact. Raw tracepoints and the profile
// probe interrupt each other, and so do the events of timers, softirqs and the scheduler. A counter
// shared by several programs is compared with the sum of the counters that each program has for itself.
const exactScript = `
tracepoint:syscalls:sys_enter_getpgid /pid == $1/ {
	@plain++; @keyed[7]++; @added += 2; @less--; @less_keyed[7] -= 3;
	@count = count(); @count_keyed[7] = count(); @many[args.pid & 255] = count(); @many_plain[args.pid & 255]++;
	@sum = sum(3); @sum_keyed[7] = sum(3); @avg = avg(6); @avg_keyed[7] = avg(6);
	@stats = stats(5); @stats_keyed[7] = stats(5); @hist = hist(4); @hist_keyed[7] = hist(4);
	@lhist = lhist(4, 0, 10, 1); @lhist_keyed[7] = lhist(4, 0, 10, 1);
}
tracepoint:syscalls:sys_enter_get*gid /pid == $1/ { @pattern = count(); @pattern_keyed[pid] = sum(1); }
rawtracepoint:sys_enter /pid == $1/ { @all = count(); @entered++; }
rawtracepoint:sys_exit /pid == $1/ { @all = count(); @left++; }
profile:hz:4999 { @all = count(); @ticks++; }
tracepoint:timer:hrtimer_expire_entry { @nested = count(); @nested_keyed[1] = sum(1); @part1++; }
tracepoint:irq:softirq_entry { @nested = count(); @nested_keyed[1] = sum(1); @part2++; }
tracepoint:irq:softirq_raise { @nested = count(); @nested_keyed[1] = sum(1); @part3++; }
tracepoint:sched:sched_switch { @nested = count(); @nested_keyed[1] = sum(1); @part4++; }
tracepoint:sched:sched_waking { @nested = count(); @nested_keyed[1] = sum(1); @part5++; }
end {
	printf("parts of all %d\n", (int64)@entered + (int64)@left + (int64)@ticks);
	printf("parts of nested %d\n", (int64)@part1 + (int64)@part2 + (int64)@part3 + (int64)@part4 + (int64)@part5);
}
`

// TestExact triggers the same events on all CPUs at once and checks that every count is exact: no
// update may be lost to another CPU or to an interrupt.
func TestExact(t *testing.T) {
	const each = 100_000
	threads := 2 * runtime.NumCPU()
	text := traced(t, exactScript, func() {
		onThreads(threads, func() {
			for i := range each {
				unix.RawSyscall(unix.SYS_GETPGID, uintptr(1<<22+i&255), 0, 0)
				unix.RawSyscall(unix.SYS_GETEGID, 0, 0, 0)
			}
		})
	}, fmt.Sprint(os.Getpid()))
	n := threads * each
	wantAll(t, text,
		fmt.Sprintf("@plain: %d\n", n), fmt.Sprintf("@keyed[7]: %d\n", n), fmt.Sprintf("@added: %d\n", 2*n),
		fmt.Sprintf("@less: %d\n", -n), fmt.Sprintf("@less_keyed[7]: %d\n", -3*n),
		fmt.Sprintf("@count: %d\n", n), fmt.Sprintf("@count_keyed[7]: %d\n", n),
		fmt.Sprintf("@sum: %d\n", 3*n), fmt.Sprintf("@sum_keyed[7]: %d\n", 3*n),
		"@avg: 6\n", "@avg_keyed[7]: 6\n",
		fmt.Sprintf("@stats: { .count = %d, .average = 5, .total = %d }\n", n, 5*n),
		fmt.Sprintf("@stats_keyed[7]: { .count = %d, .average = 5, .total = %d }\n", n, 5*n),
		fmt.Sprintf("@hist:\n[4, 8) %17d |", n), fmt.Sprintf("@hist_keyed[7]:\n[4, 8) %17d |", n),
		fmt.Sprintf("@lhist:\n[4] %20d |", n), fmt.Sprintf("@lhist_keyed[7]:\n[4] %20d |", n),
	)
	// These maps have more keys than a per-CPU cache in front of a hash has slots.
	for _, name := range []string{"@many", "@many_plain"} {
		if keys, total := elements(text, name); keys != 256 || total != n {
			t.Errorf("%s: %d keys, sum %d, want 256 and %d", name, keys, total, n)
		}
	}
	// The pattern matches at least these two system calls, and the Go runtime calls neither.
	if _, total := elements(text, "@pattern_keyed"); total != 2*n || number(text, "@pattern: ") != 2*n {
		t.Errorf("programs of the pattern counted %d and %d, want %d", total, number(text, "@pattern: "), 2*n)
	}
	if all, parts := number(text, "@all: "), number(text, "parts of all "); all == 0 || all != parts {
		t.Errorf("@all = %d, want %d, the sum of its parts", all, parts)
	}
	nested, keyed, parts := number(text, "@nested: "), number(text, "@nested_keyed[1]: "), number(text, "parts of nested ")
	if nested == 0 || nested != parts || keyed != parts {
		t.Errorf("@nested = %d, @nested_keyed = %d, want %d, the sum of their parts", nested, keyed, parts)
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestExactUprobes does the same for uprobes, which are preemptible, so that a program of another type
// may run in the middle of one.
func TestExactUprobes(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const each = 4_000
	threads := 2 * runtime.NumCPU()
	script := fmt.Sprintf(`
uprobe:%[1]s:%#[2]x { @both = count(); @plain++; @keyed[1] = sum(2); @hist[1] = hist(4); @stats[1] = stats(5); }
uprobe:%[1]s:%#[3]x { @both = count(); @plain++; @keyed[1] = sum(2); @hist[1] = hist(4); @stats[1] = stats(5); }
tracepoint:syscalls:sys_enter_getpgid /pid == $1/ { @both = count(); @plain++; @keyed[1] = sum(2); @hist[1] = hist(4); @stats[1] = stats(5); }
`, self, reflect.ValueOf(pointA).Pointer(), reflect.ValueOf(pointB).Pointer())
	text := traced(t, script, func() {
		onThreads(threads, func() {
			for range each {
				pointA()
				pointB()
				unix.RawSyscall(unix.SYS_GETPGID, 0, 0, 0)
			}
		})
	}, fmt.Sprint(os.Getpid()))
	n := 3 * threads * each
	wantAll(t, text, fmt.Sprintf("@both: %d\n", n), fmt.Sprintf("@plain: %d\n", n), fmt.Sprintf("@keyed[1]: %d\n", 2*n),
		fmt.Sprintf("@hist[1]:\n[4, 8) %17d |", n), fmt.Sprintf("@stats[1]: { .count = %d, .average = 5, .total = %d }\n", n, 5*n))
}

// Uprobes are attached to these functions.

//go:noinline
func pointA() { reached.a++ }

//go:noinline
func pointB() { reached.b++ }

var reached struct{ a, b int }

// TestExactClear clears maps while all CPUs count in them. The sum of all printed values must be the
// number of events, except for the loss that docs/layouts.md allows: one update per CPU and clear. Maps
// without keys must lose nothing.
func TestExactClear(t *testing.T) {
	const each = 100_000
	threads := 2 * runtime.NumCPU()
	text := traced(t, `
tracepoint:syscalls:sys_enter_getpgid /pid == $1/ { @scalar = count(); @keyed[7] = count(); @plain[7]++; }
interval:ms:10 { print(@scalar); clear(@scalar); print(@keyed); clear(@keyed); print(@plain); clear(@plain); }
`, func() {
		onThreads(threads, func() {
			for i := range each {
				unix.RawSyscall(unix.SYS_GETPGID, 0, 0, 0)
				if i%(each/10) == 0 {
					time.Sleep(15 * time.Millisecond) // time for some clears, however fast the CPU is
				}
			}
		})
	}, fmt.Sprint(os.Getpid()))
	n := threads * each
	for _, c := range []struct {
		name  string
		loses int // maximum per CPU and clear
	}{{"@scalar: ", 0}, {"@keyed[7]: ", 1}, {"@plain[7]: ", 1}} {
		times, total := printed(text, c.name)
		if times < 2 {
			t.Errorf("%s was printed only %d times", c.name, times)
		}
		if total > n || total < n-c.loses*times*runtime.NumCPU() {
			t.Errorf("%s sum %d of %d prints, want %d", c.name, total, times, n)
		}
		t.Logf("%s lost %d in %d clears", c.name, n-total, times)
	}
}

// onThreads runs f on n threads at once.
func onThreads(n int, f func()) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			runtime.LockOSThread()
			f()
		})
	}
	wg.Wait()
}

// traced compiles a script, traces with it while work runs, and returns the whole output.
func traced(t *testing.T, text string, work func(), params ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	dir := t.TempDir()
	for _, p := range []string{"btc", "btrun"} {
		if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, p), "../../cmd/"+p).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	script, object := filepath.Join(dir, "exact.bt"), filepath.Join(dir, "exact.o")
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(dir, "btc"), "compile", script, "-o", object).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// This program has no symbols, so nothing proves where its instructions begin.
	cmd := exec.Command(filepath.Join(dir, "btrun"), append([]string{"--allow", "probe-address", object}, params...)...)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, attached := bufio.NewReader(stderr), false
	for read := ""; !attached; {
		line, err := lines.ReadString('\n')
		read += line
		if attached = strings.HasPrefix(line, "Attached"); !attached && err != nil {
			cmd.Process.Kill()
			t.Fatalf("btrun: %s", read)
		}
	}
	work()
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return stdout.String()
}

func wantAll(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the output", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// number returns the number after a prefix at the start of a line.
func number(text, prefix string) int {
	_, n := printed(text, prefix)
	return n
}

// printed counts the lines that begin with prefix and adds up the numbers after it.
func printed(text, prefix string) (times, total int) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			n, err := strconv.Atoi(strings.TrimSpace(rest))
			if err == nil {
				times, total = times+1, total+n
			}
		}
	}
	return times, total
}

// elements counts the elements of a map and adds up their values.
func elements(text, name string) (keys, total int) {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, "]: "); ok && strings.HasPrefix(key, name+"[") {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err == nil {
				keys, total = keys+1, total+n
			}
		}
	}
	return keys, total
}
