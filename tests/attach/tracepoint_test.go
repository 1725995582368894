// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"btc/internal/kernelfs"
)

func needTracepoints(t *testing.T, groups ...string) {
	t.Helper()
	needRoot(t)
	dir := tracefs(t)
	for _, g := range groups {
		if _, err := os.Stat(dir + "/events/" + g); err != nil {
			t.Skip("skipped: no tracepoints in this kernel: ", g)
		}
	}
}

// tracefs returns the mount point of tracefs. It skips the test if tracefs is not accessible.
func tracefs(t *testing.T) string {
	t.Helper()
	dir, err := kernelfs.Tracefs()
	if err != nil {
		t.Skip("skipped: ", err)
	}
	return dir
}

// kernelBefore reports whether this kernel is older than the given version.
func kernelBefore(major, minor int) bool {
	var u unix.Utsname
	var a, b int
	if unix.Uname(&u) != nil {
		return true
	}
	fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b)
	return a < major || a == major && b < minor
}

// TestManyTracepointsEndAtOnce checks that tracepoints whose records are not read use no perf events,
// because closing each of these takes a grace period: a hundred of them took more than four seconds.
func TestManyTracepointsEndAtOnce(t *testing.T) {
	groups := []string{"block", "writeback", "vmscan", "sched", "timer", "irq", "kmem", "jbd2"}
	needTracepoints(t, groups...)
	if kernelBefore(6, 1) {
		t.Skip("skipped: raw tracepoints of this kernel can nest")
	}
	var points []string
	for _, g := range groups {
		points = append(points, "tracepoint:"+g+":*")
	}
	for _, body := range []string{"@[probe] = count();", "@[comm, cpu] = count();", `if (pid == 0) { printf("%d\n", tid); exit(); }`} {
		r := trace(t, compile(t, strings.Join(points, ",")+" { "+body+" }"))
		if n := r.perfEvents(t); n != 0 {
			t.Errorf("%s: %d perf events", body, n)
		}
		r.stop(t)
	}
}

// TestTracepointsWithAndWithoutArguments checks that the programs of one tracepoint run in the order of
// the script and see the same events, whether or not they read its record.
func TestTracepointsWithAndWithoutArguments(t *testing.T) {
	needTracepoints(t, "sched")
	const clause = "tracepoint:sched:sched_process_exec "
	for _, script := range []string{
		clause + `/comm == "COMM"/ { printf("1 %s\n", comm); @n[probe] = count(); } ` + clause + `/comm == "COMM"/ { printf("2 %s\n", comm); }`,
		clause + `/comm == "COMM"/ { printf("1 %s\n", comm); @n[probe] = count(); } ` + clause + `/comm == "COMM"/ { printf("2 %s\n", str(args.filename) != "" ? comm : "?"); }`,
		clause + `/comm == "COMM"/ { printf("1 %s\n", comm); } tracepoint:sched:*_process_exec /comm == "COMM"/ { printf("2 %s\n", comm); @n[probe] = count(); }`,
	} {
		dir := t.TempDir()
		name := "traced-here"
		b, err := os.ReadFile("/bin/true")
		if err != nil {
			t.Skip("skipped: ", err)
		}
		if err := os.WriteFile(dir+"/"+name, b, 0o755); err != nil {
			t.Fatal(err)
		}
		r := trace(t, compile(t, strings.ReplaceAll(script, "COMM", name)))
		const runs = 5
		for range runs {
			if out, err := exec.Command(dir + "/" + name).CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
		}
		out := r.stop(t)
		if want := strings.Repeat("1 "+name+"\n2 "+name+"\n", runs); !strings.HasPrefix(out, want) {
			t.Errorf("%s: output %q, want prefix %q", script, out, want)
		}
		if !strings.Contains(out, "@n[tracepoint:sched:sched_process_exec]: 5\n") {
			t.Errorf("%s: events not counted: %s", script, out)
		}
	}
}

// TestTracepointOfOwnMaking checks that an event that a user has created from a probe is not treated as
// a raw tracepoint, even if it has the name of one.
func TestTracepointOfOwnMaking(t *testing.T) {
	needTracepoints(t, "sched")
	file := tracefs(t) + "/uprobe_events"
	nm, err := exec.Command("sh", "-c", "readelf -sW /bin/bash | awk '$8 == \"main\" || $8 == \"readline\" {print $2; exit}'").Output()
	symbol := strings.TrimSpace(string(nm))
	if !regexp.MustCompile(`^[0-9a-f]{8,}$`).MatchString(symbol) {
		t.Skip("skipped: no symbol to probe: ", err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Skip("skipped: ", err)
	}
	defer f.Close()
	if _, err := f.WriteString("p:ofmine/sched_switch /bin/bash:0x" + symbol + "\n"); err != nil {
		t.Skip("skipped: ", err)
	}
	t.Cleanup(func() {
		// The event may be busy until the descriptors of the tracer are closed.
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0); err == nil {
				_, err = f.WriteString("-:ofmine/sched_switch\n")
				f.Close()
				if err == nil {
					return
				}
			}
		}
		t.Error("event cannot be removed")
	})
	out, err := exec.Command(program(t, "btrun"), compile(t, `tracepoint:ofmine:sched_switch { @[comm] = count(); exit(); }`)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "a dynamic event") {
		t.Errorf("error = %v, output %s", err, out)
	}
}

// TestExitAtFirstEvent checks that a script whose first event calls exit() stops counting at once: before btrun gives
// up its privileges, which stops all of its threads and takes milliseconds.
func TestExitAtFirstEvent(t *testing.T) {
	needTracepoints(t, "raw_syscalls")
	object := compile(t, `tracepoint:raw_syscalls:sys_enter /pid == $1/ { @n = count(); exit(); }`)
	done := make(chan struct{})
	defer close(done)
	go func() {
		runtime.LockOSThread()
		for {
			select {
			case <-done:
				return
			default:
				syscall.Getppid()
			}
		}
	}()
	var counts []int
	for range 15 {
		out, err := exec.Command(program(t, "btrun"), object, strconv.Itoa(os.Getpid())).Output()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if _, err := fmt.Sscanf(strings.TrimSpace(string(out)), "@n: %d", &n); err != nil || n == 0 {
			t.Fatalf("%v: %q", err, out)
		}
		counts = append(counts, n)
	}
	// On a busy machine some runs are slow.
	slices.Sort(counts)
	if early := counts[len(counts)/3]; early > 2000 {
		t.Errorf("events counted in each run: %d; in a third of them at most 2000 (some 2 ms) were expected", counts)
	}
	t.Log(counts)
}
