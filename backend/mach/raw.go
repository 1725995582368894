// SPDX-License-Identifier: Apache-2.0

package mach

import (
	"encoding/binary"
	"fmt"
	"strings"

	"btc/ir"
	"btc/targets/kernel"
)

// Raw is one 8-byte slot of encoded BPF (struct bpf_insn).
type Raw struct {
	Code     uint8
	Dst, Src uint8
	Off      int16
	Imm      int32
}

// Instruction classes, sizes and modes (linux/bpf_common.h, linux/bpf.h).
const (
	classLD, classLDX, classST, classSTX = 0, 1, 2, 3
	classALU, classJMP, classJMP32       = 4, 5, 6
	classALU64                           = 7
	modeIMM, modeMEM, modeXADD           = 0x00, 0x60, 0xc0
	sourceReg                            = 0x08
	jmpJA, jmpCALL, jmpEXIT, jmpJSET     = 0x00, 0x80, 0x90, 0x40

	// CodeLdImm64 is the code of the two-slot load of a 64-bit immediate.
	CodeLdImm64 = classLD | modeIMM | 0x18
	// PseudoMap, PseudoFunc, PseudoCall are Src values of ld_imm64 and call.
	PseudoMap, PseudoFunc, PseudoCall = 1, 4, 1
)

// Append encodes r at the end of p, little endian.
func (r Raw) Append(p []byte) []byte {
	p = append(p, r.Code, r.Src<<4|r.Dst)
	p = binary.LittleEndian.AppendUint16(p, uint16(r.Off))
	return binary.LittleEndian.AppendUint32(p, uint32(r.Imm))
}

// Decode splits code into slots. A length that is not a multiple of 8 is an error.
func Decode(code []byte) ([]Raw, error) {
	if len(code)%8 != 0 {
		return nil, fmt.Errorf("length of %d bytes is not a multiple of 8", len(code))
	}
	raw := make([]Raw, len(code)/8)
	for n := range raw {
		p := code[8*n:]
		raw[n] = Raw{
			p[0], p[1] & 15, p[1] >> 4, int16(binary.LittleEndian.Uint16(p[2:])),
			int32(binary.LittleEndian.Uint32(p[4:])),
		}
	}
	return raw, nil
}

var sizeBits = map[int]uint8{1: 0x10, 2: 0x08, 4: 0x00, 8: 0x18}
var sizeOfBits = map[uint8]int{0x10: 1, 0x08: 2, 0x00: 4, 0x18: 8}

var condCodes = [...]uint8{ir.EQ: 0x10, ir.NE: 0x50, ir.ULT: 0xa0, ir.ULE: 0xb0, ir.UGT: 0x20, ir.UGE: 0x30,
	ir.SLT: 0xc0, ir.SLE: 0xd0, ir.SGT: 0x60, ir.SGE: 0x70}

// withSource fills in the source operand: a register or a 32-bit immediate.
func (r Raw) withSource(o Operand) Raw {
	switch {
	case o.IsReg() && !o.IsVirt():
		r.Code |= sourceReg
		r.Src = uint8(o.Reg)
	case o.IsImm32():
		r.Imm = int32(o.Imm)
	default:
		panic("BUG: operand " + o.String() + " cannot be encoded")
	}
	return r
}

// RawBranch returns a conditional jump over off slots; w compares the lower 32 bits.
func RawBranch(c ir.Cond, w bool, a, b Operand, off int16) Raw {
	if w {
		return Raw{Code: classJMP32 | condCodes[c], Dst: uint8(a.Reg), Off: off}.withSource(b)
	}
	return Raw{Code: classJMP | condCodes[c], Dst: uint8(a.Reg), Off: off}.withSource(b)
}

// RawJump returns an unconditional jump over off slots.
func RawJump(off int16) Raw { return Raw{Code: classJMP | jmpJA, Off: off} }

// RawExit returns the return.
func RawExit() Raw { return Raw{Code: classJMP | jmpEXIT} }

// rawMov encodes d = o; one or two slots.
func rawMov(dst Reg, o Operand, w bool) []Raw {
	d := uint8(dst)
	class := uint8(classALU64)
	if w {
		class = classALU
	}
	switch o.Kind {
	case FrameRef:
		return []Raw{
			{Code: classALU64 | ops[Mov].code | sourceReg, Dst: d, Src: uint8(R10)},
			Raw{Code: classALU64 | ops[Add].code, Dst: d}.withSource(ImmOp(o.Imm)),
		}
	case MapRef:
		return []Raw{{Code: CodeLdImm64, Dst: d, Src: PseudoMap}, {}}
	case FuncRef:
		return []Raw{{Code: CodeLdImm64, Dst: d, Src: PseudoFunc}, {}}
	case GlobRef:
		return []Raw{{Code: CodeLdImm64, Dst: d}, {}}
	}
	if o.Kind == Imm && !o.IsImm32() {
		if o.Imm == int64(uint32(o.Imm)) { // one slot: the 32-bit move clears the upper half
			return []Raw{{Code: classALU | ops[Mov].code, Dst: d, Imm: int32(uint32(o.Imm))}}
		}
		return []Raw{{Code: CodeLdImm64, Dst: d, Imm: int32(o.Imm)}, {Imm: int32(o.Imm >> 32)}}
	}
	return []Raw{Raw{Code: class | ops[Mov].code, Dst: d}.withSource(o)}
}

// Encode returns the instruction in machine form, in slots. It panics when i is not
// in machine form: that is a bug in the allocator.
func (i *Insn) Encode() []Raw {
	d := uint8(i.Dst)
	switch i.Op {
	case Mov:
		return rawMov(i.Dst, i.Args[0], i.W)
	case CoreImm:
		if i.Kind == ir.EnumvalValue { // loaders refuse a negative value in 32 bits
			return []Raw{{Code: CodeLdImm64, Dst: d}, {}}
		}
		return []Raw{{Code: classALU64 | ops[Mov].code, Dst: d}}
	case IDImm:
		return []Raw{Raw{Code: classALU64 | ops[Mov].code, Dst: d}.withSource(ImmOp(i.Imm))}
	case Load:
		return []Raw{{classLDX | modeMEM | sizeBits[i.Size], d, uint8(i.Args[0].Reg), int16(i.Off), 0}}
	case Store:
		r := Raw{Code: modeMEM | sizeBits[i.Size], Dst: uint8(i.Args[0].Reg), Off: int16(i.Off)}
		if i.Args[1].IsReg() {
			r.Code, r.Src = r.Code|classSTX, uint8(i.Args[1].Reg)
		} else {
			r.Code |= classST
			r.Imm = int32(i.Args[1].Imm)
		}
		return []Raw{r}
	case XAdd:
		return []Raw{
			{classSTX | modeXADD | sizeBits[i.Size], uint8(i.Args[0].Reg), uint8(i.Args[1].Reg), int16(i.Off), 0},
		}
	case Select:
		i.mustTie(2)
		move := rawMov(i.Dst, i.Args[3], false)
		return append([]Raw{RawBranch(i.Cond, false, i.Args[0], i.Args[1], int16(len(move)))}, move...)
	case Call:
		return []Raw{{Code: classJMP | jmpCALL, Imm: int32(i.Imm)}}
	case CallSub:
		return []Raw{{Code: classJMP | jmpCALL, Src: PseudoCall, Imm: -1}}
	case Swap:
		i.mustTie(0)
		return []Raw{{classALU | ops[Swap].code | sourceReg, d, 0, 0, int32(i.Size * 8)}}
	}
	i.mustTie(0)
	class := uint8(classALU64)
	if i.W {
		class = classALU
	}
	r := Raw{Code: class | ops[i.Op].code, Dst: d}
	if i.Op == Neg {
		return []Raw{r}
	}
	return []Raw{r.withSource(i.Args[1])}
}

func (i *Insn) mustTie(n int) {
	if i.Args[n] != RegOp(i.Dst) {
		panic("BUG: not in machine form: " + i.String())
	}
}

// Disassemble prints encoded code in the verifier's syntax, one instruction per line with
// its slot number. note returns a comment and, for a slot that refers to a symbol, the
// symbol's text; it may be nil.
func Disassemble(code []byte, note func(slot int) (symbol, comment string)) (string, error) {
	raw, err := Decode(code)
	if err != nil {
		return "", err
	}
	if note == nil {
		note = func(int) (string, string) { return "", "" }
	}
	var s strings.Builder
	for n := 0; n < len(raw); n++ {
		symbol, comment := note(n)
		var next Raw
		wide := raw[n].Code == CodeLdImm64
		if wide && n+1 < len(raw) {
			next = raw[n+1]
		}
		fmt.Fprintf(&s, "%4d: (%02x) %s", n, raw[n].Code, raw[n].text(next, symbol))
		if comment != "" {
			s.WriteString(" ; " + comment)
		}
		s.WriteByte('\n')
		if wide {
			n++
		}
	}
	return s.String(), nil
}

var aluSigns = map[uint8]string{0x00: "+", 0x10: "-", 0x20: "*", 0x30: "/", 0x40: "|", 0x50: "&", 0x60: "<<",
	0x70: ">>", 0x90: "%", 0xa0: "^", 0xb0: "", 0xc0: "s>>"}

var jumpSigns = map[uint8]string{0x10: "==", 0x20: ">", 0x30: ">=", 0x40: "&", 0x50: "!=", 0x60: "s>", 0x70: "s>=",
	0xa0: "<", 0xb0: "<=", 0xc0: "s<", 0xd0: "s<="}

// text returns r in the verifier's syntax; next is the second slot of ld_imm64.
func (r Raw) text(next Raw, symbol string) string {
	unknown := fmt.Sprintf("unknown %02x", r.Code)
	mem := func(base uint8) string {
		return fmt.Sprintf("*(u%d *)(r%d %+d)", 8*sizeOfBits[r.Code&0x18], base, r.Off)
	}
	switch class := r.Code & 7; class {
	case classALU, classALU64:
		return r.aluText()
	case classLDX:
		if r.Code&0xe0 == modeMEM {
			return fmt.Sprintf("r%d = %s", r.Dst, mem(r.Src))
		}
	case classST:
		if r.Code&0xe0 == modeMEM {
			return fmt.Sprintf("%s = %d", mem(r.Dst), r.Imm)
		}
	case classSTX:
		switch {
		case r.Code&0xe0 == modeMEM:
			return fmt.Sprintf("%s = r%d", mem(r.Dst), r.Src)
		case r.Code&0xe0 == modeXADD && r.Imm == 0:
			return fmt.Sprintf("lock %s += r%d", mem(r.Dst), r.Src)
		}
	case classLD:
		if r.Code == CodeLdImm64 && symbol != "" {
			return fmt.Sprintf("r%d = %s", r.Dst, symbol)
		} else if r.Code == CodeLdImm64 {
			return fmt.Sprintf("r%d = %#x", r.Dst, uint64(uint32(next.Imm))<<32|uint64(uint32(r.Imm)))
		}
	case classJMP, classJMP32:
		return r.jumpText(symbol)
	}
	return unknown
}

func (r Raw) aluText() string {
	letter := "w"
	if r.Code&7 == classALU64 {
		letter = "r"
	}
	d := fmt.Sprintf("%s%d", letter, r.Dst)
	src := fmt.Sprintf("%d", r.Imm)
	if r.Code&sourceReg != 0 {
		src = fmt.Sprintf("%s%d", letter, r.Src)
	}
	switch op := r.Code & 0xf0; op {
	case ops[Neg].code:
		return fmt.Sprintf("%s = -%s", d, d)
	case ops[Swap].code:
		order := "le"
		if r.Code&sourceReg != 0 {
			order = "be"
		}
		return fmt.Sprintf("r%d = %s%d r%d", r.Dst, order, r.Imm, r.Dst)
	default:
		sign, ok := aluSigns[op]
		if !ok {
			return fmt.Sprintf("unknown %02x", r.Code)
		}
		return fmt.Sprintf("%s %s= %s", d, sign, src)
	}
}

func (r Raw) jumpText(symbol string) string {
	switch op := r.Code & 0xf0; {
	case op == jmpJA && r.Code&7 == classJMP:
		return fmt.Sprintf("goto pc%+d", r.Off)
	case op == jmpCALL && symbol != "":
		return "call " + symbol
	case op == jmpCALL && r.Src == PseudoCall:
		return fmt.Sprintf("call pc%+d", r.Imm)
	case op == jmpCALL:
		name := "unknown"
		if h := kernel.HelperByID(r.Imm); h != nil {
			name = "bpf_" + h.Name
		}
		return fmt.Sprintf("call %s#%d", name, r.Imm)
	case op == jmpEXIT:
		return "exit"
	default:
		letter := "w"
		if r.Code&7 == classJMP {
			letter = "r"
		}
		sign, ok := jumpSigns[op]
		if !ok {
			return fmt.Sprintf("unknown %02x", r.Code)
		}
		src := fmt.Sprintf("%#x", uint32(r.Imm))
		if r.Code&sourceReg != 0 {
			src = fmt.Sprintf("%s%d", letter, r.Src)
		}
		return fmt.Sprintf("if %s%d %s %s goto pc%+d", letter, r.Dst, sign, src, r.Off)
	}
}
