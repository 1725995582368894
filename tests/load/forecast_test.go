// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"btc/cmd/btc/forecast"
	"btc/loader/object"
	"btc/targets/kernel"
)

// forecasts returns the report on each script for a target, by name of the script.
func forecasts(t *testing.T, dir string, list []*script, open func() (*kernel.Target, error)) map[string]*forecast.Report {
	t.Helper()
	all := map[string]*forecast.Report{}
	for _, s := range list {
		tg, err := open()
		if err != nil {
			t.Fatal(err)
		}
		o, err := object.Read(filepath.Join(dir, s.name+".o"))
		if err != nil {
			t.Fatal(err)
		}
		if all[s.name], err = forecast.Check(o, tg); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
	return all
}

// withManifests writes the objects and manifests of the scripts that compile.
func withManifests(t *testing.T, all []*script) (dir string, list []*script) {
	t.Helper()
	dir = t.TempDir()
	for _, s := range all {
		if s.out == nil {
			continue
		}
		list = append(list, s)
		path := filepath.Join(dir, s.name+".o")
		for name, content := range map[string][]byte{path: s.out.Object, object.ManifestPath(path): s.out.Manifest} {
			if err := os.WriteFile(name, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir, list
}

// TestForecastExamples checks that no example is predicted to fail on the target that it was compiled
// for.
func TestForecastExamples(t *testing.T) {
	dir, list := withManifests(t, all(t))
	reports := forecasts(t, dir, list, func() (*kernel.Target, error) { return kernel.Default("x86_64") })
	n := 0
	for _, s := range list {
		if filepath.Base(filepath.Dir(s.path)) != "examples" || s.name == "example-mdflush" { // of a module that the target lacks
			continue
		}
		n++
		if r := reports[s.name]; r.Verdict != forecast.OK && r.Verdict != forecast.Unknown {
			t.Errorf("%s: %s: %v", s.name, r.Verdict, r.Findings)
		}
	}
	if n == 0 {
		t.Error("no examples found")
	}
}

// TestForecastAgrees checks the forecast against the programs that kernels of the matrix are known to
// reject (TestKernels checks this list against the kernels): none of them may be predicted to load.
func TestForecastAgrees(t *testing.T) {
	for _, release := range kernels {
		t.Run(release, func(t *testing.T) {
			goarch, uname := "amd64", "x86_64"
			if strings.HasSuffix(release, "-arm64") {
				goarch, uname = "arm64", "aarch64"
			}
			dir, list := withManifests(t, corpusFor(t, goarch))
			files, err := filepath.Abs("../../build/kernels/" + release)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(files, "vmlinux.btf")); err != nil {
				t.Skipf("skipped: no target (tests/kernels/getkernels.sh makes it): %v", err)
			}
			path := filepath.Join(t.TempDir(), "kernel.target")
			mk := exec.Command("go", "run", "btc/tools/maketarget", "make", "-gaps", "-dir", files, "-arch", uname, "-o", path)
			if out, err := mk.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			reports := forecasts(t, dir, list, func() (*kernel.Target, error) { return kernel.Open(path) })
			absent := refusedBy(t, release)
			for program := range absent {
				script, name, _ := strings.Cut(program, "/")
				r := reports[script]
				switch {
				case r == nil:
					t.Errorf("%s in %s: no such program", name, absentFile)
				case r.Verdict != forecast.Fails && verdictOf(r, name) != forecast.Skipped:
					t.Errorf("%s: rejected by the kernel (%s), but the forecast is %s", program, absent[program], r.Verdict)
				}
			}
			n := 0
			for script, r := range reports {
				for _, f := range r.Findings {
					if f.Verdict == forecast.Fails && f.Program != "" && absent[script+"/"+f.Program] == "" && !aboutPoint(f.Text) {
						t.Errorf("%s/%s: loaded by the kernel, but predicted to fail: %s", script, f.Program, f.Text)
					}
				}
				n += len(r.Programs)
			}
			t.Logf("%d programs, %d of them rejected", n, len(absent))
		})
	}
}

// aboutPoint reports whether a finding is about an attach point, on which loading without attaching has
// no bearing.
func aboutPoint(text string) bool {
	for _, words := range []string{"No matches for", "valid attach points", "iterator", "fentry", "argument"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

func verdictOf(r *forecast.Report, program string) forecast.Verdict {
	for _, p := range r.Programs {
		if p.Name == program {
			return p.Verdict
		}
	}
	return ""
}

// refusedBy returns the programs that a kernel rejects: the reason by "script/program".
func refusedBy(t *testing.T, release string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(absentFile)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		names, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		program, reason, ok := strings.Cut(rest, " ")
		if strings.HasPrefix(names, "#") || !ok {
			continue
		}
		if strings.Contains(fmt.Sprintf(",%s,", names), ","+release+",") {
			all[program] = reason
		}
	}
	return all
}
