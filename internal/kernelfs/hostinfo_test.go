// SPDX-License-Identifier: Apache-2.0

package kernelfs

import (
	"errors"
	"io/fs"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string][]int{
		"0":           {0},
		"0-3":         {0, 1, 2, 3},
		"0-1,4,6-7":   {0, 1, 4, 6, 7},
		"":            nil,
		"3-1":         nil,
		"0-999999999": nil,
		"-1":          nil,
		"0,x":         nil,
	} {
		got, err := parseCPUs(list)
		if (err != nil) != (want == nil) || !cmp.Equal(got, want) && want != nil {
			t.Errorf("parseCPUs(%q) = %v, %v, want %v", list, got, err, want)
		}
	}
}

// TestDependencies checks that this package, which is linked into the loader, does not depend on the
// reader of target files.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	for dep := range strings.Lines(string(out)) {
		if strings.Contains(dep, "zstd") || strings.Contains(dep, "targetfile") || strings.Contains(dep, "encoding/json") {
			t.Errorf("package depends on %s", dep)
		}
	}
}

func TestRunningKernel(t *testing.T) {
	online, err := OnlineCPUs()
	if err != nil || len(online) == 0 {
		t.Fatal(online, err)
	}
	possible, err := PossibleCPUs()
	if err != nil || possible < online[len(online)-1]+1 {
		t.Errorf("%d possible CPUs, online %v, %v", possible, online, err)
	}
	if r, err := Release(); err != nil || !strings.Contains(r, ".") {
		t.Errorf("release = %q, %v", r, err)
	}
	if m, err := Machine(); err != nil || m == "" {
		t.Errorf("machine = %q, %v", m, err)
	}
}

const format = `name: block_rq_issue
ID: 1304
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:dev_t dev;	offset:8;	size:4;	signed:0;
	field:char rwbs[8];	offset:34;	size:8;	signed:0;
	field:const char * filename;	offset:48;	size:8;	signed:0;
	field:struct sk_buff *skb;	offset:56;	size:8;	signed:0;
	field:__data_loc char[] cmd;	offset:64;	size:4;	signed:1;

print fmt: "%d,%d field: %s", REC->dev
`

func TestParseFormat(t *testing.T) {
	got, err := ParseFormat([]byte(format))
	if err != nil {
		t.Fatal(err)
	}
	want := &Format{"block_rq_issue", 1304, []FormatField{
		{"common_type", "unsigned short", 0, 2, false},
		{"common_pid", "int", 4, 4, true},
		{"dev", "dev_t", 8, 4, false},
		{"rwbs", "char[8]", 34, 8, false},
		{"filename", "const char *", 48, 8, false},
		{"skb", "struct sk_buff *", 56, 8, false},
		{"cmd", "__data_loc char[]", 64, 4, true},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !got.Fields[1].Common() || got.Fields[2].Common() {
		t.Error("common fields not recognized")
	}
	for _, bad := range []string{"field:int x; offset:frog; size:4;", "field:; offset:1; size:4;", "field:int x; offset:-8; size:4;"} {
		if f, err := ParseFormat([]byte(bad)); err == nil {
			t.Errorf("%q: got %+v", bad, f)
		}
	}
}

func TestTracepoint(t *testing.T) {
	for _, name := range [][2]string{{"..", "x"}, {"sched", "../sched/sched_switch"}, {"", "x"}, {"a", "b\x00"}} {
		if _, err := TracepointID(name[0], name[1]); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v: error = %v", name, err)
		}
	}
	if _, err := Tracefs(); err != nil {
		t.Skip("skipped: tracefs is not mounted or readable")
	}
	f, err := Tracepoint("sched", "sched_switch")
	if err != nil {
		t.Fatal(err)
	}
	if id, err := TracepointID("sched", "sched_switch"); err != nil || id != f.ID || id == 0 {
		t.Errorf("id = %d, in the format file %d, %v", id, f.ID, err)
	}
	if _, err := Tracepoint("sched", "no_such_event"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no_such_event: error = %v", err)
	}
}

const kallsyms = `0000000000000000 A fixed_percpu_data
ffffffff81000000 T _text
ffffffff81000000 T startup_64
ffffffff81000100 t helper
ffffffff81000100 W alias_of_helper
ffffffff82000000 D some_data
ffffffffc0001000 t in_module	[ext4]
ffffffffc0002000 t bpf_prog_6deef7357e7b4530	[bpf]
short
ffffffff81000200 T vfs_read
`

func TestKallsyms(t *testing.T) {
	// One byte at a time, so that lines arrive in pieces.
	k, err := ReadKallsyms(iotest.OneByteReader(strings.NewReader(kallsyms)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		addr         uint64
		name, module string
		offset       uint64
	}{
		{0xffffffff81000000, "_text", "", 0},
		{0xffffffff81000005, "_text", "", 5},
		{0xffffffff81000110, "helper", "", 16},
		{0xffffffff81000200, "vfs_read", "", 0},
		{0xffffffffc0001fff, "in_module", "ext4", 0xfff},
		{0xffffffffffffffff, "bpf_prog_6deef7357e7b4530", "bpf", 0x3fffdfff},
	} {
		s, offset, ok := k.Lookup(c.addr)
		if !ok || s.Name != c.name || s.Module != c.module || offset != c.offset {
			t.Errorf("symbol of %#x = %+v+%#x, %v", c.addr, s, offset, ok)
		}
	}
	if s, _, ok := k.Lookup(0x1000); ok {
		t.Errorf("symbol of 0x1000 = %+v", s)
	}
	if got := k.Find("in_module"); len(got) != 1 || got[0].Addr != 0xffffffffc0001000 || got[0].Module != "ext4" {
		t.Errorf("in_module = %+v", got)
	}
	if got := k.Find("vfs_rea"); got != nil {
		t.Errorf("vfs_rea = %+v", got)
	}
	if got := k.Find("some_data"); got != nil {
		t.Errorf("data listed as a function: %+v", got)
	}
	names := 0
	k.Each(func(s Symbol) bool { names++; return s.Name != "helper" })
	if names != 3 {
		t.Errorf("Each stopped after %d", names)
	}
}

func TestKallsymsOddText(t *testing.T) {
	for _, text := range []string{"", "\n\n", "ffff", "ffffffff81000000 T", strings.Repeat("x", 200<<10), "0 T a"} {
		if k, err := ReadKallsyms(strings.NewReader(text)); err != nil || k.Len() > 1 {
			t.Errorf("%.20q: error = %v", text, err)
		}
	}
	if _, err := ReadKallsyms(iotest.ErrReader(fs.ErrPermission)); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("read error: error = %v", err)
	}
}

func TestLoadKallsyms(t *testing.T) {
	k, err := LoadKallsyms()
	if errors.Is(err, ErrHiddenSymbols) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		t.Skip("skipped: cannot read kernel symbols: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	read := k.Find("vfs_read")
	if len(read) == 0 {
		t.Fatal("no vfs_read")
	}
	if s, offset, ok := k.Lookup(read[0].Addr + 1); !ok || s.Name != "vfs_read" || offset != 1 {
		t.Errorf("symbol of vfs_read+1 = %+v+%d", s, offset)
	}
}

func BenchmarkLoadKallsyms(b *testing.B) {
	if _, err := LoadKallsyms(); err != nil {
		b.Skip("skipped: ", err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := LoadKallsyms(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestLookupAtOneAddress checks that of several functions at one address, also at the lowest, the first one is found.
func TestLookupAtOneAddress(t *testing.T) {
	k, err := ReadKallsyms(strings.NewReader("ffffffff00001000 T first\nffffffff00001000 T second\nffffffff00002000 T third\nffffffff00002000 T fourth\n"))
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[uint64]string{0xffffffff00001000: "first", 0xffffffff00001fff: "first", 0xffffffff00002001: "third"} {
		if s, _, ok := k.Lookup(addr); !ok || s.Name != want {
			t.Errorf("%#x: %s, want %s", addr, s.Name, want)
		}
	}
}
