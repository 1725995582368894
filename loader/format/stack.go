// SPDX-License-Identifier: Apache-2.0

package format

import (
	"fmt"
	"strconv"
)

// Frame is a frame of a stack, as far as it is known.
type Frame struct {
	Address uint64 // UnwindFailure: the stack could not be unwound further
	// Sym is the function, "" if it is unknown, and Offset that of the address in it.
	Sym    string
	Offset uint64
	// File is the path of the file that the function is in, or the name of its kernel module. If BuildID is set, it is
	// that of the file, and FileOffset the offset of the address in the file.
	File       string
	BuildID    string
	FileOffset uint64
	Source     string // the file with the source code; "": unknown
	Line       int    // in it
	Inlined    bool   // into the next frame
}

// UnwindFailure is the address of the last frame of a stack that could not be unwound.
const UnwindFailure = ^uint64(0)

// The modes in which stacks are printed.
const (
	ModeBpftrace = "bpftrace"
	ModePerf     = "perf"
	ModeRaw      = "raw"
	ModeBuildID  = "build_id"
)

// AppendStack appends a stack, innermost frame first, as the language prints it in a mode: it begins with a newline, and
// ends each frame with one.
func AppendStack(dst []byte, frames []Frame, mode string) []byte {
	dst = append(dst, '\n')
	for i := range frames {
		f := &frames[i]
		if f.Address == UnwindFailure && f.Sym == "" {
			return append(dst, "        <unwind failure>\n"...)
		}
		dst = append(f.text(dst, mode), '\n')
	}
	return dst
}

func (f *Frame) text(dst []byte, mode string) []byte {
	switch {
	case mode == ModeBuildID && f.BuildID != "":
		return fmt.Appendf(dst, "%s 0x%02x", f.BuildID, f.FileOffset)
	case mode == ModeRaw, mode == ModeBuildID:
		return strconv.AppendUint(dst, f.Address, 16)
	case mode == ModePerf && f.Sym == "":
		return fmt.Appendf(dst, "\t%x 0x%x ([unknown])", f.Address, f.Address)
	case mode == ModePerf:
		dst = fmt.Appendf(dst, "\t%x %s+%d", f.Address, f.Sym, f.Offset)
		if f.File != "" {
			dst = append(append(append(dst, " ("...), f.File...), ')')
		}
		return dst
	}
	dst = append(dst, "        "...)
	switch {
	case f.Sym != "" && f.Inlined:
		return f.source(append(append(dst, f.Sym...), " (inlined)"...))
	case f.Sym != "":
		return f.source(strconv.AppendUint(append(append(dst, f.Sym...), '+'), f.Offset, 10))
	case f.Address == 0: // without a prefix, as with C++ streams
		return append(dst, '0')
	}
	return appendHex(dst, f.Address)
}

// source appends the line in the source code, if it is known.
func (f *Frame) source(dst []byte) []byte {
	if f.Source == "" || f.Line == 0 {
		return dst
	}
	return append(strconv.AppendInt(append(append(append(dst, " ("...), f.Source...), ':'), int64(f.Line), 10), ')')
}
