// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"btc/loader/format"
)

func TestParseMapping(t *testing.T) {
	m, ok := parseMapping("7f1c2a000000-7f1c2a155000 r-xp 00028000 fe:01 1234                       /usr/lib/x y.so")
	want := mapping{start: 0x7f1c2a000000, end: 0x7f1c2a155000, off: 0x28000, path: "/usr/lib/x y.so", file: fileID{dev: 0xfe<<32 | 1, ino: 1234}}
	if !ok || m != want {
		t.Errorf("got %+v, %v", m, ok)
	}
	for _, line := range []string{
		"", "7f-", "7f1c2a000000-7f1c2a155000 r--p 00028000 fe:01 1234 /usr/lib/x.so",
		"7ffd2a000000-7ffd2a155000 r-xp 00000000 00:00 0    [vsyscall]", "zz-yy r-xp 0 0:0 0 /x",
	} {
		if _, ok := parseMapping(line); ok {
			t.Errorf("no error for %q", line)
		}
	}
}

const speaking = `package main

import (
	"fmt"
	"io"
	"os"
	"reflect"
)

//go:noinline
func traced() { os.Stdout.Sync() }

func main() {
	fmt.Println(reflect.ValueOf(traced).Pointer())
	io.Copy(io.Discard, os.Stdin)
}
`

// TestFunctionOfProcess checks that a function of a running process is found by its address. ("go test"
// strips its own programs.)
func TestFunctionOfProcess(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "speaking.go"), []byte(speaking), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", "speaking", "speaking.go")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(filepath.Join(dir, "speaking"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	var addr uint64
	if _, err := fmt.Fscan(out, &addr); err != nil {
		t.Fatal(err)
	}
	tab, pid := New(true), uint32(cmd.Process.Pid)
	name, file, off := tab.User(addr+1, pid)
	if name != "main.traced" || off != 1 || filepath.Base(file) != "speaking" {
		t.Errorf("got %s+%d in %s", name, off, file)
	}
	if got, zero := tab.Usym(8, pid), tab.Usym(0, pid); got != "0x8" || zero != "0" {
		t.Errorf("unmapped addresses: %s, %s", got, zero)
	}
}

// TestProcessThatIsGone checks that addresses seen before can be resolved after the process has exited
// and its file was deleted.
func TestProcessThatIsGone(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	data, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "nap")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tab := New(true)
	pid := uint32(cmd.Process.Pid)
	var m *mapping
	for m == nil { // until exec has happened
		tab.Snapshot(pid)
		for i := range tab.procs[pid].maps {
			if x := &tab.procs[pid].maps[i]; x.path == path {
				m = x
			}
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	os.Remove(path)
	if _, file, _ := tab.User(m.start, pid); file != path {
		t.Errorf("address is in %q, want %q", file, path)
	}
	if tab.files[m.file] == nil {
		t.Error("symbols of the deleted file not read")
	}
}

func TestLookup(t *testing.T) {
	s := &table{}
	for _, f := range []struct {
		off, size uint64
		name      string
	}{{0x200, 0, "unsized"}, {0x20, 0x10, "inner"}, {0x10, 0x100, "outer"}, {0x20, 0x10, "inner"}} {
		s.add(f.off, f.size, []byte(f.name))
	}
	if s.sort(); len(s.entries) != 3 {
		t.Errorf("%d functions, want 3", len(s.entries))
	}
	for _, tc := range []struct {
		off  uint64
		name string
		in   uint64
		ok   bool
	}{{0xf, "", 0, false}, {0x10, "outer", 0, true}, {0x28, "inner", 8, true}, {0x30, "outer", 0x20, true}, {0x110, "", 0, false}, {0x250, "unsized", 0x50, true}} {
		if name, in, ok := s.lookup(tc.off); name != tc.name || in != tc.in || ok != tc.ok {
			t.Errorf("lookup of %#x = %s+%#x, %v, want %s+%#x, %v", tc.off, name, in, ok, tc.name, tc.in, tc.ok)
		}
	}
}

func TestStackEnds(t *testing.T) {
	frames := frames([]uint64{1, format.UnwindFailure, 2}, "", func(f *format.Frame) { f.Sym = "f" })
	if len(frames) != 2 || frames[0].Sym != "f" || frames[1].Sym != "" {
		t.Errorf("got %+v", frames)
	}
	if frames := (&Table{}).Ustack([]uint64{1}, format.ModeRaw, 1); len(frames) != 1 || frames[0].Address != 1 {
		t.Errorf("raw: %+v", frames)
	}
}

func TestDemangle(t *testing.T) {
	if got := New(true).show("_ZN3foo3barEi"); got != "foo::bar(int)" {
		t.Errorf("got %s", got)
	}
	if got := New(false).show("_ZN3foo3barEi"); got != "_ZN3foo3barEi" {
		t.Errorf("got %s", got)
	}
}

func TestRootsOf(t *testing.T) {
	if got := rootsOf(uint32(os.Getpid())); !slices.Equal(got, []string{"/"}) {
		t.Errorf("roots of this process: %v", got)
	}
	if got := rootsOf(1 << 30); !slices.Equal(got, []string{"/"}) { // no process has this ID
		t.Errorf("roots of no process: %v", got)
	}
}
