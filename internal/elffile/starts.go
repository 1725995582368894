// SPDX-License-Identifier: Apache-2.0

package elffile

import (
	"bytes"
	"debug/elf"
	"io"
	"slices"
	"strings"

	"btc/internal/arch"
)

// Site is what a file proves about an address in its code.
type Site struct {
	// Start means that an instruction begins there, and Entry that a call enters a function there: the return address
	// is where the call left it.
	Start, Entry bool
	// Inside means that the address is known to be in the middle of an instruction.
	Inside bool
}

// Starts finds out where the instructions of a file begin. Nothing is assumed: data lies between functions and in
// them. An instruction begins
//
//   - where a function begins, according to a symbol or to .eh_frame,
//   - at the location of a USDT probe, and where a program starts,
//   - where control flow from one of these leads: to the next instruction, and along direct branches, in the function.
//
// Nothing is known of the code after an unconditional jump, a return, a trap, or a call of a function that is known not to
// return. After other calls there must be code up to what ends a function, or to instructions that are known. So no
// instruction of a file's own is proved that only a table of a switch leads to, and on RISC-V few of a stripped file:
// GCC writes .eh_frame there only for C++ and with -fasynchronous-unwind-tables (810 entries in a libc of about 3,000
// functions).
type Starts struct {
	file   *elf.File
	text   []*elf.Section // with code
	frames *frames        // nil: not read
	// returns is nil until it is needed.
	returns *returns
	// Probes are the virtual addresses of the file's USDT probes.
	Probes []uint64
}

// NewStarts reads nothing but the table of sections.
func NewStarts(f *elf.File) *Starts {
	s := &Starts{file: f}
	const code = elf.SHF_ALLOC | elf.SHF_EXECINSTR
	for _, sec := range f.Sections {
		if sec.Flags&code == code && sec.Type != elf.SHT_NOBITS {
			s.text = append(s.text, sec)
		}
	}
	return s
}

// section returns the section of code at an address that the file contains and that is loaded as code; nil: none.
func (s *Starts) section(addr uint64) *elf.Section {
	for _, sec := range s.text {
		if sec.Addr > addr || addr-sec.Addr >= sec.Size {
			continue
		}
		for _, p := range s.file.Progs {
			if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Vaddr <= addr && addr-p.Vaddr < p.Filesz {
				return sec
			}
		}
	}
	return nil
}

// IsFunction reports whether a symbol is a function that begins where it says: code of a known size.
func (s *Starts) IsFunction(sym *Symbol) bool {
	return (sym.Type == elf.STT_FUNC || sym.Type == elf.STT_LOOS) && sym.Size > 0 && sym.Defined() &&
		(sym.Section < elf.SHN_LORESERVE || sym.Section == elf.SHN_XINDEX) && s.section(sym.Value) != nil
}

// IsEntry reports whether a call enters the function of a symbol, for which IsFunction holds, at its first
// instruction.
func (s *Starts) IsEntry(addr uint64, name []byte) bool { return isWhole(name) && s.entry(addr, true) }

// isWhole reports whether a name is not that of a part which compilers move out of a function (foo.cold, foo.cold.1,
// foo.__part.2), or of code that is jumped to instead of called.
func isWhole(name []byte) bool {
	return !bytes.HasSuffix(name, []byte(".cold")) && !bytes.Contains(name, []byte(".cold.")) &&
		!bytes.Contains(name, []byte(".__part.")) && !bytes.HasPrefix(name, []byte("__x86_indirect_thunk")) &&
		!bytes.HasPrefix(name, []byte("__llvm_retpoline"))
}

// entry reports whether the start of a function, of a symbol or of .eh_frame, is entered by calls.
func (s *Starts) entry(addr uint64, symbol bool) bool {
	if sec := s.section(addr); sec == nil || strings.HasPrefix(sec.Name, ".plt") {
		return false
	}
	f := s.readFrames().around(addr)
	if addr == s.file.Entry && (f == nil || IsProgram(s.file)) {
		return false // the kernel or the dynamic linker jumps to it
	}
	if f == nil {
		return symbol
	}
	return (symbol || f.from == addr) && s.frames.entered(f, addr)
}

func (s *Starts) readFrames() *frames {
	if s.frames == nil {
		s.frames = framesOf(s.file)
	}
	return s.frames
}

// maxFunction bounds the code that is decoded around an address, in bytes.
const maxFunction = 16 << 20

// At returns what is known of an address.
func (s *Starts) At(addr uint64) (site Site) {
	w := s.around(addr)
	if w == nil {
		return Site{}
	}
	if a := arch.ByMachine(s.file.Machine); a != nil && a.InsnSize > 0 {
		site.Inside = addr%uint64(a.InsnSize) != 0
		site.Start = !site.Inside && (slices.Contains(w.starts, addr) || w.named && !isLiteral(w.code, w.from, addr))
	} else {
		w.run()
		site.Start, site.Inside = w.begins(addr), w.covers(addr)
	}
	site.Entry = site.Start && s.entry(addr, w.symbol)
	return site
}

// around returns the functions that contain an address, nil if it is not in code.
func (s *Starts) around(addr uint64) *walk {
	sec := s.section(addr)
	if sec == nil {
		return nil
	}
	w := &walk{s: s, decode: decoders[s.file.Machine]}
	from, to := addr, addr+1
	add := func(a, b uint64) {
		if addr-a < maxFunction {
			from, to = min(from, a), max(to, min(b, a+maxFunction))
			w.starts = append(w.starts, a)
		}
	}
	EachSymbol(s.file, func(sym *Symbol) bool {
		if sym.Value <= addr && addr-sym.Value < sym.Size && s.IsFunction(sym) {
			add(sym.Value, sym.Value+sym.Size)
			w.symbol = w.symbol || sym.Value == addr && isWhole(sym.Name())
		}
		return len(w.starts) < maxStarts
	})
	if f := s.readFrames().around(addr); f != nil {
		add(f.from, f.to)
	}
	w.named = len(w.starts) > 0
	if !w.named {
		to += maxX86 - 1 // one instruction
	}
	to = min(to, sec.Addr+sec.Size)
	for _, p := range s.Probes {
		if from <= p && p < to {
			w.starts = append(w.starts, p)
		}
	}
	if e := s.file.Entry; from <= e && e < to && IsProgram(s.file) {
		w.starts = append(w.starts, e)
	}
	w.from, w.code = from, s.read(from, to)
	return w
}

// maxStarts bounds the functions that may overlap at an address.
const maxStarts = 1 << 12

// read returns the code between two addresses, less if the file ends before.
func (s *Starts) read(from, to uint64) []byte {
	for _, p := range s.file.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Vaddr <= from && from-p.Vaddr < p.Filesz {
			code := make([]byte, min(to-from, p.Filesz-(from-p.Vaddr), 2*maxFunction))
			n, err := p.ReadAt(code, int64(from-p.Vaddr))
			if err != nil && err != io.EOF {
				return nil
			}
			return code[:n]
		}
	}
	return nil
}

// decoders are those of the architectures whose instructions have different sizes.
var decoders = map[elf.Machine]func(code []byte, addr uint64) (insn, bool){
	elf.EM_X86_64: decodeX86, elf.EM_RISCV: decodeRISCV,
}

// isLiteral reports whether the word of arm64 code at an address is data: no instruction, or loaded by an instruction
// of the function with an address relative to its own.
func isLiteral(code []byte, from, addr uint64) bool {
	at := addr - from
	if at+4 > uint64(len(code)) || code[at+2] == 0 && code[at+3] == 0 { // udf
		return true
	}
	for i := -from & 3; i+4 <= uint64(len(code)); i += 4 {
		w := uint32(code[i]) | uint32(code[i+1])<<8 | uint32(code[i+2])<<16 | uint32(code[i+3])<<24
		if w&0x3b000000 == 0x18000000 && w>>30 != 3 { // ldr, of 4, 8 or 16 bytes
			target := i + signed(w>>5&0x7ffff<<2, 21)
			if size := uint64(4) << (w >> 30); at-target < max(size, 4) {
				return true
			}
		}
	}
	return false
}

// walk follows the control flow in a part of the code.
type walk struct {
	decode func(code []byte, addr uint64) (insn, bool) // nil: not known for this architecture
	s      *Starts
	code   []byte
	from   uint64   // address of code
	starts []uint64 // addresses of instructions
	named  bool     // a function contains the address
	symbol bool     // a symbol of a whole function is at the address
	marks  []byte   // for each byte of code
	trace  []trail
	steps  int
}

// trail is a change of marks that can be undone.
type trail struct {
	at  uint32
	was byte
}

// Marks of a byte.
const (
	begins = 1 << iota // an instruction begins here
	covers             // one covers it, after its first byte
)

// maxSteps bounds the instructions that are decoded, some of them several times.
const maxSteps = 1 << 25

func (w *walk) begins(addr uint64) bool {
	return addr-w.from < uint64(len(w.marks)) && w.marks[addr-w.from] == begins
}

func (w *walk) covers(addr uint64) bool {
	return addr-w.from < uint64(len(w.marks)) && w.marks[addr-w.from]&covers != 0
}

// run follows the flow from the starts. What follows a call is code only if the call returns, so that path is
// taken back as a whole if it turns out not to be code.
func (w *walk) run() {
	w.marks = make([]byte, len(w.code))
	known := map[uint64]bool{}
	var calls []uint64 // addresses after calls
	for _, a := range w.starts {
		known[a] = true
	}
	for _, a := range w.starts {
		if w.decode == nil {
			w.mark(a-w.from, begins)
			continue
		}
		_, more := w.follow(a, known)
		calls = append(calls, more...)
	}
	for len(calls) > 0 {
		a := calls[len(calls)-1]
		calls = calls[:len(calls)-1]
		w.trace = w.trace[:0]
		ok, more := w.follow(a, known)
		if !ok {
			for i := len(w.trace) - 1; i >= 0; i-- {
				w.marks[w.trace[i].at] = w.trace[i].was
			}
			continue
		}
		calls = append(calls, more...)
	}
}

// follow marks the instructions that run from an address on, up to calls, and returns the addresses after those. It
// is false if the path cannot be code: it leads to bytes that are not an instruction, into the middle of one, out of
// the code, or past the end of the function.
func (w *walk) follow(addr uint64, known map[uint64]bool) (ok bool, calls []uint64) {
	ok = true
	next := []uint64{addr}
	for len(next) > 0 {
		at := next[len(next)-1] - w.from
		next = next[:len(next)-1]
		for {
			if w.steps++; w.steps > maxSteps {
				return false, nil
			}
			if at >= uint64(len(w.code)) {
				ok = false
				break
			}
			if w.marks[at]&begins != 0 {
				break
			}
			in, valid := w.decode(w.code[at:], w.from+at)
			if !valid {
				ok = false
				break
			}
			ok = w.instruction(at, &in) && ok
			outside := in.target - w.from
			inside := in.target != 0 && outside < uint64(len(w.code))
			if in.target != 0 && !inside && w.s.section(in.target) == nil {
				ok = false
				break
			}
			if inside && (in.flow == branch || in.flow == jump) {
				next = append(next, in.target)
			}
			at += in.size
			if in.flow == call {
				// A call to the middle of the function itself pushes the address of data, not one to return to.
				if (in.target == 0 || !inside || known[in.target]) && at < uint64(len(w.code)) && w.s.mayReturn(&in) {
					calls = append(calls, w.from+at)
				}
				break
			}
			if in.flow == jump || in.flow == halt {
				break
			}
		}
	}
	return ok, calls
}

// instruction marks the bytes of an instruction. It reports whether no other instruction overlaps it. The prefix lock
// may be skipped by a branch: the rest is an instruction, too, but a breakpoint there breaks the one with the prefix.
func (w *walk) instruction(at uint64, in *insn) bool {
	ok := w.marks[at]&covers == 0 || at > 0 && w.code[at-1] == 0xf0
	w.mark(at, begins)
	for i := uint64(1); i < in.size; i++ {
		if w.marks[at+i]&begins != 0 && (i > 1 || !in.lock) {
			ok = false
		}
		w.mark(at+i, covers)
	}
	return ok
}

func (w *walk) mark(at uint64, mark byte) {
	if at < uint64(len(w.marks)) && w.marks[at]&mark == 0 {
		w.trace = append(w.trace, trail{uint32(at), w.marks[at]})
		w.marks[at] |= mark
	}
}
