// SPDX-License-Identifier: Apache-2.0

// Command runall runs the tests of the given packages, prints the result of each package, and writes a
// summary: skipped tests with the reasons, failed tests, and the counts.
//
//	runall -summary DIR [-stall D] -- [FLAG of go test | PACKAGE]...
//
// The tests of a package may take as long as they print something; after 20 minutes without output, or D, they are ended.
// If at most three top-level tests fail, it runs each of them once more, alone. Those that pass then do
// not fail the run, but are listed and counted separately: a test that passes only if nothing else is
// running has a bug of its own. No test is run again if a package does not build, panics, exits early
// or has a data race. The summary consists of files in DIR, because other output follows before it is
// shown: "details" (60 lines per failed test), "skipped", "failed" (short), and "counts" (one line).
//
// The exit status is 0 if all tests passed, in the first run or alone.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// maxAlone is the maximum number of failed top-level tests that are run again.
	maxAlone = 3
	// maxWhole is the maximum duration of a top-level test that is run again as a whole. Of a longer
	// test, only the failed subtests are run again.
	maxWhole = 3 * time.Minute
	// longTail and shortTail are the numbers of output lines shown for a failed test in the details and
	// in the short list. The short list has at most listLines lines of output, but at least two per
	// test.
	longTail, shortTail, listLines = 60, 15, 45
	// maxOutput is the number of bytes of output kept per test or package.
	maxOutput = 64 << 10
)

func main() {
	summary := flag.String("summary", "", "directory for the summary")
	stall := flag.Duration("stall", 20*time.Minute, "how long the tests of a package may print nothing")
	limit := flag.Duration("watch", 0, "run a program that may print nothing for this time; used for the tests of each package")
	flag.Parse()
	if *limit > 0 {
		os.Exit(watch(flag.Args(), *limit))
	}
	passed, err := all(options{".", *summary, *stall, os.Stdout}, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "runall:", err)
		os.Exit(2)
	}
	if !passed {
		os.Exit(1)
	}
}

// name identifies a test, or a package if test is "".
type name struct{ pkg, test string }

func (n name) String() string { return strings.TrimSpace(n.pkg + " " + n.test) }

// top returns the top-level test.
func (n name) top() name {
	test, _, _ := strings.Cut(n.test, "/")
	return name{n.pkg, test}
}

// under reports whether n is x or a subtest of x.
func (n name) under(x name) bool {
	return n.pkg == x.pkg && (n.test == x.test || strings.HasPrefix(n.test, x.test+"/"))
}

// result is the result of a test or package.
type result struct {
	verdict string // "pass", "fail", "skip"; "" while it runs
	took    time.Duration
	output  []byte // the end of its output
}

// tail returns the last n lines of the output, without the lines of go test itself. After a panic, whose traceback is
// long, it is the first n lines from there.
func (r *result) tail(n int) []string {
	text := strings.TrimRight(string(r.output), "\n")
	if at := panics.FindStringIndex(text); at != nil {
		lines := strings.Split(text[at[0]:], "\n")
		return lines[:min(len(lines), n)]
	}
	lines := strings.Split(text, "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool {
		return l == "" || strings.HasPrefix(l, "=== ") || l == "FAIL" || strings.HasPrefix(l, "FAIL\t") ||
			strings.HasPrefix(strings.TrimLeft(l, " "), "--- FAIL: ")
	})
	return lines[max(0, len(lines)-n):]
}

// results are the results of one run.
type results map[name]*result

func (rs results) of(n name) *result {
	if rs[n] == nil {
		rs[n] = &result{}
	}
	return rs[n]
}

// sorted returns the names for which keep returns true.
func (rs results) sorted(keep func(name, *result) bool) []name {
	var out []name
	for n, r := range rs {
		if keep(n, r) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b name) int { return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test)) })
	return out
}

// tests returns the tests with a verdict.
func (rs results) tests(verdict string) []name {
	return rs.sorted(func(n name, r *result) bool { return n.test != "" && r.verdict == verdict })
}

// broken returns the failed packages whose failure is not that of a completed test: they do not build,
// panic, exit early or have a data race.
func (rs results) broken() []name {
	return rs.sorted(func(pkg name, r *result) bool {
		if pkg.test != "" || r.verdict == "pass" || r.verdict == "skip" {
			return false
		}
		failed := false
		for n, t := range rs {
			if n.pkg != pkg.pkg || n.test == "" {
				continue
			}
			if t.verdict == "" || panics.Match(t.output) {
				return true
			}
			failed = failed || t.verdict == "fail"
		}
		return !failed || panics.Match(r.output)
	})
}

// panics matches output after which running a test again is pointless.
var panics = regexp.MustCompile(`(?m)^(panic: |fatal error: |WARNING: DATA RACE)`)

// leaves removes the names of tests that also have a subtest in the list.
func leaves(names []name) []name {
	return slices.DeleteFunc(slices.Clone(names), func(n name) bool {
		return slices.ContainsFunc(names, func(x name) bool { return x != n && x.under(n) })
	})
}

// event is a line of go test -json (go doc test2json).
type event struct {
	Action, Package, Test, Output, ImportPath, FailedBuild string
	Elapsed                                                float64
}

// options are those of all runs of go test.
type options struct {
	dir     string // working directory
	summary string // directory of the summary
	stall   time.Duration
	out     io.Writer // for the results of packages
}

// run runs go test with additional arguments and collects the results. The exit status of go test is
// ignored: failures are in the results.
func run(o options, args ...string) (results, error) {
	// -count=1: many suites build programs in a child process, which the test cache does not notice.
	flags, err := watched(o.stall)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", slices.Concat([]string{"test", "-json", "-count=1"}, flags, args)...)
	cmd.Dir, cmd.Stderr = o.dir, os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	rs, builds := results{}, map[string][]byte{}
	lines := bufio.NewReader(pipe)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		switch {
		case len(line) == 0:
		case json.Unmarshal(line, &e) != nil:
			o.out.Write(line)
		case e.Action == "build-output":
			builds[e.ImportPath] = append(builds[e.ImportPath], e.Output...)
		case e.Package != "":
			rs.add(e, builds, o.out)
		}
		if err != nil {
			break
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && (!errors.As(err, &exit) || len(rs.sorted(failed)) == 0) {
		return nil, fmt.Errorf("go test: %w", err)
	}
	if len(rs) == 0 {
		return nil, errors.New("go test ran no packages")
	}
	return rs, nil
}

func failed(_ name, r *result) bool { return r.verdict == "fail" || r.verdict == "" }

func (rs results) add(e event, builds map[string][]byte, out io.Writer) {
	r := rs.of(name{e.Package, e.Test})
	switch e.Action {
	case "output":
		r.output = append(r.output, e.Output...)
		if len(r.output) > 2*maxOutput {
			r.output = slices.Clone(r.output[len(r.output)-maxOutput:])
		}
		if e.Test == "" && (strings.HasPrefix(e.Output, "ok") || strings.HasPrefix(e.Output, "FAIL\t")) {
			io.WriteString(out, e.Output)
		}
	case "pass", "fail", "skip":
		r.verdict, r.took = e.Action, time.Duration(e.Elapsed*float64(time.Second))
		r.output = append(r.output, builds[e.FailedBuild]...)
		if e.Action == "pass" {
			r.output = nil
		}
	}
}

// alone runs a failed top-level test again. It reports whether everything that failed passes now.
func alone(o options, flags []string, test name, first results) bool {
	names := slices.DeleteFunc(first.tests("fail"), func(n name) bool { return !n.under(test) })
	patterns := []string{pattern(test.test)}
	if first[test].took > maxWhole {
		patterns = nil
		for _, n := range leaves(names) {
			patterns = append(patterns, pattern(n.test))
		}
	}
	rs, err := run(o, append(slices.Clone(flags), "-run", strings.Join(patterns, "|"), test.pkg)...)
	if err != nil {
		fmt.Fprintln(o.out, err)
		return false
	}
	if len(rs.broken()) > 0 || len(rs.tests("fail")) > 0 {
		return false
	}
	return !slices.ContainsFunc(names, func(n name) bool { return rs[n] == nil || rs[n].verdict != "pass" })
}

// pattern returns the argument of -run that selects one test.
func pattern(test string) string {
	parts := strings.Split(test, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// all runs the tests of packages and writes the summary. It reports whether all passed.
func all(o options, args []string) (bool, error) {
	flags := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return !strings.HasPrefix(a, "-") })
	rs, err := run(o, args...)
	if err != nil {
		return false, err
	}
	failures, broken := rs.tests("fail"), rs.broken()
	tops := slices.DeleteFunc(slices.Clone(failures), func(n name) bool { return n != n.top() })
	var recovered []name
	if len(broken) == 0 && len(tops) <= maxAlone {
		for _, test := range tops {
			fmt.Fprintf(o.out, "again, alone: %v\n", test)
			if alone(o, flags, test, rs) {
				recovered = append(recovered, test)
			}
		}
	}
	isRecovered := func(n name) bool { return slices.Contains(recovered, n.top()) }
	lasting := slices.DeleteFunc(slices.Clone(failures), isRecovered)
	counts := fmt.Sprintf("%d passed, %d failed, ", len(rs.tests("pass")), len(lasting))
	if n := len(failures) - len(lasting); n > 0 {
		counts += fmt.Sprintf("%d passed only when run alone, ", n)
	}
	if len(broken) > 0 {
		counts += fmt.Sprintf("%d packages broken, ", len(broken))
	}
	counts += fmt.Sprintf("%d skipped\n", len(rs.tests("skip")))
	lasting = append(leaves(lasting), broken...)
	for _, pkg := range broken { // a panic is in the output of the test that was running
		for _, n := range rs.sorted(func(n name, r *result) bool { return n.pkg == pkg.pkg && n.test != "" && r.verdict == "" }) {
			rs[pkg].output = append(rs[n].output, rs[pkg].output...)
		}
	}
	var details, short strings.Builder
	n := min(max(listLines/max(len(lasting)+len(recovered), 1), 2), shortTail)
	for _, x := range recovered {
		fmt.Fprintf(&short, "passed only when run alone: %v\n", x)
		for _, leaf := range leaves(slices.DeleteFunc(slices.Clone(failures), func(n name) bool { return !n.under(x) })) {
			show(&details, leaf, rs[leaf].tail(longTail))
			show(&short, leaf, rs[leaf].tail(n))
		}
	}
	for _, x := range lasting {
		show(&details, x, rs[x].tail(longTail))
		fmt.Fprint(&short, "failed: ")
		show(&short, x, rs[x].tail(n))
	}
	for file, text := range map[string]string{"details": details.String(), "skipped": rs.skipped(), "failed": short.String(), "counts": counts} {
		if err := os.WriteFile(filepath.Join(o.summary, file), []byte(text), 0o666); err != nil {
			return false, err
		}
	}
	return len(lasting) == 0, nil
}

// show writes the name of a test and lines of its output, truncated and without control characters.
func show(w io.Writer, n name, lines []string) {
	fmt.Fprintf(w, "%v\n", n)
	for _, l := range lines {
		l = strings.Map(func(r rune) rune {
			if r < ' ' && r != '\t' || r >= 0x7f {
				return -1
			}
			return r
		}, l)
		fmt.Fprintf(w, "    %s\n", l[:min(len(l), 300)])
	}
}

var reason = regexp.MustCompile(`(?m)^ +[\w.-]+\.go:\d+: (.*)`)

// skipped lists the skipped tests with the reasons.
func (rs results) skipped() string {
	var b strings.Builder
	for _, n := range rs.tests("skip") {
		why := ""
		for _, m := range reason.FindAllSubmatch(rs[n].output, -1) {
			why = string(m[1])
		}
		fmt.Fprintf(&b, "%s: %s\n", n.test, why)
	}
	return b.String()
}
