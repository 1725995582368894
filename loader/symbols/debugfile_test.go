// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"btc/internal/elffile"
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

// stripped builds a program in dir that waits, and strips it. It returns the program, its file with the symbols, the name of that
// file below a directory of debug files, and the address of own_function.
func stripped(t *testing.T, dir string) (path, debug, name string, addr uint64) {
	t.Helper()
	built(t, dir) // are there tools?
	source := filepath.Join(dir, "wait.c")
	path, debug = filepath.Join(dir, "wait"), filepath.Join(dir, "wait.debug")
	if err := os.WriteFile(source, []byte("#include <unistd.h>\nint own_function(int x) { return x * 3; }\nint main(int n, char **v) { write(1, \"x\", 1); pause(); return own_function(n); }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-O0", "-static", "-no-pie", "-Wl,--build-id", "-o", path, source).CombinedOutput(); err != nil {
		t.Skipf("skipped: cannot build a static program: %s", out)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	id := elffile.BuildID(f)
	elffile.EachSymbol(f, func(s *elffile.Symbol) bool {
		if string(s.Name()) == "own_function" {
			addr = s.Value
		}
		return true
	})
	command(t, "objcopy", "--only-keep-debug", path, debug)
	command(t, "strip", path)
	return path, debug, id, addr
}

// moved moves a file to a name whose directory it makes.
func moved(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// waiting starts a program that waits, with a root directory.
func waiting(t *testing.T, path, root string) uint32 {
	t.Helper()
	cmd := exec.Command(path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip("skipped: cannot start a process with another root directory: ", err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	out.Read(make([]byte, 1))
	return uint32(cmd.Process.Pid)
}

// TestPrivateDebugFile checks that a debug file below the root directory of one process names its functions, and not those
// of another process that runs the same program.
func TestPrivateDebugFile(t *testing.T) {
	dir := t.TempDir()
	path, debug, id, addr := stripped(t, dir)
	moved(t, debug, filepath.Join(dir, debugDir, ".build-id", id[:2], id[2:]+".debug"))
	inside, outside := waiting(t, "/"+filepath.Base(path), dir), waiting(t, path, "")
	tab := New(true)
	defer tab.Close()
	for _, pid := range []uint32{inside, outside, inside} {
		tab.Snapshot(pid)
		want := map[uint32]string{inside: "own_function"}[pid]
		if name, file, _ := tab.User(addr+1, pid); name != want || file == "" {
			t.Errorf("%t: name %q in %q, want %q", pid == inside, name, file, want)
		}
	}
}

// TestOtherDevice checks that a file names functions for one process only, if nothing but its inode shows that it is the file of a
// mapping: a user can mount a file system in which a file has the inode of a library.
func TestOtherDevice(t *testing.T) {
	path := built(t, t.TempDir())
	if os.Getuid() == 0 {
		os.Chown(path, 65534, 65534)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	dev := uint64(unix.Major(uint64(st.Dev)))<<32 | uint64(unix.Minor(uint64(st.Dev)))
	m := &mapping{start: 0x1000, end: 0x2000, path: path, file: fileID{dev: dev + 1, ino: st.Ino}}
	self, gone := uint32(os.Getpid()), uint32(1<<22+1)
	of := func(tab *Table, m *mapping, tgid uint32) bool {
		s := tab.symbols(m, tgid, false)
		return s != nil && hasFunction(s, "own_function")
	}
	for _, held := range []bool{false, true} {
		for _, first := range []uint32{self, gone} { // one that has exited chooses the path, too
			tab := New(true)
			if held && !tab.hold(m, self) {
				t.Error("the file is not held")
			}
			if held && tab.held[m.file] != nil {
				t.Error("the file is held for all processes")
			}
			if !of(tab, m, first) {
				t.Errorf("held %t, process %d: no names", held, first)
			}
			elsewhere := *m
			elsewhere.path = "/nonexistent"
			if of(tab, &elsewhere, 1) {
				t.Errorf("held %t, process %d: the names are those of another process", held, first)
			}
			tab.Close()
		}
	}
	tab := New(true)
	defer tab.Close()
	missing, real := *m, *m
	missing.path, missing.file.dev, real.file.dev = "/nonexistent", dev, dev
	if of(tab, &missing, gone) || !of(tab, &real, self) {
		t.Error("a process that has exited hides the names of a file")
	}
	tab = New(true)
	defer tab.Close()
	if !of(tab, &real, self) || !of(tab, &missing, gone) {
		t.Error("the names of a file are not shared")
	}
}

// TestDebuginfod checks that the symbols of a stripped program are found by build id in the cache of debuginfod, unless others
// can change it, and that a file of another build is not used.
func TestDebuginfod(t *testing.T) {
	dir := t.TempDir()
	path, debug, id, _ := stripped(t, dir)
	cache := filepath.Join(dir, "cache")
	t.Setenv("DEBUGINFOD_CACHE_PATH", cache)
	moved(t, debug, filepath.Join(cache, id, "debuginfo"))
	safe := false
	for d := cache; !safe; d = filepath.Dir(d) { // the directory of tests may be below one that others can change
		fi, err := os.Stat(d)
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode().Perm()&0o022 != 0 {
			break
		}
		safe = d == "/"
	}
	if has(t, path) != safe {
		t.Errorf("found: %t, want %t", !safe, safe)
	}
	real := ofCaller
	ofCaller = func(*os.File) bool { return true }
	t.Cleanup(func() { ofCaller = real })
	if !has(t, path) {
		t.Error("not found in a cache that is trusted")
	}
	other := filepath.Join(dir, "other")
	command(t, "gcc", "-O0", "-Wl,--build-id=0x1234567890", "-o", other, filepath.Join(dir, "own.c"))
	moved(t, other, filepath.Join(cache, id, "debuginfo"))
	if has(t, path) {
		t.Error("a file of another build was used")
	}
	ofCaller = func(*os.File) bool { return false }
	if has(t, path) {
		t.Error("a file that others can change was used")
	}
}

// TestMiniDebug checks that the functions in .gnu_debugdata of a stripped program are found.
func TestMiniDebug(t *testing.T) {
	if _, err := exec.LookPath("xz"); err != nil {
		t.Skip("skipped: no xz")
	}
	dir := t.TempDir()
	path := built(t, dir)
	mini := filepath.Join(dir, "mini")
	command(t, "objcopy", "--only-keep-debug", path, mini)
	command(t, "strip", path)
	command(t, "xz", mini)
	command(t, "objcopy", "--add-section", ".gnu_debugdata="+mini+".xz", path)
	if !has(t, path) {
		t.Error("no own_function in .gnu_debugdata")
	}
	if err := os.WriteFile(mini+".xz", []byte("\xfd7zXZ\x00 damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	command(t, "objcopy", "--update-section", ".gnu_debugdata="+mini+".xz", path)
	if has(t, path) {
		t.Error("own_function in damaged data")
	}
}

// TestLater checks that frames have no names, but build ids and offsets, if they are to be named later, that usym has names all the
// same, and that functions of files without a build id have names.
func TestLater(t *testing.T) {
	dir := t.TempDir()
	path, debug, id, addr := stripped(t, dir)
	command(t, "objcopy", "--add-gnu-debuglink="+debug, path)
	plain := filepath.Join(dir, "plain")
	command(t, "objcopy", "--remove-section", ".note.gnu.build-id", path, plain)
	with, without := waiting(t, path, ""), waiting(t, plain, "")
	tab := New(true)
	defer tab.Close()
	tab.Later = true
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at, _ := FileOffset(f, addr+1)
	for range 2 {
		if got := tab.Ustack([]uint64{addr + 1}, "", with)[0]; got.Sym != "" || got.BuildID != id || got.FileOffset != at || got.File != path {
			t.Errorf("got %+v, want %#x of %s", got, at, id)
		}
		if got := tab.Usym(addr+1, with); got != "own_function" {
			t.Errorf("usym: %s", got)
		}
		if got := tab.Ustack([]uint64{addr + 1}, "", without)[0]; got.Sym != "own_function" || got.BuildID != "" {
			t.Errorf("without a build id: %+v", got)
		}
	}
	if tab.Kernel(0); tab.kernel == nil {
		return
	}
	all := tab.kernel.Find("_text")
	notes, err := os.ReadFile("/sys/kernel/notes")
	if len(all) == 0 || err != nil || len(notes) == 0 {
		return
	}
	if got := tab.Kstack([]uint64{all[0].Addr + 1}, "")[0]; got.Sym == "" || got.FileOffset != 1 || len(got.BuildID) < 16 {
		t.Errorf("kernel: %+v", got)
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
