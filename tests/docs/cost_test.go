// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// The limits stated in README.md. Times are measured by tests/bench.
const (
	maxLoader   = 7_316_000 // size of btrun, stripped, in bytes; 7,220,000, a page for the tools by name, two for the counters of --why, five for its causes, six for conditions, two for --buckets and eight for keys and rates of the live view
	maxResident = 12 << 10  // memory of btrun while tracing, in KiB
)

// oneLiner uses the most common features; its filter keeps other processes out.
const oneLiner = `tracepoint:syscalls:sys_enter_openat /pid == $1/ { @[comm] = count(); }`

// TestLoaderSize checks the size of btrun.
func TestLoaderSize(t *testing.T) {
	fi, err := os.Stat(filepath.Join(programs, "btrun"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("btrun: %.1f MB", float64(fi.Size())/1e6)
	if fi.Size() > maxLoader {
		t.Errorf("btrun is %d bytes (max %d)", fi.Size(), maxLoader)
	}
}

// TestLoaderMemory checks the resident memory of btrun with a one-liner.
func TestLoaderMemory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	object := filepath.Join(t.TempDir(), "x.o")
	if out, err := exec.Command(programs+"/btc", "compile", "-e", oneLiner, "-o", object).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	resident := 0
	for range 3 {
		resident = max(resident, residentAttached(t, programs+"/btrun", object, "1"))
	}
	t.Logf("btrun: peak of %.1f MB resident", float64(resident)*1024/1e6)
	if resident > maxResident {
		t.Errorf("btrun: %d KiB resident (max %d)", resident, maxResident)
	}
}

// residentAttached starts btrun, waits for "Attached", reads its peak memory in KiB, and stops it.
func residentAttached(t *testing.T, args ...string) int {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(stderr)
	line, _ := r.ReadString('\n')
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
	kib, _ := strconv.Atoi(strings.Fields(peak)[0])
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return kib
}

// TestStartLimits checks that small limits of memory and threads, with which Go programs do not start, are one line each
// and not the stacks of the runtime's threads, and that programs start with what docs/security.md says they need.
func TestStartLimits(t *testing.T) {
	if runtime.GOOS+"/"+runtime.GOARCH != "linux/amd64" {
		t.Skip("skipped: the entry point that reads the limits is for linux/amd64")
	}
	_, err := exec.LookPath("setpriv")
	if _, err2 := exec.LookPath("prlimit"); err != nil || err2 != nil || os.Geteuid() != 0 {
		t.Skip("skipped: not root, or no setpriv and prlimit")
	}
	for _, c := range []struct{ limit, want string }{
		{"--as=100000000", "the address space is limited to less than 1.5 GiB (ulimit -v)"},
		{"--as=650000000", "the address space is limited to less than 1.5 GiB (ulimit -v)"},
		{"--as=1200000000", "the address space is limited to less than 1.5 GiB (ulimit -v)"},
		{"--as=1610612736", ""},
		{"--data=100000000", "the memory for data is limited to less than 256 MiB (ulimit -d)"},
		{"--data=268435456", ""},
		{"--nproc=2", "processes and threads of this user are limited to less than 16 (ulimit -u)"},
		{"--nproc=16", ""}, {"--nofile=16", ""}, {"--memlock=0", ""}, {"--fsize=0", ""}, {"--stack=131072", ""}, {"--cpu=10", ""},
	} {
		for _, program := range [][]string{{programs + "/btrun", "--version"}, {programs + "/btc", "version"}} {
			// The user of the limit of processes has no other process.
			out, err := exec.Command("setpriv", append([]string{"--reuid", "1879048001", "--regid", "1879048001", "--clear-groups",
				"prlimit", c.limit}, program...)...).CombinedOutput()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(string(out), c.want)) ||
				strings.Count(string(out), "\n") > 3 || strings.Contains(string(out), "goroutine") {
				t.Errorf("%s %s: %v\n%.300s", c.limit, program, err, out)
			}
		}
	}
}
