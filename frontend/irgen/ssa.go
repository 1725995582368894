// SPDX-License-Identifier: Apache-2.0

package irgen

import "btc/ir"

// SSA form for the script's scalar variables, constructed while blocks are filled
// (Braun et al., "Simple and Efficient Construction of Static Single Assignment
// Form"): a read that the block cannot resolve is resolved in the predecessors, and a block
// with several gets a parameter. A block is sealed when all its predecessors
// are known.

// edge is an edge from a predecessor into a block: its terminator's Succs[succ].
type edge struct {
	from *ir.Block
	succ int
}

// blockState is the state of a block during construction.
type blockState struct {
	defs    []def       // each variable's current value at the end of the block
	index   map[any]int // of a variable in defs, if there are many
	preds   []edge
	sealed  bool
	pending []def // parameters created before sealing, without arguments yet
}

// def is the value of a variable.
type def struct {
	v any
	x *ir.Value
}

// manyDefs is the number of variables of a block from which a map finds them: most blocks have few.
const manyDefs = 16

// find returns the variable's index in defs, -1 if the block does not know it.
func (s *blockState) find(v any) int {
	if s.index != nil {
		if i, ok := s.index[v]; ok {
			return i
		}
		return -1
	}
	for i := range s.defs {
		if s.defs[i].v == v {
			return i
		}
	}
	return -1
}

// set changes the variable's value.
func (s *blockState) set(v any, x *ir.Value) {
	if i := s.find(v); i >= 0 {
		s.defs[i].x = x
		return
	}
	if s.index != nil {
		s.index[v] = len(s.defs)
	}
	s.defs = append(s.defs, def{v, x})
	if len(s.defs) == manyDefs {
		s.index = make(map[any]int, 2*manyDefs)
		for i, d := range s.defs {
			s.index[d.v] = i
		}
	}
}

// cursor fills blocks: it tracks predecessors and variables, and emits at the
// end of the current block through an ir.Builder.
type cursor struct {
	*ir.Builder
	f      *ir.Func
	blocks []*blockState   // by Block.ID
	types  map[any]ir.Type // types of variables
}

func newCursor(f *ir.Func) *cursor {
	c := &cursor{f: f, types: map[any]ir.Type{}}
	entry := f.NewBlock()
	c.Builder = ir.AtEnd(entry, f.Pos)
	c.state(entry).sealed = true
	return c
}

func (c *cursor) state(b *ir.Block) *blockState {
	for len(c.blocks) <= b.ID {
		c.blocks = append(c.blocks, nil)
	}
	s := c.blocks[b.ID]
	if s == nil {
		s = &blockState{}
		c.blocks[b.ID] = s
	}
	return s
}

// ended reports whether the current block has its terminator: following code is unreachable until start.
func (c *cursor) ended() bool { return c.Block().Term.Kind != ir.NoTerm }

// jump ends the current block; it does nothing if that has already ended.
func (c *cursor) jump(to *ir.Block, args ...*ir.Value) {
	if c.ended() {
		return
	}
	from := c.Block()
	c.Jump(to, args...)
	c.link(from, 0, to)
}

// branch ends the current block with a two-way branch.
func (c *cursor) branch(cond *ir.Value, yes, no *ir.Block) {
	if c.ended() {
		return
	}
	from := c.Block()
	c.Br(cond, yes, no)
	c.link(from, 0, yes)
	c.link(from, 1, no)
}

func (c *cursor) link(from *ir.Block, succ int, to *ir.Block) {
	s := c.state(to)
	if s.sealed {
		panic("BUG: new edge into a sealed block")
	}
	s.preds = append(s.preds, edge{from, succ})
}

// start continues at b. seal means that all edges into b are known; otherwise seal is
// called later (loop heads).
func (c *cursor) start(b *ir.Block, seal bool) {
	c.SetBlock(b)
	if seal {
		c.seal(b)
	}
}

func (c *cursor) seal(b *ir.Block) {
	s := c.state(b)
	for _, p := range s.pending {
		c.addArgs(b, p.v, p.x)
	}
	s.pending = nil
	s.sealed = true
}

// setVar makes x the variable's value from here on.
func (c *cursor) setVar(v any, x *ir.Value) {
	c.types[v] = x.Type
	c.state(c.Block()).set(v, x)
}

// getVar returns the variable's value here; 0 if it was never set.
func (c *cursor) getVar(v any, t ir.Type) *ir.Value {
	if _, ok := c.types[v]; !ok {
		c.types[v] = t
	}
	return c.read(c.Block(), v)
}

func (c *cursor) read(b *ir.Block, v any) *ir.Value {
	s := c.state(b)
	if i := s.find(v); i >= 0 {
		return s.defs[i].x
	}
	var x *ir.Value
	switch {
	case !s.sealed:
		x = b.AddParam(c.types[v])
		s.pending = append(s.pending, def{v, x})
	case len(s.preds) == 0:
		x = unset(c.types[v])
	case len(s.preds) == 1:
		x = c.read(s.preds[0].from, v)
	default:
		x = b.AddParam(c.types[v])
		s.set(v, x) // breaks cycles
		c.addArgs(b, v, x)
	}
	s.set(v, x)
	return x
}

// unset returns the value of a variable that nothing assigned.
func unset(t ir.Type) *ir.Value {
	switch t.Kind {
	case ir.I64:
		return ir.Const(0)
	case ir.I1:
		return ir.Bool(false)
	}
	return ir.Null(t)
}

// addArgs adds an argument for b's parameter p to each edge into b.
func (c *cursor) addArgs(b *ir.Block, v any, p *ir.Value) {
	at := -1
	for i, x := range b.Params {
		if x == p {
			at = i
		}
	}
	for _, e := range c.state(b).preds {
		args := &e.from.Term.Succs[e.succ].Args
		for len(*args) <= at {
			*args = append(*args, nil)
		}
		(*args)[at] = c.read(e.from, v)
	}
}

// dropTrivialParams removes block parameters whose arguments are all the same
// value (or the parameter itself), and unreachable blocks.
func dropTrivialParams(f *ir.Func) {
	ir.RemoveUnreachable(f)
	preds := ir.Preds(f)
	// Uses are replaced once, at the end; until then becomes maps a value to its replacement.
	becomes := ir.Subst{}
	for changed := true; changed; {
		changed = false
		for _, b := range f.Blocks[1:] {
			for i := len(b.Params) - 1; i >= 0; i-- {
				same := onlyArg(b.Params[i], i, preds[b.ID], becomes)
				if same == nil {
					continue
				}
				for _, p := range preds[b.ID] {
					e := p.Edge()
					e.Args = append(e.Args[:i:i], e.Args[i+1:]...)
				}
				becomes[b.Params[i]] = same
				b.Params = append(b.Params[:i:i], b.Params[i+1:]...)
				changed = true
			}
		}
	}
	becomes.Apply(f)
}

// onlyArg returns the one value that all edges pass for the parameter, or nil.
func onlyArg(param *ir.Value, i int, preds []ir.Pred, becomes ir.Subst) *ir.Value {
	var same *ir.Value
	for _, p := range preds {
		e := p.Edge()
		x := becomes.Of(e.Args[i])
		e.Args[i] = x
		if x == param || x == same ||
			same != nil && x.IsConst() && same.IsConst() && x.Imm == same.Imm && x.Type == same.Type {
			continue
		}
		if same != nil {
			return nil
		}
		same = x
	}
	return same
}
