package load

import (
	"debug/elf"
	"fmt"
	"slices"

	"btc/loader/attach"
	"btc/loader/binary"
)

// userSymbol is how far a symbol of the file that a program probes is from the
// probe (fromProbe), or from the first byte of the file's code, which the kernel
// keeps as mm.start_code of a process that runs the file.
func userSymbol(exp *attach.Expansion, program, symbol string, fromProbe bool) (uint64, error) {
	i := slices.IndexFunc(exp.Plans, func(p attach.Plan) bool { return p.Prog.Name == program })
	if i < 0 || len(exp.Plans[i].Matches) == 0 {
		return 0, nil // a probe that is missing and left out
	}
	matches := exp.Plans[i].Matches
	first := matches[0]
	for _, m := range matches[1:] {
		if m.Path != first.Path || fromProbe && m.Offset != first.Offset {
			return 0, fmt.Errorf("uaddr() needs a probe of one place, this one has %d", len(matches))
		}
	}
	f, err := binary.Open(first.Path)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", first.Path, err)
	}
	defer f.Close()
	addr, ok := symbolAddress(f.File, symbol)
	if !ok {
		//lint:ignore ST1005 bpftrace's words
		return 0, fmt.Errorf("Could not resolve symbol: %s:%s", first.Path, symbol)
	}
	from, ok := loadAddress(f.File, first.Offset)
	if !fromProbe {
		from, ok = codeStart(f.File)
		if ok && !isProgram(f.File) {
			return 0, fmt.Errorf("uaddr() in a uretprobe or usdt probe finds symbols of programs only, and %s is a library", first.Path)
		}
	}
	if !ok {
		return 0, fmt.Errorf("%s has no code there", first.Path)
	}
	return addr - from, nil
}

// symbolAddress is a symbol's address in the file.
func symbolAddress(f *elf.File, name string) (uint64, bool) {
	var addr uint64
	binary.EachSymbol(f, func(s *binary.Symbol) bool {
		if s.Defined() && string(s.Name()) == name {
			addr = s.Value
		}
		return addr == 0
	})
	return addr, addr != 0
}

// loadAddress is the address of a place in the file.
func loadAddress(f *elf.File, off uint64) (uint64, bool) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && off >= p.Off && off < p.Off+p.Filesz {
			return off - p.Off + p.Vaddr, true
		}
	}
	return 0, false
}

// codeStart is the lowest address of the file's code.
func codeStart(f *elf.File) (uint64, bool) {
	least, found := uint64(0), false
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && (!found || p.Vaddr < least) {
			least, found = p.Vaddr, true
		}
	}
	return least, found
}

// isProgram tells a program from a library: it has a fixed address or names an
// interpreter, or says so.
func isProgram(f *elf.File) bool {
	if f.Type == elf.ET_EXEC || slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return true
	}
	const pie = 0x08000000 // DF_1_PIE
	flags, err := f.DynValue(elf.DT_FLAGS_1)
	return err == nil && len(flags) == 1 && flags[0]&pie != 0
}
