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
