// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"btc/internal/arch"
	"btc/internal/probe"
)

// TestHelperIDs compares the helper table with the enum of helper numbers in the target's BTF.
func TestHelperIDs(t *testing.T) {
	tgt := open(t)
	for _, h := range Helpers() {
		if _, id, ok := tgt.EnumConst("BPF_FUNC_" + h.Name); !ok || id != int64(h.ID) {
			t.Errorf("%s: number %d, in the kernel %d, %v", h.Name, h.ID, id, ok)
		}
		if HelperByName(h.Name).ID != h.ID || HelperByID(h.ID).Name != h.Name {
			t.Errorf("%s not found by name and number", h.Name)
		}
	}
	if HelperByName("no_such_helper") != nil || HelperByID(-1) != nil {
		t.Error("found a nonexistent helper")
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
			t.Errorf("%s: not in the order of numbers", h.Name)
		}
		for i, a := range h.Args {
			if slices.Contains(sizes, a) != (i > 0 && slices.Contains(memory, h.Args[i-1])) {
				t.Errorf("%s: argument %d: a size must follow memory", h.Name, i)
			}
			if a == ArgBTF && h.Struct == "" {
				t.Errorf("%s: typed pointer without a struct", h.Name)
			}
		}
	}
}

// TestRegisters compares the register table with struct pt_regs.
func TestRegisters(t *testing.T) {
	for _, label := range arch.Labels() {
		tgt, err := Default(label)
		if err != nil {
			t.Fatal(err)
		}
		testRegisters(t, tgt)
	}
	a := arch.ByName("x86_64")
	var names []string
	for _, r := range a.Args {
		names = append(names, r.Name)
	}
	if got := strings.Join(names, " "); got != "di si dx cx r8 r9" || a.Result.Name != "ax" || a.IP.Offset != 128 || a.SP.Offset != 152 {
		t.Errorf("arguments = %s, result = %+v, ip = %+v, sp = %+v", got, a.Result, a.IP, a.SP)
	}
	if r, ok := a.Reg("orig_rax"); !ok || r.Member != "orig_ax" {
		t.Errorf("orig_rax = %+v", r)
	}
	if _, ok := a.Reg("r99"); ok {
		t.Error("found nonexistent register r99")
	}
}

// testRegisters compares the table with the types of a kernel of the architecture, and checks the
// markers of all architectures.
func testRegisters(t *testing.T, tgt *Target) {
	a := tgt.Arch()
	regs, ok := tgt.Struct(a.RegsStruct)
	if !ok || regs.Size != a.RegsSize {
		t.Fatalf("%s = %+v, want size %d", a.RegsStruct, regs, a.RegsSize)
	}
	for _, r := range a.Regs {
		member, rest, _ := strings.Cut(r.Member, "[")
		index, _ := strconv.Atoi(strings.TrimSuffix(rest, "]"))
		if f, ok := regs.Field(member); !ok || f.Offset+8*index != r.Offset {
			t.Errorf("%s: register %s: %+v, in the table %d", a.Name, r.Name, f, r.Offset)
		}
	}
	kernel, ok := tgt.Struct("pt_regs")
	if !ok {
		t.Fatalf("%s: no struct pt_regs", a.Name)
	}
	for _, other := range arch.All() {
		if _, has := kernel.Field(other.Marker); has != (other == a) {
			t.Errorf("struct pt_regs of %s has marker %s of %s: %v", a.Name, other.Marker, other.Name, has)
		}
	}
}

func TestPerfEventData(t *testing.T) {
	for _, label := range arch.Labels() {
		tgt, err := Default(label)
		if err != nil {
			t.Fatal(err)
		}
		testPerfEventData(t, tgt)
	}
}

func testPerfEventData(t *testing.T, tgt *Target) {
	data, ok := tgt.Struct("bpf_perf_event_data")
	if !ok {
		t.Fatal("no struct bpf_perf_event_data")
	}
	period, _ := data.Field("sample_period")
	addr, _ := data.Field("addr")
	if a := tgt.Arch(); period.Offset != a.RegsSize || addr.Offset != a.RegsSize+8 || ContextOf(probe.ProgPerfEvent, a).Limit != data.Size {
		t.Errorf("sample_period at %d, addr at %d, size %d", period.Offset, addr.Offset, data.Size)
	}
}

func TestContexts(t *testing.T) {
	tgt := open(t)
	types := map[probe.Program]string{
		probe.ProgKprobe: "KPROBE", probe.ProgTracepoint: "TRACEPOINT", probe.ProgRawTracepoint: "RAW_TRACEPOINT", probe.ProgTPBTF: "TRACING",
		probe.ProgFentry: "TRACING", probe.ProgFexit: "TRACING", probe.ProgPerfEvent: "PERF_EVENT", probe.ProgIter: "TRACING", probe.ProgXDP: "XDP",
	}
	attach := map[probe.Program]string{probe.ProgTPBTF: "BPF_TRACE_RAW_TP", probe.ProgFentry: "BPF_TRACE_FENTRY", probe.ProgFexit: "BPF_TRACE_FEXIT", probe.ProgIter: "BPF_TRACE_ITER", probe.ProgXDP: "BPF_XDP"}
	for _, p := range probe.Programs() {
		typ, attachType := p.BPF()
		if _, n, ok := tgt.EnumConst("BPF_PROG_TYPE_" + types[p]); !ok || uint32(n) != typ {
			t.Errorf("%s: program type %d, in the kernel %d", p, typ, n)
		}
		if name := attach[p]; name != "" {
			if _, n, ok := tgt.EnumConst(name); !ok || uint32(n) != attachType {
				t.Errorf("%s: attach type %d, in the kernel %d", p, attachType, n)
			}
		}
		for _, a := range arch.All() {
			if c := ContextOf(p, a); c.Program != p || (c.Limit <= c.First) != (c.Form == probe.CtxNone) {
				t.Errorf("%s on %s: %+v", p, a.Name, c)
			}
		}
	}
}
