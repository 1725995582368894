// SPDX-License-Identifier: Apache-2.0

package run

import (
	"os"
	"strings"
	"testing"

	"btc/loader/options"
)

// TestSnapshotBeforeStop: a snapshot that is requested right before the end is not lost.
func TestSnapshotBeforeStop(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root")
	}
	var out, msg guarded
	s, err := Load(compiled(t, `begin { @x = 7; } interval:s:100 { }`), Options{Report: options.Report{Out: &out, Err: &msg}})
	if err != nil {
		t.Skip("skipped: this machine does not let root load programs: ", err)
	}
	defer s.Close()
	status, err := runToEnd(s, func() {
		s.Snapshot()
		s.Stop()
	})
	if status != 0 || err != nil || strings.Count(out.String(), "@x: 7\n") != 2 {
		t.Errorf("status %d, %v\n%s%s", status, err, &out, &msg)
	}
}
