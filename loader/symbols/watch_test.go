// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"encoding/binary"
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

// TestExec checks that the stacks that a process had before it executed another program are named by the old program, and
// those of the new one by the new one, even where both have code at the same addresses; and so for a process that has exited.
func TestExec(t *testing.T) {
	at := func(path string, starts ...uint64) (maps []mapping) {
		for i, start := range starts {
			maps = append(maps, mapping{start: start, end: start + 0x1000, path: path, file: fileID{dev: uint64(len(path)), ino: uint64(i)}})
		}
		return maps
	}
	const pid, parent = 1<<23 + 1, 1<<23 + 2 // above the largest process ID
	w := &Watch{procs: map[uint32]*watched{}}
	exec := func() {
		body := make([]byte, 16)
		binary.NativeEndian.PutUint32(body, pid)
		w.apply(&record{Record: perfring.Record{Kind: unix.PERF_RECORD_COMM, Misc: 1 << 13, Body: body}})
	}
	old, latest := at("/old", 0x400000, 0x7000000), at("/latest", 0x400000, 0x8000000)
	w.begin(parent, &watched{maps: at("/parent", 0x9000000)})
	w.begin(pid, &watched{parent: parent})
	exec()
	maps := func(maps []mapping) {
		w.procs[pid].maps = maps
		w.bytes += mappingBytes(maps)
	}
	maps(old)
	tab := New(true)
	tab.Watch = w
	names := func(addrs ...uint64) (names string) {
		for _, f := range tab.Ustack(addrs, "", pid) {
			names += f.File
		}
		return names
	}
	check := func(when string) {
		t.Helper()
		for range 2 {
			for _, x := range []struct {
				want  string
				addrs []uint64
			}{
				{"/old/old", []uint64{0x400001, 0x7000001}}, {"/latest/latest", []uint64{0x400001, 0x8000001}},
				{"/latest", []uint64{0x400001}}, {"/old", []uint64{0x7000001}}, {"/parent", []uint64{0x9000001}},
			} {
				if got := names(x.addrs...); got != x.want {
					t.Errorf("%s: %#x is in %s, want %s", when, x.addrs, got, x.want)
				}
			}
		}
	}
	tab.Snapshot(pid)
	if got := names(0x400001); got != "/old" {
		t.Errorf("before: %s", got)
	}
	exec()
	maps(latest)
	check("seen before")
	tab = New(true)
	tab.Watch = w
	tab.Snapshot(pid)
	check("seen after it had exited")

	// Processes that execute programs again and again.
	for i := range uint64(100) {
		exec()
		maps(at("/again", 0x10000*i))
		tab.renew(pid)
	}
	bytes := 0
	for _, p := range w.procs {
		bytes += p.bytes()
	}
	if w.bytes != bytes {
		t.Errorf("%d bytes of mappings, but counted %d", bytes, w.bytes)
	}
	if p := tab.procs[pid]; len(p.earlier) != maxEarlier || len(w.programs(pid)) != maxEarlier+1 {
		t.Errorf("%d and %d earlier programs", len(p.earlier), len(w.programs(pid)))
	}
	if got := names(0x10000*99 + 1); got != "/again" {
		t.Errorf("the last of many: %s", got)
	}
	if tab.mapBytes != tab.procs[pid].bytes+tab.procs[parent].bytes {
		t.Errorf("%d bytes counted", tab.mapBytes)
	}
	tab.mapBytes += maxMapBytes
	tab.note(pid, at("/more", 0x100000), 0, 1000)
	if p := tab.procs[pid]; len(p.earlier) > 0 || p.bytes != mappingBytes(p.maps) {
		t.Errorf("%d earlier programs without room", len(p.earlier))
	}
}
