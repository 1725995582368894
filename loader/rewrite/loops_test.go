// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"encoding/binary"
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

// inPlace is for (r6 = 0; r6 != n; r6++) p.
func inPlace(n int64, p asm.Instructions) asm.Instructions {
	all := append(asm.Instructions{asm.Mov.Imm(asm.R6, 0), asm.Add.Imm(asm.R6, 1)}, p...)
	return append(all, asm.Instruction{OpCode: asm.JNE.Op(asm.ImmSource), Dst: asm.R6, Constant: n, Offset: int16(-Slots(p) - 2)})
}

// copyOf copies a number of bytes from an invalid address to a map's value; 0 is a number up to 1 MiB.
func copyOf(n int32, value asm.Instruction) asm.Instructions {
	p := asm.Instructions{asm.Mov.Imm(asm.R2, n)}
	if n == 0 {
		p = asm.Instructions{asm.FnGetPrandomU32.Call(), asm.Mov.Reg(asm.R2, asm.R0), asm.And.Imm(asm.R2, 1<<16-1), asm.Add.Imm(asm.R2, 1<<20-1<<16)}
	}
	return append(p, value, asm.Mov.Imm(asm.R3, 0), asm.FnProbeReadKernel.Call())
}

// global makes a function one that the verifier walks by itself.
func global(p asm.Instructions) asm.Instructions {
	f := *btf.FuncMetadata(&p[0])
	f.Linkage = btf.GlobalFunc
	p[0] = btf.WithFuncMetadata(p[0], &f)
	return p
}

// TestFindLoops checks which loops are counted, and that loops that cannot be are errors.
func TestFindLoops(t *testing.T) {
	moved := loop(10, "a")
	moved[1].Dst = asm.R7
	moved = slices.Insert(moved, 2, asm.Mov.Reg(asm.R2, asm.R7))
	entered := append(asm.Instructions{{OpCode: asm.JEq.Op(asm.ImmSource), Dst: asm.R0, Offset: 3}}, loop(10, "a")...)
	toMap := func(r asm.Register) asm.Instruction { return asm.LoadMapPtr(r, 0).WithReference("m") }
	value := asm.LoadMapValue(asm.R1, 0, 0).WithReference("large")
	keyed := asm.Instructions{asm.LoadMapPtr(asm.R1, 0).WithReference("keyed"), asm.FnMapLookupElem.Call()}
	large := walk("a")
	large[0] = large[0].WithReference("table")
	anyMap := append(asm.Instructions{asm.Mov.Reg(asm.R1, asm.R7)}, walk("a")[1:]...)
	calls := map[string]int{"copies of unknown size in a loop": 1, "in a function called in a loop": 1, "search in a loop": 1, "search of any map in a loop": 1}
	for _, c := range []struct {
		name  string
		code  asm.Instructions
		loops []string
		fails bool
	}{
		{"global function", slices.Concat(function("f", callTo("g")), global(function("g"))), nil, false},
		{"global function in a loop", slices.Concat(function("f", inPlace(10, callTo("g"))), global(function("g"))), nil, false},
		{"loop in a global function", slices.Concat(function("f", callTo("g")), global(function("g", inPlace(10, updateM)))), nil, false},
		{"loop in a global function in a loop", slices.Concat(function("f", inPlace(10, callTo("g"))), global(function("g", inPlace(10, nil)))), nil, true},
		{"loop in a global function, called by a function in a loop", slices.Concat(function("f", inPlace(10, callTo("h"))), function("h", callTo("g")), global(function("g", inPlace(10, nil)))), nil, true},
		{"large copies in a global function in a loop", slices.Concat(function("f", inPlace(10, callTo("g"))), global(function("g", times(20, copyOf(1<<20, value))))), nil, true},
		{"global functions that call each other often", slices.Concat(function("f", times(500, callTo("g"))), global(function("g", times(500, callTo("h")))), global(function("h", times(500, copyOf(1<<14, value))))), nil, true},
		{"search in a global function", slices.Concat(function("f", callTo("g")), global(function("g", loop(10, "a"))), function("a")), nil, true},
		{"many calls of a global function in a loop", slices.Concat(function("f", inPlace(300, times(3000, callTo("g")))), global(function("g", times(200, copyOf(1<<18, value))))), nil, true},
		{"more calls of a global function than the loop's length is computed for", slices.Concat(function("f", inPlace(300, times(100, callTo("g")))), global(function("g", times(20, copyOf(1<<8, value))))), nil, true},
		{"few calls of a global function in a loop", slices.Concat(function("f", inPlace(300, times(30, callTo("g")))), global(function("g", times(200, copyOf(1<<8, value))))), nil, true},
		{"global callback", slices.Concat(function("f", loop(0, "a")), global(function("a"))), nil, true},
		{"large copies in a loop", function("f", inPlace(10, copyOf(1<<20, value))), nil, true},
		{"small copies in a loop", function("f", inPlace(10, copyOf(1<<14, value))), nil, false},
		{"large copies in a function called in a loop", slices.Concat(function("f", inPlace(10, callTo("g"))), function("g", copyOf(1<<20, value))), nil, true},
		{"large copies in a loop of a callback", slices.Concat(function("f", loop(10, "a")), function("a", inPlace(10, copyOf(1<<20, value)))), nil, true},
		{"many large copies", function("f", times(25000, copyOf(1<<20, value))), nil, true},
		{"a few large copies", function("f", times(10, copyOf(1<<20, value))), nil, false},
		{"copies of unknown size in a loop", function("f", inPlace(10, copyOf(0, value))), nil, false},
		{"in a function called in a loop", slices.Concat(function("f", inPlace(10, callTo("g"))), function("g", copyOf(0, value))), nil, false},
		{"large keys in a loop", function("f", inPlace(10, keyed)), nil, true},
		{"large keys of any map in a loop", function("f", inPlace(10, asm.Instructions{asm.Mov.Reg(asm.R1, asm.R7), asm.FnMapLookupElem.Call()})), nil, true},
		{"updates in a loop", function("f", inPlace(10, updateM)), nil, false},
		{"search in a loop", slices.Concat(function("f", inPlace(10, large)), function("a")), []string{"a"}, false},
		{"search of any map in a loop", slices.Concat(function("f", inPlace(10, anyMap)), function("a")), []string{"a"}, false},
		{"search of a small map in a loop", slices.Concat(function("f", asm.Instructions{toMap(asm.R7)}, inPlace(10, walk("a"))), function("a")), []string{"a"}, false},
		{"search of all maps", slices.Concat(function("f", times(1000, large)), function("a")), nil, true},

		{"none", function("f"), nil, false},
		{"small", slices.Concat(function("f", loop(100, "a")), function("a")), nil, false},
		{"large", slices.Concat(function("f", loop(1<<20, "a")), function("a")), []string{"a"}, false},
		{"unknown length", slices.Concat(function("f", loop(0, "a")), function("a")), []string{"a"}, false},
		{"small nest", slices.Concat(function("f", loop(20, "a")), function("a", loop(20, "b")), function("b")), nil, false},
		{"large product", slices.Concat(function("f", loop(1000, "a")), function("a", loop(1000, "b")), function("b")), []string{"a"}, false},
		{"inner of unknown length", slices.Concat(function("f", loop(10, "a")), function("a", loop(0, "b")), function("b")), []string{"a", "b"}, false},
		{"in a subprogram", slices.Concat(function("f", callTo("g")), function("g", loop(0, "a")), function("a")), []string{"a"}, false},
		{"many in a row", slices.Concat(function("f", times(2000, loop(100, "a"))), function("a", times(100, asm.Instructions{asm.Mov.Imm(asm.R1, 1)}))), []string{"a"}, false},
		{"calls in a loop in place", slices.Concat(function("f", inPlace(10, callTo("g"))), function("g", loop(10, "a")), function("a")), []string{"a"}, false},
		{"loop in place in the body", slices.Concat(function("f", loop(10, "a")), function("a", inPlace(10, nil))), []string{"a"}, false},
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
		bounds, err := FindLoops(c.code, map[string]*ebpf.MapSpec{
			"m":     {Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 1000},
			"large": {Type: ebpf.Array, KeySize: 4, ValueSize: 1 << 20, MaxEntries: 1},
			"keyed": {Type: ebpf.Hash, KeySize: 1 << 16, ValueSize: 8, MaxEntries: 1},
			"table": {Type: ebpf.LRUHash, KeySize: 4, ValueSize: 8, MaxEntries: 1 << 22},
		})
		var names []string
		for _, l := range bounds.Loops {
			names = append(names, l.Callback)
		}
		if (err != nil) != c.fails || !slices.Equal(names, c.loops) {
			t.Errorf("%s: FindLoops = %v, %v; want %v, an error: %v", c.name, names, err, c.loops, c.fails)
		}
		if len(bounds.Calls) != calls[c.name] {
			t.Errorf("%s: %d calls are replaced, want %d", c.name, len(bounds.Calls), calls[c.name])
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
	table := newMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 1 << 22, Flags: noPrealloc})
	search := walk("c")
	search[0] = asm.LoadMapPtr(asm.R1, table.FD())
	copies := newMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 1 << 20, MaxEntries: 1})
	unsized := copyOf(0, asm.LoadMapValue(asm.R1, copies.FD(), 0))
	specs := map[string]*ebpf.MapSpec{"table": {Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 1 << 22}, "copies": {Type: ebpf.Array, KeySize: 4, ValueSize: 1 << 20, MaxEntries: 1}}
	for _, c := range []struct {
		name string
		code asm.Instructions
	}{
		{"searches", slices.Concat(function("f", loop(0, "a")), function("a", search), function("c"))},
		{"searches in a loop in place", slices.Concat(function("f", loop(0, "a")), function("a", inPlace(4, search)), function("c"))},
		{"copies of unknown size", slices.Concat(nest, function("c", unsized))},
		{"copies of unknown size in a loop in place", slices.Concat(nest, function("c", inPlace(100, unsized)))},
		{"empty", slices.Concat(nest, function("c"))},
		{"copies", slices.Concat(nest, function("c", asm.Instructions{value(asm.R1), asm.Mov.Imm(asm.R2, 1<<15), value(asm.R3), asm.FnProbeReadKernel.Call()}))},
		{"output", slices.Concat(nest, function("c", asm.Instructions{asm.LoadMapPtr(asm.R1, ring.FD()), value(asm.R2), asm.Mov.Imm(asm.R3, 30000), asm.Mov.Imm(asm.R4, 0), asm.FnRingbufOutput.Call()}))},
		{"clock", slices.Concat(nest, function("c", times(200, asm.Instructions{asm.FnKtimeGetNs.Call()})))},
		{"maps", slices.Concat(function("f", each), function("a", inner), function("b", loop(0, "c")), function("c"))},
		{"in a row", slices.Concat(function("f", times(100, loop(1<<23, "a"))), function("a"))},
		{"subprogram", slices.Concat(function("f", ctx, callTo("g"), callTo("g")), function("g", loop(0, "a")), function("a", loop(0, "b")), function("b"))},
	} {
		bounds, err := FindLoops(c.code, specs)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if err := budget.Put(uint32(0), make([]byte, budget.ValueSize())); err != nil {
			t.Fatal(err)
		}
		b := Budget{Map: budget.FD(), CPUs: 512, Counters: 512 << LoopStateShift}
		code, _, err := b.BoundLoops(c.code, bounds, 0)
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

// budgetOf makes a map for a budget, and returns it with a function that sets a word of the state of all CPUs.
func budgetOf(t *testing.T) (Budget, *ebpf.Map, func(word int, v uint64)) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root")
	}
	const cpus = 512
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: cpus<<LoopStateShift + 8, MaxEntries: 1})
	if err != nil {
		t.Skip("skipped: the kernel does not let this process make maps: ", err)
	}
	t.Cleanup(func() { m.Close() })
	value := make([]byte, m.ValueSize())
	set := func(word int, v uint64) {
		for cpu := range cpus {
			binary.NativeEndian.PutUint64(value[cpu<<LoopStateShift+word:], v)
		}
		if err := m.Put(uint32(0), value); err != nil {
			t.Fatal(err)
		}
	}
	return Budget{Map: m.FD(), CPUs: cpus, Counters: cpus << LoopStateShift}, m, set
}

// changed returns the state of the CPU that a program ran on, which is the one that differs from the others, and the
// counter of stopped runs.
func changed(t *testing.T, m *ebpf.Map) (state []byte, stopped uint64) {
	t.Helper()
	value, all := make([]byte, m.ValueSize()), map[string]int{}
	if err := m.Lookup(uint32(0), value); err != nil {
		t.Fatal(err)
	}
	states := value[:len(value)-8]
	for cpu := range len(states) >> LoopStateShift {
		all[string(states[cpu<<LoopStateShift:][:1<<LoopStateShift])]++
	}
	for s, n := range all {
		if n == 1 || len(all) == 1 {
			state = []byte(s)
		}
	}
	return state, binary.NativeEndian.Uint64(value[len(value)-8:])
}

// runBounded runs a program with its bounds, and returns what it returns and how long it took.
func runBounded(t *testing.T, b *Budget, code asm.Instructions, skip int) (returned uint32, took time.Duration) {
	t.Helper()
	bounds, err := FindLoops(code, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := b.BoundLoops(code, bounds, skip)
	if err != nil {
		t.Fatal(err)
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, Instructions: out, License: "GPL"})
	if err != nil {
		t.Fatalf("%+v", err)
	}
	defer p.Close()
	began := time.Now()
	if returned, err = p.Run(&ebpf.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	return returned, time.Since(began)
}

func word(state []byte, at int) int64 { return int64(binary.NativeEndian.Uint64(state[at:])) }

// TestSharedBudget checks programs that start while another one of the object runs on the CPU: a loop takes from the
// budget of that one, and a program that may take long makes it read the clock.
func TestSharedBudget(t *testing.T) {
	b, m, set := budgetOf(t)
	set(stateDepth, 1)
	set(stateWork, 0)
	set(stateLeft, 5)
	set(stateStart, uint64(1)) // long ago
	code := slices.Concat(function("f", loop(0, "a")), function("a", loop(0, "b")), function("b"))
	if _, took := runBounded(t, &b, code, 0); took > LoopNanos/2 {
		t.Errorf("a loop that is triggered by another one that used up the budget took %v", took)
	}
	if state, stopped := changed(t, m); stopped != 1 || word(state, stateDepth) != 1 {
		t.Errorf("stopped %d times, %d programs in progress; want 1, 1", stopped, word(state, stateDepth))
	}
	set(stateLeft, 1234)
	set(stateWork, 10000)
	runBounded(t, &b, function("f", inPlace(10, asm.Instructions{asm.FnKtimeGetNs.Call()})), 0)
	state, _ := changed(t, m)
	if word(state, stateLeft) != 0 || word(state, stateWork) != 10000-1234 || word(state, stateDepth) != 1 {
		t.Errorf("after a long program %d are left of the slice, work %d, depth %d", word(state, stateLeft), word(state, stateWork), word(state, stateDepth))
	}
}

// TestTimedIterator checks that the time of elements of an iterator is added up, and that it ends the iterator.
func TestTimedIterator(t *testing.T) {
	b, m, set := budgetOf(t)
	b.Iterator, b.Timed = true, true
	code := function("f", inPlace(10000, asm.Instructions{asm.FnKtimeGetNs.Call()}))
	code[len(code)-2] = asm.Mov.Imm(asm.R0, 1)
	returned, took := runBounded(t, &b, code, 0)
	state, stopped := changed(t, m)
	if total := word(state, stateTotal) / 3; returned != 1 || stopped != 0 || total < int64(took)/20 || total > int64(took) {
		t.Errorf("an element returned %d, took %v, was stopped %d times, and %d ns were added; want 1 and the time", returned, took, stopped, total)
	}
	set(stateTotal, uint64(maxWalk+1)<<walkShift)
	returned, _ = runBounded(t, &b, code, 0)
	if state, stopped := changed(t, m); returned != 0 || stopped != 1 || word(state, stateDepth) != 0 {
		t.Errorf("after the limit an element returned %d, %d counted, depth %d; want 0, 1, 0", returned, stopped, word(state, stateDepth))
	}
	// The loops of an iterator without other long code end it by their cost.
	b.Timed = false
	set(stateTotal, uint64(maxWalk+1)<<walkShift)
	loops := slices.Concat(function("f", loop(0, "a")), function("a", loop(0, "b")), function("b"))
	if _, took = runBounded(t, &b, loops, 0); took > LoopNanos/2 {
		t.Errorf("the loops of an iterator after the limit took %v", took)
	}
}

// TestBudgetAfterFilter checks that a prologue before a program is left alone: it ends programs without a run.
func TestBudgetAfterFilter(t *testing.T) {
	for _, passes := range []int64{0, 1} {
		b, m, _ := budgetOf(t)
		code := slices.Concat(function("f", loop(0, "a")), function("a", loop(0, "b")), function("b"))
		var filter prologue
		filter.add(asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Imm(asm.R0, int32(passes)))
		filter.leave(asm.JNE, asm.R0, 0)
		filter.add(asm.Mov.Imm(asm.R0, 7), asm.Return())
		filter.land(filter.leaving)
		filter.add(asm.Mov.Reg(asm.R1, asm.R6))
		skip := len(filter.insns)
		code = putInFront(filter.insns, code)
		returned, took := runBounded(t, &b, code, skip)
		state, stopped := changed(t, m)
		if passes == 0 && (returned != 7 || word(state, stateLeft) != 0 || stopped != 0) {
			t.Errorf("filtered: returned %d, state %v, stopped %d times", returned, state, stopped)
		}
		if passes == 1 && (returned != 0 || took < LoopNanos*9/10 || stopped != 1 || word(state, stateDepth) != 0) {
			t.Errorf("not filtered: returned %d, took %v, stopped %d times", returned, took, stopped)
		}
	}
}

const noPrealloc = 1 // BPF_F_NO_PREALLOC
