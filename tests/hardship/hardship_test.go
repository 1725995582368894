// SPDX-License-Identifier: Apache-2.0

// Package hardship runs the whole program where something is missing, refused or hostile: too little
// memory, processes that do not run, process IDs that are used again, refused system calls, bombs in
// files. Each run must end by itself, with exact counts or a reported loss, or with one clear message,
// and without leaving a process behind. It needs root; what the machine lacks is skipped by name.
package hardship

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// refuse is the environment variable of the seccomp filter: the test binary applies it and executes
// its arguments. It holds "NUMBER ERRNO" or "NUMBER ERRNO FIRST-ARGUMENT".
const refuse = "HARDSHIP_REFUSE"

func TestMain(m *testing.M) {
	if text := os.Getenv(refuse); text != "" {
		fmt.Fprintln(os.Stderr, "cannot: ", execRefused(text))
		os.Exit(99)
	}
	if object := os.Getenv(dropping); object != "" {
		fmt.Println(dropMidway(object))
		os.Exit(0)
	}
	status := m.Run()
	if dir, err := binaries(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(status)
}

// execRefused executes os.Args[1:] under a seccomp filter that refuses a system call.
func execRefused(text string) error {
	var nr, errno uint32
	first := int64(-1)
	if n, err := fmt.Sscan(text, &nr, &errno, &first); n < 2 {
		return err
	}
	load := func(off uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
	}
	ret := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	const equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	const number, arg0, failed, allow = 0, 16, 0x00050000, 0x7fff0000 // struct seccomp_data and linux/seccomp.h; little-endian
	prog := []unix.SockFilter{load(number), {Code: equal, K: nr, Jf: 1}, ret(failed | errno), ret(allow)}
	if first >= 0 {
		prog = []unix.SockFilter{load(number), {Code: equal, K: nr, Jf: 3}, load(arg0), {Code: equal, K: uint32(first), Jf: 1}, ret(failed | errno), ret(allow)}
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	p := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if err := setSeccomp(&p); err != nil {
		return err
	}
	os.Unsetenv(refuse)
	return syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
}

// binaries are the two programs, built once.
var binaries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hardship")
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

func program(t *testing.T, name string) string {
	t.Helper()
	dir, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
}

// needTracepoints skips the test unless tracepoints can be compiled and attached; it mounts tracefs
// for the test if it is not mounted.
func needTracepoints(t *testing.T) {
	t.Helper()
	needRoot(t)
	const dir = "/sys/kernel/tracing"
	if _, err := os.Stat(dir + "/events/sched"); err == nil {
		return
	}
	if err := unix.Mount("tracefs", dir, "tracefs", 0, ""); err != nil {
		t.Skip("skipped: cannot mount tracefs: ", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	if _, err := os.Stat(dir + "/events/sched"); err != nil {
		t.Skip("skipped: ", err)
	}
}

// compile compiles a script and returns the path of the object.
func compile(t *testing.T, script string) string {
	t.Helper()
	object := filepath.Join(t.TempDir(), "x.o")
	if out, err := exec.Command(program(t, "btc"), "compile", "-e", script, "-o", object).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return object
}

// safe is what a command has printed so far.
type safe struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *safe) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *safe) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// run is a command in its own process group.
type run struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err safe
	stop     context.CancelFunc
	ctx      context.Context
}

// hang is the time after which a command is said to hang: long, because machines are loaded.
const hang = 3 * time.Minute

func start(t *testing.T, env []string, args ...string) *run {
	t.Helper()
	return startFor(t, hang, env, args...)
}

// startFor is start with another time after which the command hangs.
func startFor(t *testing.T, limit time.Duration, env []string, args ...string) *run {
	t.Helper()
	r := &run{t: t}
	r.ctx, r.stop = context.WithTimeout(context.Background(), limit)
	r.cmd = exec.CommandContext(r.ctx, args[0], args[1:]...)
	r.cmd.Env = append(os.Environ(), env...)
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.cmd.Cancel = func() error { return syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) }
	r.cmd.WaitDelay = 10 * time.Second
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.err
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL); r.stop() })
	return r
}

// attached waits until the probes are attached.
func (r *run) attached() {
	r.t.Helper()
	r.until(func() bool { return strings.Contains(r.err.String(), "Attached ") })
}

func (r *run) until(cond func() bool) {
	r.t.Helper()
	for !cond() {
		if r.ctx.Err() != nil {
			r.t.Fatalf("%v hangs: stdout %.2000s, stderr %.2000s", r.cmd.Args, &r.out, &r.err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// wait waits for the end of the command. It fails if the command hangs, crashes or leaves a process.
func (r *run) wait() (status int) {
	r.t.Helper()
	err := r.cmd.Wait()
	if r.ctx.Err() != nil {
		r.t.Errorf("%v hangs: stdout %.2000s, stderr %.2000s", r.cmd.Args, &r.out, &r.err)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Errorf("%v: %v", r.cmd.Args, err)
	}
	for _, bad := range []string{"panic: ", "goroutine ", "fatal error: ", "runtime: ", "SIGSEGV"} {
		if strings.Contains(r.err.String(), bad) {
			r.t.Errorf("%v crashed: %.4000s", r.cmd.Args, &r.err)
			break
		}
	}
	pgid := r.cmd.Process.Pid
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if err := syscall.Kill(-pgid, 0); err == syscall.ESRCH {
			break
		}
		if time.Now().After(end) {
			r.t.Errorf("%v left a process", r.cmd.Args)
			break
		}
	}
	return r.cmd.ProcessState.ExitCode()
}

// oneMessage fails unless standard error has one ERROR line; lines of warnings and hints may follow.
func (r *run) oneMessage() {
	r.t.Helper()
	n := 0
	for line := range strings.Lines(r.err.String()) {
		if strings.HasPrefix(line, "btrun: ") || strings.HasPrefix(line, "ERROR: ") || strings.Contains(line, " ERROR: ") || strings.Contains(line, ": error: ") {
			n++
		}
	}
	if n != 1 {
		r.t.Errorf("%v: %d errors, want 1: %.3000s", r.cmd.Args, n, &r.err)
	}
}

// section is a section of a program for tests.
type section struct {
	name       string
	kind       uint32
	data       []byte
	link, info uint32
	entry      uint64
	flags      uint64
}

const base = 0x400000 // address of the first byte of a program

// tinyProgram writes a program of a few instructions, all of one function with the given name. It
// needs no library, so it starts fast and its addresses are known.
func tinyProgram(t *testing.T, path, function string, code []byte, more ...section) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("skipped: the program is x86-64 code")
	}
	const codeAt = 64 + 56
	le := binary.LittleEndian
	sym := make([]byte, 24) // the null symbol
	sym = le.AppendUint32(sym, 1)
	sym = append(sym, 0x12, 0) // STB_GLOBAL, STT_FUNC
	sym = le.AppendUint16(sym, 1)
	sym = le.AppendUint64(le.AppendUint64(sym, base+codeAt), uint64(len(code)))
	sections := append([]section{{}, {name: ".text", kind: 1, data: code},
		{name: ".symtab", kind: 2, data: sym, link: 3, info: 1, entry: 24},
		{name: ".strtab", kind: 3, data: []byte("\x00" + function + "\x00")}}, more...)
	names := []byte{0}
	last := section{name: ".shstrtab", kind: 3}
	if n := len(sections) - 1; sections[n].name == last.name { // with data or flags of its own
		last, sections = sections[n], sections[:n]
	}
	sections = append(sections, last)
	body := make([]byte, codeAt)
	var heads []byte
	for i := range sections {
		s := &sections[i]
		name := len(names)
		names = append(names, s.name+"\x00"...)
		if i == len(sections)-1 {
			s.data = append(names, s.data...)
			if s.flags != 0 {
				s.data = deflated(s.data)
			}
		}
		addr, flags := uint64(0), s.flags
		if i == 1 {
			addr, flags = base+codeAt, 6 // SHF_ALLOC, SHF_EXECINSTR
		}
		if s.name == ".eh_frame" {
			addr, flags = base+uint64(len(body)), 2
		}
		if i == 0 {
			heads = append(heads, make([]byte, 64)...)
			continue
		}
		heads = le.AppendUint32(le.AppendUint32(heads, uint32(name)), s.kind)
		for _, v := range []uint64{flags, addr, uint64(len(body)), uint64(len(s.data))} {
			heads = le.AppendUint64(heads, v)
		}
		heads = le.AppendUint32(le.AppendUint32(heads, s.link), s.info)
		heads = le.AppendUint64(le.AppendUint64(heads, 1), s.entry)
		body = append(body, s.data...)
	}
	head := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	head = le.AppendUint32(le.AppendUint16(le.AppendUint16(head, 2), 62), 1) // ET_EXEC, EM_X86_64
	for _, v := range []uint64{base + codeAt, 64, uint64(len(body))} {
		head = le.AppendUint64(head, v)
	}
	head = le.AppendUint32(head, 0)
	for _, v := range []int{64, 56, 1, 64, len(sections), len(sections) - 1} {
		head = le.AppendUint16(head, uint16(v))
	}
	head = le.AppendUint32(le.AppendUint32(head, 1), 5) // PT_LOAD, readable and executable
	for _, v := range []uint64{0, base, base, uint64(len(body)), uint64(len(body)), 4096} {
		head = le.AppendUint64(head, v)
	}
	copy(body, head)
	if err := os.WriteFile(path, append(body, heads...), 0o755); err != nil {
		t.Fatal(err)
	}
}

// deflated returns a section with SHF_COMPRESSED.
func deflated(data []byte) []byte {
	le := binary.LittleEndian
	var b bytes.Buffer
	b.Write(le.AppendUint64(le.AppendUint64(le.AppendUint64(nil, 1), uint64(len(data))), 1)) // ELFCOMPRESS_ZLIB
	w := zlib.NewWriter(&b)
	w.Write(data)
	w.Close()
	return b.Bytes()
}

// system is the code of a system call with one argument.
func system(nr, arg uint32) []byte {
	le := binary.LittleEndian
	code := le.AppendUint32([]byte{0xbf}, arg)     // mov edi, arg
	code = le.AppendUint32(append(code, 0xb8), nr) // mov eax, nr
	return append(code, 0x0f, 0x05)                // syscall
}

// number returns the number that follows a string in a text, or -1.
func number(text, before string) int {
	_, rest, ok := strings.Cut(text, before)
	if !ok {
		return -1
	}
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1
	}
	return n
}
