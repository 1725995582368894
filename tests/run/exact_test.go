package run

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// exactScript counts one system call in every way that promises a number.
// Raw tracepoints and the profile probe interrupt each other; the counter of
// both is held against the sum of its parts.
const exactScript = `
tracepoint:syscalls:sys_enter_getpgid /pid == $1/ {
	@plain++; @keyed[7]++; @added += 2;
	@count = count(); @count_keyed[7] = count();
	@sum = sum(3); @sum_keyed[7] = sum(3);
	@stats = stats(5); @hist = hist(4); @hist_keyed[7] = hist(4); @lhist = lhist(4, 0, 10, 1);
}
rawtracepoint:sys_enter /pid == $1/ { @all = count(); @entered++; }
rawtracepoint:sys_exit /pid == $1/ { @all = count(); @left++; }
profile:hz:4999 { @all = count(); @ticks++; }
end { printf("parts %d\n", (int64)@entered + (int64)@left + (int64)@ticks); clear(@entered); clear(@left); clear(@ticks); }
`

// TestExact has all CPUs make the same events at once and wants every number
// to be exact: no update is lost to another CPU or to an interrupt.
func TestExact(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	dir := t.TempDir()
	for _, p := range []string{"btc", "btrun"} {
		if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, p), "../../cmd/"+p).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	script, object := filepath.Join(dir, "exact.bt"), filepath.Join(dir, "exact.o")
	if err := os.WriteFile(script, []byte(exactScript), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(filepath.Join(dir, "btc"), "compile", script, "-o", object).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(filepath.Join(dir, "btrun"), object, fmt.Sprint(os.Getpid()))
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(stderr).ReadString('\n'); !strings.HasPrefix(line, "Attached") {
		cmd.Process.Kill()
		t.Fatalf("btrun: %s", line)
	}
	const each = 100_000
	threads := 2 * runtime.NumCPU()
	var wg sync.WaitGroup
	for range threads {
		wg.Go(func() {
			runtime.LockOSThread()
			for range each {
				unix.RawSyscall(unix.SYS_GETPGID, 0, 0, 0)
			}
		})
	}
	wg.Wait()
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	n := threads * each
	text := stdout.String()
	for _, want := range []string{
		fmt.Sprintf("@plain: %d\n", n), fmt.Sprintf("@keyed[7]: %d\n", n), fmt.Sprintf("@added: %d\n", 2*n),
		fmt.Sprintf("@count: %d\n", n), fmt.Sprintf("@count_keyed[7]: %d\n", n),
		fmt.Sprintf("@sum: %d\n", 3*n), fmt.Sprintf("@sum_keyed[7]: %d\n", 3*n),
		fmt.Sprintf("@stats: { .count = %d, .average = 5, .total = %d }\n", n, 5*n),
		fmt.Sprintf("@hist:\n[4, 8) %17d |", n), fmt.Sprintf("@hist_keyed[7]:\n[4, 8) %17d |", n), fmt.Sprintf("@lhist:\n[4] %20d |", n),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the output", want)
		}
	}
	var parts, all int
	for line := range strings.Lines(text) {
		fmt.Sscanf(line, "parts %d", &parts)
		fmt.Sscanf(line, "@all: %d", &all)
	}
	if all == 0 || all != parts {
		t.Errorf("@all is %d, its parts are %d", all, parts)
	}
	if t.Failed() {
		t.Log(text)
	}
}
