// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const engineHead = `# Runtime tests that bpftrace passes under its own engine on %s
# and btc does not: key, verdict, reason. A reason that begins with = was given by
# hand and stays. The list shrinks.
`

// retries is the number of times that a failed test is run again, alone.
const retries = 2

// TestEngine runs all runtime tests under bpftrace's own engine, with the adapter in place of bpftrace.
// A test that fails is run again alone, and then with bpftrace itself. If bpftrace fails it on this
// machine too, the test does not count.
func TestEngine(t *testing.T) {
	tests := checkout(t)
	switch {
	case os.Geteuid() != 0:
		t.Skip("skipped: not root: bpf(2) is not allowed")
	case testing.Short():
		t.Skip("skipped: runs a thousand tests, a quarter of an hour (-short)")
	}
	python, err := findPython()
	if err != nil {
		t.Skip("skipped: no python3, in which the engine is written")
	}
	theirs, err := reference()
	if err != nil {
		t.Skip("skipped: no bpftrace to compare with (tests/setup/oracle.sh makes it): ", err)
	}
	s := newShell(t, tests)
	driver, err := filepath.Abs("testdata/engine.py")
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(resultVar) != "" { // result of the guest
		driver = guestDriver
	}
	e := &engine{python: python, driver: driver, dir: s.dir, slowness: int(slowness())}
	keys := engineKeys(t, tests)
	run := func(program string, keys []string, parallel int) map[string]result {
		results, err := e.run(program, keys, parallel)
		if err != nil {
			t.Fatal(err)
		}
		return results
	}
	parallel := 1
	if e.slowness == 1 {
		parallel = 3
	}
	// Some tests pass only by chance, with bpftrace as well as with btc, because they observe what
	// other programs happen to do.
	bad := notOK(keys, run(s.adapter, keys, parallel))
	again := map[string]result{}
	for range retries {
		again = run(s.adapter, bad, 1)
		bad = notOK(bad, again)
	}
	known := bad
	for range retries {
		results := run(theirs, known, 1)
		known = slices.DeleteFunc(slices.Clone(known), func(key string) bool { return results[key].verdict != "OK" })
	}
	var now []listed
	var report strings.Builder
	for _, key := range known {
		r := again[key]
		now = append(now, listed{key, strings.ToLower(r.verdict), "output"})
		fmt.Fprintf(&report, "=== %s: %s\n%s\n", key, r.verdict, r.detail)
	}
	writeDetail(t, report.String())
	t.Logf("%d tests; btc passes %d, bpftrace passes %d of the others", len(keys), len(keys)-len(bad), len(now))
	ran := map[string]bool{}
	for _, key := range keys {
		ran[key] = true
	}
	if path := os.Getenv(resultVar); path != "" {
		writeResult(t, path, now, ran)
		return
	}
	compare(t, "testdata/engine-failures.txt", fmt.Sprintf(engineHead, "this machine's kernel"), now, func(key string) bool { return ran[key] }, *update)
}

// engineKeys returns the tests to run: in a guest, those that need kprobes or fentry.
func engineKeys(t *testing.T, tests string) []string {
	t.Helper()
	all, err := definitions(tests)
	if err != nil {
		t.Fatal(err)
	}
	s := shell{dir: tests}
	pattern := regexp.MustCompile(*only)
	var keys []string
	for _, d := range all {
		text := d.prog + " " + d.needs["RUN"]
		inKernel := kernelCode.MatchString(text + " " + s.scripts(text) + d.listed())
		if pattern.MatchString(d.key()) && !strings.Contains(d.name, "#") && (inKernel || os.Getenv(resultVar) == "") {
			keys = append(keys, d.key())
		}
	}
	return keys
}

// reference returns a program that runs bpftrace: the one of build/oracle, or in a guest, whose root
// file system is the oracle's, bpftrace itself.
func reference() (string, error) {
	if os.Getenv(resultVar) != "" {
		return exec.LookPath("bpftrace")
	}
	if _, err := os.Stat("../../build/oracle/root/usr/bin/bpftrace"); err != nil {
		return "", err
	}
	return filepath.Abs("../setup/bpftrace-oracle")
}

// TestVerdicts checks that the engine's output is parsed.
func TestVerdicts(t *testing.T) {
	const output = `[==========] Running 3 tests from 1 test cases.

[----------] 3 tests from bool
[ RUN      ] bool.a. b (c)
[       OK ] bool.a. b (c) (497 ms)
[ RUN      ] bool.fails
[  FAILED  ] bool.fails (597 ms)
	Command: x
	Found:
y
[ RUN      ] bool.slow
[  TIMEOUT ] bool.slow
	Timeout: 5
[   SKIP   ] bool.absent
[----------] 3 tests from bool

[==========] 3 tests from 1 test cases ran. (2365 ms total)
[  FAILED  ] bool.fails
`
	got := verdicts(output)
	want := map[string]result{
		"bool/a. b (c)": {"OK", ""}, "bool/fails": {"FAILED", "\tCommand: x\n\tFound:\ny\n"},
		"bool/slow": {"TIMEOUT", "\tTimeout: 5\n"}, "bool/absent": {"SKIP", ""},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("verdicts() = %q\nwant %q", got, want)
	}
	if bad := notOK([]string{"bool/absent", "bool/a. b (c)", "bool/new"}, got); fmt.Sprint(bad) != "[bool/absent bool/new]" {
		t.Errorf("notOK() = %q", bad)
	}
}
