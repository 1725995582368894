// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestMain makes the test binary btrun itself when the test below starts it.
func TestMain(m *testing.M) {
	if os.Getenv("BTRUN_TEST_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// btrun runs a command line of btrun and returns what it writes and its status.
func btrun(t *testing.T, args ...string) (out, errs string, status int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "BTRUN_TEST_MAIN=1")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.Sys().(syscall.WaitStatus).ExitStatus()
}

// TestProgram checks that the program passes on its arguments, streams, version and status.
func TestProgram(t *testing.T) {
	if out, errs, status := btrun(t, "--version"); out != "btrun devel\n" || errs != "" || status != 0 {
		t.Errorf("--version: %q, %q, status %d", out, errs, status)
	}
	if out, errs, status := btrun(t, "nosuch.o"); out != "" || !strings.HasPrefix(errs, "btrun: ") || !strings.Contains(errs, "nosuch.o") || status != 1 {
		t.Errorf("nosuch.o: %q, %q, status %d", out, errs, status)
	}
	if out, errs, status := btrun(t); out != "" || errs == "" || status != 1 {
		t.Errorf("no arguments: %q, %q, status %d", out, errs, status)
	}
}
