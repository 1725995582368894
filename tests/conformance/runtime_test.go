// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sort"
	"strings"
	"sync"
	"testing"

	"btc/internal/kernelfs"
	"btc/targets/kernel"
)

const runtimeList = "testdata/runtime-failures.txt"

const runtimeHead = `# Runtime tests of bpftrace that need only timers and the program's own events,
# and that fail with btc: key, kind of the failure, reason. A reason that begins
# with = was given by hand and stays. The list shrinks.
`

// TestRuntime runs those of bpftrace's runtime tests that need no other program, on the kernel of this
// machine.
func TestRuntime(t *testing.T) {
	tests := checkout(t)
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	r := newRunner(t, tests)
	all, err := definitions(tests)
	if err != nil {
		t.Fatal(err)
	}
	pattern := regexp.MustCompile(*only)
	var cases []definition
	skipped := map[string]int{}
	ran := map[string]bool{}
	for _, d := range all {
		if !d.selfContained() || !pattern.MatchString(d.key()) {
			continue
		}
		if why := unmet(d); why != "" {
			skipped[why]++
			continue
		}
		ran[d.key()] = true
		cases = append(cases, d)
	}
	now := tabulate(t, cases, r.all(cases), outcome.class, func(d definition) string { return d.prog })
	for why, n := range skipped {
		t.Logf("not run: %d: %s", n, why)
	}
	t.Logf("%d definitions, %d run\n%s", len(all), len(cases), ranking(now))
	compare(t, runtimeList, runtimeHead, now, func(key string) bool { return ran[key] }, *update)
}

// tabulate logs how many tests of each file pass, writes the output of the others to the file of
// -detail, and lists them with kind and reason.
func tabulate(t *testing.T, tests []definition, outcomes []outcome, class func(outcome) (kind, reason string), shown func(definition) string) (now []listed) {
	t.Helper()
	var report strings.Builder
	files := map[string]*tally{}
	for i, d := range tests {
		o := outcomes[i]
		n := files[d.file]
		if n == nil {
			n = &tally{}
			files[d.file] = n
		}
		n.all++
		if o.failure == nil {
			n.agreed++
			continue
		}
		kind, reason := class(o)
		now = append(now, listed{d.key(), kind, reason})
		fmt.Fprintf(&report, "=== %s: %s\n%s\n--- %v\n--- output\n%s\n", d.key(), reason, shown(d), o.failure, o.output)
	}
	logFiles(t, files)
	writeDetail(t, report.String())
	return now
}

// newRunner builds the loader, under the process name that the tests expect.
func newRunner(t *testing.T, tests string) *runner {
	t.Helper()
	dir := t.TempDir()
	btrun := filepath.Join(dir, "bpftrace")
	if out, err := exec.Command("go", "build", "-o", btrun, "btc/cmd/btrun").CombinedOutput(); err != nil {
		t.Fatalf("building btrun: %v\n%s", err, out)
	}
	tgt, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	return &runner{tests: tests, dir: dir, btrun: btrun, target: tgt}
}

// timedRuns is the number of attempts for such a case. On a busy machine the timer may fire again
// before the end of the first iteration is seen, with bpftrace as well.
const timedRuns = 8

// all runs the cases in parallel, except those that are only correct if the end is not delayed by more
// than the millisecond of a timer. It runs these alone.
func (r *runner) all(cases []definition) []outcome {
	timed := func(d definition) bool { return d.variable("BPFTRACE_DUMMY_TS_MAP") != "" }
	out := inParallel(cases, func(d definition) outcome {
		if timed(d) {
			return outcome{}
		}
		return r.run(d)
	})
	for i, d := range cases {
		for n := 0; timed(d) && n < timedRuns && (n == 0 || out[i].failure != nil); n++ {
			out[i] = r.run(d)
		}
	}
	return out
}

// inParallel runs the cases several at a time, because they mostly wait.
func inParallel(cases []definition, run func(definition) outcome) []outcome {
	out := make([]outcome, len(cases))
	next := make(chan int)
	var workers sync.WaitGroup
	for range max(2, 2*runtime.NumCPU()/int(slowness())) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for i := range next {
				out[i] = run(cases[i])
			}
		}()
	}
	for i := range cases {
		next <- i
	}
	close(next)
	workers.Wait()
	return out
}

// unmet returns what a test needs and this machine lacks.
func unmet(d definition) string {
	if arch, ok := d.needs["ARCH"]; ok && !hasArch(arch) {
		return "ARCH " + arch
	}
	if cmd, ok := d.needs["REQUIRES"]; ok && exec.Command("sh", "-c", cmd).Run() != nil {
		return "REQUIRES " + cmd
	}
	if f, ok := d.needs["REQUIRES_FEATURE"]; ok && strings.HasPrefix(f, "!") {
		return "REQUIRES_FEATURE " + f
	}
	release, _ := kernelfs.Release()
	if least, ok := d.needs["MIN_KERNEL"]; ok && older(release, least) {
		return "MIN_KERNEL " + least
	}
	if most, ok := d.needs["MAX_KERNEL"]; ok && older(most, release) {
		return "MAX_KERNEL " + most
	}
	for _, n := range []string{"SETUP", "CLEANUP", "SKIP_IF_ENV_HAS"} {
		if v, ok := d.needs[n]; ok {
			return n + " " + v
		}
	}
	return ""
}

// older compares the first two numbers of versions such as 6.1 and 6.12.3-x.
func older(a, b string) bool {
	var v, w [2]int
	fmt.Sscanf(a, "%d.%d", &v[0], &v[1])
	fmt.Sscanf(b, "%d.%d", &w[0], &w[1])
	return v[0] < w[0] || v[0] == w[0] && v[1] < w[1]
}

// hasArch evaluates ARCH a|b|!c for little-endian x86_64.
func hasArch(list string) bool {
	only, any := false, false
	for _, a := range strings.Split(list, "|") {
		a = strings.TrimSpace(a)
		name, not := strings.CutPrefix(a, "!")
		ours := name == "x86_64" || name == "le"
		if not && ours {
			return false
		}
		if !not {
			only, any = true, any || ours
		}
	}
	return any || !only
}

// class returns the kind of a failure and its reason.
func (o outcome) class() (kind, reason string) {
	switch {
	case o.refused == nil && strings.HasPrefix(o.failure.Error(), "panic"):
		return "panic", general(o.failure.Error())
	case o.refused == nil && notLoaded.MatchString(o.output):
		return "load", general(notLoaded.FindString(o.output))
	case o.refused == nil:
		return "output", "output"
	}
	unsupported, other := firstErrors(o.refused, nil)
	if unsupported == "" {
		unsupported = other
	}
	return "compile", unsupported
}

var notLoaded = regexp.MustCompile(`(?m)^btrun: .*`)

func logFiles(t *testing.T, files map[string]*tally) {
	var names []string
	var total tally
	for name, n := range files {
		names = append(names, name)
		total.agreed, total.all = total.agreed+n.agreed, total.all+n.all
	}
	sort.Strings(names)
	var b strings.Builder
	for _, name := range names {
		n := files[name]
		fmt.Fprintf(&b, "%-14s %3d of %3d pass (%5.1f %%)\n", name, n.agreed, n.all, percent(n.agreed, n.all))
	}
	t.Logf("%s%-14s %3d of %3d pass (%5.1f %%)", b.String(), "all", total.agreed, total.all, percent(total.agreed, total.all))
}
