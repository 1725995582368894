// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// The kernel bounds neither the iterations of nested bpf_loop (5.17) and for_each_map_elem (5.13) calls nor their
// duration: BPF_MAX_LOOPS, 8,388,608, bounds one call. FindLoops finds the loops of a program whose bound constants in
// its code do not prove, and BoundLoops makes them take from a budget.
//
// All other code is bounded by the verifier, which walks at most a million instructions (BPF_COMPLEXITY_LIMIT_INSNS,
// 5.2) from the entry of a program. It does not bound how long these take: helpers copy, hash and search what is as large
// as a map's value, key or table. And it walks global functions (5.6) only once, for all their calls: each call counts
// with the bound of the function. FindLoops refuses programs that take too long in this way, except that copies whose
// size is not a constant are limited where a loop makes them, and searches of tables there take from the budget.
//
// Costs are in units of a third of a nanosecond, about one simple instruction of a current CPU. They are estimates
// upwards. A loop is stopped only if its cost and the clock both say so, so that too high an estimate stops nothing
// early, and neither does a process that was preempted.

const (
	// maxTrips is BPF_MAX_LOOPS.
	maxTrips = 1 << 23
	// smallLoop is the proved cost of a loop up to which it is not counted itself. All such loops of a program may cost
	// smallProgram together.
	smallLoop    = 1 << 16
	smallProgram = 1 << 23
	// inPlaceTrips is the assumed number of iterations of a loop that the verifier walks through. It walks a million
	// instructions at most, so that there is a bound.
	inPlaceTrips = 64
	// maxCost bounds all costs, so that sums and products do not overflow.
	maxCost = 1 << 40
	// verified is the number of instructions that the verifier walks at most, and perCall how many of them a call of a
	// helper takes at least, with its arguments.
	verified = 1_000_000
	perCall  = 3
	// maxSearched bounds the calls of a function for which the length of a loop is computed; others count as one instruction.
	maxSearched = 64
	// maxStraight bounds the cost of code that takes nothing from the budget, about 2 s.
	maxStraight = 6_000_000_000
	// straightCode is the cost up to which code without jumps back is not analyzed.
	straightCode = 30_000_000
	// A loop reads the clock after a program that it triggers and that may cost longRun; the time of an iterator is
	// measured if an element may cost longElement.
	longRun     = straightCode
	longElement = 1 << 17
)

// helperCost is the cost of a helper call. A helper that copies takes its size from a register (0: none), and each byte
// costs 1/perUnit.
type helperCost struct {
	base    int64
	size    asm.Register
	perUnit int64
}

// helperCosts has the helpers that cost more than otherHelper.
var helperCosts = map[asm.BuiltinFunc]helperCost{
	asm.FnMapLookupElem:       {100, 0, 0},
	asm.FnMapLookupPercpuElem: {100, 0, 0},
	asm.FnMapUpdateElem:       {600, 0, 0},
	asm.FnMapDeleteElem:       {400, 0, 0},
	asm.FnProbeRead:           {150, asm.R2, 4},
	asm.FnProbeReadKernel:     {150, asm.R2, 4},
	asm.FnProbeReadUser:       {200, asm.R2, 4},
	asm.FnProbeReadStr:        {200, asm.R2, 2},
	asm.FnProbeReadKernelStr:  {200, asm.R2, 2},
	asm.FnProbeReadUserStr:    {250, asm.R2, 2},
	asm.FnCopyFromUser:        {300, asm.R2, 4},
	asm.FnStrncmp:             {50, asm.R2, 1},
	asm.FnGetStack:            {1000, asm.R3, 1},
	asm.FnGetStackid:          {20000, 0, 0},
	asm.FnDPath:               {3000, 0, 0},
	asm.FnRingbufOutput:       {400, asm.R3, 4},
	asm.FnRingbufReserve:      {300, 0, 0},
	asm.FnRingbufSubmit:       {300, 0, 0},
	asm.FnPerfEventOutput:     {1000, asm.R5, 4},
	asm.FnSkbOutput:           {17000, 0, 0}, // 64 KiB of a packet
	asm.FnSeqWrite:            {200, asm.R3, 4},
	asm.FnSendSignal:          {2000, 0, 0},
	asm.FnSendSignalThread:    {2000, 0, 0},
	asm.FnProbeWriteUser:      {200, asm.R3, 4},
}

const (
	otherHelper = 100
	// unknownSize is the assumed size of a copy whose size is not a constant, the largest of a program of btc.
	unknownSize = 1 << 15
	// loopCall is the cost of starting a loop, and iteration that of calling back.
	loopCall  = 100
	iteration = 12
	// perBucket is the cost of an empty bucket of a hash for for_each_map_elem. Searches of less than smallSearch are not
	// counted.
	perBucket   = 8
	smallSearch = 1 << 13
)

// Loop is a loop that takes from the budget: a callback of bpf_loop or for_each_map_elem.
type Loop struct {
	Callback string // symbol
	Helper   asm.BuiltinFunc
	Cost     int64     // of an iteration
	Line     *btf.Line // of a call; nil: unknown
	Counter  int       // number of its counter of stopped runs (Budget.Counters)
}

// errLoop says which loops cannot be counted; btc makes none of them.
var errLoop = errors.New("has a loop that cannot be counted")

// Bounds says what makes a program end in time.
type Bounds struct {
	Loops []Loop // take from the budget
	Calls []Call // are made by a function of the loader
	Most  int64  // bound of the cost of everything else, of one run or iteration
}

// Call is a call of a helper in a loop in place: a copy whose size is not a constant, which is limited to unknownSize,
// or for_each_map_elem, which takes the cost of its search from the budget.
type Call struct {
	Insn    int // index of the instruction
	Helper  asm.BuiltinFunc
	Size    asm.Register // of a copy
	Cost    int64        // of a search
	Line    *btf.Line
	Counter int // as that of a loop
}

func (c Call) searches() bool { return c.Cost > 0 }

// IsTimed reports whether the elements of an iterator may take long.
func (b *Bounds) IsTimed() bool { return b.Most >= longElement }

// None reports whether a program ends soon as it is; with inside, also if it is triggered from a loop.
func (b *Bounds) None(inside bool) bool {
	return len(b.Loops)+len(b.Calls) == 0 && (!inside || b.Most < longRun)
}

// FindLoops finds what does not end in time in a program, with its subprograms. Maps are those of the object. The error
// is for code that btc does not make.
func FindLoops(insns asm.Instructions, maps map[string]*ebpf.MapSpec) (b Bounds, err error) {
	p := &loopProgram{funcs: map[string]*loopFunc{}, maps: maps}
	for _, m := range maps {
		if m.Type != ebpf.RingBuf {
			p.maxKey, p.maxValue = max(p.maxKey, int64(m.KeySize)), max(p.maxValue, int64(m.ValueSize))
			p.maxSearch = max(p.maxSearch, search(m))
		}
	}
	if most, ok := p.straight(insns); ok && most < straightCode {
		return Bounds{Most: most}, nil
	}
	var order []*loopFunc
	for start := 0; start < len(insns); {
		end := start + 1
		for end < len(insns) && insns[end].Symbol() == "" {
			end++
		}
		f, err := newLoopFunc(insns[start:end:end])
		if err != nil {
			return b, err
		}
		meta := btf.FuncMetadata(&insns[start])
		f.start, f.global = start, start > 0 && meta != nil && meta.Linkage != btf.StaticFunc
		order = append(order, f)
		p.funcs[insns[start].Symbol()] = f
		start = end
	}
	p.main = order[0]
	if err := p.findSites(order); err != nil {
		return b, err
	}
	// First, loops with a small proved cost count as straight code; if there are too many of them, they are counted, too.
	p.small = smallLoop
	total, err := p.costOf(p.main)
	if err == nil && total > smallProgram {
		p.small = 0
		for _, f := range order {
			f.done = false
		}
		_, err = p.costOf(p.main)
	}
	if err != nil {
		return b, err
	}
	for _, f := range order {
		if f.counted {
			b.Loops = append(b.Loops, Loop{Callback: f.insns[0].Symbol(), Helper: f.helper, Cost: f.cost + iteration, Line: f.line})
		}
		if f.done && (f == p.main || f.helper != 0) {
			b.Most = max(b.Most, f.most+f.inLoop*(verified/perCall))
		}
		for i := range f.next {
			if c, ok := f.replaced[i]; ok {
				c.Insn, c.Line = f.start+i, f.lineAt(i)
				b.Calls = append(b.Calls, c)
			}
		}
	}
	if b.Most > maxStraight {
		return Bounds{}, errLong
	}
	return b, nil
}

// straight returns a bound of the cost of a program without loops and callbacks.
func (p *loopProgram) straight(insns asm.Instructions) (most int64, ok bool) {
	for i := range insns {
		ins := &insns[i]
		switch {
		case ins.IsBuiltinCall():
			h, ok := helperCosts[asm.BuiltinFunc(ins.Constant)]
			if most += max(h.base, otherHelper); ok {
				most += p.maxKey + max(p.maxValue, unknownSize)
			}
		case ins.IsLoadOfFunctionPointer(), ins.IsFunctionCall(), ins.OpCode.Class().IsJump() && ins.Offset < 0:
			return 0, false
		default:
			most++
		}
	}
	return most, true
}

// errLong is for code without counted loops.
var errLong = errors.New("has code that takes more than 2 s")

type loopProgram struct {
	main  *loopFunc
	funcs map[string]*loopFunc
	maps  map[string]*ebpf.MapSpec
	small int64

	maxKey, maxValue, maxSearch int64 // of all maps
}

// loopFunc is a function of a program.
type loopFunc struct {
	*code
	start    int    // index of its first instruction in the program
	targets  []bool // by instruction: a jump leads to it
	sites    map[int]*loopSite
	replaced map[int]Call

	helper  asm.BuiltinFunc // that calls it back; 0: none
	line    *btf.Line
	counted bool // not all its calls have a small bound

	global   bool // the verifier walks it once for all its calls
	searched int  // calls for which cycle was computed, at most maxSearched

	active, done bool
	cost         int64
	proved       bool // the cost is a bound: there is no loop in place and no counted loop
	updates      bool // it may add elements to a map

	most   int64 // bound of the cost, without loops in place
	inLoop int64 // bound of the cost of a call in a loop in place, of its callees, too
	looped int64 // the same if the function itself is called in one; 0: it is not
}

// loopSite is a call of bpf_loop or for_each_map_elem.
type loopSite struct {
	callback *loopFunc
	trips    int64 // proved number of iterations; 0: none
	search   int64 // cost without the iterations
}

// search returns the cost of for_each_map_elem for an empty map.
func search(m *ebpf.MapSpec) int64 {
	switch m.Type {
	case ebpf.Hash, ebpf.LRUHash, ebpf.PerCPUHash, ebpf.LRUCPUHash:
		return int64(1) << bits.Len32(max(m.MaxEntries, 1)-1) * perBucket
	}
	return 0
}

func newLoopFunc(insns asm.Instructions) (*loopFunc, error) {
	c, ok := newCode(insns)
	if !ok {
		return nil, fmt.Errorf("%w: a jump leads out of a function", errLoop)
	}
	f := &loopFunc{code: c, targets: make([]bool, len(c.next)), sites: map[int]*loopSite{}, replaced: map[int]Call{}}
	for i := range c.next {
		if op := c.insns[i].OpCode; op.Class().IsJump() {
			for _, to := range []int{c.target[i], c.next[i]} {
				if to >= 0 && to < len(f.targets) && (to == c.target[i] || to != i+1) {
					f.targets[to] = true
				}
			}
		}
	}
	return f, nil
}

// findSites finds the calls with callbacks. The callback must be loaded into r2 in the straight code before the call,
// so that nothing but the load decides what is called, and each load of a function must be one of these.
func (p *loopProgram) findSites(order []*loopFunc) error {
	for _, f := range order {
		loads := 0
		for i := range f.next {
			ins := &f.insns[i]
			if ins.IsLoadOfFunctionPointer() {
				loads++
			}
			helper := asm.BuiltinFunc(ins.Constant)
			if !ins.IsBuiltinCall() || helper != asm.FnLoop && helper != asm.FnForEachMapElem {
				continue
			}
			at := f.setter(i, asm.R2)
			if at < 0 || !f.insns[at].IsLoadOfFunctionPointer() {
				return fmt.Errorf("%w: its body is not known", errLoop)
			}
			cb := p.funcs[f.insns[at].Reference()]
			if cb == nil || cb == p.main || cb.global || cb.helper != 0 && cb.helper != helper {
				return fmt.Errorf("%w: its body is used otherwise", errLoop)
			}
			loads--
			cb.helper = helper
			if line := f.lineAt(i); cb.line == nil {
				cb.line = line
			}
			s := &loopSite{callback: cb}
			if helper == asm.FnLoop {
				if n, ok := f.constant(i, asm.R1); ok && n >= 0 && n <= maxTrips {
					s.trips = max(n, 1)
				}
			} else if m := p.mapOf(f, i); m != nil {
				s.trips, s.search = max(int64(m.MaxEntries), 1), search(m)
			} else {
				s.search = p.maxSearch
			}
			f.sites[i] = s
		}
		if loads != 0 {
			return fmt.Errorf("%w: a function is loaded as data", errLoop)
		}
	}
	return nil
}

// lineAt returns the source line of an instruction.
func (f *loopFunc) lineAt(i int) *btf.Line {
	for ; i >= 0; i-- {
		if line, ok := f.insns[i].Source().(*btf.Line); ok {
			return line
		}
	}
	return nil
}

// setter returns the instruction that set a register before i, in straight code; -1 if it is not known.
func (f *loopFunc) setter(i int, reg asm.Register) int {
	for ; i > 0 && !f.targets[i]; i-- {
		ins := &f.insns[i-1]
		switch class := ins.OpCode.Class(); {
		case class.IsJump():
			return -1
		case (class.IsALU() || class.IsLoad()) && ins.Dst == reg:
			return i - 1
		case class == asm.StXClass && ins.OpCode.Mode() == asm.AtomicMode && ins.OpCode.AtomicOp() != asm.AddAtomic:
			return -1 // it may change a register
		}
	}
	return -1
}

// constant returns the constant in a register at an instruction.
func (f *loopFunc) constant(i int, reg asm.Register) (int64, bool) {
	at := f.setter(i, reg)
	if at < 0 {
		return 0, false
	}
	ins := &f.insns[at]
	if ins.OpCode.Class().IsALU() && ins.OpCode.ALUOp() == asm.Mov && ins.OpCode.Source() == asm.ImmSource {
		n := ins.Constant
		if ins.OpCode.Class() == asm.ALUClass {
			n = int64(uint32(n))
		}
		return n, btf.CORERelocationMetadata(ins) == nil
	}
	return 0, false
}

// mapOf returns the map in r1 at an instruction; nil if it is not known.
func (p *loopProgram) mapOf(f *loopFunc, i int) *ebpf.MapSpec {
	if at := f.setter(i, asm.R1); at >= 0 && f.insns[at].IsLoadFromMap() {
		if own, ok := f.insns[at].Metadata.Get(ownMap{}).(*ebpf.MapSpec); ok {
			return own
		}
		return p.maps[f.insns[at].Reference()]
	}
	return nil
}

// costOf computes the cost of a function's longest path. Each callee is computed first; a cycle of calls is an error.
func (p *loopProgram) costOf(f *loopFunc) (int64, error) {
	if f.done {
		return f.cost, nil
	}
	if f.active {
		return 0, fmt.Errorf("%w: its functions call each other", errLoop)
	}
	f.active, f.proved, f.updates, f.inLoop = true, true, false, 0
	costs, most := make([]int64, len(f.next)), make([]int64, len(f.next))
	calls := map[int][]*loopFunc{}
	for i := range f.next {
		var err error
		if costs[i], most[i], err = p.insnCost(f, i, calls); err != nil {
			return 0, err
		}
	}
	often := int64(0)                       // all calls of global functions in loops in place
	f.cost = f.longest(costs, func(i int) { // in a loop in place
		f.proved = false
		for _, g := range calls[i] {
			p.countAll(g)
		}
		most[i] = 0
		if n := p.looped(f, i); f.insns[i].IsFunctionCall() && p.funcs[f.insns[i].Reference()].global {
			often = min(often+n, maxCost) // an iteration may make all of them
		} else {
			f.inLoop = max(f.inLoop, n)
		}
	})
	f.inLoop = min(f.inLoop+often, maxCost)
	f.most = f.longest(most, func(int) {})
	if f.global {
		if len(f.sites) > 0 {
			return 0, fmt.Errorf("%w: it is in the function %s, which the kernel's verifier walks only once", errLoop, f.insns[0].Symbol())
		}
		// It was walked for itself: what it takes in its own loops is a part of each call.
		f.most, f.inLoop = min(f.most+f.inLoop*(verified/perCall), maxCost), 0
	}
	f.active, f.done = false, true
	return f.cost, nil
}

// looped returns a bound of the cost of an instruction that is in a loop in place, or whose function is called in one. It
// has calls replaced for which it would be too high.
func (p *loopProgram) looped(f *loopFunc, i int) int64 {
	ins := &f.insns[i]
	helper := asm.BuiltinFunc(ins.Constant)
	switch {
	case f.sites[i] != nil:
		if s := f.sites[i]; s.search > smallSearch {
			f.replaced[i] = Call{Helper: helper, Cost: s.search}
		}
		return loopCall + smallSearch
	case ins.IsFunctionCall():
		g := p.funcs[ins.Reference()]
		if g.global { // an iteration has at least the instructions of the shortest cycle
			length := 1
			if f.searched++; f.searched <= maxSearched {
				length = max(f.cycle(i), 1)
			}
			return min(g.most, maxCost)*perCall/int64(length) + 1
		}
		if g.looped == 0 {
			g.looped = 1
			for j := range g.next {
				g.looped = max(g.looped, p.looped(g, j))
			}
		}
		return g.looped
	case ins.IsBuiltinCall():
		cost, most, unsized := p.helperCost(f, i)
		if unsized == 0 || most <= cost {
			return most
		}
		f.replaced[i] = Call{Helper: helper, Size: unsized}
		return cost
	}
	return 1
}

// cycle returns the length of the shortest cycle through an instruction, 0 if there is none.
func (f *loopFunc) cycle(i int) int {
	n := len(f.next)
	seen, work := make([]bool, n), []int{i}
	for length := 1; len(work) > 0; length++ {
		var next []int
		for _, at := range work {
			for _, to := range []int{f.next[at], f.target[at]} {
				switch {
				case to == i:
					return length
				case to >= 0 && to < n && !seen[to]:
					seen[to] = true
					next = append(next, to)
				}
			}
		}
		work = next
	}
	return 0
}

// countAll counts all loops of a function and its callees: how often it runs is not known.
func (p *loopProgram) countAll(f *loopFunc) {
	f.counted = f.counted || f.helper != 0
	for i := range f.next {
		if s := f.sites[i]; s != nil {
			if !s.callback.counted {
				p.countAll(s.callback)
			}
		} else if f.insns[i].IsFunctionCall() {
			if g := p.funcs[f.insns[i].Reference()]; g != nil && g != f {
				p.countAll(g)
			}
		}
	}
}

// insnCost returns the estimated cost of an instruction, and a bound of it.
func (p *loopProgram) insnCost(f *loopFunc, i int, calls map[int][]*loopFunc) (cost, most int64, err error) {
	ins := &f.insns[i]
	switch {
	case f.sites[i] != nil:
		s := f.sites[i]
		c, err := p.costOf(s.callback)
		if err != nil {
			return 0, 0, err
		}
		calls[i] = append(calls[i], s.callback)
		f.updates = f.updates || s.callback.updates
		each, start := c+iteration, loopCall+s.search
		if s.trips == 0 || !s.callback.proved || s.trips > p.small/each ||
			s.callback.helper == asm.FnForEachMapElem && s.callback.updates { // it may meet what it adds
			s.callback.counted = true
			f.proved = false
			return start, start, nil
		}
		return start + s.trips*each, min(start+s.trips*(s.callback.most+iteration), maxCost), nil
	case ins.IsFunctionCall():
		g := p.funcs[ins.Reference()]
		if g == nil || g == p.main {
			return 0, 0, fmt.Errorf("%w: it calls a function that is not there", errLoop)
		}
		calls[i] = append(calls[i], g)
		c, err := p.costOf(g)
		f.proved, f.updates, f.inLoop = f.proved && g.proved, f.updates || g.updates, max(f.inLoop, g.inLoop)
		return c + 5, g.most + 5, err
	case ins.IsBuiltinCall():
		cost, most, _ := p.helperCost(f, i)
		return cost, most, nil
	}
	return 1, 1, nil
}

// helperCost returns the estimated cost of a helper call, and a bound of it. size is the register with the size of a
// copy if that is not a constant.
func (p *loopProgram) helperCost(f *loopFunc, i int) (cost, most int64, size asm.Register) {
	helper := asm.BuiltinFunc(f.insns[i].Constant)
	h, ok := helperCosts[helper]
	if !ok {
		return otherHelper, otherHelper, 0
	}
	switch helper {
	case asm.FnMapLookupElem, asm.FnMapLookupPercpuElem, asm.FnMapUpdateElem, asm.FnMapDeleteElem:
		key, value := p.maxKey, p.maxValue
		m := p.mapOf(f, i)
		if m != nil {
			key, value = int64(m.KeySize), int64(m.ValueSize)
		}
		cost = h.base + key
		if most = cost; helper == asm.FnMapUpdateElem {
			f.updates = true
			if cost, most = cost+value/4, most+value/4; m == nil {
				cost = h.base + unknownSize
			}
		}
		return cost, most, 0
	}
	if h.size == 0 {
		return h.base, h.base, 0
	}
	n, ok := f.constant(i, h.size)
	if !ok {
		return h.base + unknownSize/h.perUnit, h.base + max(p.maxValue, unknownSize)/h.perUnit, h.size
	}
	cost = h.base + min(max(n, 0), math.MaxInt32)/h.perUnit
	return cost, cost, 0
}

// longest returns the cost of the longest path from the first instruction. The instructions of a cycle count
// inPlaceTrips times each, and are passed to cyclic. It is Tarjan's algorithm for strongly connected components, which
// come out after those that they lead to.
func (f *loopFunc) longest(costs []int64, cyclic func(i int)) int64 {
	n := len(f.next)
	index, low, rest := make([]int, n), make([]int, n), make([]int64, n)
	onStack := make([]bool, n)
	var stack []int
	type frame struct{ i, edge int }
	work := []frame{{0, 0}}
	count := 0
	for len(work) > 0 {
		top := &work[len(work)-1]
		i := top.i
		if top.edge == 0 {
			count++
			index[i], low[i] = count, count
			stack, onStack[i] = append(stack, i), true
		}
		if top.edge < 2 {
			to := f.next[i]
			if top.edge == 1 {
				to = f.target[i]
			}
			top.edge++
			switch {
			case to < 0 || to >= n:
			case index[to] == 0:
				work = append(work, frame{to, 0})
			case onStack[to]:
				low[i] = min(low[i], index[to])
			}
			continue
		}
		work = work[:len(work)-1]
		if len(work) > 0 {
			up := work[len(work)-1].i
			low[up] = min(low[up], low[i])
		}
		if low[i] != index[i] {
			continue
		}
		first := len(stack) - 1
		for stack[first] != i {
			first--
		}
		members := stack[first:]
		stack = stack[:first]
		loop := len(members) > 1 || f.next[i] == i || f.target[i] == i
		sum, most := int64(0), int64(0)
		for _, m := range members {
			onStack[m] = false
			sum = min(sum+costs[m], maxCost)
		}
		for _, m := range members {
			if loop {
				cyclic(m)
			}
			for _, to := range []int{f.next[m], f.target[m]} {
				if to >= 0 && to < n {
					most = max(most, rest[to]) // 0 in the component itself
				}
			}
		}
		if loop {
			sum = min(sum*inPlaceTrips, maxCost)
		}
		for _, m := range members {
			rest[m] = min(sum+most, maxCost)
		}
	}
	return rest[0]
}
