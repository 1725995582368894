// SPDX-License-Identifier: Apache-2.0

package probe

import "fmt"

// Program is a type of BPF program.
type Program uint8

// The types of BPF programs that probes are compiled to.
const (
	ProgKprobe     Program = iota // kprobe, kretprobe, uprobe, uretprobe, usdt
	ProgTracepoint                // tracepoint through perf
	// ProgRawTracepoint is a raw tracepoint with untyped arguments; also begin, end and self.
	ProgRawTracepoint
	ProgTPBTF // a raw tracepoint with typed arguments
	ProgFentry
	ProgFexit
	ProgPerfEvent // profile, interval, software, hardware, watchpoint
	ProgIter
	ProgXDP // test, bench: run by BPF_PROG_TEST_RUN on a dummy packet
	numPrograms
)

// Context is the shape of a program's context.
type Context uint8

const (
	// CtxRegs is the saved registers.
	CtxRegs Context = iota
	// CtxRecord is a tracepoint's record, described by its format file: 8 bytes of common fields
	// (hidden from BPF), then the event's own.
	CtxRecord
	// CtxArgs is an array of 8-byte slots, one per argument, each extended to 64 bits (the upper bits
	// of a narrower argument are not defined).
	CtxArgs
	// CtxPerf is struct bpf_perf_event_data: the registers, then u64 sample_period, then u64 addr.
	CtxPerf
	// CtxIter is an array of 8-byte pointers: struct bpf_iter_meta first, then the iterated objects,
	// each null in the last call.
	CtxIter
	// CtxNone is a context from which nothing is read.
	CtxNone
)

// programs has a row for each type of program: libbpf's section prefix; the kernel's BPF_PROG_TYPE and expected
// attach type (0: none); the first kernel version that has it.
var programs = [numPrograms]struct {
	name         string
	typ, attach  uint32
	major, minor int
	context      Context
}{
	ProgKprobe:        {"kprobe", 2, 0, 4, 1, CtxRegs},
	ProgTracepoint:    {"tracepoint", 5, 0, 4, 7, CtxRecord},
	ProgRawTracepoint: {"raw_tp", 17, 0, 4, 17, CtxArgs},
	ProgTPBTF:         {"tp_btf", 26, 23, 5, 5, CtxArgs},
	ProgFentry:        {"fentry", 26, 24, 5, 5, CtxArgs},
	ProgFexit:         {"fexit", 26, 25, 5, 5, CtxArgs},
	ProgPerfEvent:     {"perf_event", 7, 0, 4, 9, CtxPerf},
	ProgIter:          {"iter", 26, 28, 5, 8, CtxIter},
	ProgXDP:           {"xdp", 6, 37, 4, 8, CtxNone},
}

// String returns the name of the type: kprobe, tracepoint, raw_tp, tp_btf, fentry, fexit, perf_event,
// iter, xdp. It is the prefix of the ELF section of programs of the type.
func (p Program) String() string {
	if p < numPrograms {
		return programs[p].name
	}
	return fmt.Sprintf("Program(%d)", p)
}

// BPF returns the kernel's BPF_PROG_TYPE and the expected attach type, 0 if there is none.
func (p Program) BPF() (programType, attachType uint32) { return programs[p].typ, programs[p].attach }

// Since returns the first version of Linux that has the type.
func (p Program) Since() (major, minor int) { return programs[p].major, programs[p].minor }

// Context returns the shape of the context of programs of the type.
func (p Program) Context() Context { return programs[p].context }

// HasRegs reports whether the context of a program begins with the saved registers.
func (p Program) HasRegs() bool {
	return programs[p].context == CtxRegs || programs[p].context == CtxPerf
}

// Programs lists every type of program.
func Programs() []Program {
	all := make([]Program, numPrograms)
	for i := range all {
		all[i] = Program(i)
	}
	return all
}
