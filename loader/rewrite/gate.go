// SPDX-License-Identifier: Apache-2.0

package rewrite

import "github.com/cilium/ebpf/asm"

// Gate makes a program run only for the events that its generation counts. While an object replaces another one, the
// programs of both are attached, and each event runs both. A word of the array Map that both share has the generation
// that counts, and changes once. Programs that read only this word would count an event twice if it changed between
// the two, so each program acts on a copy of the word: that of its attach point on its CPU, or in its task. The zero value
// lets every event pass.
//
// The value of the map has lines of GateLine bytes: one for the word, one for each task, by the low bits of its number,
// and one for each CPU. A line of a task or CPU has a byte for each attach point: the copies.
type Gate struct {
	Map        int // descriptor; 0: no gate
	CPUs       int
	Slot       int  // of the attach point, below GateLine: programs of both generations for the same event have the same
	Generation byte // that of the program
	// Direct means that programs of two generations never run for the same event: they need no copies.
	Direct bool
	// NewFirst means that the kernel runs the program that was attached last before those attached earlier.
	NewFirst bool
	// ByTask means that programs run in the context of a task that can be interrupted, or move to another CPU, between
	// the programs of an event.
	ByTask bool
}

// GateLine is a cache line: the number of bytes that the word, and the copies of a CPU or task, have for themselves.
// Tasks with equal numbers modulo GateTasks share a line.
const (
	GateLine  = 64
	GateTasks = 4096
)

// emit appends the test. Suppose that the word changes during an event.
//
// If programs run in the order in which they were attached, only the old one changes the copy, before it runs: it either
// counts the event, and the new one still finds the old copy, or it changes the copy, and the new one counts. In the
// other order this misses one event for each copy, but counts none twice, so it is also the form for programs whose
// order is not known.
//
// If programs run in the opposite order (NewFirst), the new one changes the copy when it counts, and the old one counts
// each event for which it has not changed.
//
// Programs that have events of their own (Direct) read only the word.
func (g *Gate) emit(p *prologue) {
	if g.Map == 0 {
		return
	}
	mine, slot, lines := int32(g.Generation), int16(g.Slot), GateLine
	if g.Direct {
		p.addMap(asm.R2, g.Map, 0)
		p.emit(load(asm.R2, asm.R2, 0, asm.Byte))
		p.leave(asm.JNE, asm.R2, mine)
		return
	}
	if g.ByTask {
		p.emit(callHelper(asm.FnGetCurrentPidTgid), aluImm(asm.And, asm.R0, GateTasks-1))
	} else {
		lines += GateLine * GateTasks
		p.emit(callHelper(asm.FnGetSmpProcessorId))
		p.leave(asm.JGE, asm.R0, int32(g.CPUs))
	}
	p.emit(aluImm(asm.LSh, asm.R0, 6)) // GateLine
	p.addMap(asm.R1, g.Map, lines)
	p.emit(aluReg(asm.Add, asm.R0, asm.R1))
	if g.NewFirst {
		p.addMap(asm.R2, g.Map, 0)
		p.emit(
			load(asm.R2, asm.R2, 0, asm.Byte), load(asm.R3, asm.R0, slot, asm.Byte),
			jump(asm.JEq, asm.R2, mine, 2),
		)
		p.leave(asm.JNE, asm.R3, mine)
		p.emit(jump(asm.Ja, 0, 0, 1), store(asm.R0, slot, asm.R2, asm.Byte))
		return
	}
	p.emit(load(asm.R3, asm.R0, slot, asm.Byte))
	p.leave(asm.JNE, asm.R3, mine)
	p.addMap(asm.R2, g.Map, 0)
	p.emit(
		load(asm.R2, asm.R2, 0, asm.Byte),
		jump(asm.JEq, asm.R2, mine, 2),
		store(asm.R0, slot, asm.R2, asm.Byte),
	)
	p.leave(asm.Ja, 0, 0)
}
