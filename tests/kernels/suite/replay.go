// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"btc/fleet/replay"
	"btc/loader/output"
	"btc/tests/kernels/driver"
	"btc/tests/perfetto"
)

// record makes the jobs record their runs in files of a directory.
func (s *Suite) record(dir string, jobs []driver.Job) {
	s.recordings = dir
	for i := range jobs {
		jobs[i].Tool = slices.Insert(jobs[i].Tool, 1, "--record", filepath.Join(dir, jobs[i].Name+".jsonl"))
	}
}

// replay checks that a replay of the recording prints what the case printed, and that it does so in all formats.
func (s *Suite) replay(t *testing.T, r result) {
	text, err := os.ReadFile(filepath.Join(s.recordings, r.job.Name+".jsonl"))
	if err != nil || len(text) == 0 {
		return // the run did not start
	}
	want := string(r.outcome.Stdout)
	var timeline bytes.Buffer
	_, err = replay.Run(r.job.Name, bytes.NewReader(text), replay.Options{Format: replay.NewTimeline(), Out: &timeline, Err: io.Discard})
	if err == nil {
		_, err = perfetto.Read(timeline.Bytes())
	}
	if err != nil {
		t.Errorf("replay as a timeline: %v", err)
	}
	for _, f := range output.Formats {
		var out bytes.Buffer
		cut, err := replay.Run(r.job.Name, bytes.NewReader(text), replay.Options{Format: f, Out: &out, Err: io.Discard})
		// Profiles need a map with a stack in its key; tests/output replays those.
		if isProfile := f.Name == "folded" || f.Name == "pprof"; cut || err != nil && !isProfile {
			t.Errorf("replay as %s: cut %v, %v", f.Name, cut, err)
		}
		if got := out.String(); f == output.Formats[0] && got != want && !strings.HasPrefix(want, "No probes") && s.find(r.job.Name).Run == "" {
			t.Errorf("a replay of the recording prints\n%s\nand the run printed\n%s", got, want)
		}
	}
}
