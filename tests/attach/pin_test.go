// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// TestPinnedIterator checks that a pinned iterator can be read after btrun has exited, and exists until
// its file is removed.
func TestPinnedIterator(t *testing.T) {
	needRoot(t)
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		t.Skip("skipped: no kernel types: ", err)
	}
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		t.Skip("skipped: cannot mount a BPF file system: ", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	path := filepath.Join(dir, "tasks")
	object := compile(t, `iter:task:`+path+` { printf("%-5s|%5d|%x|%s\n", "ab", ctx.task.pid, 255, ctx.task.comm); }`)
	out, err := exec.Command(program(t, "btrun"), "--allow", "pins="+dir, object).Output()
	if err != nil || !strings.HasPrefix(string(out), "Program pinned to "+path+"\n") {
		t.Fatalf("pinning: error = %v, output %q", err, out)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^ab   \| *[0-9]+\|ff\|.+\n$`)
	n := 0
	for l := range strings.Lines(string(text)) {
		if n++; !line.MatchString(l) {
			t.Errorf("line %d = %q", n, l)
		}
	}
	if n < 2 {
		t.Errorf("%d lines, want at least 2: %q", n, text)
	}
	if out, err := exec.Command(program(t, "btrun"), "--allow", "pins="+dir, object).CombinedOutput(); err == nil || !strings.Contains(string(out), path+" exists") {
		t.Errorf("second pin with the same name: error = %v, output %s", err, out)
	}
	pinned, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	info, err := pinned.Info()
	if err != nil {
		t.Fatal(err)
	}
	pinned.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		l, err := link.NewFromID(info.ID)
		if err != nil {
			return
		}
		l.Close()
	}
	t.Errorf("link %d stays when its file is removed", info.ID)
}
