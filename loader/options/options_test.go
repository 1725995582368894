// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"slices"
	"strings"
	"testing"
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
