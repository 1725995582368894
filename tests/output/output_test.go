// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// limit is the time limit of a run.
const limit = 5 * time.Minute

// hostile prints the strings of the workload "hostile" in every way that writes bytes of traced
// programs to the output.
const hostile = `
tracepoint:syscalls:sys_enter_getppid {
  @names[comm] = count(); @stacks[ustack(32), kstack(3)] = count(); @hist[comm] = hist(tid);
  @last[tid] = comm; @tuple[comm, pid, (tid, comm)] = sum(tid); @lat = lhist(tid, 0, 100000, 1000);
  printf("%s|%-20s|%d|%s\n", comm, comm, tid, ustack(perf, 3));
  print((comm, tid));
}
tracepoint:syscalls:sys_enter_openat {
  printf("open %s %r\n", str(args.filename), buf(args.filename, 16)); @files[str(args.filename)] = count();
  errorf("no %s", str(args.filename));
}
tracepoint:sched:sched_process_exit { @exits[comm] = count(); printf("exit %s\n", comm); }
interval:s:1 { print(@names); clear(@names); time(); }
end { print(@names); }
`

// values has a value of each type in an event and in a map.
const values = `
enum Color { RED = 1, GREEN }
struct Pair { int a; char text[8]; }
tracepoint:syscalls:sys_enter_getppid {
  $p = (1, "two", (int8)-3, (true, comm));
  print($p); print(ustack); print(kstack); print(usym(1)); print(ksym(1)); print(ntop(0x0100007f)); print(strftime("%s", nsecs));
  print(username); print(probe); print(-1); print((uint64)-1); print("a\x01b"); print(buf("abc", 3)); print((x=1, y="z"));
  print((enum Color)2); print(@s); printf("%d %s %s\n", 7, comm, ntop(0x0100007f));
  @a = avg(5); @k[1, "b c"] = stats(-7); @c[comm] = count(); @m = max(3); @n[comm, 1] = min(-3); @u = sum(9); @s = "text"; @q["\""] = hist(5); @l = lhist(7, 0, 10, 2);
  @big[(uint64)-1] = (uint64)-1; @w[ustack, 1] = 1; @e[(enum Color)1] = true;
  time("%H\n"); warnf("w %s", comm); print(1 / @zero); print(@c); clear(@c); exit();
}
`

// programs builds the programs for the tests.
func programs(t *testing.T) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root to trace")
	}
	dir = t.TempDir()
	cmd := exec.Command("go", "build", "-o", dir, "btc/cmd/btc", "btc/cmd/btrun", "btc/tests/workload")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return dir
}

func compile(t *testing.T, dir, script string) string {
	t.Helper()
	file := filepath.Join(dir, "s.bt")
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "s.o")
	if text, err := exec.Command(filepath.Join(dir, "btc"), "compile", "--target=host", "-o", out, file).CombinedOutput(); err != nil {
		t.Fatalf("btc compile: %v\n%s", err, text)
	}
	return out
}

// run runs an object with the workload and returns its standard output and standard error. Both go
// to tty if it is not nil.
func run(t *testing.T, dir string, tty *os.File, args ...string) (stdout, stderr []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "btrun"), args...)
	var a, b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &a, &b
	if tty != nil {
		cmd.Stdout, cmd.Stderr = tty, tty
	}
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("btrun %s: still running after %v", strings.Join(args, " "), limit)
	}
	if err != nil {
		t.Fatalf("btrun %s: %v\n%s", strings.Join(args, " "), err, b.Bytes())
	}
	return a.Bytes(), b.Bytes()
}

func workload(dir string, threads int) string {
	return fmt.Sprintf("%s/workload -report /dev/null hostile -threads %d", dir, threads)
}

// checkLines checks that each line is a JSON object that matches the schema, and returns the number of
// objects of each type.
func checkLines(t *testing.T, s *schema, out []byte) map[string]int {
	t.Helper()
	types := map[string]int{}
	for line := range bytes.Lines(out) {
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		var v map[string]any
		if err := d.Decode(&v); err != nil || d.More() || !utf8.Valid(line) {
			t.Fatalf("invalid JSON: %v\n%q", err, line)
		}
		name, _ := v["type"].(string)
		if types[name]++; name == "" {
			t.Fatalf("no type: %s", line)
		}
		if s == nil {
			continue
		}
		if err := s.check(v); err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
	}
	return types
}

// TestValues checks that values of each type match the schema, in both JSON formats.
func TestValues(t *testing.T) {
	s, err := readSchema("../../docs/json2.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := programs(t)
	object := compile(t, dir, values)
	recording := filepath.Join(dir, "values.jsonl")
	full, _ := run(t, dir, nil, "-f", "json2", "--record", recording, object, "-c", workload(dir, 1))
	types := checkLines(t, s, full)
	recorded, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	more := checkLines(t, s, recorded)
	if more["head"] != 1 || more["end"] != 1 || more["snapshot"] != 1 || more["value"] != types["value"] || more["map"] != types["map"] {
		t.Errorf("lines of the output %v, of the recording %v", types, more)
	}
	version1, _ := run(t, dir, nil, "--json2=1", object, "-c", workload(dir, 1))
	if old := checkLines(t, s, version1); old["head"]+old["snapshot"] > 0 || old["value"] != types["value"] || old["map"] < 13 {
		t.Errorf("lines of version 1 %v, of version 2 %v", old, types)
	}
	for _, want := range []string{"attached_probes", "value", "printf", "time", "warnf", "runtime_error", "map"} {
		if types[want] == 0 {
			t.Errorf("no line of type %s", want)
		}
	}
	if types["value"] < 15 || types["map"] < 13 {
		t.Errorf("%d values, %d maps\n%s", types["value"], types["map"], full)
	}
	plain, _ := run(t, dir, nil, "-f", "json", object, "-c", workload(dir, 1))
	checkLines(t, nil, plain)
}

// TestSchema checks that the schema rejects other values.
func TestSchema(t *testing.T) {
	s, err := readSchema("../../docs/json2.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	const now = `"time": "2026-01-02T03:04:05.6Z"`
	for line, want := range map[string]bool{
		`{"type": "map", ` + now + `, "name": "@", "shape": "count", "object": "ab", "host": "h", "entries": []}`:                                   true,
		`{"type": "map", ` + now + `, "name": "@", "shape": "count", "object": "ab", "host": "h", "entries": [{"key": [1, {"x": 1}], "value": 1}]}`: true,
		`{"type": "map", ` + now + `, "name": "@", "shape": "count", "object": "ab", "host": "h", "entries": [{"key": 1, "value": 1}]}`:             false,
		`{"type": "map", ` + now + `, "name": "@", "shape": "count", "object": "ab", "host": "h", "entries": [{"key": [1], "value": 1.5}]}`:         false,
		`{"type": "map", ` + now + `, "name": "@", "entries": []}`:                                                                                  false,
		`{"type": "maps", ` + now + `, "name": "@", "shape": "count", "object": "ab", "host": "h", "entries": []}`:                                  false,
		`{"type": "printf", "time": "now", "line": 1, "col": 1, "probes": [], "data": ""}`:                                                          false,
		`{"type": "printf", ` + now + `, "line": 1, "col": 1, "probes": [], "data": "", "more": 1}`:                                                 false,
		`{"type": "printf", ` + now + `, "line": 0, "col": 1, "probes": [], "data": ""}`:                                                            false,
		`{"type": "printf", ` + now + `, "line": 1, "col": 1, "probes": ["begin"], "data": ""}`:                                                     true,
	} {
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		if err := s.check(v); (err == nil) != want {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestManyThreads checks that 10,000 threads with hostile names, deep stacks and children that exit
// immediately neither crash a run nor make it hang, and that the JSON output stays valid.
func TestManyThreads(t *testing.T) {
	s, err := readSchema("../../docs/json2.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := programs(t)
	object := compile(t, dir, hostile)
	for _, format := range []string{"json", "json2", "text"} {
		form := s
		if format != "json2" {
			form = nil
		}
		out, _ := run(t, dir, nil, "-f", format, object, "-c", workload(dir, 10000))
		if format == "text" {
			if n := bytes.Count(out, []byte("\nopen ")); n == 0 || !bytes.Contains(out, []byte("\x1b[2J")) {
				t.Errorf("%d opened files: output to a file differs from what the programs wrote", n)
			}
			continue
		}
		if types := checkLines(t, form, out); types["printf"] < 1000 || types["map"] < 5 {
			t.Errorf("%s: lines by type: %v", format, types)
		}
	}
}

// terminal returns a pseudo terminal: data written to tty can be read from master.
func terminal(t *testing.T) (master, tty *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("skipped: no pseudo terminals: ", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if tty, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skip("skipped: no pseudo terminals: ", err)
	}
	return master, tty
}

// TestTerminal checks that no control character of a name is written to a terminal, on either stream,
// except with --raw.
func TestTerminal(t *testing.T) {
	dir := programs(t)
	object := compile(t, dir, hostile)
	for _, raw := range []bool{false, true} {
		master, tty := terminal(t)
		done := make(chan []byte)
		go func() {
			var all bytes.Buffer
			all.ReadFrom(master) // ends with EIO when the last tty is closed
			done <- all.Bytes()
		}()
		args := []string{"--color", "never", object, "-c", workload(dir, 200)}
		if raw {
			args = append([]string{"--raw"}, args...)
		}
		run(t, dir, tty, args...)
		tty.Close()
		text := <-done
		bad := -1
		for i := 0; i < len(text) && bad < 0; {
			r, n := utf8.DecodeRune(text[i:])
			if r < ' ' && r != '\n' && r != '\r' && r != '\t' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError && n == 1 && text[i] < 0xa0 {
				bad = i
			}
			i += n
		}
		switch {
		case len(text) < 10000:
			t.Errorf("raw = %v: only %d bytes of output", raw, len(text))
		case raw && bad < 0:
			t.Error("--raw: no control characters in the output")
		case !raw && bad >= 0:
			t.Errorf("control character %#x in %q", text[bad], text[max(0, bad-60):min(len(text), bad+20)])
		case !raw && !bytes.Contains(text, []byte(`\x1b[2J`)):
			t.Error("hostile names not found in the output")
		}
	}
}

// TestFullMap checks that each statement that adds to a full map is named, with its own count.
func TestFullMap(t *testing.T) {
	dir := programs(t)
	object := compile(t, dir, "config = { max_map_keys = 1 }\nbegin {\n  @a[1] = count();\n  @a[2] = count(); @a[3] = count(); @a[3] = count();\n  exit();\n}\n")
	out, _ := run(t, dir, nil, "-f", "json", object)
	var positions []string
	for line := range bytes.Lines(out) {
		var v struct {
			Type, Helper   string
			Line, Col, Ret int
		}
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		if v.Type == "helper_error" && v.Helper == "map_update_elem" {
			positions = append(positions, fmt.Sprintf("%d:%d", v.Line, v.Col))
		}
	}
	if got := strings.Join(positions, " "); got != "4:11 4:28 4:45" {
		t.Errorf("warnings %s\n%s", got, out)
	}
}

// TestOutputThatFails checks that a write error ends the run with an error, and that a closed pipe ends
// it as SIGPIPE would.
func TestOutputThatFails(t *testing.T) {
	dir := programs(t)
	object := compile(t, dir, "interval:ms:1 { @ = count(); printf(\"a line\\n\"); }")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("skipped: no /dev/full: ", err)
	}
	defer full.Close()
	for _, c := range []struct {
		out    *os.File
		words  string
		status int
	}{{w, "", 141}, {full, "no space left", 1}} {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		cmd := exec.CommandContext(ctx, filepath.Join(dir, "btrun"), object)
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = c.out, &stderr
		err := cmd.Run()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != c.status || !strings.Contains(stderr.String(), c.words) ||
			strings.Contains(stderr.String(), "broken pipe") || ctx.Err() != nil {
			t.Errorf("want exit status %d: %v\n%s", c.status, err, stderr.String())
		}
		cancel()
	}
}

// TestWhy checks the lines of reports of --why in both forms of json2, and that a replay prints them as the run did.
func TestWhy(t *testing.T) {
	s, err := readSchema("../../docs/json2.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := programs(t)
	object := compile(t, dir, `tracepoint:syscalls:sys_enter_getppid /comm == "none"/ { @ = count(); }`)
	recording := filepath.Join(dir, "why.jsonl")
	out, stderr := run(t, dir, nil, "--why", "-f", "json2", "--record", recording, object, "-c", workload(dir, 1))
	recorded, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	for name, lines := range map[string][]byte{"output": out, "recording": recorded} {
		if types := checkLines(t, s, lines); types["why"] != 1 || types["message"] != 0 {
			t.Errorf("%s: lines by type: %v\n%s", name, types, lines)
		}
		if !bytes.Contains(lines, []byte(`"cause": "predicate-comm"`)) {
			t.Errorf("%s: no cause\n%s", name, lines)
		}
	}
	cmd := exec.Command(filepath.Join(dir, "btc"), "replay", recording)
	var replayed bytes.Buffer
	cmd.Stderr = &replayed
	if err := cmd.Run(); err != nil {
		t.Fatalf("btc replay: %v\n%s", err, &replayed)
	}
	if i := bytes.Index(stderr, []byte("why: ")); i < 0 || !bytes.Contains(replayed.Bytes(), stderr[i:]) {
		t.Errorf("the replay has printed\n%s\nthe run\n%s", &replayed, stderr)
	}
}
