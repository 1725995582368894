// SPDX-License-Identifier: Apache-2.0

package unwind

import "encoding/binary"

// A walk in the kernel that meets a process or a file that is not known yet goes on here: the program sends a record with
// the registers of the frame at which it has stopped and a copy of the stack from there on. These are the offsets of its
// fields, each a u64.
const (
	RawID     = 8 * iota // of the stack: a hash, and 0 in the bits of the length (StackLenBits)
	RawTime              // CLOCK_MONOTONIC, ns
	RawTgid              // of the loader's PID namespace
	RawDepth             // of the map of stacks
	RawReason            // why the walk has stopped
	RawPC                // the registers of the frame
	RawSP
	RawFP
	RawLR
	RawExact  // 1: PC is an address of an instruction, and LR is known; 0: PC is a return address
	RawCount  // frames that were found, with this one only if its mapping is known
	RawFrom   // address of the first byte of the copy
	RawFailed // for each part of the copy: not 0 if it could not be read
	RawFrames = RawFailed + 8*RawPages
	RawStack  = RawFrames + 8*MaxFrames
	// RawSize is the size of a record. Each part of the copy has a page, and begins there where it does in its own page: the
	// first and the last part are parts of a page.
	RawSize = RawStack + RawPages*RawPage

	RawPage  = 4096
	RawPages = 5
	// RawBelow is how far below the stack pointer the copy begins: rules may find there what was just popped.
	RawBelow = 128
)

// The budget of raw stacks: offsets of u64 in the element of a map.
const (
	BudgetSince   = 8 * iota // begin of the current second, ns
	BudgetSent               // in this second
	BudgetSecond             // most in a second; 0: none may be sent
	BudgetProcess            // most of a process
	BudgetSize
)

// SentKey with a process ID is the key of the number of raw stacks that a process has sent, among the keys of what was
// asked for: no file has this number.
const SentKey = 1<<32 - 1

// StackLenBits is the number of low bits of a stack's id that hold the number of its frames. The others are a hash.
const StackLenBits = 11

// StackID returns the id that programs compute for a stack of a map with a depth.
func StackID(frames []uint64, depth int) uint64 {
	const factor, unrolled, atOnce = -0x61c8864680b583eb & (1<<64 - 1), 8, 8
	frames = frames[:min(len(frames), depth)]
	h := uint64(factor)
	mix := func(i int) (last uint64) {
		if i < len(frames) {
			last = frames[i]
		}
		if i%2 == 1 {
			h ^= last
		} else {
			h = (h + last) * factor
		}
		return last
	}
	if depth <= unrolled {
		for i := range depth {
			mix(i)
		}
		if depth%2 == 0 {
			h *= factor
		}
	} else {
		for i := 0; i < depth; i += atOnce {
			last := uint64(0)
			for j := range atOnce {
				last = mix(i + j)
			}
			if last == 0 {
				break
			}
		}
		h *= factor
	}
	return h&^(1<<StackLenBits-1) | uint64(len(frames))
}

// Raw is a walk that a program could not finish.
type Raw struct {
	Registers      // of the frame at which it stopped
	ID, Time, Tgid uint64
	Depth          int
	Reason         Reason
	Frames         []uint64 // before it
	From           uint64   // address of the first byte of Stack
	Stack          []byte   // what could be read
}

// ParseRaw decodes a record. Stack is a part of it.
func ParseRaw(b []byte) (r *Raw, ok bool) {
	if len(b) < RawSize {
		return nil, false
	}
	word := func(off int) uint64 { return binary.NativeEndian.Uint64(b[off:]) }
	r = &Raw{ID: word(RawID), Time: word(RawTime), Tgid: word(RawTgid), Depth: int(word(RawDepth)), Reason: Reason(word(RawReason)), From: word(RawFrom)}
	r.PC, r.SP, r.FP, r.LR, r.Caller = word(RawPC), word(RawSP), word(RawFP), word(RawLR), word(RawExact) == 0
	n := int(min(word(RawCount), MaxFrames))
	if r.Reason == NotYetKnown && n > 0 { // the frame itself, whose mapping is known
		n--
	}
	for i := range n {
		r.Frames = append(r.Frames, word(RawFrames+8*i))
	}
	off, size := int(r.From%RawPage), 0
	for i := range RawPages {
		if word(RawFailed+8*i) != 0 {
			break
		}
		switch i {
		case 0:
			size += RawPage - off
		case RawPages - 1:
			size += off
		default:
			size += RawPage
		}
	}
	r.Stack = b[RawStack+off:][:size:size]
	return r, true
}

// Word reads a word of the copy.
func (r *Raw) Word(addr uint64) (value uint64, ok bool) {
	if off := addr - r.From; off < uint64(len(r.Stack)) && off+8 <= uint64(len(r.Stack)) {
		return binary.NativeEndian.Uint64(r.Stack[off:]), true
	}
	return 0, false
}
