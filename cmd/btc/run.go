package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

// runRun compiles to a temporary place and traces at once.
func runRun(args []string) int {
	var s scriptFlags
	flags := newFlags("run", "FILE.bt | -e PROGRAM [btrun options and parameters]")
	s.add(flags)
	if err := flags.Parse(args); err != nil {
		return flagStatus(flags, err)
	}
	operands := flags.Args()
	name, text, err := s.script(operands)
	if err != nil {
		return fail("%v", err)
	}
	if !s.isExpr {
		operands = operands[1:]
	}
	out, status := s.compile(name, text)
	if out == nil {
		return status
	}
	dir, err := os.MkdirTemp("", "btc")
	if err != nil {
		return fail("%v", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "script.o")
	if err := writeBoth(path, out); err != nil {
		return fail("%v", err)
	}
	return trace(append([]string{path}, operands...))
}

// trace runs the btrun that lies beside this program and gives its status. A
// signal meant to end the tracing ends btrun, which prints the maps; we stay
// until then, and clean up.
func trace(args []string) int {
	self, err := os.Executable()
	if err != nil {
		return fail("%v", err)
	}
	btrun := filepath.Join(filepath.Dir(self), "btrun")
	cmd := exec.Command(btrun, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fail("btc run needs btrun beside it, and there is no %s", btrun)
		}
		return fail("cannot run btrun: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			if sig != syscall.SIGINT { // the terminal sends that one to btrun, too
				cmd.Process.Signal(sig)
			}
		case <-ended:
			if code := cmd.ProcessState.ExitCode(); code >= 0 {
				return code
			}
			return fail("btrun: %v", cmd.ProcessState)
		}
	}
}
