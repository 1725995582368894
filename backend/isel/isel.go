// SPDX-License-Identifier: Apache-2.0

// Package isel is instruction selection: it turns core IR into machine code with virtual
// registers.
//
// It takes a function whose ops are all core and whose slots are in the frame, and returns
// a mach.Func in SSA form. Operands that need no register stay operands (constants, slot
// addresses, maps); address offsets fold into loads and stores; comparisons fold into the
// branches and selects that use them; unused values are not selected.
package isel

import (
	"fmt"
	"slices"

	"btc/backend/mach"
	"btc/ir"
)

// selector is the state for one function. Slices are indexed by Value.ID.
type selector struct {
	f       *ir.Func
	out     *mach.Func
	cur     *mach.Block
	pos     ir.Pos
	alias   []*ir.Value // the value that replaces this one
	narrow  []bool      // an extension that only branches read: they compare the lower bits of its argument
	plain   []bool      // a load of a signed number whose extension is not read
	needed  []bool      // the value must be in a register
	reg     []mach.Reg
	order   []*ir.Block   // reachable blocks in reverse postorder: definitions before uses
	blocks  []*mach.Block // by Block.ID; nil if unreachable
	preds   [][]edge      // by Block.ID
	params  []bool        // by Block.ID: the block's parameters are real, not aliases
	bounds  boundSet
	large   map[mach.Operand]mach.Reg  // constants of 64 bits that the current block has in registers, since its last call
	offsets map[string]ir.GlobalOffset // may be nil
	bases   []base                     // addresses of globals that are in registers, as large
	buf     []mach.Insn                // instructions of the current block
	err     error
}

type edge struct {
	from *ir.Block
	n    int
}

// Select selects f. Errors are the script's: ir.Diag. offsets has the offsets of globals
// (ir.LayoutGlobals): a global near another one is addressed relative to it.
func Select(f *ir.Func, offsets map[string]ir.GlobalOffset) (*mach.Func, error) {
	s := newSelector(f)
	s.offsets = offsets
	s.findEdges()
	s.findAliases()
	s.findUnread()
	s.findNarrow()
	s.markNeeded()
	s.entry()
	for _, b := range s.order {
		s.block(b)
	}
	s.out.Bounded = s.bounds.result(s.out.NVirt)
	return s.out, s.err
}

func newSelector(f *ir.Func) *selector {
	values, blocks := 0, 0
	for _, b := range f.Blocks {
		blocks = max(blocks, b.ID+1)
		for _, v := range b.Params {
			values = max(values, v.ID+1)
		}
		for _, v := range b.Values {
			values = max(values, v.ID+1)
		}
	}
	s := &selector{
		f:      f,
		out:    &mach.Func{Name: f.Name, Prog: f.Prog, Pos: f.Pos},
		alias:  make([]*ir.Value, values),
		narrow: make([]bool, values),
		plain:  make([]bool, values),
		needed: make([]bool, values),
		reg:    make([]mach.Reg, values),
		blocks: make([]*mach.Block, blocks),
		preds:  make([][]edge, blocks),
		params: make([]bool, blocks),
		large:  map[mach.Operand]mach.Reg{},
	}
	for n := range s.reg {
		s.reg[n] = mach.NoReg
	}
	for _, slot := range f.Slots {
		if slot.Class == ir.Frame {
			s.out.FrameUsed = max(s.out.FrameUsed, -slot.Off)
		}
	}
	return s
}

// findEdges finds the reachable blocks, their order and their incoming edges.
// A branch on a constant has one edge.
func (s *selector) findEdges() {
	entry := s.f.Entry()
	s.order = s.postorder()
	slices.Reverse(s.order)
	for _, b := range s.order {
		for _, n := range liveSuccs(b) {
			to := b.Term.Succs[n].To
			s.preds[to.ID] = append(s.preds[to.ID], edge{b, n})
		}
	}
	for _, b := range s.order {
		mb := s.out.NewBlock()
		mb.ID = b.ID // blocks keep their names through the dumps
		mb.Cold = b.Cold
		s.blocks[b.ID] = mb
		s.params[b.ID] = b == entry || len(s.preds[b.ID]) != 1
	}
	s.out.ReserveBlockIDs(len(s.blocks))
}

func (s *selector) postorder() []*ir.Block {
	type frame struct {
		b    *ir.Block
		next int
	}
	var post []*ir.Block
	seen := make([]bool, len(s.blocks))
	seen[s.f.Entry().ID] = true
	stack := []frame{{s.f.Entry(), 0}}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		succs := liveSuccs(top.b)
		if top.next == len(succs) {
			post = append(post, top.b)
			stack = stack[:len(stack)-1]
			continue
		}
		to := top.b.Term.Succs[succs[len(succs)-1-top.next]].To // the first target is laid out next
		top.next++
		if !seen[to.ID] {
			seen[to.ID] = true
			stack = append(stack, frame{to, 0})
		}
	}
	return post
}

func liveSuccs(b *ir.Block) []int {
	switch t := &b.Term; {
	case t.Kind == ir.Br && t.Arg.IsConst():
		if t.Arg.Imm != 0 {
			return []int{0}
		}
		return []int{1}
	case t.Kind == ir.Br:
		return []int{0, 1}
	case t.Kind == ir.Jump:
		return []int{0}
	}
	return nil
}

// findAliases finds values that equal another value.
func (s *selector) findAliases() {
	for _, b := range s.order {
		if !s.params[b.ID] {
			e := s.preds[b.ID][0]
			for n, p := range b.Params {
				s.alias[p.ID] = e.from.Term.Succs[e.n].Args[n]
			}
		}
		for _, v := range b.Values {
			switch v.Op {
			case ir.OpNonNull, ir.OpCast:
				s.alias[v.ID] = v.Args[0]
			case ir.OpBoolInt:
				if v.Args[0].IsConst() {
					s.alias[v.ID] = v.Args[0]
				}
			case ir.OpZext:
				if x := v.Args[0]; (x.Op == ir.OpLoad || x.Op == ir.OpGlobal) && !x.Mem.Signed() &&
					x.Mem.Size() <= v.Mem.Size() {
					s.alias[v.ID] = x
				}
			}
		}
	}
}

// findNarrow finds the extensions from 32 bits that only branches read, in
// comparisons with constants that 32 bits decide.
func (s *selector) findNarrow() {
	extends := func(v *ir.Value) bool {
		return v.Op == ir.OpSext && v.Mem == ir.S32 || v.Op == ir.OpZext && v.Mem == ir.U32
	}
	compares := func(v *ir.Value) bool { // an extension with a constant that fits both widths
		if v.Op != ir.OpICmp {
			return false
		}
		c := v.Args[1]
		return c.IsConst() && extends(v.Args[0]) && c.Imm == int64(int32(c.Imm)) &&
			(c.Imm >= 0 || v.Args[0].Op == ir.OpSext && (v.Cond >= ir.SLT || v.Cond <= ir.NE))
	}
	signed := func(v *ir.Value) bool { return v.Cond >= ir.SLT && v.Args[0].Op == ir.OpZext } // not by 32 bits
	for _, b := range s.order {
		for _, v := range b.Values {
			if extends(v) {
				s.narrow[v.ID] = true
			}
		}
	}
	wide := func(v *ir.Value) {
		if v.ID >= 0 && v.Op != ir.OpParam {
			s.narrow[v.ID] = false
		}
	}
	for _, b := range s.order {
		for _, v := range b.Values {
			for _, a := range v.Args {
				if !compares(v) || signed(v) {
					wide(a)
				}
				if a.Op == ir.OpICmp { // a select or a number
					for _, x := range a.Args {
						wide(x)
					}
				}
			}
		}
		b.Term.Uses(func(v **ir.Value) {
			wide(*v)
			if a := *v; a.Op == ir.OpICmp && a != b.Term.Arg {
				for _, x := range a.Args {
					wide(x)
				}
			}
		})
	}
}

// compared returns the value whose bits a comparison looks at, all or the lower 32.
func (s *selector) compared(c *ir.Value) (v *ir.Value, low bool) {
	v = s.resolve(c.Args[0])
	if v.ID >= 0 && v.Op != ir.OpParam && s.narrow[v.ID] {
		return v.Args[0], true
	}
	return v, false
}

// resolve follows aliases.
func (s *selector) resolve(v *ir.Value) *ir.Value {
	for v.ID >= 0 && s.alias[v.ID] != nil {
		v = s.alias[v.ID]
	}
	return v
}

// coreOperand returns the relocated constant that v, an arithmetic op, takes as its immediate:
// loaders relocate the immediates of all arithmetic. Nil if there is none.
func (s *selector) coreOperand(v *ir.Value) *ir.Value {
	if _, ok := binary[v.Op]; !ok || s.resolve(v.Args[0]).IsConst() {
		return nil
	}
	if c := s.resolve(v.Args[1]); c.Op == ir.OpCORE {
		return c
	}
	return nil
}

// free reports whether v is an operand that needs no register.
func free(v *ir.Value) bool {
	return v.Op != ir.OpParam && (v.Op.Info().Inline || v.Op == ir.OpGlobalAddr)
}

// markNeeded finds the values that must be computed, starting from effects and terminators
// and following the operands that each actually reads.
func (s *selector) markNeeded() {
	var work []*ir.Value
	mark := func(v *ir.Value) {
		v = s.resolve(v)
		if !free(v) && !s.needed[v.ID] {
			s.needed[v.ID] = true
			work = append(work, v)
		}
	}
	for _, b := range s.order {
		for _, v := range b.Values {
			if v.Op.Info().Effect == ir.Writes {
				s.sources(v, mark)
			}
		}
		switch t := &b.Term; t.Kind {
		case ir.Br:
			s.condSources(t.Arg, mark)
		case ir.Ret:
			mark(t.Arg)
		}
	}
	for len(work) > 0 {
		v := work[len(work)-1]
		work = work[:len(work)-1]
		if v.Op != ir.OpParam {
			s.sources(v, mark)
			continue
		}
		for _, e := range s.preds[v.Block.ID] {
			for n, p := range v.Block.Params {
				if p == v {
					mark(e.from.Term.Succs[e.n].Args[n])
				}
			}
		}
	}
}

// sources calls use for each value that v's instruction will read.
func (s *selector) sources(v *ir.Value, use func(*ir.Value)) {
	args := v.Args
	switch v.Op {
	case ir.OpLoad, ir.OpStore, ir.OpAtomicAdd:
		base, _ := s.address(args[0], v.Imm)
		use(base)
		args = args[1:]
	case ir.OpSelect, ir.OpBoolInt:
		s.condSources(args[0], use)
		args = args[1:]
	}
	if s.coreOperand(v) != nil {
		args = args[:1]
	}
	for _, a := range args {
		use(a)
	}
}

func (s *selector) condSources(v *ir.Value, use func(*ir.Value)) {
	if v = s.resolve(v); v.Op == ir.OpICmp {
		x, _ := s.compared(v)
		use(x)
		use(v.Args[1])
		return
	}
	use(v)
}

// address splits a pointer into a base and a constant offset that fits an instruction's
// 16-bit offset; bases in the frame count from r10.
func (s *selector) address(v *ir.Value, off int64) (base *ir.Value, total int64) {
	for {
		v = s.resolve(v)
		if v.Op != ir.OpAdd && v.Op != ir.OpSub {
			return v, off
		}
		c := s.resolve(v.Args[1])
		if !c.IsConst() {
			return v, off
		}
		sum := off + c.Imm
		if v.Op == ir.OpSub {
			sum = off - c.Imm
		}
		if sum != int64(int16(sum)) {
			return v, off
		}
		v, off = v.Args[0], sum
	}
}

func (s *selector) fail(pos ir.Pos, format string, args ...any) {
	if s.err == nil {
		s.err = ir.Diag{Pos: pos, Text: fmt.Sprintf(format, args...)}
	}
}
