package target

import (
	"slices"
	"strings"
	"testing"
)

// The helper table against the enum of helper numbers in the target's BTF.
func TestHelperIDs(t *testing.T) {
	tgt := open(t)
	for _, h := range Helpers() {
		if _, id, ok := tgt.EnumConst("BPF_FUNC_" + h.Name); !ok || id != int64(h.ID) {
			t.Errorf("%s has the number %d, the kernel says %d, %v", h.Name, h.ID, id, ok)
		}
		if HelperByName(h.Name).ID != h.ID || HelperByID(h.ID).Name != h.Name {
			t.Errorf("%s is not found by its name and number", h.Name)
		}
	}
	if HelperByName("no_such_helper") != nil || HelperByID(-1) != nil {
		t.Error("found a helper that does not exist")
	}
}

func TestHelperRows(t *testing.T) {
	sizes := []ArgKind{ArgSize, ArgSizeOrZero}
	memory := []ArgKind{ArgMem, ArgMemOrNull, ArgMemOut, ArgMemInOut}
	for i, h := range Helpers() {
		if len(h.Args) > 5 || h.Progs == 0 || h.Since.Major == 0 {
			t.Errorf("row %s: %+v", h.Name, h)
		}
		if i > 0 && helpers[i-1].ID >= h.ID {
			t.Errorf("%s is not in order of number", h.Name)
		}
		for i, a := range h.Args {
			if slices.Contains(sizes, a) != (i > 0 && slices.Contains(memory, h.Args[i-1])) {
				t.Errorf("%s: argument %d: a size belongs behind memory and nowhere else", h.Name, i)
			}
			if a == ArgBTF && h.Struct == "" {
				t.Errorf("%s: no struct for its typed pointer", h.Name)
			}
		}
	}
}

// The register table against struct pt_regs.
func TestRegisters(t *testing.T) {
	tgt := open(t)
	a := tgt.Arch()
	regs, ok := tgt.Struct(a.RegsStruct)
	if !ok || regs.Size != a.RegsSize {
		t.Fatalf("%s: %+v", a.RegsStruct, regs)
	}
	for _, r := range a.Regs {
		if f, ok := regs.Field(r.Member); !ok || f.Offset != r.Offset {
			t.Errorf("register %s: %+v, table says %d", r.Name, f, r.Offset)
		}
	}
	var names []string
	for _, r := range a.Args {
		names = append(names, r.Name)
	}
	if got := strings.Join(names, " "); got != "di si dx cx r8 r9" || a.Result.Name != "ax" || a.IP.Offset != 128 || a.SP.Offset != 152 {
		t.Errorf("arguments %s, result %+v, ip %+v, sp %+v", got, a.Result, a.IP, a.SP)
	}
	if r, ok := a.Reg("orig_rax"); !ok || r.Member != "orig_ax" {
		t.Errorf("orig_rax: %+v", r)
	}
	if _, ok := a.Reg("r99"); ok {
		t.Error("register r99 exists")
	}
}

func TestPerfEventData(t *testing.T) {
	tgt := open(t)
	data, ok := tgt.Struct("bpf_perf_event_data")
	if !ok {
		t.Fatal("no struct bpf_perf_event_data")
	}
	period, _ := data.Field("sample_period")
	addr, _ := data.Field("addr")
	if a := tgt.Arch(); a.PerfSamplePeriod() != period.Offset || a.PerfAddr() != addr.Offset || a.Context(PerfEvent).Limit != data.Size {
		t.Errorf("sample_period at %d, addr at %d, size %d", period.Offset, addr.Offset, data.Size)
	}
}

func TestContexts(t *testing.T) {
	tgt := open(t)
	types := map[ProgKind]string{
		KProbe: "KPROBE", Tracepoint: "TRACEPOINT", RawTracepoint: "RAW_TRACEPOINT", TPBTF: "TRACING",
		FEntry: "TRACING", FExit: "TRACING", PerfEvent: "PERF_EVENT", Iter: "TRACING", XDP: "XDP",
	}
	attach := map[ProgKind]string{TPBTF: "BPF_TRACE_RAW_TP", FEntry: "BPF_TRACE_FENTRY", FExit: "BPF_TRACE_FEXIT", Iter: "BPF_TRACE_ITER", XDP: "BPF_XDP"}
	for _, a := range arches() {
		for _, k := range ProgKinds() {
			c := a.Context(k)
			if _, n, ok := tgt.EnumConst("BPF_PROG_TYPE_" + types[k]); !ok || uint32(n) != c.ProgType {
				t.Errorf("%s: program type %d, kernel says %d", k, c.ProgType, n)
			}
			if name := attach[k]; name != "" {
				if _, n, ok := tgt.EnumConst(name); !ok || uint32(n) != c.AttachType {
					t.Errorf("%s: attach type %d, kernel says %d", k, c.AttachType, n)
				}
			}
			if c.Name != k.String() || c.Kind != k || (c.Limit <= c.First) != (c.Form == CtxNone) {
				t.Errorf("%s on %s: %+v", k, a.Name, c)
			}
		}
	}
}

func TestArchByName(t *testing.T) {
	for _, name := range []string{"x86_64", "amd64", "aarch64", "arm64"} {
		if ArchByName(name) == nil {
			t.Errorf("no architecture %s", name)
		}
	}
	if ArchByName("vax") != nil {
		t.Error("architecture vax exists")
	}
	if r, ok := ArchByName("arm64").Reg("r3"); !ok || r.Offset != 24 || r.Member != "regs[3]" {
		t.Errorf("arm64 r3: %+v", r)
	}
}

// A system call's function has the name of its architecture.
func TestSyscallFunc(t *testing.T) {
	for _, c := range [][3]string{
		{"arm64", "__x64_sys_openat", "__arm64_sys_openat"}, {"x86_64", "__arm64_sys_open*", "__x64_sys_open*"},
		{"x86_64", "__x64_sys_openat", "__x64_sys_openat"}, {"arm64", "vfs_read", "vfs_read"},
	} {
		if got := ArchByName(c[0]).SyscallFunc(c[1]); got != c[2] {
			t.Errorf("%s on %s: %s, want %s", c[1], c[0], got, c[2])
		}
	}
}
