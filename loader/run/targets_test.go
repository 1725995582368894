// SPDX-License-Identifier: Apache-2.0

package run

import (
	"os/exec"
	"testing"
	"time"

	"btc/loader/filter"
)

// TestTargets checks that a run ends with the last of its processes, and that one that had exited before does not count.
func TestTargets(t *testing.T) {
	start := func() *exec.Cmd {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Skip("skipped: ", err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return cmd
	}
	gone, first, second := start(), start(), start()
	gone.Process.Kill()
	gone.Wait()
	end := newEnding()
	x := &targets{pids: []int{gone.Process.Pid, first.Process.Pid, second.Process.Pid}, end: end, filter: &filter.Filter{}, warn: func(text string) { t.Error(text) }}
	m := monitor{targets: x}
	m.start(&links{}, nil, nil, func() {})
	defer m.close()
	if m.alarms == nil {
		t.Skip("skipped: no pidfd_open here")
	}
	first.Process.Kill()
	first.Wait()
	select {
	case <-end.stopping:
		t.Fatal("the run ended with the first of two processes")
	case <-time.After(50 * time.Millisecond):
	}
	if !x.anyRuns() {
		t.Error("no process runs")
	}
	second.Process.Kill()
	second.Wait()
	select {
	case <-end.stopping:
	case <-time.After(time.Minute):
		t.Error("the run goes on without processes")
	}
	if x.anyRuns() {
		t.Error("a process still runs")
	}

	// If all have gone before the start, the run ends at once.
	end = newEnding()
	m = monitor{targets: &targets{pids: []int{gone.Process.Pid}, end: end, filter: &filter.Filter{}}}
	m.start(&links{}, nil, nil, func() {})
	defer m.close()
	if !end.interrupted() {
		t.Error("the run goes on although its process had ended")
	}
}
