// SPDX-License-Identifier: Apache-2.0

// Package attach tests the whole program on this machine's kernel: how long attaching takes, what
// it leaves behind, and the privileges that it needs. It needs root; tests of features that this
// kernel lacks are skipped.
package attach

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	loader "btc/loader/object"
)

var cycles = flag.Int("cycles", 100, "how often TestNothingIsLeft attaches and detaches")

// binaries are the two programs, built once.
var binaries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "attach")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // accessible to unprivileged users
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", dir, "btc/cmd/btc", "btc/cmd/btrun")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	flag.Parse()
	status := m.Run()
	if dir, err := binaries(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(status)
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
}

func program(t *testing.T, name string) string {
	t.Helper()
	dir, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// compile compiles a script and returns the path of the object, in a world-readable directory.
func compile(t *testing.T, script string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "attach")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	object := filepath.Join(dir, "x.o")
	if out, err := exec.Command(program(t, "btc"), "compile", "-e", script, "-o", object).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return object
}

// tracing is a running btrun that has attached.
type tracing struct {
	cmd    *exec.Cmd
	stdout output
}

// trace starts btrun and waits until it has attached.
func trace(t *testing.T, args ...string) *tracing {
	t.Helper()
	r := &tracing{cmd: exec.Command(program(t, "btrun"), args...)}
	r.cmd.Stdout = &r.stdout
	pipe, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var text []byte
	b := make([]byte, 4096)
	for !bytes.Contains(text, []byte("Attached ")) {
		n, err := pipe.Read(b)
		text = append(text, b[:n]...)
		if err != nil {
			r.cmd.Wait()
			t.Fatalf("btrun %v: exited before it was attached: %s", args, text)
		}
	}
	go io.Copy(io.Discard, pipe)
	return r
}

// perfEvents counts the perf events of the process. Closing one waits for an RCU grace period, some
// 25 to 45 ms; links of raw tracepoints are closed at once.
func (r *tracing) perfEvents(t *testing.T) int {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd/", r.cmd.Process.Pid)
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, fd := range all {
		if what, _ := os.Readlink(dir + fd.Name()); what == "anon_inode:[perf_event]" {
			n++
		}
	}
	return n
}

// stop ends the run and returns its output.
func (r *tracing) stop(t *testing.T) string {
	t.Helper()
	if err := r.cmd.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return r.stdout.String()
}

// TestManySyscallsAreCheap checks that hundreds of system calls are traced with a few raw tracepoints,
// which attach and detach instantly, rather than with a perf event each.
func TestManySyscallsAreCheap(t *testing.T) {
	needRoot(t)
	needTracepoints(t, "syscalls")
	for _, script := range []string{
		`tracepoint:syscalls:sys_enter_* { @[probe] = count(); }`,
		`tracepoint:syscalls:sys_exit_* { @[probe] = sum(args.ret); }`,
		`tracepoint:syscalls:sys_* { @[comm] = count(); }`,
	} {
		r := trace(t, compile(t, script))
		if n := r.perfEvents(t); n != 0 {
			t.Errorf("%s: %d perf events", script, n)
		}
		out := r.stop(t)
		if !strings.Contains(out, "@[") {
			t.Errorf("%s: no system calls counted", script)
		}
	}
}

// mapsNamed counts the maps in the kernel that have a name. Programs hold their maps, and links hold
// their programs. Objects of other tests come and go meanwhile.
func mapsNamed(t *testing.T, name string) int {
	t.Helper()
	n := 0
	for id := ebpf.MapID(0); ; {
		next, err := ebpf.MapGetNextID(id)
		if errors.Is(err, unix.ENOENT) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		id = next
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			continue // it is gone
		}
		if info, err := m.Info(); err == nil && info.Name == name {
			n++
		}
		m.Close()
	}
}

// TestNothingIsLeft checks that many runs that end in different ways leave no program, map, link or
// event in the kernel.
func TestNothingIsLeft(t *testing.T) {
	needRoot(t)
	object := compile(t, `config = { missing_probes = "ignore" }
begin { @x = 1; printf("begun\n"); }
tracepoint:syscalls:sys_enter_* { @[probe] = count(); }
tracepoint:syscalls:sys_enter_getpriority { @p = count(); }
uprobe:/bin/sh:_start* { @u = count(); }
software:faults:100 { @f = count(); }
interval:ms:1 /$1 == 0/ { exit(); }
end { @y = 1; }`)
	o, err := loader.Read(object)
	if err != nil {
		t.Fatal(err)
	}
	name := o.Manifest.MapSymbol("events") // ends with a hash of the script
	r := trace(t, object, "1")
	if mapsNamed(t, name) == 0 {
		t.Fatalf("a run has no map %s", name)
	}
	r.stop(t)
	broken := compile(t, `tracepoint:syscalls:sys_enter_openat { @ = count(); } tracepoint:no:such { @ = count(); }`)
	for i := range *cycles {
		var out []byte
		var err error
		switch i % 10 {
		case 7: // attach, then exit
			out, err = exec.Command(program(t, "btrun"), "--dry-run", object).CombinedOutput()
		case 8: // killed
			cmd := exec.Command(program(t, "btrun"), "-q", object)
			if err = cmd.Start(); err == nil {
				time.Sleep(time.Duration(i%50) * time.Millisecond)
				cmd.Process.Kill()
				cmd.Wait()
			}
		case 9: // rejected
			if out, err = exec.Command(program(t, "btrun"), broken).CombinedOutput(); err == nil {
				err = errors.New("nonexistent tracepoint accepted")
			} else {
				err = nil
			}
		default:
			out, err = exec.Command(program(t, "btrun"), "-q", object).CombinedOutput()
		}
		if err != nil {
			t.Fatalf("run %d: %v\n%s", i, err, out)
		}
	}
	// The kernel frees objects in the background.
	left := 0
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if left = mapsNamed(t, name); left == 0 {
			return
		}
	}
	t.Errorf("%d maps left after %d runs", left, *cycles)
}
