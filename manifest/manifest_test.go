// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"bytes"
	"fmt"
	"testing"

	"btc/compile"
	"btc/manifest"
	"btc/targets/kernel"
)

func ExampleParse() {
	_, err := manifest.Parse([]byte(`{"schema": "btc/2"}`))
	fmt.Println(err != nil)
	// Output: true
}

// TestVersion checks that a manifest of a newer major version is rejected.
func TestVersion(t *testing.T) {
	if _, err := manifest.Parse([]byte(`{"schema": "` + manifest.Version + `0"}`)); err == nil {
		t.Error("no error for another version")
	}
}

// TestRoundTrip checks that what btc writes is read completely: Marshal makes the same bytes of it.
func TestRoundTrip(t *testing.T) {
	target, err := kernel.Default("amd64")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	for _, script := range []string{
		`/// Reads.
kprobe:vfs_read / pid == $1 / { @start[tid] = nsecs; @h[comm, ustack] = hist(arg2, 3); } kretprobe:vfs_read { printf("%d %s\n", retval, str($2)); @s = stats(retval); }`,
		"begin { printf(\"\\xff%d <&>\\n\", getopt(\"n\", 3)); print(@x); @x[1] = tseries(1, 1s, 3); system(\"true\"); exit(); }",
		`tracepoint:sched:sched_switch { @[args.prev_comm] = lhist(args.prev_pid, 0, 100, 10); unroll(2) { @c = count(); } }`,
	} {
		out, diags := compile.Compile(compile.Input{Name: "x.bt", Text: script, Target: target})
		if out == nil {
			t.Fatal(diags)
		}
		m, err := manifest.Parse(out.Manifest)
		if err != nil {
			t.Fatal(err)
		}
		have, err := manifest.Marshal(m)
		if err != nil || !bytes.Equal(have, out.Manifest) {
			t.Errorf("error %v, have\n%s\nwant\n%s", err, have, out.Manifest)
		}
		if m.Programs[0].Attach.Text == "" || m.Script.File != "x.bt" {
			t.Errorf("%+v", m)
		}
		m.Programs[0].Kind = "none"
		if _, err := manifest.Marshal(m); err == nil {
			t.Error("no error for a kind that does not exist")
		}
	}
}
