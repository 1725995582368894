// SPDX-License-Identifier: Apache-2.0

package btrace_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"btc/btrace"
	"btc/fleet/replay"
	"btc/loader/output"
	"btc/tests/tier"
)

// flood is processes with a name of their own that write single bytes to /dev/null.
type flood struct {
	name, path string
	writes     atomic.Int64
	stop       atomic.Bool
	done       sync.WaitGroup
}

func newFlood(t *testing.T) *flood {
	t.Helper()
	dd, err := exec.LookPath("dd")
	if err != nil {
		t.Skip("skipped: no dd")
	}
	data, err := os.ReadFile(dd)
	if err != nil {
		t.Fatal(err)
	}
	f := &flood{name: fmt.Sprint("flood", os.Getpid())}
	f.path = filepath.Join(t.TempDir(), f.name)
	if err := os.WriteFile(f.path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return f
}

// start begins to write, with a process on each CPU.
func (f *flood) start(t *testing.T, writes int64) {
	for range runtime.NumCPU() {
		f.done.Go(func() {
			for !f.stop.Load() {
				cmd := exec.Command(f.path, "if=/dev/zero", "of=/dev/null", "bs=1", "status=none", fmt.Sprint("count=", writes))
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
					return
				}
				f.writes.Add(writes)
			}
		})
	}
}

// end returns the number of writes.
func (f *flood) end() int64 {
	f.stop.Store(true)
	f.done.Wait()
	return f.writes.Load()
}

// report is the output of a session that can be reloaded.
type report struct {
	*btrace.Session
	out, err lockedBuffer
	result   chan error
}

// lockedBuffer may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// reported attaches an object whose report is kept.
func reported(t *testing.T, o *btrace.Object, opts btrace.Options, format string) *report {
	t.Helper()
	needRoot(t)
	opts.Reload = true
	r := &report{result: make(chan error, 1)}
	s, err := btrace.LoadReport(context.Background(), o, opts, &btrace.Report{Out: &r.out, Err: &r.err, Format: format, Quiet: true})
	if err != nil {
		t.Fatal(err)
	}
	r.Session = s
	t.Cleanup(func() { s.Close() })
	attach(t, s)
	return r
}

// reload replaces the object.
func (r *report) reload(t *testing.T, script string, args ...string) {
	t.Helper()
	if err := r.Reload(parsed(t, script), args, nil); err != nil {
		t.Fatal(err)
	}
}

// finish ends the session and returns its output.
func (r *report) finish(t *testing.T) string {
	t.Helper()
	r.Stop()
	if _, err := r.Wait(); err != nil {
		t.Fatal(err)
	}
	if text := r.err.String(); text != "" {
		t.Errorf("messages: %s", text)
	}
	return r.out.String()
}

// sum adds the values of a scalar map in a report.
func sum(out, name string) (n int64) {
	for _, m := range regexp.MustCompile(`(?m)^`+name+`: (\d+)$`).FindAllStringSubmatch(out, -1) {
		v, _ := strconv.ParseInt(m[1], 10, 64)
		n += v
	}
	return n
}

// TestReloadCountsOnce replaces the object of a session again and again during a flood, and checks that each event is
// counted by one of them: in maps that stay, and in others, which are reported each time.
func TestReloadCountsOnce(t *testing.T) { reloadInFlood(t, 6) }

// TestReloadLong is the same for a longer time.
func TestReloadLong(t *testing.T) {
	tier.Real.Need(t, "replaces objects for minutes")
	reloadInFlood(t, 60)
}

func reloadInFlood(t *testing.T, rounds int) {
	f := newFlood(t)
	kinds := map[string]string{
		"tracepoint": `tracepoint:syscalls:sys_enter_write /comm == "NAME" && args.fd == 1/`,
		"uprobe":     `uprobe:libc:write /comm == "NAME" && arg0 == 1/`,
		"uretprobe":  `uretprobe:libc:write /comm == "NAME" && retval == 1/`,
	}
	if runtime.GOARCH == "amd64" { // one clause names the registers
		kinds["rawtracepoint"] = `rawtracepoint:sys_enter /comm == "NAME" && arg1 == 1 && ((struct pt_regs *)arg0)->di == 1/`
	}
	for kind, probe := range kinds {
		for name, bodies := range map[string][2]string{
			"kept":  {`{ @n = count(); @by[cpu] = count(); @plain[1] += 1; }`, `{ @more = count(); @n = count(); @by[cpu] = count(); @plain[1] += 1; }`},
			"other": {`{ @n = count(); }`, `{ @n = sum(1); }`},
			"two":   {`{ @n = count(); } PROBE { @m = count(); }`, `{ @n = count(); } PROBE { @m = count(); }`},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				f := &flood{name: f.name, path: f.path}
				probe := strings.ReplaceAll(probe, "NAME", f.name)
				script := func(i int) string { return probe + strings.ReplaceAll(bodies[i%2], "PROBE", probe) }
				r := reported(t, parsed(t, script(0)), btrace.Options{}, "")
				writes := int64(50_000)
				if strings.Contains(probe, "libc") { // each takes much longer
					writes = 2000
				}
				f.start(t, writes)
				for i := range rounds {
					time.Sleep(50 * time.Millisecond)
					r.reload(t, script(i+1))
				}
				want := f.end()
				out := r.finish(t)
				if got := sum(out, "@n"); got != want {
					t.Errorf("@n counted %d of %d writes (%+d)", got, want, got-want)
				}
				if got := sum(out, "@m"); name == "two" && got != want {
					t.Errorf("@m counted %d of %d writes (%+d)", got, want, got-want)
				}
				if reports := strings.Count(out, "@n: "); reports != map[string]int{"kept": 1, "two": 1, "other": rounds + 1}[name] {
					t.Errorf("@n was reported %d times", reports)
				}
			})
		}
	}
}

// TestReloadOrder checks that output of the new object follows that of the old one, and which begin and end programs
// run.
func TestReloadOrder(t *testing.T) {
	const kept = `begin { printf("begin %s\n", str($1)); } interval:ms:1 { printf("%d\n", @i); @i++; } end { printf("end\n"); }`
	r := reported(t, parsed(t, kept), btrace.Options{Args: []string{"a"}}, "")
	for i := range 10 {
		time.Sleep(20 * time.Millisecond)
		r.reload(t, kept, string(rune('b'+i)))
	}
	time.Sleep(20 * time.Millisecond)
	other := `begin { printf("begin other\n"); } interval:s:100 { @i = "a"; } end { printf("end other\n"); }`
	r.reload(t, other)
	out := r.finish(t)
	n, begun := 0, ""
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "begin "); ok {
			begun += name
		} else if v, err := strconv.Atoi(line); err == nil {
			if v != n {
				t.Fatalf("%d follows %d in\n%s", v, n-1, out)
			}
			n++
		}
	}
	if begun != "abcdefghijkother" || n < 100 {
		t.Errorf("begun: %s; %d ticks", begun, n)
	}
	if rest := fmt.Sprintf("%d\nend\n\n\n@i: %d\nbegin other\nend other\n", n-1, n); !strings.Contains(out, rest) {
		t.Errorf("no %q in\n%s", rest, out)
	}
}

// TestReloadReplays checks that a recording has the head of each object, after the line of the reload, so that it replays.
func TestReloadReplays(t *testing.T) {
	const script = `begin { printf("%s\n", str($1)); } interval:s:100 { @i = 1; }`
	r := reported(t, parsed(t, script), btrace.Options{Args: []string{"a"}}, "json2")
	r.reload(t, script, "b")
	r.reload(t, `begin { printf("%d %d\n", 3, 4); @other = 5; }`)
	text := r.finish(t)
	var kinds []string
	for line := range strings.Lines(text) {
		kind, _, _ := strings.Cut(strings.TrimPrefix(line, `{"type": "`), `"`)
		kinds = append(kinds, kind)
	}
	if got, want := strings.Join(kinds, " "), "head printf reload head printf snapshot map reload head printf snapshot map"; got != want {
		t.Errorf("lines: %s\nwant %s\n%s", got, want, text)
	}
	var out strings.Builder
	if _, err := replay.Run("run", strings.NewReader(text), replay.Options{Format: &output.Text, Out: &out, Err: io.Discard}); err != nil || !strings.HasPrefix(out.String(), "a\nb\n") || !strings.HasSuffix(out.String(), "3 4\n\n\n@other: 5\n") {
		t.Errorf("replayed: %q, %v", out.String(), err)
	}
}

// TestReloadPairs checks that a return that the new object sees finds what the old one stored at the call.
func TestReloadPairs(t *testing.T) {
	const script = `tracepoint:syscalls:sys_enter_clock_nanosleep /comm == str($1)/ { @start[tid] = nsecs; }
		tracepoint:syscalls:sys_exit_clock_nanosleep /@start[tid]/ { @n = count(); delete(@start, tid); }`
	name := fmt.Sprint("sleep", os.Getpid())
	path := filepath.Join(t.TempDir(), name)
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("skipped: no sleep")
	}
	data, err := os.ReadFile(sleep)
	if err == nil {
		err = os.WriteFile(path, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := reported(t, parsed(t, script), btrace.Options{Args: []string{name}}, "")
	cmd := exec.Command(path, "2")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	r.reload(t, script, name)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if out := r.finish(t); !strings.Contains(out, "@n: 1\n") {
		t.Errorf("the sleep was not counted: %s", out)
	}
}

// TestReloadFails checks that an object that cannot be loaded or attached changes nothing.
func TestReloadFails(t *testing.T) {
	f := newFlood(t)
	probe := `tracepoint:syscalls:sys_enter_write /comm == "` + f.name + `" && args.fd == 1/ { @n = count(); }`
	r := reported(t, parsed(t, probe), btrace.Options{}, "")
	f.start(t, 50_000)
	for _, bad := range []string{
		`begin { printf("begun\n"); } uprobe:/proc/self/exe:no_such_function { @n = count(); }`,
		`begin { printf("begun\n"); } interval:s:1 { print($1); exit(); } tracepoint:syscalls:sys_enter_write { @n = count(); signal("KILL"); }`,
		`iter:task { @n = count(); }`,
	} {
		if err := r.Reload(parsed(t, bad), nil, nil); err == nil {
			t.Errorf("%s was loaded", bad)
		}
	}
	if err := r.Reload(parsed(t, probe), []string{"1"}, map[string]string{"nothing": "1"}); err == nil {
		t.Error("a parameter that the script does not have was accepted")
	}
	want := f.end()
	if out := r.finish(t); sum(out, "@n") != want || strings.Contains(out, "begun") {
		t.Errorf("%d writes, and the report is\n%s", want, out)
	}
}

// TestReloadNames checks that addresses of processes that exited before a reload have names after it, that a Map from before
// shows them, and that the process which reads files for it ends with the session.
func TestReloadNames(t *testing.T) {
	f := newFlood(t)
	script := `uprobe:libc:write /comm == "` + f.name + `" && arg0 == 1/ { @[ustack(1)] = count(); @by[usym(reg("ip"))] = count(); }`
	s := loaded(t, script, btrace.Options{DropEvents: true, Reload: true})
	attach(t, s)
	if out, err := exec.Command(f.path, "if=/dev/zero", "of=/dev/null", "bs=1", "status=none", "count=3").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	before := s.Maps()
	for range 2 {
		if err := s.Reload(parsed(t, script), nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range append(before, s.Maps()...) {
		snapshot, err := m.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if len(snapshot.Entries) != 1 || snapshot.Entries[0].Value != btrace.Count(3) {
			t.Errorf("%s has %v", m.Name(), snapshot.Entries)
			continue
		}
		switch key := snapshot.Entries[0].Key[0].(type) {
		case btrace.Stack:
			if len(key.Addresses) != 1 || len(key.Frames) != 1 || key.Frames[0].Function == "" || !strings.Contains(key.Frames[0].Text, "write") {
				t.Errorf("%s: the stack of the process is %q, %#x", m.Name(), key.Frames, key.Addresses)
			}
		case btrace.Symbol:
			if !strings.Contains(key.Name, "write") {
				t.Errorf("%s: the function of the process is %q", m.Name(), key.Name)
			}
		}
	}
	s.Close()
	if n := helpers(t); n > 0 {
		t.Errorf("%d processes that parse files are left", n)
	}
}

// TestWriteMetrics compares both text formats with Read, during a session, after another object replaced the first, and at the end.
func TestWriteMetrics(t *testing.T) {
	const script = "begin { @n[1] = count(); @n[2] = count(); @h = hist(5); } interval:s:100 { @i = 1; }"
	s := loaded(t, script, btrace.Options{DropEvents: true, Reload: true})
	if err := s.WriteMetrics(io.Discard, "json"); err == nil || !strings.Contains(err.Error(), "unknown format of metrics") {
		t.Error(err)
	}
	attach(t, s)
	check := func(want string) {
		t.Helper()
		for _, format := range []string{"prometheus", "openmetrics"} {
			var b strings.Builder
			if err := s.WriteMetrics(&b, format); err != nil {
				t.Error(err)
			}
			if !strings.Contains(b.String(), want) || strings.HasSuffix(b.String(), "# EOF\n") != (format == "openmetrics") {
				t.Errorf("%s has no %s:\n%s", format, want, &b)
			}
		}
	}
	check(`_n_total{object="x",key="2"} 1`)
	check(`_h_bucket{object="x",le="+Inf"} 1`)
	if err := s.Reload(parsed(t, "begin { @n[1] = count(); @m = count(); } interval:s:100 { @i = 1; }"), nil, nil); err != nil {
		t.Fatal(err)
	}
	check(`_m_total{object="x"} 1`)
	s.Close()
	if err := s.WriteMetrics(io.Discard, "prometheus"); !errors.Is(err, btrace.ErrClosed) {
		t.Error(err)
	}
}

// TestReloadMetrics reads metrics, and maps from before, while objects replace each other.
func TestReloadMetrics(t *testing.T) {
	script := func(i int) string {
		return fmt.Sprintf("begin { @begun = sum((uint64)1); } interval:s:100 { @other%d = count(); }", i)
	}
	s := loaded(t, script(0), btrace.Options{DropEvents: true, Reload: true})
	attach(t, s)
	metrics, err := s.Metrics(btrace.MetricOptions{Object: "x"})
	if err != nil {
		t.Fatal(err)
	}
	begun, reloads := s.Map("begun"), 10
	read := func() (value float64, names string) {
		all, err := metrics.Read()
		if err != nil {
			t.Error(err)
		}
		for _, m := range all {
			if names += m.Name + " "; m.Err != nil {
				t.Error(m.Err)
			} else if m.Name == "btc_x_begun_total" && len(m.Series) == 1 {
				value = m.Series[0].Value
			}
		}
		return value, names
	}
	var readers sync.WaitGroup
	var over atomic.Bool
	readers.Go(func() {
		for last := 0.0; !over.Load(); {
			value, _ := read()
			if value < last || value < 1 || value > float64(1+reloads) {
				t.Errorf("@begun is %v after %v", value, last)
			}
			last = value
			if _, err := begun.Snapshot(); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range reloads {
		if err := s.Reload(parsed(t, script(i+1)), nil, nil); err != nil {
			t.Error(err)
		}
	}
	over.Store(true)
	readers.Wait()
	if value, names := read(); value != float64(1+reloads) || !strings.Contains(names, "_other10") || strings.Contains(names, "_other9") {
		t.Errorf("@begun is %v; metrics %s", value, names)
	}
}

// TestReloadClose closes a session for which Wait has not been called while Reload waits for that.
func TestReloadClose(t *testing.T) {
	const script = "interval:s:100 { @n = count(); }"
	s := loaded(t, script, btrace.Options{DropEvents: true, Reload: true, Process: &btrace.Process{}})
	attach(t, s)
	result := make(chan error, 1)
	go func() { result <- s.Reload(parsed(t, script), nil, nil) }()
	select {
	case err := <-result:
		t.Fatalf("Reload did not wait: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	for what, c := range map[string]chan error{"Reload": result, "Close": closed} {
		select {
		case err := <-c:
			if failed := err != nil; failed != (what == "Reload") {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s waits forever", what)
		}
	}
}
