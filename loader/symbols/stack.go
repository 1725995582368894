// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"fmt"
	"strconv"
	"strings"
)

// Stack formats.
const (
	ModeBpftrace = "bpftrace"
	ModePerf     = "perf"
	ModeRaw      = "raw"
	ModeBuildID  = "build_id"
)

// Kstack returns the text of a kernel stack, innermost frame first.
func (t *Table) Kstack(frames []uint64, mode string) string {
	return stack(frames, mode, func(addr uint64) (string, string, uint64) {
		sym, off, ok := t.Kernel(addr)
		if !ok {
			return "", "", 0
		}
		return sym.Name, sym.Module, off
	}, nil)
}

// Ustack returns the text of a user stack of process tgid.
func (t *Table) Ustack(frames []uint64, mode string, tgid uint32) string {
	return stack(frames, mode, func(addr uint64) (string, string, uint64) {
		return t.User(addr, tgid)
	}, func(addr uint64) string { return t.buildIDFrame(addr, tgid) })
}

// unwindFailure is the frame for a stack that could not be unwound.
const unwindFailure = ^uint64(0)

// stack begins with a newline and ends each frame with one, as the language prints stacks.
func stack(frames []uint64, mode string, find func(uint64) (name, module string, off uint64),
	buildID func(uint64) string) string {
	var b strings.Builder
	b.WriteByte('\n')
	for _, addr := range frames {
		if addr == unwindFailure {
			b.WriteString("        <unwind failure>\n")
			break
		}
		switch {
		case mode == ModeRaw, mode == ModeBuildID && buildID == nil:
			fmt.Fprintf(&b, "%x\n", addr)
		case mode == ModeBuildID:
			b.WriteString(buildID(addr) + "\n")
		default:
			b.WriteString(frame(addr, mode, find) + "\n")
		}
	}
	return b.String()
}

func frame(addr uint64, mode string, find func(uint64) (name, module string, off uint64)) string {
	name, module, off := find(addr)
	if mode == ModePerf {
		if name == "" {
			return fmt.Sprintf("\t%x 0x%x ([unknown])", addr, addr)
		}
		text := fmt.Sprintf("\t%x %s+%d", addr, name, off)
		if module != "" {
			text += " (" + module + ")"
		}
		return text
	}
	if name == "" {
		return "        " + hex(addr)
	}
	return "        " + name + "+" + strconv.FormatUint(off, 10)
}

// buildIDFrame returns "<build id> 0x<offset in the file>", or the bare address.
func (t *Table) buildIDFrame(addr uint64, tgid uint32) string {
	m := t.find(addr, tgid)
	if m != nil {
		if f := t.symbols(m, tgid); f != nil && f.buildID != "" {
			return fmt.Sprintf("%s 0x%02x", f.buildID, addr-m.start+m.off)
		}
	}
	return strconv.FormatUint(addr, 16)
}
