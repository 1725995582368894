package main

import (
	"os"
	"os/exec"
	"path/filepath"
)

// runRun compiles to a temporary place and traces at once.
func runRun(args []string) int {
	var s scriptFlags
	fs := newFlags("run", "FILE.bt | -e PROGRAM [btrun options and parameters]")
	s.add(fs)
	if err := fs.Parse(args); err != nil {
		return flagStatus(err)
	}
	operands := fs.Args()
	name, text, err := s.script(operands)
	if err != nil {
		return fail("%v", err)
	}
	if s.expr == "" {
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
	self, _ := os.Executable()
	cmd := exec.Command(filepath.Join(filepath.Dir(self), "btrun"), append([]string{path}, operands...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		if cmd.ProcessState == nil {
			return fail("%v", err)
		}
		return cmd.ProcessState.ExitCode()
	}
	return 0
}
