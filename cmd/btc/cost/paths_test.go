// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/object"
	"btc/targets/kernel"
)

// round is a table whose costs show in a sum what was counted: an instruction is 1 ns, an access to memory 10,
// an atomic one 100, a call 1,000, helpers and maps are multiples of 10,000.
var round = Table{
	Insn: 1, Memory: 10, Atomic: 100, Call: 1000,
	Helpers: map[string][]Point{"get_current_comm": {{NS: 10_000}}, "ktime_get_ns": {{NS: 20_000}}, "get_stack": {{NS: 30_000}}, "get_stack user": {{NS: 40_000}}, "probe_read_kernel": {{Bytes: 8, NS: 50_000}, {Bytes: 16, NS: 60_000}}},
	Maps: map[string]map[string][]Point{
		"hash":         {"lookup": {{Bytes: 4, NS: 100_000}, {Bytes: 8, NS: 200_000}}, "update": {{NS: 300_000}}},
		"percpu_array": {"lookup": {{NS: 400_000}}},
	},
	Probes: []Probe{{Kind: probe.Tracepoint, NS: new(float64)}, {Kind: probe.Kprobe, Note: "no kprobes there"}},
}

// program estimates a program of a kind, which may refer to the maps "hash" (keys of 4 bytes) and "cpu".
func program(t *testing.T, kind string, code asm.Instructions) Program {
	t.Helper()
	target, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	o := &object.Object{
		Spec: &ebpf.CollectionSpec{
			Programs: map[string]*ebpf.ProgramSpec{"p": {Type: ebpf.TracePoint, Instructions: code}},
			Maps:     map[string]*ebpf.MapSpec{"hash": {Type: ebpf.Hash, KeySize: 4}, "cpu": {Type: ebpf.PerCPUArray, KeySize: 4}},
		},
		Manifest: &manifest.Manifest{Programs: []manifest.Program{{Name: "p", Kind: kind, Pos: manifest.Pos{Line: 3}}, {Name: "begin", Kind: probe.Begin}}},
	}
	all, err := Estimate(o, target, &round)
	if err != nil || len(all) != 1 {
		t.Fatalf("%v: %v", all, err)
	}
	return all[0]
}

// jump returns a jump over n instructions, as objects have it.
func jump(op asm.JumpOp, dst asm.Register, value int32, n int16) asm.Instruction {
	ins := op.Imm(dst, value, "")
	ins.Offset = n
	return ins.WithReference("")
}

var exit = asm.Return()

// TestPaths checks the costs of the most and the least expensive path, the instructions and calls of the former,
// and the trip counts of loops.
func TestPaths(t *testing.T) {
	call := func(name string, count int, ns float64) Call { return Call{Name: name, Count: count, NS: ns} }
	hash := asm.LoadMapPtr(asm.R1, 0).WithReference("hash")
	cpu := asm.LoadMapPtr(asm.R1, 0).WithReference("cpu")
	zero := asm.Mov.Imm(asm.R0, 0)
	one := asm.Mov.Imm(asm.R1, 1)
	load := asm.LoadMem(asm.R2, asm.R1, 0, asm.Word)
	comm, now := asm.FnGetCurrentComm.Call(), asm.FnKtimeGetNs.Call()
	callback := asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: asm.R2, Src: asm.PseudoFunc, Constant: -1}.WithReference("sub")
	sub := func(code ...asm.Instruction) []asm.Instruction {
		code[0] = code[0].WithSymbol("sub")
		return append(code, exit)
	}
	for _, c := range []struct {
		what        string
		code        asm.Instructions
		most, least float64
		insns       int
		calls       []Call
		loops       bool
	}{
		{"registers", asm.Instructions{zero, exit}, 2, 2, 2, nil, false},
		{"memory", asm.Instructions{load, asm.StoreMem(asm.R10, -8, asm.R2, asm.Word), asm.StoreImm(asm.R10, -8, 1, asm.Word), zero, exit}, 32, 32, 5, nil, false},
		{"atomic", asm.Instructions{asm.AddAtomic.Mem(asm.R10, asm.R0, asm.DWord, -8), zero, exit}, 102, 102, 3, nil, false},
		{"both sides, the second is longer", asm.Instructions{load, jump(asm.JEq, asm.R2, 7, 2), zero, exit, load, zero, exit}, 23, 13, 5, nil, false},
		{"both sides, the first is longer", asm.Instructions{load, jump(asm.JEq, asm.R2, 7, 3), load, zero, exit, zero, exit}, 23, 13, 5, nil, false},
		{"the sides meet", asm.Instructions{load, jump(asm.JEq, asm.R2, 7, 1), load, zero, exit}, 23, 13, 5, nil, false},
		{"helpers by cost, equal ones by name", asm.Instructions{comm, now, comm, zero, exit}, 40_002, 40_002, 5, []Call{call("get_current_comm", 2, 20_000), call("ktime_get_ns", 1, 20_000)}, false},
		{"the calls of the expensive path", asm.Instructions{load, jump(asm.JEq, asm.R2, 7, 3), now, zero, exit, comm, zero, exit}, 20_013, 10_013, 5, []Call{call("ktime_get_ns", 1, 20_000)}, false},
		{"read of 16 bytes", asm.Instructions{asm.Mov.Imm(asm.R2, 16), asm.FnProbeReadKernel.Call(), zero, exit}, 60_003, 60_003, 4, []Call{call("probe_read_kernel", 1, 60_000)}, false},
		{"kernel stack", asm.Instructions{asm.Mov.Imm(asm.R4, 0), asm.FnGetStack.Call(), zero, exit}, 30_003, 30_003, 4, []Call{call("get_stack", 1, 30_000)}, false},
		{"user stack", asm.Instructions{asm.Mov.Imm(asm.R4, 1<<8), asm.FnGetStack.Call(), zero, exit}, 40_003, 40_003, 4, []Call{call("get_stack user", 1, 40_000)}, false},

		// Keys of 4 bytes; the path without the element is not likely.
		{"lookup", asm.Instructions{hash, asm.FnMapLookupElem.Call(), jump(asm.JEq, asm.R0, 0, 1), load, zero, exit}, 100_014, 100_014, 6, []Call{call("map_lookup_elem hash", 1, 100_000)}, false},
		{"lookup, the other test", asm.Instructions{hash, asm.FnMapLookupElem.Call(), jump(asm.JNE, asm.R0, 0, 2), zero, exit, load, zero, exit}, 100_014, 100_014, 6, []Call{call("map_lookup_elem hash", 1, 100_000)}, false},
		{"lookup in another kind of map", asm.Instructions{cpu, asm.FnMapLookupElem.Call(), zero, exit}, 400_003, 400_003, 4, []Call{call("map_lookup_elem percpu_array", 1, 400_000)}, false},
		{"unknown map, key of usual size", asm.Instructions{asm.Mov.Imm(asm.R1, 0), asm.FnMapLookupElem.Call(), zero, exit}, 400_003, 400_003, 4, []Call{call("map_lookup_elem hash", 1, 400_000)}, false},
		{"a copy of the map's address", asm.Instructions{asm.LoadMapPtr(asm.R6, 0).WithReference("cpu"), asm.Mov.Reg(asm.R1, asm.R6), asm.FnMapLookupElem.Call(), zero, exit}, 400_004, 400_004, 5, []Call{call("map_lookup_elem percpu_array", 1, 400_000)}, false},
		{"0 or an error", asm.Instructions{comm, jump(asm.JEq, asm.R0, 0, 3), load, zero, exit, zero, exit}, 10_003, 10_003, 4, []Call{call("get_current_comm", 1, 10_000)}, false},
		{"0 or an error, the other test", asm.Instructions{comm, jump(asm.JNE, asm.R0, 0, 2), zero, exit, load, zero, exit}, 10_003, 10_003, 4, []Call{call("get_current_comm", 1, 10_000)}, false},
		{"negative if it fails", asm.Instructions{comm, jump(asm.JSLT, asm.R0, 0, 2), zero, exit, load, zero, exit}, 10_003, 10_003, 4, []Call{call("get_current_comm", 1, 10_000)}, false},
		{"a result that is compared with another number", asm.Instructions{comm, jump(asm.JEq, asm.R0, 1, 2), zero, exit, load, zero, exit}, 10_013, 10_003, 5, []Call{call("get_current_comm", 1, 10_000)}, false},
		{"a result that has been changed", asm.Instructions{comm, asm.Add.Imm(asm.R0, 1), jump(asm.JEq, asm.R0, 0, 2), zero, exit, load, zero, exit}, 10_014, 10_004, 6, []Call{call("get_current_comm", 1, 10_000)}, false},

		{"subprogram", append(asm.Instructions{asm.Call.Label("sub"), zero, exit}, sub(load, comm)...), 11_013, 11_013, 6, []Call{call("get_current_comm", 1, 10_000)}, false},
		{"subprogram twice", append(asm.Instructions{asm.Call.Label("sub"), asm.Call.Label("sub"), zero, exit}, sub(load, comm)...), 22_024, 22_024, 10, []Call{call("get_current_comm", 2, 20_000)}, false},

		// A body of two instructions, four times.
		{"loop", asm.Instructions{one, asm.Add.Imm(asm.R1, 1), jump(asm.JNE, asm.R1, 5, -2), zero, exit}, 11, 11, 5, nil, false},
		{"loop in steps of two", asm.Instructions{one, asm.Add.Imm(asm.R1, 2), jump(asm.JLT, asm.R1, 9, -2), zero, exit}, 11, 11, 5, nil, false},
		{"loop with a branch: the longer side", asm.Instructions{load, one, jump(asm.JEq, asm.R2, 0, 1), asm.LoadMem(asm.R3, asm.R10, -8, asm.Word), asm.Add.Imm(asm.R1, 1), jump(asm.JNE, asm.R1, 5, -4), zero, exit}, 65, 55, 8, nil, false},
		{"loop with an unknown bound", asm.Instructions{load, asm.Mov.Reg(asm.R1, asm.R2), asm.Add.Imm(asm.R1, 1), jump(asm.JNE, asm.R1, 5, -2), zero, exit}, 15, 15, 6, nil, true},
		{"loop that counts down", asm.Instructions{one, asm.Add.Imm(asm.R1, -1), jump(asm.JNE, asm.R1, 5, -2), zero, exit}, 5, 5, 5, nil, true},
		{"loop whose counter is changed twice", asm.Instructions{one, asm.Add.Imm(asm.R1, 1), asm.Add.Imm(asm.R1, 1), jump(asm.JNE, asm.R1, 5, -3), zero, exit}, 6, 6, 6, nil, true},
		{"loop whose counter is loaded", asm.Instructions{one, asm.Add.Imm(asm.R1, 1), asm.LoadMem(asm.R1, asm.R10, -8, asm.Word), jump(asm.JNE, asm.R1, 5, -3), zero, exit}, 15, 15, 6, nil, true},
		{"loop whose counter a call destroys", asm.Instructions{one, asm.Add.Imm(asm.R1, 1), now, jump(asm.JNE, asm.R1, 5, -3), zero, exit}, 20_005, 20_005, 6, []Call{call("ktime_get_ns", 1, 20_000)}, true},
		{"loop with a bound that is never reached", asm.Instructions{one, asm.Add.Imm(asm.R1, 1), jump(asm.JNE, asm.R1, 1<<20, -2), zero, exit}, 5, 5, 5, nil, true},

		{"callback", append(asm.Instructions{asm.Mov.Imm(asm.R1, 3), callback, asm.FnLoop.Call(), zero, exit}, sub(load, zero)...), 1040, 1040, 8, []Call{call("loop", 1, 1000)}, false},
		{"callback for each element", append(asm.Instructions{hash, callback, asm.FnForEachMapElem.Call(), zero, exit}, sub(load, zero)...), 1016, 1016, 8, []Call{call("for_each_map_elem", 1, 1000)}, true},
		{"callback, unknown number", append(asm.Instructions{asm.LoadMem(asm.R1, asm.R1, 0, asm.Word), callback, asm.FnLoop.Call(), zero, exit}, sub(load, zero)...), 1025, 1025, 8, []Call{call("loop", 1, 1000)}, true},
	} {
		got := program(t, probe.Tracepoint, c.code)
		if got.NS != c.most || got.LeastNS != c.least || got.Insns != c.insns || got.Loops != c.loops {
			t.Errorf("%s: %v to %v ns, %d instructions, loops %v; want %v to %v, %d, %v", c.what, got.LeastNS, got.NS, got.Insns, got.Loops, c.least, c.most, c.insns, c.loops)
		}
		if d := cmp.Diff(append([]Call{}, c.calls...), got.Calls); d != "" {
			t.Errorf("%s: calls, -want +got:\n%s", c.what, d)
		}
	}
}

// TestUnmeasuredHelpers checks that a helper without a figure counts as the median one, and is named once.
func TestUnmeasuredHelpers(t *testing.T) {
	got := program(t, probe.Kprobe, asm.Instructions{asm.FnJiffies64.Call(), asm.FnGetPrandomU32.Call(), asm.FnJiffies64.Call(), asm.Mov.Imm(asm.R0, 0), exit})
	if want := []string{"get_prandom_u32", "jiffies64"}; !slices.Equal(got.Unmeasured, want) || got.NS != 3*30_000+2 {
		t.Errorf("%q, %v ns; want %q and three times the median", got.Unmeasured, got.NS, want)
	}
	hash := asm.LoadMapPtr(asm.R1, 0).WithReference("cpu")
	got = program(t, probe.Kprobe, asm.Instructions{hash, asm.FnMapUpdateElem.Call(), asm.Mov.Imm(asm.R0, 0), exit})
	if want := []string{"map_update_elem percpu_array"}; !slices.Equal(got.Unmeasured, want) {
		t.Errorf("%q, want %q", got.Unmeasured, want)
	}
}

// TestProbeCost checks the cost of the probe itself: measured, not to be measured there, and without an entry.
func TestProbeCost(t *testing.T) {
	code := asm.Instructions{asm.Mov.Imm(asm.R0, 0), exit}
	if got := program(t, probe.Tracepoint, code); got.ProbeNS == nil || got.ProbeNote != "" || got.Line != 3 || got.Name != "p" {
		t.Errorf("tracepoint: %+v", got)
	}
	if got := program(t, probe.Kprobe, code); got.ProbeNS != nil || got.ProbeNote != "no kprobes there" {
		t.Errorf("kprobe: %+v", got)
	}
	if got := program(t, probe.Fentry, code); got.ProbeNS != nil || got.ProbeNote != "not measured" {
		t.Errorf("fentry: %+v", got)
	}
}
