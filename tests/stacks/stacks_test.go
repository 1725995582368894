// SPDX-License-Identifier: Apache-2.0

// Package stacks compares user stacks that programs in the kernel unwind by tables with those that gdb finds: a probe prints
// a stack and stops the thread before its next instruction.
package stacks

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"btc/tests/tier"
)

var bin string // directory of btc and btrun

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "stacks")
	if err != nil {
		panic(err)
	}
	cmd := exec.Command("go", "build", "-o", dir+"/", "btc/cmd/btc", "btc/cmd/btrun")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		os.Exit(1)
	}
	bin = dir
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// need skips the test if a program or the permission to trace is missing.
func need(t testing.TB, programs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip("skipped: ", err)
		}
	}
}

const chain = `
#include <sys/syscall.h>
#include <unistd.h>
volatile long sink;
#define F(name, next, words) __attribute__((noipa)) long name(long n) { long a[words]; for (int i = 0; i < words; i++) a[i] = sink + n; return next(n + 1) + a[sink & 3]; }
__attribute__((noipa)) long leaf(long n) { for (int i = 0; i < 20000; i++) sink += n; return syscall(SYS_getppid); }
F(f7, leaf, 4) F(f6, f7, 40) F(f5, f6, 9) F(f4, f5, 5) F(f3, f4, 70) F(f2, f3, 8) F(f1, f2, 300)
int main(void) { for (;;) f1(1); }
`

// compileC compiles the program without frame pointers.
func compileC(t testing.TB) string {
	t.Helper()
	need(t, "gcc")
	dir := t.TempDir()
	src, exe := filepath.Join(dir, "chain.c"), filepath.Join(dir, "chain")
	if err := os.WriteFile(src, []byte(chain), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-O2", "-fomit-frame-pointer", "-o", exe, src).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

// programs are programs that compute or answer, and make a system call now and then.
var programs = []struct {
	name    string
	command []string // nil: the C program; DIR is an empty directory
	entry   string   // a function that is called often
	syscall string
	setup   string // a command of the shell before the program starts
	ask     string // one that makes the program work, again and again
}{
	{"C", nil, "leaf", "getppid", "", ""},
	{"bash", []string{"/bin/bash", "-c", `f() { for ((i = 0; i < 200; i++)); do :; done; : $(</dev/null); }; g() { f; eval f; }; while :; do g; done`}, "execute_command_internal", "openat", "", ""},
	{"python3", []string{"/usr/bin/python3", "-c", `import os
def f(n):
    if n: return f(n - 1)
    return sorted(range(300), key=lambda x: -x) and os.getppid()
while True: f(5)`}, "libc:getppid", "getppid", "", ""},
	{"perl", []string{"/usr/bin/perl", "-e", `sub f { my $n = shift; return $n ? f($n - 1) : join(",", sort { $b <=> $a } 1..300) . getppid() } f(5) while 1`}, "libc:getppid", "getppid", "", ""},
	{"git", []string{"/usr/bin/git", "-C", "DIR", "cat-file", "--batch"}, "libc:write", "write", `git init -q DIR && cd DIR && seq 1000 > a && git add a && git -c user.name=a -c user.email=a commit -qm a`, ""},
	{"redis", []string{"/usr/bin/redis-server", "--port", "0", "--unixsocket", "DIR/s", "--save", ""}, "libc:write", "write", "", `redis-benchmark -s DIR/s -q -n 1000 -t set,lrange`},
	{"nginx", []string{"/usr/sbin/nginx", "-p", "DIR", "-c", "DIR/conf"}, "libc:writev", "writev",
		`echo 'daemon off; master_process off; pid DIR/pid; error_log DIR/log; events {} http { access_log DIR/access; server { listen unix:DIR/s; location / { root DIR; autoindex on; } } }' > DIR/conf`,
		`curl -s --unix-socket DIR/s http://x/ http://x/conf`},
}

// heads is an input without an end: questions to git.
type heads struct{}

func (heads) Read(p []byte) (int, error) { return copy(p, "HEAD:a\n"), nil }

// start runs a program until the test ends.
func start(t testing.TB, command []string) int {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	if filepath.Base(command[0]) == "git" {
		cmd.Stdin = heads{}
	}
	cmd.WaitDelay = time.Second // its children may hold its input
	if err := cmd.Start(); err != nil {
		t.Skip("skipped: ", err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGCONT)
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd.Process.Pid
}

// trace runs a script; its output goes to lines. end interrupts it and returns the messages on standard error.
func trace(t testing.TB, script string, options ...string) (lines *bufio.Reader, interrupt func(), end func() string) {
	t.Helper()
	object := filepath.Join(t.TempDir(), "x.o")
	script = "config = { unstable_dw_ustack = enable }\n" + script
	if out, err := exec.Command(filepath.Join(bin, "btc"), "compile", "-e", script, "-o", object).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "btrun"), append(options, "-B", "line", object)...)
	var messages bytes.Buffer
	cmd.Stderr = &messages
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines = bufio.NewReader(out)
	done := false
	interrupt = func() { cmd.Process.Signal(syscall.SIGINT) }
	end = func() string {
		if !done {
			done = true
			interrupt()
			io.Copy(io.Discard, lines)
			cmd.Wait()
			cancel()
		}
		return messages.String()
	}
	t.Cleanup(func() {
		if text := end(); t.Failed() {
			t.Logf("messages:\n%s", text)
		}
	})
	return lines, interrupt, end
}

// next returns the next stack that the script prints between lines "stack" and "end"; nil at the end of the output.
func next(lines *bufio.Reader) (frames []uint64) {
	inside := false
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil
		}
		switch line = strings.TrimSpace(line); {
		case line == "stack":
			inside, frames = true, []uint64{}
		case line == "end" && inside:
			return frames
		case inside && line != "":
			addr, err := strconv.ParseUint(strings.TrimPrefix(line, "0x"), 16, 64)
			if err == nil {
				frames = append(frames, addr)
			}
		}
	}
}

// awaitStop waits until a process is stopped.
func awaitStop(t testing.TB, pid int) {
	t.Helper()
	for range 5000 {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b[bytes.LastIndexByte(b, ')'):], []byte(") T ")) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the process does not stop")
}

var gdbFrame = regexp.MustCompile(`(?m)^#(\d+) +(?:(0x[0-9a-f]+) in )?(\S+)`)

// truth returns the stack of a stopped process by gdb, without inlined functions, which have no address there. The first
// address is 0 if it begins a line.
func truth(t testing.TB, pid int) (frames []uint64) {
	t.Helper()
	out, err := exec.Command("gdb", "-q", "-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off",
		"-ex", "set backtrace past-main on", "-ex", "set backtrace past-entry on",
		"-p", strconv.Itoa(pid), "-ex", "bt").CombinedOutput()
	if err != nil {
		t.Skipf("skipped: gdb: %v\n%s", err, out)
	}
	for _, m := range gdbFrame.FindAllSubmatch(out, -1) {
		addr, _ := strconv.ParseUint(string(bytes.TrimPrefix(m[2], []byte("0x"))), 16, 64)
		if addr != 0 || len(frames) == 0 {
			frames = append(frames, addr)
		}
	}
	return frames
}

// samples is how many stacks of each program and probe are compared: gdb takes about a second for each.
func samples() int {
	if tier.Real.Runs() {
		return 12
	}
	return 3
}

// TestAgainstGDB compares stacks of programs without frame pointers. The first frame is not compared: an instruction of
// a uprobe may have been executed when the process stops.
func TestAgainstGDB(t *testing.T) {
	need(t, "gdb")
	all, whole, samples := 0, 0, samples()
	for _, p := range programs {
		for _, kind := range []string{"profile", "tracepoint", "uprobe"} {
			t.Run(p.name+"/"+kind, func(t *testing.T) {
				command := p.command
				if command == nil {
					command = []string{compileC(t)}
				} else {
					tier.Real.Need(t, "stacks of "+p.name)
				}
				need(t, command[0])
				here := strings.NewReplacer("DIR", t.TempDir())
				command = slices.Clone(command)
				for i := range command {
					command[i] = here.Replace(command[i])
				}
				if out, err := exec.Command("/bin/sh", "-c", here.Replace(p.setup)).CombinedOutput(); err != nil {
					t.Skipf("skipped: %v: %s", err, out)
				}
				pid := start(t, command)
				if p.ask != "" {
					ask := here.Replace(p.ask)
					need(t, strings.Fields(ask)[0])
					start(t, []string{"/bin/sh", "-c", "while " + ask + " || sleep 0.1; do :; done >/dev/null 2>&1"})
				}
				time.Sleep(200 * time.Millisecond) // it has loaded its libraries
				probe := "profile:hz:49"
				switch {
				case kind == "tracepoint":
					probe = "tracepoint:syscalls:sys_enter_" + p.syscall
				case kind == "uprobe" && strings.Contains(p.entry, ":"):
					probe = "uprobe:" + p.entry
				case kind == "uprobe":
					probe = "uprobe:" + command[0] + ":" + p.entry
				}
				lines, _, end := trace(t, probe+` /tid == `+strconv.Itoa(pid)+`/ { printf("stack\n%s\nend\n", dw_ustack(raw)); signal("SIGSTOP"); }`, "--unsafe", "-p", strconv.Itoa(pid))
				good := 0
				for range samples {
					got := next(lines)
					if got == nil {
						t.Fatalf("the run ended: %s", end())
					}
					awaitStop(t, pid)
					want := truth(t, pid)
					if len(want) < 2 {
						t.Fatalf("gdb finds %d frames", len(want))
					}
					switch {
					case len(got) == len(want) && slices.Equal(got[1:], want[1:]):
						good++
					case len(got) > len(want) || len(got) > 1 && !slices.Equal(got[1:], want[1:len(got)]):
						t.Errorf("wrong frames: %x\ngdb: %x", got, want)
					default:
						t.Logf("cut after %d of %d frames: %x\ngdb: %x", len(got), len(want), got, want)
					}
					syscall.Kill(pid, syscall.SIGCONT)
				}
				all, whole = all+samples, whole+good
				if good*100 < samples*85 {
					t.Errorf("%d of %d stacks are whole: %s", good, samples, end())
				}
			})
		}
	}
	t.Logf("%d of %d stacks are whole and equal", whole, all)
	if whole*100 < all*95 {
		t.Errorf("fewer than 95 %% are whole")
	}
}

// TestNewProcesses checks stacks of processes that start, fork, execute programs and load libraries while the run goes on:
// what is cut is counted, and nothing is a frame that is not there.
func TestNewProcesses(t *testing.T) {
	exe := compileOnce(t)
	lines, interrupt, end := trace(t, `uprobe:`+exe+`:leaf { printf("stack\n%s\nend\n", dw_ustack()); } interval:ms:50 { if (@ready == 0) { printf("ready\n"); @ready = 1; } }`)
	if line, err := lines.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v: %s", line, err, end())
	}
	const runs = 100
	go func() {
		for range runs {
			exec.Command("/bin/sh", "-c", exe+"; :").Run()
		}
		time.Sleep(300 * time.Millisecond)
		interrupt()
	}()
	want := []string{"leaf", "f3", "f2", "f1", "main"}
	all, whole := 0, 0
	for chain := range names(lines) {
		all++
		n := min(len(chain), len(want))
		if n == 0 || !slices.Equal(chain[:n], want[:n]) {
			t.Errorf("wrong frames: %q", chain)
		}
		if n == len(want) && chain[len(chain)-1] == "_start" {
			whole++
		}
	}
	text := end()
	t.Logf("%d of %d stacks are whole: %s", whole, all, text)
	if all != runs || whole == 0 { // how many depends on when btrun gets a CPU: on a quiet machine, nearly all
		t.Errorf("%d stacks of %d processes, %d whole", all, runs, whole)
	}
	if whole < all && !strings.Contains(text, fmt.Sprintf("%d of %d user stacks are cut short", all-whole, all)) {
		t.Errorf("%d stacks are cut, but the messages are: %s", all-whole, text)
	}
}

// firstSamples runs many short processes while a script takes a stack of each when it exits, and samples. It returns how
// many stacks there were and how many of them were cut, by reason, and checks that each process has one.
func firstSamples(t *testing.T, runs int, options ...string) (all, cut int, why string) {
	t.Helper()
	need(t, "bash", "perl", "python3")
	exe := compileOnce(t)
	commands := [][]string{{exe}, {"bash", "-c", "f() { exit 0; }; f"}, {"python3", "-S", "-c", "pass"}, {"perl", "-e", "sub f { exit 0 } f()"}}
	lines, interrupt, end := trace(t, `
tracepoint:syscalls:sys_enter_exit_group /comm == "once" || comm == "bash" || comm == "python3" || comm == "perl"/ { @exits[pid, dw_ustack(raw)] = count(); @stacks = count(); }
uprobe:`+exe+`:leaf { @leaf[pid, dw_ustack(3)] = count(); @stacks = count(); }
profile:hz:99 /comm == "once" || comm == "bash" || comm == "python3" || comm == "perl"/ { @samples[dw_ustack(raw)] = count(); @stacks = count(); }
interval:ms:50 { if (@ready == 0) { printf("ready\n"); @ready = 1; } }`, options...)
	if line, err := lines.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v: %s", line, err, end())
	}
	var pids []int
	go func() {
		defer interrupt()
		for i := range runs {
			cmd := exec.Command(commands[i%len(commands)][0], commands[i%len(commands)][1:]...)
			if cmd.Run(); cmd.Process != nil {
				pids = append(pids, cmd.Process.Pid)
			}
		}
	}()
	out, _ := io.ReadAll(lines)
	text := end()
	for _, pid := range pids {
		if !bytes.Contains(out, fmt.Appendf(nil, "@exits[%d, ", pid)) {
			t.Errorf("no stack of process %d", pid)
		}
	}
	if len(pids) != runs {
		t.Errorf("%d processes of %d", len(pids), runs)
	}
	total := regexp.MustCompile(`(?m)^@stacks: (\d+)$`).FindSubmatch(out)
	if total == nil {
		t.Fatalf("no number of stacks: %s", out)
	}
	all, _ = strconv.Atoi(string(total[1]))
	if m := regexp.MustCompile(`(\d+) of (\d+) user stacks are cut short \((.*)\)`).FindStringSubmatch(text); m != nil {
		cut, _ = strconv.Atoi(m[1])
		if m[2] != string(total[1]) {
			t.Errorf("the counts are of %s stacks, there were %d", m[2], all)
		}
		why = m[3]
	}
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?ms)^@exits\[.*?\n\]: `).FindAllString(string(out), -1) {
		if seen[m] {
			t.Errorf("two elements for one key: %s", m)
		}
		seen[m] = true
	}
	t.Logf("%d of %d stacks are whole; %s", all-cut, all, why)
	return all, cut, why
}

// TestFirstSamples checks that the first stacks of processes that live for milliseconds are whole: 89 to 92 % were. Most of
// the others are samples within exec, before the pages of the new program are resident.
func TestFirstSamples(t *testing.T) {
	runs := 60
	if tier.Real.Runs() {
		runs = 1000
	}
	if all, cut, why := firstSamples(t, runs, "--raw-stacks", "64,5000"); 20*cut > 3*all {
		t.Errorf("%d of %d stacks are cut: %s", cut, all, why)
	}
}

// TestFewRawStacks checks that what is sent to be unwound is bounded, and that each stack is counted.
func TestFewRawStacks(t *testing.T) {
	for _, limit := range []string{"0", "1,3"} {
		if _, cut, why := firstSamples(t, 16, "--raw-stacks", limit); cut == 0 || !strings.Contains(why, "not yet known") {
			t.Errorf("--raw-stacks %s: %d stacks are cut: %s", limit, cut, why)
		}
	}
}

// compileOnce compiles a program that calls a function and ends.
func compileOnce(t testing.TB) string {
	need(t, "gcc")
	dir := t.TempDir()
	src, exe := filepath.Join(dir, "once.c"), filepath.Join(dir, "once")
	text := `#include <unistd.h>
volatile long sink;
#define F(name, next, words) __attribute__((noipa)) long name(long n) { long a[words]; for (int i = 0; i < words; i++) a[i] = sink + n; return next(n + 1) + a[sink & 3]; }
__attribute__((noipa)) long leaf(long n) { return sink += n; }
F(f3, leaf, 70) F(f2, f3, 8) F(f1, f2, 300)
int main(void) { usleep(20000); return f1(0) == 7; }
`
	if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-O2", "-fomit-frame-pointer", "-o", exe, src).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

// names yields the functions of each stack.
func names(lines *bufio.Reader) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		inside, chain := false, []string(nil)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			switch line = strings.TrimSpace(line); {
			case line == "stack":
				inside, chain = true, nil
			case line == "end" && inside:
				inside = false
				if !yield(chain) {
					return
				}
			case inside && line != "":
				name, _, _ := strings.Cut(line, "+")
				chain = append(chain, name)
			}
		}
	}
}
