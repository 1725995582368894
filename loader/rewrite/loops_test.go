// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// loop calls bpf_loop with a callback; trips 0 is a number that is not known.
func loop(trips int32, callback string) asm.Instructions {
	p := asm.Instructions{asm.Mov.Imm(asm.R1, trips)}
	if trips == 0 {
		p = asm.Instructions{asm.FnGetPrandomU32.Call(), asm.Mov.Imm(asm.R1, 1<<23-1), asm.Or.Reg(asm.R1, asm.R0),
			asm.And.Imm(asm.R1, 1<<23-1)}
	}
	return append(p, asm.LoadImm(asm.R2, 0, asm.DWord).WithReference(callback), asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, 0), asm.FnLoop.Call())
}

// walk calls for_each_map_elem for the map "m".
func walk(callback string) asm.Instructions {
	return asm.Instructions{asm.LoadMapPtr(asm.R1, 0).WithReference("m"),
		asm.LoadImm(asm.R2, 0, asm.DWord).WithReference(callback), asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R4, 0),
		asm.FnForEachMapElem.Call()}
}

// function is a function of the parts that returns 0.
func function(name string, parts ...asm.Instructions) asm.Instructions {
	var p asm.Instructions
	for _, x := range parts {
		p = append(p, x...)
	}
	p = append(p, asm.Mov.Imm(asm.R0, 0), asm.Return())
	for i := range p {
		if p[i].OpCode.IsDWordLoad() && p[i].Reference() != "" && p[i].Src == asm.R0 {
			p[i].Src, p[i].Constant = asm.PseudoFunc, -1
		}
	}
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	p[0] = btf.WithFuncMetadata(p[0].WithSymbol(name), &btf.Func{Name: name, Type: &btf.FuncProto{Return: number}})
	return p
}

func times(n int, p asm.Instructions) (all asm.Instructions) {
	for range n {
		all = append(all, p...)
	}
	return all
}

func callTo(name string) asm.Instructions {
	ins := asm.Instruction{OpCode: asm.Call.Op(asm.ImmSource), Src: asm.PseudoCall, Constant: -1}
	return asm.Instructions{ins.WithReference(name)}
}

var updateM = asm.Instructions{asm.LoadMapPtr(asm.R1, 0).WithReference("m"), asm.FnMapUpdateElem.Call()}

// TestFindLoops checks which loops are counted, and that loops that cannot be are errors.
func TestFindLoops(t *testing.T) {
	inPlace := func(p asm.Instructions) asm.Instructions { // for (r6 = 0; r6 != 10; r6++) p
		all := append(asm.Instructions{asm.Mov.Imm(asm.R6, 0), asm.Add.Imm(asm.R6, 1)}, p...)
		return append(all, asm.Instruction{OpCode: asm.JNE.Op(asm.ImmSource), Dst: asm.R6, Constant: 10,
			Offset: int16(-Slots(p) - 2)})
	}
	moved := loop(10, "a")
	moved[1].Dst = asm.R7
	moved = slices.Insert(moved, 2, asm.Mov.Reg(asm.R2, asm.R7))
	entered := append(asm.Instructions{{OpCode: asm.JEq.Op(asm.ImmSource), Dst: asm.R0, Offset: 3}}, loop(10, "a")...)
	for _, c := range []struct {
		name  string
		code  asm.Instructions
		loops []string
		fails bool
	}{
		{"none", function("f"), nil, false},
		{"small", slices.Concat(function("f", loop(100, "a")), function("a")), nil, false},
		{"large", slices.Concat(function("f", loop(1<<20, "a")), function("a")), []string{"a"}, false},
		{"unknown length", slices.Concat(function("f", loop(0, "a")), function("a")), []string{"a"}, false},
		{"small nest", slices.Concat(function("f", loop(20, "a")), function("a", loop(20, "b")), function("b")), nil, false},
		{"large product", slices.Concat(function("f", loop(1000, "a")), function("a", loop(1000, "b")), function("b")), []string{"a"}, false},
		{"inner of unknown length", slices.Concat(function("f", loop(10, "a")), function("a", loop(0, "b")), function("b")), []string{"a", "b"}, false},
		{"in a subprogram", slices.Concat(function("f", callTo("g")), function("g", loop(0, "a")), function("a")), []string{"a"}, false},
		{"many in a row", slices.Concat(function("f", times(2000, loop(100, "a"))), function("a", times(100, asm.Instructions{asm.Mov.Imm(asm.R1, 1)}))), []string{"a"}, false},
		{"calls in a loop in place", slices.Concat(function("f", inPlace(callTo("g"))), function("g", loop(10, "a")), function("a")), []string{"a"}, false},
		{"loop in place in the body", slices.Concat(function("f", loop(10, "a")), function("a", inPlace(nil))), []string{"a"}, false},
		{"map", slices.Concat(function("f", walk("a")), function("a")), nil, false},
		{"map that grows", slices.Concat(function("f", walk("a")), function("a", updateM)), []string{"a"}, false},
		{"map that grows in a nested loop", slices.Concat(function("f", walk("a")), function("a", loop(2, "b")), function("b", updateM)), []string{"a"}, false},
		{"shared body", slices.Concat(function("f", loop(10, "a"), loop(0, "a")), function("a")), []string{"a"}, false},
		{"body of both kinds", slices.Concat(function("f", loop(10, "a"), walk("a")), function("a")), nil, true},
		{"body in a register", slices.Concat(function("f", moved), function("a")), nil, true},
		{"jump into the arguments", slices.Concat(function("f", entered), function("a")), nil, true},
		{"function as data", slices.Concat(function("f", loop(10, "a"), loop(10, "a")[1:2]), function("a")), nil, true},
		{"recursion", slices.Concat(function("f", loop(10, "a")), function("a", loop(10, "a"))), nil, true},
		{"calls in a circle", slices.Concat(function("f", loop(10, "a")), function("a", callTo("g")), function("g", callTo("a"))), nil, true},
		{"main as body", slices.Concat(function("f", loop(10, "f"))), nil, true},
		{"no such function", slices.Concat(function("f", loop(10, "x"))), nil, true},
	} {
		loops, err := FindLoops(c.code, map[string]*ebpf.MapSpec{"m": {Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 1000}})
		var names []string
		for _, l := range loops {
			names = append(names, l.Callback)
		}
		if (err != nil) != c.fails || !slices.Equal(names, c.loops) {
			t.Errorf("%s: FindLoops = %v, %v; want %v, an error: %v", c.name, names, err, c.loops, c.fails)
		}
	}
}

// TestBudget runs loops that would take hours, most of them with a helper that takes long, and checks that each run ends
// soon and is reported.
func TestBudget(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root")
	}
	newMap := func(s *ebpf.MapSpec) *ebpf.Map {
		m, err := ebpf.NewMap(s)
		if err != nil {
			t.Skip("skipped: the kernel does not let this process make maps: ", err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
	large := newMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 1 << 15, MaxEntries: 1})
	ring := newMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 1 << 20})
	hash := newMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 1 << 16})
	for i := range uint32(1 << 16) {
		if err := hash.Put(i, uint64(0)); err != nil {
			t.Fatal(err)
		}
	}
	budget := newMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 512<<LoopStateShift + 8*8, MaxEntries: 1})
	value := func(r asm.Register) asm.Instruction { return asm.LoadMapValue(r, large.FD(), 0) }
	ctx := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	each := walk("a")
	each[0] = asm.LoadMapPtr(asm.R1, hash.FD())
	inner := walk("b")
	inner[0] = each[0]
	nest := slices.Concat(function("f", loop(0, "a")), function("a", loop(0, "b")), function("b", loop(0, "c")))
	for _, c := range []struct {
		name string
		code asm.Instructions
	}{
		{"empty", slices.Concat(nest, function("c"))},
		{"copies", slices.Concat(nest, function("c", asm.Instructions{value(asm.R1), asm.Mov.Imm(asm.R2, 1<<15), value(asm.R3), asm.FnProbeReadKernel.Call()}))},
		{"output", slices.Concat(nest, function("c", asm.Instructions{asm.LoadMapPtr(asm.R1, ring.FD()), value(asm.R2), asm.Mov.Imm(asm.R3, 30000), asm.Mov.Imm(asm.R4, 0), asm.FnRingbufOutput.Call()}))},
		{"clock", slices.Concat(nest, function("c", times(200, asm.Instructions{asm.FnKtimeGetNs.Call()})))},
		{"maps", slices.Concat(function("f", each), function("a", inner), function("b", loop(0, "c")), function("c"))},
		{"in a row", slices.Concat(function("f", times(100, loop(1<<23, "a"))), function("a"))},
		{"subprogram", slices.Concat(function("f", ctx, callTo("g"), callTo("g")), function("g", loop(0, "a")), function("a", loop(0, "b")), function("b"))},
	} {
		loops, err := FindLoops(c.code, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if err := budget.Put(uint32(0), make([]byte, budget.ValueSize())); err != nil {
			t.Fatal(err)
		}
		b := Budget{Map: budget.FD(), CPUs: 512, Counters: 512 << LoopStateShift}
		code, _, err := b.BoundLoops(c.code, loops, 0)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, Instructions: code, License: "GPL"})
		if err != nil {
			t.Fatalf("%s: %+v", c.name, err)
		}
		for range 2 {
			began := time.Now()
			if _, err := p.Run(&ebpf.RunOptions{}); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if took := time.Since(began); took < LoopNanos*9/10 || took > 15*time.Second { // on a busy machine
				t.Errorf("%s: a run took %v, want about 0.25 s", c.name, took)
			} else {
				t.Logf("%s: %v", c.name, took)
			}
		}
		p.Close()
		out := make([]byte, budget.ValueSize())
		if err := budget.Lookup(uint32(0), out); err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, n := range out[512<<LoopStateShift:] {
			total += int(n)
		}
		if total != 2 {
			t.Errorf("%s: %d runs were counted as stopped, want 2", c.name, total)
		}
		for cpu := range 512 {
			if s := out[cpu<<LoopStateShift:]; s[stateDepth] != 0 {
				t.Errorf("%s: CPU %d is left with %d programs in progress", c.name, cpu, s[stateDepth])
			}
		}
	}
}
