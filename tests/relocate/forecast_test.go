// SPDX-License-Identifier: Apache-2.0

package relocate

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"btc/cmd/btc/forecast"
	"btc/internal/kernelfs"
	"btc/loader/kerneltypes"
	"btc/targets/capture"
	"btc/targets/kernel"
	"btc/targets/targetfile"
)

// TestForecastChangedTypes checks the cases of TestChangedTypes with `btc check` instead of the loader:
// what the loader rejects must fail here, with the same message and position. It needs no privileges.
func TestForecastChangedTypes(t *testing.T) {
	if _, err := os.Stat(kerneltypes.Path); err != nil {
		t.Skip("skipped: this kernel has no BTF")
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			spec := running(t, names)
			c.change(&changedKernel{t, spec})
			r, err := forecast.Check(compiled(t, c.script, embedded(t)), changed(t, capture.Source{BTF: marshal(t, spec)}))
			if err != nil {
				t.Fatal(err)
			}
			if fails := r.Verdict == forecast.Fails; fails != (c.want == nil) {
				t.Fatalf("verdict = %s, want fails = %v: %v", r.Verdict, c.want == nil, r.Findings)
			}
			for _, word := range c.refused {
				found := false
				for _, f := range r.Findings {
					found = found || strings.Contains(fmt.Sprintf("x.bt:%d: %s", f.Pos.Line, f.Text), word)
				}
				if !found {
					t.Errorf("%q not found in the findings: %v", word, r.Findings)
				}
			}
		})
	}
}

// changed returns a target with changed types and formats.
func changed(t *testing.T, src capture.Source) *kernel.Target {
	t.Helper()
	src.Release = "changed"
	var err error
	if src.Arch, err = kernelfs.Machine(); err != nil {
		t.Fatal(err)
	}
	data, err := capture.Make(src)
	if err != nil {
		t.Fatal(err)
	}
	b, err := targetfile.Write(data)
	if err != nil {
		t.Fatal(err)
	}
	tg, err := kernel.New(b)
	if err != nil {
		t.Fatal(err)
	}
	return tg
}

const forked = `tracepoint:sched:sched_process_exec { printf("%s", args.pid == pid ? "right" : "wrong"); exit() }`

// formatFile returns the format file of the tracepoint that forked uses.
func formatFile(pid, old int) fstest.MapFS {
	text := fmt.Sprintf("name: sched_process_exec\nID: 1\nformat:\n\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n"+
		"\tfield:pid_t pid;\toffset:%d;\tsize:4;\tsigned:1;\n\tfield:pid_t old_pid;\toffset:%d;\tsize:4;\tsigned:1;\n", pid, old)
	return fstest.MapFS{"events/sched/sched_process_exec/format": &fstest.MapFile{Data: []byte(text)}}
}

// TestForecastRecordWithoutType checks a tracepoint whose record has no type. Its fields are read at
// the offsets in the target, so a target with other offsets must be distinguished from one that agrees.
func TestForecastRecordWithoutType(t *testing.T) {
	if _, err := os.Stat(kerneltypes.Path); err != nil {
		t.Skip("skipped: this kernel has no BTF")
	}
	types := marshal(t, running(t, names))
	o := func() *kernel.Target { return changed(t, capture.Source{BTF: types, Tracefs: formatFile(12, 16)}) }
	for _, c := range []struct {
		pid, old int
		want     forecast.Verdict
		text     string
	}{
		{12, 16, forecast.OK, ""},
		{16, 12, forecast.Fails, "pid is 4 bytes at byte 16, not 4 at byte 12"},
	} {
		r, err := forecast.Check(compiled(t, forked, o()), changed(t, capture.Source{BTF: types, Tracefs: formatFile(c.pid, c.old)}))
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != c.want || !strings.Contains(fmt.Sprint(r.Findings), c.text) {
			t.Errorf("pid at byte %d: verdict %s, findings %v, want %s and %q", c.pid, r.Verdict, r.Findings, c.want, c.text)
		}
	}
}

// TestRecordWithoutType runs such objects: one compiled for a target with the offsets of the running
// kernel, and one for other offsets, which must be rejected.
func TestRecordWithoutType(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	format, err := kernelfs.Tracepoint("sched", "sched_process_exec")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	at := map[string]int{}
	for _, f := range format.Fields {
		at[f.Name] = f.Offset
	}
	types := marshal(t, running(t, names))
	startProcesses(t)
	same := changed(t, capture.Source{BTF: types, Tracefs: formatFile(at["pid"], at["old_pid"])})
	out, err := traced(t, compiled(t, forked, same), "")
	if err != nil || !strings.HasPrefix(strings.TrimSpace(out), "right") || strings.Contains(out, "wrong") {
		t.Errorf("same offsets: output %q, error %v, want output \"right\"", out, err)
	}
	other := changed(t, capture.Source{BTF: types, Tracefs: formatFile(at["old_pid"], at["pid"])})
	out, err = traced(t, compiled(t, forked, other), "")
	if err == nil || !strings.Contains(err.Error(), "x.bt:1:") || !strings.Contains(err.Error(), fmt.Sprintf("pid is 4 bytes at byte %d, not 4 at byte %d", at["pid"], at["old_pid"])) {
		t.Errorf("other offsets: output %q, error %v, want an error about pid", out, err)
	}
}
