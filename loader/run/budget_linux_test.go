// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"btc/compile"
	"btc/internal/manifest"
	"btc/loader/attach"
	"btc/loader/object"
	"btc/loader/options"
	"btc/loader/output"
	"btc/targets/kernel"
)

// compiled compiles a script and returns its object.
func compiled(t *testing.T, text string) *object.Object {
	t.Helper()
	target, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	out, diags := compile.Compile(compile.Input{Name: "x.bt", Text: text, Target: target, Compiler: "test"})
	if out == nil {
		t.Fatal(diags)
	}
	m, err := manifest.Parse(out.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	o, err := object.Parse(out.Object, m)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// guarded is a buffer that can be read while it is written.
type guarded struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (g *guarded) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.buf.Write(b)
}

func (g *guarded) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.buf.String()
}

// detached reports whether the budget has detached n probes.
func detached(n int) func(*session) bool {
	return func(s *session) bool { return len(s.budget.Detachments()) == n }
}

// never is a condition that is never met, so the run has to end by itself.
func never(*session) bool { return false }

// budgeted runs a script with short windows, while other goroutines make system calls that nothing
// else on the machine makes. It stops the run a few windows after until has become true. It returns
// the output, and whether the run had already ended.
func budgeted(t *testing.T, script string, o Options, until func(*session) bool) (stdout, stderr string, ended bool) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root")
	}
	var out, msg guarded
	o.Out, o.Err = &out, &msg
	o.budgetWindow = 200 * time.Millisecond
	attached := make(chan struct{})
	s, err := Load(compiled(t, script), o)
	if err != nil {
		if strings.Contains(err.Error(), "not permitted") || strings.Contains(err.Error(), "capabilities") {
			t.Skip("skipped: this machine does not let root load programs or read their statistics: ", err)
		}
		t.Fatal(err)
	}
	defer s.Close()
	var over atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !over.Load() {
			for range 1000 {
				unix.Getpgid(1 << 22)
			}
			unix.Chdir("/nowhere/at/all")
		}
	}()
	defer func() {
		over.Store(true)
		<-done
	}()
	result := make(chan error, 1)
	go func() {
		_, err := runToEnd(s, func() { close(attached) })
		result <- err
	}()
	hang := time.After(2 * time.Minute)
	for isAttached := false; !isAttached || !until(s.s()); {
		select {
		case <-attached:
			isAttached, attached = true, nil
		case err := <-result:
			if err != nil {
				t.Fatal(err)
			}
			return out.String(), msg.String(), true
		case <-hang:
			t.Errorf("the run goes on as it is:\n%s%s", &out, &msg)
			s.Stop()
			<-result
			return out.String(), msg.String(), false
		case <-time.After(20 * time.Millisecond):
		}
	}
	select {
	case err = <-result:
		ended = true
	case <-time.After(4 * o.budgetWindow):
		s.Stop()
		err = <-result
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), msg.String(), ended
}

// runToEnd performs the steps of a loaded run; it calls attached after the second one.
func runToEnd(s *Session, attached func()) (status int, err error) {
	if err := s.Attach(); err != nil {
		return 1, err
	}
	attached()
	if err := s.Serve(); err != nil {
		return 1, err
	}
	return s.Finish()
}

const runaway = `t:syscalls:sys_enter_getpgid { @hot[nsecs % 100] = hist(nsecs); @s[comm, pid] = count(); }
t:syscalls:sys_enter_chdir { @cheap = count(); }
i:ms:700 { @ticks = count(); }`

// runawayBudget is far above the cost of the second probe of runaway and far below that of the first
// one, even if this gets only a small share of a CPU.
const runawayBudget = 0.001

// TestBudget checks that the probe that exceeds the budget is detached after two windows, the others
// are not, and the report says which period the data covers.
func TestBudget(t *testing.T) {
	out, msg, ended := budgeted(t, runaway, Options{Run: options.Run{Budget: runawayBudget}}, detached(1))
	if !strings.Contains(msg, "x.bt:1:1: WARNING: tracepoint:syscalls:sys_enter_getpgid was detached after ") ||
		strings.Count(msg, "was detached") != 1 || !strings.Contains(msg, "the budget is 0.1%") {
		t.Errorf("messages: %s", msg)
	}
	if !strings.Contains(out, "Detached by the budget of 0.1%: tracepoint:syscalls:sys_enter_getpgid covers") ||
		strings.Count(out, "Detached by") != 1 || !strings.Contains(out, "@cheap: ") {
		t.Errorf("report: %s", out)
	}
	if ended {
		t.Error("run ended, although two probes remained")
	}
}

// TestBudgetEndsTheRun checks that the run ends if only timers remain.
func TestBudgetEndsTheRun(t *testing.T) {
	script := `t:syscalls:sys_enter_getpgid { @hot[nsecs % 100] = hist(nsecs); } i:ms:100 { @ticks = count(); } end { printf("ended\n"); }`
	out, msg, ended := budgeted(t, script, Options{Run: options.Run{Budget: runawayBudget}}, never)
	if !strings.Contains(msg, "so the run ends") || !strings.Contains(out, "ended\n") ||
		!strings.Contains(out, "@ticks: ") || !ended {
		t.Errorf("unexpected output: %s%s", msg, out)
	}
}

// TestBudgetIsOfAll checks that if programs exceed the budget only together, the most expensive one is
// detached.
func TestBudgetIsOfAll(t *testing.T) {
	begun := time.Now()
	out, msg, _ := budgeted(t, runaway, Options{Run: options.Run{Budget: 10}}, func(*session) bool { return time.Since(begun) > time.Second })
	if strings.Contains(out+msg, "etached") {
		t.Errorf("within the budget: %s%s", out, msg)
	}
	script := strings.Repeat("t:syscalls:sys_enter_getpgid { @hot[nsecs % 100] = hist(nsecs); }\n", 4)
	out, msg, _ = budgeted(t, script, Options{Run: options.Run{Budget: 0.000011}}, never)
	if n := strings.Count(msg, "was detached"); n != 4 || !strings.Contains(msg, "so the run ends") {
		t.Errorf("%d of 4 probes detached at once:\n%s%s", n, msg, out)
	}
}

// TestBudgetFormats checks that each format reports the detached probe.
func TestBudgetFormats(t *testing.T) {
	out, _, _ := budgeted(t, runaway, Options{Run: options.Run{Budget: runawayBudget}, Sink: output.Find("json2")}, detached(1))
	var line struct {
		Type, Probe, Reason string
		Line, Col           int
		Budget              float64
		Share               []float64
		From, To            time.Time
		Covered             int64 `json:"covered_ns"`
	}
	for text := range strings.Lines(out) {
		if strings.Contains(text, `"detached"`) {
			if err := json.Unmarshal([]byte(text), &line); err != nil {
				t.Fatal(err)
			}
		}
	}
	if line.Probe != "tracepoint:syscalls:sys_enter_getpgid" || line.Line != 1 || line.Reason != "budget" || line.Budget != runawayBudget ||
		len(line.Share) != 2 ||
		line.Share[1] <= runawayBudget ||
		(line.To.Sub(line.From)-time.Duration(line.Covered)).Abs() > 50*time.Millisecond ||
		line.Covered < 400e6 {
		t.Errorf("unexpected line %+v in\n%.2000s", line, out)
	}
	out, _, _ = budgeted(t, runaway, Options{Run: options.Run{Budget: runawayBudget}, Report: options.Report{Object: "x"}, Sink: output.Find("openmetrics")}, detached(1))
	for _, want := range []string{
		"btc_probe_up{object=\"x\",probe=\"tracepoint:syscalls:sys_enter_getpgid\"} 0\n",
		"btc_probe_up{object=\"x\",probe=\"tracepoint:syscalls:sys_enter_chdir\"} 1\n",
		"# TYPE btc_probe_cpu_seconds counter\n# UNIT btc_probe_cpu_seconds seconds\nbtc_probe_cpu_seconds_total{object=\"x\",probe=\"tracepoint:syscalls:sys_enter_getpgid\"} 0.",
		"btc_probe_covered_seconds{object=\"x\",probe=\"tracepoint:syscalls:sys_enter_getpgid\"} ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q not found in\n%s", want, out)
		}
	}
	out, _, _ = budgeted(t, runaway, Options{Run: options.Run{Budget: runawayBudget}, Report: options.Report{Object: "x"}, Sink: output.Find("otlp")}, detached(1))
	for _, want := range []string{`"btc.probe","value":{"stringValue":"tracepoint:syscalls:sys_enter_getpgid"}`, `"name":"btc_probe_up"`} {
		if !strings.Contains(out, want) {
			t.Errorf("%q not found in\n%s", want, out)
		}
	}
}

// runTimes returns the run time of each program, in ns.
func runTimes(s *session) (all []time.Duration) {
	for i := range s.loaded.Programs {
		for _, p := range s.loaded.Programs[i].Of {
			if stats, err := p.Stats(); err == nil {
				all = append(all, stats.Runtime)
			}
		}
	}
	return all
}

// TestBudgetDetachesEachKind checks that after a probe of any kind was detached, none of its programs
// runs.
func TestBudgetDetachesEachKind(t *testing.T) {
	src, lib := filepath.Join(t.TempDir(), "x.c"), filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(src, []byte(`
__attribute__((noinline)) int work1(int i) { __asm__ volatile(""); return i + 1; }
__attribute__((noinline)) int work2(int i) { __asm__ volatile(""); return i + 2; }
int main(void) { for (volatile int i = 0;; i++) { work1(i); work2(i); } }`), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-O1", "-o", lib, src).CombinedOutput(); err != nil {
		t.Skipf("skipped: no C compiler: %v %s", err, out)
	}
	cmd := exec.Command(lib)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for _, script := range []string{
		`uprobe:` + lib + `:work1 { @n = count(); }`,
		`uprobe:` + lib + `:work* { @n[func] = count(); }`, // one link with many sites, or one per site
		`uretprobe:` + lib + `:work* { @n = count(); }`,
		`t:syscalls:sys_enter_get* { @n[probe] = count(); }`, // shares a raw tracepoint
		`t:syscalls:sys_enter_getpgid { @n[nsecs % 9] = hist(nsecs); }`,
		`rawtracepoint:sys_enter { @n = count(); }`,
		`profile:hz:999 { @n[kstack, nsecs % 9] = count(); }`, // one event per CPU
		`software:cpu-clock:100000 { @n[kstack] = count(); }`,
	} {
		o := compiled(t, script)
		x := Options{
			Run:          options.Run{Budget: 0.00002, Timeout: 2 * time.Minute},
			Report:       options.Report{Out: new(bytes.Buffer), Err: new(bytes.Buffer)},
			budgetWindow: 200 * time.Millisecond,
		}
		s, err := Load(o, x)
		if err != nil {
			if strings.Contains(err.Error(), "No matches") || strings.Contains(err.Error(), "no BTF") {
				continue // this kernel lacks the kind
			}
			t.Skipf("skipped: this machine does not let root load programs: %v", err)
		}
		if err := s.Attach(); err != nil {
			t.Fatal(script, err)
		}
		var over atomic.Bool
		calls := make(chan struct{})
		go func() {
			for !over.Load() {
				unix.Getpgid(1 << 22)
			}
			close(calls)
		}()
		err = s.Serve()
		if err != nil {
			t.Errorf("%s: error = %v", script, err)
		}
		attach.WaitForPrograms()
		before := runTimes(s.s())
		time.Sleep(100 * time.Millisecond) // time for programs that would still run
		over.Store(true)
		<-calls
		after := runTimes(s.s())
		for i := range before {
			if before[i] == 0 || before[i] != after[i] {
				t.Errorf("%s: run time of programs %v before, %v after detaching", script, before[i], after[i])
			}
		}
		s.Finish()
		s.Close()
		if msg := x.Err.(*bytes.Buffer).String(); !strings.Contains(msg, "was detached") {
			t.Errorf("%s: unexpected messages: %s", script, msg)
		}
	}
}
