// SPDX-License-Identifier: Apache-2.0

// Package readers tests that the programs that people use for profiles and timelines read what btc replay writes: the sums
// that they show are those of the maps. Recordings are made here; tests/output and tests/fan test those of real runs.
package readers

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"btc/tests/tier"
)

// btc is the program.
var btc string

func TestMain(m *testing.M) { os.Exit(withProgram(m)) }

func withProgram(m *testing.M) int {
	if !tier.Real.Runs() {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "btc-readers")
	if err == nil {
		defer os.RemoveAll(dir)
		btc = filepath.Join(dir, "btc")
		cmd := exec.Command("go", "build", "-o", btc, "btc/cmd/btc")
		cmd.Stderr = os.Stderr
		err = cmd.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// built is a file below build, where tests/setup/readers.sh puts programs of others.
func built(path string) string { return filepath.Join("../../build", path) }

// program returns a file below build, or a program in PATH, or skips the test.
func program(t *testing.T, file string, names ...string) string {
	t.Helper()
	if _, err := os.Stat(built(file)); err == nil {
		return built(file)
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("skipped: no %s, and none of %s is installed", file, strings.Join(names, ", "))
	return ""
}

// run runs a program and returns its output.
func run(t *testing.T, stdin string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, errs.String())
	}
	return string(out)
}

// names are names of functions and processes: some hurt readers.
var names = []string{"main", "read", "std::map<int, long>::operator[](int&&)", "a;b", "a b 12", "<script>alert(1)</script>", "\u202egnp.exe", `quo"te\'&`, "12", "é世"}

// recording is a run of a script with a map of stacks.
type recording struct {
	name, script string
	shape        string
	unit         string // of pprof
	value        int    // of each of its stacks
	hosts        int
}

var recordings = []recording{
	{"profile", "profile:hz:99 { @[comm, ustack, kstack] = count(); }", "count", "count", 3, 1},
	{"off-CPU", "tracepoint:sched:sched_switch { @off_cpu_us[comm, ustack, kstack] = sum(nsecs); }", "sum", "microseconds", 1500, 1},
	{"bytes", "tracepoint:syscalls:sys_enter_write { @bytes[comm, ustack, kstack] = sum(args.count); }", "sum", "bytes", 4096, 1},
	{"five hosts", "profile:hz:99 { @[comm, ustack, kstack] = count(); }", "count", "count", 3, 5},
}

// stacks is the number of stacks of a recording.
const stacks = 100

// write writes the recording, and returns its name and the sum of its map.
func (r *recording) write(t *testing.T, dir string) (file string, sum int) {
	t.Helper()
	object := filepath.Join(dir, "x.o")
	run(t, "", btc, "compile", "-e", r.script, "-o", object)
	manifest, err := os.ReadFile(filepath.Join(dir, "x.json"))
	if err != nil {
		t.Fatal(err)
	}
	hash := regexp.MustCompile(`"sha256": *"([0-9a-f]+)"`).FindSubmatch(manifest)[1]
	name := r.script[strings.IndexByte(r.script, '@'):strings.IndexByte(r.script, '[')]
	var files []string
	for host := range r.hosts {
		var out bytes.Buffer
		fmt.Fprintf(&out, `{"type": "head", "version": 2, "time": "2026-11-28T09:00:00Z", "host": "h%d", "object": "%s", "name": "x", "format": "text", "str_trunc_trailer": "..", "print_maps_on_exit": true, "args": [], "params": {}, "manifest": `, host, hash)
		if err := json.Compact(&out, manifest); err != nil {
			t.Fatal(err)
		}
		const at = `"time": "2026-11-28T09:00:05Z"`
		fmt.Fprintf(&out, "}\n"+`{"type": "snapshot", %s, "final": true}`+"\n"+`{"type": "map", %s, "name": %q, "shape": %q, "object": "%s", "host": "h%d", "signed": false, "entries": [`, at, at, name, r.shape, hash, host)
		for i := range stacks {
			if i > 0 {
				out.WriteString(", ")
			}
			comm, _ := json.Marshal(names[i%len(names)])
			n := len(names)
			fmt.Fprintf(&out, `{"key": [%s,{"id": %d, "pid": %d, "frames": [%d,%d,0]},{"id": %d, "frames": [%d,%d]}], "value": %d}`, comm, i+1, 100*host+i, i/n, i%n, i+1, n+i%n, n+i/n, r.value)
			sum += r.value
		}
		out.WriteString(`], "frames": [`)
		for i := range 2 * len(names) {
			if i > 0 {
				out.WriteString(", ")
			}
			sym, _ := json.Marshal(names[i%len(names)])
			if i < len(names) {
				fmt.Fprintf(&out, `{"sym": %s, "offset": %d, "file": "/usr/bin/x y", "build_id": "abcdef0123", "file_offset": %d, "address": %d}`, sym, i, 4096+16*i, 1<<32+4096+16*i)
			} else {
				fmt.Fprintf(&out, `{"sym": %s, "offset": %d, "address": %d}`, sym, i, 0xffffffff81000000+uint64(16*i))
			}
		}
		out.WriteString("]}\n")
		file = filepath.Join(dir, fmt.Sprintf("h%d.jsonl", host))
		files = append(files, file)
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if r.hosts > 1 {
		file = filepath.Join(dir, "merged.jsonl")
		run(t, "", btc, append([]string{"merge", "-f", "json2", "-o", file}, files...)...)
	}
	return file, sum
}

// each runs a test for each recording.
func each(t *testing.T, test func(t *testing.T, r *recording, dir, file string, sum int)) {
	for i := range recordings {
		r := &recordings[i]
		t.Run(r.name, func(t *testing.T) {
			dir := t.TempDir()
			file, sum := r.write(t, dir)
			test(t, r, dir, file, sum)
		})
	}
}

// TestPprof reads profiles with go tool pprof.
func TestPprof(t *testing.T) {
	tier.Real.Need(t, "runs programs of others")
	each(t, func(t *testing.T, r *recording, dir, file string, sum int) {
		profile := filepath.Join(dir, "x.pb.gz")
		run(t, "", btc, "replay", "-o", profile, file)
		unit := map[string]string{"count": "count", "microseconds": "us", "bytes": "B"}[r.unit]
		out := run(t, "", "go", "tool", "pprof", "-top", "-nodecount=0", "-unit="+unit, profile)
		m := regexp.MustCompile(`of ([0-9]+)(us|B)? total`).FindStringSubmatch(out)
		if m == nil || m[1] != strconv.Itoa(sum) {
			t.Errorf("want %d in\n%s", sum, out)
		}
		flat := 0
		for line := range strings.Lines(out) {
			if w := strings.Fields(line); len(w) > 5 && strings.HasSuffix(w[1], "%") {
				n, err := strconv.Atoi(strings.TrimRight(w[0], "usB"))
				if err != nil {
					t.Errorf("%q: %v", line, err)
				}
				flat += n
			}
		}
		if flat != sum {
			t.Errorf("the sum of the functions is %d, want %d\n%s", flat, sum, out)
		}
	})
}

// TestFlamegraphs reads folded stacks with flamegraph.pl and with inferno.
func TestFlamegraphs(t *testing.T) {
	tier.Real.Need(t, "runs programs of others")
	for _, x := range []struct{ file, name string }{{"flamegraph/flamegraph.pl", "flamegraph.pl"}, {"inferno/bin/inferno-flamegraph", "inferno-flamegraph"}} {
		t.Run(x.name, func(t *testing.T) {
			draw := program(t, x.file, x.name)
			each(t, func(t *testing.T, _ *recording, _, file string, sum int) {
				folded := run(t, "", btc, "replay", "-f", "folded", file)
				svg := run(t, folded, draw)
				m := regexp.MustCompile(`<title>all \(([0-9,]+) samples, 100%\)`).FindStringSubmatch(svg)
				if m == nil || strings.ReplaceAll(m[1], ",", "") != strconv.Itoa(sum) {
					t.Errorf("want %d samples, found %q", sum, m)
				}
				if strings.Contains(svg, "<script>alert") {
					t.Error("a name is markup")
				}
			})
		})
	}
}

// browsers are the names of a browser that can run without a screen.
var browsers = []string{"chromium-headless-shell", "chromium", "google-chrome", "chrome"}

// TestSpeedscope opens profiles and folded stacks with speedscope, in its list of functions, and adds their own weights.
func TestSpeedscope(t *testing.T) {
	tier.Real.Need(t, "starts a browser")
	page := filepath.Join(built("speedscope/package/dist/release"), "index.html")
	if _, err := os.Stat(page); err != nil {
		t.Skip("skipped: no speedscope in build: tests/setup/readers.sh fetches it")
	}
	page, err := filepath.Abs(page)
	if err != nil {
		t.Fatal(err)
	}
	browser := program(t, "browser/chromium", browsers...)
	each(t, func(t *testing.T, _ *recording, dir, file string, sum int) {
		for _, name := range []string{"x.folded", "x.pb.gz"} {
			profile := filepath.Join(dir, name)
			run(t, "", btc, "replay", "-o", profile, file)
			data, err := os.ReadFile(profile)
			if err != nil {
				t.Fatal(err)
			}
			script := filepath.Join(dir, name+".js")
			text := fmt.Sprintf("speedscope.loadFileFromBase64(%q, %q)", name, base64.StdEncoding.EncodeToString(data))
			if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			dom := run(t, "", browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--use-gl=swiftshader", "--window-size=1200,3000",
				"--allow-file-access-from-files", "--user-data-dir="+filepath.Join(dir, "browser"), "--virtual-time-budget=10000", "--dump-dom",
				"file://"+page+"#view=sandwich&localProfilePath="+strings.TrimPrefix(script, "/"))
			got, err := ownWeights(dom)
			if err != nil || got != sum {
				t.Errorf("%s: %d, %v, want %d", name, got, err, sum)
			}
		}
	})
}

// weight is a number with its unit, as speedscope shows it before the percentage.
var weight = regexp.MustCompile(`^([0-9,.]+) ?(ns|µs|ms|s|B|KB|MB)? \(`)

// ownWeights returns the sum of the column "self" of speedscope's list of functions, in microseconds, bytes or samples.
func ownWeights(dom string) (sum int, err error) {
	rows := strings.Split(dom, "<tr class=")[1:]
	for _, row := range rows {
		cells := strings.Split(row, "<td class=")
		if len(cells) != 4 {
			continue
		}
		_, text, _ := strings.Cut(cells[2], ">")
		m := weight.FindStringSubmatch(text)
		if m == nil {
			return 0, fmt.Errorf("%.40q is not a weight", text)
		}
		n, err := strconv.ParseFloat(strings.ReplaceAll(m[1], ",", ""), 64)
		if err != nil {
			return 0, err
		}
		switch m[2] {
		case "ms":
			n *= 1e3
		case "s":
			n *= 1e6
		case "KB":
			n *= 1024
		case "MB":
			n *= 1024 * 1024
		}
		sum += int(math.Round(n))
	}
	if sum == 0 {
		return 0, errors.New("no list of functions")
	}
	return sum, nil
}

// TestTraceProcessor reads a timeline with Perfetto's trace processor.
func TestTraceProcessor(t *testing.T) {
	tier.Real.Need(t, "runs programs of others")
	processor := program(t, "perfetto/trace_processor_shell", "trace_processor_shell", "trace_processor")
	each(t, func(t *testing.T, _ *recording, dir, file string, sum int) {
		trace := filepath.Join(dir, "x.pftrace")
		run(t, "", btc, "replay", "-o", trace, file)
		query := filepath.Join(dir, "query.sql")
		if err := os.WriteFile(query, []byte("select cast(sum(value) as int) as total, count(*) as n from counter;\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		out := run(t, "", processor, "-q", query, trace)
		if !strings.Contains(out, strconv.Itoa(sum)) {
			t.Errorf("want %d in\n%s", sum, out)
		}
	})
}
