// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"maps"

	"github.com/cilium/ebpf/asm"

	"btc/ir"
)

// verifierLimit is BPF_COMPLEXITY_LIMIT_INSNS, the maximum number of instructions that a
// kernel's verifier walks.
const verifierLimit = 1_000_000

// pendingLimit is BPF_COMPLEXITY_LIMIT_JMP_SEQ, the maximum number of branches on one path whose
// other side is pending (5.2).
const pendingLimit = 8192

// maxCompared is the number of states kept per instruction, the most recent ones, with which a new
// state is compared. The kernel drops states that rarely lead to pruning (miss_cnt and hit_cnt in
// is_state_visited, kernel/bpf/verifier.c).
const maxCompared = 16

// walk estimates the number of instructions that a kernel's verifier walks. Like the kernel it
// walks all paths, the fall-through side first, and prunes a path at a state that an earlier one
// covers: pointers of the same kind, and the same ranges for numbers that a decided branch or an
// address made precise. It knows less about numbers than the kernel, does not follow calls and
// callbacks into subprograms (each is walked once), and treats each helper's result as a number or
// a nullable pointer.
type walk struct {
	*flow
	live  []uint16 // registers that are live before an instruction
	words []uint64 // words of the frame that are live before an instruction, one bit each
	joins []bool   // instructions at which states are kept
	seen  [][]*kept
	todo  []*trail
	steps int
	limit int // maximum number of steps
	// crowded is set if more than pendingLimit branches were pending on one path.
	crowded bool
	ids     int
}

type kind uint8

const (
	number  kind = iota
	pointer      // a pointer that is not null
	maybe        // an element or record, or null
)

// content is the content of a register or a word of the stack frame.
type content struct {
	kind kind
	id   int // the same for all copies of a value; 0: no copies
	r    ir.Range
	// for frame, r is the offset of a pointer into the stack frame.
	frame bool
}

// contents are the registers and the words of the stack frame.
type contents struct {
	reg  [11]content
	slot map[int16]content
}

// kept is a state that was kept on a path, and how the path got there.
type kept struct {
	contents
	precise uint16
	words   map[int16]bool // precise words of the stack frame
	trace   []int
	up      *kept
	open    int // paths from here that have not ended
}

type trail struct {
	at int
	contents
	trace        []int // steps since up
	up           *kept
	jumps, since int // jumps and instructions since up was kept
}

// estimate returns the number of instructions (limit + 1 if it exceeds limit), and whether more
// branches are pending at the same time than a kernel allows, at which point it stops.
func (f *flow) estimate(limit int) (steps int, crowded bool) {
	w := &walk{flow: f, limit: limit, joins: make([]bool, len(f.insns)), seen: make([][]*kept, len(f.insns))}
	w.findLive()
	for i := range f.insns {
		if i == 0 || f.insns[i].Symbol() != "" {
			s := trail{at: i}
			for r := range s.reg {
				s.reg[r].r = ir.FullRange
			}
			s.reg[1].kind, s.reg[10] = pointer, content{kind: pointer, r: ir.RangeOf(0), frame: true}
			if i > 0 { // arguments of a callback: as bpf_for_each_map_elem calls it, with map, key and value
				s.reg[2].kind, s.reg[3].kind = pointer, pointer
			}
			w.todo = append(w.todo, &s)
			w.run()
		}
	}
	return w.steps, w.crowded
}

// next lists the successors of an instruction.
func (w *walk) next(i int) (to []int) {
	ins := &w.insns[i]
	class := ins.OpCode.Class()
	if class != asm.JumpClass && class != asm.Jump32Class {
		return []int{i + 1}
	}
	switch op := ins.OpCode.JumpOp(); op {
	case asm.Exit:
		return nil
	case asm.Call:
		return []int{i + 1}
	case asm.Ja:
		off := int(ins.Offset)
		if class == asm.Jump32Class {
			off = int(ins.Constant)
		}
		return []int{w.index[w.raw[i]+1+off]}
	}
	return []int{i + 1, w.index[w.raw[i]+1+int(ins.Offset)]}
}

// uses returns the registers that an instruction reads and writes.
func uses(ins *asm.Instruction) (read, write uint16) {
	bit := func(r asm.Register) uint16 { return 1 << r }
	switch class := ins.OpCode.Class(); {
	case class == asm.JumpClass || class == asm.Jump32Class:
		switch op := ins.OpCode.JumpOp(); {
		case op == asm.Exit:
			return 1, 0
		case op == asm.Call:
			return 0x3e, 0x3f // reads r1 to r5, writes r0 to r5
		case op == asm.Ja:
			return 0, 0
		}
		read = bit(ins.Dst)
		if ins.OpCode.Source() == asm.RegSource {
			read |= bit(ins.Src)
		}
		return read, 0
	case class == asm.ALUClass || class == asm.ALU64Class:
		if ins.OpCode.ALUOp() != asm.Mov {
			read = bit(ins.Dst)
		}
		if ins.OpCode.Source() == asm.RegSource && ins.OpCode.ALUOp() != asm.Swap {
			read |= bit(ins.Src)
		}
		return read, bit(ins.Dst)
	case class == asm.LdXClass:
		return bit(ins.Src), bit(ins.Dst)
	case class == asm.StXClass:
		return bit(ins.Src) | bit(ins.Dst), 0
	case class == asm.StClass:
		return bit(ins.Dst), 0
	case ins.OpCode.IsDWordLoad():
		return 0, bit(ins.Dst)
	}
	return 0, 0
}

// findLive computes live registers and join points. It assumes that a call reads only those
// argument registers that are set.
func (w *walk) findLive() {
	w.live, w.words = make([]uint16, len(w.insns)+1), make([]uint64, len(w.insns)+1)
	for changed := true; changed; {
		changed = false
		for i := len(w.insns) - 1; i >= 0; i-- {
			var out uint16
			var words uint64
			for _, to := range w.next(i) {
				out, words = out|w.live[to], words|w.words[to]
			}
			ins := &w.insns[i]
			read, write := uses(ins)
			switch class := ins.OpCode.Class(); {
			case class == asm.LdXClass && ins.Src == asm.R10:
				words |= word(ins.Offset)
			case (class == asm.StXClass || class == asm.StClass) && ins.Dst == asm.R10 && ins.OpCode.Size() == asm.DWord:
				words &^= word(ins.Offset)
			}
			if in := out&^write | read; in != w.live[i] || words != w.words[i] {
				w.live[i], w.words[i], changed = in, words, true
			}
		}
	}
	// The kernel keeps states at branches and at the targets of jumps (mark_prune_point in check_cfg).
	for i := range w.insns {
		if to := w.next(i); len(to) == 2 {
			w.joins[i], w.joins[to[1]] = true, true
		} else if len(to) == 1 && to[0] != i+1 {
			w.joins[to[0]] = true
		}
	}
}

// word returns the bit for the word of the frame at an offset.
func word(off int16) uint64 { return 1 << (uint(-int(off)-1) / 8 & 63) }

func (w *walk) run() {
	for len(w.todo) > 0 && w.steps <= w.limit && !w.crowded {
		p := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		for p != nil && p.at < len(w.insns) && w.steps <= w.limit && !w.crowded {
			if w.joins[p.at] && w.known(p) {
				break
			}
			w.steps++
			p.since++
			p.trace = append(p.trace, p.at)
			if !w.execute(p) {
				break
			}
		}
		// A state counts for pruning once all paths from it have ended (update_branch_counts).
		for k := p.up; k != nil; k = k.up {
			if k.open--; k.open > 0 {
				break
			}
		}
	}
}

// known reports whether a kept state covers p. If none does, it may keep p.
func (w *walk) known(p *trail) bool {
	seen := w.seen[p.at]
	for _, k := range seen[max(0, len(seen)-maxCompared):] {
		if k.open == 0 && w.allows(k, p) {
			// What had to be precise on the path of k has to be on this one, too (propagate_precision).
			w.precise(p.trace, p.up, k.precise&w.live[p.at], k.words)
			return true
		}
	}
	// The kernel keeps a state only every two jumps and eight instructions (add_new_state in is_state_visited).
	if p.up == nil || p.jumps >= 2 && p.since >= 8 {
		k := &kept{
			contents: contents{p.reg, maps.Clone(p.slot)},
			words:    map[int16]bool{},
			trace:    p.trace,
			up:       p.up,
			open:     1,
		}
		w.seen[p.at] = append(w.seen[p.at], k)
		p.up, p.trace, p.jumps, p.since = k, nil, 0, 0
	}
	return false
}

// allows reports whether k covers p, as states_equal decides: of what is live, pointers must be of one kind, and a
// precise number within k's range. A number that is not precise covers any (regsafe).
func (w *walk) allows(k *kept, p *trail) bool {
	one := func(old, now content, precise bool) bool {
		if old.kind != now.kind {
			return false
		}
		return old.kind != number || !precise || old.r.Join(now.r) == old.r
	}
	for r := range 10 { // r10 is the frame pointer in all states
		if w.live[p.at]>>r&1 != 0 && !one(k.reg[r], p.reg[r], k.precise>>r&1 != 0) {
			return false
		}
	}
	for at, old := range k.slot {
		if w.words[p.at]&word(at) == 0 {
			continue
		}
		now, ok := p.slot[at]
		if !ok {
			now.r = ir.FullRange
		}
		if !one(old, now, k.words[at]) {
			return false
		}
	}
	return true
}

// precise marks the sources of the numbers in regs and words as precise, backwards along the path.
func (w *walk) precise(trace []int, up *kept, regs uint16, words map[int16]bool) {
	words = maps.Clone(words)
	for regs != 0 || len(words) > 0 {
		for i := len(trace) - 1; i >= 0; i-- {
			ins := &w.insns[trace[i]]
			class := ins.OpCode.Class()
			read, write := uses(ins)
			switch {
			case class == asm.LdXClass && regs&write != 0:
				// A word of the frame was spilled: precision continues at its store. Other memory has no source.
				regs &^= write
				if ins.Src == asm.R10 && ins.OpCode.Size() == asm.DWord {
					if words == nil {
						words = map[int16]bool{}
					}
					words[ins.Offset] = true
				}
			case (class == asm.StXClass || class == asm.StClass) && ins.Dst == asm.R10 && words[ins.Offset]:
				delete(words, ins.Offset)
				if class == asm.StXClass {
					regs |= 1 << ins.Src
				}
			case class == asm.ALUClass || class == asm.ALU64Class:
				if regs&write != 0 { // of all operands, whatever the operation (backtrack_insn)
					regs = regs&^write | read
				}
			case class != asm.StXClass && class != asm.StClass:
				regs &^= write
			}
			regs &^= 1 << 10
		}
		if up == nil {
			return
		}
		// Where the parent state has it as precise, an earlier walk has marked its sources.
		fresh := regs &^ up.precise
		for at := range words {
			if up.words[at] {
				delete(words, at)
			} else {
				up.words[at] = true
			}
		}
		up.precise |= regs
		regs = fresh
		trace, up = up.trace, up.up
	}
}

var rangeOps = map[asm.ALUOp]ir.Op{
	asm.Add:  ir.OpAdd,
	asm.Sub:  ir.OpSub,
	asm.Mul:  ir.OpMul,
	asm.Div:  ir.OpUDiv,
	asm.Mod:  ir.OpUMod,
	asm.And:  ir.OpAnd,
	asm.Or:   ir.OpOr,
	asm.Xor:  ir.OpXor,
	asm.LSh:  ir.OpShl,
	asm.RSh:  ir.OpLShr,
	asm.ArSh: ir.OpAShr,
}

// execute simulates one instruction, and reports whether the path continues.
func (w *walk) execute(p *trail) bool {
	ins := &w.insns[p.at]
	class := ins.OpCode.Class()
	switch {
	case class == asm.JumpClass || class == asm.Jump32Class:
		return w.branch(p, ins)
	case class == asm.ALUClass || class == asm.ALU64Class:
		w.compute(p, ins)
	case ins.OpCode.IsDWordLoad():
		p.reg[ins.Dst] = content{r: ir.RangeOf(ins.Constant)}
		if ins.Src != asm.R0 || ins.Reference() != "" || ins.Map() != nil {
			p.reg[ins.Dst] = content{kind: pointer}
		}
	case class == asm.LdXClass:
		c, ok := p.slot[ins.Offset]
		if !ok || ins.Src != asm.R10 || ins.OpCode.Size() != asm.DWord {
			c = content{r: ir.FullRange}
			if n := ins.OpCode.Size().Sizeof(); n < 8 {
				c.r = ir.URange(0, 1<<(8*n)-1)
			}
		}
		p.reg[ins.Dst] = c
	case class == asm.StXClass && ins.OpCode.Mode() == asm.MemMode && ins.Dst == asm.R10:
		w.save(p, ins, p.reg[ins.Src])
	case class == asm.StClass && ins.Dst == asm.R10:
		w.save(p, ins, content{r: ir.RangeOf(ins.Constant)})
	}
	p.at++
	return true
}

func (w *walk) save(p *trail, ins *asm.Instruction, c content) {
	for at := range p.slot {
		if at < ins.Offset+8 && ins.Offset < at+8 {
			delete(p.slot, at)
		}
	}
	// Only a whole word is a spill; the bytes of a smaller store are STACK_MISC (check_stack_write_fixed_off).
	if ins.OpCode.Size() == asm.DWord {
		if p.slot == nil {
			p.slot = map[int16]content{}
		}
		p.slot[ins.Offset] = c
	}
}

func (w *walk) compute(p *trail, ins *asm.Instruction) {
	op, src := ins.OpCode.ALUOp(), content{r: ir.RangeOf(ins.Constant)}
	if ins.OpCode.Source() == asm.RegSource {
		src = p.reg[ins.Src]
	}
	wide, dst := ins.OpCode.Class() == asm.ALU64Class, p.reg[ins.Dst]
	switch {
	case op == asm.Mov && wide:
		if src.id == 0 && ins.OpCode.Source() == asm.RegSource { // copies share an ID, so that a test narrows all (5.10)
			w.ids++
			src.id = w.ids
			p.reg[ins.Src].id = w.ids
		}
		dst = src
	case op == asm.Mov: // 32 bits: the upper half is cleared, so that the result is not a copy
		dst = content{r: src.r}
		if src.kind != number {
			dst.r = ir.FullRange
		}
	case wide && (dst.kind != number || src.kind != number):
		if ins.OpCode.Source() == asm.RegSource { // the offset becomes precise
			w.precise(p.trace, p.up, 1<<ins.Src, nil)
		}
		if dst.frame && op == asm.Add {
			dst.r = ir.BinaryRange(ir.OpAdd, dst.r, src.r)
			break
		}
		dst = content{kind: pointer}
	case rangeOps[op] != ir.OpInvalid:
		dst = content{r: ir.BinaryRange(rangeOps[op], dst.r, src.r)}
	default:
		dst = content{r: ir.FullRange}
	}
	if !wide && dst.r.UMax > 1<<32-1 {
		dst.r = ir.URange(0, 1<<32-1)
	}
	p.reg[ins.Dst] = dst
}

var conds = map[asm.JumpOp]ir.Cond{
	asm.JEq:  ir.EQ,
	asm.JNE:  ir.NE,
	asm.JLT:  ir.ULT,
	asm.JLE:  ir.ULE,
	asm.JGT:  ir.UGT,
	asm.JGE:  ir.UGE,
	asm.JSLT: ir.SLT,
	asm.JSLE: ir.SLE,
	asm.JSGT: ir.SGT,
	asm.JSGE: ir.SGE,
}

// branch follows one side of a jump and saves the other one for later.
func (w *walk) branch(p *trail, ins *asm.Instruction) bool {
	to := w.next(p.at)
	op := ins.OpCode.JumpOp()
	if op == asm.Call {
		w.call(p, ins)
	}
	if len(to) > 0 {
		p.jumps++
	}
	if len(to) < 2 {
		if len(to) == 1 {
			p.at = to[0]
		}
		return len(to) == 1
	}
	a, b := &p.reg[ins.Dst], content{r: ir.RangeOf(ins.Constant)}
	if ins.OpCode.Source() == asm.RegSource {
		b = p.reg[ins.Src]
	}
	cond, ordered := conds[op]
	narrow := ins.OpCode.Class() == asm.Jump32Class && (a.r.UMax > 1<<31-1 || b.r.UMax > 1<<31-1)
	if a.kind == number && b.kind == number && ordered && !narrow {
		// A decided branch depends on the numbers it compares, which become precise (mark_chain_precision after
		// is_branch_taken in check_cond_jmp_op).
		if yes, known := cond.Decide(a.r, b.r); known {
			regs := uint16(1) << ins.Dst
			if ins.OpCode.Source() == asm.RegSource {
				regs |= 1 << ins.Src
			}
			w.precise(p.trace, p.up, regs, nil)
			p.at = to[0]
			if yes {
				p.at = to[1]
			}
			return true
		}
	}
	if a.kind == pointer && b.kind == number && (op == asm.JEq || op == asm.JNE) { // never null
		p.at = to[0]
		if op == asm.JNE {
			p.at = to[1]
		}
		return true
	}
	// The kernel pushes the side that jumps and walks the other one first (push_stack).
	other := *p
	other.at, other.slot, other.trace = to[1], maps.Clone(p.slot), append([]int(nil), p.trace...)
	p.at = to[0]
	if ordered && !narrow {
		learn(&other.contents, int(ins.Dst), cond, b.r)
		learn(&p.contents, int(ins.Dst), cond.Negate(), b.r)
	}
	if p.up != nil {
		p.up.open++
	}
	w.todo = append(w.todo, &other)
	w.crowded = w.crowded || len(w.todo) > pendingLimit
	return true
}

// learn narrows a register and its copies by the condition of a branch.
func learn(c *contents, reg int, cond ir.Cond, than ir.Range) {
	was := c.reg[reg]
	now := was
	switch {
	case was.kind == maybe && cond == ir.EQ:
		now = content{id: was.id, r: ir.RangeOf(0)}
	case was.kind == maybe:
		now.kind = pointer
	case was.kind == number:
		now.r = cond.Refine(was.r, than)
	}
	c.reg[reg] = now
	if was.id == 0 {
		return
	}
	for r := range c.reg {
		if c.reg[r].id == was.id {
			c.reg[r] = now
		}
	}
	for at, s := range c.slot {
		if s.id == was.id {
			c.slot[at] = now
		}
	}
}

// call forgets what a helper may write: the bytes at its pointers into the frame, as many as the
// accompanying size argument says.
func (w *walk) call(p *trail, ins *asm.Instruction) {
	for r := 1; r < 6; r++ {
		off, known := p.reg[r].r.Const()
		if !p.reg[r].frame || !known {
			continue
		}
		// The kernel knows from the helper's prototype which argument is the size (ARG_CONST_SIZE); here a constant
		// beside the pointer is.
		size := int64(8)
		for _, beside := range []int{r - 1, r + 1} {
			if n, ok := p.reg[beside].r.Const(); ok && beside > 0 && beside < 6 && p.reg[beside].kind == number {
				size = n
			}
		}
		for at := range p.slot {
			if int64(at)+8 > off && int64(at) < off+size {
				p.slot[at] = content{r: ir.FullRange}
			}
		}
	}
	for r := range 6 {
		p.reg[r] = content{r: ir.FullRange}
	}
	if ins.IsBuiltinCall() {
		switch asm.BuiltinFunc(ins.Constant) {
		case asm.FnMapLookupElem, asm.FnRingbufReserve:
			w.ids++
			p.reg[0] = content{kind: maybe, id: w.ids}
		}
	}
}
