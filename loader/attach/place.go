package attach

import (
	"debug/elf"
	"fmt"
	"io"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/binary"
)

// checkPlace refuses a place off bytes behind a function's begin where no
// instruction begins: the kernel writes a breakpoint there all the same, and the
// process then does something else. With --unsafe it is a warning.
func (x *expander) checkPlace(p *manifest.Program, f *elf.File, path string, s *elf.Symbol, off uint64) error {
	if p.Kind == probe.Uretprobe {
		return fmt.Errorf("uretprobes cannot be attached at function offset. (address resolved to: %s+%d)", s.Name, off)
	}
	what := fmt.Sprintf("%s:%s+%d", path, s.Name, off)
	at := false
	code, err := codeOf(f, s.Value, off)
	if err == nil {
		at, err = binary.AtInstruction(f.Machine, code, off)
	}
	switch {
	case at:
	case x.opts.Unsafe && err != nil:
		x.warn(p, "Unchecked "+p.Kind+": "+what)
	case x.opts.Unsafe:
		x.warn(p, "Unsafe "+p.Kind+" in the middle of the instruction: "+what)
	case err != nil:
		//lint:ignore ST1005 bpftrace's words
		return fmt.Errorf("Failed to check if %s is in proper place: %s (%w)%s", p.Kind, what, err, unsafeHint)
	default:
		//lint:ignore ST1005 bpftrace's words
		return fmt.Errorf("Could not add %s into middle of instruction: %s%s", p.Kind, what, unsafeHint)
	}
	return nil
}

// maxFunction bounds the bytes of a function that are read.
const maxFunction = 16 << 20

// codeOf reads the code from a virtual address on, up to off bytes behind it and
// the instruction that begins before.
func codeOf(f *elf.File, addr, off uint64) ([]byte, error) {
	const longest = 16 // instructions are no longer
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Vaddr <= addr && addr-p.Vaddr < p.Filesz && off < min(p.Filesz-(addr-p.Vaddr), maxFunction) {
			code := make([]byte, min(off+longest, p.Filesz-(addr-p.Vaddr)))
			n, err := p.ReadAt(code, int64(addr-p.Vaddr))
			if err == io.EOF { // the file is cut off
				err = nil
			}
			return code[:n], err
		}
	}
	return nil, fmt.Errorf("the function's code cannot be read")
}

// enclosing is the function that an address is in, nil where none is known. Of
// several, nested, it is the one that begins last: less is between.
func enclosing(funcs []elf.Symbol, addr uint64) (last *elf.Symbol) {
	for i := range funcs {
		if s := &funcs[i]; s.Value <= addr && addr-s.Value < s.Size && (last == nil || s.Value > last.Value) {
			last = s
		}
	}
	return last
}
