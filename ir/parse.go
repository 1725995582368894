// SPDX-License-Identifier: Apache-2.0

package ir

import "sort"

// Parse reads the text form that Print writes. The module has no Target and no
// Source. Errors name the line of the text.
func Parse(text string) (m *Module, err error) {
	lines, err := lexLines(text)
	if err != nil {
		return nil, err
	}
	p := &parser{m: &Module{}, lines: lines}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(parseError)
			if !ok {
				panic(r)
			}
			m, err = nil, e.error
		}
	}()
	for p.line < len(p.lines) {
		p.declaration()
	}
	return p.m, nil
}

// MustParse is like Parse, but panics on errors; for tests.
func MustParse(text string) *Module {
	m, err := Parse(text)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return m
}

func (p *parser) declaration() {
	switch what := p.word("a declaration"); what {
	case "module":
		p.m.Name = p.text()
		if p.take("file") {
			p.m.File = p.text()
		}
	case "stmt":
		s := Stmt{Line: p.count("line")}
		p.want(":")
		s.Col = p.count("column")
		s.Text = p.text()
		p.m.Stmts = append(p.m.Stmts, s)
	case "map":
		x := &Map{}
		p.attrs(x)
		p.m.Maps = append(p.m.Maps, x)
	case "global":
		g := &Global{}
		p.attrs(g)
		p.m.Globals = append(p.m.Globals, g)
	case "event":
		e := &Event{}
		p.attrs(e)
		p.m.Events = append(p.m.Events, e)
	case "meta":
		p.attrs(&p.m.Meta)
	case "func":
		p.function()
		return
	default:
		p.fail("unknown declaration %q", what)
	}
	p.endLine()
}

func (p *parser) function() {
	f := &Func{Name: p.funcName(), Pos: NoPos}
	p.f = f
	p.values, p.blocks, p.slots = map[int]*Value{}, map[int]*Block{}, map[int]*Slot{}
	if p.take("prog") {
		f.Prog = &Prog{}
		p.attrs(f.Prog)
	} else {
		p.want("(")
		for !p.take(")") {
			f.Params = append(f.Params, p.typ())
			p.take(",")
		}
		f.Global = p.take("global")
	}
	f.Pos = p.pos()
	p.want("{")
	p.endLine()
	for p.is("slot") {
		p.slot()
	}
	var b *Block
	for !p.take("}") {
		if p.line >= len(p.lines) {
			p.fail("unclosed function %s", f.Name)
		}
		if _, ok := idOf(p.peek(), 'b'); ok {
			b = p.blockHead()
		} else if b == nil {
			p.fail("value outside a block")
		} else {
			p.instruction(b)
		}
		p.endLine()
	}
	p.finish()
	p.endLine()
	p.m.Funcs = append(p.m.Funcs, f)
}

func (p *parser) funcName() string {
	name := p.word("a function's name")
	if len(name) < 2 || name[0] != '@' {
		p.fail("a function's name begins with @: %q", name)
	}
	return name[1:]
}

func (p *parser) slot() {
	p.want("slot")
	s := &Slot{ID: p.id('s')}
	if p.slots[s.ID] != nil {
		p.fail("slot s%d is declared twice", s.ID)
	}
	s.Name = p.text()
	s.Size = p.count("size")
	p.want("align")
	s.Align = p.count("alignment")
	if p.take("frame") {
		s.Class, s.Off = Frame, int(p.int())
	} else if p.take("scratch") {
		s.Class, s.Off = Scratch, int(p.int())
	}
	p.slots[s.ID] = s
	p.f.Slots = append(p.f.Slots, s)
	p.f.nextSlot = max(p.f.nextSlot, s.ID+1)
	p.endLine()
}

// block finds or makes the block of a number; Func is set where it is defined.
func (p *parser) block(id int) *Block {
	b := p.blocks[id]
	if b == nil {
		b = &Block{ID: id}
		p.blocks[id] = b
	}
	return b
}

func (p *parser) blockHead() *Block {
	b := p.block(p.id('b'))
	if b.Func != nil {
		p.fail("block b%d is defined twice", b.ID)
	}
	b.Func = p.f
	p.f.Blocks = append(p.f.Blocks, b)
	p.f.nextBlock = max(p.f.nextBlock, b.ID+1)
	if p.take("(") {
		for !p.take(")") {
			id := p.id('v')
			p.want(":")
			v := p.define(id, OpParam, p.typ())
			v.Block = b
			b.Params = append(b.Params, v)
			p.take(",")
		}
	}
	b.Cold = p.take("cold")
	p.want(":")
	return b
}

// value finds or makes the value of a number; its Op is OpInvalid until its definition is
// parsed.
func (p *parser) value(id int) *Value {
	v := p.values[id]
	if v == nil {
		v = &Value{ID: id, Pos: NoPos}
		p.values[id] = v
		p.f.nextValue = max(p.f.nextValue, id+1)
	}
	return v
}

func (p *parser) define(id int, op Op, t Type) *Value {
	v := p.value(id)
	if v.Op != OpInvalid {
		p.fail("value v%d is defined twice", id)
	}
	v.Op, v.Type = op, t
	return v
}

func (p *parser) instruction(b *Block) {
	if b.Term.Kind != NoTerm {
		p.fail("value after the terminator of b%d", b.ID)
	}
	if p.terminator(b) {
		return
	}
	id, t := -1, TVoid
	if n, ok := idOf(p.peek(), 'v'); ok {
		p.next()
		id = n
		p.want(":")
		t = p.typ()
		p.want("=")
	}
	name := p.word("an op")
	op, ok := opByName[name], true
	mem := MemNone
	if op == OpInvalid {
		if op, mem, ok = splitMem(name); !ok {
			p.fail("unknown op %q", name)
		}
	}
	if op.Info().Inline {
		p.fail("%s is not an op of a block", name)
	}
	var v *Value
	if id < 0 {
		v = &Value{ID: -1, Op: op, Type: t} // numbered by finish
	} else {
		v = p.define(id, op, t)
	}
	v.Mem = mem
	b.AppendValue(v)
	p.operands(v)
	v.Pos = p.pos()
}

func (p *parser) terminator(b *Block) bool {
	switch {
	case p.take("jump"):
		b.Term = Term{Kind: Jump, Succs: []Edge{p.edge()}}
	case p.take("br"):
		b.Term = Term{Kind: Br, Arg: p.operand()}
		p.want(",")
		yes := p.edge()
		p.want(",")
		b.Term.Succs = []Edge{yes, p.edge()}
	case p.take("ret"):
		b.Term = Term{Kind: Ret, Arg: p.operand()}
	default:
		return false
	}
	b.Term.Pos = p.pos()
	return true
}

func (p *parser) edge() Edge {
	e := Edge{To: p.block(p.id('b'))}
	if p.take("(") {
		for !p.take(")") {
			e.Args = append(e.Args, p.operand())
			p.take(",")
		}
	}
	return e
}

// operands parses what follows the op's name; see Value.operandText.
func (p *parser) operands(v *Value) {
	info := v.Op.Info()
	if info.Attrs&ACond != 0 {
		v.Cond = p.cond()
	}
	if info.Attrs&AKind != 0 {
		v.Kind = p.coreKind()
	}
	closing := ""
	if info.Attrs&ASym != 0 {
		v.Sym = p.text()
		if p.take("(") {
			closing = ")"
		}
	}
	for {
		switch t := p.peek(); {
		case closing != "" && p.take(closing):
			closing = ""
		case t.kind == 0 || t.kind == '!':
			if closing != "" {
				p.fail("missing %q", closing)
			}
			return
		case p.take("#"):
			p.mayHave(info, AImm, "immediate")
			v.Imm = p.int()
		case p.take("["):
			if !info.memOperand() || len(v.Args) > 0 {
				p.fail("%s has no operand in brackets here", info.Name)
			}
			p.address(v)
		case p.is("field"):
			p.mayHave(info, ACORE, "field")
			v.CORE = p.field()
		default:
			v.Args = append(v.Args, p.operand())
		}
		p.take(",")
	}
}

func (p *parser) mayHave(info *OpInfo, a Attr, what string) {
	if info.Attrs&a == 0 {
		p.fail("%s has no %s", info.Name, what)
	}
}

// address reads the rest of [v0+16+field(struct x:y)].
func (p *parser) address(v *Value) {
	v.Args = append(v.Args, p.operand())
	if p.peek().kind == 'i' {
		v.Imm = p.int()
	}
	if p.take("+") {
		p.mayHave(v.Op.Info(), ACORE, "field")
		v.CORE = p.field()
	}
	p.want("]")
}

func (p *parser) field() CORERef {
	p.want("field")
	t := p.next()
	if t.kind != 'r' {
		p.fail("expected (type:path) after field")
	}
	for i := range len(t.text) {
		if t.text[i] == ':' {
			return CORERef{Type: t.text[:i], Path: t.text[i+1:]}
		}
	}
	return CORERef{Type: t.text}
}

func (p *parser) cond() Cond {
	w := p.word("a condition")
	for i, name := range condNames {
		if name == w {
			return Cond(i)
		}
	}
	p.fail("unknown condition %q", w)
	return EQ
}

func (p *parser) coreKind() COREKind {
	w := p.word("a CO-RE kind")
	for k, name := range coreKindNames {
		if name == w {
			return k
		}
	}
	p.fail("unknown CO-RE kind %q", w)
	return 0
}

// operand reads v7, s0+8, @x, map(x), &fn, 42, 42:kaddr, true, null, null:type.
func (p *parser) operand() *Value {
	t := p.peek()
	if id, ok := idOf(t, 'v'); ok {
		p.next()
		return p.value(id)
	}
	if id, ok := idOf(t, 's'); ok {
		p.next()
		s := p.slots[id]
		if s == nil {
			p.fail("slot s%d is not declared", id)
		}
		off := 0
		if p.peek().kind == 'i' {
			off = int(p.int())
		}
		return SlotAddr(s, off)
	}
	switch {
	case t.kind == 'i':
		c := Const(p.int())
		if p.take(":") {
			c.Type = p.typ()
		}
		return c
	case p.take("null"):
		c := Null(TVoid) // finish sets it to the type of the other side
		if p.take(":") {
			c.Type = p.typ()
		}
		return c
	case p.take("true"):
		return Bool(true)
	case p.take("false"):
		return Bool(false)
	case p.take("&"):
		return FuncOperand(p.word("a function's name"))
	case p.take("map"):
		p.want("(")
		c := MapOperand(p.text())
		p.want(")")
		return c
	case t.kind == 'w' && t.text[0] == '@':
		p.next()
		return MapOperand(t.text)
	}
	p.fail("expected an operand, found %q", t.text)
	return nil
}

func (p *parser) typ() Type {
	w := p.word("a type")
	t := Type{}
	for k, name := range typeNames {
		if name == w {
			t.Kind = TypeKind(k)
		}
	}
	if t.Kind == Void && w != "void" {
		p.fail("unknown type %q", w)
	}
	switch t.Kind {
	case MapVal, MapKey, BTF:
		r := p.next()
		if r.kind != 'r' {
			p.fail("expected (name) after %s", w)
		}
		t.Sym = r.text
	case Ringbuf:
		p.want("(")
		t.N = p.count("size")
		p.want(")")
	}
	t.Nullable = p.take("?")
	return t
}

// finish checks that everything used is defined, sets the types of bare nulls and numbers
// the values without result.
func (p *parser) finish() {
	if len(p.f.Blocks) == 0 {
		p.fail("function %s has no block", p.f.Name)
	}
	for _, id := range sortedKeys(p.values) {
		if p.values[id].Op == OpInvalid {
			p.fail("value v%d is not defined in %s", id, p.f.Name)
		}
	}
	for _, id := range sortedKeys(p.blocks) {
		if p.blocks[id].Func == nil {
			p.fail("block b%d is not defined in %s", id, p.f.Name)
		}
	}
	for _, b := range p.f.Blocks {
		for _, v := range b.Values {
			if v.ID < 0 {
				v.ID = p.f.nextValue
				p.f.nextValue++
			}
			if v.Op == OpICmp && len(v.Args) == 2 {
				typeNull(v.Args[0], v.Args[1])
				typeNull(v.Args[1], v.Args[0])
			}
		}
	}
	p.f.Uses(func(v **Value) {
		if (*v).Op == OpConst && (*v).Type == TVoid {
			p.fail("null needs a type: null:TYPE")
		}
	})
}

func typeNull(c, other *Value) {
	if c.Op == OpConst && c.Type == TVoid {
		c.Type = other.Type
	}
}

func sortedKeys[T any](m map[int]T) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Ints(keys)
	return keys
}

// opByName is the op of a text name.
var opByName = func() map[string]Op {
	names := map[string]Op{}
	for i := range Ops {
		if i != int(OpInvalid) && Ops[i].Name != "" {
			names[Ops[i].Name] = Op(i)
		}
	}
	return names
}()

// splitMem splits "load.u32".
func splitMem(name string) (Op, MemKind, bool) {
	for i := range len(name) {
		if name[i] != '.' {
			continue
		}
		op := opByName[name[:i]]
		for k := U8; k <= S32; k++ {
			if k.String() == name[i+1:] && op != OpInvalid && op.Info().Attrs&AMem != 0 {
				return op, k, true
			}
		}
	}
	return OpInvalid, MemNone, false
}
