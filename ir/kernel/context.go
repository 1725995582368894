package kernel

import (
	"fmt"

	"btc/internal/arch"
)

// Version is a kernel version, for documentation and messages.
type Version struct{ Major, Minor int }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// ProgKind is a kind of BPF program that a probe becomes.
type ProgKind uint8

const (
	KProbe        ProgKind = iota // kprobe, kretprobe, uprobe, uretprobe, usdt
	Tracepoint                    // tracepoint through perf
	RawTracepoint                 // raw_tp, also begin, end and self
	TPBTF                         // tp_btf: raw tracepoint with typed arguments
	FEntry
	FExit
	PerfEvent // profile, interval, software, hardware, watchpoint
	Iter
	XDP // test, bench: run on a packet of their own by BPF_PROG_TEST_RUN
	numProgKinds
)

// CtxForm is the shape of a program's context.
type CtxForm uint8

const (
	// CtxRegs is the saved registers, arch.Arch.RegsStruct.
	CtxRegs CtxForm = iota
	// CtxRecord is a tracepoint's record as its format file describes it: 8
	// bytes of common fields (hidden from BPF), then the event's own.
	CtxRecord
	// CtxArgs is an array of 8-byte slots, one an argument, each extended to 64
	// bits (the upper bits of a narrower argument are not defined).
	CtxArgs
	// CtxPerf is struct bpf_perf_event_data: the registers (arch.Arch.RegsStruct),
	// then u64 sample_period, then u64 addr.
	CtxPerf
	// CtxIter is an array of 8-byte pointers: struct bpf_iter_meta first, then
	// the iterated objects, each null at the last call. Target.Iter names them.
	CtxIter
	// CtxNone is a context of which nothing is read.
	CtxNone
)

// MaxArgs is the number of slots in a CtxArgs context that the kernel lets a
// program read (MAX_BPF_FUNC_ARGS; fexit's result comes after the arguments).
const MaxArgs = 12

// Context says what a program of one kind may load from its context. All loads
// are aligned to their size and have a constant offset; nothing may be stored.
type Context struct {
	Kind ProgKind
	Name string // for messages and the IR text: kprobe, tracepoint, raw_tp, tp_btf, fentry, fexit, perf_event, iter, xdp

	// ProgType is the kernel's BPF_PROG_TYPE number, AttachType the expected
	// attach type (0 where the kernel wants none).
	ProgType, AttachType uint32
	Since                Version

	Form  CtxForm
	First int  // lowest offset that may be loaded, in bytes
	Limit int  // end of what may be loaded, in bytes
	Sizes int  // or of the allowed load sizes 1, 2, 4, 8
	Typed bool // slots that are pointers carry their BTF type and may be dereferenced
}

// Context is the context of programs of kind k on an architecture.
func (k ProgKind) Context(a *arch.Arch) Context {
	const any = 1 | 2 | 4 | 8
	switch k {
	case KProbe:
		return Context{k, "kprobe", 2, 0, Version{4, 1}, CtxRegs, 0, a.RegsSize, any, false}
	case Tracepoint:
		// PERF_MAX_TRACE_SIZE: 2048 before 5.12, 8192 since.
		return Context{k, "tracepoint", 5, 0, Version{4, 7}, CtxRecord, 8, 2048, any, false}
	case RawTracepoint:
		return Context{k, "raw_tp", 17, 0, Version{4, 17}, CtxArgs, 0, 8 * MaxArgs, any, false}
	case TPBTF:
		return Context{k, "tp_btf", 26, 23, Version{5, 5}, CtxArgs, 0, 8 * MaxArgs, 8, true}
	case FEntry:
		return Context{k, "fentry", 26, 24, Version{5, 5}, CtxArgs, 0, 8 * MaxArgs, 8, true}
	case FExit:
		return Context{k, "fexit", 26, 25, Version{5, 5}, CtxArgs, 0, 8 * (MaxArgs + 1), 8, true}
	case PerfEvent:
		// In the register part the kernel takes 8-byte loads only; 8 is right everywhere.
		return Context{k, "perf_event", 7, 0, Version{4, 9}, CtxPerf, 0, a.RegsSize + 16, 8, false}
	case Iter:
		return Context{k, "iter", 26, 28, Version{5, 8}, CtxIter, 0, 8 * MaxArgs, 8, true}
	case XDP:
		return Context{k, "xdp", 6, 37, Version{4, 8}, CtxNone, 0, 0, any, false}
	}
	panic(fmt.Sprintf("BUG: no context for program kind %d", k))
}

func (k ProgKind) String() string {
	names := [numProgKinds]string{"kprobe", "tracepoint", "raw_tp", "tp_btf", "fentry", "fexit", "perf_event", "iter", "xdp"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("ProgKind(%d)", k)
}

// ProgKinds lists every kind.
func ProgKinds() []ProgKind {
	all := make([]ProgKind, numProgKinds)
	for i := range all {
		all[i] = ProgKind(i)
	}
	return all
}
