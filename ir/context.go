// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"slices"
	"strconv"
	"strings"

	"btc/internal/probe"
	"btc/targets/kernel"
)

// ContextUse describes how a function uses its context.
type ContextUse struct {
	Loads []int // offsets of loads from it, in bytes, in code order
	Other bool  // anything else: it is passed to a helper, or its address is computed with
}

// Any reports whether the context is used at all.
func (c ContextUse) Any() bool { return len(c.Loads) > 0 || c.Other }

// UsesOfContext returns what a program does with its context, in high and in core IR.
func UsesOfContext(f *Func) ContextUse {
	var c ContextUse
	ctx := f.Entry().Params[0]
	for _, b := range f.Blocks {
		for _, v := range b.Values {
			for i, a := range v.Args {
				switch {
				case a != ctx:
				case v.Op == OpLoad && i == 0 && v.CORE.Type == "":
					c.Loads = append(c.Loads, int(v.Imm))
				default:
					c.Other = true
				}
			}
		}
		b.Term.Uses(func(v **Value) { c.Other = c.Other || *v == ctx })
	}
	return c
}

// LongResult reports whether the word at an offset of the context is the result of the probed function, and an integer
// of 64 bits: other kernels may return 32 bits in it.
func (p *Prog) LongResult(off int) bool {
	return p != nil && slices.ContainsFunc(p.Args, func(u ArgUse) bool {
		return u.Name == "" && 8*u.Slot == off && (u.Bits == 64 || u.Bits == -64)
	})
}

// RecordField returns the member of the record that a program of a system call's tracepoint reads at an
// offset; see kernel.SyscallEnter. ok is false for other programs and offsets.
func (p *Prog) RecordField(off int) (CORERef, bool) {
	if p == nil || p.Kind != probe.Tracepoint || p.Attach.Target != "syscalls" {
		return CORERef{}, false
	}
	exit := strings.HasPrefix(p.Attach.Name, "sys_exit_")
	n := (off - kernel.RecordArgs) / 8
	switch {
	case off == kernel.RecordNr && exit:
		return CORERef{Type: "struct " + kernel.SyscallExit, Path: kernel.RecordNrMember}, true
	case off == kernel.RecordNr:
		return CORERef{Type: "struct " + kernel.SyscallEnter, Path: kernel.RecordNrMember}, true
	case off == kernel.RecordArgs && exit:
		return CORERef{Type: "struct " + kernel.SyscallExit, Path: "ret"}, true
	case off%8 == 0 && off >= kernel.RecordArgs && n < kernel.MaxSyscallArgs && !exit:
		return CORERef{Type: "struct " + kernel.SyscallEnter, Path: "args[" + strconv.Itoa(n) + "]"}, true
	}
	return CORERef{}, false
}
