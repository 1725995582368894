// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stubs are the programs that the process of a command may execute before the command.
func stubs(t *testing.T) map[string]*os.File {
	t.Helper()
	s := map[string]*os.File{"this program": nil}
	if f := openStub(); f != nil {
		t.Cleanup(func() { f.Close() })
		s["stub"] = f
	}
	return s
}

func proc(t *testing.T, c *Process, file string) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", c.PID, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func entries(t *testing.T, c *Process, dir string) []string {
	t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/%s", c.PID, dir))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// TestChild checks that the process of -c has the tracer's name at first, in every thread, and then
// executes the command, which inherits nothing of ours.
func TestChild(t *testing.T) {
	// A name longer than the 15 bytes that the kernel keeps.
	path := filepath.Join(t.TempDir(), "sleeps-for-a-long-time")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	if err := os.Symlink(sleep, path); err != nil {
		t.Fatal(err)
	}
	for name, stub := range stubs(t) {
		t.Run(name, func(t *testing.T) {
			c, err := start(path+" 100", stub)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Kill()
			own, err := os.ReadFile("/proc/self/comm")
			if err != nil {
				t.Fatal(err)
			}
			threads := entries(t, c, "task")
			for _, id := range threads {
				if comm := proc(t, c, "task/"+id+"/comm"); comm != string(own) {
					t.Errorf("comm of %s before the command starts = %q, want %q", id, comm, own)
				}
			}
			if stub != nil && len(threads) != 1 {
				t.Errorf("%d threads", len(threads))
			}
			var pipes []string
			for _, f := range []*os.File{c.gate, c.result} {
				file, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
				if err != nil {
					t.Fatal(err)
				}
				pipes = append(pipes, file)
			}
			if err := c.Resume(); err != nil {
				t.Fatal(err)
			}
			if comm := proc(t, c, "comm"); comm != "sleeps-for-a-lo\n" {
				t.Errorf("comm of the command = %q", comm)
			}
			if got := proc(t, c, "cmdline"); got != path+"\x00100\x00" {
				t.Errorf("arguments = %q", got)
			}
			for _, fd := range entries(t, c, "fd") {
				file, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", c.PID, fd))
				if strings.Contains(file, "memfd:") || slices.Contains(pipes, file) {
					t.Errorf("process inherited descriptor %s: %s", fd, file)
				}
			}
			c.Kill()
			if !c.ended(10 * time.Second) {
				t.Error("process still running")
			}
		})
	}
}

// TestChildInherits checks that a command gets the same limits, signals and environment as from
// exec.Command.
func TestChildInherits(t *testing.T) {
	script := filepath.Join(t.TempDir(), "show")
	text := "#!/bin/sh\n" + `exec >"$1"; ulimit -n; grep -E "^Sig(Blk|Ign|Cgt)" /proc/self/status; env | sort` + "\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	out := func() string { return filepath.Join(t.TempDir(), "out") }
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	plain := out()
	if err := exec.Command(script, plain).Run(); err != nil {
		t.Skip("skipped: ", err)
	}
	for name, stub := range stubs(t) {
		t.Run(name, func(t *testing.T) {
			path := out()
			c, err := start(script+" "+path, stub)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Resume(); err != nil {
				t.Fatal(err)
			}
			c.Wait()
			if got, want := read(path), read(plain); got != want {
				t.Errorf("%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestChildRefused checks that a command that cannot be executed is an error, and that its process does
// not remain.
func TestChildRefused(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("no program\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, stub := range stubs(t) {
		t.Run(name, func(t *testing.T) {
			for _, command := range []string{"", " true", "no-such-command", dir, "/dev/null"} {
				if _, err := start(command, stub); err == nil || !strings.Contains(err.Error(), "does not exist or is not executable") {
					t.Errorf("%q: error = %v", command, err)
				}
			}
			c, err := start(bad, stub)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Resume(); !errors.Is(err, unix.ENOEXEC) || !strings.Contains(err.Error(), "a script needs a first line such as #!/bin/sh") {
				t.Errorf("error = %v", err)
			}
			if !c.ended(10 * time.Second) {
				t.Error("process of a command that cannot be run still exists")
			}
			// Another error has no hint about scripts.
			interpreter := filepath.Join(dir, "interpreter")
			if err := os.WriteFile(interpreter, []byte("#!"+dir+"/no-such\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			if c, err = start(interpreter, stub); err != nil {
				t.Fatal(err)
			}
			if err := c.Resume(); !errors.Is(err, unix.ENOENT) || strings.Contains(err.Error(), "#!") {
				t.Errorf("missing interpreter: error = %v", err)
			}
			if c, err = start("true", stub); err != nil {
				t.Fatal(err)
			}
			c.gate.Close() // as if the tracer exited
			if !c.ended(10 * time.Second) {
				t.Error("process still exists after the gate was closed")
			}
		})
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		command string
		want    []string
		err     string
	}{
		{"echo a b", []string{"echo", "a", "b"}, ""},
		{"echo  a", []string{"echo", "", "a"}, ""}, // as in bpftrace
		{`sh -c 'echo "a  b"; exit'`, []string{"sh", "-c", `echo "a  b"; exit`}, ""},
		{`echo  "a \"b\" \n $x" c\ d ''`, []string{"echo", `a "b" \n $x`, "c d", ""}, ""},
		{`a'b'"c"d`, []string{"abcd"}, ""},
		{`echo 'a`, nil, "-c: unclosed '"},
		{`echo "a`, nil, `-c: unclosed "`},
		{`echo \`, nil, "-c: backslash at the end of the command"},
		{`''`, nil, "-c: the command is empty"},
	} {
		got, err := words(c.command)
		if !slices.Equal(got, c.want) || (err != nil || c.err != "") && fmt.Sprint(err) != c.err {
			t.Errorf("words of %s = %q, error = %v", c.command, got, err)
		}
	}
}
