// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPIDs checks that -p takes lists and can be repeated.
func TestPIDs(t *testing.T) {
	for line, want := range map[string]string{
		"-p 1":                       "[1]",
		"-p 1,2 -p 3":                "[1 2 3]",
		"--pid=4194304":              "[4194304]",
		"--pid 7,7":                  "[7 7]",
		"-p 0":                       "Pid out of range: 0",
		"-p 1,0":                     "Pid out of range: 0",
		"-p 4194305":                 "Pid out of range",
		"-p 1,":                      "Failed to parse pid: invalid integer",
		"-p ,1":                      "Failed to parse pid: invalid integer",
		"-p 1;2":                     "Failed to parse pid: invalid trailing bytes: 1;2",
		"-p -1":                      "Failed to parse pid: invalid integer: -1",
		"-p 5" + many(",5", 1023):    fmt.Sprint(slices.Repeat([]int{5}, 1024)),
		"-p 5" + many(",5", 1024):    "more than 1024 processes",
		"-p 5 -c true":               "Cannot use both -c and -p.",
		"--follow-forks":             "name them with -p",
		"--follow-forks -c true":     "[]",
		"--follow-forks -p 2":        "[2]",
		"--test --cgroup /":          "attaches nothing",
		"--test -p 5":                "attaches nothing",
		"--test -c true":             "attaches nothing",
		"--cgroup /a --cgroup 5 -p1": "[1]",
	} {
		var v Values
		_, err := v.Table().Parse(strings.Fields(line))
		if err == nil {
			err = v.Check()
		}
		if err == nil {
			if got := fmt.Sprint(v.PIDs); got != want {
				t.Errorf("%s: got %s, want %s", line, got, want)
			}
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want %s", line, err, want)
		}
	}
}

func many(text string, n int) string { return strings.Repeat(text, n) }

// TestCombinations checks which options exclude each other, or need another one, and the ranges of numbers.
func TestCombinations(t *testing.T) {
	for line, want := range map[string]string{
		"--budget 1%":                  "",
		"--test --budget 1%":           "--test attaches nothing: it cannot be combined with --budget",
		"--every 1s":                   "",
		"--every 100ms":                "",
		"--every 99ms":                 "--every",
		"--test --every 1s":            "shows no maps",
		"--test --test":                "",
		"--mode test --mode bench":     "--bench cannot be combined with --test",
		"--wait":                       "--wait needs --container or --pod",
		"--wait --container x":         "",
		"--wait --pod x --container y": "",
		"--wait --pod x":               "",
		"--rotate 1M":                  "--rotate needs a file",
		"--rotate 1M -o x":             "",
		"--keep 1":                     "--keep needs --rotate",
		"--keep 1 --rotate 1M -o x":    "",
		"--keep 1000 --rotate 1M -o x": "",
		"--keep 0 --rotate 1M -o x":    "--keep",
		"--keep 1001 --rotate 1M -o x": "--keep",
		"--top 0":                      "--top",
		"--top 1":                      "",
		"--top 1073741824":             "",
		"--top 1073741825":             "--top",
		"--capture=x":                  "",
		"--capture=":                   "the file's name is empty",
		"--test --container x":         "attaches nothing",
		"--follow-forks --container x": "name them with -p",
	} {
		var v Values
		_, err := v.Table().Parse(strings.Fields(line))
		if err == nil {
			err = v.Check()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// TestValues checks that each option sets its value, and nothing else.
func TestValues(t *testing.T) {
	of := func(set func(v *Values)) Values {
		var v Values
		set(&v)
		return v
	}
	file := t.TempDir()
	for _, c := range []struct {
		line string
		want Values
	}{
		{"--cgroup /a --cgroup 5", of(func(v *Values) { v.Cgroups = []string{"/a", "5"} })},
		{"--container a", of(func(v *Values) { v.Containers = []string{"a"} })},
		{"--pod a/b", of(func(v *Values) { v.Pods = []string{"a/b"} })},
		{"--wait", of(func(v *Values) { v.Wait = true })},
		{"-c true", of(func(v *Values) { v.Command = "true" })},
		{"--cmd true", of(func(v *Values) { v.Command = "true" })},
		{"--timeout 1ms", of(func(v *Values) { v.Timeout = time.Millisecond })},
		{"--max-events 1", of(func(v *Values) { v.MaxEvents = 1 })},
		{"--btf x", of(func(v *Values) { v.BTF = "x" })},
		{"--traceable-functions " + file, of(func(v *Values) { v.Functions = file })},
		{"-o x", of(func(v *Values) { v.Output = "x" })},
		{"-f json2", of(func(v *Values) { v.Format = "json2" })},
		{"--every 100ms", of(func(v *Values) { v.Every = 100 * time.Millisecond })},
		{"--every 8784h", of(func(v *Values) { v.Every = 366 * 24 * time.Hour })},
		{"--max-series 16777216", of(func(v *Values) { v.MaxSeries = 1 << 24 })},
		{"--rotate 1M", of(func(v *Values) { v.Rotate = "1M" })},
		{"--keep 3", of(func(v *Values) { v.Keep = 3 })},
		{"-B none", of(func(v *Values) { v.Buffer = "none" })},
		{"--top 3", of(func(v *Values) { v.Top = 3 })},
		{"--sort key", of(func(v *Values) { v.Sort = "key" })},
		{"--summary", of(func(v *Values) { v.Summary = true })},
		{"--names", of(func(v *Values) { v.Names = true })},
		{"-q", of(func(v *Values) { v.Quiet = true })},
		{"-v", of(func(v *Values) { v.Verbose = true })},
		{"--no-warnings", of(func(v *Values) { v.NoWarnings = true })},
		{"--raw", of(func(v *Values) { v.Raw = true })},
		{"--color always", of(func(v *Values) { v.When = "always" })},
		{"--unsafe", of(func(v *Values) { v.Unsafe = true })},
		{"--max-memory 1G", of(func(v *Values) { v.Memory = "1G" })},
		{"--budget 1%", of(func(v *Values) { v.Share = "1%" })},
		{"--dry-run", of(func(v *Values) { v.DryRun = true })},
		{"--test", of(func(v *Values) { v.Modes = []string{"test"} })},
		{"--bench", of(func(v *Values) { v.Modes = []string{"bench"} })},
		{"--mode bench", of(func(v *Values) { v.Modes = []string{"bench"} })},
		{"--inspect", of(func(v *Values) { v.Inspect = true })},
		{"--remote", of(func(v *Values) { v.Remote = true })},
		{"-l", of(func(v *Values) { v.List = true })},
		{"--list=kprobe:*", of(func(v *Values) { v.List, v.Patterns = true, []string{"kprobe:*"} })},
		{"--capture x", of(func(v *Values) { v.Capture = "x" })},
		{"-h", of(func(v *Values) { v.Help = true })},
		{"-V", of(func(v *Values) { v.Version = true })},
	} {
		var v Values
		if _, err := v.Table().Parse(strings.Fields(c.line)); err != nil || !reflect.DeepEqual(v, c.want) {
			t.Errorf("%s: %+v, %v", c.line, v, err)
		}
	}
}

// TestWrongValues checks the values that are refused, and options that stand alone.
func TestWrongValues(t *testing.T) {
	for line, want := range map[string]string{
		"--timeout 999us":                  `--timeout: "999us" is not a time of at least 1ms`,
		"--timeout 5":                      `--timeout: "5" is not a time`,
		"--max-events 0":                   `--max-events: "0" is not a number of events`,
		"--max-events 9223372036854775808": "--max-events",
		"--max-events -1":                  "--max-events",
		"--every 8785h":                    "--every: 8785h is not between 100ms and a year",
		"--every x":                        `--every: "x" is not a time such as 15s or 1m`,
		"--max-series 0":                   `--max-series: "0" is not a number from 1 to 16777216`,
		"--max-series 16777217":            "--max-series",
		"--traceable-functions /no/such":   "--traceable-functions: ",
		"--format xml":                     `Invalid output format "xml"`,
		"--buffer big":                     "--buffer",
		"--sort up":                        "--sort",
		"--allow nonsense":                 "--allow",
		"--mode x":                         "--mode",
		"--list --timeout 5s":              "--list",
		"--inspect --timeout 5s":           "--inspect",
		"--capture x --timeout 5s":         "--capture",
		"--capture x --verbose":            "--capture",
		"--inspect --quiet":                "--inspect",
	} {
		var v Values
		if _, err := v.Table().Parse(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	for _, line := range []string{"--list -p 5 -v -q --raw --no-warnings", "--inspect -f json -v --raw"} {
		var v Values
		if _, err := v.Table().Parse(strings.Fields(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	var v Values
	if v.setCommand(" ") == nil || v.setCapture("") == nil {
		t.Error("no error for an empty command or file")
	}
}

// TestTravels checks which options btc fan passes on to hosts, by their group.
func TestTravels(t *testing.T) {
	var v Values
	got := map[string]bool{}
	for _, o := range v.Table() {
		got[o.Name] = Travels(o.Group)
	}
	for name, want := range map[string]bool{"pid": true, "timeout": true, "btf": true, "allow": true, "budget": true, "output": false, "top": false, "dry-run": false, "version": false} {
		if got[name] != want {
			t.Errorf("--%s travels: %v", name, got[name])
		}
	}
}
