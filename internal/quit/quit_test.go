// SPDX-License-Identifier: Apache-2.0

//go:build unix

package quit

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain makes the test the program that is ended: argv[1] is what it does.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && strings.HasPrefix(os.Args[1], "do-") {
		Catch("prog")
		switch os.Args[1] {
		case "do-before":
			Before(func() { os.Stderr.WriteString("restored\n") })
		case "do-release":
			Release()
		}
		os.Stdout.WriteString("ready\n")
		time.Sleep(time.Minute)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// quitted runs this test as a program, sends it SIGQUIT, and returns its exit status and standard error.
func quitted(t *testing.T, do string, env ...string) (int, string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", do)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip("skipped: ", err)
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q", line)
	}
	cmd.Process.Signal(syscall.SIGQUIT)
	cmd.Wait()
	return cmd.ProcessState.ExitCode(), stderr.String()
}

// SIGQUIT ends a program with one line; GOTRACEBACK brings back the stacks of all goroutines.
func TestQuit(t *testing.T) {
	for _, c := range []struct{ do, env, want string }{
		{"do-wait", "GOTRACEBACK=", "prog: quit\n"},
		{"do-before", "GOTRACEBACK=", "restored\nprog: quit\n"},
	} {
		if code, out := quitted(t, c.do, c.env); code != Status || out != c.want {
			t.Errorf("%s %s: status %d, %q", c.do, c.env, code, out)
		}
	}
	for _, c := range []struct{ do, env string }{{"do-wait", "GOTRACEBACK=all"}, {"do-wait", "GOTRACEBACK=single"}, {"do-release", "GOTRACEBACK="}} {
		if code, out := quitted(t, c.do, c.env); code != 2 || !strings.Contains(out, "goroutine") || strings.Contains(out, "prog:") {
			t.Errorf("%s %s: status %d, %.200q", c.do, c.env, code, out)
		}
	}
}
