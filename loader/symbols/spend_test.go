// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAllowance(t *testing.T) {
	now := time.Now()
	var a allowance
	for i, c := range []struct {
		cost  time.Duration
		after time.Duration
		want  bool
	}{
		{0, 0, true}, {time.Second, 0, true}, {time.Second, 0, false}, {0, 0, false}, // 2 s used
		{0, regain * time.Second, true},                   // 1 s used
		{0, time.Hour, true}, {2 * time.Second, 0, false}, // not more than everything is regained
	} {
		now = now.Add(c.after)
		if got := a.add(c.cost, 2*time.Second, now); got != c.want {
			t.Errorf("%d: %v, %v used", i, got, a.used)
		}
	}
}

// TestTimeForNames checks that a process can use up only its own time, many processes together not more than that of
// one run, and that little is left once the run has ended.
func TestTimeForNames(t *testing.T) {
	ran := func(tab *Table, tgid uint32) bool { return tab.spend(tgid, func() {}) }
	start := func() (*Table, *[]string) {
		tab, said := New(true), &[]string{}
		tab.Warn = func(text string) { *said = append(*said, text) }
		for tgid := range uint32(1001) {
			tab.procs[tgid] = &process{}
		}
		return tab, said
	}
	tab, said := start()
	tab.charge(1, processTime+time.Second)
	if ran(tab, 1) || !ran(tab, 2) || len(*said) != 1 || !strings.Contains((*said)[0], "a process") {
		t.Errorf("one process used up its time: %q", *said)
	}
	tab, said = start()
	n := uint32(0)
	for ; n < 1000 && ran(tab, n); n++ {
		tab.charge(n, time.Second)
	}
	if n < 20 || n > 40 || ran(tab, 1000) || len(*said) != 1 || !strings.Contains((*said)[0], "all processes") {
		t.Errorf("%d processes used 1 s: %q", n, *said)
	}
	tab.spent.at = tab.spent.at.Add(-2 * regain * time.Second)
	if !ran(tab, 1000) {
		t.Error("nothing was regained")
	}
	tab, said = start()
	tab.charge(0, time.Second)
	tab.End()
	for n = 0; n < 1000 && ran(tab, n); n++ {
		tab.charge(n, time.Second)
	}
	if n < 5 || n > 20 || ran(tab, 1000) || len(*said) != 1 || !strings.Contains((*said)[0], "after the end of the run") {
		t.Errorf("at the end, %d processes used 1 s: %q", n, *said)
	}
	tab, _ = start()
	tab.End()
	if tab.ended = tab.ended.Add(-endWait - 1); ran(tab, 0) || !tab.overdue() {
		t.Error("names after the end have no limit in wall clock time")
	}
	if tab, _ := start(); !ran(tab, 5_000_000) || tab.overdue() { // not seen before
		t.Error("a new process has no time")
	}
}

// TestNoTimeLeft checks that addresses whose names are known keep them when no time is left, and that
// others are not looked up.
func TestNoTimeLeft(t *testing.T) {
	tab := New(true)
	defer tab.Close()
	pid := uint32(os.Getpid())
	tab.Snapshot(pid)
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var m *mapping
	for i := range tab.procs[pid].maps {
		if x := &tab.procs[pid].maps[i]; x.path == path {
			m = x
		}
	}
	if m == nil {
		t.Fatal("no mapping of the program")
	}
	name, _, _ := tab.User(m.start+0x1000, pid)
	if name == "" {
		t.Skip("skipped: no symbol at that address")
	}
	tab.charge(pid, runTime+time.Minute)
	if again, _, _ := tab.User(m.start+0x1000, pid); again != name {
		t.Errorf("got %q, want %q", again, name)
	}
	before := tab.parser.used
	clear(tab.files)
	if name, file, _ := tab.User(m.start+0x1000, pid); name != "" || file != path || len(tab.files) != 0 {
		t.Errorf("got %q of %q, %d files", name, file, len(tab.files))
	}
	tab.procs[pid].read = time.Time{}
	if name, _, _ := tab.User(8, pid); name != "" || !tab.procs[pid].read.IsZero() {
		t.Errorf("got %q, map read %v", name, tab.procs[pid].read)
	}
	if tab.show("_ZN1a1bEv"); tab.parser.used != before {
		t.Error("the parser process was used")
	}
	maps := tab.procs[pid].maps
	tab.procs[pid].maps = maps[:0]
	if tab.Snapshot(pid); len(tab.procs[pid].maps) != 0 {
		t.Error("the map was read")
	}
}

// TestUnknownPages checks that a process with many addresses in no mapping does not have its map read for each.
func TestUnknownPages(t *testing.T) {
	tab := New(true)
	defer tab.Close()
	pid := uint32(os.Getpid())
	begin := time.Now()
	for i := range uint64(5000) {
		if m := tab.find(1<<63+i<<12, pid); m != nil {
			t.Fatalf("%+v", m)
		}
	}
	if n, most := len(tab.procs[pid].missed), 1+int(time.Since(begin)/mapsPause); n < 1 || n > most {
		t.Errorf("map read %d times, want at most %d", n, most)
	}
	tab.procs[pid].read = time.Now().Add(-2 * mapsPause)
	if tab.find(1<<62, pid); !tab.procs[pid].missed[1<<62>>12] {
		t.Error("map not read after a pause")
	}
}

// TestPerfMapOwner checks who may name the functions of a process.
func TestPerfMapOwner(t *testing.T) {
	jit := owner{user: 1000, group: 1000, root: 100000}
	for _, c := range []struct {
		o        owner
		uid, gid uint32
		mode     uint32
		links    uint64
		want     bool
	}{
		{jit, 1000, 1000, 0o644, 1, true},
		{jit, 1000, 1000, 0o664, 1, true}, // umask 002
		{jit, 0, 0, 0o644, 1, true},
		{jit, 100000, 100000, 0o600, 1, true}, // root of its container
		{jit, 1000, 1000, 0o644, 0, true},     // just removed
		{jit, 1000, 1000, 0o666, 1, false},
		{jit, 1000, 27, 0o664, 1, false},
		{jit, 0, 0, 0o646, 1, false},
		{jit, 0, 27, 0o664, 1, false},
		{jit, 1001, 1000, 0o644, 1, false},
		{jit, 65534, 65534, 0o644, 1, false},
		{jit, 0, 0, 0o644, 2, false},
		{owner{}, 0, 0, 0o644, 1, true},
		{owner{}, 1000, 1000, 0o644, 1, false},
	} {
		if got := c.o.trusts(&unix.Stat_t{Uid: c.uid, Gid: c.gid, Mode: unix.S_IFREG | c.mode, Nlink: c.links}); got != c.want {
			t.Errorf("%+v", c)
		}
	}
	tab := New(true)
	pid := uint32(os.Getpid())
	tab.Snapshot(pid)
	if o := tab.ownerOf(pid); o.user != uint32(os.Geteuid()) || o.group != uint32(os.Getegid()) || o.inner != "" && o.inner == fmt.Sprint(pid) {
		t.Errorf("this process: %+v", o)
	}
	if tab.procs[pid].user != uint32(os.Geteuid()) {
		t.Errorf("snapshot of user %d", tab.procs[pid].user)
	}
	const exited = 1 << 23
	tab.procs[exited] = &process{user: 1000}
	if o := tab.ownerOf(exited); o != (owner{user: 1000}) {
		t.Errorf("exited process: %+v", o)
	}
}

// perfMapOf creates a perf map of this process.
func perfMapOf(t *testing.T) (*os.File, uint32) {
	t.Helper()
	pid := os.Getpid()
	path := fmt.Sprintf("/tmp/perf-%d.map", pid)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		t.Skip("skipped: cannot create a perf map: ", err)
	}
	t.Cleanup(func() { f.Close(); os.Remove(path) })
	return f, uint32(pid)
}

// TestForeignPerfMap checks that a perf map is not read if others can write it.
func TestForeignPerfMap(t *testing.T) {
	f, pid := perfMapOf(t)
	f.WriteString("10 8 one\n")
	tab := New(true)
	defer tab.Close()
	try := func() string {
		tab.forget(pid)
		tab.Snapshot(pid)
		name, _, _ := tab.User(0x12, pid)
		return name
	}
	if got := try(); got != "one" {
		t.Fatalf("own file: %q", got)
	}
	f.Chmod(0o606)
	if got := try(); got != "" {
		t.Errorf("writable by others: %q", got)
	}
	f.Chmod(0o600)
	link := filepath.Join("/tmp", fmt.Sprintf("perf-%d.link", pid))
	if os.Link(f.Name(), link) == nil {
		if got := try(); got != "" {
			t.Errorf("hard link: %q", got)
		}
		os.Remove(link)
	}
	if os.Geteuid() == 0 {
		f.Chown(65534, 65534)
		if got := try(); got != "" {
			t.Errorf("of another user: %q", got)
		}
		f.Chown(0, 0)
	}
	// The user changed since the file was read, as when a process executes a setuid program.
	if got := try(); got != "one" {
		t.Fatalf("own file again: %q", got)
	}
	p := tab.procs[pid]
	tab.note(pid, append([]mapping(nil), p.maps...), p.user+1, 0)
	if tab.procs[pid].perf != nil || tab.symBytes != 0 {
		t.Errorf("the functions of another user are kept, %d bytes counted", tab.symBytes)
	}
}

// TestSparsePerfMap checks files that consist of holes, with few or no functions.
func TestSparsePerfMap(t *testing.T) {
	f, pid := perfMapOf(t)
	for _, size := range []int64{1 << 50, 1 << 44, 16000 << 30, 4 << 40, 300 << 30} {
		if err := f.Truncate(size); err != nil {
			continue // the file system does not support it
		}
		f.WriteAt([]byte("\n10 8 one\n"), 5<<20)
		f.WriteAt([]byte("\n20 8 two\n"), size-100)
		tab := New(true)
		var said []string
		tab.Warn = func(text string) { said = append(said, text) }
		tab.Snapshot(pid)
		name, _, _ := tab.User(0x12, pid)
		last, _, _ := tab.User(0x22, pid)
		p := tab.procs[pid]
		if name != "one" || last != "" || !p.perf.full || p.perf.read > maxPerfRead+perfMapPiece+perfMapLine {
			t.Errorf("%d bytes: %q, %q, %d bytes read", size, name, last, p.perf.read)
		}
		if p.spent.used > processTime/2 || len(said) != 1 {
			t.Errorf("%d bytes: took %v: %q", size, p.spent.used, said)
		}
		tab.Close()
	}
}

// TestManyDeletedFiles checks that a process with many files that cannot be opened does not cost an attempt for each.
func TestManyDeletedFiles(t *testing.T) {
	tab := New(true)
	maps := make([]mapping, maxMappings)
	for i := range maps {
		maps[i] = mapping{start: uint64(i) << 12, end: uint64(i+1) << 12, path: "/memfd:x (deleted)", file: fileID{dev: 1, ino: uint64(i + 1)}}
	}
	if took := threadTime(func() { tab.note(1<<23, maps, 0, 0) }); took > time.Second {
		t.Errorf("took %v", took)
	}
}
