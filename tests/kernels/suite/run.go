// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"btc/tests/kernels/cases"
	"btc/tests/kernels/driver"
	"btc/tests/kernels/vm"
	"btc/tests/tier"
)

// Host is the name of this machine's kernel in a "skip:" line.
const Host = "host"

// Machine describes the virtual machine of a guest.
type Machine struct {
	QEMU  string // program
	Image string // kernel
	Disk  string // image of the root file system; only with an oracle
	// Cases selects cases; nil: all.
	Cases func(*cases.Case) bool
}

// patience multiplies the time limit of cases in guests: these end what hangs, and must not end what a busy machine makes slow.
const patience = 4

// Guest runs the cases on the kernel called name, all in one boot, and reports each case as a subtest.
func (s *Suite) Guest(t *testing.T, name string, m Machine) {
	goarch, err := vm.Arch(m.Image)
	if err != nil {
		t.Fatal(err)
	}
	puts, err := s.puts(goarch)
	if err != nil {
		t.Fatal(err)
	}
	tool := "btrun"
	if s.Oracle {
		tool = "bpftrace"
	}
	jobs := s.jobs(t, name, goarch, m.Cases, func(c *cases.Case) driver.Job { return s.job(c, tool, guestWork) })
	for i := range jobs {
		jobs[i].Limit *= patience
		if goarch != runtime.GOARCH {
			jobs[i].Limit *= 2 // its emulation is slower
		}
		if goarch == "riscv64" { // still slower
			jobs[i].Limit *= 4
		}
	}
	if m.Cases != nil {
		t.Run("other cases", func(t *testing.T) {
			tier.Kernels.Need(t, fmt.Sprintf("not one of the %d cases of the first tier", len(jobs)))
		})
	}
	puts = append(puts, modules(m.Image)...)
	boot := func(jobs []driver.Job) ([]byte, error) {
		file := filepath.Join(t.TempDir(), "jobs.json")
		if err := writeJobs(file, jobs); err != nil {
			return nil, err
		}
		c := vm.Config{
			QEMU: m.QEMU, Image: m.Image, Disk: m.Disk, Memory: 1024, Silence: silence(jobs), Scratch: true,
			Puts:    append(puts, vm.Put{Host: file, Guest: "/jobs.json"}),
			Command: []string{"runjobs", "/jobs.json"},
			Progress: func(stdout []byte) { // tests/runall ends the tests of a package that print nothing
				fmt.Printf("%s: %d of %d cases\n", name, bytes.Count(stdout, []byte{'\n'})/2, len(jobs))
			},
		}
		r, err := vm.Run(context.Background(), c)
		var died *vm.GuestError
		switch {
		case errors.As(err, &died):
			return died.Stdout, err
		case err != nil:
			return nil, err
		case r.Exit != 0:
			return r.Stdout, fmt.Errorf("runjobs: exit status %d: %s", r.Exit, r.Stderr)
		}
		return r.Stdout, nil
	}
	s.report(t, collect(t, jobs, boot))
}

// Native runs the cases on the kernel of this machine. Cases that trace every process are left out
// unless all is set.
func (s *Suite) Native(t *testing.T, all bool) {
	tool := filepath.Join(s.Bin, "btrun")
	if s.Oracle {
		tool = filepath.Join(s.Root, "tests/setup/bpftrace-oracle")
	}
	jobs := s.jobs(t, Host, runtime.GOARCH, nil, func(c *cases.Case) driver.Job { return s.job(c, tool, s.Work) })
	if !all {
		jobs = s.withoutAll(t, jobs)
	}
	if !s.Oracle {
		s.record(t.TempDir(), jobs)
	}
	run := func(jobs []driver.Job) ([]byte, error) {
		file := filepath.Join(t.TempDir(), "jobs.json")
		if err := writeJobs(file, jobs); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit(jobs))
		defer cancel()
		cmd := s.runjobs(ctx, file)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return out, fmt.Errorf("runjobs: %w: %s", err, stderr.String())
		}
		return out, nil
	}
	s.report(t, collect(t, jobs, run))
}

// runjobs returns the command that runs jobs on this machine, in a mount namespace.
func (s *Suite) runjobs(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "unshare", append([]string{"--mount", "--propagation", "private", filepath.Join(s.Bin, "runjobs")}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+s.Bin+":"+os.Getenv("PATH"), "ORACLE_BIND="+s.Bin+":"+s.Work)
	return cmd
}

// RunHere returns the names of the cases that Native runs on this machine's kernel; none if it cannot.
func (s *Suite) RunHere(t *testing.T) map[string]bool {
	t.Helper()
	here := map[string]bool{}
	if os.Geteuid() != 0 {
		return here
	}
	var jobs []driver.Job
	for _, c := range s.Cases {
		if !c.All && s.skipReason(c, Host) == "" {
			jobs = append(jobs, driver.Job{Name: c.Name, Needs: c.Needs})
		}
	}
	file := filepath.Join(t.TempDir(), "jobs.json")
	if err := writeJobs(file, jobs); err != nil {
		t.Fatal(err)
	}
	out, err := s.runjobs(t.Context(), "-dry", file).Output()
	if err != nil {
		t.Log("no case runs on this kernel: ", err)
		return here
	}
	for line := range bytes.Lines(out) {
		var r driver.Record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		here[r.Job] = r.Started
	}
	return here
}

func (s *Suite) withoutAll(t *testing.T, jobs []driver.Job) []driver.Job {
	var kept []driver.Job
	for _, j := range jobs {
		if !s.find(j.Name).All {
			kept = append(kept, j)
			continue
		}
		t.Run(j.Name, func(t *testing.T) { t.Skip("skipped: traces every process of this machine (run it with -all)") })
	}
	return kept
}

// jobs returns the jobs for one kernel. Cases for which there is none are reported immediately, except those that are not selected.
func (s *Suite) jobs(t *testing.T, kernel, goarch string, selected func(*cases.Case) bool, job func(*cases.Case) driver.Job) []driver.Job {
	var jobs []driver.Job
	refusals := s.refused
	if o := s.own[goarch]; o != nil {
		refusals = o.refused
	}
	for _, c := range s.Cases {
		skip, refused := s.skipReason(c, kernel), refusals[c.Name]
		if selected != nil && !selected(c) {
			continue
		}
		if skip == "" && refused == "" {
			jobs = append(jobs, job(c))
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			if skip != "" {
				t.Skip("skipped: " + skip)
			}
			t.Error(refused)
		})
	}
	return jobs
}

func writeJobs(file string, jobs []driver.Job) error {
	b, err := json.Marshal(jobs)
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o644)
}

// silence returns how long a guest with these jobs may print nothing: the driver reports the start and the end of each.
func silence(jobs []driver.Job) time.Duration {
	d := time.Duration(0)
	for _, j := range jobs {
		d = max(d, j.Limit)
	}
	return d + 2*time.Minute
}

// limit returns the time limit for all jobs together.
func limit(jobs []driver.Job) time.Duration {
	d := time.Minute
	for _, j := range jobs {
		d += j.Limit
	}
	return d
}

// result is the result of one job.
type result struct {
	job     driver.Job
	skipped string
	outcome *driver.Outcome
	died    string // the guest died three times while it ran this job
}

// maxDeaths is the number of times that a guest may die during one job, or before the first. QEMU's
// emulation occasionally corrupts an innocent guest (a kernel crash with impossible flags, about once a
// minute under heavy process creation), so only the third crash during the same job fails it.
const maxDeaths = 3

// collect runs the jobs. If the machine dies, it continues with the job that was running.
func collect(t *testing.T, jobs []driver.Job, run func([]driver.Job) ([]byte, error)) []result {
	t.Helper()
	done := map[string]result{}
	deaths := map[string]int{}
	for len(done) < len(jobs) {
		var todo []driver.Job
		for _, j := range jobs {
			if _, ok := done[j.Name]; !ok {
				todo = append(todo, j)
			}
		}
		out, err := run(todo)
		running := parseRecords(out, todo, done)
		if err == nil {
			break
		}
		var died *vm.GuestError
		if !errors.As(err, &died) {
			t.Fatal(err)
		}
		t.Logf("guest died while running %q: %v", running, err)
		deaths[running]++
		if deaths[running] < maxDeaths {
			continue
		}
		if running == "" {
			t.Fatal("guest died three times before it ran a case")
		}
		done[running] = result{died: died.Error()}
	}
	results := make([]result, 0, len(jobs))
	for _, j := range jobs {
		r := done[j.Name]
		r.job = j
		results = append(results, r)
	}
	return results
}

// parseRecords adds the results in the stream to done and returns the job that was running at its end.
func parseRecords(out []byte, jobs []driver.Job, done map[string]result) (running string) {
	known := map[string]bool{}
	for _, j := range jobs {
		known[j.Name] = true
	}
	for line := range bytes.Lines(out) {
		var r driver.Record
		if json.Unmarshal(line, &r) != nil || !known[r.Job] {
			continue // truncated by a crash, or kernel messages mixed in
		}
		switch {
		case r.Started:
			running = r.Job
		case r.Skipped != "":
			done[r.Job] = result{skipped: r.Skipped}
		case r.Outcome != nil:
			done[r.Job] = result{outcome: r.Outcome}
			running = ""
		}
	}
	return running
}

func (s *Suite) find(name string) *cases.Case {
	for _, c := range s.Cases {
		if c.Name == name {
			return c
		}
	}
	panic("BUG: no case " + name)
}

func (s *Suite) report(t *testing.T, results []result) {
	for _, r := range results {
		t.Run(r.job.Name, func(t *testing.T) {
			switch {
			case r.skipped != "":
				t.Skip("skipped: " + r.skipped)
			case r.died != "":
				t.Fatalf("guest died three times while running this case:\n%s", r.died)
			case r.outcome == nil:
				t.Fatal("driver reported no outcome")
			}
			s.check(t, r)
		})
	}
}

func (s *Suite) check(t *testing.T, r result) {
	o := r.outcome
	bad := s.find(r.job.Name).Check(cases.Outcome{
		Stdout: string(o.Stdout), Stderr: string(o.Stderr), Exit: o.Exit,
		TimedOut: o.TimedOut, Problem: o.Problem, Report: string(o.Report),
	})
	for _, b := range bad {
		t.Error(b)
	}
	if s.recordings != "" && o.Problem == "" && !o.TimedOut {
		s.replay(t, r)
	}
	if t.Failed() || testing.Verbose() {
		t.Logf("%s: %.1f s, exit status %d", strings.Join(r.job.Tool, " "), o.Took.Seconds(), o.Exit)
	}
	if t.Failed() {
		t.Logf("stdout:\n%s", o.Stdout)
		t.Logf("stderr:\n%s", o.Stderr)
		t.Logf("workload's report:\n%s", o.Report)
	}
}
