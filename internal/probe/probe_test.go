// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// TestFind checks that each name and alias identifies one kind.
func TestFind(t *testing.T) {
	seen := map[string]bool{}
	for i := range types {
		row := &types[i]
		for _, name := range append([]string{row.Kind}, row.Aliases...) {
			if seen[name] {
				t.Errorf("duplicate name %s", name)
			}
			seen[name] = true
			if Find(name) != row {
				t.Errorf("Find(%s) = %v", name, Find(name))
			}
		}
		if row.Min > row.Max {
			t.Errorf("%s: invalid range of parts: %d to %d", row.Kind, row.Min, row.Max)
		}
		if Lookup(row.Kind) != row || Lookup(strings.ToUpper(row.Kind)) != nil {
			t.Errorf("%s: lookup by kind finds another row", row.Kind)
		}
	}
	for word, kind := range map[string]string{"BEGIN": Begin, "KProbe": Kprobe, "K": Kprobe, "u": Uprobe, "U": USDT, "Ur": Uretprobe} {
		if got := Find(word); got == nil || got.Kind != kind {
			t.Errorf("Find(%s) = %v, want %s", word, got, kind)
		}
	}
	if Find("kprob") != nil || Find("") != nil {
		t.Error("Find found a kind for an unknown word")
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "kprobe", true}, {"k*", "kprobe", true}, {"k*", "fentry", false}, {"*probe", "kprobe", true}, {"*e*e*", "fentry", false},
		{"f*t*y", "fentry", true}, {"kprobe", "kprobe", true}, {"probe", "kprobe", false}, {"x*", "kprobe", false}, {"a*:b", "a:x:b", true},
		{"ab*ba", "aba", false}, {"a**b", "ab", true}, {"", "", true}, {"", "x", false},
	} {
		if got := Glob(c.pattern, c.name); got != c.want {
			t.Errorf("Glob(%q, %q) = %v", c.pattern, c.name, got)
		}
	}
}

func TestSplit(t *testing.T) {
	for text, want := range map[string]string{
		"kprobe:f":               "kprobe|f",
		"":                       "",
		"a::b:":                  "a||b|",
		`u:/a:"x:y\"z"+4`:        `u|/a|x:y"z+4 quoted`,
		"t:syscalls:sys_*":       "t|syscalls|sys_* wild",
		`u:/a:"*"`:               "u|/a|* quoted",
		"i:s:$1":                 "i|s|$1 [1]",
		"i:s:$12x$3":             "i|s|$12x$3 [12 3]",
		"i:s:$0":                 "i|s|$0",
		"u:./b@src/m.c:12:3":     "u|./b|src/m.c:12:3 location",
		"k:./b@src/m.c:12":       "k|./b@src/m.c|12",
		"u:b@c:f":                "u|b@c|f",
		`u:"b@c":12`:             "u|b@c quoted|12",
		"uretprobe:@m.c:1":       "uretprobe|@m.c|1",
		"uprobe:/a@b:1:function": "uprobe|/a|b:1:function location",
	} {
		var words []string
		for _, p := range Split(text) {
			word := p.Text
			for _, flag := range []struct {
				is   bool
				name string
			}{{p.Wildcard, " wild"}, {p.Quoted, " quoted"}, {p.Location, " location"}, {p.Params != nil, fmt.Sprint(" ", p.Params)}} {
				if flag.is {
					word += flag.name
				}
			}
			if !p.Quoted && text[p.Start:p.End] != p.Text {
				t.Errorf("%s: part %q has the span of %q", text, p.Text, text[p.Start:p.End])
			}
			words = append(words, word)
		}
		if got := strings.Join(words, "|"); got != want {
			t.Errorf("Split(%s) = %s, want %s", text, got, want)
		}
	}
}

func TestSubstitute(t *testing.T) {
	values := []string{"one", "", "a:b"}
	for text, want := range map[string]string{
		"x": "x", "$1": "one", "a$1b$3c": "aoneba:bc", "$": "$", "$x$0": "$x$0", "$2": "parameter $2 is not given", "$4": "parameter $4 is not given",
	} {
		got, err := Substitute(text, values)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("Substitute(%s) = %s, want %s", text, got, want)
		}
	}
}

// points are attach points with their full names, sections and other fields.
var points = []struct{ text, name, section string }{
	{"BEGIN", "begin", "raw_tp"},
	{"self:signal:SIGUSR1", "self:signal:SIGUSR1", "raw_tp"},
	{"test:x", "test:x", "xdp"},
	{"k:vfs_read", "kprobe:vfs_read", "kprobe/vfs_read"},
	{"k:vmlinux:vfs_read+0x10", "kprobe:vmlinux:vfs_read+16", "kprobe/vfs_read+16"},
	{"kr:vfs_*", "kretprobe:vfs_*", "kretprobe"},
	{"k:nfs*:f", "kprobe:nfs*:f", "kprobe"},
	{"k:0xffff8000", "kprobe:0xffff8000", "kprobe"},
	{"f:vfs_read", "fentry:vfs_read", "fentry/vfs_read"},
	{"fr:ext4:ext4_*", "fexit:ext4:ext4_*", "fexit"},
	{"f:bpf:7:prog", "fentry:bpf:7:prog", "fentry"},
	{"f:bpf:*:prog", "fentry:bpf:prog", "fentry"},
	{"rt:sched_switch", "rawtracepoint:sched_switch", "tp_btf/sched_switch"},
	{"rt:*", "rawtracepoint:*", "tp_btf"},
	{"t:sched:sched_switch", "tracepoint:sched:sched_switch", "tracepoint/sched/sched_switch"},
	{"t:sched*", "tracepoint:sched*:*", "tracepoint"},
	{"u:/a:main", "uprobe:/a:main", "uprobe//a:main"},
	{"u:/a:main+4", "uprobe:/a:main+4", "uprobe//a:main+4"},
	{"u:a:main", "uprobe:a:main", "uprobe"},
	{"u:/a:cpp:x::y", "", ""},
	{`u:/a:cpp:"x::y"`, "uprobe:/a:cpp:x::y", "uprobe"},
	{"u:main", "uprobe:main", "uprobe"},
	{"u:cpp:main", "uprobe:cpp:main", "uprobe"},
	{"u:/a:0", "uprobe:/a", "uprobe"},
	{`u:/a:"x+4"`, "uprobe:/a:x+4", "uprobe//a:x+4"},
	{`u:/a:"x+y"`, "uprobe:/a:x+y", "uprobe//a:x+y"},
	{"U:/a:ns:n", "usdt:/a:ns:n", "uprobe"},
	{"U::n", "usdt:n", "uprobe"},
	{"it:task", "iter:task", "iter/task"},
	{"it:task:/sys/fs/bpf/x", "iter:task", "iter/task"},
	{"p:hz:99", "profile:hz:99", "perf_event"},
	{"i:1s", "interval:us:1000000", "perf_event"},
	{"i:100ms", "interval:us:100000", "perf_event"},
	{"i:1000", "interval:us:1", "perf_event"},
	{"i:s:1e3", "interval:s:1000", "perf_event"},
	{"i:s:1_000", "interval:s:1000", "perf_event"},
	{"i:ms:0x10", "interval:ms:16", "perf_event"},
	{"i:1d", "interval:us:86400000000", "perf_event"},
	{"s:faults:", "software:faults", "perf_event"},
	{"s:faults:100", "software:faults:100", "perf_event"},
	{"h:cycles:1e6", "hardware:cycles:1000000", "perf_event"},
	{"w:0x1000:8:rw", "watchpoint:0x1000:8:rw", "perf_event"},
}

func TestParse(t *testing.T) {
	for _, c := range points {
		parts := Split(c.text)
		row := Find(parts[0].Text)
		p, err := row.Parse(parts[1:])
		if c.name == "" {
			if err == nil {
				t.Errorf("Parse(%s) = %+v", c.text, p)
			}
			continue
		}
		if err != nil {
			t.Errorf("Parse(%s): error = %v", c.text, err)
			continue
		}
		if got := row.Text(&p); got != c.name {
			t.Errorf("name of %s = %s, want %s", c.text, got, c.name)
		}
		if got := row.Section(&p); got != c.section {
			t.Errorf("section of %s = %s, want %s", c.text, got, c.section)
		}
	}
}

// TestParseErrors checks that an error has the position of the invalid part.
func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"self:x:SIGUSR1":                  "0: x is not a supported trigger",
		"self:signal:SIGUSR2":             "1: SIGUSR2 is not a supported signal",
		"self:*":                          "-1: self probe type requires 2 arguments, found 1",
		"self:":                           "-1: self probe type requires 2 arguments, found 1",
		"w:*":                             "-1: watchpoint probe type requires 3 arguments, found 1",
		"w:0x1000:*":                      "-1: watchpoint probe type requires 3 arguments, found 2",
		"test:":                           "-1: test probes must have a name",
		"begin:x":                         "-1: begin probe type requires 0 arguments, found 1",
		"k":                               "-1: kprobe probe type requires 1 or 2 arguments, found 0",
		"k:a:b:c":                         "-1: kprobe probe type requires 1 or 2 arguments, found 3",
		"t:x":                             "-1: tracepoint probe type requires 2 arguments, found 1",
		"t::x":                            "-1: tracepoint probe must have a target",
		"k:f+x":                           "0: Invalid offset",
		"k:f+1+2":                         "0: Cannot take more than one offset",
		"k:m:f+0x100000000":               "1: Invalid offset",
		"kr:f+1":                          "0: Offset not allowed",
		"ur:/a:f+1":                       "1: Offset not allowed",
		"k:0x10+1":                        "0: Offset not allowed",
		"k:0":                             "0: the address of a probe cannot be 0",
		"k:":                              "0: kprobes should be attached to a function or an address",
		"u:/a:rust:f":                     "1: unsupported language type: rust",
		"u:/a*:0x10":                      "1: Cannot use wildcards with absolute address",
		"U:x":                             "-1: usdt should have a target and a name",
		"U:/a:":                           "-1: usdt should have a target and a name",
		"f:":                              "-1: fentry should be attached to a function",
		"f:a:b:c":                         "-1: Only the 'bpf' variant of this probe supports 4 arguments",
		"f:bpf":                           "-1: the 'bpf' variant of this probe requires a bpf program name and optional bpf program id",
		"f:bpf:x:p":                       "1: bpf program id must be a number or '*'",
		"f:bpf:0:p":                       "1: bpf program id must be a number or '*'",
		"it:*":                            "0: wildcards are not allowed for iter probe type",
		"it:task:*":                       "1: wildcards are not allowed for iter probe type",
		"it:task:":                        "1: the pin path of the iterator is empty",
		"it:":                             "-1: iter should have a kind",
		"i:x":                             "0: Invalid rate of interval probe",
		"i:999":                           "-1: Invalid rate of interval probe. Minimum is 1000 or 1us. Found: 999 nanoseconds",
		"i:min:1":                         "0: min is not an accepted unit of time",
		"p:hz:0":                          "1: profile frequency should be a positive integer",
		"p:hz:x":                          "1: Invalid rate of profile probe: invalid integer: x",
		"p:hz:1e19":                       "1: Invalid rate of profile probe: invalid integer: 1e19",
		"p:hz:4294967295e18":              "1: Invalid rate of profile probe: invalid integer: 4294967295e18",
		"p:hz:281474976710657":            "1: Invalid rate of profile probe: 281474976710657 hz is too large (max 281474976710656)",
		"s:nothing":                       "0: nothing is not a software probe",
		"s:cycles":                        "0: cycles is not a software probe",
		"h:*":                             "0: wildcards are not allowed for hardware probe type",
		"h:cycles:x":                      "1: invalid count x",
		"h:cycles:1_0e15":                 "1: invalid count 1_0e15",
		"w:0:8:w":                         "0: invalid address 0",
		"w:x:8:w":                         "0: invalid address x",
		"w:1:3:w":                         "1: watchpoint length must be one of (1,2,4,8)",
		"w:1:8:r":                         "2: watchpoint mode must be combination of (r,w,x)",
		"w:1:8":                           "-1: watchpoint probe type requires 3 arguments, found 2",
		"software:faults:1:2":             "-1: software probe type requires 1 or 2 arguments, found 3",
		"interval:s:1:2":                  "-1: interval probe type requires 1 or 2 arguments, found 3",
		"rt:a:b:c":                        "-1: rawtracepoint probe type requires 1 or 2 arguments, found 3",
		"interval:s:99999999999999999999": "1: Invalid rate of interval probe: invalid integer: 99999999999999999999",
	} {
		parts := Split(text)
		p, err := Find(parts[0].Text).Parse(parts[1:])
		if err == nil {
			t.Errorf("Parse(%s) = %+v, want an error", text, p)
			continue
		}
		if got := fmt.Sprintf("%d: %s", err.Part, err.Text); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestNanoseconds(t *testing.T) {
	for _, c := range []struct {
		unit  string
		count uint64
		ns    uint64
		ok    bool
	}{{"us", 3, 3000, true}, {"ms", 2, 2e6, true}, {"s", 1, 1e9, true}, {"hz", 99, 0, false}} {
		if ns, ok := Nanoseconds(c.unit, c.count); ns != c.ns || ok != c.ok {
			t.Errorf("Nanoseconds(%d %s) = %d, %v", c.count, c.unit, ns, ok)
		}
	}
	if n, ok := duration("53375d"); !ok || n > math.MaxInt64/2 {
		t.Errorf("Nanoseconds of 53375 days = %d, %v", n, ok)
	}
	if _, ok := duration("53376d"); ok {
		t.Error("no error for a duration above 2^62")
	}
}

// FuzzParse checks that any string is either parsed or rejected, and that the name of a parsed attach
// point parses to the same.
func FuzzParse(f *testing.F) {
	for _, c := range points {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parts := Split(text)
		row := Find(parts[0].Text)
		if row == nil {
			return
		}
		p, err := row.Parse(parts[1:])
		if err != nil {
			if err.Part >= len(parts)-1 || err.Text == "" {
				t.Fatalf("Parse(%q) = %+v", text, err)
			}
			return
		}
		if row.Text(&p) == "" || row.Section(&p) == "" {
			t.Fatalf("%q has no name", text)
		}
	})
}

// TestSubstituteBounded checks that parameters do not multiply the length of an attach point.
func TestSubstituteBounded(t *testing.T) {
	if _, err := Substitute(strings.Repeat("$1", 1000), []string{strings.Repeat("a", 64<<10)}); err == nil {
		t.Error("no error for a part of 64 MB")
	}
}
