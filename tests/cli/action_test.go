// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const action = "../../.github/actions/btc-check/"

// TestYAML parses what GitHub and pre-commit read, of which they would otherwise be the first readers.
func TestYAML(t *testing.T) {
	files := []string{"../../.pre-commit-hooks.yaml"}
	for _, pattern := range []string{"../../.github/*/*.yml", "../../.github/actions/*/*.yml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: no files: %v", pattern, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(data, new(any)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestAction checks the parts of the action against each other: files and outputs exist, inputs have descriptions and are used.
func TestAction(t *testing.T) {
	data, err := os.ReadFile(action + "action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var a struct {
		Name, Description string
		Inputs            map[string]struct {
			Description string
			Required    bool
			Default     *string
		}
		Runs struct {
			Using string
			Steps []struct{ ID, Uses, Run, Shell, If string }
		}
	}
	if err := yaml.Unmarshal(data, &a); err != nil {
		t.Fatal(err)
	}
	if a.Name == "" || a.Description == "" || a.Runs.Using != "composite" || len(a.Runs.Steps) == 0 {
		t.Errorf("%+v", a)
	}
	for name, in := range a.Inputs {
		if in.Description == "" || in.Required == (in.Default != nil) {
			t.Errorf("input %s: %+v", name, in)
		}
		if !strings.Contains(string(data), "inputs."+name) {
			t.Errorf("input %s is not used", name)
		}
	}
	for _, s := range a.Runs.Steps {
		if (s.Uses == "") == (s.Run == "") || s.Run != "" && s.Shell == "" {
			t.Errorf("step %+v", s)
		}
		for _, file := range regexp.MustCompile(`\$GITHUB_ACTION_PATH/([\w.]+)`).FindAllStringSubmatch(s.Run, -1) {
			if _, err := os.Stat(action + file[1]); err != nil {
				t.Error(err)
			}
		}
	}
}

// shell runs a script of the action with an environment.
func shell(t *testing.T, dir, script string, environ ...string) (string, error) {
	t.Helper()
	path, err := filepath.Abs(action + script)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("skipped: no bash, which runs the scripts of the action")
	}
	c := exec.Command("bash", path)
	c.Dir, c.Env = dir, append(append(os.Environ(), "no_proxy=*"), environ...)
	out, err := c.CombinedOutput()
	return string(out), err
}

// TestActionCheck runs the action's check: the result, what its problem matchers find, and the SARIF log.
func TestActionCheck(t *testing.T) {
	btc := "BTC=" + filepath.Join(build(t), "btc")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"good.bt":             "begin { printf(\"x\\n\"); }\n",
		"other.bt":            "begin { printf(\"é\"); print(foo); }\n",
		"missing.bt":          "kprobe:no_such_function_ { @ = count(); }\n",
		"-dash.bt":            "begin { }\n",
		"::add-mask::x.bt":    "begin { print(foo); }\n",
		"a\n::add-mask::y.bt": "begin { print(foo); }\n",
		"zmask.bt":            "begin { foo(\"##[add-mask]z\"); }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := shell(t, dir, "check.sh", btc, "SCRIPTS=good.bt -dash.bt"); err != nil || !strings.Contains(out, "good.bt") || !strings.Contains(out, "./-dash.bt") {
		t.Errorf("%v: %s", err, out)
	}
	for _, c := range []struct{ scripts, want string }{{"SCRIPTS=:*.bt zmask.bt", "./::add-mask::x.bt:1"}, {"SCRIPTS=a*.bt", "line break"}} {
		out, err := shell(t, dir, "check.sh", btc, c.scripts)
		if err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v: %s", c.scripts, err, out)
		}
		stopped := ""
		for line := range strings.Lines(out) {
			line = strings.TrimSpace(line)
			if token, ok := strings.CutPrefix(line, "::stop-commands::"); ok && len(token) == 32 {
				stopped = "::" + token + "::"
			} else if line == stopped {
				stopped = ""
			} else if strings.HasPrefix(line, "::") || stopped == "" && strings.Contains(line, "##[") {
				t.Errorf("%s: a command: %s", c.scripts, line)
			}
		}
		if stopped != "" {
			t.Errorf("%s: commands stay stopped: %s", c.scripts, out)
		}
	}
	for _, none := range []string{"SCRIPTS=none-*.bt", "SCRIPTS="} {
		if out, err := shell(t, dir, "check.sh", btc, none); err == nil || !strings.Contains(out, "no scripts") {
			t.Errorf("%s: %v: %s", none, err, out)
		}
	}
	out, err := shell(t, dir, "check.sh", btc, "SCRIPTS=m*.bt good.bt other.bt", "SARIF=out.sarif", "TARGETS="+runtime.GOARCH)
	if err == nil {
		t.Errorf("no error: %s", out)
	}
	var matcher struct {
		ProblemMatcher []struct {
			Pattern []struct {
				Regexp              string
				File, Line, Message int
			}
		}
	}
	data, err := os.ReadFile(action + "matcher.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &matcher); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, m := range matcher.ProblemMatcher {
		p := m.Pattern[0]
		for line := range strings.Lines(out) {
			if f := regexp.MustCompile(p.Regexp).FindStringSubmatch(strings.TrimRight(line, "\n")); f != nil {
				found = append(found, f[p.File]+":"+f[p.Line])
			}
		}
	}
	if have := strings.Join(found, " "); have != "missing.bt:1 other.bt:1 missing.bt:1" {
		t.Errorf("the matchers find %q in\n%s", have, out)
	}
	var log struct {
		Version string
		Runs    []struct {
			Results []struct {
				RuleID, Level string
				Locations     []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine, StartColumn, EndColumn int }
					}
				}
			}
		}
	}
	if data, err = os.ReadFile(filepath.Join(dir, "out.sarif")); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &log); err != nil || log.Version != "2.1.0" || len(log.Runs) != 1 {
		t.Fatalf("%v: %s", err, data)
	}
	var got []string
	for _, r := range log.Runs[0].Results {
		at := r.Locations[0].PhysicalLocation
		got = append(got, fmt.Sprint(r.RuleID, " ", r.Level, " ", at.ArtifactLocation.URI, ":", at.Region.StartLine, ":", at.Region.StartColumn, "-", at.Region.EndColumn))
	}
	want := "W0215 warning missing.bt:1:8-25, E0201 error other.bt:1:28-31,  error missing.bt:1:0-0"
	if have := strings.Join(got, ", "); have != want {
		t.Errorf("SARIF has %q, want %q: %s", have, want, data)
	}
}

// TestActionDownload checks what the action downloads: a release with the right checksum, else nothing, and btc is built.
func TestActionDownload(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("skipped: no curl, with which the action downloads")
	}
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("skipped: releases have no btc for " + runtime.GOARCH)
	}
	top := "btc-1.2.3-" + runtime.GOOS + "-" + runtime.GOARCH
	var archive bytes.Buffer
	zip := gzip.NewWriter(&archive)
	w := tar.NewWriter(zip)
	const program = "#!/bin/sh\n"
	if err := w.WriteHeader(&tar.Header{Name: top + "/btc", Mode: 0o755, Size: int64(len(program))}); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(w, program)
	w.Close()
	zip.Close()
	sums := fmt.Sprintf("%x  %s.tar.gz\n", sha256.Sum256(archive.Bytes()), top)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch version, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); {
		case version != "v1.2.3" && version != "v1.2.3+bad", name != "SHA256SUMS" && name != top+".tar.gz" && !strings.HasPrefix(name, "btc-1.2.3+bad"):
			http.NotFound(w, r)
		case name == "SHA256SUMS":
			fmt.Fprint(w, sums, strings.ReplaceAll(strings.Repeat("0", 64)+"  "+top+".tar.gz\n", "1.2.3", "1.2.3+bad"))
		default:
			_, _ = w.Write(archive.Bytes())
		}
	}))
	defer server.Close()
	for _, test := range []struct {
		version, output string
		found, fails    bool
	}{
		{"v1.2.3", "", true, false},
		{"v9.9.9", "btc is built", false, false},
		{"main", "not a release", false, false},
		{"", "not a release", false, false},
		{"v1.2.3+bad", "the checksum is", false, true},
	} {
		dir := t.TempDir()
		output := filepath.Join(dir, "output")
		out, err := shell(t, dir, "download.sh", "RELEASES="+server.URL, "VERSION="+test.version, "DIR="+dir, "GITHUB_OUTPUT="+output)
		if (err != nil) != test.fails || !strings.Contains(out, test.output) {
			t.Errorf("%s: %v: %s", test.version, err, out)
		}
		set, _ := os.ReadFile(output)
		_, missing := os.Stat(filepath.Join(dir, "btc"))
		if (string(set) == "found=true\n") != test.found || (missing == nil) != test.found {
			t.Errorf("%s: output %q, %v", test.version, set, missing)
		}
	}
}
