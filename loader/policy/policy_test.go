// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/permit"
	"btc/loader/resolve"
	"btc/loader/sites"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{`{}`, ""},
		{`{"probes": [], "allow": [], "budget": "1%", "max_memory": "64M", "max_duration": "10m"}`, ""},
		{`{"probes": ["kprobe", "k:vfs_*", "tracepoint:sched:*", "uprobe:/usr/bin/*:main", "usdt:/lib/*", "fentry:xfs:*"]}`, ""},
		{`{"allow": ["signal", "files=/var/log", "output=/var/log", "command", "read", "unsafe"]}`, ""},
		{`{"raw_stacks": false}`, ""},
		{`{"raw_stacks": "no"}`, "raw_stacks: byte 16: expected true or false, found a string"},
		{"{\n \"probs\": []}", `:2: unknown key "probs"`},
		{"{\n \"Allow\": []}", `:2: unknown key "Allow"`},
		{"{\"budget\": \"1%\",\n \"budget\": \"50%\"}", `:2: the key "budget" is there twice`},
		{`{"allow": null}`, "expected the beginning of a value, found \"n\""},
		{`{"allow": [null]}`, "expected the beginning of a value, found \"n\""},
		{`{"allow": "signal"}`, "expected an array, found a string"},
		{"{\n\n\"budget\": 1}", ":3: budget: byte 14: expected a string, found the number 1"},
		{"", ":1: manifest"}, // see below
		{`[]`, "expected '{'"},
		{`null`, "expected '{'"},
		{"{}\x00", "expected the end of the file"},
		{`{} {}`, "expected the end of the file"},
		{`{"budget": "2"}`, `:1: budget: "2" is not a share of one CPU`},
		{`{"max_memory": "lots"}`, "is not a size"},
		{`{"max_duration": "10"}`, "is not a time"},
		{`{"max_duration": "-5s"}`, "is not a time"},
		{`{"allow": ["signals"]}`, `unknown permission "signals"; did you mean signal?`},
		{`{"allow": ["commandx=1"]}`, `unknown permission "commandx"; did you mean command?`},
		{`{"allow": ["files"]}`, "needs a directory"},
		{`{"allow": ["files=var/log"]}`, "is not absolute"},
		{`{"allow": ["output"]}`, "expected output=DIR"},
		{`{"allow": ["command=ls"]}`, "does not take a value"},
		{`{"probes": ["kprobes"]}`, `unknown kind of probe "kprobes"; did you mean kprobe?`},
		{`{"probes": ["*"]}`, "unknown kind of probe"},
		{`{"probes": ["tracepoint:sched"]}`, "is not a pattern"},
		{`{"probes": ["kprobe:xfs:*"]}`, "is not a pattern"},
		{`{"probes": ["kprobe:"]}`, "is not a pattern"},
		{`{"probes": ["uprobe:bin/*"]}`, "is not absolute"},
		{`{"probes": ["profile:hz:99"]}`, "as a whole or not at all"},
	} {
		p, err := parse([]byte(c.text))
		if c.text == "" {
			c.says = "unexpected end of file"
		}
		if (err == nil) != (c.says == "") ||
			err != nil && (!strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), Path+":")) {
			t.Errorf("%q: error = %v, want %q", c.text, err, c.says)
		}
		if err == nil && p == nil {
			t.Errorf("%q: no policy", c.text)
		}
	}
}

// TestRawStacks checks that only a policy that says so forbids raw stacks.
func TestRawStacks(t *testing.T) {
	for text, want := range map[string]bool{`{}`: true, `{"raw_stacks": true}`: true, `{"raw_stacks": false}`: false} {
		if p, err := parse([]byte(text)); err != nil || p.RawStacks() != want {
			t.Errorf("%s: %v, raw stacks %t, want %t", text, err, p.RawStacks(), want)
		}
	}
	if !(*Policy)(nil).RawStacks() {
		t.Error("no policy forbids raw stacks")
	}
}

func TestParseBudget(t *testing.T) {
	for text, want := range map[string]float64{
		"1%": 0.01, "0.5%": 0.005, "100%": 1, "250%": 2.5, ".5%": 0.005,
		"": 0, "%": 0, "2": 0, "0%": 0, "-1%": 0, "+1%": 0, "1e3%": 0, "NaN%": 0, "Inf%": 0, "0x1p3%": 0, "1 %": 0, "1%%": 0, "1.2.3%": 0,
		"999999999%": 0, "0.0000001%": 0, "1_0%": 0,
	} {
		have, err := ParseBudget(text)
		if have != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %v, %v; want %v", text, have, err, want)
		}
	}
}

// TestSites checks that the policy applies to the actual attach sites rather than to what the object
// claims.
func TestSites(t *testing.T) {
	at := func(kind string, a manifest.Attach, m resolve.Match) (*manifest.Program, resolve.Match) {
		a.Text, m.Text = "tracepoint:sched:sched_switch", "tracepoint:sched:sched_switch" // a lie
		if a.Name == "" {
			a.Name = m.Name
		}
		return &manifest.Program{Kind: kind, Attach: a}, m
	}
	dir := t.TempDir()
	file, secret, link := filepath.Join(dir, "ok", "file"), filepath.Join(dir,
		"secret"), filepath.Join(dir, "ok", "link")
	os.Mkdir(filepath.Join(dir, "ok"), 0o755)
	for _, name := range []string{file, secret} {
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(secret, link); err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		probes string
		kind   string
		a      manifest.Attach
		m      resolve.Match
		want   bool
	}{
		{"tracepoint:sched:*", probe.Tracepoint, manifest.Attach{}, resolve.Match{Group: "sched", Name: "sched_switch"}, true},
		{"tracepoint:sched:*", probe.Tracepoint, manifest.Attach{}, resolve.Match{Group: "syscalls", Name: "sched_x"}, false},
		{"tracepoint:sched:*", probe.RawTracepoint, manifest.Attach{}, resolve.Match{Group: "vmlinux", Name: "sched_switch"}, false},
		{"tracepoint", probe.RawTracepoint, manifest.Attach{}, resolve.Match{Group: "vmlinux", Name: "sched_switch"}, false},
		{"kprobe:vfs_*", probe.Kprobe, manifest.Attach{}, resolve.Match{Name: "vfs_read"}, true},
		{"k:vfs_*", probe.Kprobe, manifest.Attach{}, resolve.Match{Name: "vfs_read"}, true},
		{"kprobe:vfs_*", probe.Kprobe, manifest.Attach{}, resolve.Match{Name: "do_vfs"}, false},
		{"kprobe:vfs_*", probe.Kretprobe, manifest.Attach{}, resolve.Match{Name: "vfs_read"}, false},
		{"kprobe:vfs_*", probe.Fentry, manifest.Attach{}, resolve.Match{Group: "vmlinux", Name: "vfs_read"}, false},
		// The module of an attach point is ignored, and so is an offset that leads elsewhere.
		{"kprobe:vfs_*", probe.Kprobe, manifest.Attach{Offset: 4096}, resolve.Match{Name: "vfs_read", Offset: 4096}, false},
		{"kprobe:vfs_*", probe.Kprobe, manifest.Attach{Name: "vfs_read"}, resolve.Match{Name: "vfs_read", Offset: 16}, false},
		{"kprobe:vfs_*", probe.Kprobe, manifest.Attach{Name: "vfs_read+16"}, resolve.Match{Name: "vfs_read+16"}, false},
		{"kprobe:*", probe.Kprobe, manifest.Attach{}, resolve.Match{Name: "vfs_read", Offset: 16}, true},
		{"fentry:xfs:*", probe.Fentry, manifest.Attach{}, resolve.Match{Group: "xfs", Name: "f"}, true},
		{"fentry:xfs:*", probe.Fentry, manifest.Attach{}, resolve.Match{Group: "vmlinux", Name: "f"}, false},
		{"kfunc:f", probe.Fentry, manifest.Attach{}, resolve.Match{Group: "vmlinux", Name: "f"}, true},
		{"software:cpu*", probe.Software, manifest.Attach{Target: "cpu-clock"}, resolve.Match{}, true},
		{"software:cpu*", probe.Software, manifest.Attach{Name: "page-faults", Target: "cpu-clock"}, resolve.Match{Name: "page-faults"}, false},
		{"iter:task", probe.Iter, manifest.Attach{}, resolve.Match{Name: "task_file"}, false},
		{"iter:task", probe.Iter, manifest.Attach{}, resolve.Match{Name: "task"}, true},
		{"interval", probe.Profile, manifest.Attach{Unit: "hz", Count: 99}, resolve.Match{}, false},
		{"uprobe:" + dir + "/ok/*", probe.Uprobe, manifest.Attach{}, resolve.Match{Path: file, Name: "main"}, true},
		{"uprobe:" + dir + "/ok/*", probe.Uprobe, manifest.Attach{}, resolve.Match{Path: link, Name: "main"}, false},
		{"uprobe:" + dir + "/ok/*", probe.Uprobe, manifest.Attach{}, resolve.Match{Path: dir + "/ok/../secret", Name: "main"}, false},
		{"uprobe:" + dir + "/ok/*", probe.Uprobe, manifest.Attach{}, resolve.Match{Path: "/proc/self/root" + file, Name: "main"}, false},
		{"uprobe:" + dir + "/ok/*", probe.Uprobe, manifest.Attach{}, resolve.Match{Path: "/proc/self/exe", Name: "main"}, false},
		{"uprobe:" + dir + "/ok/*:ma*", probe.Uprobe, manifest.Attach{}, resolve.Match{Path: file, Name: "main"}, true},
		{"uprobe:" + dir + "/ok/*:ma*", probe.Uprobe, manifest.Attach{}, resolve.Match{Path: file, Name: "f"}, false},
		{"uprobe:" + dir + "/ok/*:ma*", probe.Uprobe, manifest.Attach{Addr: 64}, resolve.Match{Path: file, Offset: 64}, false},
		{"uprobe:" + dir + "/ok/*:ma*", probe.Uprobe, manifest.Attach{Offset: 9}, resolve.Match{Path: file, Name: "main"}, false},
		{"uprobe", probe.USDT, manifest.Attach{}, resolve.Match{Path: file, Name: "p"}, false},
		{"usdt:" + dir + "/ok/*", probe.USDT, manifest.Attach{}, resolve.Match{Path: file, Name: "p"}, true},
	} {
		p, err := parse([]byte(`{"probes": ["interval", "` + c.probes + `"]}`))
		if err != nil {
			t.Fatal(err)
		}
		prog, m := at(c.kind, c.a, c.m)
		if may := p.mayMatch(prog); c.want && !may && probe.Lookup(c.kind).Space != probe.UserSpace {
			t.Errorf("%s: %s %+v cannot match", c.probes, c.kind, c.m)
		}
		e := &sites.Expansion{Plans: []resolve.Plan{{Prog: prog, Matches: []resolve.Match{m}}}}
		err = nil
		if p.verdict(prog) == refused {
			err = os.ErrPermission
		} else {
			err = p.Sites(&manifest.Manifest{}, e)
		}
		if (err == nil) != c.want {
			t.Errorf("%s: %s %+v: error = %v", c.probes, c.kind, c.m, err)
		}
		if got := e.Plans[0].Matches[0].Path; c.want && c.m.Path != "" && got != filepath.Join(dir, "ok", "file") {
			t.Errorf("%s is attached to by path %s", c.m.Path, got)
		}
	}
}

// TestLimits checks that an option that is not set gets the limit of the policy, and that a higher
// value is an error.
func TestLimits(t *testing.T) {
	p, err := parse([]byte("{\"allow\": [\"signal\", \"files=/var/log/btc\"],\n\"budget\": \"1%\",\n\"max_memory\": \"64M\",\n\"max_duration\": \"10m\"}"))
	if err != nil {
		t.Fatal(err)
	}
	l := Limits{Allow: new(permit.Grants), MaxMemory: 1 << 40}
	if err := p.Apply(&l); err != nil || l.Budget != 0.01 || l.MaxMemory != 64<<20 || l.Timeout.String() != "10m0s" {
		t.Errorf("limits %+v, error = %v", l, err)
	}
	for _, c := range []struct {
		says string
		l    Limits
	}{
		{":2 permits at most 1%", Limits{Budget: 0.011}},
		{":4 permits at most 10m0s", Limits{Timeout: 601e9}},
		{`:1 does not list "command"`, Limits{Command: "true"}},
		{`:1 does not list "read"`, Limits{Files: []string{"", "/etc/shadow"}}},
	} {
		c.l.Allow = new(permit.Grants)
		if err := p.Apply(&c.l); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error = %v, want %q", err, c.says)
		}
	}
	if err := p.Memory(65 << 20); err == nil || !strings.Contains(err.Error(), ":3 permits at most 64 MiB") {
		t.Errorf("memory: error = %v", err)
	}
	for allow, ok := range map[string]bool{
		"signal": true, "system": false, "files=/var/log/btc": true, "files=/var/log/btc/x": true, "files=/var/log": false,
		"files=/var/log/btc/../x": false, "files=/": false, "pins=/var/log/btc": false,
	} {
		g := new(permit.Grants)
		if err := g.Allow(allow); err != nil {
			t.Fatal(err)
		}
		if err := p.Apply(&Limits{Allow: g}); (err == nil) != ok {
			t.Errorf("--allow %s: %v", allow, err)
		}
	}
	if err := p.Apply(&Limits{Allow: &permit.Grants{All: true}}); err == nil {
		t.Error("no error for --unsafe")
	}
	// Output files are opened relative to the policy's directory, without following symbolic links
	// below it.
	g := new(permit.Grants)
	g.Allow("files=/var/log/btc/sub")
	if err := p.Apply(&Limits{Allow: g}); err != nil {
		t.Fatal(err)
	}
	if root, ok := g.Root(&permit.Action{Permission: permit.Files, Path: "/var/log/btc/sub/x"}); !ok ||
		root != "/var/log/btc" {
		t.Errorf("root = %s, %v", root, ok)
	}
	if _, ok := g.Root(&permit.Action{Permission: permit.Files, Path: "/var/log/btc/other"}); ok {
		t.Error("policy permits more than the options")
	}
	var none *Policy
	if err := none.Apply(&Limits{Allow: &permit.Grants{All: true}, Command: "true"}); err != nil {
		t.Errorf("without a policy: error = %v", err)
	}
}

func TestOutput(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root")
	}
	dir, err := os.MkdirTemp("/root", "policy")
	if err != nil {
		t.Skip("skipped: cannot write to /root: ", err)
	}
	defer os.RemoveAll(dir)
	os.Mkdir(dir+"/open", 0o777)
	os.Chmod(dir+"/open", 0o777)
	os.Mkdir(dir+"/sub", 0o755)
	os.Symlink("/etc", dir+"/etc")
	os.Symlink("/etc/passwd", dir+"/passwd")
	p, err := parse([]byte(`{"allow": ["output=` + dir + `"]}`))
	if err != nil {
		t.Fatal(err)
	}
	for path, ok := range map[string]bool{
		"": true, dir + "/x": true, dir + "/sub/x": true, dir + "/sub/../x": true,
		dir + "/open/x": false, dir + "/etc/x": false, dir + "/passwd": false, dir + "/../x": false, "/tmp/x": false, "x": false, dir + "/none/x": false,
	} {
		if err := p.Output(path); (err == nil) != ok {
			t.Errorf("%s: error = %v", path, err)
		}
	}
}

// FuzzParse checks that no input makes the parser panic, and that accepted input is decoded as by
// encoding/json.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"probes": ["kprobe:vfs_*"], "allow": ["signal", "files=/x"], "budget": "1%", "max_memory": "1M"}`))
	f.Add([]byte(`{"allow": [null], "allow": 1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parse(data)
		if err != nil {
			if p != nil {
				t.Errorf("%q: policy returned with error %v", data, err)
			}
			return
		}
		var want file
		if err := json.Unmarshal(data, &want); err != nil {
			t.Errorf("%q: no error, but encoding/json: %v", data, err)
		}
		if (want.Probes == nil) != (p.probes == nil) || len(want.Probes) != len(p.probes) || (want.Allow == nil) != (p.grants == nil) {
			t.Errorf("%q: %+v, want %+v", data, p, want)
		}
	})
}
