// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const probesHead = `# Runtime tests of bpftrace that need probes, other programs or a command line,
# and that fail with btc on %s: key, kind of the
# failure, reason. A reason that begins with = was given by hand and stays. The
# list shrinks.
`

// The directories of prebuilt files, for machines without compilers: the adapter with its programs, and
// the tests' programs.
const (
	adapterVar = "BTC_CONFORMANCE_ADAPTER"
	progsVar   = "BTC_CONFORMANCE_PROGRAMS"
)

// TestProbes runs bpftrace's runtime tests that TestRuntime leaves out.
func TestProbes(t *testing.T) {
	dir := checkout(t)
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	s := newShell(t, dir)
	all, err := definitions(dir)
	if err != nil {
		t.Fatal(err)
	}
	pattern := regexp.MustCompile(*only)
	var parallel, alone []definition
	ran := map[string]bool{}
	skipped := map[string]int{}
	for _, d := range all {
		if d.selfContained() || !pattern.MatchString(d.key()) {
			continue
		}
		if why := s.unmet(d); why != "" {
			skipped[why]++
			continue
		}
		ran[d.key()] = true
		if d.alone() {
			alone = append(alone, d)
		} else {
			parallel = append(parallel, d)
		}
	}
	outcomes := inParallel(parallel, s.run)
	for _, d := range alone {
		outcomes = append(outcomes, s.run(d))
	}
	tests := append(parallel, alone...)
	now := tabulate(t, tests, outcomes, outcome.said, s.command)
	for why, n := range skipped {
		t.Logf("not run: %d: %s", n, why)
	}
	t.Logf("%d definitions, %d run\n%s", len(all), len(ran), ranking(now))
	if path := os.Getenv(resultVar); path != "" {
		writeResult(t, path, now, ran)
		return
	}
	compare(t, "testdata/probe-failures.txt", fmt.Sprintf(probesHead, "this machine's kernel"), now, func(key string) bool { return ran[key] }, *update)
}

// said classifies a failure by the messages in the output.
func (o outcome) said() (kind, reason string) {
	if strings.HasPrefix(o.failure.Error(), "panic") || strings.Contains(o.output, "panic:") || strings.Contains(o.output, "BUG:") {
		return "panic", "panic"
	}
	if m := saidMissing.FindStringSubmatch(o.output); m != nil {
		return "option", m[1]
	}
	if m := saidError.FindStringSubmatch(o.output); m != nil {
		return "refused", general(m[1])
	}
	return "output", "output"
}

var (
	saidMissing = regexp.MustCompile(`(?m)^the adapter has no option (.*)$`)
	saidError   = regexp.MustCompile(`(?m)^(?:\S*:\d+:\d+(?:-\d+)?: )?ERROR: (.*)$`)
)

// newShell builds the adapter and the tests' programs, unless they were built before.
func newShell(t *testing.T, tests string) *shell {
	t.Helper()
	dir, progs := os.Getenv(adapterVar), os.Getenv(progsVar)
	if dir == "" {
		dir = t.TempDir()
		for out, pkg := range map[string]string{"bpftrace": "btc/tests/conformance/bpftrace", "loader/bpftrace": "btc/cmd/btrun", "btc": "btc/cmd/btc"} {
			cmd := exec.Command("go", "build", "-o", filepath.Join(dir, out), pkg)
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("building %s: %v\n%s", pkg, err, out)
			}
		}
	}
	if progs == "" {
		progs = t.TempDir()
		out, err := exec.Command("bash", "testprogs.sh", filepath.Dir(tests), progs).CombinedOutput()
		if err != nil {
			t.Fatalf("testprogs.sh: %v\n%s", err, out)
		}
		t.Logf("%s", out)
	}
	return &shell{dir: progs, adapter: filepath.Join(dir, "bpftrace")}
}

func hasKprobes() bool {
	for _, root := range []string{"/sys/kernel/tracing/", "/sys/kernel/debug/tracing/"} {
		if _, err := os.Stat(root + "kprobe_events"); err == nil {
			return true
		}
	}
	return false
}

var kernelCode = regexp.MustCompile(`(?i)\b(?:(?:k|kr|f|fr|fentry|fexit|kfunc|kretfunc):[a-z_*"]|k(?:ret)?probe:)`)

// debugfs is where some tests look for tracefs.
const debugfs = "/sys/kernel/debug/tracing"

// listed returns what a test expects in a list of probes.
func (d definition) listed() string {
	run := d.needs["RUN"]
	if !strings.Contains(run, " -l") && !strings.Contains(run, " --list") {
		return ""
	}
	text := ""
	for _, e := range d.expects {
		if !strings.HasSuffix(e.mode, "NONE") {
			text += " " + e.text
		}
	}
	return text
}

// scripts returns the sources of the scripts named by a command.
func (s *shell) scripts(command string) string {
	text := ""
	for _, name := range scriptFile.FindAllString(command, -1) {
		b, _ := os.ReadFile(filepath.Join(s.dir, name))
		text += string(b) + "\n"
	}
	return text
}

var scriptFile = regexp.MustCompile(`runtime/scripts/[\w.]+`)

// unmet returns what a test needs and this machine lacks, or why the test says nothing about btc.
func (s *shell) unmet(d definition) string {
	text := d.prog + " " + d.needs["RUN"]
	for _, m := range ownProgram.FindAllStringSubmatch(strings.Join(append(d.befores, text, d.needs["AFTER"]), " "), -1) {
		path := filepath.Join(s.dir, m[1])
		if _, err := os.Stat(path); err != nil && !strings.ContainsAny(m[1], "*") && !strings.Contains(text, m[1]+"*") {
			return "no " + m[1]
		}
	}
	needsKernelCode := kernelCode.MatchString(text + " " + s.scripts(text) + d.listed())
	if needsKernelCode && !hasKprobes() {
		return "this kernel has no kprobes and no fentry"
	}
	needsDebugfs := strings.Contains(text, debugfs)
	if _, err := os.Stat(debugfs); needsDebugfs && err != nil {
		return "no " + debugfs
	}
	if !needsKernelCode && !needsDebugfs && os.Getenv(resultVar) != "" {
		return "it needs neither kprobes nor fentry and runs outside of guests"
	}
	if strings.Contains(text, "--aot") || strings.Contains(text, " -d ") {
		return "ahead-of-time mode and stages of bpftrace itself"
	}
	if f := d.needs["REQUIRES_FEATURE"]; strings.Contains(f, "dwunwind") || strings.HasPrefix(f, "!") {
		return "REQUIRES_FEATURE " + f
	}
	if _, ok := d.needs["NEW_PIDNS"]; ok {
		return "NEW_PIDNS"
	}
	one := d
	one.needs = map[string]string{}
	for k, v := range d.needs {
		if k != "CLEANUP" && k != "REQUIRES_FEATURE" && k != "REQUIRES" {
			one.needs[k] = v
		}
	}
	for _, r := range d.requires {
		if s.sh(r).Run() != nil {
			return "REQUIRES " + r
		}
	}
	return unmet(one)
}
