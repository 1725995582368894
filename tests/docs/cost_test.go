// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The limits stated in README.md. Times are measured by tests/bench.
const (
	maxLoader   = 6_550_000 // size of btrun, stripped, in bytes
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
