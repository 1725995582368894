// SPDX-License-Identifier: Apache-2.0

package elffile

import "encoding/binary"

// flow is what runs after an instruction.
type flow uint8

const (
	onward flow = iota // the next instruction
	branch             // the next instruction or the target
	jump               // the target, if it is known; never the next instruction
	call               // the target, if it is known, and then the next instruction if that returns
	halt               // nothing: the instruction returns, traps or is not for programs
)

// insn is a decoded instruction. A target that is not in the instruction is 0.
type insn struct {
	size   uint64
	flow   flow
	target uint64
	slot   uint64 // address from which an indirect jump or call loads its target; 0: unknown
	lock   bool   // begins with the prefix lock
	// returns means that the instruction, a halt, returns to the caller.
	returns bool
}

// decodeX86 decodes the instruction at the start of code, which is at the virtual address addr; false: it is unknown.
func decodeX86(code []byte, addr uint64) (insn, bool) {
	x := &x86{code: code[:min(len(code), maxX86)]}
	if len(code) > 1 && code[0]|code[1] == 0 { // padding: no compiler emits this addition
		return insn{}, false
	}
	if !x.instruction() || x.at > len(x.code) {
		return insn{}, false
	}
	in := insn{size: uint64(x.at), lock: code[0] == 0xf0}
	reg, offset := x.modRM>>3&7, 0
	switch op := x.op; {
	case x.other:
	case x.two && op&0xf0 == 0x80: // jcc
		in.flow, offset = branch, 4
	case x.two && (op == 0x0b || op == 0xb9 || op == 0xff || op == 0x07 || op == 0x34 || op == 0x35):
		in.flow = halt // ud2, ud1, ud0, sysret, sysenter, sysexit
	case x.two:
	case op&0xf0 == 0x70, op&0xfc == 0xe0: // jcc, loop, jrcxz
		in.flow, offset = branch, 1
	case op == 0xc7 && x.modRM == 0xf8: // xbegin
		in.flow, offset = branch, 4
	case op == 0xe8:
		in.flow, offset = call, 4
	case op == 0xe9:
		in.flow, offset = jump, 4
	case op == 0xeb:
		in.flow, offset = jump, 1
	case op == 0xff && reg&6 == 2:
		in.flow, in.slot = call, slotOf(x, addr)
	case op == 0xff && reg&6 == 4:
		in.flow, in.slot = jump, slotOf(x, addr)
	case op == 0xff && reg == 7, op&0xfc == 0x6c, op&0xf4 == 0xe4, op == 0xfa, op == 0xfb:
		return insn{}, false // invalid; ports and interrupts: not for programs
	case op == 0xc2, op == 0xc3, op&0xfe == 0xca, op == 0xcf, op == 0xcc, op == 0xf1, op == 0xf4:
		in.flow = halt // ret, iret, int3, int1, hlt
		in.returns = op&0xfe == 0xc2 || op&0xfe == 0xca || op == 0xcf
	}
	switch offset {
	case 1:
		in.target = addr + in.size + uint64(int64(int8(code[x.at-1])))
	case 4:
		if x.small && !x.w { // processors of Intel and AMD differ in the size of the offset
			return insn{}, false
		}
		in.target = addr + in.size + uint64(int64(int32(binary.LittleEndian.Uint32(code[x.at-4:]))))
	}
	return in, true
}

// decodeRISCV is decodeX86 for RISC-V, following chapters 2 and 26 of its manual.
func decodeRISCV(code []byte, addr uint64) (insn, bool) {
	in := insn{size: uint64(lengthRISCV(code))}
	switch in.size {
	case 2:
		w := uint32(binary.LittleEndian.Uint16(code))
		switch rs1 := w >> 7 & 31; {
		case w == 0: // defined to be illegal
			return in, false
		case w&0xe003 == 0xa001: // c.j
			in.flow = jump
			in.target = addr + signed(
				w>>12&1<<11|w>>11&1<<4|w>>9&3<<8|w>>8&1<<10|w>>7&1<<6|w>>6&1<<7|w>>3&7<<1|w>>2&1<<5, 12)
		case w&0xc003 == 0xc001: // c.beqz, c.bnez
			in.flow = branch
			in.target = addr + signed(w>>12&1<<8|w>>10&3<<3|w>>5&3<<6|w>>3&3<<1|w>>2&1<<5, 9)
		case w&0xf07f == 0x8002 && rs1 != 0: // c.jr
			in.flow = jump
			if rs1 == 1 || rs1 == 5 {
				in.flow, in.returns = halt, true
			}
		case w == 0x9002: // c.ebreak
			in.flow = halt
		case w&0xf07f == 0x9002: // c.jalr
			in.flow = call
		}
	case 4:
		w := binary.LittleEndian.Uint32(code)
		rd := w >> 7 & 31
		switch w & 0x7f {
		case 0x63: // branches
			in.flow = branch
			in.target = addr + signed(w>>31<<12|w>>7&1<<11|w>>25&63<<5|w>>8&15<<1, 13)
		case 0x6f, 0x67: // jal, jalr
			in.flow = jump
			if rd == 1 || rd == 5 { // link registers
				in.flow = call
			} else if rd != 0 {
				return in, false
			}
			if w&8 != 0 {
				in.target = addr + signed(w>>31<<20|w>>12&255<<12|w>>20&1<<11|w>>21&1023<<1, 21)
			}
		case 0x73: // system: ebreak, and instructions of the kernel
			if w>>12&7 == 0 && w != 0x73 { // not ecall
				in.flow = halt
			}
		}
	default:
		return in, false
	}
	return in, true
}

// signed extends a number of some bits to 64.
func signed(v uint32, bits int) uint64 { return uint64(int64(int32(v)<<(32-bits)) >> (32 - bits)) }

// lengthRISCV returns the length of an instruction of 32 bits, or of 16 with the extension C.
func lengthRISCV(code []byte) int {
	switch {
	case len(code) >= 2 && code[0]&3 != 3:
		return 2
	case len(code) >= 4 && code[0]&0x1f != 0x1f:
		return 4
	}
	return 0
}

// The bytes after the opcode of an x86 instruction, by opcode, for the three opcode maps in which they differ between
// opcodes. The letters mean
//
//	.  nothing
//	m  ModRM
//	b  an immediate of 1 byte       B  ModRM and that
//	w  of 2 bytes                   e  of 3 bytes (enter)
//	z  of 4, or 2 with prefix 66    Z  ModRM and that
//	j  of 4, regardless of the prefix
//	v  of 4, 2 with 66, 8 with REX.W
//	o  an address of 8 bytes, or 4 with prefix 67
//	t  ModRM, and b if its reg is 0 or 1 (test)
//	T  ModRM, and z if its reg is 0 or 1
//	x  invalid in 64-bit mode; or a prefix or escape, which is handled before
const oneByte = "" +
	"mmmmbzxxmmmmbzxx" + "mmmmbzxxmmmmbzxx" + "mmmmbzxxmmmmbzxx" + "mmmmbzxxmmmmbzxx" + // 00
	"xxxxxxxxxxxxxxxx" + "................" + "xxxmxxxxzZbB...." + "bbbbbbbbbbbbbbbb" + // 40
	"BZxBmmmmmmmmmmmm" + "..........x....." + "oooo....bz......" + "bbbbbbbbvvvvvvvv" + // 80
	"BBw.xxBZe.w..bx." + "mmmmxxx.mmmmmmmm" + "bbbbbbbbjjxb...." + "x.xx..tT......mm" // c0

const twoBytes = "" + // after 0f
	"mmmmx.....x.xm.B" + "mmmmmmmmmmmmmmmm" + "mmmmxxxxmmmmmmmm" + "......x.xxxxxxxx" +
	"mmmmmmmmmmmmmmmm" + "mmmmmmmmmmmmmmmm" + "mmmmmmmmmmmmmmmm" + "BBBBmmm.mmmmmmmm" +
	"jjjjjjjjjjjjjjjj" + "mmmmmmmmmmmmmmmm" + "...mBmmm...mBmmm" + "mmmmmmmmmmBmmmmm" +
	"mmBmBBBm........" + "mmmmmmmmmmmmmmmm" + "mmmmmmmmmmmmmmmm" + "mmmmmmmmmmmmmmmm"

// x86 is the state of decoding an instruction.
type x86 struct {
	code              []byte
	at                int
	small, address, w bool // prefixes 66 and 67, REX.W
	repne             bool // prefix f2
	op, modRM         byte // modRM is 0 if there is none
	two, other        bool // the opcode follows 0f, or another escape
}

// next returns the next byte; past the end it is 0, which decodeX86 detects.
func (x *x86) next() byte {
	x.at++
	if x.at > len(x.code) {
		return 0
	}
	return x.code[x.at-1]
}

// maxX86 is the maximum length of an instruction in bytes.
const maxX86 = 15

// instruction reads an instruction in 64-bit mode; false: it is invalid. It follows the formats of Intel's manual,
// volume 2, chapter 2, and AMD's of XOP; 0f a6 and 0f a7 are VIA's PadLock.
func (x *x86) instruction() bool {
	op := x.next()
	for ; ; op = x.next() {
		switch op {
		case 0x66:
			x.small = true
			continue
		case 0x67:
			x.address = true
			continue
		case 0xf2:
			x.repne = true
			continue
		case 0xf0, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65:
			continue
		}
		break
	}
	if op&0xf0 == 0x40 { // REX
		x.w = op&8 != 0
		op = x.next()
	}
	x.op = op
	x.other = op == 0xc5 || op == 0xc4 || op == 0x62 || op == 0x8f
	switch op {
	case 0x0f:
		return x.escaped()
	case 0xc5: // VEX with two bytes
		x.next()
		return x.vector(1, x.next())
	case 0xc4: // VEX with three
		m := x.next() & 0x1f
		x.next()
		return x.vector(m, x.next())
	case 0x62: // EVEX
		m := x.next() & 7
		x.next()
		x.next()
		return x.vector(m, x.next())
	case 0x8f: // XOP, or pop
		if m := x.next() & 0x1f; m >= 8 {
			x.next()
			return x.vector(m, x.next())
		}
		x.at--
	}
	return x.rest(oneByte[op])
}

func (x *x86) escaped() bool {
	op := x.next()
	x.op, x.two, x.other = op, true, op == 0x38 || op == 0x3a
	switch {
	case op == 0x38:
		x.next()
		return x.rest('m')
	case op == 0x3a:
		x.next()
		return x.rest('B')
	case op == 0x78 && (x.small || x.repne): // extrq, insertq: two immediates
		x.rest('B')
		x.at++
		return true
	default:
		return x.rest(twoBytes[op])
	}
}

// vector reads what follows an opcode of a map of VEX, EVEX or XOP.
func (x *x86) vector(m, op byte) bool {
	switch m {
	case 1:
		if op == 0x77 || op >= 0x70 && op <= 0x73 || op == 0xc2 || op >= 0xc4 && op <= 0xc6 {
			return x.rest(twoBytes[op])
		}
		return x.rest('m')
	case 2, 5, 6, 9:
		return x.rest('m')
	case 3, 8:
		return x.rest('B')
	case 10:
		return x.rest('Z')
	}
	return false
}

// rest reads what follows the opcode.
func (x *x86) rest(kind byte) bool {
	size := 4
	if x.small && !x.w {
		size = 2
	}
	modRM, immediate := false, 0
	switch kind {
	case '.':
	case 'm', 't', 'T':
		modRM = true
	case 'b':
		immediate = 1
	case 'B':
		modRM, immediate = true, 1
	case 'w':
		immediate = 2
	case 'e':
		immediate = 3
	case 'z':
		immediate = size
	case 'Z':
		modRM, immediate = true, size
	case 'j':
		immediate = 4
	case 'v':
		if immediate = size; x.w {
			immediate = 8
		}
	case 'o':
		if immediate = 8; x.address {
			immediate = 4
		}
	default:
		return false
	}
	if modRM {
		m := x.next()
		x.modRM = m
		mod, reg, rm := m>>6, m>>3&7, m&7
		if mod != 3 && rm == 4 {
			rm = x.next() & 7 // SIB: its base
		}
		switch {
		case mod == 1:
			x.at++
		case mod == 2, mod == 0 && rm == 5:
			x.at += 4
		}
		if kind == 't' && reg < 2 {
			immediate = 1
		}
		if kind == 'T' && reg < 2 {
			immediate = size
		}
	}
	x.at += immediate
	return true
}
