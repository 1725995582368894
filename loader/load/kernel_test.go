// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"btc/internal/arch"
	"btc/internal/manifest"
	"btc/loader/filter"
	"btc/loader/host"
	"btc/loader/kerneltypes"
	"btc/loader/object"
	"btc/loader/resolve"
	"btc/loader/sites"
)

// The tests in this file load hand-written programs into the running kernel.

// loadable returns an object with one map and with programs that return the number of their attach
// point, or the length of their name if they do not use the number.
func loadable(t *testing.T, kind ebpf.ProgramType, names ...string) (*object.Object, *host.Host) {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Skip("skipped: cannot make BPF maps here: ", err)
	}
	m.Close()
	if _, err := os.Stat(kerneltypes.Path); err != nil {
		t.Skip("skipped: this kernel has no BTF: ", err)
	}
	h, err := host.Probe()
	if err != nil {
		t.Fatal(err)
	}
	o := &object.Object{
		Manifest: &manifest.Manifest{Script: manifest.Script{File: "x.bt", Source: "self:signal:SIGUSR1 { }\n"}},
		Spec:     &ebpf.CollectionSpec{Maps: map[string]*ebpf.MapSpec{"m": {Name: "m", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}}, Programs: map[string]*ebpf.ProgramSpec{}, ByteOrder: binary.NativeEndian},
	}
	for _, name := range names {
		o.Spec.Programs[name] = &ebpf.ProgramSpec{
			Name:         name,
			Type:         kind,
			License:      "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, int32(len(name))).WithSymbol(name), asm.Return()},
		}
		o.Manifest.Programs = append(o.Manifest.Programs, manifest.Program{
			Name: name, Attach: manifest.Attach{Text: "self:" + name}, Pos: manifest.Pos{Line: 1, Col: 1},
		})
	}
	return o, h
}

// plan returns a plan for a program of an object, with matches that have the given numbers.
func plan(o *object.Object, program int, how resolve.Strategy, ids ...int) resolve.Plan {
	p := resolve.Plan{Prog: &o.Manifest.Programs[program], Strategy: how}
	for _, id := range ids {
		p.Matches = append(p.Matches, resolve.Match{ID: id, Name: o.Manifest.Programs[program].Name})
	}
	return p
}

// result runs a program once.
func result(t *testing.T, p *ebpf.Program) uint32 {
	t.Helper()
	n, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64)})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLoadPerMatch checks that a program that uses the number of its attach point is loaded once per
// match, and that other programs are shared by all matches of a plan.
func TestLoadPerMatch(t *testing.T) {
	o, h := loadable(t, ebpf.XDP, "one", "three")
	o.Manifest.Programs[0].UsesID, o.Manifest.Programs[0].IDInsns = true, []int{0}
	same := plan(o, 0, resolve.Single, 7, 8, 9, 10)
	same.Matches[2].SameAs = 1
	exp := &sites.Expansion{
		Plans: []resolve.Plan{plan(o, 0, resolve.Single, 4, 5), plan(o, 1, resolve.Single, 0, 1, 2), same, plan(o, 1, resolve.PerMatch, 0, 1)},
	}
	l, err := Load(o, exp, h, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i, want := range [][]uint32{{4, 5}, {5, 5, 5}, {7, 8, 7, 10}, {5, 5}} {
		if len(l.Programs[i].Of) != len(want) || l.Programs[i].Strategy != exp.Plans[i].Strategy {
			t.Fatalf("plan %d: %d programs", i, len(l.Programs[i].Of))
		}
		for n, p := range l.Programs[i].Of {
			if got := result(t, p); got != want[n] {
				t.Errorf("plan %d, match %d returns %d, want %d", i, n, got, want[n])
			}
		}
	}
	for _, c := range []struct {
		plan int
		same bool
	}{{0, false}, {1, true}, {2, false}, {3, false}} {
		if got := l.Programs[c.plan].Of[0] == l.Programs[c.plan].Of[1]; got != c.same {
			t.Errorf("plan %d: program shared = %t, want %t", c.plan, got, c.same)
		}
	}
	if l.Maps["m"] == nil || len(l.all) != 2+1+3+2 {
		t.Errorf("loaded %d programs, maps %v", len(l.all), l.Maps)
	}
}

// TestLoadStrategies checks that the strategy determines the program type.
func TestLoadStrategies(t *testing.T) {
	o, h := loadable(t, ebpf.TracePoint, "p")
	o.Manifest.Programs[0].Code = &manifest.Code{Context: "none"}
	exp := &sites.Expansion{Plans: []resolve.Plan{plan(o, 0, resolve.Single, 0), plan(o, 0, resolve.Raw, 0, 1)}}
	l, err := Load(o, exp, h, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i, want := range []ebpf.ProgramType{ebpf.TracePoint, ebpf.RawTracepoint} {
		if got := l.Programs[i].Of[0].Type(); got != want {
			t.Errorf("plan %d: type %s, want %s", i, got, want)
		}
	}
	if o.Spec.Programs["p"].Type != ebpf.TracePoint {
		t.Error("program of the object changed")
	}
}

// TestLoadShared checks that system call tracepoints share a program on the raw tracepoint, and that
// every other kind of plan has its own.
func TestLoadShared(t *testing.T) {
	o, h := loadable(t, ebpf.TracePoint, "p")
	o.Manifest.Programs[0].UsesID, o.Manifest.Programs[0].IDInsns = true, []int{0}
	o.Manifest.Programs[0].Code = &manifest.Code{Context: "none", Share: true}
	p := plan(o, 0, resolve.SharedRaw, 0, 1)
	p.Direction = "sys_enter"
	p.Matches[0].Group, p.Matches[0].Name = "syscalls", "sys_enter_openat"
	p.Matches[1].Group, p.Matches[1].Name = "syscalls", "sys_enter_close"
	limited := p
	limited.Filtered = true
	only, err := filter.New(filter.Options{PIDs: []int{os.Getpid()}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := Load(o, &sites.Expansion{Plans: []resolve.Plan{p, limited}}, h, Options{Filter: only})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range l.Programs {
		got := l.Programs[i]
		if got.Strategy != resolve.SharedRaw || len(got.Of) != 1 || got.Of[0].Type() != ebpf.RawTracepoint {
			t.Errorf("plan %d: strategy %d with %d programs", i, got.Strategy, len(got.Of))
		}
	}
	size := func(i int) int {
		info, err := l.Programs[i].Of[0].Info()
		if err != nil {
			t.Fatal(err)
		}
		insns, err := info.Instructions()
		if err != nil {
			t.Fatal(err)
		}
		return len(insns)
	}
	if size(1) <= size(0) {
		t.Errorf("program for one process: %d instructions, for all: %d", size(1), size(0))
	}
}

// TestSyscallTable checks that the table maps the number of a traced system call to the number of its
// attach point plus one.
func TestSyscallTable(t *testing.T) {
	_, _ = loadable(t, ebpf.XDP)
	s, err := newSharer()
	if err != nil {
		t.Fatal(err)
	}
	if s.compat == 0 && runtime.GOARCH == "arm64" {
		t.Error("thread flags at the start of the task")
	}
	m, err := s.table(&resolve.Plan{
		Direction: "sys_exit",
		Matches:   []resolve.Match{{ID: 4, Name: "sys_exit_openat"}, {ID: 0, Name: "sys_exit_close"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var table []byte
	if err := m.Lookup(uint32(0), &table); err != nil {
		t.Fatal(err)
	}
	numbers := arch.Host().SyscallEvents()
	for n := range len(table) / 4 {
		want := uint32(0)
		switch n {
		case numbers["openat"]:
			want = 5
		case numbers["close"]:
			want = 1
		}
		if got := binary.LittleEndian.Uint32(table[4*n:]); got != want {
			t.Errorf("table entry of system call %d = %d, want %d", n, got, want)
		}
	}
}

// TestLoadOneProcess checks that in a plan limited to one process, the program returns immediately in
// any other.
func TestLoadOneProcess(t *testing.T) {
	o, h := loadable(t, ebpf.RawTracepoint, "p")
	all, mine, other := plan(o, 0, resolve.Single, 0), plan(o, 0, resolve.Single, 0), plan(o, 0, resolve.Single, 0)
	mine.Matches[0].PID, other.Matches[0].PID = os.Getpid(), 1<<30
	mine.Filtered, other.Filtered = true, true
	l, err := Load(o, &sites.Expansion{Plans: []resolve.Plan{all, mine, other}}, h, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i, want := range []uint32{1, 1, 0} {
		got, err := l.Programs[i].Of[0].Run(&ebpf.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("plan %d returns %d, want %d", i, got, want)
		}
	}
}

// TestLoadRefused checks that if the kernel rejects a program, the error names the attach point, and
// the other programs of a pattern are kept.
func TestLoadRefused(t *testing.T) {
	o, h := loadable(t, ebpf.XDP, "good", "bad")
	o.Spec.Programs["bad"].Instructions = asm.Instructions{asm.Mov.Reg(asm.R0, asm.R5).WithSymbol("bad"), asm.Return()}
	_, err := Load(o,
		&sites.Expansion{Plans: []resolve.Plan{plan(o, 0, resolve.Single, 0), plan(o, 1, resolve.Single, 0)}}, h,
		Options{})
	if err == nil || !strings.Contains(err.Error(), "the kernel refused self:bad: R5 !read_ok") {
		t.Errorf("error = %v", err)
	}
	_, err = Load(o, &sites.Expansion{Plans: []resolve.Plan{plan(o, 1, resolve.PerMatch, 0, 1)}}, h, Options{})
	if err == nil || !strings.Contains(err.Error(), "the kernel refused self:bad") {
		t.Errorf("all matches rejected: error = %v", err)
	}
}

// TestLoadJoined checks that a joined program that is too long for the verifier is loaded as the programs of its
// clauses, in their order, and that the error for a clause that the kernel refuses names the clause.
func TestLoadJoined(t *testing.T) {
	// Each iteration is a branch whose other side the verifier keeps for later, and it gives up at 8193 of them.
	long := func(iterations int64) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Imm(asm.R6, 0), asm.Mov.Imm(asm.R7, 0),
			asm.FnGetPrandomU32.Call(), {OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.JEq), Dst: asm.R0, Offset: 1}, asm.Add.Imm(asm.R7, 1),
			asm.Add.Imm(asm.R6, 1), {OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.JLT), Dst: asm.R6, Constant: iterations, Offset: -5},
			asm.Mov.Imm(asm.R0, 0), asm.Return(),
		}
	}
	refused := asm.Instructions{asm.Mov.Reg(asm.R0, asm.R9), asm.Return()}
	for _, c := range []struct {
		name     string
		code     map[string]asm.Instructions
		programs []string // attach points of the plans, by "+" where they are joined
		err      string
	}{
		{"short", nil, []string{"self:a+self:b+self:c", "self:d"}, ""},
		{"long, but not too long", map[string]asm.Instructions{"a": long(3000), "c": long(3000)}, []string{"self:a+self:b+self:c", "self:d"}, ""},
		{"too long", map[string]asm.Instructions{"a": long(5000), "c": long(5000)}, []string{"self:a", "self:b", "self:c", "self:d"}, ""},
		{"refused", map[string]asm.Instructions{"b": refused}, nil, "self:b"},
		{"too long by itself", map[string]asm.Instructions{"c": long(9000)}, nil, "self:c"},
	} {
		o, h := loadable(t, ebpf.XDP, "a", "b", "c", "d")
		for name, insns := range c.code {
			insns[0] = insns[0].WithSymbol(name)
			o.Spec.Programs[name].Instructions = insns
		}
		p := plan(o, 0, resolve.Single, 0)
		p.Joined = []resolve.Plan{plan(o, 1, resolve.Single, 1), plan(o, 2, resolve.Single, 2)}
		exp := &sites.Expansion{Plans: []resolve.Plan{p, plan(o, 3, resolve.Single, 3)}}
		l, err := Load(o, exp, h, Options{})
		if err != nil {
			if c.err == "" || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		var got []string
		for i := range exp.Plans {
			text := exp.Plans[i].Prog.Attach.Text
			for _, j := range exp.Plans[i].Joined {
				text += "+" + j.Prog.Attach.Text
			}
			got = append(got, text)
		}
		if c.err != "" || !slices.Equal(got, c.programs) || len(l.Programs) != len(got) || len(l.all) != len(got) {
			t.Errorf("%s: plans %q, %d programs of %d loaded, want %q", c.name, got, len(l.Programs), len(l.all), c.programs)
		}
		if len(l.Programs) == 2 && result(t, l.Programs[0].Of[0]) != 0 {
			t.Errorf("%s: the joined program does not return 0", c.name)
		}
		l.Close()
	}
}

// TestLoadSomeOfAPattern checks that matches of a pattern that the kernel rejects are left out.
func TestLoadSomeOfAPattern(t *testing.T) {
	o, h := loadable(t, ebpf.Tracing, "p")
	o.Spec.Programs["p"].AttachType = ebpf.AttachTraceRawTp
	p := plan(o, 0, resolve.PerMatch, 0, 1, 2)
	p.Matches[0].Name, p.Matches[1].Name, p.Matches[2].Name = "sys_enter", "no_such_event", "sys_exit"
	l, err := Load(o, &sites.Expansion{Plans: []resolve.Plan{p}}, h, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if of := l.Programs[0].Of; len(of) != 3 || of[0] == nil || of[1] != nil || of[2] == nil {
		t.Errorf("programs = %v", of)
	}
	p.Matches = p.Matches[1:2]
	if _, err := Load(o, &sites.Expansion{Plans: []resolve.Plan{p}}, h, Options{}); err == nil ||
		!strings.Contains(err.Error(), "self:p") {
		t.Errorf("only match rejected: error = %v", err)
	}
}

// TestLoadBPF checks that attaching to a function of an unloaded BPF program is an error.
func TestLoadBPF(t *testing.T) {
	o, h := loadable(t, ebpf.Tracing, "p")
	p := plan(o, 0, resolve.PerMatch, 0)
	p.Matches[0].BPF = 1 << 30
	if _, err := Load(o, &sites.Expansion{Plans: []resolve.Plan{p}}, h, Options{}); err == nil ||
		!strings.Contains(err.Error(), "BPF program 1073741824: ") {
		t.Errorf("error = %v", err)
	}
}

// TestLoadMulti checks that the program of a multi link gets the number of its attach point from the
// link.
func TestLoadMulti(t *testing.T) {
	o, h := loadable(t, ebpf.Kprobe, "p", "q")
	if !h.UprobeMulti() {
		t.Skip("skipped: this kernel has no uprobe_multi links (6.6)")
	}
	o.Manifest.Programs[0].UsesID, o.Manifest.Programs[0].IDInsns = true, []int{0}
	o.Manifest.Programs[0].Code = &manifest.Code{Context: "none"}
	with, without := plan(o, 0, resolve.Multi, 0, 1), plan(o, 1, resolve.Multi, 0, 1)
	with.AttachType, without.AttachType = ebpf.AttachTraceUprobeMulti, ebpf.AttachTraceUprobeMulti
	l, err := Load(o, &sites.Expansion{Plans: []resolve.Plan{with, without}}, h, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i, want := range []int{6, 2} { // the helper call and its arguments
		if of := l.Programs[i].Of; len(of) != 2 || of[0] != of[1] || l.Programs[i].Strategy != resolve.Multi {
			t.Errorf("plan %d: %d programs, %d", i, len(of), l.Programs[i].Strategy)
		}
		info, err := l.Programs[i].Of[0].Info()
		if err != nil {
			t.Fatal(err)
		}
		insns, err := info.Instructions()
		if err != nil || len(insns) != want {
			t.Errorf("plan %d: %d instructions, want %d (%v)", i, len(insns), want, err)
		}
	}
}

// TestLoadForms checks that a program has the form for this architecture.
func TestLoadForms(t *testing.T) {
	for label, want := range map[string]uint32{arch.HostLabel(): 7, "another": 3} {
		o, h := loadable(t, ebpf.XDP, "p")
		o.Spec.Programs["p"].Instructions = asm.Instructions{
			btf.WithCORERelocationMetadata(asm.Mov.Imm(asm.R1, 0), &btf.CORERelocation{}).WithSymbol("p"),
			{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.JNE), Dst: asm.R1, Offset: 2},
			asm.Mov.Imm(asm.R0, 3),
			asm.Return(),
			asm.Mov.Imm(asm.R0, 7),
			asm.Return(),
		}
		o.Manifest.Programs[0].Code = &manifest.Code{Context: "none", Forms: []manifest.Form{{Arch: label}}}
		l, err := Load(o, &sites.Expansion{Plans: []resolve.Plan{plan(o, 0, resolve.Single, 0)}}, h, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := result(t, l.Programs[0].Of[0]); got != want {
			t.Errorf("form of %s returned %d, want %d", label, got, want)
		}
		l.Close()
	}
}

// TestLeaveTypes checks that a program that the verifier rejected is changed to read through untyped
// pointers, once.
func TestLeaveTypes(t *testing.T) {
	refused := &ebpf.VerifierError{Cause: unix.EACCES}
	for _, c := range []struct {
		what string
		code *manifest.Code
		err  error
		want bool
	}{
		{"rejected by the verifier", &manifest.Code{Forms: []manifest.Form{{Helper: typedTask}}}, refused, true},
		{"another error", &manifest.Code{Forms: []manifest.Form{{Helper: typedTask}}}, unix.EACCES, false},
		{"no typed pointers", &manifest.Code{Forms: []manifest.Form{{Helper: "loop"}}}, refused, false},
		{"an older object", nil, refused, false},
	} {
		o := &object.Object{
			Spec: &ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{"p": {Instructions: asm.Instructions{
				btf.WithCORERelocationMetadata(asm.Mov.Imm(asm.R1, 0), &btf.CORERelocation{}), asm.Return()}}}},
		}
		p := &programs{object: o}
		mp := &manifest.Program{Name: "p", Code: c.code}
		if got := p.leaveTypes(mp, c.err); got != c.want {
			t.Errorf("%s: changed = %t, want %t", c.what, got, c.want)
		}
		if p.leaveTypes(mp, c.err) {
			t.Errorf("%s: changed twice", c.what)
		}
	}
}

// TestTypesFile checks that types given by the user take precedence over those of the running kernel.
func TestTypesFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x.btf")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(kerneltypes.Path); err != nil {
		t.Skip("skipped: this kernel has no BTF: ", err)
	}
	for _, c := range []struct {
		given, want string
		ok          bool
	}{{file, file, true}, {file + ".no", file + ".no", false}, {dir, dir, false}, {"", kerneltypes.Path, true}} {
		p := &programs{opts: Options{BTF: c.given}, object: &object.Object{}}
		if path, err := p.typesFile(); path != c.want || (err == nil) != c.ok {
			t.Errorf("with %q: %q, %v; want %q", c.given, path, err, c.want)
		}
	}
}

// TestCoreTypes checks that the types of relocations are those that the object names, without their
// flavors.
func TestCoreTypes(t *testing.T) {
	b, err := btf.NewBuilder(
		[]btf.Type{
			&btf.Struct{Name: "s___x"}, &btf.Union{Name: "u"}, &btf.Enum{Name: "e", Size: 4},
			&btf.Int{Name: "i", Size: 4}, &btf.Struct{Size: 1},
		},
		nil,
	)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	types, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	whole := manifest.Event{Fields: []manifest.Field{{Layout: manifest.Layout{Kind: "record", CORE: "struct w"}}}}
	relocated := asm.Instructions{
		asm.Return(),
		btf.WithCORERelocationMetadata(asm.Mov.Imm(asm.R1, 0), &btf.CORERelocation{}),
	}
	for _, c := range []struct {
		insns  asm.Instructions
		events []manifest.Event
		want   string
	}{
		{asm.Instructions{asm.Return()}, nil, ""},
		{asm.Instructions{asm.Return()}, []manifest.Event{whole}, "w"},
		{relocated, nil, "e s u"},
		{relocated, []manifest.Event{whole}, "e s u w"},
	} {
		p := &programs{object: &object.Object{Manifest: &manifest.Manifest{Events: c.events},
			Spec: &ebpf.CollectionSpec{Types: types, Programs: map[string]*ebpf.ProgramSpec{"a": {Instructions: c.insns}, "b": {}}}}}
		names := p.coreTypes()
		slices.Sort(names)
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("types = %s, want %s", got, c.want)
		}
	}
}

// TestLoadMemory checks that maps that exceed the memory limit of the user are not created.
func TestLoadMemory(t *testing.T) {
	o, h := loadable(t, ebpf.XDP, "p")
	o.Spec.Maps["m"].MaxEntries = 1 << 20
	o.Manifest.Maps = []manifest.Map{{Name: "@m", Symbol: "m"}}
	exp := &sites.Expansion{Plans: []resolve.Plan{plan(o, 0, resolve.Single, 0)}}
	if l, err := Load(o, exp, h, Options{MaxMemory: 1 << 20}); err == nil {
		l.Close()
		t.Error("no error for 8 MB with a limit of 1 MB")
	}
}

// TestLoadLog checks that the verifier's log is kept on request.
func TestLoadLog(t *testing.T) {
	for level, want := range map[int]bool{0: false, 1: true} {
		o, h := loadable(t, ebpf.XDP, "p")
		logged := ""
		l, err := Load(o, &sites.Expansion{Plans: []resolve.Plan{plan(o, 0, resolve.Single, 0)}}, h,
			Options{LogLevel: level, Log: func(program, text string) { logged = program + ": " + text }})
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if got := strings.HasPrefix(logged, "p: ") && strings.Contains(logged, "processed 2 insns"); got != want {
			t.Errorf("log at level %d = %q", level, logged)
		}
	}
}

// TestNamesInMap checks that the map of names has the names of all attach points, truncated to its
// value size.
func TestNamesInMap(t *testing.T) {
	o, h := loadable(t, ebpf.XDP, "p")
	o.Spec.Maps[namesMap] = &ebpf.MapSpec{Name: namesMap, Type: ebpf.Array, KeySize: 4, ValueSize: 8}
	exp := &sites.Expansion{
		Plans:  []resolve.Plan{plan(o, 0, resolve.Single, 0)},
		Probes: map[int]string{0: "abc", 1: "kprobe:long_name"},
	}
	l, err := Load(o, exp, h, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for id, want := range []string{"abc\x00\x00\x00\x00\x00", "kprobe:\x00"} {
		var got []byte
		if err := l.Maps[namesMap].Lookup(uint32(id), &got); err != nil || string(got) != want {
			t.Errorf("name %d = %q, %v; want %q", id, got, err, want)
		}
	}
}

// TestArgumentsInMap checks that the map of USDT arguments has the arguments of each location once.
func TestArgumentsInMap(t *testing.T) {
	o, h := loadable(t, ebpf.XDP, "p")
	o.Spec.Maps[specsMap] = &ebpf.MapSpec{Name: specsMap, Type: ebpf.Hash, KeySize: 4, ValueSize: 192}
	p := plan(o, 0, resolve.Single, 3, 4, 5)
	p.Matches[0].USDT = append([]byte{1}, make([]byte, 191)...)
	p.Matches[1].USDT, p.Matches[1].SameAs = append([]byte{2}, make([]byte, 191)...), 1
	l, err := Load(o, &sites.Expansion{Plans: []resolve.Plan{p}}, h, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var got []byte
	if err := l.Maps[specsMap].Lookup(uint32(3), &got); err != nil || got[0] != 1 {
		t.Errorf("arguments of the first location = %v, %v", got, err)
	}
	for _, id := range []uint32{4, 5} {
		if err := l.Maps[specsMap].Lookup(id, &got); !errors.Is(err, ebpf.ErrKeyNotExist) {
			t.Errorf("unexpected arguments of %d: %v", id, err)
		}
	}
}

// TestHostValues checks that names are looked up on the host.
func TestHostValues(t *testing.T) {
	o, _ := loadable(t, ebpf.XDP)
	from := &hostSource{host: &host.Host{}, exp: &sites.Expansion{}}
	for _, c := range []struct {
		host manifest.HostValue
		text string
		ok   func(uint64) bool
		err  string
	}{
		{"kaddr", "schedule", func(v uint64) bool { return v>>63 == 1 }, ""},
		{"kaddr", "no_such_symbol", nil, "Failed to resolve kernel symbol: no_such_symbol"},
		{"kaddr_or_0", "no_such_symbol", func(v uint64) bool { return v == 0 }, ""},
		{"kfunc_exist", "schedule", func(v uint64) bool { return v == 1 }, ""},
		{"kfunc_exist", "no_such_symbol", func(v uint64) bool { return v == 0 }, ""},
		{"kfunc_allowed", "no_such_symbol kprobe", func(v uint64) bool { return v == 0 }, ""},
		{"kfunc_allowed", "schedule kprobe", func(v uint64) bool { return v == 0 }, ""},
		{"cgroupid", "/nix", nil, "Failed to get `cgroupid` for path: \"/nix\""},
		{"cgroupid", "/proc", nil, "not in a cgroup file system"},
		{"uaddr", "p main", func(v uint64) bool { return v == 0 }, ""}, // the probe was left out
	} {
		v, err := from.lookUp(c.host, c.text)
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) ||
			err == nil && !c.ok(v) {
			t.Errorf("%s of %s = %#x, %v", c.host, c.text, v, err)
		}
	}
	o.Spec.Variables = map[string]*ebpf.VariableSpec{"v": {Name: "v", Value: make([]byte, 8)}}
	o.Manifest.Globals = []manifest.Global{{Name: "other"}, {Name: "v", Size: 8, Host: "kfunc_exist", Text: "schedule"}}
	if err := setHostValues(o, from); err != nil || words(o, "v")[0] != 1 {
		t.Errorf("variable = %v, %v", o.Spec.Variables["v"].Value, err)
	}
	o.Manifest.Globals = []manifest.Global{
		{Name: "v", Size: 8, Host: "kaddr", Text: "no_such_symbol", Pos: &manifest.Pos{Line: 1, Col: 3}},
	}
	if err := setHostValues(o, from); err == nil || !strings.Contains(err.Error(), "x.bt:1:3: ") {
		t.Errorf("error = %v", err)
	}
}

// TestUserSymbols checks that the address of a symbol is relative to the probe, or to the start of the
// program's code.
func TestUserSymbols(t *testing.T) {
	program, err := exec.LookPath("go") // a program with symbols
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		t.Skip("skipped: no go command: ", err)
	}
	expansion := func(matches ...resolve.Match) *sites.Expansion {
		return &sites.Expansion{
			Plans: []resolve.Plan{
				{Prog: &manifest.Program{Name: "other"}},
				{Prog: &manifest.Program{Name: "p"}, Matches: matches},
			},
		}
	}
	at := func(offset uint64) resolve.Match { return resolve.Match{Path: program, Offset: offset} }
	ask := func(symbol string, fromProbe bool, matches ...resolve.Match) uint64 {
		t.Helper()
		v, err := userSymbol(expansion(matches...), "p", symbol, fromProbe)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	far := ask("runtime.main", true, at(4096))
	if got := ask("runtime.main", true, at(4096+32)); got != far-32 {
		t.Errorf("distance of the symbol from 32 bytes later = %d, before %d", got, far)
	}
	a, b := ask("runtime.main", false, at(4096)), ask("runtime.mallocgc", false, at(4096), at(8192))
	if far2 := ask("runtime.mallocgc", true, at(4096)); far2-far != b-a {
		t.Errorf("distance of two symbols = %d, want %d", far2-far, b-a)
	}
	for _, c := range []struct {
		symbol    string
		fromProbe bool
		matches   []resolve.Match
		want      string
	}{
		{"no_such_symbol", true, []resolve.Match{at(4096)}, "Could not resolve symbol: " + program + ":no_such_symbol"},
		{"runtime.main", true, []resolve.Match{at(4096), at(8192)}, "uaddr() needs a probe with a single attach site, but this one has 2"},
		{"runtime.main", false, []resolve.Match{at(4096), {Path: "/other"}}, "uaddr() needs a probe with a single attach site, but this one has 2"},
		{"runtime.main", true, []resolve.Match{at(1 << 40)}, "has no code there"},
		{"runtime.main", true, []resolve.Match{{Path: "/no/such/file"}}, "/no/such/file: "},
	} {
		if _, err := userSymbol(expansion(c.matches...), "p", c.symbol, c.fromProbe); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error = %v, want %q", c.symbol, err, c.want)
		}
	}
	if libraries, _ := filepath.Glob("/lib*/*/libm.so.6"); len(libraries) > 0 {
		library := resolve.Match{Path: libraries[0], Offset: 1 << 16}
		if _, err := userSymbol(expansion(library), "p", "sin", false); err == nil ||
			!strings.Contains(err.Error(), "is a library") {
			t.Errorf("relative to the start of a library: error = %v", err)
		}
	}
	if v, err := userSymbol(expansion(), "p", "runtime.main", true); v != 0 || err != nil {
		t.Errorf("without a location = %d, %v", v, err)
	}
	if v, err := userSymbol(expansion(at(4096)), "q", "runtime.main", true); v != 0 || err != nil {
		t.Errorf("without a program = %d, %v", v, err)
	}
}
