// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"btc/loader/perfring"
)

// TestWatch checks that the code of a process that exited before it was looked up is known, also for a
// forked child that did not execute a program.
func TestWatch(t *testing.T) {
	w, err := NewWatch([]int{0})
	if err != nil {
		t.Skip("skipped: cannot watch all processes: ", err)
	}
	w.Close()
	w.Close()
	var cpus []int
	for cpu := range runtime.NumCPU() {
		cpus = append(cpus, cpu)
	}
	if w, err = NewWatch(cpus); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	// A shell with a child that shares its memory.
	cmd := exec.Command("sh", "-c", "(:); grep ' r-xp .*/[^/]*sh$' /proc/$$/maps; true")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	m, ok := parseMapping(strings.TrimSpace(string(out)))
	if !ok {
		t.Skipf("skipped: cannot find the address of the shell: %q", out)
	}
	tab := New(true)
	tab.Watch = w
	pid := uint32(cmd.Process.Pid)
	if got := tab.find(m.start+8, pid); got == nil || got.path != m.path || got.off != m.off || got.file != m.file {
		t.Errorf("shell: mapping %+v, want %+v", got, m)
	}
	var child uint32
	for p := range w.procs {
		if w.procs[p].parent == pid && len(w.procs[p].maps) == 0 {
			child = p
		}
	}
	if child == 0 {
		t.Fatal("child of the shell not seen")
	}
	if got := tab.find(m.start+8, child); got == nil || got.path != m.path {
		t.Errorf("child: mapping %+v, want %+v", got, m)
	}
	if got := tab.find(8, pid); got != nil {
		t.Errorf("unmapped address found in %+v", got)
	}
}

// TestWatchedIsKept checks that data about an exited process is kept as long as a map refers to it.
func TestWatchedIsKept(t *testing.T) {
	const parent, child = 1<<23 + 1, 1<<23 + 2 // above the largest process ID
	tab := New(true)
	tab.Watch = &Watch{procs: map[uint32]*watched{}}
	tab.Referenced = func(add func(uint32)) { add(child) }
	tab.Watch.begin(parent, &watched{maps: []mapping{
		{start: 0x5000, end: 0x6000, path: "/late"}, {start: 0x1000, end: 0x3000, path: "/old"}, {start: 0x2000, end: 0x4000, path: "/new"},
	}})
	tab.Watch.begin(child, &watched{parent: parent, maps: []mapping{{start: 0x7000, end: 0x8000, path: "/own"}}})
	tab.Snapshot(child)
	for i := range uint32(3 * maxWatched) {
		tab.Watch.begin(1<<24+i, &watched{})
		tab.Snapshot(1<<24 + i)
	}
	if tab.Watch.procs[parent] != nil || len(tab.procs) > minProcs {
		t.Fatalf("%d processes", len(tab.procs))
	}
	for addr, want := range map[uint64]string{0x7001: "/own", 0x2001: "/new", 0x5001: "/late", 0x9000: ""} {
		got := ""
		if m := tab.find(addr, child); m != nil {
			got = m.path
		}
		if got != want {
			t.Errorf("name of %#x = %q, want %q", addr, got, want)
		}
	}
}

// TestWatchBounds checks that the amount of kept data is limited.
func TestWatchBounds(t *testing.T) {
	w := &Watch{procs: map[uint32]*watched{}}
	for pid := range uint32(3 * maxWatched) {
		w.begin(pid+1, &watched{parent: pid})
		w.begin(pid+1, &watched{parent: pid})
	}
	if len(w.procs) != maxWatched || len(w.order) != maxWatched {
		t.Errorf("%d processes in a list of %d", len(w.procs), len(w.order))
	}
	if m, by := w.find(1, 3*maxWatched); m != nil || by != 0 {
		t.Errorf("mapping %v of process %d", m, by)
	}
	for _, r := range []perfring.Record{{Kind: 10}, {Kind: 7}, {Kind: 3, Misc: 1 << 13}, {Kind: 10, Body: make([]byte, 64)}} {
		w.apply(&record{Record: r}) // too short, or of an unknown type
	}
}

// TestWatchWakes checks that a buffer that fills up wakes its reader without polling.
func TestWatchWakes(t *testing.T) {
	w, err := NewWatch([]int{0})
	if err != nil {
		t.Skip("skipped: ", err)
	}
	defer w.Close()
	var cpus unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cpus); err != nil || !cpus.IsSet(0) {
		t.Skip("skipped: no processes on CPU 0: ", err)
	}
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	readable := func() bool {
		poll := []unix.PollFd{{Fd: int32(w.FDs()[0]), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 0)
		return err == nil && n == 1
	}
	if readable() {
		t.Error("readable from the start")
	}
	for range 1000 {
		if err := exec.Command(taskset, "-c", "0", "true").Run(); err != nil {
			t.Fatal(err)
		}
		if readable() {
			return
		}
	}
	t.Error("no wake-up after a thousand processes")
}
