// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"

	"btc/internal/arch"
	"btc/internal/probe"
)

// Version is a kernel version, for documentation and messages.
type Version struct{ Major, Minor int }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// MaxArgs is the number of slots in a CtxArgs context that the kernel lets a
// program read (MAX_BPF_FUNC_ARGS; fexit's result comes after the arguments).
const MaxArgs = 12

// Context says what a program of one type may load from its context. All loads
// are aligned to their size and have a constant offset; nothing may be stored.
type Context struct {
	Program probe.Program
	Form    probe.Context
	First   int  // lowest offset that may be loaded, in bytes
	Limit   int  // end of what may be loaded, in bytes
	Sizes   int  // or of the allowed load sizes 1, 2, 4, 8
	Typed   bool // slots that are pointers carry their BTF type and may be dereferenced
}

// ContextOf returns the context of programs of a type on an architecture.
func ContextOf(p probe.Program, a *arch.Arch) Context {
	const any = 1 | 2 | 4 | 8
	c := Context{Program: p, Form: p.Context(), Sizes: any}
	switch p {
	case probe.ProgKprobe:
		c.Limit = a.RegsSize
	case probe.ProgTracepoint:
		c.First, c.Limit = 8, 2048 // PERF_MAX_TRACE_SIZE: 2048 before 5.12, 8192 since
	case probe.ProgRawTracepoint:
		c.Limit = 8 * MaxArgs
	case probe.ProgTPBTF, probe.ProgFentry, probe.ProgIter:
		c.Limit, c.Sizes, c.Typed = 8*MaxArgs, 8, true
	case probe.ProgFexit:
		c.Limit, c.Sizes, c.Typed = 8*(MaxArgs+1), 8, true
	case probe.ProgPerfEvent:
		// The kernel accepts only 8-byte loads of the registers; 8 is right for the other fields,
		// too.
		c.Limit, c.Sizes = a.RegsSize+16, 8
	}
	return c
}
