// SPDX-License-Identifier: Apache-2.0

package btrace_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"btc/btrace"
	"btc/internal/option"
	"btc/loader/options"
)

// reporting loads a session that prints a report.
func reporting(t *testing.T, script string, opts btrace.Options, r btrace.Report) *btrace.Session {
	t.Helper()
	needRoot(t)
	s, err := btrace.LoadReport(t.Context(), parsed(t, script), opts, &r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// printed runs a script to its end and returns its report, its messages and its exit code.
func printed(t *testing.T, script string, opts btrace.Options, r btrace.Report) (out, messages string, code int) {
	t.Helper()
	var text, errs bytes.Buffer
	r.Out, r.Err = &text, &errs
	s := reporting(t, script, opts, r)
	attach(t, s)
	code, err := s.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for e := range s.Events() {
		t.Errorf("an event beside the report: %+v", e)
	}
	return text.String(), errs.String(), code
}

const talkative = `begin {
	printf("hello %d\n", 1); print(@n); @n = 3; @c["a"] = count(); @c["b"] = count(); @c["b"] = count(); warnf("w"); exit(4); }`

// A report is what btrun prints, in each format.
func TestReport(t *testing.T) {
	for format, want := range map[string][]string{
		"":           {"hello 1\n@n: 3\n\n\n@c[a]: 1\n@c[b]: 2\n@n: 3\n"},
		"text":       {"hello 1\n@n: 3\n\n\n@c[a]: 1\n@c[b]: 2\n@n: 3\n"},
		"json":       {`{"type": "printf", "data": "hello 1\n"}`, `{"type": "map", "data": {"@n": 3}}`},
		"json2":      {`"type": "printf"`, `"shape": "count"`},
		"prometheus": {`btc_scripts_c_total{object="scripts",key="b"} 2`},
	} {
		out, messages, code := printed(t, talkative, btrace.Options{}, btrace.Report{Format: format, Object: "scripts"})
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%q: no %q in\n%s", format, w, out)
			}
		}
		if code != 4 {
			t.Errorf("%q: exit code %d", format, code)
		}
		if isText := format == "" || format == "text"; isText && (out != want[0] || !strings.HasPrefix(messages, "Attached 1 probe\n") ||
			!strings.Contains(messages, "WARNING: w\n")) {
			t.Errorf("%q: output %q, messages %q", format, out, messages)
		}
	}
}

// Each option changes the report as that of btrun does.
func TestReportOptions(t *testing.T) {
	for name, c := range map[string]struct {
		opts         btrace.Options
		report       btrace.Report
		out          string
		messages, no string
	}{
		"top":     {report: btrace.Report{Top: 1}, out: "hello 1\n@n: 3\n\n\n@c[b]: 2\n@n: 3\n"},
		"order":   {report: btrace.Report{Sort: "descending"}, out: "hello 1\n@n: 3\n\n\n@c[b]: 2\n@c[a]: 1\n@n: 3\n"},
		"quiet":   {report: btrace.Report{Quiet: true}, messages: "WARNING: w", no: "Attached"},
		"loud":    {messages: "Attached 1 probe"},
		"silence": {opts: btrace.Options{NoWarnings: true}, messages: "Attached", no: "WARNING"},
		"verbose": {report: btrace.Report{Verbose: true}, messages: "processed "},
		"color":   {report: btrace.Report{Color: true}, messages: "WARNING: w"},
		"limit":   {opts: btrace.Options{MaxEvents: 1}, out: "hello 1\n\n\n@c[a]: 1\n@c[b]: 2\n@n: 3\n"},
	} {
		out, messages, _ := printed(t, talkative, c.opts, c.report)
		if c.out != "" && out != c.out {
			t.Errorf("%s: %q", name, out)
		}
		if !strings.Contains(messages, c.messages) || c.no != "" && strings.Contains(messages, c.no) {
			t.Errorf("%s: messages %q", name, messages)
		}
	}
}

// The library accepts each value that btrun's option table lists, and no other.
func TestReportChoices(t *testing.T) {
	needRoot(t)
	o := parsed(t, `begin { exit(); } interval:s:1 { @[kstack] = count(); }`)
	load := func(r btrace.Report) error {
		s, err := btrace.LoadReport(t.Context(), o, btrace.Options{}, &r)
		if err == nil {
			err = s.Close()
		}
		return err
	}
	table := new(options.Values).Table()
	for name, field := range map[string]string{"format": "Format", "buffer": "Buffer", "sort": "Sort"} {
		var choices []option.Choice
		for _, row := range table {
			if row.Name == name {
				choices = row.Choices
			}
		}
		if len(choices) < 3 {
			t.Errorf("--%s has %d values", name, len(choices))
		}
		for _, c := range append(choices, option.Choice{Name: "nosuch"}) {
			var r btrace.Report
			reflect.ValueOf(&r).Elem().FieldByName(field).SetString(c.Name)
			err := load(r)
			if c.Name == "nosuch" {
				if err == nil || !strings.Contains(err.Error(), `"nosuch": expected `+choices[0].Name+", ") {
					t.Errorf("--%s: %v", name, err)
				}
			} else if err != nil {
				t.Errorf("--%s %s: %v", name, c.Name, err)
			}
		}
	}
}

// Options that cannot be combined are an error of Load, which leaves nothing behind.
func TestBadOptions(t *testing.T) {
	o := parsed(t, `begin { exit(); }`)
	for _, c := range []struct {
		opts   btrace.Options
		report *btrace.Report
		want   string
	}{
		{btrace.Options{Timeout: -1}, nil, "the timeout -1ns is negative"},
		{btrace.Options{FollowForks: true}, nil, "FollowForks needs processes"},
		{btrace.Options{PID: 1, Command: "true"}, nil, "cannot be combined"},
		{btrace.Options{Mode: "test"}, nil, "the mode test needs a report"},
		{btrace.Options{Mode: "race"}, nil, `unknown mode "race"`},
		{btrace.Options{Allow: []btrace.Permission{"nosuch"}}, nil, "nosuch"},
		{btrace.Options{}, &btrace.Report{Every: -1}, "negative"},
		{btrace.Options{Mode: "bench"}, &btrace.Report{Format: "otlp"}, "the format otlp writes maps"},
	} {
		var s *btrace.Session
		var err error
		if c.report == nil {
			s, err = btrace.Load(o, c.opts)
		} else {
			s, err = btrace.LoadReport(t.Context(), o, c.opts, c.report)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.opts, err)
		}
		if err == nil {
			s.Close()
		} else if s != nil {
			t.Errorf("%+v: a session and an error", c.opts)
		}
	}
}

// PrintMaps and Every print the maps during the session, and Timeout ends it.
func TestPrintMaps(t *testing.T) {
	var out printedText
	const script = `begin { @n = 7; } interval:s:1000 {}`
	s := reporting(t, script, btrace.Options{Timeout: time.Minute}, btrace.Report{Out: &out, Quiet: true})
	attach(t, s)
	s.PrintMaps()
	out.await(t, "@n: 7\n")
	s.Stop()
	if _, err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.PrintMaps() // must do nothing
	if n := strings.Count(out.String(), "@n: 7\n"); n != 2 {
		t.Errorf("printed %d times: %q", n, out.String())
	}

	out = printedText{}
	s = reporting(t, script, btrace.Options{Timeout: 300 * time.Millisecond}, btrace.Report{Out: &out, Every: 10 * time.Millisecond})
	attach(t, s)
	if _, err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "@n: 7\n"); n < 2 {
		t.Errorf("printed %d times: %q", n, out.String())
	}
}

// printedText is an output that a test can wait for.
type printedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *printedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *printedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *printedText) await(t *testing.T, want string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(l.String(), want); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %q in %q", want, l.String())
		}
	}
}

// Several sessions print reports at the same time, beside one with events.
func TestReportsInParallel(t *testing.T) {
	needRoot(t)
	o := parsed(t, `begin { printf("%d\n", $1); @ = count(); exit(); }`)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			var out bytes.Buffer
			opts, prints := btrace.Options{Args: []string{fmt.Sprint(i)}}, i%4 != 0
			s, err := (*btrace.Session)(nil), error(nil)
			if prints {
				s, err = btrace.LoadReport(t.Context(), o, opts, &btrace.Report{Out: &out})
			} else {
				s, err = btrace.Load(o, opts)
			}
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if err := s.Attach(t.Context()); err != nil {
				t.Error(err)
				return
			}
			for e := range s.Events() {
				out.WriteString(e.Text)
			}
			if _, err := s.Wait(); err != nil {
				t.Error(err)
			}
			want := fmt.Sprintf("%d\n", i)
			if prints {
				want += "\n\n@: 1\n"
			}
			if out.String() != want {
				t.Errorf("%q, want %q", out.String(), want)
			}
		})
	}
	all.Wait()
}

// A write error ends the session: Wait returns it.
func TestReportNotRead(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	s := reporting(t, `interval:ms:1 { printf("x\n"); }`, btrace.Options{}, btrace.Report{Out: w})
	attach(t, s)
	if code, err := s.Wait(); code != 1 || !errors.Is(err, unix.EPIPE) {
		t.Errorf("exit code %d, %v", code, err)
	}
}

// A dry run loads the programs and runs none of them.
func TestDryRun(t *testing.T) {
	var out printedText
	s := reporting(t, `begin { printf("ran\n"); } self:signal:SIGUSR1 { printf("ran\n"); } interval:ms:1 { printf("ran\n"); }`,
		btrace.Options{DryRun: true}, btrace.Report{Out: &out})
	if err := s.Attach(t.Context()); err == nil || !strings.Contains(err.Error(), "dry run") {
		t.Errorf("attached: %v", err)
	}
	if s.RunSelf() {
		t.Error("the self probes ran")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if out.String() != "" {
		t.Errorf("printed %q", out.String())
	}
	if _, err := s.Wait(); !errors.Is(err, btrace.ErrClosed) {
		t.Errorf("Wait: %v", err)
	}
}

// The test mode runs the test programs.
func TestMode(t *testing.T) {
	out, _, code := printed(t, `test:good { exit(0); } test:bad { exit(1); }`, btrace.Options{Mode: "test"}, btrace.Report{})
	if code != 1 || !strings.Contains(out, "good") || !strings.Contains(out, "bad") {
		t.Errorf("exit code %d, %q", code, out)
	}
}

// With Process, all work is done by the goroutine that calls Wait, and begin and end see its thread.
func TestProcess(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, _, _ := printed(t, `begin { printf("%d ", tid); exit(); } end { printf("%d\n", tid); }`,
		btrace.Options{Process: &btrace.Process{}}, btrace.Report{})
	if want := fmt.Sprintf("%d %[1]d\n\n\n", unix.Gettid()); out != want {
		t.Errorf("%q, want %q", out, want)
	}

	// Close without Wait, and Stop before it.
	s := loaded(t, `interval:s:1000 {}`, btrace.Options{Process: &btrace.Process{}})
	attach(t, s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	s = reporting(t, `interval:s:1000 {}`, btrace.Options{Process: &btrace.Process{}}, btrace.Report{})
	attach(t, s)
	s.Stop()
	if _, err := s.Wait(); err != nil {
		t.Error(err)
	}
}

// Read leaves what follows the object in a buffered stream, and an Object can be loaded again.
func TestRead(t *testing.T) {
	object, manifest := compiled(t, `begin { printf("%s\n", str($1)); exit(); }`)
	stream := bufio.NewReader(bytes.NewReader(slices.Concat(object, []byte("rest"))))
	if _, err := btrace.Read(stream); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(stream); string(rest) != "rest" {
		t.Errorf("left in the stream: %q", rest)
	}
	stream.Reset(bytes.NewReader(slices.Concat(manifest, object, []byte("rest"))))
	o, err := btrace.Read(stream)
	if err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(stream); string(rest) != "rest" {
		t.Errorf("left in the stream: %q", rest)
	}
	needRoot(t)
	for _, arg := range []string{"first", "second"} {
		var out bytes.Buffer
		s, err := btrace.LoadReport(t.Context(), o, btrace.Options{Args: []string{arg}}, &btrace.Report{Out: &out})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Attach(context.Background()); err != nil {
			t.Fatal(err)
		}
		s.Wait()
		s.Close()
		if out.String() != arg+"\n\n\n" {
			t.Errorf("%q, want %q", out.String(), arg)
		}
	}
	if _, err := btrace.Read(strings.NewReader("hello")); err == nil || !strings.Contains(err.Error(), "standard input: ") {
		t.Errorf("not an object: %v", err)
	}
}

// TestReportErrors checks that an error of a session with a report can be given the type that it has without one.
func TestReportErrors(t *testing.T) {
	needRoot(t)
	_, err := btrace.LoadReport(t.Context(), parsed(t, `begin { system("true"); }`), btrace.Options{}, &btrace.Report{})
	var refused *btrace.PermissionError
	if err == nil || errors.As(err, &refused) {
		t.Errorf("error %v", err)
	}
	if !errors.As(btrace.TypedError(err), &refused) || refused.Permission != btrace.AllowSystem || refused.Line != 1 {
		t.Errorf("error %#v", btrace.TypedError(err))
	}
	if btrace.TypedError(nil) != nil {
		t.Error("an error of nil")
	}
}
