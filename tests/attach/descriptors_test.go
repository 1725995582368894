// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"btc/btrace"
)

// counts returns the open descriptors of this process by what they refer to, and the number of goroutines. The process
// that opens files of servers (internal/safefile) is started when a path first needs it, which another program's mounts
// decide, and lives on: its two descriptors are counted from the start.
func counts(t *testing.T) (descriptors map[string]int, goroutines int) {
	t.Helper()
	runtime.GC() // run finalizers, so that descriptors closed by them are not counted
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	descriptors = map[string]int{}
	for _, fd := range all {
		to, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err != nil { // the one of ReadDir
			continue
		}
		kind, _, _ := strings.Cut(to, ":[")
		if to == "anon_inode:[pidfd]" {
			kind = to
		}
		descriptors[kind]++
	}
	for _, helper := range []string{"socket", "anon_inode:[pidfd]"} {
		descriptors[helper] = max(descriptors[helper], 1)
	}
	return descriptors, runtime.NumGoroutine()
}

// notAbove reports whether the counts of no kind have grown.
func notAbove(now, before map[string]int) bool {
	for kind, n := range now {
		if n > before[kind] {
			return false
		}
	}
	return true
}

// TestRunsKeepNoDescriptor checks that a process that runs objects again and again leaks neither
// descriptors nor goroutines, however the runs end.
func TestRunsKeepNoDescriptor(t *testing.T) {
	needRoot(t)
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		t.Skip("skipped: no kernel types: ", err)
	}
	good := []string{
		`begin { @x = 1; } software:faults:100 { @f = count(); } interval:ms:1 { exit(); } end { @y = 1; }`,
		`tracepoint:sched:sched_switch { @[args.prev_comm] = count(); } tracepoint:sched:* { @p[probe] = count(); } interval:ms:1 { exit(); }`,
		`rawtracepoint:sched_switch { @ = args.prev.pid; } interval:ms:1 { exit(); }`,
		`uprobe:libc:getp* { @u = count(); } uprobe:libc:getpriority { @m = count(); } profile:hz:99 { @[kstack, ustack] = count(); } interval:ms:1 { exit(); }`,
		`iter:task { printf("%d %s\n", ctx.task.pid, ctx.task.comm); }`,
		`begin { printf("%s %s %s\n", ksym(kaddr("schedule")), cgroup_path(cgroup), strftime("%H", nsecs)); exit(); }`,
	}
	bad := []string{
		`tracepoint:syscalls:sys_enter_openat { @ = count(); } tracepoint:no:such { @ = count(); }`,
		`interval:ms:1 { @x = 1; } uprobe:/no/such/file:main { @ = count(); }`,
	}
	type job struct {
		path string
		opts btrace.Options
		ok   bool
	}
	var jobs []job
	for i, script := range append(good, bad...) {
		j := job{path: compile(t, script), ok: i < len(good)}
		jobs = append(jobs, j)
		if i == 0 {
			j.opts.DryRun = true
			jobs = append(jobs, j)
		}
	}
	once := func() {
		for _, j := range jobs {
			if err := runObject(t, j.path, j.opts); (err == nil) != j.ok {
				t.Fatalf("%s: %v", j.path, err)
			}
		}
	}
	once() // opens what the runtime and the library keep open
	descriptors, goroutines := counts(t)
	for range max(*cycles/20, 3) {
		once()
	}
	var have map[string]int
	var running int
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if have, running = counts(t); notAbove(have, descriptors) && running <= goroutines {
			return
		}
	}
	t.Errorf("descriptors %v after one round, %v after %d; %d goroutines, then %d", descriptors, have, max(*cycles/20, 3), goroutines, running)
}

// runObject runs an object until its script ends it.
func runObject(t *testing.T, path string, opts btrace.Options) error {
	t.Helper()
	o, err := btrace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := btrace.LoadReport(t.Context(), o, opts, &btrace.Report{Buffer: "full"})
	if err != nil || opts.DryRun {
		if err == nil {
			err = s.Close()
		}
		return err
	}
	defer s.Close()
	if err := s.Attach(t.Context()); err != nil {
		return err
	}
	_, err = s.Wait()
	return err
}
