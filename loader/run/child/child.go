// SPDX-License-Identifier: Apache-2.0

// Package child is the process of -c: Start creates it before the probes are attached, and Resume lets it execute the
// command afterwards. It looks up the command's executable, and never interprets its words as a shell would, except for
// quotes.
package child

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"btc/internal/safefile"
)

// Process is the process of -c. It waits for a byte on a pipe before it executes the command. So the
// process ID is known, and no part of the command has run, when the probes are attached.
type Process struct {
	PID    int
	Path   string // of the program that the command starts
	proc   *os.Process
	gate   *os.File // a byte written here lets the child continue
	result *os.File // the child writes a byte when it is ready, then the error if exec fails
	done   chan struct{}
}

// childName is argv[0] of this program when it runs as the waiting process.
const childName = "btrun-child"

// File descriptors in the waiting process; the stub uses the same numbers.
const (
	gateFD   = 3
	resultFD = 4
	stubFD   = 5
)

// Any program started under this name becomes the waiting process, on hosts where the stub cannot be
// used.
func init() {
	if len(os.Args) > 3 && os.Args[0] == childName {
		fmt.Fprintln(os.Stderr, "btrun:", becomeChild(os.Args))
		os.Exit(127)
	}
}

// becomeChild does the same as the stub. It returns only on error.
func becomeChild(args []string) error {
	// The caller of a set-user-ID program controls its arguments.
	if unix.Getuid() != unix.Geteuid() {
		return errors.New("a set-user-ID btrun cannot start a command")
	}
	path, name, args := args[1], args[2], args[3:]
	tasks, _ := safefile.Entries("/proc/self/task")
	for _, t := range tasks {
		os.WriteFile("/proc/self/task/"+t.Name()+"/comm", []byte(name), 0) // the thread may exit in the meantime
	}
	for _, fd := range []int{gateFD, resultFD} {
		unix.CloseOnExec(fd)
	}
	gate, result := os.NewFile(gateFD, "gate"), os.NewFile(resultFD, "result")
	result.Write([]byte{'w'})
	var b [1]byte
	if n, _ := gate.Read(b[:]); n != 1 {
		os.Exit(1) // the tracer exited first, and has reported the reason
	}
	err := unix.Exec(path, args, os.Environ())
	if errno, ok := err.(unix.Errno); ok {
		result.Write(binary.NativeEndian.AppendUint64(nil, -uint64(errno)))
		os.Exit(1)
	}
	return err
}

// words splits a command into words. A command with quotes or backslashes is split as a shell
// would: '...' and "..." may contain spaces, and a backslash escapes the next character. Otherwise
// words are separated by single spaces, as in bpftrace.
func words(command string) ([]string, error) {
	if !strings.ContainsAny(command, `'"\`) {
		return strings.Split(command, " "), nil
	}
	var all []string
	var word []byte
	inWord, quote := false, byte(0)
	for i := 0; i < len(command); i++ {
		c := command[i]
		switch {
		case c == quote:
			quote = 0
		case c == '\\' && quote != '\'':
			i++
			if i == len(command) {
				return nil, errors.New("-c: backslash at the end of the command")
			}
			if quote == '"' && !strings.ContainsRune("\"\\$`", rune(command[i])) { // the backslash is literal
				word = append(word, '\\')
			}
			word, inWord = append(word, command[i]), true
		case quote == 0 && (c == '\'' || c == '"'):
			quote, inWord = c, true
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n'):
			if inWord {
				all = append(all, string(word))
			}
			word, inWord = word[:0], false
		default:
			word, inWord = append(word, c), true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("-c: unclosed %c", quote)
	}
	if inWord {
		all = append(all, string(word))
	}
	if len(all) == 0 || all[0] == "" {
		return nil, errors.New("-c: the command is empty")
	}
	return all, nil
}

// Start starts the process that waits to execute the command.
func Start(command string) (*Process, error) {
	stub := openStub()
	defer stub.Close()
	return start(command, stub)
}

// start starts the waiting process. It uses the stub. If there is no stub or it cannot be executed, it uses this
// program.
func start(command string, stub *os.File) (*Process, error) {
	args, err := words(command)
	if err != nil {
		return nil, err
	}
	path, err := lookPath(args[0])
	if err != nil {
		return nil, err
	}
	gateR, gateW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer gateR.Close()
	resultR, resultW, err := os.Pipe()
	if err != nil {
		gateW.Close()
		return nil, err
	}
	defer resultW.Close()
	c := &Process{Path: path, gate: gateW, result: resultR, done: make(chan struct{})}
	args = append([]string{path, ownComm()}, args...)
	if c.proc, err = startWaiting(args, gateR, resultW, stub); err != nil {
		c.closePipes()
		return nil, fmt.Errorf("-c %s: %w", command, err)
	}
	c.PID = c.proc.Pid
	go func() {
		c.proc.Wait()
		close(c.done)
	}()
	resultW.Close()
	if _, err := io.ReadFull(resultR, make([]byte, 1)); err != nil {
		c.Kill()
		return nil, fmt.Errorf("-c %s: its process exited before the command could start", command)
	}
	return c, nil
}

// ownComm returns the kernel's comm of this process. The waiting process has it until it executes
// the command, like bpftrace's: a predicate on the command's comm is false for the execve itself and
// for the opens before it.
func ownComm() string {
	b, err := os.ReadFile("/proc/self/comm")
	if err != nil { // without /proc
		name := filepath.Base(os.Args[0])
		return name[:min(len(name), 15)]
	}
	return strings.TrimSuffix(string(b), "\n")
}

// startWaiting starts the stub, or this program if the stub is not permitted.
func startWaiting(args []string, gate, result, stub *os.File) (*os.Process, error) {
	attr := &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, gate, result}}
	// The child gets a signal when the thread that started it exits; only the main thread is sure
	// to live as long as the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.Gettid() == unix.Getpid() {
		attr.Sys = &unix.SysProcAttr{Pdeathsig: unix.SIGTERM}
	}
	if stub != nil {
		withStub := *attr
		withStub.Files = append(attr.Files[:stubFD:stubFD], stub)
		if p, err := os.StartProcess(fmt.Sprintf("/proc/self/fd/%d", stubFD), args, &withStub); err == nil {
			return p, nil
		}
	}
	return os.StartProcess("/proc/self/exe", append([]string{childName}, args...), attr)
}

// lookPath finds the executable of a command.
func lookPath(name string) (string, error) {
	dirs := []string{""}
	if !strings.Contains(name, "/") {
		dirs = filepath.SplitList(os.Getenv("PATH"))
	}
	for _, dir := range dirs {
		path := name
		if dir != "" {
			path = filepath.Join(dir, name)
		}
		if fi, err := os.Stat(path); name != "" && err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("-c: Path '%s' does not exist or is not executable", name)
}

// Resume lets the process execute the command, and returns when it has done so.
func (c *Process) Resume() error {
	c.gate.Write([]byte{1}) // if the process is gone, the command has ended
	var code [8]byte
	if _, err := io.ReadFull(c.result, code[:]); err != nil {
		c.closePipes()
		return nil // closed by a successful exec
	}
	errno := unix.Errno(-int64(binary.NativeEndian.Uint64(code[:])))
	if errors.Is(errno, unix.ENOEXEC) {
		return fmt.Errorf("-c: cannot run the command: %w (a script needs a first line such as #!/bin/sh)", errno)
	}
	return fmt.Errorf("-c: cannot run the command: %w", errno)
}

// Wait waits until the process has exited.
func (c *Process) Wait() { <-c.done }

// Timeouts for the command.
const (
	// lingerTime is how long the command may run if there is nothing to trace. A short command,
	// such as echo, ends within it even on a busy machine.
	lingerTime = time.Second
	// killTime is the grace period after SIGTERM, and again after SIGKILL.
	killTime = time.Second
)

// Linger waits for the command to exit, up to lingerTime. The receiver may be nil.
func (c *Process) Linger() {
	if c != nil {
		c.ended(lingerTime)
	}
}

// ended reports whether the command exits before the timeout.
func (c *Process) ended(within time.Duration) bool {
	select {
	case <-c.done:
		return true
	case <-time.After(within):
		return false
	}
}

// Kill terminates the command if it is still running.
func (c *Process) Kill() {
	c.closePipes()
	for _, sig := range []os.Signal{unix.SIGTERM, unix.SIGKILL} {
		select {
		case <-c.done:
			return
		default:
		}
		c.proc.Signal(sig)
		if c.ended(killTime) {
			return
		}
	}
}

func (c *Process) closePipes() {
	c.gate.Close()
	c.result.Close()
}
