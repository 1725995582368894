package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// child is the process of -c. It is started from our own binary, which waits for
// a byte on a pipe before it becomes the command: so its process ID is known and
// nothing of the command has run when the probes are attached.
type child struct {
	proc *os.Process
	pid  int
	pipe *os.File
	done chan struct{}
}

// childName is argv[0] of the waiting process.
const childName = "btrun-child"

// gateFD is where the waiting process reads.
const gateFD = 3

// IsChild tells whether this process was started to become a command.
func IsChild(args []string) bool { return len(args) > 1 && args[0] == childName }

// BecomeChild waits until the probes are attached and runs the command; it
// returns only when that fails.
func BecomeChild(args []string) error {
	gate := os.NewFile(gateFD, "gate")
	var b [1]byte
	if n, _ := gate.Read(b[:]); n != 1 {
		os.Exit(1) // the tracer ended before, and has said why
	}
	gate.Close()
	return unix.Exec(args[1], args[1:], os.Environ())
}

func startChild(command string) (*child, error) {
	args := strings.Split(command, " ")
	path, err := lookPath(args[0])
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	args[0] = path
	p, err := os.StartProcess("/proc/self/exe", append([]string{childName}, args...), &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, r},
	})
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("-c %s: %w", command, err)
	}
	c := &child{proc: p, pid: p.Pid, pipe: w, done: make(chan struct{})}
	go func() {
		c.proc.Wait()
		close(c.done)
	}()
	return c, nil
}

func lookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		if _, err := os.Stat(name); err != nil {
			return "", fmt.Errorf("-c: %w", err)
		}
		return name, nil
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("-c: there is no program %q in PATH", name)
}

func (c *child) resume() {
	c.pipe.Write([]byte{1})
	c.pipe.Close()
}

func (c *child) wait() { <-c.done }

// kill ends the command when it still runs.
func (c *child) kill() {
	c.pipe.Close()
	select {
	case <-c.done:
	default:
		c.proc.Signal(unix.SIGTERM)
	}
}
