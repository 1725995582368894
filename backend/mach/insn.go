// SPDX-License-Identifier: Apache-2.0

package mach

import (
	"btc/ir"
)

// Reg is a machine register (R0 to R10) or a virtual one.
type Reg int32

// Machine registers. R10 is the read-only frame pointer.
const (
	R0 Reg = iota
	R1
	R2
	R3
	R4
	R5
	R6
	R7
	R8
	R9
	R10
	firstVirt Reg = 16
	NoReg     Reg = -1
)

// Virt returns virtual register n.
func Virt(n int) Reg { return firstVirt + Reg(n) }

// IsVirt reports whether r is virtual.
func (r Reg) IsVirt() bool { return r >= firstVirt }

// Index returns the number of virtual register r.
func (r Reg) Index() int { return int(r - firstVirt) }

// OperandKind is the kind of an operand.
type OperandKind uint8

// Operand kinds. All but Register can be rematerialized anywhere: they never need a
// register for longer than one instruction, and no spill.
const (
	None     OperandKind = iota
	Register             // Reg
	Imm                  // integer Imm
	FrameRef             // r10 + Imm
	MapRef               // map Sym
	GlobRef              // global Sym + Imm
	FuncRef              // subprogram Sym
)

// Operand is a source of an instruction. It is comparable.
type Operand struct {
	Kind OperandKind
	Reg  Reg
	Imm  int64
	Sym  string
}

// RegOp returns a register operand.
func RegOp(r Reg) Operand { return Operand{Kind: Register, Reg: r} }

// ImmOp returns an integer operand.
func ImmOp(n int64) Operand { return Operand{Kind: Imm, Imm: n} }

// FrameOp returns the address r10+off.
func FrameOp(off int64) Operand { return Operand{Kind: FrameRef, Imm: off} }

// IsReg reports whether o is a register.
func (o Operand) IsReg() bool { return o.Kind == Register }

// IsVirt reports whether o is a virtual register.
func (o Operand) IsVirt() bool { return o.Kind == Register && o.Reg.IsVirt() }

// IsImm32 reports whether o is an integer that an instruction's immediate can
// hold, which is sign-extended from 32 bits.
func (o Operand) IsImm32() bool { return o.Kind == Imm && o.Imm == int64(int32(o.Imm)) }

// Op is an operation of the machine.
type Op uint8

// Operations. Args as given in the comments; d is Dst.
const (
	Mov     Op = iota // d = a, any operand
	Add               // d = a + b; b a register or a 32-bit immediate, as in all arithmetic
	Sub               // d = a - b
	Mul               // d = a * b
	Div               // d = a / b, unsigned, 0 when b is 0
	Mod               // d = a % b, unsigned, a when b is 0
	And               // d = a & b
	Or                // d = a | b
	Xor               // d = a ^ b
	Lsh               // d = a << b
	Rsh               // d = a >> b, logical
	Arsh              // d = a >> b, arithmetic
	Neg               // d = -a
	Swap              // d = low Size bytes of a in the other byte order, zero-extended
	CoreImm           // d = immediate relocated by CORE
	IDImm             // d = marked immediate Imm (attach point's number)
	Load              // d = *(Size)(a + Off), zero-extended; with CORE the offset is relocated
	Store             // *(Size)(a + Off) = b; b a register or a 32-bit immediate
	XAdd              // lock *(Size)(a + Off) += b
	Select            // d = c if a Cond b, else e (arguments a, b, c, e)
	Call              // d = helper Sym, number Imm; arguments go to r1..r5
	CallSub           // d = subprogram Sym
	numOps
)

// opInfo describes an operation.
type opInfo struct {
	name        string // for Add..Arsh the operator of the assignment
	code        uint8  // BPF_OP bits
	tied        bool   // the machine form requires Dst == Args[0]
	commutative bool
}

var ops = [numOps]opInfo{
	Mov:     {name: "", code: 0xb0},
	Add:     {name: "+", code: 0x00, tied: true, commutative: true},
	Sub:     {name: "-", code: 0x10, tied: true},
	Mul:     {name: "*", code: 0x20, tied: true, commutative: true},
	Div:     {name: "/", code: 0x30, tied: true},
	Mod:     {name: "%", code: 0x90, tied: true},
	And:     {name: "&", code: 0x50, tied: true, commutative: true},
	Or:      {name: "|", code: 0x40, tied: true, commutative: true},
	Xor:     {name: "^", code: 0xa0, tied: true, commutative: true},
	Lsh:     {name: "<<", code: 0x60, tied: true},
	Rsh:     {name: ">>", code: 0x70, tied: true},
	Arsh:    {name: "s>>", code: 0xc0, tied: true},
	Neg:     {name: "-", code: 0x80, tied: true},
	Swap:    {name: "be", code: 0xd0, tied: true},
	CoreImm: {name: "core"},
	IDImm:   {name: "attachid"},
	Load:    {name: "load"},
	Store:   {name: "store"},
	XAdd:    {name: "xadd"},
	Select:  {name: "select"},
	Call:    {name: "call"},
	CallSub: {name: "call"},
}

// Tied reports whether the machine form of op overwrites its first argument.
func (op Op) Tied() bool { return ops[op].tied }

// Commutative reports whether op's two arguments may be exchanged.
func (op Op) Commutative() bool { return ops[op].commutative }

// IsCall reports whether op clobbers r0 to r5.
func (op Op) IsCall() bool { return op == Call || op == CallSub }

// Insn is one instruction. A few macros encode to several slots: Mov of a
// FrameRef or of a wide immediate, Select.
type Insn struct {
	Op   Op
	W    bool // 32-bit arithmetic, upper half of the result zero
	Cond ir.Cond
	Kind ir.COREKind
	Dst  Reg // NoReg when there is no result or it is not read
	// Relocated means that CORE and Kind are set.
	Relocated bool
	Result    bool // Load: of a result of 64 bits, see ir.Prog.LongResult
	Size      int  // bytes of a memory access or a swap: 1, 2, 4, 8
	Args      []Operand
	Off       int // bytes
	Imm       int64
	Sym       string
	CORE      ir.CORERef
	Pos       ir.Pos

	// Spill is not 0 for a store or load of a spill slot (slot number + 1);
	// Off is set when the slots are placed.
	Spill int
	// From is the instruction before allocation, which regalloc's checker compares with;
	// nil for one that the allocator inserted.
	From *Insn
}

// TermKind is how a block ends.
type TermKind uint8

// Terminators.
const (
	NoTerm TermKind = iota
	Jump            // to Succs[0]
	Br              // to Succs[0] if Args[0] Cond Args[1], else to Succs[1]
	Exit            // with Args[0] in r0
)

// Edge is an edge to a block with the arguments for its parameters.
type Edge struct {
	To   *Block
	Args []Operand
}

// Term ends a block.
type Term struct {
	Kind  TermKind
	Cond  ir.Cond
	W     bool // Br: compares the lower 32 bits (5.1)
	Args  []Operand
	Succs []Edge
	Pos   ir.Pos
}

// Block is a basic block.
type Block struct {
	ID     int
	Params []Reg
	Insns  []Insn
	Term   Term
	Cold   bool

	// Set by Func.Order.
	Index    int      // in Func.Blocks
	Depth    int      // number of loops around it
	LoopCall bool     // head of a loop with calls
	Preds    []*Block // one for each incoming edge
}

// Func is a function.
type Func struct {
	Name   string
	Prog   *ir.Prog
	Blocks []*Block // Blocks[0] is the entry; its parameters are r1, r2, ...
	NVirt  int      // number of virtual registers
	// Bounded marks virtual registers that a branch bounds and that an address or length
	// uses afterwards. Kernels forget bounds in spill slots, so these are the last to be
	// spilled.
	Bounded []bool
	// FrameUsed is the number of bytes below r10 taken by slots, later by spills too.
	FrameUsed int
	Pos       ir.Pos

	nextBlock int
}

// NewBlock appends an empty block.
func (f *Func) NewBlock() *Block {
	b := &Block{ID: f.nextBlock}
	f.nextBlock++
	f.Blocks = append(f.Blocks, b)
	return b
}

// NewVirt makes a virtual register.
func (f *Func) NewVirt() Reg {
	f.NVirt++
	return Virt(f.NVirt - 1)
}

// ReserveBlockIDs makes later blocks' IDs start at n or above.
func (f *Func) ReserveBlockIDs(n int) { f.nextBlock = max(f.nextBlock, n) }
