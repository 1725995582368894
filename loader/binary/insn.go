// SPDX-License-Identifier: Apache-2.0

package binary

import (
	"debug/elf"
	"errors"

	"btc/internal/arch"
)

// ErrNotCode means that bytes are not a known, complete instruction.
var ErrNotCode = errors.New("no instruction")

// AtInstruction reports whether an instruction starts off bytes after the start of a function, by decoding the
// function from its start. code must extend to off. For architectures without a decoder it returns true.
func AtInstruction(machine elf.Machine, code []byte, off uint64) (bool, error) {
	if a := arch.ByMachine(machine); a != nil && a.InsnSize > 0 {
		return off%uint64(a.InsnSize) == 0, nil
	}
	length, known := lengths[machine]
	if !known {
		return true, nil
	}
	at := uint64(0)
	for at < off {
		if at >= uint64(len(code)) {
			return false, ErrNotCode
		}
		n := length(code[at:])
		if n == 0 {
			return false, ErrNotCode
		}
		at += uint64(n)
	}
	return at == off, nil
}

// lengths are the functions that return the length of the instruction at the start of code, for architectures with
// variable lengths; 0 if there is no instruction.
var lengths = map[elf.Machine]func(code []byte) int{elf.EM_X86_64: lengthX86, elf.EM_RISCV: lengthRISCV}

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
}

// next returns the next byte; past the end it is 0, which lengthX86 detects.
func (x *x86) next() byte {
	x.at++
	if x.at > len(x.code) {
		return 0
	}
	return x.code[x.at-1]
}

// maxX86 is the maximum length of an instruction in bytes.
const maxX86 = 15

// lengthX86 returns the length in bytes of the instruction at the start of code, in 64-bit mode,
// 0 if there is none. It follows the formats of Intel's manual, volume 2, chapter 2, and
// AMD's of XOP; 0f a6 and 0f a7 are VIA's PadLock.
func lengthX86(code []byte) int {
	x := &x86{code: code[:min(len(code), maxX86)]}
	if !x.instruction() || x.at > len(x.code) {
		return 0
	}
	return x.at
}

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
	switch op := x.next(); {
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
