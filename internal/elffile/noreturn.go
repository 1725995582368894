// SPDX-License-Identifier: Apache-2.0

package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"
)

// What follows a call of a function that does not return is not code: compilers put the next function there, and
// assemblers data. A function does not return if its name says so, or if no return is reachable in it. The names matter
// for functions of other files, which are called through the PLT or a slot of the GOT, and for C++ and Go, whose
// functions end in what they cannot know.

// noReturn are names of functions that do not return, and beginnings of names if they end in "*". A function that is in
// the list and does return costs proofs, and nothing else.
const noReturn = " abort exit _exit _Exit quick_exit __stack_chk_fail __stack_chk_fail_local __assert_fail __assert_perror_fail __assert __chk_fail __fortify_fail " +
	"longjmp _longjmp siglongjmp __longjmp_chk __libc_fatal __libc_start_main pthread_exit thrd_exit err errx verr verrx OPENSSL_die " +
	"_Unwind_Resume __cxa_throw __cxa_rethrow __cxa_bad_cast __cxa_bad_typeid __cxa_throw_* __cxa_pure_virtual __cxa_deleted_virtual __cxa_call_unexpected __cxa_call_terminate " +
	"_ZSt9terminatev _ZSt10unexpectedv _ZSt17rethrow_exception* _ZSt*__throw_* _ZN10__cxxabiv1*terminate* _ZN9__gnu_cxx*__throw_* __clang_call_terminate " +
	"g_assertion_message* Perl_croak* Py_FatalError* _Py_FatalError* Py_Exit lua_error luaL_error rust_panic* rust_begin_unwind _ZN4core9panicking* _ZN4core6option13*_failed* _ZN4core6result13*_failed* " +
	"_ZN3std9panicking* _ZN5alloc7raw_vec*overflow* _ZN5alloc5alloc18handle_alloc_error* runtime.throw* runtime.fatal* runtime.gopanic* runtime.goPanic* runtime.panic* runtime.goexit0* "

// namesOf is noReturn in a form for comparisons.
type namesOf struct {
	exact map[string]bool
	parts [][2]string // a beginning, and what is contained after it
}

func noReturnNames() *namesOf {
	n := &namesOf{exact: map[string]bool{}}
	for _, name := range strings.Fields(noReturn) {
		if from, part, ok := strings.Cut(name, "*"); ok {
			n.parts = append(n.parts, [2]string{from, strings.TrimSuffix(part, "*")})
		} else {
			n.exact[name] = true
		}
	}
	return n
}

// has reports whether the names have one, without the suffix of a version.
func (n *namesOf) has(name []byte) bool {
	if i := bytes.IndexByte(name, '@'); i > 0 {
		name = name[:i]
	}
	if n.exact[string(name)] {
		return true
	}
	for i := range n.parts {
		if from := len(n.parts[i][0]); len(name) >= from && string(name[:from]) == n.parts[i][0] &&
			bytes.Contains(name[from:], []byte(n.parts[i][1])) {
			return true
		}
	}
	return false
}

// returns is what is known of the functions of a file.
type returns struct {
	names map[uint64]bool // addresses of functions and slots of the GOT whose name is in noReturn
	known map[uint64]bool // by address: whether a function may return
	steps int             // instructions decoded
}

const (
	maxReturnSteps = 1 << 22
	maxReturnDepth = 64
	unframed       = 4096 // bytes that are read of a function whose length is not in .eh_frame
)

// newReturns reads the names of functions and of relocations.
func newReturns(f *elf.File) *returns {
	r, list := &returns{names: map[uint64]bool{}, known: map[uint64]bool{}}, noReturnNames()
	EachSymbol(f, func(sym *Symbol) bool {
		if sym.Type == elf.STT_FUNC && sym.Defined() && list.has(sym.Name()) {
			r.names[sym.Value] = true
		}
		return len(r.names) < maxStarts
	})
	for _, sec := range f.Sections {
		const entry, symbol = 24, 24
		if f.Class != elf.ELFCLASS64 || sec.Type != elf.SHT_RELA || sec.Flags&elf.SHF_ALLOC == 0 || sec.ReaderAt == nil ||
			int(sec.Link) >= len(f.Sections) {
			continue
		}
		table := f.Sections[sec.Link]
		if table.Type != elf.SHT_DYNSYM || table.ReaderAt == nil || int(table.Link) >= len(f.Sections) || f.Sections[table.Link].ReaderAt == nil {
			continue
		}
		entries, symbols := &pages{r: sec, size: sec.FileSize}, &pages{r: table, size: table.FileSize}
		names := &pages{r: f.Sections[table.Link], size: f.Sections[table.Link].FileSize}
		for n := uint64(0); n < min(sec.FileSize/entry, maxSymbols) && len(r.names) < 2*maxStarts; n++ {
			b := entries.bytes(n*entry, entry)
			slot, info := f.ByteOrder.Uint64(b), f.ByteOrder.Uint64(b[8:])
			if info>>32 != 0 && list.has(names.text(uint64(f.ByteOrder.Uint32(symbols.bytes(info>>32*symbol, symbol))))) {
				r.names[slot] = true
			}
		}
	}
	return r
}

// mayReturn reports whether what a call calls may return: it does not only if that is known.
func (s *Starts) mayReturn(in *insn) bool {
	if s.returns == nil {
		s.returns = newReturns(s.file)
	}
	if in.target == 0 {
		return in.slot == 0 || !s.returns.names[in.slot]
	}
	may, _ := s.functionReturns(in.target, nil)
	return may
}

// functionReturns reports whether a function may return. active are those that call it; calls of these count as not
// returning, and the result is then not sure.
func (s *Starts) functionReturns(addr uint64, active []uint64) (may, sure bool) {
	r := s.returns
	if r.names[addr] {
		return false, true
	}
	if may, ok := r.known[addr]; ok {
		return may, true
	}
	if slices.Contains(active, addr) {
		return false, false
	}
	decode, from, to := decoders[s.file.Machine], addr, addr+unframed
	if f := s.readFrames().around(addr); f != nil {
		from, to = f.from, f.to
	}
	if decode == nil || to-from > maxFunction || len(active) >= maxReturnDepth || s.section(addr) == nil {
		return true, true
	}
	code := s.read(from, to)
	may, sure = false, true
	seen := map[uint64]bool{}
	next := []uint64{addr}
	active = append(slices.Clone(active), addr)
	for len(next) > 0 && !may {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		for !may && !seen[at] {
			seen[at] = true
			if r.steps++; r.steps > maxReturnSteps || at-from >= uint64(len(code)) {
				may = true
				break
			}
			in, ok := decode(code[at-from:], at)
			if !ok {
				may = true
				break
			}
			at += in.size
			if in.flow == halt {
				may = in.returns
				break
			}
			if in.flow == branch {
				if in.target-from >= uint64(len(code)) {
					may = true // to another part of the function
				}
				next = append(next, in.target)
			}
			if in.flow == jump || in.flow == call {
				inside := in.target != 0 && in.target-from < uint64(len(code))
				if in.flow == jump && inside {
					next = append(next, in.target)
					break
				}
				leads, known := true, true
				switch {
				case in.target == 0:
					leads = in.slot == 0 || !r.names[in.slot]
				case in.flow == call && inside && in.target != addr:
					// the address of data, or a function within
				default:
					leads, known = s.functionReturns(in.target, active)
				}
				sure = sure && known
				if in.flow == jump {
					may = leads
					break
				}
				if !leads {
					break
				}
			}
		}
	}
	if may || sure {
		r.known[addr] = may
	}
	return may, may || sure
}

// slotOf returns the slot of the GOT from which an instruction of x86 loads the address that it calls or jumps to.
func slotOf(x *x86, addr uint64) uint64 {
	if x.modRM&0xc7 != 5 || x.at < 4 { // not relative to its address
		return 0
	}
	return addr + uint64(x.at) + uint64(int64(int32(binary.LittleEndian.Uint32(x.code[x.at-4:]))))
}
