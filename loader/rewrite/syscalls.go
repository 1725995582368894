// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"btc/internal/arch"
	"btc/internal/manifest"
)

// Programs for many system call tracepoints run from one raw tracepoint (resolve.SharedRaw). A
// prologue does what the kernel's perf_syscall_enter and perf_syscall_exit do for each tracepoint.
// It looks up the number of the system call in a table, skips calls of the 32-bit ABI, whose
// numbers have other meanings and for which the tracepoints do not fire, and builds the
// tracepoint's record in the frame.

// SyscallSlots is the size of the table of numbers. The numbers of x32 calls, which have bit 30 set, are past its
// end.
const SyscallSlots = 1024

// Layout of the record of a system call tracepoint (struct syscall_tp_t of
// kernel/trace/trace_syscalls.c). The attach point's number is stored in place of the common
// fields, which programs cannot read.
const (
	recordID   = 0
	recordNr   = 8
	recordArgs = 16             // six words; at the exit, the return value
	recordExit = recordArgs + 8 // end of the record
)

// nrSizes maps the size of a system call number, in bytes, to the size of the load.
var nrSizes = map[int]asm.Size{4: asm.Word, 8: asm.DWord}

// Syscalls describes the host for programs on the raw tracepoint of system calls.
type Syscalls struct {
	Regs   *arch.SyscallRegs
	Compat int32 // offset of Regs.Field in struct task_struct
	// Table is the descriptor of an array map whose only value has SyscallSlots 32-bit numbers: for
	// each system call the number of its attach point plus one, or 0 if it is not traced.
	Table int
}

// Program turns a tracepoint's program into one for the raw tracepoint of a direction, sys_enter or
// sys_exit. The manifest must permit it (Code.Share).
func (d *Syscalls) Program(spec *ebpf.ProgramSpec, mp *manifest.Program, direction string) error {
	size := recordExit
	var args [manifest.MaxCallArgs]bool
	if direction == "sys_enter" {
		size = recordArgs
		for _, n := range mp.Code.RecordArgs {
			args[n] = true
			size = max(size, recordArgs+8*(n+1))
		}
	}
	record, err := belowFrame(mp, size)
	if err != nil {
		return err
	}
	body := spec.Instructions
	if err := idFromFrame(body, mp, record+recordID); err != nil {
		return err
	}
	head := d.prologue(direction, record, args)
	spec.Type, spec.AttachType, spec.AttachTo = ebpf.RawTracepoint, ebpf.AttachNone, direction
	spec.SectionName = "raw_tp/" + direction
	spec.Instructions = putInFront(head, body)
	return nil
}

// prologue returns 0 if the program must not run. Otherwise it fills in the record and sets r1, the
// program's context, to its address. Before that, the record's word for the number serves as a
// buffer.
func (d *Syscalls) prologue(direction string, record int16, args [manifest.MaxCallArgs]bool) asm.Instructions {
	const out = 2 // index of the exit label
	var p prologue
	leave := func(op asm.JumpOp, reg asm.Register, imm int32) {
		p.emit(jump(op, reg, imm, int16(out-Slots(p.insns)-1)))
	}
	// read copies size bytes at r3 to the frame.
	read := func(to int16, size int32) {
		p.emit(mov(asm.R1, asm.RFP), aluImm(asm.Add, asm.R1, int32(to)), movImm(asm.R2, size),
			callHelper(asm.FnProbeReadKernel))
		leave(asm.JNE, asm.R0, 0)
	}
	p.emit(mov(asm.R6, asm.R1),
		jump(asm.Ja, 0, 0, 2),
		movImm(asm.R0, 0), exit())
	if direction == "sys_enter" {
		p.emit(load(asm.R7, asm.R6, 8, asm.DWord))
	} else {
		p.emit(load(asm.R3, asm.R6, 0, asm.DWord), aluImm(asm.Add, asm.R3, int32(d.Regs.Nr)))
		read(record+recordNr, int32(d.Regs.NrSize))
		p.emit(load(asm.R7, asm.RFP, record+recordNr, nrSizes[d.Regs.NrSize]))
	}
	// The comparison is unsigned, so that negative numbers, which are not system calls, are out of
	// range.
	leave(asm.JGE, asm.R7, SyscallSlots)
	p.emit(mov(asm.R1, asm.R7), aluImm(asm.LSh, asm.R1, 2))
	p.addMap(asm.R2, d.Table, 0)
	p.emit(aluReg(asm.Add, asm.R2, asm.R1), load(asm.R8, asm.R2, 0, asm.Word))
	leave(asm.JEq, asm.R8, 0)
	p.emit(callHelper(asm.FnGetCurrentTask), mov(asm.R3, asm.R0), aluImm(asm.Add, asm.R3, d.Compat))
	read(record+recordNr, 4)
	p.emit(load(asm.R1, asm.RFP, record+recordNr, asm.Word))
	leave(asm.JSet, asm.R1, d.Regs.Bit)
	p.emit(aluImm(asm.Add, asm.R8, -1),
		store(asm.RFP, record+recordID, asm.R8, asm.DWord),
		store(asm.RFP, record+recordNr, asm.R7, asm.DWord))
	if direction == "sys_exit" {
		p.emit(load(asm.R1, asm.R6, 8, asm.DWord), store(asm.RFP, record+recordArgs, asm.R1, asm.DWord))
	}
	for i, at := range d.Regs.Args {
		if args[i] {
			p.emit(load(asm.R3, asm.R6, 0, asm.DWord), aluImm(asm.Add, asm.R3, int32(at)))
			read(record+recordArgs+8*int16(i), 8)
		}
	}
	p.emit(mov(asm.R1, asm.RFP), aluImm(asm.Add, asm.R1, int32(record)))
	return p.insns
}
