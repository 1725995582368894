// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strings"
	"testing"
)

// TestSubstituteStrings checks that values of string parameters complete the manifest, and that invalid names
// are rejected.
func TestSubstituteStrings(t *testing.T) {
	fresh := func() *Manifest {
		m := params()
		m.Globals = []Global{
			{Name: "a", Host: "cgroupid", TextFrom: "param_1_str", Pos: &Pos{Line: 3}},
			{Name: "b", Host: "uaddr", Text: "/bin/x ", TextFrom: "opt_ee", Pos: &Pos{Line: 4}},
			{Name: "c", Host: "kfunc_allowed", Text: " kprobe", TextFrom: "opt_ee"},
			{Name: "d", Host: "kaddr", Text: "vfs_read"},
		}
		m.Events = []Event{{Kind: "time", FormatFrom: "param_1_str"}, {Kind: "skboutput", FormatFrom: "opt_ee", Pos: Pos{Line: 5}}}
		m.Maps = []Map{{Key: &Layout{Kind: "tuple", Fields: []Field{{Layout: Layout{Kind: "cgroup_path", FormatFrom: "opt_ee"}}}}}}
		return m
	}
	fill := func(m *Manifest, first, ee string) (Pos, error) {
		values := map[string][]byte{"param_1_str": append([]byte(first), 0, 0), "opt_ee": append([]byte(ee), 0)}
		return SubstituteStrings(m, values)
	}
	m := fresh()
	if _, err := fill(m, "/sys/a b", "main"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"/sys/a b", "/bin/x main", "main kprobe", "vfs_read"} {
		if g := m.Globals[i]; g.Text != want || g.TextFrom != "" {
			t.Errorf("Globals[%d] = %+v, want %q", i, g, want)
		}
	}
	key := m.Maps[0].Key.Fields[0].Layout
	if m.Events[0].Format != "/sys/a b" || m.Events[1].Format != "main" || key.Format != "main" || key.FormatFrom != "" {
		t.Errorf("formats of events and key = %+v, %+v", m.Events, key)
	}
	for _, c := range []struct {
		first, ee, want string
		line            int
	}{
		{"", "main", "cgroupid() needs the value of parameter $1, which is not given", 3},
		{"/x", "", "uaddr() needs the value of parameter --ee", 4},
		{"/x", "ma in", `valid symbol ("ma in" provided)`, 4},
	} {
		if pos, err := fill(fresh(), c.first, c.ee); err == nil || !strings.Contains(err.Error(), c.want) || pos.Line != c.line {
			t.Errorf("%+v: error = %v at %+v", c, err, pos)
		}
	}
	m = fresh()
	m.Globals = nil
	if pos, err := fill(m, "", ""); err == nil || !strings.Contains(err.Error(), "skboutput() needs") || pos.Line != 5 {
		t.Errorf("error = %v at %+v", err, pos)
	}
}

// TestTextParamsAreChecked checks that only strings may complete a manifest, and only where the loader
// fills them in.
func TestTextParamsAreChecked(t *testing.T) {
	for path, change := range map[string]func(m *Manifest){
		"globals[0].text_from":                   func(m *Manifest) { m.Globals[0].TextFrom = "param_1" },
		"events[0].format_from":                  func(m *Manifest) { m.Events[0].FormatFrom = "none" },
		"events[0].kind":                         func(m *Manifest) { m.Events[0].Kind = "system" },
		"events[1].fields[0].layout.kind":        func(m *Manifest) { m.Events[1].Fields[0].Layout.Kind = "username" },
		"events[1].fields[0].layout.format_from": func(m *Manifest) { m.Events[1].Fields[0].Layout.FormatFrom = "x" },
		"":                                       func(m *Manifest) {},
	} {
		m := params()
		m.Schema, m.Arches, m.Object.SHA256 = Schema, []string{"x86_64"}, strings.Repeat("0", 64)
		m.Requires = []string{TextParams}
		m.Globals = []Global{{Name: "a", Section: ".rodata", Size: 8, Host: "cgroupid", TextFrom: "param_1_str"}}
		m.Events = []Event{
			{ID: 0, Kind: "time", Size: 8, FormatFrom: "opt_ee"},
			{ID: 1, Kind: "print", Size: 16, Fields: []Field{{Off: 8, Layout: Layout{Kind: "cgroup_path", Size: 8, FormatFrom: "opt_ee"}}}},
		}
		change(m)
		err := m.Validate()
		if path == "" && err != nil || path != "" && (err == nil || !strings.Contains(err.Error(), path+":")) {
			t.Errorf("%s: error = %v", path, err)
		}
	}
}

// TestSubstituteStringsShared checks that layouts share the value of a parameter: a manifest can have hundreds of thousands of
// them, and a value 64 KiB.
func TestSubstituteStringsShared(t *testing.T) {
	m := params()
	m.Events = []Event{{Kind: "printf", Fields: make([]Field, 10000)}}
	for i := range m.Events[0].Fields {
		m.Events[0].Fields[i].Layout = Layout{Kind: "timestamp", FormatFrom: "opt_ee"}
	}
	values := map[string][]byte{"opt_ee": make([]byte, 64<<10)}
	for i := range values["opt_ee"] {
		values["opt_ee"][i] = 'a'
	}
	if got := testing.AllocsPerRun(1, func() {
		for i := range m.Events[0].Fields {
			m.Events[0].Fields[i].Layout.FormatFrom = "opt_ee"
		}
		if _, err := SubstituteStrings(m, values); err != nil {
			t.Fatal(err)
		}
	}); got > 100 {
		t.Errorf("%v allocations", got)
	}
}

// TestTextFromUnknown checks that the parameter must exist where nothing else of a global is looked up.
func TestTextFromUnknown(t *testing.T) {
	m := sample()
	m.Globals = append(m.Globals, Global{Name: "x", Section: ".rodata", Size: 8, TextFrom: "none"})
	if err := m.Validate(); err == nil || !strings.Contains(err.Error(), "no string parameter") {
		t.Errorf("error = %v", err)
	}
}
