// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runJobs runs the jobs and returns the records that they wrote.
func runJobs(t *testing.T, jobs ...Job) []Record {
	t.Helper()
	var out bytes.Buffer
	if err := RunAll(jobs, &out); err != nil {
		t.Fatal(err)
	}
	var records []Record
	for line := range bytes.Lines(out.Bytes()) {
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

func shell(script string) []string { return []string{"sh", "-c", script} }

func TestOutcome(t *testing.T) {
	r := runJobs(t, Job{Name: "j", Tool: shell(`echo out; echo err >&2; echo pid 1 >$WORKLOAD_REPORT; exit 3`), Limit: time.Minute})
	if len(r) != 2 || !r[0].Started || r[1].Outcome == nil {
		t.Fatalf("runJobs() = %+v", r)
	}
	o := r[1].Outcome
	if string(o.Stdout) != "out\n" || string(o.Stderr) != "err\n" || o.Exit != 3 || o.TimedOut || o.Problem != "" || string(o.Report) != "pid 1\n" {
		t.Errorf("unexpected outcome %+v", o)
	}
}

func TestWorkloadAfterAttach(t *testing.T) {
	tool := `trap 'echo interrupted; exit 0' INT; echo "Attached 1 probe" >&2; while :; do sleep 0.05; done`
	r := runJobs(t, Job{Name: "j", Tool: shell(tool), After: shell(`echo done >$WORKLOAD_REPORT`), Limit: time.Minute})
	o := r[1].Outcome
	if string(o.Stdout) != "interrupted\n" || o.Exit != 0 || o.Problem != "" || string(o.Report) != "done\n" {
		t.Errorf("unexpected outcome %+v", o)
	}
}

func TestToolEndsBeforeWorkload(t *testing.T) {
	o := runJobs(t, Job{Name: "j", Tool: shell("exit 1"), After: shell("true"), Limit: time.Minute})[1].Outcome
	if !strings.Contains(o.Problem, "ended before the workload") || o.Exit != 1 {
		t.Errorf("unexpected outcome %+v", o)
	}
}

func TestWorkloadFails(t *testing.T) {
	tool := `trap 'exit 0' INT; echo "Attached 1 probe" >&2; while :; do sleep 0.05; done`
	o := runJobs(t, Job{Name: "j", Tool: shell(tool), After: shell("echo why; exit 4"), Limit: time.Minute})[1].Outcome
	if !strings.Contains(o.Problem, "exit status 4 why") {
		t.Errorf("unexpected outcome %+v", o)
	}
}

func TestLimit(t *testing.T) {
	begin := time.Now()
	o := runJobs(t, Job{Name: "j", Tool: shell("sleep 60 & wait"), Limit: 200 * time.Millisecond})[1].Outcome
	if !o.TimedOut || o.Exit != -1 {
		t.Errorf("unexpected outcome %+v", o)
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("job took %v: RunAll waited for the tool's children", took)
	}
}

func TestSkips(t *testing.T) {
	if r := runJobs(t, Job{Name: "j", Tool: shell("true"), Needs: []string{"kpobe"}}); len(r) != 1 || !strings.Contains(r[0].Skipped, `"kpobe"`) {
		t.Errorf("records %+v", r)
	}
	if r := runJobs(t, Job{Name: "j", Tool: []string{"/no/such/tool"}, Limit: time.Second}); r[1].Outcome.Problem == "" {
		t.Errorf("records %+v", r)
	}
}

// TestLoadBefore checks that the background load starts before the tool and is killed after it. Load
// that fails to start is a problem of the job.
func TestLoadBefore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "load")
	load := `echo $$ >` + file + `; echo ready; exec sleep 60`
	o := runJobs(t, Job{Name: "j", Tool: shell("cat " + file), Before: shell(load), Limit: time.Minute})[1].Outcome
	pid, err := strconv.Atoi(strings.TrimSpace(string(o.Stdout)))
	if err != nil || o.Exit != 0 || o.Problem != "" {
		t.Fatalf("outcome %+v", o)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("background load still running: kill = %v", err)
	}
	o = runJobs(t, Job{Name: "j", Tool: shell("true"), Before: shell("exit 1"), Limit: time.Minute})[1].Outcome
	if o.Problem == "" {
		t.Errorf("load that exits immediately: outcome %+v", o)
	}
}
