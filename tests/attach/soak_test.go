// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// field returns the number in a line of /proc/PID/status, or 0.
func field(pid int, line string) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if m := regexp.MustCompile(`(?m)^` + line + `:\s+(\d+)`).FindSubmatch(b); m != nil {
		n, _ := strconv.Atoi(string(m[1]))
		return n
	}
	return 0
}

// childNamed returns the child with the given name of a process, or 0.
func childNamed(pid int, name string) int {
	var b []byte
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range threads {
		more, _ := os.ReadFile(t)
		b = append(append(b, ' '), more...)
	}
	for _, f := range strings.Fields(string(b)) {
		args, _ := os.ReadFile("/proc/" + f + "/cmdline")
		if strings.TrimRight(string(args), "\x00") == name {
			n, _ := strconv.Atoi(f)
			return n
		}
	}
	return 0
}

// shellNamed returns a copy of the shell, so that its processes have a unique name.
func shellNamed(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// started starts btrun and waits until its probes are attached.
func started(t *testing.T, args ...string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	var out strings.Builder
	cmd := exec.Command(program(t, "btrun"), args...)
	cmd.Stdout = &out
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for text := ""; !strings.Contains(text, "Attached"); {
		n, err := said.Read(buf)
		if err != nil {
			t.Fatal(text, err)
		}
		text += string(buf[:n])
	}
	go func() {
		for {
			if _, err := said.Read(buf); err != nil {
				return
			}
		}
	}()
	return cmd, &out
}

// TestParserOfRun checks that the process that reads files of traced processes is unprivileged,
// whatever the privileges of btrun, and exits with btrun.
func TestParserOfRun(t *testing.T) {
	needRoot(t)
	needTracepoints(t, "sched")
	shell := shellNamed(t, "btcparse")
	cmd, _ := started(t, compile(t, `tracepoint:sched:sched_process_exit / comm == "btcparse" / { print(ustack); }`))
	defer cmd.Process.Kill()
	parser := 0
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err := exec.Command(shell, "-c", "true; (:); true").Run(); err != nil {
			t.Fatal(err)
		}
		if parser = childNamed(cmd.Process.Pid, "btrun-symbols"); parser != 0 && field(parser, "NoNewPrivs") == 1 && field(parser, "Seccomp") == 2 {
			break
		}
	}
	if parser == 0 {
		t.Fatal("no symbol process found")
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", parser))
	if err != nil || len(tasks) == 0 {
		t.Fatal(tasks, err)
	}
	// The user of the process is its own, so that no other one may signal it.
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		for _, want := range []string{`CapEff:\s0{16}\n`, `CapPrm:\s0{16}\n`, `CapBnd:\s0{16}\n`, fmt.Sprintf(`Uid:(\s%d){4}\n`, 0x70000000+parser), `NoNewPrivs:\s1\n`, `Seccomp:\s2\n`} {
			if !regexp.MustCompile(want).Match(b) {
				t.Errorf("%s: %s not found in\n%s", task, want, b)
			}
		}
	}
	cmd.Process.Kill() // btrun cannot clean up
	cmd.Wait()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/status", parser)); err != nil {
			return
		}
	}
	t.Error("symbol process still running after btrun exited")
}

// TestMemoryOfLongRuns checks that the memory of a run does not grow with the number of processes that
// it has seen. BTC_SOAK sets this number, for example to 50000.
func TestMemoryOfLongRuns(t *testing.T) {
	needRoot(t)
	needTracepoints(t, "sched")
	total, _ := strconv.Atoi(os.Getenv("BTC_SOAK"))
	if total == 0 {
		t.Skip("skipped: takes minutes; BTC_SOAK=50000 runs it")
	}
	shell := shellNamed(t, "btcsoak")
	cmd, out := started(t, compile(t, `tracepoint:sched:sched_process_exit / comm == "btcsoak" / { @[ustack] = count(); @n = count(); print(ustack); }`), "-o", os.DevNull)
	defer cmd.Process.Kill()
	const rounds = 20
	var kib []int
	for round := range rounds {
		script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do (:); i=$((i+1)); done", total/rounds)
		if err := exec.Command(shell, "-c", script).Run(); err != nil {
			t.Fatal(err)
		}
		n := field(cmd.Process.Pid, "VmRSS") + field(childNamed(cmd.Process.Pid, "btrun-symbols"), "VmRSS")
		t.Logf("after %d processes: %d kB", (round+1)*total/rounds, n)
		kib = append(kib, n)
	}
	first, last := 0, 0
	for i := range rounds / 4 {
		first, last = max(first, kib[rounds/4+i]), max(last, kib[rounds-1-i])
	}
	if last > first*11/10 {
		t.Errorf("memory grew from %d kB to %d kB", first, last)
	}
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Errorf("exit: %v, output %s", err, out)
	}
}
