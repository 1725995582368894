// SPDX-License-Identifier: Apache-2.0

//go:build unix

package fan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"btc/internal/manifest"
)

var greeting = fmt.Sprintf(`{"type": "host", "remote": %d, "arch": "x86_64", "kernel": "6.1"}`, remoteVersion)

const (
	attached = `{"type": "attached_probes", "count": 1}`
	end      = `{"type": "end", "status": 3}`
)

// countLine is the map @c of a run.
func countLine(n string) string {
	return `{"type": "map", "name": "@c", "shape": "count", "object": "o", "host": "there", "signed": false, "entries": [{"value": ` + n + `}]}`
}

// says returns a shell command that prints lines as btrun does.
func says(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("echo '" + l + "'; ")
	}
	return b.String()
}

// objectText is the object that the test sends; hosts read it.
const objectText = "an object\n"

const readObject = "head -c 10 >/dev/null; "

// fleet is a Fan whose hosts are shell commands, and what it was told.
type fleet struct {
	Fan
	events   []string
	messages []string
	last     Counts
}

func newFleet(commands map[string]string) *fleet {
	f := &fleet{}
	m := &manifest.Manifest{Maps: []manifest.Map{{Name: "@c", Shape: "count", Value: &manifest.Layout{Kind: "int", Size: 8}}}}
	f.Fan = Fan{
		Command: func(h Host) *exec.Cmd { return exec.Command("sh", "-c", commands[h.Name]) },
		Object: func(arch string) ([]byte, *manifest.Manifest, error) {
			if arch != "x86_64" {
				return nil, nil, errors.New("no object for " + arch)
			}
			return []byte(objectText), m, nil
		},
		Event:    func(h Host, line []byte) { f.events = append(f.events, h.Name+" "+string(line)) },
		Message:  func(h Host, line string) { f.messages = append(f.messages, h.Name+" "+line) },
		Progress: func(c Counts) { f.last = c },
		Parallel: 4, Connect: time.Minute, Grace: time.Minute,
	}
	for name := range commands {
		f.Hosts = append(f.Hosts, Host{Name: name})
	}
	slices.SortFunc(f.Hosts, func(a, b Host) int { return strings.Compare(a.Name, b.Name) })
	return f
}

// run returns the result of each host, and the sum of @c.
func (f *fleet) run(t *testing.T) (map[string]Result, string) {
	t.Helper()
	results, runs := f.Run(t.Context(), context.Background())
	by := map[string]Result{}
	for i, r := range results {
		if r.Host != f.Hosts[i] {
			t.Errorf("result %d is of %v, want %v", i, r.Host, f.Hosts[i])
		}
		by[r.Host.Name] = r
	}
	sum := ""
	if runs.Hosts() > 0 {
		sum = string(runs.AppendJSON(nil, "@c", time.Unix(0, 0)))
		_, sum, _ = strings.Cut(sum, `"value": `)
		sum, _, _ = strings.Cut(sum, "}")
	}
	return by, sum
}

// TestResults checks the result of hosts that behave, and of those that do not.
func TestResults(t *testing.T) {
	ok := says(greeting) + readObject + says(attached, countLine("5"), end)
	for _, c := range []struct {
		name, command string
		state         State
		reason        string // part of it
		counted       bool
		status        int
	}{
		{"good", ok, OK, "", true, 3},
		{"after the end", ok + says("anything", countLine("100")), OK, "", true, 3},
		{"noise of the shell first", says("Welcome", `{"type": "motd"}`) + ok, OK, "", true, 3},
		{"no map", says(greeting) + readObject + says(attached, end), OK, "", true, 3},
		{"empty lines", says(greeting, "") + readObject + says("", attached, end), OK, "", true, 3},
		{"alive", says(greeting) + readObject + says(attached, `{"type": "alive"}`, end), OK, "", true, 3},
		{"error at the end", says(greeting) + readObject + says(attached, `{"type": "end", "status": 1, "error": "cannot attach"}`), Failed, "cannot attach", false, 1},
		{"long error", says(greeting) + readObject + says(attached, `{"type": "end", "error": "`+strings.Repeat("E", maxReason)+`F"}`), Failed, strings.Repeat("E", maxReason) + " ... (301 bytes)", false, 0},
		{"longest error", says(greeting) + readObject + says(attached, `{"type": "end", "error": "`+strings.Repeat("E", maxReason)+`"}`), Failed, strings.Repeat("E", maxReason), false, 0},
		{"lost", says(greeting) + readObject + says(attached, countLine("5")), Failed, "the connection was lost before its report", false, 0},
		{"lost, with a reason", says(greeting) + readObject + says(attached) + "echo 'broken pipe' >&2", Failed, "the connection was lost before its report: broken pipe", false, 0},
		{"nothing", "true", Failed, "the command ended without an answer", false, 0},
		{"status", "exit 5", Failed, "the command ended with exit status 5", false, 0},
		{"not there", "exit 127", Failed, "install btrun there", false, 0},
		{"not found", "echo 'btrun: not found' >&2; exit 1", Failed, "btrun: not found: install btrun there", false, 0},
		{"refused", "echo 'Connection refused' >&2; exit 255", Failed, "Connection refused", false, 0},
		{"old", "echo 'unknown option --remote' >&2; exit 2", Failed, "unknown option --remote: its btrun is older than this btc", false, 0},
		{"noise", says("Welcome") + "exit 1", Failed, `its output is not that of btrun --remote: "Welcome"`, false, 0},
		{"version", says(strings.Replace(greeting, fmt.Sprint(remoteVersion), "1", 1)), Failed, fmt.Sprintf("its btrun speaks version 1 of --remote, this btc version %d", remoteVersion), false, 0},
		{"architecture", says(strings.Replace(greeting, "x86_64", "vax", 1)), Failed, "no object for vax", false, 0},
		{"not JSON", says(greeting) + readObject + says("{", end), Failed, "its output is not that of btrun --remote", false, 0},
		{"a list", says(greeting) + readObject + says("[1]", end), Failed, "its output is not that of btrun --remote", false, 0},
		{"no type", says(greeting) + readObject + says(`{"data": 1}`, end), Failed, "its output is not that of btrun --remote", false, 0},
		{"two types", says(greeting) + readObject + says(`{"type": "printf", "type": "map"}`, end), Failed, `a line has two members "type"`, false, 0},
		{"a map that lies", says(greeting) + readObject + says(countLine("-1"), end), Failed, "not an integer of 64 bits", false, 3},
		{"a print that lies", says(greeting) + readObject + says(strings.Replace(countLine("-1"), `"shape"`, `"line": 1, "shape"`, 1), end), Failed, "not an integer of 64 bits", false, 0},
		{"lost events", says(greeting) + readObject + says(`{"type": "lost_events", "count": 281474976710656}`, end), OK, "", true, 3},
		{"too many lost events", says(greeting) + readObject + says(`{"type": "lost_events", "count": 281474976710657}`, end), Failed, "it has lost", false, 0},
		{"long greeting", "head -c 1100000 /dev/zero | tr '\\0' x; " + ok, Failed, "a line of more than 1 MiB", false, 0},
	} {
		f := newFleet(map[string]string{"h": c.command})
		results, sum := f.run(t)
		r := results["h"]
		if r.State != c.state || r.Counted != c.counted || r.Status != c.status || !strings.Contains(r.Reason, c.reason) || (r.Reason == "") != (c.reason == "") {
			t.Errorf("%s: %s, counted %v, status %d: %s; want %s, %v, %d: %s", c.name, r.State, r.Counted, r.Status, r.Reason, c.state, c.counted, c.status, c.reason)
		}
		if c.name == "good" && (sum != "5" || r.Arch != "x86_64" || r.Kernel != "6.1" || r.Took <= 0) || c.state != OK && sum != "" {
			t.Errorf("%s: sum %q, %+v", c.name, sum, r)
		}
		want := Counts{All: 1, Done: 1}
		if c.state != OK {
			want.Bad = 1
		}
		if f.last != want {
			t.Errorf("%s: %+v, want %+v", c.name, f.last, want)
		}
	}
}

// TestFleet checks the sum of several hosts, one of which cannot be reached, and what is passed on.
func TestFleet(t *testing.T) {
	run := func(n string) string {
		return says(greeting) + readObject + "echo late >&2; " + says(attached, `{"type": "printf", "data": "x"}`, countLine(n), end)
	}
	f := newFleet(map[string]string{"a": run("1"), "b": run("2"), "c": run("4")})
	f.Hosts = append(f.Hosts, Host{Name: "d", Problem: "no such pod"})
	f.Parallel = 0 // as 1
	results, sum := f.run(t)
	if sum != "7" || results["d"].State != Failed || results["d"].Reason != "no such pod" {
		t.Errorf("sum %q, %v", sum, results)
	}
	if want := []string{`a {"type": "printf", "data": "x"}`, `b {"type": "printf", "data": "x"}`, `c {"type": "printf", "data": "x"}`}; !slices.Equal(f.events, want) {
		t.Errorf("events %q", f.events)
	}
	if want := []string{"a late", "b late", "c late"}; !slices.Equal(f.messages, want) {
		t.Errorf("messages %q, want one of each host", f.messages)
	}
	if want := (Counts{All: 4, Done: 4, Bad: 1}); f.last != want {
		t.Errorf("%+v, want %+v", f.last, want)
	}
}

// TestContradiction checks that of hosts with different objects those of most hosts count.
func TestContradiction(t *testing.T) {
	run := func(object string) string {
		return says(greeting) + readObject + says(attached, strings.Replace(countLine("1"), `"object": "o"`, `"object": "`+object+`"`, 1), end)
	}
	f := newFleet(map[string]string{"a": run("o"), "b": run("x"), "c": run("o")})
	results, sum := f.run(t)
	if sum != "2" || results["b"].State != Failed || results["b"].Counted || strings.HasPrefix(results["b"].Reason, "b: ") || results["a"].State != OK {
		t.Errorf("sum %q, %+v", sum, results)
	}
	f = newFleet(map[string]string{"a": run("o"), "b": run("x"), "c": run("o")})
	f.Identity = "the script" // its objects differ by architecture
	if _, sum := f.run(t); sum != "3" {
		t.Errorf("sum %q of one script", sum)
	}
}

// TestPartial checks that a host that was lost counts with its last snapshot if snapshots are asked for.
func TestPartial(t *testing.T) {
	f := newFleet(map[string]string{
		"lost": says(greeting) + readObject + says(attached, countLine("5"), countLine("6")),
		"lies": says(greeting) + readObject + says(attached, countLine("5"), "x"),
		"none": says(greeting) + readObject + says(attached),
	})
	f.Partial = true
	results, sum := f.run(t)
	if r := results["lost"]; sum != "6" || r.State != Failed || !r.Counted || !strings.HasSuffix(r.Reason, "; its last snapshot counts") {
		t.Errorf("sum %q, %+v", sum, r)
	}
	for _, name := range []string{"lies", "none"} {
		if r := results[name]; r.State != Failed || r.Counted || strings.Contains(r.Reason, "snapshot") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestLate checks the time limits: for the first answer, and for the report after the end of the run.
func TestLate(t *testing.T) {
	for _, c := range []struct {
		name, command string
		set           func(*fleet)
		reason        string
	}{
		{"no answer", "sleep 60", func(f *fleet) { f.Connect = 100 * time.Millisecond }, "no answer within 100ms"},
		{"no answer, with a reason", "echo asks for a password >&2; sleep 60", func(f *fleet) { f.Connect = 500 * time.Millisecond }, "no answer within 500ms: asks for a password"},
		{"no report", says(greeting) + readObject + says(attached) + "sleep 60", func(f *fleet) { f.Timeout, f.Grace = 50*time.Millisecond, 100*time.Millisecond }, "no report 100ms after the end of its time"},
		{"no report of a run that waited", says(greeting) + readObject + says(attached) + "sleep 60", func(f *fleet) { f.Timeout, f.Grace, f.Waits = 50*time.Millisecond, 100*time.Millisecond, true }, "no report 100ms after the end of its time"},
		{"not copied", says(MachineMark+"x86_64") + "sleep 60", func(f *fleet) {
			f.Program = func(string) ([]byte, error) { return []byte("p"), nil }
			f.Connect, f.Grace = 100*time.Millisecond, 100*time.Millisecond
		}, "btrun was not copied and started within 200ms"},
	} {
		f := newFleet(map[string]string{"h": c.command})
		c.set(f)
		results, _ := f.run(t)
		if r := results["h"]; r.State != Late || r.Reason != c.reason || r.Counted {
			t.Errorf("%s: %+v, want late: %s", c.name, r, c.reason)
		}
	}
}

// TestInterrupt checks that hosts are asked to end by the end of their input, and that hosts that have not begun do not.
func TestInterrupt(t *testing.T) {
	f := newFleet(map[string]string{"a": says(greeting) + readObject + says(attached) + "cat >/dev/null; " + says(countLine("9"), end), "b": "exit 1"})
	f.Parallel = 1
	ctx, cancel := context.WithCancel(t.Context())
	f.Progress = func(c Counts) {
		if c.Running == 1 {
			cancel()
		}
	}
	results, runs := f.Run(ctx, context.Background())
	if results[0].State != OK || runs.Hosts() != 1 {
		t.Errorf("%+v, want a report after the interrupt", results[0])
	}
	if r := results[1]; r.State != NotStarted || r.Reason != "the run was interrupted before" {
		t.Errorf("%+v, want not started", r)
	}
}

// TestKill checks that commands are killed when nobody waits for them.
func TestKill(t *testing.T) {
	f := newFleet(map[string]string{"a": says(greeting) + readObject + says(attached) + "sleep 60"})
	kill, cancel := context.WithCancel(t.Context())
	f.Progress = func(c Counts) {
		if c.Running == 1 {
			cancel()
		}
	}
	results, _ := f.Run(context.Background(), kill)
	if r := results[0]; r.State != Late || r.Reason != "not waited for" {
		t.Errorf("%+v", r)
	}
}

// TestPush checks that a host gets the program for its machine: a line with the size, then the program.
func TestPush(t *testing.T) {
	copied := says(MachineMark+"aarch64") + "read n; head -c $n; echo; " + says(greeting) + readObject + says(attached, end)
	f := newFleet(map[string]string{"copied": copied, "other": says(MachineMark + "vax"), "refused": says(MachineMark + "riscv64")})
	f.Fan.Program = func(arch string) ([]byte, error) {
		if arch != "arm64" {
			return nil, fmt.Errorf("no btrun for %s", arch)
		}
		return []byte(says("#!") + "program"), nil
	}
	results, _ := f.run(t)
	if r := results["copied"]; r.State != OK {
		t.Errorf("%+v", r)
	}
	if r := results["other"]; r.State != Failed || r.Reason != `btrun does not support its architecture "vax"` {
		t.Errorf("%+v", r)
	}
	if r := results["refused"]; r.State != Failed || r.Reason != "no btrun for riscv64" {
		t.Errorf("%+v", r)
	}
}

// TestFeed checks that the object is sent, and then an empty line at a time, until the exchange ends.
func TestFeed(t *testing.T) {
	r, w := io.Pipe()
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() { feed(w, []byte("x"), done); close(ended) }()
	b := make([]byte, 8)
	if n, err := r.Read(b); string(b[:n]) != "x" || err != nil {
		t.Errorf("%q, %v", b[:n], err)
	}
	close(done)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
	r.Close()
	feed(w, []byte("x"), nil) // ends, because nobody reads
}

func TestStrings(t *testing.T) {
	for _, c := range [][3]string{{"", "", ""}, {"a", "", "a"}, {"", "b", "b"}, {"a", "b", "a: b"}} {
		if got := join(c[0], c[1]); got != c[2] {
			t.Errorf("join(%q, %q) = %q", c[0], c[1], got)
		}
	}
	for text, want := range map[string]string{"abc": "abc", "abcd": "abc ... (4 bytes)", "abé": "ab ... (4 bytes)"} {
		if got := cut(text, 3); got != want {
			t.Errorf("cut(%q) = %q, want %q", text, got, want)
		}
	}
	f := newFleet(nil)
	early := &errorOutput{session: &session{fan: &f.Fan}}
	early.part = []byte("before btrun answers")
	early.flush()
	if len(f.messages) > 0 || len(early.lines) != 1 {
		t.Errorf("messages %q", f.messages)
	}
	long := &errorOutput{session: &session{fan: &Fan{}}}
	long.session.fan.shares.slots = 1
	fmt.Fprintf(long, "%s", strings.Repeat("x", maxErrorLine-1))
	fmt.Fprintf(long, "yz\nnext")
	long.flush()
	if len(long.lines) != 2 || long.lines[0] != strings.Repeat("x", maxErrorLine-1)+"y" || long.lines[1] != "next" {
		t.Errorf("%d lines: %q", len(long.lines), long.lines)
	}
}
