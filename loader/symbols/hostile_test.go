// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// elfFile writes an ELF file with one loaded segment at offset 0 and the given sections.
type elfSection struct {
	name string
	head elf.Section64
	data []byte
}

func elfFile(t *testing.T, path string, sections []elfSection) {
	t.Helper()
	sections = append([]elfSection{{}}, sections...)
	names := []byte{0}
	for i := range sections {
		sections[i].head.Name = uint32(len(names) - 1)
		if i > 0 {
			sections[i].head.Name = uint32(len(names))
			names = append(append(names, sections[i].name...), 0)
		}
	}
	sections = append(sections, elfSection{head: elf.Section64{Type: uint32(elf.SHT_STRTAB)}, data: names})
	head := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Ehsize: 64,
		Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: uint16(len(sections) - 1), Shoff: 128}
	copy(head.Ident[:], "\x7fELF\x02\x01\x01")
	var out, body bytes.Buffer
	at := 128 + 64*len(sections)
	for i := range sections {
		s := &sections[i]
		s.head.Off = uint64(at + body.Len())
		if s.head.Size == 0 {
			s.head.Size = uint64(len(s.data))
		}
		body.Write(s.data)
	}
	binary.Write(&out, binary.LittleEndian, head)
	binary.Write(&out, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: 5, Filesz: 1 << 40, Memsz: 1 << 40})
	out.Write(make([]byte, 128-out.Len()))
	for i := range sections {
		binary.Write(&out, binary.LittleEndian, sections[i].head)
	}
	out.Write(body.Bytes())
	if err := os.WriteFile(path, out.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
}

func symbol(name uint32, value uint64) []byte {
	var b bytes.Buffer
	b.Write(make([]byte, 24))
	binary.Write(&b, binary.LittleEndian, elf.Sym64{Name: name, Info: byte(elf.STT_FUNC), Shndx: 1, Value: value, Size: 16})
	return b.Bytes()
}

// symbolsOf reads the symbols of the file at path as for a mapped file.
func symbolsOf(t *testing.T, tab *Table, path string) *fileSyms {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return tab.readFileSyms(f, path, []string{"/"})
}

// TestDebugLinkToSpecialFiles checks that the target of a debug link is opened only if it is a regular
// file: a FIFO would block forever, and opening a device may have side effects.
func TestDebugLinkToSpecialFiles(t *testing.T) {
	for kind, make := range map[string]func(path string) error{
		"FIFO":      func(path string) error { return unix.Mkfifo(path, 0o644) },
		"device":    func(path string) error { return os.Symlink("/dev/zero", path) },
		"to FIFO":   func(path string) error { unix.Mkfifo(path+".fifo", 0o644); return os.Symlink(path+".fifo", path) },
		"directory": func(path string) error { return os.Mkdir(path, 0o755) },
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "spin")
		elfFile(t, path, []elfSection{{".gnu_debuglink", elf.Section64{Type: uint32(elf.SHT_PROGBITS)}, []byte("spin.debug\x00\x00\x01\x02\x03\x04")}})
		if err := make(filepath.Join(dir, "spin.debug")); err != nil {
			t.Fatal(err)
		}
		tab := New(true)
		if s := symbolsOf(t, tab, path); len(s.entries) > 0 {
			t.Errorf("%s: %d functions", kind, len(s.entries))
		}
		if tab.parser.fails > 0 {
			t.Errorf("%s: parser process failed", kind)
		}
		tab.Close()
	}
}

// TestManglingBomb checks a name whose substitutions double many times, which would need gigabytes.
func TestManglingBomb(t *testing.T) {
	name := "_Z1f1AIiiE"
	for level := range 40 {
		ref := "S" + strings.ToUpper(strconv.FormatInt(int64(level), 36)) + "_"
		name += "S_I" + ref + ref + "E"
	}
	tab := New(true)
	defer tab.Close()
	if got := tab.show(name); got != name {
		t.Errorf("name of %d bytes", len(got))
	}
	for _, name := range []string{"_Z" + strings.Repeat("N", 4000), "_Z1f" + strings.Repeat("P", 4000) + "i", "_R" + strings.Repeat("I", 4000), "_Z" + strings.Repeat("9", 100), "_Z" + strings.Repeat("x", 1<<17)} {
		tab.show(name)
	}
	if got := tab.show("_ZN1a1bEv"); got != "a::b()" {
		t.Errorf("afterwards: %s", got)
	}
}

// TestSparseSymbolTable checks that a symbol table that claims gigabytes in a sparse file is cheap to
// read, and that its valid beginning is used.
func TestSparseSymbolTable(t *testing.T) {
	const huge = 6 << 30
	path := filepath.Join(t.TempDir(), "big")
	elfFile(t, path, []elfSection{
		{".strtab", elf.Section64{Type: uint32(elf.SHT_STRTAB)}, []byte("\x00own_function\x00")},
		{".symtab", elf.Section64{Type: uint32(elf.SHT_SYMTAB), Size: huge, Link: 1, Entsize: 24}, symbol(1, 0x1000)},
	})
	if err := os.Truncate(path, huge+1<<20); err != nil {
		t.Skip("skipped: the file system does not support sparse files of 6 GiB: ", err)
	}
	tab := New(true)
	defer tab.Close()
	s := symbolsOf(t, tab, path)
	if !hasFunction(s, "own_function") || len(s.entries) != 1 {
		t.Errorf("%d functions", len(s.entries))
	}
	if tab.parser.proc == nil {
		t.Fatal("parser process failed")
	}
	if peak := status(t, tab.parser.proc.Pid, "VmHWM"); peak != "" {
		kb, _ := strconv.Atoi(strings.Fields(peak)[0])
		if kb > 100<<10 {
			t.Errorf("parser process used %d kB", kb)
		}
	}
}

// status returns a line of /proc/PID/status for a thread.
func status(t *testing.T, tid int, line string) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(l, line+":"); ok {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

// TestParserHasNoPrivileges checks that no thread of the parser process has a privilege that it does
// not need.
func TestParserHasNoPrivileges(t *testing.T) {
	tab := New(true)
	defer tab.Close()
	for i := range 100 { // threads are started as needed
		tab.show(fmt.Sprintf("_ZN1a%d%sEv", 1+i%9, "bcdefghij"[:1+i%9]))
	}
	symbolsOf(t, tab, "/proc/self/exe")
	if tab.parser.proc == nil {
		t.Fatal("no parser process")
	}
	pid := tab.parser.proc.Pid
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil || len(threads) == 0 {
		t.Fatal(err)
	}
	for _, thread := range threads {
		tid, _ := strconv.Atoi(thread.Name())
		want := map[string]string{"CapEff": strings.Repeat("0", 16), "CapPrm": strings.Repeat("0", 16), "CapInh": strings.Repeat("0", 16), "CapAmb": strings.Repeat("0", 16), "NoNewPrivs": "1", "Seccomp": "2"}
		if os.Getuid() == 0 {
			want["CapBnd"], want["Groups"] = strings.Repeat("0", 16), ""
			want["Uid"] = strings.TrimSpace(strings.Repeat(fmt.Sprint(firstUser+pid, " "), 4))
			want["Gid"] = want["Uid"]
		}
		for line, value := range want {
			if got := status(t, tid, line); got != value {
				t.Errorf("thread %d: %s = %q, want %q", tid, line, got, value)
			}
		}
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Skip("skipped: cannot list its descriptors: ", err)
	}
	for _, fd := range fds {
		target, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
		if target != os.DevNull && !strings.HasPrefix(target, "socket:") && !strings.HasPrefix(target, "anon_inode:") {
			t.Errorf("parser process has %s open", target)
		}
	}
}

// TestParserFailure checks that if the parser process crashes or does not respond, only that response
// is lost, and that the process exits with us.
func TestParserFailure(t *testing.T) {
	tab := New(true)
	var said []string
	tab.Warn = func(text string) { said = append(said, text) }
	if got := tab.show("_ZN1a1bEv"); got != "a::b()" {
		t.Fatal(got)
	}
	tab.parser.proc.Signal(unix.SIGINT) // as a terminal sends it to all processes
	tab.parser.proc.Signal(unix.SIGSEGV)
	if got := tab.show("_ZN1a1cEv"); got != "_ZN1a1cEv" {
		t.Errorf("crashed: %s", got)
	}
	if got := tab.show("_ZN1a1dEv"); got != "a::d()" {
		t.Errorf("afterwards: %s", got)
	}
	for i := range 2 * maxParseFails {
		if tab.parser.proc != nil {
			tab.parser.proc.Signal(unix.SIGSEGV)
		}
		tab.show(fmt.Sprintf("_ZN1a%d%sEv", 1+i, strings.Repeat("x", 1+i)))
	}
	if len(said) != 1 || tab.parser.proc != nil {
		t.Errorf("messages %q", said)
	}
	tab.parser.last = time.Now().Add(-2 * failPause)
	if got := tab.show("_ZN1a1eEv"); got != "a::e()" {
		t.Errorf("after a pause: %s", got)
	}
	s := &tab.parser.sock
	s.left, s.checked = time.Millisecond, time.Now()
	if _, err := s.Read(make([]byte, 1)); err != os.ErrDeadlineExceeded {
		t.Errorf("no response: error = %v", err)
	}
	s.left, s.cpuLimit = time.Hour, 0
	if _, err := s.Read(make([]byte, 1)); err != os.ErrDeadlineExceeded {
		t.Errorf("no response, CPU limit exceeded: error = %v", err)
	}
	unix.Shutdown(tab.parser.sock.fd, unix.SHUT_RDWR)
	if state, err := tab.parser.proc.Wait(); err != nil || state.ExitCode() != 0 {
		t.Errorf("closed socket: %v, %v", state, err)
	}
}

// TestParserKilledOrStopped checks that if another process kills or stops the parser process, it is
// replaced, and no name is lost.
func TestParserKilledOrStopped(t *testing.T) {
	tab := New(true)
	defer tab.Close()
	tab.Warn = func(text string) { t.Error(text) }
	tab.show("_ZN1a1bEv")
	for i := range 2 * maxParseFails {
		name := strings.Repeat("x", 1+i)
		switch i % 8 {
		case 0:
			tab.parser.proc.Signal(unix.SIGSTOP)
		default:
			tab.parser.proc.Kill()
		}
		if got := tab.show(fmt.Sprintf("_ZN1a%d%sEv", len(name), name)); got != "a::"+name+"()" {
			t.Errorf("%d: name %q", i, got)
		}
	}
	if tab.parser.fails != 0 {
		t.Errorf("%d failures", tab.parser.fails)
	}
}

// TestProcessesAreForgotten checks that exited processes are forgotten, except those that maps refer
// to.
func TestProcessesAreForgotten(t *testing.T) {
	tab := New(true)
	const first = 1 << 23 // above the largest process ID
	tab.Referenced = func(add func(uint32)) { add(first + 1) }
	own := uint32(os.Getpid())
	tab.Snapshot(own)
	for i := range uint32(24000) {
		tab.Snapshot(first + i)
		if len(tab.procs) > minProcs {
			t.Fatalf("%d processes", len(tab.procs))
		}
	}
	if tab.procs[own] == nil || tab.procs[first+1] == nil || tab.procs[first+23999] == nil || tab.procs[first+2] != nil {
		t.Error("wrong processes forgotten")
	}
	bytes := 0
	for _, p := range tab.procs {
		bytes += p.bytes
	}
	if bytes != tab.mapBytes {
		t.Errorf("%d bytes of mappings, but counted %d", bytes, tab.mapBytes)
	}
}

// TestFilesAreForgotten checks that the symbols of the least recently used files are dropped.
func TestFilesAreForgotten(t *testing.T) {
	tab := New(true)
	for i := range uint64(10) {
		tab.clock++
		s := &fileSyms{used: tab.clock, table: table{names: make([]byte, maxSymBytes/4)}}
		tab.files[fileID{dev: 1, ino: i}] = s
		tab.symBytes += s.bytes()
		tab.forgetFiles()
	}
	if len(tab.files) != 4 || tab.files[fileID{dev: 1, ino: 9}] == nil || tab.symBytes != maxSymBytes {
		t.Errorf("%d files, %d bytes", len(tab.files), tab.symBytes)
	}
}

// TestPerfMapGrows checks that a perf map is read from where the last read ended, or from its start if
// it was truncated or replaced, and that its functions use little memory.
func TestPerfMapGrows(t *testing.T) {
	pid := os.Getpid()
	path := fmt.Sprintf("/tmp/perf-%d.map", pid)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		t.Skip("skipped: cannot create a perf map: ", err)
	}
	defer os.Remove(path)
	defer f.Close()
	tab := New(true)
	defer tab.Close()
	tab.Snapshot(uint32(pid))
	p := &perfMap{}
	tab.procs[uint32(pid)].perf = p
	want := func(addr uint64, name string) {
		t.Helper()
		tab.refresh(p, uint32(pid))
		tab.count(uint32(pid), p)
		if got, _, _ := p.lookup(addr); got != name {
			t.Errorf("name of %#x = %q, want %q", addr, got, name)
		}
		if tab.symBytes != p.bytes() {
			t.Errorf("counted %d bytes, want %d", tab.symBytes, p.bytes())
		}
	}
	const perRound = 20000
	for round := range 8 {
		var b bytes.Buffer
		for i := range perRound {
			fmt.Fprintf(&b, "%x 10 fn_%d\n", 0x1000000+0x10*(perRound*round+i), perRound*round+i)
		}
		f.Write(b.Bytes())
		want(uint64(0x1000000+0x10*perRound*round), fmt.Sprintf("fn_%d", perRound*round))
	}
	want(0x1000008, "fn_0")
	if len(p.tables) > 5 || p.bytes() > 8*perRound*32 {
		t.Errorf("%d tables, %d bytes", len(p.tables), p.bytes())
	}
	f.WriteString("1000000 10 newer\n2000 10 par")
	want(0x1000000, "newer")
	want(0x2000, "par")
	f.WriteString("tial\n")
	want(0x2000, "partial")
	f.Truncate(0)
	f.Seek(0, 0)
	f.WriteString("3000 10 fresh\n")
	want(0x3000, "fresh")
	want(0x1000000, "")
	os.Remove(path)
	os.Symlink("/etc/passwd", path)
	tab.procs[uint32(pid)].perf = &perfMap{}
	if f, _, _ := tab.openPerfMap(uint32(pid)); f != nil {
		t.Error("symbolic link followed")
	}
}

// TestPerfMapBounds checks lines that do not end, and more functions than the limit.
func TestPerfMapBounds(t *testing.T) {
	long := strings.NewReader("10 10 a\n" + strings.Repeat("x", 3*perfMapLine) + "\n20 10 b\n")
	tab, end, full := parsePerfMap(long, 0)
	if end != long.Size() || full || len(tab.entries) != 2 {
		t.Errorf("read to %d, %d functions", end, len(tab.entries))
	}
	many := strings.Repeat("10 10 a\n", 3*perfMapPiece/8)
	tab, end, full = parsePerfMap(strings.NewReader(many), 0)
	if end > perfMapPiece+perfMapLine || full || len(tab.entries) != 1 {
		t.Errorf("read to %d, %d functions", end, len(tab.entries))
	}
}
