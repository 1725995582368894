// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/resolve"
)

// TestSitesOfProcesses checks that each process has its own sites in the files that it maps, that forks
// share the sites in all files, and that the kinds begin and interval are not filtered.
func TestSitesOfProcesses(t *testing.T) {
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Skip("skipped: ", err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	me, other := os.Getpid(), cmd.Process.Pid
	program := func(kind, target, name string) manifest.Program {
		return manifest.Program{
			Kind: kind, Name: "p", Attach: manifest.Attach{Text: kind + ":x", Target: target, Name: name},
		}
	}
	file, err := elf.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	uprobe := program(probe.Uprobe, self, "")
	uprobe.Attach.Addr = file.Entry
	profile := program(probe.Profile, "", "")
	for _, tc := range []struct {
		p        manifest.Program
		opts     Options
		pids     []int // process of each site
		programs int
		filtered bool
	}{
		{uprobe, Options{}, []int{0}, 1, false},
		{uprobe, Options{Cgroup: true}, []int{0}, 1, true},
		{uprobe, Options{PIDs: []int{me}}, []int{me}, 1, true},
		{uprobe, Options{PIDs: []int{me, other}}, []int{me, other}, 2, true},
		{uprobe, Options{PIDs: []int{me, other}, Follow: true}, []int{0}, 1, true},
		{profile, Options{PIDs: []int{me, other}}, []int{me, other}, 2, true},
		{profile, Options{PIDs: []int{me, other}, Follow: true}, []int{0}, 1, true},
		{program(probe.Interval, "", ""), Options{PIDs: []int{me, other}, Cgroup: true}, []int{0}, 1, false},
		{program(probe.Begin, "", ""), Options{PIDs: []int{me, other}, Cgroup: true}, []int{0}, 1, false},
		{program(probe.Iter, "", "task"), Options{PIDs: []int{me, other}}, []int{me, other}, 2, false},
	} {
		what := fmt.Sprintf("%s with %+v", tc.p.Kind, tc.opts)
		e, err := Expand(look(t), one(tc.p), tc.opts)
		if err != nil {
			t.Errorf("%s: error = %v", what, err)
			continue
		}
		e.Close()
		plan := e.Plans[0]
		var pids []int
		for _, m := range plan.Matches {
			pids = append(pids, m.PID)
		}
		if fmt.Sprint(pids) != fmt.Sprint(tc.pids) {
			t.Errorf("%s: sites in processes %v, want %v", what, pids, tc.pids)
		}
		if n := plan.NumPrograms(); n != tc.programs {
			t.Errorf("%s: %d programs, want %d", what, n, tc.programs)
		}
		if plan.Filtered != tc.filtered {
			t.Errorf("%s: filtered = %v", what, plan.Filtered)
		}
	}
}

// TestProcessWithoutSite checks that a process without the target of a probe is skipped with a warning
// if another process has it.
func TestProcessWithoutSite(t *testing.T) {
	x := &expander{opts: Options{PIDs: []int{1, 2, 3}}}
	find := func(p *manifest.Program) (resolve.Plan, error) {
		if x.opts.pid != 2 {
			return resolve.Plan{}, &resolve.Missing{Text: fmt.Sprintf("none in %d", x.opts.pid)}
		}
		return resolve.Plan{Matches: []resolve.Match{
			{Text: "a", Offset: 1}, {Text: "a", Offset: 2}, {Text: "b", Offset: 3, SameAs: 1},
		}}, nil
	}
	plan, err := x.ofProcesses(&manifest.Program{}, find)
	if err != nil || len(plan.Matches) != 3 || plan.Matches[2].PID != 2 || plan.Matches[2].SameAs != 1 {
		t.Fatalf("ofProcesses() = %v, %v", plan, err)
	}
	if len(x.warnings) != 2 || !strings.Contains(x.warnings[1].Text, "none in 3; the other processes are used") {
		t.Errorf("warnings %v", x.warnings)
	}
	x.opts.PIDs = []int{1, 3}
	if _, err := x.ofProcesses(&manifest.Program{}, find); !resolve.IsMissing(err) {
		t.Errorf("target in no process: error = %v", err)
	}
}

// TestFiltersOfIterators checks that filters are rejected for iterators whose programs run in a task
// unrelated to the visited objects.
func TestFiltersOfIterators(t *testing.T) {
	for _, tc := range []struct {
		opts Options
		kind string
		want string
	}{
		{Options{Cgroup: true}, "task", "--cgroup cannot be used"},
		{Options{PIDs: []int{1}, Follow: true}, "task", "--follow-forks cannot be used"},
		{Options{PIDs: []int{1}}, "bpf_map", "-p cannot be used"},
		{Options{PIDs: []int{1}}, "task_vma", ""},
	} {
		err := tc.opts.checkIterator(tc.kind)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v, %s: error = %v", tc.opts, tc.kind, err)
		}
	}
}
