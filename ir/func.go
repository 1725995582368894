// SPDX-License-Identifier: Apache-2.0

package ir

// Value is an SSA value, an instruction without result (Type void), or an inline operand
// (Op.Inline). The op's row in the op table says which of the fields it uses.
type Value struct {
	ID   int // unique in the Func for placed values and block parameters; -1 for inline operands
	Op   Op
	Mem  MemKind // width of a memory access or of an extension
	Cond Cond    // icmp: the condition
	Kind COREKind
	Type Type
	Args []*Value

	Imm  int64   // immediate: constant, byte offset, size, depth, mode
	Sym  string  // name: helper, map, event, global, subprogram, register, literal bytes
	CORE CORERef // field, type or enumerator of a relocated access
	Slot *Slot   // slotaddr

	Pos   Pos
	Block *Block // nil for inline operands
}

// Slot is a memory object of a function. The slots pass places it in the 512-byte BPF frame
// or in per-CPU scratch memory.
type Slot struct {
	ID    int
	Name  string // for people: "key", "str", "$x"; may be empty
	Size  int    // bytes
	Align int    // 1, 2, 4 or 8
	Class SlotClass
	Off   int // Frame: offset from the frame pointer (negative) once placed; Scratch: offset in the scratch record
}

// SlotClass says where a slot is stored.
type SlotClass uint8

// Slot classes.
const (
	Unplaced SlotClass = iota // before the slots pass
	Frame                     // in the 512-byte BPF stack frame
	Scratch                   // in the scratch record
)

// TermKind is the kind of a block's terminator.
type TermKind uint8

// Terminators.
const (
	NoTerm TermKind = iota
	Jump            // to Succs[0]
	Br              // to Succs[0] when Arg is true, else Succs[1]
	Ret             // with Arg (i64), the program's return value
)

// Edge is an edge from a terminator to a block, with the arguments for its parameters.
type Edge struct {
	To   *Block
	Args []*Value
}

// Term ends a block.
type Term struct {
	Kind  TermKind
	Arg   *Value // Br: i1 condition; Ret: i64 value
	Succs []Edge
	Pos   Pos
}

// Block is a basic block. Predecessors are computed by Preds.
type Block struct {
	ID     int
	Params []*Value // Op == OpParam
	Values []*Value // in execution order
	Term   Term
	Cold   bool // laid out last: error and first-insert paths
	Func   *Func
}

// Func is a BPF program or a static subprogram.
type Func struct {
	Name   string // C identifier, unique in the module
	Prog   *Prog  // nil for a subprogram
	Params []Type // subprogram: types of the entry block's parameters
	Blocks []*Block
	Slots  []*Slot
	// Global means that the kernel's verifier checks a subprogram once, and knows nothing of its result: a global
	// function (5.6). Its parameters are numbers.
	Global bool
	Pos    Pos

	nextValue, nextBlock, nextSlot int
	// last is the index at which NewBlockAfter inserted the previous block: the next one is
	// usually nearby.
	last int
}

// Entry returns the first block. Its parameters are the function's: one ctx for a program.
func (f *Func) Entry() *Block { return f.Blocks[0] }

// NewBlock appends an empty block.
func (f *Func) NewBlock() *Block {
	b := &Block{ID: f.nextBlock, Func: f}
	f.nextBlock++
	f.Blocks = append(f.Blocks, b)
	return b
}

// NewSlot adds a memory object of size bytes with the given alignment.
func (f *Func) NewSlot(name string, size, align int) *Slot {
	s := &Slot{ID: f.nextSlot, Name: name, Size: size, Align: align}
	f.nextSlot++
	f.Slots = append(f.Slots, s)
	return s
}

// NewValue makes a value with a fresh ID that belongs to no block yet.
func (f *Func) NewValue(op Op, t Type, pos Pos, args ...*Value) *Value {
	v := &Value{ID: f.nextValue, Op: op, Type: t, Pos: pos, Args: args}
	f.nextValue++
	return v
}

// AddParam appends a parameter to b.
func (b *Block) AddParam(t Type) *Value {
	v := b.Func.NewValue(OpParam, t, NoPos)
	v.Block = b
	b.Params = append(b.Params, v)
	return v
}

// Append makes a value at the end of b.
func (b *Block) Append(op Op, t Type, pos Pos, args ...*Value) *Value {
	v := b.Func.NewValue(op, t, pos, args...)
	b.AppendValue(v)
	return v
}

// AppendValue appends v, which belongs to no block, to b.
func (b *Block) AppendValue(v *Value) {
	v.Block = b
	b.Values = append(b.Values, v)
}

// Jump ends b with a jump.
func (b *Block) Jump(to *Block, pos Pos, args ...*Value) {
	b.Term = Term{Kind: Jump, Succs: []Edge{{To: to, Args: args}}, Pos: pos}
}

// Br ends b with a two-way branch.
func (b *Block) Br(c *Value, yes, no Edge, pos Pos) {
	b.Term = Term{Kind: Br, Arg: c, Succs: []Edge{yes, no}, Pos: pos}
}

// Ret ends b with a return.
func (b *Block) Ret(v *Value, pos Pos) { b.Term = Term{Kind: Ret, Arg: v, Pos: pos} }

// Const returns an inline i64 operand.
func Const(n int64) *Value { return &Value{ID: -1, Op: OpConst, Type: TI64, Imm: n, Pos: NoPos} }

// Bool returns an inline i1 operand.
func Bool(x bool) *Value {
	v := &Value{ID: -1, Op: OpConst, Type: TI1, Pos: NoPos}
	if x {
		v.Imm = 1
	}
	return v
}

// Null returns the inline null operand of address type t (compared with a nullable pointer).
func Null(t Type) *Value { return &Value{ID: -1, Op: OpConst, Type: t, Pos: NoPos} }

// SlotAddr returns the inline operand s+off.
func SlotAddr(s *Slot, off int) *Value {
	return &Value{ID: -1, Op: OpSlotAddr, Type: TStack, Slot: s, Imm: int64(off), Pos: NoPos}
}

// MapOperand returns the inline reference of the map called name.
func MapOperand(name string) *Value {
	return &Value{ID: -1, Op: OpMapRef, Type: TMapRef, Sym: name, Pos: NoPos}
}

// FuncOperand returns the inline reference of the subprogram called name.
func FuncOperand(name string) *Value {
	return &Value{ID: -1, Op: OpFuncRef, Type: TFuncRef, Sym: name, Pos: NoPos}
}

// IsConst reports whether v is an integer, truth or null constant.
func (v *Value) IsConst() bool { return v.Op == OpConst }
