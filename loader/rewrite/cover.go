// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"errors"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"btc/internal/kernelfs"
	"btc/internal/manifest"
)

// CounterKind is what a Counter counts.
type CounterKind uint8

// Kinds of counters. Reads that failed have three words: the count, the last result of the helper, and the address that it
// was to read; lookups have two: all, and those that found nothing; the others have one.
const (
	Reached    CounterKind = iota // runs of the program, before the filters of the run
	Fired                         // runs that the filters accept, and that no other counter of an end has: False, Early
	False                         // runs in which an operand of the predicate decided that it is false
	Early                         // runs that a test in the body ended before the last statement
	ReadFailed                    // reads of memory that returned an error
	Lookups                       // lookups of an element that the script reads
	True                          // runs of a condition (manifest.Branch) that are true
	Not                           // those that are false, by the test that decides it
)

// Words returns the number of words of a kind.
func (k CounterKind) Words() int {
	switch k {
	case ReadFailed:
		return 3
	case Lookups:
		return 2
	}
	return 1
}

// Counter identifies the words of a counter. Programs of the same clause share them.
type Counter struct {
	Kind      CounterKind
	Clause    int
	Line, Col int  // all but Reached and Fired: of the code; Not: Col is that of the condition, negative, if no test is known
	User      bool // ReadFailed: the helper reads user memory
}

// Layout of the counters of a CPU: first a key and a value of the map of samples, then words.
const (
	SampleText = 48 // bytes of a sampled value
	SampleKey  = 8 + SampleText
	CoverHead  = SampleKey + 8
)

// Of each operand of a predicate, the first sampled values on a CPU are those of the first sampleAll times that it is false,
// then of one of sampleEvery times.
const (
	sampleAll   = 64
	sampleEvery = 1024
)

// Cover adds counters to programs. What they count is found by the positions of the instructions in the script (line info)
// and the manifest's description of the clause, so objects have no code for it. Only the main function is counted, not its
// subprograms.
type Cover struct {
	// Map is the descriptor of an array whose only value has the counters of each CPU, 1<<Shift bytes. CPUs is a power of two.
	// A program gets the address of those of its CPU from the number of the CPU, which takes less time than a lookup in a
	// per-CPU array.
	Map, Shift, CPUs int
	// Samples is the descriptor of a hash map from SampleKey bytes, the number of the sample and the value, to a counter.
	Samples int
	// Namespace is the PID namespace in which scripts see process IDs.
	Namespace kernelfs.Namespace
	// Index returns the index of the first word of a counter; false if there are too many.
	Index func(c Counter) (int, bool)
	// Sample returns the number of the values of a test of a clause.
	Sample func(clause int, test *manifest.Test) int
	// Symbols are the ELF symbols of the maps of the script.
	Symbols map[string]string
}

// Tested is how far a predicate is counted.
type Tested uint8

// The counter False has all runs in which the predicate is false (Complete), or it is not known which it has. Never means that
// the program has no code of the body: the compiler has found that the predicate is never true.
const (
	Unknown Tested = iota
	Complete
	Never
)

// Counted is how far a program is counted.
type Counted struct {
	Tested    Tested
	Uncounted []int // indexes of branches
}

func (c *covering) counted() Counted { return Counted{c.tested(), c.uncounted} }

func (c *covering) tested() Tested {
	switch {
	case c.clause.Predicate == nil || c.strange:
		return Unknown
	case c.edges > 0:
		return Complete
	case !c.holds && !slices.Contains(c.body, true):
		return Never
	}
	return Unknown
}

// ErrNoCover is the error for a program that cannot be counted.
var ErrNoCover = errors.New("not counted")

// covering is the work on one program.
type covering struct {
	*Cover
	*code
	mp            *manifest.Program
	clause        manifest.Clause
	first         int // the first instruction of the object's
	at            int16
	lines         []position
	body          []bool
	before, after map[int]asm.Instructions
	endings       asm.Instructions
	jumps         map[int]int // conditional jump -> its ending, if it is taken
	falls         map[int]int // conditional jump -> its ending, if it is not taken
	back          map[int]int // jump in endings, by its index there -> where it leads
	endingAt      map[ending]int
	edges         int  // edges on which the predicate is false
	strings       bool // the predicate or a condition reads memory
	atomic        bool
	uncounted     []int
	late          bool // only ends are counted: the address of the counters is computed there
	strange       bool
	holds         bool // the program takes shared memory, which it gives back before it ends
}

type position struct{ line, col int }

func (p position) before(o position) bool {
	return p.line < o.line || p.line == o.line && p.col < o.col
}

func (p position) in(s *manifest.Span) bool {
	return s != nil && !p.before(position{s.Line, s.Col}) && p.before(position{s.EndLine, s.EndCol})
}

// ending is code that counts and ends the program.
type ending struct {
	counter Counter
	test    *manifest.Test // whose value is sampled
	reg     asm.Register
	half    bool
	// tail is the position of the code that follows if that does more than end the program with the result; else 0.
	result int32
	tail   int
}

// noRegister is the register of an ending that needs none.
const noRegister = asm.RFP

// Offsets from covering.at: the address of the counters, that of the last read, and that of the last string that the predicate
// or a condition reads.
const (
	coverPtr    = 0
	coverRead   = 8
	coverString = 16
	coverFrame  = 24
)

// Program returns a program with counters, and the number of instructions that were inserted before the others. The first skip instructions are prologues of the loader, which
// use extra bytes below the program's frame; filtered is set if one of them is a filter. atomic is set if programs of the
// clause can interrupt or preempt each other on a CPU.
func (w *Cover) Program(insns asm.Instructions, mp *manifest.Program, clause *manifest.Clause, skip, extra int, filtered, atomic bool) (out asm.Instructions, head int, counted Counted, err error) {
	at, err := belowFrame(mp, extra+coverFrame)
	if err != nil {
		return nil, 0, Counted{}, err
	}
	flow, ok := newCode(insns)
	if !ok || skip >= len(flow.next) {
		return nil, 0, Counted{}, ErrNoCover
	}
	c := &covering{
		Cover: w, code: flow, mp: mp, first: skip, at: at, before: map[int]asm.Instructions{}, after: map[int]asm.Instructions{},
		jumps: map[int]int{}, falls: map[int]int{}, back: map[int]int{}, endingAt: map[ending]int{}, atomic: atomic,
	}
	if clause != nil {
		c.clause = *clause
	}
	c.clause.Number = mp.Clause
	c.positions()
	c.calls()
	c.late = !filtered && len(c.before)+len(c.after)+len(c.clause.Branches) == 0
	c.decisions()
	c.returns()
	c.branches()
	fired, ok := w.Index(Counter{Kind: Fired, Clause: mp.Clause})
	if !ok {
		return nil, 0, Counted{}, ErrNoCover
	}
	for i := skip; i < len(c.next); i++ {
		if c.next[i] >= 0 {
			continue
		}
		var p prologue
		if c.late {
			p.emit(mov(asm.R6, asm.R0))
			c.address(&p)
		} else {
			p.emit(load(asm.R1, asm.RFP, at, asm.DWord))
		}
		p.add(c.count(asm.R1, asm.R2, fired)...)
		if c.late {
			p.emit(mov(asm.R0, asm.R6))
		}
		c.before[i] = append(c.before[i], p.insns...)
	}
	body, err := c.assemble()
	if err != nil || c.late {
		return body, 0, c.counted(), err
	}
	var p prologue
	p.emit(mov(asm.R6, asm.R1))
	if c.strings {
		p.emit(set(asm.RFP, at+coverString, 0))
	}
	c.address(&p)
	p.emit(store(asm.RFP, at, asm.R1, asm.DWord))
	if filtered {
		if reached, ok := w.Index(Counter{Kind: Reached, Clause: mp.Clause}); ok {
			p.add(c.count(asm.R1, asm.R2, reached)...)
		}
	}
	p.emit(mov(asm.R1, asm.R6))
	return putInFront(p.insns, body), len(p.insns), c.counted(), nil
}

// address sets r1 to the address of the counters of the CPU. It changes r0 to r5.
func (w *Cover) address(p *prologue) {
	p.emit(callHelper(asm.FnGetSmpProcessorId), aluImm(asm.And, asm.R0, int32(w.CPUs-1)), aluImm(asm.LSh, asm.R0, int32(w.Shift)))
	p.addMap(asm.R1, w.Map, 0)
	p.emit(aluReg(asm.Add, asm.R1, asm.R0))
}

func plain(all ...insn) (out asm.Instructions) {
	for _, w := range all {
		out = append(out, w.instruction())
	}
	return out
}

// count adds 1 to a word of the counters at the address in base; it changes reg. An atomic instruction would take longer than all
// the rest, so there is one only if programs can come between the others, on the same CPU. A run has one count, unless more
// than its end is counted.
func (c *covering) count(base, reg asm.Register, word int) asm.Instructions {
	off := wordOffset(word)
	if c.atomic {
		return append(plain(movImm(reg, 1)), asm.AddAtomic.Mem(base, reg, asm.DWord, off))
	}
	return plain(load(reg, base, off, asm.DWord), aluImm(asm.Add, reg, 1), store(base, off, reg, asm.DWord))
}

func wordOffset(word int) int16 { return int16(CoverHead + 8*word) }

// positions sets the positions of all instructions, and finds those of the clause's body: instructions with an effect at
// other positions than the attach point and the predicate. Code of macros and functions has positions of its own.
func (c *covering) positions() {
	c.lines, c.body = make([]position, len(c.next)), make([]bool, len(c.next))
	var last position
	for i := range c.next {
		if line, ok := c.insns[i].Source().(*btf.Line); ok {
			last = position{int(line.LineNumber()), int(line.LineColumn())}
		}
		c.lines[i] = last
		c.body[i] = i >= c.first && !last.in(c.clause.Predicate) && last != position{c.mp.Pos.Line, c.mp.Pos.Col} && last.line > 0 && !c.idle(i)
		taken := i+2 < len(c.next) && c.adds(i, 1) && c.insns[i+2].OpCode.Class() == asm.LdXClass && c.insns[i+2].Src == c.insns[i+1].Dst
		c.holds = c.holds || taken
		if c.holds && c.adds(i, -1) {
			c.body[i] = false
		}
	}
}

// adds reports whether an instruction adds a constant, which the one before it has loaded, to a word of memory atomically, or is
// that one.
func (c *covering) adds(i int, constant int64) bool {
	sets := func(i int) bool {
		return i >= 0 && c.insns[i].OpCode.Class().IsALU() && c.insns[i].OpCode.ALUOp() == asm.Mov && c.insns[i].OpCode.Source() == asm.ImmSource && c.insns[i].Constant == constant
	}
	to := func(i int) bool { return i < len(c.next) && c.insns[i].OpCode.AtomicOp() == asm.AddAtomic }
	return sets(i) && to(i+1) && c.insns[i+1].Src == c.insns[i].Dst || to(i) && sets(i-1) && c.insns[i].Src == c.insns[i-1].Dst
}

// idle reports whether an instruction only ends the program.
func (c *covering) idle(i int) bool {
	op := c.insns[i].OpCode
	switch class := op.Class(); class {
	case asm.ALUClass, asm.ALU64Class:
		return op.ALUOp() == asm.Mov && op.Source() == asm.ImmSource && c.insns[i].Dst == asm.R0
	case asm.JumpClass:
		return op.JumpOp() == asm.Ja || op.JumpOp() == asm.Exit
	}
	return false
}

// maxTail bounds the instructions that the code of an edge copies.
const maxTail = 8

// ends returns what is left of a program from an instruction on, if that is a straight line which needs no register that a call
// changes: it gives back memory that the program holds, and sets the result. Nothing is left to count if the event is lost there.
func (c *covering) ends(i int) (tail asm.Instructions, ok bool) {
	var set [asm.R10 + 1]bool
	for range c.next {
		if i < 0 || i >= len(c.next) || len(tail) > maxTail {
			return nil, false
		}
		ins := &c.insns[i]
		op := ins.OpCode
		known := func(r asm.Register) bool { return set[r] || r > asm.R5 }
		switch class := op.Class(); class {
		case asm.ALUClass, asm.ALU64Class:
			if ins.Dst > asm.R5 || op.ALUOp() != asm.Mov && !known(ins.Dst) || op.Source() == asm.RegSource && !known(ins.Src) {
				return nil, false
			}
			set[ins.Dst] = true
		case asm.StClass, asm.StXClass:
			if !known(ins.Dst) || class == asm.StXClass && !known(ins.Src) {
				return nil, false
			}
		case asm.JumpClass:
			if op.JumpOp() != asm.Ja && op.JumpOp() != asm.Exit {
				return nil, false
			}
		default:
			return nil, op.IsDWordLoad() && ins.Reference() != "" // it counts the event as lost
		}
		if op.Class() != asm.JumpClass {
			tail = append(tail, asm.Instruction{OpCode: op, Dst: ins.Dst, Src: ins.Src, Offset: ins.Offset, Constant: ins.Constant})
		} else if op.JumpOp() == asm.Exit {
			return append(tail, exit().instruction()), set[asm.R0]
		}
		i = c.next[i]
	}
	return nil, false
}

// leading reports for each instruction whether one with the property can follow it, or it has it.
func (c *covering) leading(has func(i int) bool) []bool {
	out := make([]bool, len(c.next))
	from := make([][]int, len(c.next))
	var work []int
	for i := range c.next {
		for _, to := range []int{c.next[i], c.target[i]} {
			if to >= 0 && to < len(from) {
				from[to] = append(from[to], i)
			}
		}
		if has(i) {
			out[i] = true
			work = append(work, i)
		}
	}
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		for _, j := range from[i] {
			if !out[j] {
				out[j] = true
				work = append(work, j)
			}
		}
	}
	return out
}

// readers are the helpers that read memory, and whether it is user memory.
var readers = map[asm.BuiltinFunc]bool{
	asm.FnProbeRead: false, asm.FnProbeReadStr: false, asm.FnProbeReadKernel: false, asm.FnProbeReadKernelStr: false,
	asm.FnProbeReadUser: true, asm.FnProbeReadUserStr: true,
}

// calls counts reads that fail and lookups.
func (c *covering) calls() {
	for i := c.first; i < len(c.next); i++ {
		ins := &c.insns[i]
		if !ins.IsBuiltinCall() {
			continue
		}
		helper, at := asm.BuiltinFunc(ins.Constant), c.lines[i]
		if user, reads := readers[helper]; reads {
			if set := c.lastSet(i, asm.R3); set >= 0 && c.insns[set].OpCode.Source() == asm.ImmSource && c.insns[set].OpCode.Class() != asm.LdXClass && c.insns[set].Constant == 0 && c.insns[set].OpCode.ALUOp() == asm.Mov {
				continue // a read of address 0 clears memory
			}
			word, ok := c.Index(Counter{ReadFailed, c.mp.Clause, at.line, at.col, user})
			if !ok {
				continue
			}
			off := wordOffset(word)
			c.before[i] = plain(store(asm.RFP, c.at+coverRead, asm.R3, asm.DWord))
			if c.decides(at) {
				c.strings = true
				c.before[i] = append(c.before[i], plain(store(asm.RFP, c.at+coverString, asm.R3, asm.DWord))...)
			}
			failed := plain(load(asm.R1, asm.RFP, c.at, asm.DWord))
			failed = append(failed, c.count(asm.R1, asm.R2, word)...)
			failed = append(failed, plain(store(asm.R1, off+8, asm.R0, asm.DWord), load(asm.R2, asm.RFP, c.at+coverRead, asm.DWord), store(asm.R1, off+16, asm.R2, asm.DWord))...)
			test := encode(asm.OpCode(asm.Jump32Class).SetJumpOp(asm.JSGE).SetSource(asm.ImmSource), asm.R0, 0, int16(len(failed)), 0)
			c.after[i] = append(plain(test), failed...)
			continue
		}
		if helper != asm.FnMapLookupElem {
			continue
		}
		for j := range c.clause.Reads {
			r := &c.clause.Reads[j]
			set := c.lastSet(i, asm.R1)
			if at != (position{r.Span.Line, r.Span.Col}) || set < 0 || !c.insns[set].IsLoadFromMap() || c.symbolOf(r.Map) != c.insns[set].Reference() {
				continue
			}
			if word, ok := c.Index(Counter{Kind: Lookups, Clause: c.mp.Clause, Line: at.line, Col: at.col}); ok {
				all := append(plain(load(asm.R1, asm.RFP, c.at, asm.DWord)), c.count(asm.R1, asm.R2, word)...)
				missing := c.count(asm.R1, asm.R2, word+1)
				all = append(all, jump(asm.JNE, asm.R0, 0, int16(len(missing))).instruction())
				c.after[i] = append(all, missing...)
			}
			break
		}
	}
}

// decides reports whether a position is in the predicate or a condition.
func (c *covering) decides(at position) bool {
	in := at.in(c.clause.Predicate)
	for i := range c.clause.Branches {
		in = in || at.in(&c.clause.Branches[i].Cond)
	}
	return in
}

// lastSet returns the instruction that has set a register before another one, in the same straight line of code; -1 if it is
// not known.
func (c *covering) lastSet(i int, reg asm.Register) int {
	for j := i - 1; j >= c.first; j-- {
		ins := &c.insns[j]
		switch ins.OpCode.Class() {
		case asm.JumpClass, asm.Jump32Class:
			return -1
		case asm.StClass, asm.StXClass:
			continue
		}
		if ins.Dst == reg {
			return j
		}
	}
	return -1
}

// decisions counts the edges on which the predicate is false: from a branch of the predicate to where the body cannot be reached
// any more.
func (c *covering) decisions() {
	if c.clause.Predicate == nil {
		return
	}
	to := c.leading(func(i int) bool { return c.body[i] })
	for i := c.first; i < len(c.next); i++ {
		if c.target[i] < 0 || !to[i] || !c.lines[i].in(c.clause.Predicate) {
			continue
		}
		test := testAt(c.clause.Tests, c.lines[i])
		c.edge(i, func(v int) bool { return !to[v] }, func(result int32, tail int) (int, bool) {
			c.edges++
			s := ending{counter: Counter{Kind: False, Clause: c.mp.Clause}, result: result, tail: tail}
			if test != nil {
				s.counter.Line, s.counter.Col = test.Span.Line, test.Span.Col
				s.test, s.reg, s.half = c.sampled(i, test)
			}
			return c.addEnding(s)
		})
	}
}

// returns counts the edges on which a test in the body ends the clause before its last statement, and does nothing more.
func (c *covering) returns() {
	if !c.clause.Returns || c.clause.Last == nil {
		return
	}
	last := position{c.clause.Last.Line, c.clause.Last.Col}
	strange := c.strange
	to := c.leading(func(i int) bool { return c.body[i] && !c.lines[i].before(last) })
	for i := c.first; i < len(c.next); i++ {
		at := c.lines[i]
		if _, taken := c.jumps[i]; c.target[i] < 0 || taken || !to[i] || !c.body[i] || !at.before(last) {
			continue
		}
		c.edge(i, func(v int) bool { return !to[v] }, func(result int32, tail int) (int, bool) {
			return c.addEnding(ending{counter: Counter{Kind: Early, Clause: c.mp.Clause, Line: at.line, Col: at.col}, result: result, tail: tail})
		})
	}
	c.strange = strange
}

// edge calls found for an edge of a branch that leaves, if the program then ends at once.
func (c *covering) edge(i int, leaves func(v int) bool, found func(result int32, tail int) (int, bool)) {
	next, target := c.next[i], c.target[i]
	if next < 0 || next >= len(c.next) || leaves(next) == leaves(target) {
		return
	}
	v := target
	if leaves(next) {
		v = next
	}
	tail, ok := c.ends(v)
	if !ok {
		c.strange = true
	}
	if len(tail) == 0 {
		return
	}
	at, result := 0, int32(tail[0].Constant)
	if len(tail) == 2 && tail[0].OpCode.Source() == asm.ImmSource { // it sets the result, and ends the program
		at, ok = found(result, 0)
	} else {
		at, ok = found(0, v)
	}
	switch {
	case !ok:
		c.strange = true
	case v == target:
		c.jumps[i] = at
	default: // the code after the branch leads to the ending
		c.falls[i], c.after[i] = at, plain(jump(asm.Ja, 0, 0, 0))
	}
}

// testAt returns the innermost test at a position, or nil.
func testAt(tests []manifest.Test, at position) *manifest.Test {
	if i := slices.IndexFunc(tests, func(t manifest.Test) bool { return at.in(&t.Span) }); i >= 0 {
		return &tests[i]
	}
	return nil
}

// sampled returns how the value of a test that is false at a branch is known: the test, and the register that has the value.
// The test is nil if it is not known.
func (c *covering) sampled(i int, t *manifest.Test) (of *manifest.Test, reg asm.Register, half bool) {
	ins := &c.insns[i]
	switch {
	case SampledBuiltin(t) != "":
		return t, noRegister, false
	case SampledText(t):
		for j := c.first; j < i; j++ {
			if c.insns[j].IsBuiltinCall() && c.lines[j].in(&t.Span) {
				switch asm.BuiltinFunc(c.insns[j].Constant) {
				case asm.FnProbeReadKernelStr, asm.FnProbeReadUserStr, asm.FnProbeReadStr:
					return t, noRegister, false
				}
			}
		}
		return nil, noRegister, false
	case t.Kind != "int" || ins.OpCode.Source() != asm.ImmSource || !compares(t.Op, ins.OpCode.JumpOp()) || ins.Constant != t.Number:
		return nil, noRegister, false
	}
	return t, ins.Dst, ins.OpCode.Class() == asm.Jump32Class
}

// SampledText reports whether the sampled values of a test are strings: the result of strncmp() says less than what it
// compares. (strcontains() changes its copy of the string.)
func SampledText(t *manifest.Test) bool {
	return t.Kind == "string" || SampledBuiltin(t) == "comm" || strings.HasPrefix(t.Left, "strncmp(")
}

// SampledBuiltin returns the builtin that the values of a test are of; "": none.
func SampledBuiltin(t *manifest.Test) string {
	if strings.HasPrefix(t.Left, "strncmp(comm,") {
		return "comm"
	}
	return t.Builtin
}

// compares reports whether a branch compares like an operator of the script, or like its opposite.
func compares(op string, jump asm.JumpOp) bool {
	switch op {
	case "==", "!=":
		return jump == asm.JEq || jump == asm.JNE
	case "<", ">=":
		return jump == asm.JLT || jump == asm.JGE || jump == asm.JSLT || jump == asm.JSGE
	case ">", "<=":
		return jump == asm.JGT || jump == asm.JLE || jump == asm.JSGT || jump == asm.JSLE
	}
	return false
}

// symbolOf returns the ELF symbol of a map of the script.
func (c *covering) symbolOf(name string) string { return c.Symbols[name] }

// addEnding returns the index of the first instruction of an ending, counted from the end of the function; false if there is no
// counter for it.
func (c *covering) addEnding(s ending) (int, bool) {
	if at, ok := c.endingAt[s]; ok {
		return at, true
	}
	word, ok := c.Index(s.counter)
	if !ok {
		return 0, false
	}
	at := Slots(c.endings)
	c.endingAt[s] = at
	var p prologue
	if s.tail != 0 && s.reg != noRegister {
		s.test = nil // the tail may use all registers that could have the value
	}
	if s.test != nil && s.reg != noRegister {
		p.emit(mov(asm.R7, s.reg))
	}
	c.countAndDraw(&p, &s, word, asm.R7)
	if s.tail != 0 {
		tail, _ := c.ends(s.tail)
		p.add(tail...)
	} else {
		p.emit(movImm(asm.R0, s.result), exit())
	}
	c.endings = append(c.endings, p.insns...)
	return at, true
}

// countAndDraw adds 1 to the word of an ending, and adds the value to the samples if there is a test. Without one it changes r1 and
// r2 only.
func (c *covering) countAndDraw(p *prologue, s *ending, word int, value asm.Register) {
	if c.late {
		c.address(p)
	} else {
		p.emit(load(asm.R1, asm.RFP, c.at, asm.DWord))
	}
	p.add(c.count(asm.R1, asm.R2, word)...)
	if s.test != nil {
		if c.atomic {
			p.emit(load(asm.R2, asm.R1, wordOffset(word), asm.DWord))
		}
		c.draw(p, s, value)
		p.land(p.leaving)
	}
}

// draw adds the value of a test to the samples: r1 has the address of the counters, r2 the number of times that the test was
// false on this CPU, and value what is compared, if it was in a register. It changes r0 to r5.
func (c *covering) draw(p *prologue, s *ending, value asm.Register) {
	t := s.test
	p.emit(jump(asm.JLE, asm.R2, sampleAll, 2), aluImm(asm.And, asm.R2, sampleEvery-1))
	p.leave(asm.JNE, asm.R2, 0)
	if c.late {
		p.emit(store(asm.RFP, c.at, asm.R1, asm.DWord))
	}
	for off := int16(8); off < SampleKey; off += 8 {
		p.emit(set(asm.R1, off, 0))
	}
	p.emit(set(asm.R1, 0, int32(c.Sample(c.mp.Clause, t))))
	keep := func(reg asm.Register) {
		p.emit(load(asm.R1, asm.RFP, c.at, asm.DWord), store(asm.R1, 8, reg, asm.DWord))
	}
	text := func() { p.emit(aluImm(asm.Add, asm.R1, 8)) }
	switch builtin := SampledBuiltin(t); builtin {
	case "comm":
		text()
		p.emit(movImm(asm.R2, 16), callHelper(asm.FnGetCurrentComm))
	case "pid", "tid":
		if c.Namespace == (kernelfs.Namespace{}) {
			p.emit(callHelper(asm.FnGetCurrentPidTgid))
			if builtin == "pid" {
				p.emit(aluImm(asm.RSh, asm.R0, 32))
			} else {
				p.emit(aluImm(asm.LSh, asm.R0, 32), aluImm(asm.RSh, asm.R0, 32))
			}
			keep(asm.R0)
			break
		}
		p.emit(mov(asm.R3, asm.R1), aluImm(asm.Add, asm.R3, 16))
		p.add(asm.LoadImm(asm.R1, int64(c.Namespace.Dev), asm.DWord), asm.LoadImm(asm.R2, int64(c.Namespace.Ino), asm.DWord))
		off := int16(16) // struct bpf_pidns_info {u32 pid, tgid}
		if builtin == "pid" {
			off += 4
		}
		p.emit(movImm(asm.R4, 8), callHelper(asm.FnGetNsCurrentPidTgid),
			load(asm.R1, asm.RFP, c.at, asm.DWord), load(asm.R0, asm.R1, off, asm.Word), set(asm.R1, 16, 0))
		keep(asm.R0)
	case "uid", "gid":
		p.emit(callHelper(asm.FnGetCurrentUidGid))
		if builtin == "gid" {
			p.emit(aluImm(asm.RSh, asm.R0, 32))
		} else {
			p.emit(aluImm(asm.LSh, asm.R0, 32), aluImm(asm.RSh, asm.R0, 32))
		}
		keep(asm.R0)
	case "cpu":
		p.emit(callHelper(asm.FnGetSmpProcessorId))
		keep(asm.R0)
	default:
		if SampledText(t) {
			helper := asm.FnProbeReadKernelStr
			for j := range c.next {
				if c.insns[j].IsBuiltinCall() && c.lines[j].in(&t.Span) {
					switch f := asm.BuiltinFunc(c.insns[j].Constant); f {
					case asm.FnProbeReadKernelStr, asm.FnProbeReadUserStr, asm.FnProbeReadStr:
						helper = f
					}
				}
			}
			text()
			p.emit(movImm(asm.R2, SampleText), load(asm.R3, asm.RFP, c.at+coverString, asm.DWord))
			p.emit(callHelper(helper))
			break
		}
		if s.half {
			p.emit(aluImm(asm.LSh, value, 32), aluImm(asm.RSh, value, 32))
		}
		p.emit(store(asm.R1, 8, value, asm.DWord))
	}
	p.emit(load(asm.R2, asm.RFP, c.at, asm.DWord))
	p.add(c.samples())
	p.emit(callHelper(asm.FnMapLookupElem), jump(asm.JEq, asm.R0, 0, 3), movImm(asm.R1, 1))
	p.add(asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0))
	p.leave(asm.Ja, 0, 0)
	p.emit(load(asm.R2, asm.RFP, c.at, asm.DWord), mov(asm.R3, asm.R2), aluImm(asm.Add, asm.R3, SampleKey), set(asm.R3, 0, 1), movImm(asm.R4, 0))
	p.add(c.samples())
	p.emit(callHelper(asm.FnMapUpdateElem))
}

// ownMap is the key of the specification of a map of the loader, in the metadata of the instruction that loads its address.
type ownMap struct{}

// samples loads the address of the map of samples into r1.
func (w *Cover) samples() asm.Instruction {
	ins := asm.LoadMapPtr(asm.R1, w.Samples)
	ins.Metadata.Set(ownMap{}, &ebpf.MapSpec{Type: ebpf.Hash, KeySize: SampleKey, ValueSize: 8})
	return ins
}

// assemble puts the inserted code in its places.
func (c *covering) assemble() (asm.Instructions, error) {
	n := len(c.next)
	start, number := make([]int, n+1), 0 // of the code before an instruction
	at := make([]int, n)
	for i := range n {
		start[i] = number
		at[i] = number + Slots(c.before[i])
		number = at[i] + c.raw[i+1] - c.raw[i] + Slots(c.after[i])
	}
	start[n] = number
	var out asm.Instructions
	for i := range n {
		ins, before, after := c.insns[i], c.before[i], slices.Clone(c.after[i])
		end := at[i] + c.raw[i+1] - c.raw[i]
		to, jumps := -1, true
		switch {
		case c.target[i] >= 0:
			to = start[c.target[i]]
			if ending, ok := c.jumps[i]; ok {
				to = number + ending
			}
			if ending, ok := c.falls[i]; ok {
				off := number + ending - end - 1
				if off > maxJump {
					return nil, ErrNoCover
				}
				after[0].Offset = int16(off)
			}
		case c.gone[i]:
			to = start[c.next[i]]
		default:
			jumps = false
		}
		if jumps {
			off := to - end
			if off > maxJump || off < -maxJump {
				return nil, ErrNoCover
			}
			ins.Offset = int16(off)
		}
		if len(before) > 0 && (i == 0 || ins.Symbol() != "") {
			first := ins
			before = slices.Clone(before)
			before[0] = withHead(before[0], &first)
			ins = btf.WithFuncMetadata(ins, nil).WithSymbol("")
		}
		out = append(append(append(out, before...), ins), after...)
	}
	for i, to := range c.back {
		off := start[to] - number - Slots(c.endings[:i+1])
		if off < -maxJump {
			return nil, ErrNoCover
		}
		c.endings[i].Offset = int16(off)
	}
	out = append(out, c.endings...)
	return append(out, c.insns[n:]...), nil
}
