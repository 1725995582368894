// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// init turns the test program, when it is started again, into a traced process: it changes to the given
// root directory, reports this, and waits for the end of its input. (It changes the root directory
// itself because a program built with the race detector needs libraries to start.)
func init() {
	if len(os.Args) != 3 || os.Args[1] != "waits-in" {
		return
	}
	if err := syscall.Chroot(os.Args[2]); err != nil {
		panic(err)
	}
	os.Stdout.WriteString("\n")
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// TestFilesOfAnotherRoot checks that a path in a process with its own root directory is resolved in
// that directory, including symbolic links.
func TestFilesOfAnotherRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: no chroot(2)")
	}
	root := t.TempDir()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"bin", "etc"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "bin/program"), self, 0o755); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, self, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"absolute": "/bin/program", "up": "../../../bin/program", "out": outside} {
		if err := os.Symlink(target, filepath.Join(root, "etc", name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("/proc/self/exe", "waits-in", root)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatalf("process did not change its root directory: %v", err)
	}
	for _, name := range []string{"/bin/program", "/etc/absolute", "/etc/up"} {
		paths, err := findBinaries(name, cmd.Process.Pid)
		if err != nil || len(paths) != 1 || paths[0] != filepath.Join(root, "bin/program") {
			t.Errorf("paths of %s = %v, %v", name, paths, err)
		}
	}
	if paths, err := findBinaries("/etc/out", cmd.Process.Pid); err == nil {
		t.Errorf("link followed out of the root directory: %v", paths)
	}
}
