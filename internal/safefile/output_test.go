// SPDX-License-Identifier: Apache-2.0

//go:build linux

package safefile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// In a directory that others can write to, links and files of another user are refused.
func TestCreateInSharedDirectories(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root to make files of other users")
	}
	const stranger, owner = 4711, 4712
	for _, c := range []struct {
		mode    os.FileMode // of the directory
		dirUID  int
		of      int
		refused bool
	}{
		{0o777 | os.ModeSticky, 0, stranger, true}, {0o777, 0, stranger, true}, {0o770 | os.ModeSticky, 0, stranger, true},
		{0o777 | os.ModeSticky, 0, 0, false}, {0o777 | os.ModeSticky, owner, owner, false}, {0o777 | os.ModeSticky, owner, stranger, true},
		{0o755, 0, stranger, false}, {0o775, 0, stranger, false},
	} {
		top := t.TempDir()
		dir := filepath.Join(top, "shared")
		victim := filepath.Join(top, "victim")
		os.Mkdir(dir, 0o700)
		os.WriteFile(victim, []byte("old"), 0o600)
		os.Symlink(victim, dir+"/link")
		os.Symlink("../new", dir+"/dangling")
		os.Symlink(top, dir+"/up")
		os.Symlink("link", dir+"/chain")
		os.WriteFile(dir+"/file", []byte("old"), 0o666)
		unix.Mkfifo(dir+"/fifo", 0o666)
		for _, name := range []string{"link", "dangling", "up", "file", "fifo", "chain"} {
			os.Lchown(dir+"/"+name, c.of, 0)
		}
		os.Chown(dir, c.dirUID, 0)
		os.Chmod(dir, c.mode)
		for _, name := range []string{"link", "dangling", "up/victim", "file", "fifo", "chain", "../shared/link"} {
			flags := os.O_TRUNC
			if name == "fifo" && !c.refused {
				continue // opening it waits for a reader
			}
			f, err := Create(dir+"/"+name, flags, 0o600)
			if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "belongs to user") {
				t.Errorf("directory %v of %d, %s of %d: error = %v", c.mode, c.dirUID, name, c.of, err)
			}
			f.Close()
			if _, err := Target(dir + "/" + name); (err != nil) != c.refused {
				t.Errorf("directory %v of %d, %s of %d: Target: error = %v", c.mode, c.dirUID, name, c.of, err)
			}
		}
		b, _ := os.ReadFile(victim)
		if _, err := os.Stat(top + "/new"); c.refused && (string(b) != "old" || err == nil) {
			t.Errorf("directory %v: a file outside of it was written", c.mode)
		}
	}
}

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	os.Chmod(dir, 0o777|os.ModeSticky)
	other := filepath.Join(t.TempDir(), "other")
	os.WriteFile(other, []byte("old"), 0o600)
	if err := os.Link(other, dir+"/hard"); err == nil {
		if f, err := Create(dir+"/hard", os.O_TRUNC, 0o600); err == nil {
			t.Error("a file with another name was opened")
			f.Close()
		}
	}
	t.Chdir(dir)
	for _, path := range []string{dir + "/new", "new", "./new", dir + "/../" + filepath.Base(dir) + "/new", "/dev/null", "/proc/self/cwd/new2"} {
		f, err := Create(path, 0, 0o640)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if _, err := f.WriteString("x"); err != nil || f.Name() != path {
			t.Errorf("%s: %v", path, err)
		}
		f.Close()
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, dir := range []string{"/dev/fd/", "/proc/self/fd/"} {
		f, err := Create(dir+itoa(int(w.Fd())), 0, 0o600)
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		f.WriteString("text")
		f.Close()
		b := make([]byte, 4)
		if n, _ := r.Read(b); string(b[:n]) != "text" {
			t.Errorf("%s: %q", dir, b[:n])
		}
	}
	unix.Mkfifo("pipe", 0o600)
	go func() {
		f, err := Create("pipe", 0, 0o600)
		if err == nil {
			f.WriteString("text")
			f.Close()
		}
	}()
	if b, err := os.ReadFile("pipe"); string(b) != "text" || err != nil {
		t.Errorf("pipe: %q, %v", b, err)
	}
	os.Symlink("loop", "loop")
	for _, path := range []string{dir, dir + "/", dir + "/none/x", "loop", "new/x", ""} {
		if f, err := Create(path, 0, 0o600); err == nil {
			t.Errorf("%q was opened", path)
			f.Close()
		}
	}
	if to, err := Target("./new"); err != nil || to != dir+"/new" {
		t.Errorf("Target: %s, %v", to, err)
	}
}

// AsCaller opens files as the user that sudo names, and leaves no thread with that user.
func TestAsCaller(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root")
	}
	dir := t.TempDir()
	os.Chmod(dir, 0o755)
	os.Chmod(filepath.Dir(dir), 0o755)
	secret, public := dir+"/secret", dir+"/public"
	os.WriteFile(secret, nil, 0o600)
	os.WriteFile(public, nil, 0o644)
	open := func(path string) (err error) {
		AsCaller(func() {
			var f *os.File
			if f, err = Open(path); err == nil {
				f.Close()
			}
		})
		return err
	}
	if err := open(secret); err != nil {
		t.Errorf("root: %v", err)
	}
	for _, by := range []string{"SUDO_UID", "PKEXEC_UID"} {
		t.Setenv(by, "4711")
		if err := open(public); err != nil {
			t.Errorf("%s: %v", by, err)
		}
		if err := open(secret); !os.IsPermission(err) {
			t.Errorf("%s: error = %v", by, err)
		}
		os.Unsetenv(by)
	}
	if f, err := Open(secret); err != nil {
		t.Errorf("afterwards: %v", err)
	} else {
		f.Close()
	}
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		b, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/status")
		if s := string(b); s != "" && (!strings.Contains(s, "Uid:\t0\t0\t0\t0") || !strings.Contains(s, "Gid:\t0\t0\t0\t0")) {
			t.Errorf("a thread has another user:\n%s", s)
		}
	}
}
