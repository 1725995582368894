// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"btc/compile"
	"btc/ir/kernel"
	"btc/loader/object"
)

// forecastOf compiles a script and checks it against the default target of x86_64.
func forecastOf(t *testing.T, script string) *Report {
	t.Helper()
	target, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	out, diags := compile.Compile(compile.Input{Name: "x.bt", Text: script, Target: target, Compiler: "btc"})
	if out == nil {
		t.Fatalf("%q: %v", script, diags)
	}
	path := filepath.Join(t.TempDir(), "x.o")
	for name, data := range map[string][]byte{path: out.Object, strings.TrimSuffix(path, ".o") + ".json": out.Manifest} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o, err := object.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Check(o, target)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAbsentPoints checks that a missing attach point has the same effect as in the loader: a pattern
// without a match is dropped if its clause has another attach point.
func TestAbsentPoints(t *testing.T) {
	for _, c := range []struct {
		script string
		want   Verdict // of the object
		first  Verdict // of the first program
	}{
		{`kprobe:nosuch_function* { }`, Fails, Fails},
		{`kprobe:nosuch_function*, kprobe:vfs_read { }`, OK, Skipped},
		{`kprobe:nosuch_function, kprobe:vfs_read { }`, Fails, Fails},
		{`kprobe:nosuch_function, kprobe:vfs_read { print(probe); }`, OK, Skipped}, // treated like a pattern
		{`config = { missing_probes = warn } kprobe:nosuch_function { } kprobe:vfs_read { }`, OK, Skipped},
		{`config = { missing_probes = warn } kprobe:nosuch_function { }`, Fails, Skipped}, // nothing is left
		{`kprobe:nosuch_function* { } kprobe:vfs_read { }`, Fails, Fails},
		{`config = { missing_probes = ignore } kprobe:nosuch_function* { } kprobe:vfs_read { }`, OK, Skipped},
	} {
		r := forecastOf(t, c.script)
		if r.Verdict != c.want || r.Programs[0].Verdict != c.first {
			t.Errorf(
				"%s\nobject %s, first program %s: want %s, %s (%v)",
				c.script,
				r.Verdict,
				r.Programs[0].Verdict,
				c.want,
				c.first,
				r.Findings,
			)
		}
	}
}

// TestLoaderErrors checks that limits and errors of attach points are those that the loader reports.
func TestLoaderErrors(t *testing.T) {
	for script, want := range map[string]string{
		`config = { max_probes = 2 } kprobe:vfs_* { }`:     "exceeds the current limit of 2 probes",
		`kprobe:nosuch_function { }`:                       "No matches for kprobe nosuch_function.",
		`tracepoint:sched:sched_swi*, tracepoint:x:y* { }`: "No matches for tracepoint x:y*: the script runs without it",
		`software:cpu-clock:100, uprobe:/bin/cat:main { }`: "uprobe:/bin/cat:main depends on the host's files",
		`kprobe:vfs_read+4 { }`:                            "kprobe:vfs_read+4 depends on the instructions of the host's kernel",
		`kprobe:nosuch_module:f { }`:                       "kprobe:nosuch_module:f depends on the module nosuch_module",
	} {
		r := forecastOf(t, script)
		found := false
		for _, f := range r.Findings {
			found = found || strings.Contains(f.Text, want)
		}
		if !found {
			t.Errorf("%s: findings %+v, want %q", script, r.Findings, want)
		}
	}
}
