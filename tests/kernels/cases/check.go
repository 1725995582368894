// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Outcome is the result of one run of a case.
type Outcome struct {
	Stdout, Stderr string
	Exit           int    // exit status; -1 if a signal ended the run
	TimedOut       bool   // the run exceeded its time limit and was killed
	Problem        string // why the run could not be carried out; "" if it was
	Report         string // the workload's report: lines "key value"
}

// Check compares an outcome with the expectations of the case and returns every
// difference as one line or block of text; none means that the case passed.
func (c *Case) Check(o Outcome) []string {
	var bad []string
	add := func(format string, a ...any) { bad = append(bad, fmt.Sprintf(format, a...)) }
	if o.Problem != "" {
		add("%s", o.Problem)
	}
	if o.TimedOut {
		add("still running after %v", c.Limit)
	} else if o.Exit != c.Exit {
		add("exit status %d, want %d", o.Exit, c.Exit)
	}
	j := &checker{report: parseReport(o.Report), numbers: map[string]int64{}, stdout: o.Stdout}
	for _, s := range []struct {
		name string
		want output
		got  string
	}{{"stdout", c.Stdout, o.Stdout}, {"stderr", c.Stderr, o.Stderr}} {
		for _, err := range j.stream(s.want, s.got) {
			add("%s: %v", s.name, err)
		}
	}
	if !c.Stderr.given {
		if m := trouble.FindString(o.Stderr); m != "" {
			add("stderr: has %q", m)
		}
	}
	for _, r := range c.Where {
		if err := j.check(r); err != nil {
			add("where: %v", err)
		}
	}
	return bad
}

// trouble matches output on standard error that fails a run expected to succeed.
var trouble = regexp.MustCompile(`(?m)^(.*\bERROR\b.*|panic:.*|fatal error:.*|goroutine .*|Lost .* events.*)$`)

// checker holds the values that the relations of a case refer to.
type checker struct {
	report  map[string]string
	numbers map[string]int64 // named integers captured from the output
	stdout  string
}

// parseReport returns the report as a map. KEY maps to its last value; KEY.1, KEY.2, ... map to all of
// its values in order.
func parseReport(text string) map[string]string {
	m, seen := map[string]string{}, map[string]int{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		seen[key]++
		m[key] = value
		m[fmt.Sprintf("%s.%d", key, seen[key])] = value
	}
	return m
}

func (j *checker) stream(want output, got string) []error {
	var bad []error
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	if want.exact {
		if err := j.whole(want.whole, lines); err != nil {
			bad = append(bad, err)
		}
	}
	for _, c := range want.counts {
		if err := j.count(c, lines); err != nil {
			bad = append(bad, err)
		}
	}
	return bad
}

// compile translates a pattern into a regular expression for this run.
func (j *checker) compile(line string) (*regexp.Regexp, error) {
	p, err := Pattern(line)
	if err != nil {
		return nil, err
	}
	if p, err = fill(p, j.report); err != nil {
		return nil, err
	}
	return regexp.Compile(p)
}

const anyLines = "..."

// whole matches all lines in order. It ignores blank lines at the end, because a txtar section ends
// with one.
func (j *checker) whole(want, got []string) error {
	want, got = trimBlank(want), trimBlank(got)
	patterns := make([]*regexp.Regexp, len(want))
	for i, w := range want {
		if w == anyLines {
			continue
		}
		var err error
		if patterns[i], err = j.compile(w); err != nil {
			return err
		}
	}
	// furthest is the first line of want that no attempt could match.
	furthest, furthestGot := 0, 0
	var match func(i, k int) bool
	failed := map[[2]int]bool{}
	match = func(i, k int) bool {
		if i > furthest {
			furthest, furthestGot = i, k
		}
		if i == len(want) {
			return k == len(got)
		}
		if failed[[2]int{i, k}] {
			return false
		}
		ok := false
		if patterns[i] == nil {
			ok = match(i+1, k) || (k < len(got) && match(i, k+1))
		} else if k < len(got) && patterns[i].MatchString(got[k]) {
			if ok = match(i+1, k+1); ok {
				j.capture(patterns[i], got[k])
			}
		}
		failed[[2]int{i, k}] = !ok
		return ok
	}
	if match(0, 0) {
		return nil
	}
	if furthest == len(want) {
		return fmt.Errorf("more lines than expected, from line %d: %q", furthestGot+1, got[min(furthestGot, len(got)-1)])
	}
	if furthestGot >= len(got) {
		return fmt.Errorf("ends before the expected line %q", want[furthest])
	}
	return fmt.Errorf("no line from line %d (%q) on matches the expected line %q", furthestGot+1, got[furthestGot], want[furthest])
}

func trimBlank(lines []string) []string {
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// capture records the named integers of a matching line.
func (j *checker) capture(re *regexp.Regexp, line string) {
	m := re.FindStringSubmatch(line)
	for i, name := range re.SubexpNames() {
		if name == "" {
			continue
		}
		if n, err := strconv.ParseInt(m[i], 10, 64); err == nil {
			j.numbers[name] = n
		}
	}
}

// count is a line "N PATTERN" or "N+ PATTERN". N may be a key of the report.
type count struct {
	n       string
	orMore  bool
	pattern string
}

func parseCount(line string) (count, error) {
	n, pattern, ok := strings.Cut(line, " ")
	if !ok || n == "" {
		return count{}, fmt.Errorf("%q is not \"N PATTERN\"", line)
	}
	c := count{n: strings.TrimSuffix(n, "+"), orMore: strings.HasSuffix(n, "+"), pattern: pattern}
	_, err := Pattern(pattern)
	return c, err
}

func (j *checker) count(c count, lines []string) error {
	want, err := j.value(c.n)
	if err != nil {
		return err
	}
	re, err := j.compile(c.pattern)
	if err != nil {
		return err
	}
	got := int64(0)
	for _, l := range lines {
		if re.MatchString(l) {
			got++
			j.capture(re, l)
		}
	}
	switch {
	case c.orMore && got < want:
		return fmt.Errorf("%d lines match %q, want at least %d", got, c.pattern, want)
	case !c.orMore && got != want:
		return fmt.Errorf("%d lines match %q, want %d", got, c.pattern, want)
	}
	return nil
}
