// SPDX-License-Identifier: Apache-2.0

package btrace_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"btc/btrace"
	"btc/compile"
	"btc/targets/kernel"
)

// compiled compiles a script and returns its object and manifest.
func compiled(t testing.TB, script string) (object, manifest []byte) {
	t.Helper()
	target, err := kernel.Default(runtime.GOARCH)
	if err != nil {
		t.Skip("skipped: ", err)
	}
	out, diags := compile.Compile(compile.Input{Name: "x.bt", Text: script, Target: target})
	if out == nil {
		t.Fatalf("%s: %v", script, diags)
	}
	return out.Object, out.Manifest
}

func parsed(t testing.TB, script string) *btrace.Object {
	t.Helper()
	o, err := btrace.Parse(compiled(t, script))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func needRoot(t testing.TB) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
}

func loaded(t testing.TB, script string, opts btrace.Options) *btrace.Session {
	t.Helper()
	needRoot(t)
	s, err := btrace.Load(parsed(t, script), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func attach(t testing.TB, s *btrace.Session) {
	t.Helper()
	if err := s.Attach(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestEvents checks that values of each kind have the type that Value documents, in the order of the
// script.
func TestEvents(t *testing.T) {
	s := loaded(t, `
enum colour { red = 3 }
begin {
	printf("%d %s\n", (int32)-5, "text");
	print((1, "a", true));
	print((x=(uint8)7, y=2));
	print((enum colour)3);
	print(ntop((uint32)0x0100007f));
	print(buf("ab", 2));
	@h = hist(3); @h = hist(100); print(@h);
	@c["k", 1] = count(); print(@c);
	time("now"); warnf("careful %d", 1);
	@s = kstack(1); print(@s);
	exit(3);
}`, btrace.Options{})
	attach(t, s)
	var got []string
	for e := range s.Events() {
		text := fmt.Sprintf("%s %q %#v", e.Kind, e.Text, e.Values)
		if e.Map != nil {
			text = fmt.Sprintf("%s %s %s %d", e.Kind, e.Map.Name, e.Map.Shape, len(e.Map.Entries))
		}
		got = append(got, text)
	}
	want := []string{
		`printf "-5 text\n" []interface {}{-5, "text"}`,
		`print "(1, a, true)\n" []interface {}{btrace.Tuple{1, "a", true}}`,
		`print "{ .x = 7, .y = 2 }\n" []interface {}{btrace.Record{btrace.Field{Name:"x", Value:0x7}, btrace.Field{Name:"y", Value:2}}}`,
		`print "red\n" []interface {}{btrace.Enum{Name:"red", Value:3}}`,
	}
	for i, w := range want {
		if i >= len(got) || got[i] != w {
			t.Errorf("event %d:\n got %s\nwant %s", i, got[min(i, len(got)-1)], w)
		}
	}
	all := strings.Join(got, "\n")
	for _, w := range []string{"map @h hist 1", "map @c count 1", `time "now"`, `warnf "careful 1"`, "map @s plain 1", `[]uint8{0x61, 0x62}`} {
		if !strings.Contains(all, w) {
			t.Errorf("%s not found in\n%s", w, all)
		}
	}
	if code, err := s.Wait(); code != 3 || err != nil {
		t.Errorf("exit code %d, error %v", code, err)
	}
}

// TestMaps checks that maps can be read while programs run and contain the activity of the workload,
// and that the results of several Takes add up to the same.
func TestMaps(t *testing.T) {
	s := loaded(t, `
tracepoint:syscalls:sys_enter_lseek /pid == $1/ {
	@n = count(); @sum[args.offset] = sum(args.offset); @low = min(args.offset); @high = max(args.offset);
	@avg = avg(args.offset); @stats[comm] = stats(args.offset); @h[pid] = hist(args.offset, 2); @l = lhist(args.offset, 0, 100, 10); @last = args.offset;
}`, btrace.Options{Args: []string{fmt.Sprint(os.Getpid())}})
	attach(t, s)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	work := func() {
		for i := range 100 {
			unix.Seek(-1, int64(i), 0)
		}
	}
	if x, err := s.Map("n").Snapshot(); err != nil || len(x.Entries) != 0 {
		t.Errorf("before the workload: %v, %v", x, err)
	}
	work()
	read := func(name string, key ...any) btrace.Value {
		t.Helper()
		x, err := s.Map(name).Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		v, ok := x.Get(key...)
		if !ok {
			t.Errorf("%s%v: no value in %v", name, key, x.Entries)
		}
		return v
	}
	comm, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/comm", unix.Gettid()))
	number := func(n uint64, signed bool) btrace.Number { return btrace.Number{Bits: n, Signed: signed} }
	_, signed := read("@last").(int64)
	for _, x := range []struct{ have, want btrace.Value }{
		{read("@n"), btrace.Count(100)},
		{read("sum", 7), btrace.Sum{Total: number(7, signed)}},
		{read("low"), btrace.Min{Value: number(0, signed)}},
		{read("high"), btrace.Max{Value: number(99, signed)}},
		{read("avg"), btrace.Avg{Count: 100, Total: number(4950, signed)}},
		{read("stats", strings.TrimSpace(string(comm))), btrace.Stats{Count: 100, Total: number(4950, signed)}},
		{read("h", os.Getpid()).(*btrace.Hist).Count(), uint64(100)},
		{read("l").(*btrace.Hist).Counts, []uint64{0, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10}},
	} {
		if d := cmp.Diff(x.want, x.have); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
	}
	total, err := s.Map("@n").Take()
	if err != nil {
		t.Fatal(err)
	}
	work()
	second, err := s.Map("@n").Take()
	if err != nil {
		t.Fatal(err)
	}
	if err := total.Merge(second); err != nil {
		t.Fatal(err)
	}
	if v, _ := total.Get(); v != btrace.Count(200) {
		t.Errorf("sum of both intervals = %v", v)
	}
	if l := s.Losses(); l.Any() {
		t.Errorf("lost %+v", l)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Map("n").Snapshot(); !errors.Is(err, btrace.ErrClosed) {
		t.Errorf("error after Close = %v", err)
	}
}

// TestContext checks that a session ends with its context, runs its end programs, and keeps its maps
// until Close.
func TestContext(t *testing.T) {
	s := loaded(t,
		`begin { printf("begin %d\n", pid); } interval:ms:10 { @ = count(); printf("tick\n"); } end { printf("end\n"); }`,
		btrace.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := s.Attach(ctx); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for e := range s.Events() {
		texts = append(texts, e.Text)
		cancel()
	}
	if texts[0] != fmt.Sprintf("begin %d\n", os.Getpid()) || texts[len(texts)-1] != "end\n" {
		t.Errorf("events %q", texts)
	}
	if _, err := s.Map("").Snapshot(); err != nil {
		t.Error(err)
	}
	// If the context is already done, nothing is attached.
	again := loaded(t, `interval:ms:10 { @ = count(); }`, btrace.Options{})
	if err := again.Attach(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("attaching with a canceled context: error = %v", err)
	}
}

// TestSessions checks that sessions in one process are independent, and that any goroutine may read
// maps and events or call Stop and Close.
func TestSessions(t *testing.T) {
	needRoot(t)
	o := parsed(t,
		`interval:ms:1 { @[$1] = count(); @h = hist(nsecs); printf("%d %s\n", $1, ksym(kaddr("schedule"))); }`)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			s, err := btrace.Load(o, btrace.Options{Args: []string{fmt.Sprint(i)}})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if err := s.Attach(t.Context()); err != nil {
				t.Error(err)
				return
			}
			var readers sync.WaitGroup
			for range 2 {
				readers.Go(func() {
					for range 50 {
						x, err := s.Map("@").Snapshot()
						if err != nil {
							t.Error(err)
						} else if len(x.Entries) > 0 && x.Entries[0].Key[0] != int64(i) {
							t.Errorf("session %d has key %v", i, x.Entries[0].Key)
						}
						s.Map("h").Take()
						s.Losses()
						time.Sleep(time.Millisecond)
					}
				})
			}
			n := 0
			for e := range s.Events() {
				var k int
				if err := e.Scan(&k, nil); err != nil || k != i {
					t.Errorf("session %d: %q, %v", i, e.Text, err)
				}
				if n++; n == 20 {
					break
				}
			}
			readers.Wait()
		})
	}
	all.Wait()
}

// TestNobodyReads checks that if nobody consumes events, those that do not fit in the kernel's buffer
// are counted, and Close still ends the session.
func TestNobodyReads(t *testing.T) {
	s := loaded(t, `config = { perf_rb_pages = 1 }
tracepoint:syscalls:sys_enter_lseek /pid == $1/ { printf("%d %s\n", args.offset, "a text that takes room in the buffer of the kernel"); }`, btrace.Options{Args: []string{fmt.Sprint(os.Getpid())}})
	attach(t, s)
	for end := time.Now().Add(time.Minute); s.Losses().Events == 0 && time.Now().Before(end); {
		for i := range 1000 {
			unix.Seek(-1, int64(i), 0)
		}
	}
	if s.Losses().Events == 0 {
		t.Error("no lost events counted")
	}
	s.Close()
	for e := range s.Events() {
		t.Errorf("event after Close: %v", e)
	}
}

// TestPermission checks that a script that needs a permission is rejected without it.
func TestPermission(t *testing.T) {
	needRoot(t)
	o := parsed(t, `begin { system("echo out"); exit(); }`)
	if _, err := btrace.Load(o, btrace.Options{}); err == nil || !strings.Contains(err.Error(), "system") {
		t.Errorf("error = %v", err)
	}
	s := loaded(t, `begin { system("echo out"); exit(); }`, btrace.Options{Allow: []btrace.Permission{btrace.AllowSystem}})
	attach(t, s)
	var text string
	for e := range s.Events() {
		text += e.Text
	}
	if text != "out\n" {
		t.Errorf("event %q", text)
	}
}

// TestSources checks that an object can be read from files, bytes and file systems, and that a damaged
// one is an error.
func TestSources(t *testing.T) {
	data, text := compiled(t, `begin { printf("%d %d", $1, getopt("depth", 5)); }`)
	dir := t.TempDir()
	path := filepath.Join(dir, "x.o")
	os.WriteFile(path, data, 0o600)
	os.WriteFile(filepath.Join(dir, "x.json"), text, 0o600)
	fsys := fstest.MapFS{"d/x.o": {Data: data}, "d/x.json": {Data: text}}
	for name, open := range map[string]func() (*btrace.Object, error){
		"file":  func() (*btrace.Object, error) { return btrace.Open(path) },
		"fs":    func() (*btrace.Object, error) { return btrace.OpenFS(fsys, "d/x.o") },
		"bytes": func() (*btrace.Object, error) { return btrace.Parse(data, text) },
	} {
		o, err := open()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if file, source := o.Source(); file != "x.bt" || !strings.Contains(source, "getopt") {
			t.Errorf("%s: source %q of %q", name, source, file)
		}
		if p := o.Probes(); len(p) != 1 || p[0] != "begin" {
			t.Errorf("%s: probes %q", name, p)
		}
		if p := o.Params(); len(p) != 2 {
			t.Errorf("%s: parameters %v", name, p)
		}
	}
	data[len(data)/2] ^= 1
	if _, err := btrace.Parse(data, text); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("damaged object: error = %v", err)
	}
	if _, err := btrace.Open(filepath.Join(dir, "none.o")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: error = %v", err)
	}
}

// TestProcesses checks that a session ends with its command, and with the process of Options.PID.
func TestProcesses(t *testing.T) {
	s := loaded(t, `tracepoint:syscalls:sys_enter_execve /pid == cpid/ { @ = count(); }`,
		btrace.Options{Command: "/bin/true", DropEvents: true})
	attach(t, s)
	if _, err := s.Wait(); err != nil {
		t.Error(err)
	}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	s = loaded(t, `interval:ms:10 { @ = count(); }`, btrace.Options{PID: cmd.Process.Pid, DropEvents: true})
	attach(t, s)
	cmd.Process.Kill()
	if _, err := s.Wait(); err != nil {
		t.Error(err)
	}
}
