// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"btc/loader/policy"
)

// TestFindTool looks tools up: where, in which order, and for whom.
func TestFindTool(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root, for a directory that only root can change")
	}
	base, err := os.MkdirTemp("/run", "btc-tools")
	if err != nil {
		t.Skip("skipped: needs a directory that only root can change: ", err)
	}
	defer os.RemoveAll(base)
	defer func(before string) { packagedTools = before }(packagedTools)
	packagedTools = base + "/packaged"
	open := t.TempDir() // below a directory that all users can write
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(base+"/packaged/zsnoop.o", "")
	write(base+"/packaged/opensnoop.o", "")
	write(base+"/packaged/index", "opensnoop   print opens\nother  x\n")
	write(base+"/own/opensnoop.o", "")
	write(base+"/own/mine.o", "")
	write(base+"/own/wide.o", "")
	if err := os.Chmod(base+"/own/wide.o", 0o666); err != nil {
		t.Fatal(err)
	}
	write(open+"/theirs.o", "")
	write(open+"/here.o", "")
	t.Chdir(open)
	t.Setenv("SUDO_UID", "")
	t.Setenv("BTRUN_PATH", base+"/own:.::"+open+":relative")
	find := func(name string, p *policy.Policy) (string, string) {
		o := &arguments{object: name, policy: p}
		if err := o.findTool(); err != nil {
			return "", err.Error()
		}
		return o.object, ""
	}
	for _, c := range []struct{ name, path, err string }{
		{"opensnoop", base + "/packaged/opensnoop.o", ""}, // the packages' come first
		{"mine", base + "/own/mine.o", ""},
		{"wide", "", "other users can change it"},
		{"theirs", "", "other users can change it"},
		{"opensnop", "", "; did you mean opensnoop?"},
		{"nothing", "", "no tool nothing in " + base + "/packaged, " + base + "/own, " + open + "; btrun --tools"},
		{"x.o", "x.o", ""}, {"./x", "./x", ""}, {"x.bt", "x.bt", ""}, {"-", "-", ""}, {"", "", ""},
	} {
		path, err := find(c.name, nil)
		if path != c.path || !strings.Contains(err, c.err) || c.err == "" && err != "" {
			t.Errorf("%q: %q, error %q, want %q, error %q", c.name, path, err, c.path, c.err)
		}
	}
	check := func(p *policy.Policy) {
		t.Helper()
		if path, _ := find("opensnoop", p); path != base+"/packaged/opensnoop.o" {
			t.Errorf("opensnoop: %q", path)
		}
		if _, err := find("mine", p); !strings.Contains(err, "no tool mine in "+base+"/packaged (BTRUN_PATH does not apply under sudo or a policy); ") {
			t.Error(err)
		}
		if _, err := find("here", p); !strings.HasSuffix(err, "no such file or tool; did you mean ./here.o?") {
			t.Error(err)
		}
		var b strings.Builder
		(&arguments{policy: p}).listTools(&b)
		if b.String() != "opensnoop   print opens\nzsnoop\n" {
			t.Errorf("%q", &b)
		}
	}
	check(&policy.Policy{})
	t.Setenv("SUDO_UID", "1000")
	check(nil)
}
