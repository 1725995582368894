// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"strings"
	"testing"
)

const head = "Tests something.\n"

func parse(t *testing.T, text string) *Case {
	t.Helper()
	c, err := Parse("test", []byte(head+text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestParse(t *testing.T) {
	c := parse(t, `Over two lines.
needs: kprobe btf
needs: perf
skip: 5.10 too old
args: 1 two
run: workload write -n 3
exit: 7
timeout: 3s
scope: all
-- script.bt --
BEGIN {}
-- stdout --
`)
	switch {
	case c.About != "Tests something. Over two lines.":
		t.Errorf("About = %q", c.About)
	case strings.Join(c.Needs, " ") != "kprobe btf perf":
		t.Errorf("Needs = %q", c.Needs)
	case c.Skip["5.10"] != "too old":
		t.Errorf("Skip = %q", c.Skip)
	case strings.Join(c.Args, "|") != "1|two", c.Run != "workload write -n 3", c.Exit != 7, c.Limit.String() != "3s", !c.All:
		t.Errorf("parse() = %+v", c)
	}
}

func TestParseErrors(t *testing.T) {
	script := "-- script.bt --\nBEGIN {}\n"
	for text, want := range map[string]string{
		script:                  "cannot fail",
		"-- stdout --\nx\n":     "script.bt and a line",
		"rnu: x\n" + script:     `unknown key "rnu"`,
		"skip: 5.10\n" + script: "no reason given",
		"run: a\nafter: b\n" + script + "-- stdout --\n": "exclude each other",
		script + "-- stdout --\n{{nit}}\n":               "unknown pattern {{nit}}",
		script + "-- stdout --\n{{int\n":                 "not closed",
		script + "-- stdout --\n{{/(/}}\n":               "missing closing )",
		script + "-- stdout counts --\nx\n":              "N PATTERN",
		script + "-- stdin --\nx\n":                      "unknown",
		"where: a b\n" + script:                          "A OP B",
	} {
		_, err := Parse("test", []byte(head+text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): error = %v, want one with %q", text, err, want)
		}
	}
}

func TestCheck(t *testing.T) {
	const script = "-- script.bt --\nBEGIN {}\n"
	const hist = `@size[1, a]:
[1]                    2 |@@@@|
[2, 4)                 3 |@@@@@@@@|

@size[2, b]:
[1K, 2K)               5 |@@@@@@@@|

@n: 4
`
	const stacks = "@[\n    f+1\n    g+2\n]: 3\n@[\n    h+1: 99\n]: 4\n"
	tests := []struct {
		name, text string
		outcome    Outcome
		bad        string // part of the only failure; "" if the case passes
	}{
		{"exact", "-- stdout --\na\nb\n", Outcome{Stdout: "a\nb\n"}, ""},
		{"blank line between lines", "-- stdout --\na\n\nb\n", Outcome{Stdout: "a\nb\n"}, `expected line ""`},
		{"blank lines at the end", "-- stdout --\na\n\n", Outcome{Stdout: "a\n"}, ""},
		{"missing line", "-- stdout --\na\nb\n", Outcome{Stdout: "a\n"}, `ends before the expected line "b"`},
		{"extra line", "-- stdout --\na\n", Outcome{Stdout: "a\nb\n"}, "more lines than expected"},
		{"empty expected", "-- stdout --\n", Outcome{Stdout: "a\n"}, "more lines than expected"},
		{"any lines", "-- stdout --\na\n...\nd\n", Outcome{Stdout: "a\nb\nc\nd\n"}, ""},
		{"any lines, none", "-- stdout --\na\n...\nd\n", Outcome{Stdout: "a\nd\n"}, ""},
		{"any lines, then a missing line", "-- stdout --\na\n...\nd\n", Outcome{Stdout: "a\nb\n"}, `on matches the expected line "d"`},
		{"whole lines only", "-- stdout --\na\n", Outcome{Stdout: "ab\n"}, `("ab") on matches`},
		{"text is not a regular expression", "-- stdout --\na.c [1] (x)\n", Outcome{Stdout: "abc [1] (x)\n"}, "on matches"},
		{"items", "-- stdout --\n{{int}} {{hex}} {{word}}{{any}} {{/x{2}/}}\n", Outcome{Stdout: "-4 0xff w rest xx\n"}, ""},
		{"report", "-- stdout --\npid {{=pid}}\n", Outcome{Stdout: "pid 12\n", Report: "pid 12\n"}, ""},
		{"another pid", "-- stdout --\npid {{=pid}}\n", Outcome{Stdout: "pid 120\n", Report: "pid 12\n"}, "on matches"},
		{"nothing reported", "-- stdout --\npid {{=pid}}\n", Outcome{Stdout: "pid 12\n"}, `key "pid" is not in`},
		{"report, several values", "-- stdout --\n{{=c.1}} {{=c.2}} {{=c}}\n", Outcome{Stdout: "1 2 2\n", Report: "c 1\nc 2\n"}, ""},
		{"counts", "-- stdout counts --\n2 a\n0 b\n1+ c\n", Outcome{Stdout: "a\nc\na\nc\n"}, ""},
		{"count too high", "-- stdout counts --\n1 a\n", Outcome{Stdout: "a\na\n"}, "2 lines match"},
		{"count too low", "-- stdout counts --\n2+ a\n", Outcome{Stdout: "a\n"}, "want at least 2"},
		{"count from the report", "-- stdout counts --\nn a\n", Outcome{Stdout: "a\na\n", Report: "n 2\n"}, ""},
		{"capture", "where: x >= 5\n" + "-- stdout --\n@: {{int x}}\n", Outcome{Stdout: "@: 5\n"}, ""},
		{"capture, false", "where: x > 5\n" + "-- stdout --\n@: {{int x}}\n", Outcome{Stdout: "@: 5\n"}, "x > 5 is false"},
		{"unknown capture", "where: x > 5\n" + "-- stdout --\na\n", Outcome{Stdout: "a\n"}, `"x" is not a number`},
		{"sum of histograms", "where: sum(@size) == 10\n", Outcome{Stdout: hist}, ""},
		{"sum of one histogram", "where: sum(@size[1, a]) == 5\n", Outcome{Stdout: hist}, ""},
		{"sum of a scalar", "where: sum(@n) == 4\n", Outcome{Stdout: hist}, ""},
		{"sum with keys of several lines", "where: sum(@[) == 7\n", Outcome{Stdout: stacks}, ""},
		{"sum of nothing", "where: sum(@x) == 0\n", Outcome{Stdout: hist}, "no map with that name"},
		{"exit status", "-- stdout --\n", Outcome{Exit: 1}, "exit status 1, want 0"},
		{"time limit", "-- stdout --\n", Outcome{Exit: -1, TimedOut: true}, "still running after 1m0s"},
		{"problem", "-- stdout --\n", Outcome{Problem: "no such file"}, "no such file"},
		{"error on stderr", "-- stdout --\n", Outcome{Stderr: "x.bt:1:2: ERROR: bad\n"}, "ERROR: bad"},
		{"panic on stderr", "-- stdout --\n", Outcome{Stderr: "panic: BUG\n"}, "panic: BUG"},
		{"lost events", "-- stdout --\n", Outcome{Stderr: "Lost 3 events\n"}, "Lost 3 events"},
		{"error expected", "exit: 1\n" + "-- stderr counts --\n1 {{any}}ERROR{{any}}\n", Outcome{Stderr: "ERROR: bad\n", Exit: 1}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := script + tt.text
			if where, sections, ok := strings.Cut(tt.text, "\n"); ok && !strings.HasPrefix(tt.text, "--") {
				text = where + "\n" + script + sections
			}
			bad := parse(t, text).Check(tt.outcome)
			switch {
			case tt.bad == "" && len(bad) > 0:
				t.Errorf("Check() = %q, want no failures", bad)
			case tt.bad != "" && (len(bad) != 1 || !strings.Contains(bad[0], tt.bad)):
				t.Errorf("Check() = %q, want one failure with %q", bad, tt.bad)
			}
		})
	}
}
