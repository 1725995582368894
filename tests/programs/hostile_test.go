// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hostileSource maps its own file argv[1] times and calls getppid argv[2] times once the file argv[3] exists, each time
// with a chain of forged frames: addresses in no mapping, a new page each.
const hostileSource = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static unsigned long chain[101][2];
int main(int argc, char **argv) {
	int fd = open("/proc/self/exe", O_RDONLY);
	for (long i = 0; i < atoi(argv[1]); i++)
		if (mmap((char *)0x100000000000 + i * 8192, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0) == MAP_FAILED)
			return 1;
	write(1, "", 1);
	while (access(argv[3], F_OK))
		usleep(20000);
	unsigned long page = 0x200000000000;
	for (int k = 0; k < atoi(argv[2]); k++) {
		for (int i = 0; i < 100; i++, page += 4096) {
			chain[i][0] = (unsigned long)&chain[i + 1][0];
			chain[i][1] = page;
		}
		unsigned long r;
		asm volatile("push %%rbp\n mov %1, %%rbp\n syscall\n pop %%rbp\n" : "=a"(r) : "r"(&chain[0][0]), "a"(SYS_getppid) : "rcx", "r11", "memory");
		usleep(1000);
	}
	write(1, "", 1);
	pause();
}
`

// TestHostileProcesses checks that processes of another user with many mappings, forged stacks and huge perf maps cost
// little, that the first SIGINT prints the maps, and that they do not name the functions of a process of root.
func TestHostileProcesses(t *testing.T) {
	if out, err := exec.Command("uname", "-m").Output(); err != nil || strings.TrimSpace(string(out)) != "x86_64" {
		t.Skip("skipped: not x86_64")
	}
	need(t, "gcc", "setpriv")
	prog := build(t, "hostile.c", hostileSource, "gcc", "-O0")
	for dir := filepath.Dir(prog); dir != filepath.Clean(os.TempDir()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const user = 12345
	for _, c := range []struct {
		name      string
		processes int
		maps      string
		uid       uint32
		size      int64 // of the perf map of another user
	}{
		{"sparse perf map", 1, "0", user, 16000 << 30},
		{"many mappings", 3, "60000", user, 0},
		{"both", 2, "30000", user, 1 << 40},
		{"process of root", 1, "0", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			begin := filepath.Join(filepath.Dir(prog), "go-"+strings.ReplaceAll(c.name, " ", "-"))
			var calls []io.Reader
			for range c.processes {
				cmd := exec.Command(prog, c.maps, "20", begin)
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.uid, Gid: c.uid}}
				ready, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Skip("skipped: ", err)
				}
				t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
				if _, err := ready.Read(make([]byte, 1)); err != nil {
					t.Skip("skipped: cannot map so often: ", err)
				}
				calls = append(calls, ready)
				perf := fmt.Sprintf("/tmp/perf-%d.map", cmd.Process.Pid)
				f, err := os.OpenFile(perf, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
				if err != nil {
					t.Skip("skipped: cannot create a perf map: ", err)
				}
				t.Cleanup(func() { os.Remove(perf) })
				fmt.Fprintf(f, "200000000000 ffffffff FORGED\n")
				if c.size > 0 {
					f.Truncate(0)
					f.Truncate(c.size) // fails if the file system has smaller files
				}
				f.Chown(user, user)
				f.Close()
			}
			r := trace(t, `tracepoint:syscalls:sys_enter_getppid /comm == "hostile"/ { @[ustack(100), pid] = count(); @n = count(); }`)
			if err := os.WriteFile(begin, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			for _, done := range calls {
				done.Read(make([]byte, 1))
			}
			out := r.end()
			frame := `0x200000`
			if c.uid == user && c.size == 0 {
				frame = `FORGED\+` // its own file
			}
			wants(t, out, `^@n: \d+$`, frame)
			if used := r.cmd.ProcessState.UserTime() + r.cmd.ProcessState.SystemTime(); used > 15*time.Second {
				t.Errorf("took %v of CPU time", used)
			}
			if c.uid == 0 && strings.Contains(out, "FORGED") {
				t.Errorf("another user named a function:\n%s", out)
			}
		})
	}
}
