// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// built builds a program with a function of its own in dir and returns its path.
func built(t *testing.T, dir string) string {
	t.Helper()
	for _, tool := range []string{"gcc", "objcopy", "strip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("skipped: needs gcc and binutils: ", err)
		}
	}
	source, out := filepath.Join(dir, "own.c"), filepath.Join(dir, "own")
	if err := os.WriteFile(source, []byte("int own_function(int x) { return x * 3; }\nint main(int n, char **v) { return own_function(n); }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	command(t, "gcc", "-O0", "-Wl,--build-id=none", "-o", out, source)
	return out
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// has reports whether the file at path has the symbol own_function.
func has(t *testing.T, path string) bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tab := New(true)
	defer tab.Close()
	return hasFunction(tab.readFileSyms(f, path, []string{"/"}), "own_function")
}

func hasFunction(s *fileSyms, name string) bool {
	for i := range s.entries {
		if string(s.name(&s.entries[i])) == name {
			return true
		}
	}
	return false
}

// TestDebugLink checks that the symbols of a stripped program are found in the file that its debug link
// names, next to it or in .debug, but not if that is a different file.
func TestDebugLink(t *testing.T) {
	dir := t.TempDir()
	path := built(t, dir)
	if !has(t, path) {
		t.Fatal("no own_function in the program itself")
	}
	debug := filepath.Join(dir, "own.debug")
	command(t, "objcopy", "--only-keep-debug", path, debug)
	command(t, "strip", path)
	if has(t, path) {
		t.Fatal("own_function in the stripped program")
	}
	command(t, "objcopy", "--add-gnu-debuglink="+debug, path)
	if !has(t, path) {
		t.Error("not found next to the program")
	}
	sub := filepath.Join(dir, ".debug")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(debug, filepath.Join(sub, "own.debug")); err != nil {
		t.Fatal(err)
	}
	if !has(t, path) {
		t.Error("not found in .debug")
	}
	f, err := os.OpenFile(filepath.Join(sub, "own.debug"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Write([]byte{0})
	f.Close()
	if has(t, path) {
		t.Error("file with a wrong checksum accepted")
	}
}

// TestPerfMap checks that functions named by a just-in-time compiler are found, also when the file
// grows.
func TestPerfMap(t *testing.T) {
	s, _, _ := parsePerfMap(strings.NewReader("1000 10 LazyCompile:~f x.js:1\nbad\n2000 zz g\n0x3000 0x20 _Z3foov\n1000 10 newer\n"), 0)
	for addr, want := range map[uint64]string{0x1004: "newer", 0x3001: "_Z3foov", 0x1010: "", 0x2000: ""} {
		if name, _, _ := s.lookup(addr); name != want {
			t.Errorf("name of %#x = %q, want %q", addr, name, want)
		}
	}
	tab := New(true)
	defer tab.Close()
	path := (&owner{}).perfMaps(uint32(os.Getpid()))[0].name
	if _, err := os.Lstat(path); err == nil {
		t.Skip("skipped: " + path + " exists")
	}
	if err := os.WriteFile(path, []byte("10 8 one\n"), 0o644); err != nil {
		t.Skip("skipped: cannot write to /tmp: ", err)
	}
	defer os.Remove(path)
	pid := uint32(os.Getpid())
	if name, file, off := tab.User(0x12, pid); name != "one" || file != path || off != 2 {
		t.Errorf("got %s+%d in %s", name, off, file)
	}
	if name, _, _ := tab.User(0x20, pid); name != "" {
		t.Errorf("got %s", name)
	}
	if err := os.WriteFile(path, []byte("10 8 one\n20 8 _ZN1a1bEv\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tab.procs[pid].perf.tried = time.Now().Add(-2 * perfMapPause)
	if name, _, _ := tab.User(0x20, pid); name != "a::b()" {
		t.Errorf("got %q", name)
	}
}

// TestVDSO checks that a function in code that the kernel maps into each process is found.
func TestVDSO(t *testing.T) {
	maps, _ := readMaps(uint32(os.Getpid()))
	for _, m := range maps {
		if m.path != vdsoPath {
			continue
		}
		syms := readVDSO(m.end - m.start)
		if syms == nil || len(syms.entries) == 0 {
			t.Fatal("no symbols")
		}
		s := syms.entries[0]
		name, file, off := New(true).User(m.start+s.off, uint32(os.Getpid()))
		if name == "" || file != vdsoPath || off != 0 {
			t.Errorf("got %s+%d in %s", name, off, file)
		}
		return
	}
	t.Skip("skipped: this process has no vdso")
}

// TestBadDebugLink checks that a debug link, whatever it contains, cannot name a file outside the
// directories or cause a crash.
func TestBadDebugLink(t *testing.T) {
	dir := t.TempDir()
	path := built(t, dir)
	for _, content := range []string{"", "\x00\x00\x00\x00abcd", "../../etc/x\x00abcd", "long", "x\x00\x00\x00abc"} {
		link, out := filepath.Join(dir, "link"), filepath.Join(dir, "out")
		if err := os.WriteFile(link, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		command(t, "objcopy", "--add-section", ".gnu_debuglink="+link, path, out)
		f, err := elf.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		if name, _, ok := debugLink(f); ok {
			t.Errorf("%q: opened %q", content, name)
		}
		f.Close()
	}
}
