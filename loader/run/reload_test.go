// SPDX-License-Identifier: Apache-2.0

//go:build linux

package run

import (
	"os"
	"testing"
	"time"

	"btc/loader/options"
	"btc/loader/policy"
)

// TestReloadDeadline checks that the time limit of a run stays as it is when another object that was loaded before the limit
// began replaces the first one.
func TestReloadDeadline(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	const script = "interval:s:100 { @n = count(); }"
	x, err := Load(compiled(t, script), Options{Run: options.Run{Timeout: time.Hour, Reload: true}, Policy: &policy.Policy{}})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if err := x.Attach(); err != nil {
		t.Fatal(err)
	}
	s := x.s()
	next, err := successor(s, x.given, compiled(t, script), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer next.close()
	timeout(s) // the loop begins
	if err := replace(s, next); err != nil {
		t.Fatal(err)
	}
	if s.deadline.IsZero() || next.deadline != s.deadline {
		t.Errorf("deadlines %v and %v", s.deadline, next.deadline)
	}
}
