// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// bootable returns a configuration with a kernel to boot; without one, it skips the test.
func bootable(t *testing.T, kernel string) Config {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: boots a kernel under emulation (-short)")
	}
	found, err := FindImage("../../../build/kernels", kernel)
	if err != nil {
		t.Skip("skipped: ", err)
	}
	qemu, err := FindQEMU("../../../build/qemu", found)
	if err != nil {
		t.Skip("skipped: ", err)
	}
	return Config{QEMU: qemu, Image: found}
}

func TestRun(t *testing.T) {
	for _, kernel := range []string{"6.1", "6.1-arm64"} {
		t.Run(kernel, func(t *testing.T) { testRun(t, bootable(t, kernel)) })
	}
}

func testRun(t *testing.T, c Config) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("from the host\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out.tar")
	c.OutTar = out
	c.Env = []string{"WORD=it's"}
	c.Puts = []Put{{Host: file, Guest: "/deep/er/file"}}
	c.Command = []string{`cat /deep/er/file; echo "$WORD" >&2; echo result >/out/r; exit 7`}
	r, err := Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if string(r.Stdout) != "from the host\n" || string(r.Stderr) != "it's\n" || r.Exit != 7 {
		t.Errorf("stdout %q, stderr %q, exit status %d", r.Stdout, r.Stderr, r.Exit)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(bytes.NewReader(b))
	for {
		h, err := archive.Next()
		if err == io.EOF {
			t.Fatal("/out/r is missing in the archive")
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(h.Name, "/r") {
			break
		}
	}
	if text, err := io.ReadAll(archive); err != nil || string(text) != "result\n" {
		t.Errorf("/out/r is %q, error %v", text, err)
	}
}

// TestRunNoExitStatus checks that a guest that dies or hangs is an error, no matter what its command
// printed before.
func TestRunNoExitStatus(t *testing.T) {
	base := bootable(t, "6.1")
	for name, c := range map[string]Config{
		"panic": {Command: []string{"echo before; echo c >/proc/sysrq-trigger"}},
		"hang":  {Command: []string{"echo before; sleep 1000"}, Silence: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			c.QEMU, c.Image = base.QEMU, base.Image
			_, err := Run(context.Background(), c)
			var died *GuestError
			if !errors.As(err, &died) || string(died.Stdout) != "before\n" {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestSlowGuest checks that a guest that writes something may take longer than the limit of silence.
func TestSlowGuest(t *testing.T) {
	c := bootable(t, "6.1")
	c.Silence = 10 * time.Second
	c.Command = []string{"for i in 1 2 3; do echo $i; sleep 4; done"}
	reported := 0
	c.Progress = func(stdout []byte) { reported = len(stdout) }
	r, err := Run(context.Background(), c)
	if err != nil || string(r.Stdout) != "1\n2\n3\n" || r.Run < c.Silence || reported == 0 {
		t.Errorf("%v, %+v, %d bytes reported", err, r, reported)
	}
}

// TestKilled checks that a killed test leaves no QEMU behind. Its QEMU is a shell that sleeps.
func TestKilled(t *testing.T) {
	if file := os.Getenv("BTC_VM_PID_FILE"); file != "" { // the process that is killed
		runQEMU(context.Background(), "/bin/sh", []string{"-c", "echo $$ >" + file + ".new && mv " + file + ".new " + file + "; exec sleep 1000"})
		return
	}
	file := filepath.Join(t.TempDir(), "pid")
	victim := exec.Command(os.Args[0], "-test.run", "^TestKilled$")
	victim.Env = append(os.Environ(), "BTC_VM_PID_FILE="+file)
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	var text []byte
	wait(t, "the program to start", func() bool { text, _ = os.ReadFile(file); return len(text) > 0 })
	victim.Process.Kill()
	victim.Wait()
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	wait(t, "the program to end", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || bytes.Contains(stat, []byte(") Z "))
	})
}

func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	for start := time.Now(); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("no sign of ", what)
		}
	}
}

func TestParseControl(t *testing.T) {
	c := parseControl([]byte("start 2.50\nend 4.00\nexit 3\n"))
	if !c.exited || c.exit != 3 || c.start != 2500*time.Millisecond || c.end != 4*time.Second {
		t.Errorf("parseControl() = %+v", c)
	}
	if c := parseControl([]byte("start 2.5\nexit \n")); c.exited {
		t.Error("a truncated exit line counts as an exit")
	}
}

func TestShellQuote(t *testing.T) {
	if got := shellQuote(`a'b $c`); got != `'a'\''b $c'` {
		t.Errorf("shellQuote() = %s", got)
	}
}

func TestArch(t *testing.T) {
	dir := t.TempDir()
	elf := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 1000)...)
	elf[18] = 62
	image := make([]byte, 1000)
	copy(image[0x38:], "ARMd")
	packed := make([]byte, 1000)
	copy(packed[0x202:], "HdrS")
	for name, c := range map[string]struct {
		text []byte
		want string
	}{"vmlinux": {elf, "amd64"}, "Image": {image, "arm64"}, "vmlinuz": {packed, "amd64"}, "text": {bytes.Repeat([]byte("x"), 1000), ""}, "short": {elf[:30], ""}} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, c.text, 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := Arch(file); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("Arch(%s) = %q, %v, want %q", name, got, err, c.want)
		}
	}
}
