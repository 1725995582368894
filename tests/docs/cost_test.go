package docs

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The limits that README.md names.
const (
	maxCompile  = 50 * time.Millisecond  // whole process
	maxAttached = 100 * time.Millisecond // from start to "Attached"
	maxLoader   = 6 << 20                // bytes of btrun, stripped
	maxResident = 12 << 10               // KiB of btrun, tracing
)

// oneLiner touches the usual parts; the filter keeps it off the machine's work.
const oneLiner = `tracepoint:syscalls:sys_enter_openat /pid == $1/ { @[comm] = count(); }`

// summary sorts. The least is held against a limit, because on a busy machine
// all else is about the machine.
func summary(all []time.Duration) (least, median time.Duration) {
	slices.Sort(all)
	return all[0], all[len(all)/2]
}

// TestCompileTime times the whole process, for README.md's first number.
func TestCompileTime(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"send-hist", "opensnoop", "off-cpu-waker", "tcp-connections"} {
		var all []time.Duration
		for range 15 {
			start := time.Now()
			if out, err := exec.Command(programs+"/btc", "compile", "../../examples/"+name+".bt", "-o", dir+"/x.o").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			all = append(all, time.Since(start))
		}
		least, median := summary(all)
		t.Logf("btc compile %s: %.1f ms (median of %d)", name, median.Seconds()*1e3, len(all))
		if least > maxCompile {
			t.Errorf("btc compile %s takes %v, and the limit is %v", name, least, maxCompile)
		}
	}
}

// TestLoaderSize holds the size of btrun.
func TestLoaderSize(t *testing.T) {
	fi, err := os.Stat(filepath.Join(programs, "btrun"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("btrun: %.1f MB", float64(fi.Size())/1e6)
	if fi.Size() > maxLoader {
		t.Errorf("btrun has %d bytes, and the limit is %d", fi.Size(), maxLoader)
	}
}

// TestLoaderStart measures the loader with a one-liner: time from start to
// attached, and memory.
func TestLoaderStart(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	object := filepath.Join(t.TempDir(), "x.o")
	if out, err := exec.Command(programs+"/btc", "compile", "-e", oneLiner, "-o", object).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var times []time.Duration
	resident := 0
	for range 9 {
		took, kib := startLoader(t, programs+"/btrun", object, "1")
		times, resident = append(times, took), max(resident, kib)
	}
	least, median := summary(times)
	t.Logf("btrun: %.1f ms from start to attached (median of %d), at most %.1f MB resident", median.Seconds()*1e3, len(times), float64(resident)*1024/1e6)
	if least > maxAttached {
		t.Errorf("btrun takes %v until attached, and the limit is %v", least, maxAttached)
	}
	if resident > maxResident {
		t.Errorf("btrun has %d KiB resident, and the limit is %d", resident, maxResident)
	}
}

// startLoader starts btrun, waits for "Attached", reads its peak of memory, and
// ends it.
func startLoader(t *testing.T, args ...string) (took time.Duration, kib int) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(stderr)
	line, _ := r.ReadString('\n')
	took = time.Since(start)
	if !strings.HasPrefix(line, "Attached") {
		rest, _ := io.ReadAll(r)
		cmd.Process.Kill()
		t.Fatalf("btrun: %s%s", line, rest)
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	kib, _ = strconv.Atoi(strings.Fields(peak)[0])
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return took, kib
}
