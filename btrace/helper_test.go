// SPDX-License-Identifier: Apache-2.0

package btrace_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"btc/btrace"
)

// helpers counts the processes of this one that parse files.
func helpers(t *testing.T) (n int) {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 {
		t.Skip("skipped: the kernel does not list children (CONFIG_PROC_CHILDREN)")
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, pid := range strings.Fields(string(text)) {
			if line, _ := os.ReadFile("/proc/" + pid + "/cmdline"); strings.HasPrefix(string(line), "btrun-symbols\x00") {
				n++
			}
		}
	}
	return n
}

// TestNoHelper checks that a session without the helper process resolves attach points in files, and leaves addresses
// of processes without names; with it both have names.
func TestNoHelper(t *testing.T) {
	busy := exec.Command("bash", "-c", "while :; do :; done")
	if err := busy.Start(); err != nil {
		t.Skip("skipped: ", err)
	}
	defer busy.Wait()
	defer busy.Process.Kill()
	script := fmt.Sprintf(`uprobe:libc:getpid { } software:cpu-clock:1000000 /pid == %d/ { @[usym(reg("ip"))] = count(); @s[ustack(1)] = count(); }`, busy.Process.Pid)
	for _, without := range []bool{false, true} {
		s := loaded(t, script, btrace.Options{DropEvents: true, NoHelper: without})
		attach(t, s)
		if s.Attached() != 2 {
			t.Errorf("NoHelper %v: %d probes attached", without, s.Attached())
		}
		const enough = 20 // keys, so that one has a name
		numbers, names := 0, 0
		for numbers+names < enough && (without || names == 0) {
			numbers, names = 0, 0
			for _, m := range s.Maps() {
				snapshot, err := m.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range snapshot.Entries {
					if text := strings.TrimSpace(fmt.Sprint(e.Key...)); strings.HasPrefix(text, "0x") {
						numbers++
					} else if text != "" {
						names++
					}
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		if names > 0 == without {
			t.Errorf("NoHelper %v: %d addresses have names, %d have not", without, names, numbers)
		}
		if n := helpers(t); n > 0 == without {
			t.Errorf("NoHelper %v: %d processes parse files", without, n)
		}
		s.Close()
	}
}
