// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"btc/internal/manifest"
	"btc/loader/profiles"
)

// parsedProfile parses a command line of btc profile.
func parsedProfile(t *testing.T, args ...string) (*profiler, error) {
	t.Helper()
	p := &profiler{rate: defaultRate}
	line, err := p.table().Parse(args)
	if err != nil {
		return p, err
	}
	_, err = p.check(line.All())
	return p, err
}

// TestProfileScripts compiles the script of each kind of profile: each is for one map with stacks.
func TestProfileScripts(t *testing.T) {
	for line, want := range map[string]string{
		"10s":                             "profile:hz:99",
		"-F 4999":                         "profile:hz:4999",
		"--off-cpu":                       "if (tid != 0)",
		"--off-cpu -p 1,2 -p 3":           "if ((pid == 1 || pid == 2 || pid == 3))",
		"--off-cpu -c true -o x.pb.gz":    "if (@ours[pid])",
		"-p 7 --follow-forks -o - 500ms":  "profile:hz:99",
		"--off-cpu -p 1,2 --follow-forks": "if (@ours[pid])",
		"--off-cpu --cgroup 5":            "if (tid != 0 && @cgroups[cgroup])",
		"--off-cpu -p 7 --container x":    "if ((pid == 7) && @cgroups[cgroup])",
		"--off-cpu -c true --pod x":       "if (@ours[pid] && @cgroups[cgroup])",
	} {
		p, err := parsedProfile(t, strings.Fields(line)...)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		p.cgroups = []uint64{5, 1 << 40}
		text := p.text()
		if p.ofCgroups() != strings.Contains(text, "@cgroups[1099511627776] = true;") {
			t.Errorf("%s: cgroups of\n%s", line, text)
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s: no %q in\n%s", line, want, text)
		}
		s := new(scriptFlags)
		s.targets.native = true
		out, diags, err := s.build("profile.bt", text)
		if err != nil || out == nil {
			t.Errorf("%s: %v %v\n%s", line, err, diags, text)
			continue
		}
		m, err := manifest.Parse(out.Manifest)
		if err != nil {
			t.Fatal(err)
		}
		x, err := profiles.Find(m, "")
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if types := profiles.Types(x); p.offCPU != (types[0].Unit == "microseconds") {
			t.Errorf("%s: types %v", line, types)
		}
	}
}

func TestProfileErrors(t *testing.T) {
	for line, want := range map[string]string{
		"-c true -o x.html":          "a page needs DURATION",
		"10":                         `"10" is not a duration of at least 1ms, such as 10s`,
		"1s 2s":                      `unexpected argument "2s"`,
		"-o x.png":                   `-o: the name "x.png" does not end in .svg, .html, .pb.gz or .folded`,
		"--off-cpu --pod 0/x --wait": "--off-cpu cannot --wait",
		"--off-cpu -F 9":             "--rate is for samples",
		"-F 0":                       `--rate: "0" is not a number from 1 to 10000`,
		"--follow-forks":             "--follow-forks",
	} {
		if _, err := parsedProfile(t, strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

func TestProfileForm(t *testing.T) {
	for _, x := range [][3]string{{"", "a.svg", "svg"}, {"", "a.pb.gz", "pprof"}, {"", "a.folded", "folded"}, {"", "a.jsonl.gz", ""}, {"text", "a.svg", ""}, {"folded", "a.txt", "folded"}, {"svg", "", "svg"}, {"", "", ""}} {
		if got := profileForm(x[0], x[1]); got != x[2] {
			t.Errorf("-f %q -o %q: %q, want %q", x[0], x[1], got, x[2])
		}
	}
}

// TestProfileProcess checks that a process of -p and a command of -c that do not exist are errors before anything starts.
func TestProfileProcess(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	gone := cmd.Process.Pid
	p := new(profiler)
	p.btrun.PIDs = append(p.btrun.PIDs, os.Getpid())
	if err := p.checkProcesses(); err != nil {
		t.Error(err)
	}
	p.btrun.PIDs = append(p.btrun.PIDs, gone)
	if err := p.checkProcesses(); err == nil || err.Error() != fmt.Sprintf("process %d does not exist", gone) {
		t.Error(err)
	}
	for command, want := range map[string]string{
		"true": "", "sh -c 'exit 1'": "", "'no such' x": "", "./missing x": `-c: "./missing" does not exist or is not executable`, "nosuchcmd_": `-c: "nosuchcmd_" does not exist or is not executable`,
	} {
		p := new(profiler)
		p.btrun.Command = command
		if err := p.checkProcesses(); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("-c %s: %v, want %q", command, err, want)
		}
	}
}

// TestProfileOfFailure checks that what was sampled is drawn if the run or its recording ends with an error, and that the status
// says so; and that nothing is drawn, and the file that is there stays, if nothing was sampled.
func TestProfileOfFailure(t *testing.T) {
	whole, err := os.ReadFile("testdata/offcputime.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(whole), "\n")
	dir := t.TempDir()
	recording := filepath.Join(dir, "run.jsonl")
	for _, x := range []struct {
		name, text string
		status     int // of the run
		want       int
		drawn      bool
	}{
		{"no error", string(whole), 0, 0, true},
		{"the run fails", string(whole), 3, 3, true},
		{"a damaged line", string(whole) + "no JSON\n", 0, 1, true},
		{"both", string(whole) + "no JSON\n", 3, 3, true},
		{"cut off", string(whole) + `{"type": "pri`, 1, 1, true},
		{"no samples", head + "\n", 0, 1, false},
		{"no samples, and the run fails", head + "\n", 3, 3, false},
		{"no recording", "", 3, 3, false},
	} {
		for _, form := range []string{"svg", "html"} {
			file := filepath.Join(dir, "x."+form)
			os.WriteFile(file, []byte("old"), 0o600)
			os.Remove(recording)
			if x.text != "" {
				os.WriteFile(recording, []byte(x.text), 0o600)
			}
			status := (&profiler{file: file}).draw(recording, x.status)
			got, _ := os.ReadFile(file)
			text := string(got)
			if status != x.want || (text == "old") == x.drawn || x.drawn && !strings.HasSuffix(text, "</"+form+">\n") {
				t.Errorf("%s, %s: status %d, %d bytes: %.20s", x.name, form, status, len(text), text)
			}
		}
	}
	if all, _ := os.ReadDir(dir); len(all) > 3 {
		t.Errorf("files are left: %v", all)
	}
}

// TestWriteComplete checks that a file has its old content if the new one cannot be written, and that what is not a regular file
// is not replaced by one.
func TestWriteComplete(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "x.svg"), filepath.Join(dir, "link.svg")
	if err := os.Symlink(file, link); err != nil {
		t.Skip("skipped: ", err)
	}
	for i, path := range []string{file, link} {
		if err := writeComplete(path, []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(file); len(got) != 1 || got[0] != byte(i) {
			t.Errorf("%s: %q", path, got)
		}
	}
	if to, err := os.Readlink(link); err != nil || to != file {
		t.Errorf("the link was replaced: %q, %v", to, err)
	}
	if err := writeComplete(os.DevNull, []byte("x")); err != nil {
		t.Error(err)
	}
	if err := writeComplete(dir, []byte("x")); err == nil {
		t.Error("a directory was written")
	}
	if all, _ := os.ReadDir(dir); len(all) != 2 {
		t.Errorf("files are left: %v", all)
	}
}

// TestColumns checks that a page has a bounded number of snapshots.
func TestColumns(t *testing.T) {
	for _, d := range []time.Duration{time.Millisecond, 29900 * time.Millisecond, time.Minute, 24 * time.Hour} {
		if every := columns(d); every < 100*time.Millisecond || d/every > 200 {
			t.Errorf("%v: a snapshot every %v", d, every)
		}
	}
}
