// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// inside is set in the environment of the process with its own mounts.
const inside = "BTC_BENCH_INSIDE"

// enter starts the program again in a mount namespace of its own, in which bpftrace can be started with
// a plain chroot, so that nothing else is timed.
func enter() int {
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "bench: needs root")
		return 1
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			return e.ExitCode()
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

// A tool can trace a script.
type tool interface {
	name() string
	// compile only compiles, to the object file if the tool makes one.
	compile(script, object string) *exec.Cmd
	// prepare does the work that is needed once per script and returns a function for the command that
	// traces it. The output goes to the file out unless it is "".
	prepare(script, out string) (func() *exec.Cmd, error)
}

type btcTool struct{ dir string }

func (btcTool) name() string { return "btc" }

func (t btcTool) compile(script, object string) *exec.Cmd {
	return exec.Command(filepath.Join(t.dir, "btc"), "compile", script, "-o", object)
}

func (t btcTool) prepare(script, out string) (func() *exec.Cmd, error) {
	if msg, err := t.compile(script, t.object(script)).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%v\n%s", err, msg)
	}
	return t.run(script, out), nil
}

func (t btcTool) object(script string) string { return filepath.Join(t.dir, scriptName(script)+".o") }

// run returns the command that traces with the object of a script.
func (t btcTool) run(script, out string) func() *exec.Cmd {
	args := []string{"--unsafe", t.object(script)}
	if out != "" {
		args = append([]string{"-o", out}, args...)
	}
	return func() *exec.Cmd { return exec.Command(filepath.Join(t.dir, "btrun"), args...) }
}

// earlierTool is an earlier btc.
type earlierTool struct{ btcTool }

func (earlierTool) name() string { return "earlier btc" }

// refTool is bpftrace, in a root directory of its own unless chroot is "". It searches the directory
// include for included files.
type refTool struct{ chroot, include, version string }

func (refTool) name() string { return "bpftrace" }

// reference finds bpftrace and mounts the file systems that it needs.
func reference(root, dir string) (refTool, error) {
	oracle := os.Getenv("ORACLE")
	if oracle == "" {
		oracle = filepath.Join(root, "build/oracle")
	}
	t := refTool{chroot: filepath.Join(oracle, "root"), include: filepath.Join(dir, "include")}
	if err := writeHeaders(t.include); err != nil {
		return t, err
	}
	if _, err := os.Stat(filepath.Join(t.chroot, "usr/bin/bpftrace")); err != nil {
		return t, fmt.Errorf("no reference bpftrace: run tests/setup/oracle.sh (%v)", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return t, fmt.Errorf("mount namespace: %v", err)
	}
	if _, err := os.Stat("/sys/kernel/tracing/events"); err != nil {
		if err := unix.Mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, ""); err != nil {
			return t, fmt.Errorf("tracefs: %v", err)
		}
	}
	for _, d := range []string{"/proc", "/sys", "/dev", "/tmp", root, dir} {
		at := t.chroot + d
		if err := os.MkdirAll(at, 0o755); err != nil {
			return t, err
		}
		if err := unix.Mount(d, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return t, fmt.Errorf("mounting %s: %v", d, err)
		}
	}
	out, err := t.command("--version").Output()
	t.version = strings.TrimSpace(string(out))
	return t, err
}

func (t refTool) command(args ...string) *exec.Cmd {
	cmd := exec.Command("/usr/bin/bpftrace", args...)
	cmd.Err = nil // the path is in the chroot
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: t.chroot}
	return cmd
}

func (t refTool) compile(script, _ string) *exec.Cmd {
	return t.command("-I", t.include, "--mode", "codegen", script)
}

func (t refTool) prepare(script, out string) (func() *exec.Cmd, error) {
	args := []string{"-I", t.include, "--unsafe", script}
	if out != "" {
		args = append([]string{"-o", out}, args...)
	}
	return func() *exec.Cmd { return t.command(args...) }, nil
}

// tracer is a running tool with its probes attached.
type tracer struct {
	cmd      *exec.Cmd
	attached time.Duration // time from the start to the message
	said     string        // the message that reports it
	mu       sync.Mutex
	first    time.Duration // time to the first line of output after that; 0 if there was none
	started  time.Time
	lines    chan string // lines of both outputs after attaching
	done     chan struct{}
}

const patience = 60 * time.Second

// start starts a tracer and waits until it is attached.
func start(command *exec.Cmd) (*tracer, error) {
	t := &tracer{cmd: command, lines: make(chan string, 4096), done: make(chan struct{})}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if t.cmd.SysProcAttr == nil {
		t.cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	t.cmd.Stdout, t.cmd.Stderr = w, w
	t.started = time.Now()
	err = t.cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, err
	}
	attached := make(chan struct{})
	var head bytes.Buffer
	go func() {
		defer close(t.done)
		defer close(t.lines)
		defer r.Close()
		in := bufio.NewReaderSize(r, 1<<20)
		ready := false
		for {
			line, err := in.ReadString('\n')
			switch {
			case strings.HasPrefix(line, "Attached ") && !ready:
				t.attached, ready, t.said = time.Since(t.started), true, line
				close(attached)
			case !ready:
				head.WriteString(line)
			case line != "":
				t.mu.Lock()
				if t.first == 0 {
					t.first = time.Since(t.started)
				}
				t.mu.Unlock()
				select {
				case t.lines <- line:
				default: // no longer counted
				}
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case <-attached:
		return t, nil
	case <-t.done:
		err := t.cmd.Wait()
		return nil, fmt.Errorf("%v: %s", err, tail(head.String()))
	case <-time.After(patience):
		t.cmd.Process.Kill()
		t.cmd.Wait()
		return nil, fmt.Errorf("not attached after %v: %s", patience, tail(head.String()))
	}
}

func (t *tracer) firstLine() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first
}

// awaitLine waits up to 5 seconds for the first line of output.
func (t *tracer) awaitLine() {
	for end := time.Now().Add(5 * time.Second); t.firstLine() == 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
}

func tail(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "WARNING") })
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}

// stop ends a tracer. It returns the time from the signal to the exit, and the output.
func (t *tracer) stop() (time.Duration, string, error) {
	began := time.Now()
	t.cmd.Process.Signal(unix.SIGINT)
	var text strings.Builder
	timer := time.AfterFunc(patience, func() { t.cmd.Process.Kill() })
	defer timer.Stop()
	for line := range t.lines {
		text.WriteString(line)
	}
	err := t.cmd.Wait()
	return time.Since(began), text.String(), err
}

// program is a loaded BPF program of a tracer.
type program struct {
	*ebpf.Program
	id       ebpf.ProgramID
	name     string
	insns    int // in the kernel, in slots of 8 bytes
	verified int
	jited    int
}

func closeAll(list []program) {
	for _, p := range list {
		p.Close()
	}
}

// programs returns the BPF programs of a process in the order in which they were loaded.
func (t *tracer) programs() ([]program, error) {
	dir := fmt.Sprintf("/proc/%d/fdinfo", t.cmd.Process.Pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []program
	seen := map[ebpf.ProgramID]bool{}
	for _, fd := range fds {
		text, err := os.ReadFile(filepath.Join(dir, fd.Name()))
		if err != nil {
			continue
		}
		_, after, ok := strings.Cut(string(text), "prog_id:")
		if !ok {
			continue
		}
		n, err := strconv.Atoi(strings.Fields(after)[0])
		id := ebpf.ProgramID(n)
		if err != nil || n == 0 || seen[id] {
			continue
		}
		seen[id] = true
		p, err := look(id)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b program) int { return int(a.id) - int(b.id) })
	return list, nil
}

func look(id ebpf.ProgramID) (program, error) {
	p := program{id: id}
	var err error
	if p.Program, err = ebpf.NewProgramFromID(id); err != nil {
		return p, err
	}
	info, err := p.Info()
	if err != nil {
		return p, err
	}
	size, err := info.TranslatedSize()
	if err != nil {
		return p, err
	}
	jited, _ := info.JitedSize()
	verified, _ := info.VerifiedInstructions()
	p.name, p.insns, p.verified, p.jited = info.Name, size/8, int(verified), int(jited)
	return p, nil
}

// usage returns the resources used by a process.
func (t *tracer) usage() (cpu time.Duration, residentKiB int, err error) {
	dir := fmt.Sprintf("/proc/%d/", t.cmd.Process.Pid)
	// schedstat has a resolution of a nanosecond; a tick in stat is 10 ms.
	tasks, err := os.ReadDir(dir + "task")
	if err != nil {
		return 0, 0, err
	}
	for _, task := range tasks {
		text, err := os.ReadFile(dir + "task/" + task.Name() + "/schedstat")
		if err != nil {
			continue
		}
		ns, _ := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		cpu += time.Duration(ns)
	}
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		return 0, 0, err
	}
	_, peak, ok := strings.Cut(string(status), "VmHWM:")
	if !ok {
		return cpu, 0, io.ErrUnexpectedEOF
	}
	residentKiB, err = strconv.Atoi(strings.Fields(peak)[0])
	return cpu, residentKiB, err
}
