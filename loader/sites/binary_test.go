// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"btc/internal/elffile"
	"btc/internal/manifest"
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
		paths, err := (&expander{}).findBinaries(&manifest.Program{}, name, cmd.Process.Pid)
		if err != nil || len(paths) != 1 || paths[0] != filepath.Join(root, "bin/program") {
			t.Errorf("paths of %s = %v, %v", name, paths, err)
		}
	}
	if paths, err := (&expander{}).findBinaries(&manifest.Program{}, "/etc/out", cmd.Process.Pid); err == nil {
		t.Errorf("link followed out of the root directory: %v", paths)
	}
}

// TestSeveralLibraries checks that the file is named if a library's bare name fits several, once for
// all clauses, and that a name that fits one is not mentioned.
func TestSeveralLibraries(t *testing.T) {
	x, p := &expander{}, &manifest.Program{Kind: "uprobe", Attach: manifest.Attach{Target: "libssl", Name: "SSL_read"}}
	for _, all := range [][]string{{"/lib/libssl.so.3"}, {"/lib/libssl.so.3", "/lib/libssl.so.1.1"}, {"/lib/libssl.so.3", "/lib/libssl.so.1.1"}} {
		if got := x.first(p, "libssl", all); len(got) != 1 || got[0] != all[0] {
			t.Errorf("first of %q = %q", all, got)
		}
	}
	const want = "several files are called libssl: /lib/libssl.so.3 is probed, not /lib/libssl.so.1.1; name the one to probe, e.g. uprobe:libssl.so.1.1:SSL_read"
	if len(x.warnings) != 1 || x.warnings[0].Text != want {
		t.Errorf("warnings = %v, want %q", x.warnings, want)
	}
	if all := elffile.Libraries("libc"); len(all) > 0 {
		if path, ok := elffile.Library("libc"); !ok || path != all[0] {
			t.Errorf("Library = %q, Libraries = %q", path, all)
		}
	}
}
