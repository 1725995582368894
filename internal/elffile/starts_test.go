// SPDX-License-Identifier: Apache-2.0

package elffile

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// boundaries returns the addresses of the instructions that a disassembler finds in all code of a file, with their
// text.
func boundaries(t *testing.T, objdump, path string) map[uint64]string {
	t.Helper()
	cmd := exec.Command(objdump, "-d", "-w", "--no-show-raw-insn", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	all := map[uint64]string{}
	sc := bufio.NewScanner(out)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		at, text, ok := strings.Cut(strings.TrimSpace(sc.Text()), ":")
		if addr, err := strconv.ParseUint(at, 16, 64); ok && err == nil {
			all[addr] = strings.TrimSpace(text)
		}
	}
	cmd.Wait()
	return all
}

// functions returns the addresses that symbols and .eh_frame say are functions.
func functions(s *Starts) map[uint64]bool {
	all := map[uint64]bool{}
	EachSymbol(s.file, func(sym *Symbol) bool {
		if s.IsFunction(sym) {
			all[sym.Value] = true
		}
		return true
	})
	for _, f := range s.readFrames().all {
		if s.section(f.from) != nil {
			all[f.from] = true
		}
	}
	return all
}

// image returns an ELF file with some code at address 0x1000, in a section of the given name, and with symbols.
func image(t *testing.T, machine elf.Machine, section string, code []byte, symbols ...elf.Sym64) *elf.File {
	t.Helper()
	var b bytes.Buffer
	put := func(v any) { binary.Write(&b, binary.LittleEndian, v) }
	names := "\x00" + section + "\x00"
	var strings bytes.Buffer
	strings.WriteByte(0)
	table := make([]byte, 24)
	for i := range symbols {
		symbols[i].Name = uint32(strings.Len())
		fmt.Fprintf(&strings, "f%d\x00", i)
		var one bytes.Buffer
		binary.Write(&one, binary.LittleEndian, symbols[i])
		table = append(table, one.Bytes()...)
	}
	const head = 64 + 56
	at := uint64(head)
	size := func(n int) uint64 { at += uint64(n); return at - uint64(n) }
	text, syms, strs, secs := size(len(code)), size(len(table)), size(strings.Len()), size(len(names))
	put(elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: uint16(elf.ET_DYN), Machine: uint16(machine), Version: 1,
		Phoff: 64, Shoff: at, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: 5, Shstrndx: 4})
	put(elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Off: text, Vaddr: 0x1000, Filesz: uint64(len(code)), Memsz: uint64(len(code))})
	b.Write(code)
	b.Write(table)
	b.Write(strings.Bytes())
	b.WriteString(names)
	put(elf.Section64{})
	put(elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addr: 0x1000, Off: text, Size: uint64(len(code))})
	put(elf.Section64{Type: uint32(elf.SHT_SYMTAB), Link: 3, Off: syms, Size: uint64(len(table)), Entsize: 24})
	put(elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: strs, Size: uint64(strings.Len())})
	put(elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: secs, Size: uint64(len(names))})
	f, err := elf.NewFile(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFlow checks which bytes of a function are proved to begin instructions: the marks below the code are
// "s" for those, "i" for the bytes inside of them, and "." for unknown bytes.
func TestFlow(t *testing.T) {
	for _, c := range []struct {
		name, code, want string
		machine          elf.Machine
	}{
		{"fall-through", "55 4889e5 90 c3", "ssiiss", elf.EM_X86_64},
		{"nothing after a return", "c3 90 90", "s..", elf.EM_X86_64},
		{"nothing after a jump", "eb00 90", "sis", elf.EM_X86_64},
		{"data after a jump", "eb02 00 00 c3", "si..s", elf.EM_X86_64},
		{"indirect jump", "ffe0 90", "si.", elf.EM_X86_64},
		{"branch", "7402 90 c3 90 c3", "sissss", elf.EM_X86_64},
		{"branch over data", "7403 eb03 00 90 c3", "sisi.ss", elf.EM_X86_64},
		{"nothing after a trap", "0f0b 90", "si.", elf.EM_X86_64},
		{"nothing after an unknown byte", "90 06 90", "s..", elf.EM_X86_64},
		{"after a call", "ffd0 90 c3", "siss", elf.EM_X86_64},
		{"data after a call that does not return", "ffd0 06 06", "si..", elf.EM_X86_64},
		{"data after such a call, to the end", "ffd0 00 00 00 00", "si....", elf.EM_X86_64},
		{"data after such a call, into code", "7403 ffd0 b8 90 c3", "sisi.ss", elf.EM_X86_64},
		{"zeros after a call, into code", "7406 ffd0 00000000 c3", "sisi....s", elf.EM_X86_64},
		{"a call over data", "e801000000 90 58 c3", "siiii...", elf.EM_X86_64},
		{"a branch over a lock prefix", "7401 f0 ff08 c3", "sisiis", elf.EM_X86_64},
		{"an offset of 16 or 32 bits", "66e900000000 90", ".......", elf.EM_X86_64},
		{"ports are not for programs", "ee 90", "..", elf.EM_X86_64},
		{"C extension", "1141 13050500 8280 0100", "sisiiisi..", elf.EM_RISCV},
		{"jal zero", "6f008000 00000000 8280", "siii....si", elf.EM_RISCV},
		{"beq", "63040000 8280 0000 8280", "siiisi..si", elf.EM_RISCV},
		{"c.j", "11a0 0000 8280", "si..si", elf.EM_RISCV},
		{"another architecture", "90 90", "s.", elf.EM_386},
	} {
		code, err := hex.DecodeString(strings.ReplaceAll(c.code, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		s := NewStarts(image(t, c.machine, ".text", code, elf.Sym64{Info: byte(elf.STT_FUNC), Shndx: 1, Value: 0x1000, Size: uint64(len(code))}))
		have := ""
		for i := range code {
			site := s.At(0x1000 + uint64(i))
			switch {
			case site.Start && site.Inside:
				have += "?"
			case site.Start:
				have += "s"
			case site.Inside:
				have += "i"
			default:
				have += "."
			}
		}
		if have != c.want {
			t.Errorf("%s: %s: %s, want %s", c.name, c.code, have, c.want)
		}
	}
}

// TestCallsThatDoNotReturn checks that nothing is proved after a call of a function that does not return, although the
// bytes there look like code. Function f1 begins at offset 8.
func TestCallsThatDoNotReturn(t *testing.T) {
	for name, c := range map[string]struct{ callee, want string }{
		"returns":                {"c3", "siiiisis"},
		"an endless loop":        {"ebfe", "siiii..."},
		"a trap":                 {"90 0f0b", "siiii..."},
		"a branch to a return":   {"7401 f4 c3", "siiiisis"},
		"a branch to a trap":     {"7401 f4 f4", "siiii..."},
		"an unknown jump":        {"ffe0", "siiiisis"},
		"only calls itself":      {"e8fbffffff c3", "siiii..."},
		"calls the caller":       {"e8f3ffffff c3", "siiiisis"}, // which returns if this one does: not known
		"an unknown instruction": {"06", "siiiisis"},
	} {
		code, err := hex.DecodeString(strings.ReplaceAll("e803000000 31c0c3"+c.callee, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		function := func(at, size int) elf.Sym64 {
			return elf.Sym64{Info: byte(elf.STT_FUNC), Shndx: 1, Value: 0x1000 + uint64(at), Size: uint64(size)}
		}
		s := NewStarts(image(t, elf.EM_X86_64, ".text", code, function(0, 8), function(8, len(code)-8)))
		have := ""
		for i := range 8 {
			switch site := s.At(0x1000 + uint64(i)); {
			case site.Start:
				have += "s"
			case site.Inside:
				have += "i"
			default:
				have += "."
			}
		}
		if have != c.want {
			t.Errorf("%s: %s, want %s", name, have, c.want)
		}
	}
}

// TestNamesThatDoNotReturn checks calls of other files' functions, through the PLT and without it, also of a stripped
// file: d* are addresses after calls.
func TestNamesThatDoNotReturn(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil || runtime.GOARCH != "amd64" {
		t.Skip("skipped: gcc on x86_64 is needed")
	}
	path := filepath.Join(t.TempDir(), "prog")
	cmd := exec.Command("gcc", "-O1", "-x", "c", "-", "-o", path)
	cmd.Stdin = strings.NewReader(`#define AFTER(n, call) void f##n(void) { __asm__ volatile(call "\n.globl d" #n "\nd" #n ": .byte 0x31,0xc0,0x90\n"); }
#include <stdlib.h>
__attribute__((noinline, used)) void spin(void) { for (;;) __asm__ volatile("pause"); }
__attribute__((noinline, used)) void die(int n) { if (n) spin(); abort(); }
AFTER(1, "call abort@PLT") AFTER(2, "call *abort@GOTPCREL(%rip)") AFTER(3, "call spin") AFTER(4, "call die") AFTER(5, "call rand@PLT") AFTER(6, "call *rand@GOTPCREL(%rip)")
int main(void) { f1(); f2(); f3(); f4(); f5(); f6(); return rand(); }`)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("skipped: %v: %s", err, out)
	}
	addresses := map[string]uint64{}
	for _, stripped := range []bool{false, true} {
		if stripped {
			if out, err := exec.Command("strip", path).CombinedOutput(); err != nil {
				t.Skipf("skipped: %v: %s", err, out)
			}
		}
		f, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if !stripped {
			EachSymbol(f, func(sym *Symbol) bool {
				addresses[string(sym.Name())] = sym.Value
				return true
			})
		}
		s := NewStarts(f)
		for name, want := range map[string]bool{"d1": false, "d2": false, "d3": false, "d4": false, "d5": true, "d6": true} {
			if got := s.At(addresses[name]).Start; addresses[name] == 0 || got != want {
				t.Errorf("stripped: %t: an instruction at %s (%#x): %t, want %t", stripped, name, addresses[name], got, want)
			}
		}
		f.Close()
	}
	for name, want := range map[string]bool{
		"abort": true, "abort@GLIBC_2.2.5": true, "aborted": false, "exit": true, "on_exit": false, "_ZSt20__throw_length_errorPKc": true, "_ZSt4sort": false, "": false,
		"runtime.gopanic": true, "runtime.panicIndex": true, "runtime.mallocgc": false, "_ZN4core9panicking5panic17h0123456789abcdefE": true, "_ZN4core6option13unwrap_failed17h01E": true, "_ZN4core6optionE": false,
	} {
		if noReturnNames().has([]byte(name)) != want {
			t.Errorf("has(%q) = %t", name, !want)
		}
	}
}

// TestSymbolsAsProof checks which symbols prove that an instruction, or an entry, is where they say.
func TestSymbolsAsProof(t *testing.T) {
	code := []byte{0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3}
	function := elf.Sym64{Info: byte(elf.STT_FUNC), Shndx: 1, Value: 0x1002, Size: 6}
	with := func(change func(*elf.Sym64)) elf.Sym64 { s := function; change(&s); return s }
	for _, c := range []struct {
		name, section string
		symbol        elf.Sym64
		want          Site
	}{
		{"function", ".text", function, Site{Start: true, Entry: true}},
		{"indirect function", ".text", with(func(s *elf.Sym64) { s.Info = byte(elf.STT_LOOS) }), Site{Start: true, Entry: true}},
		{"object", ".text", with(func(s *elf.Sym64) { s.Info = byte(elf.STT_OBJECT) }), Site{}},
		{"no type", ".text", with(func(s *elf.Sym64) { s.Info = 0 }), Site{}},
		{"no size", ".text", with(func(s *elf.Sym64) { s.Size = 0 }), Site{}},
		{"absolute", ".text", with(func(s *elf.Sym64) { s.Shndx = uint16(elf.SHN_ABS) }), Site{}},
		{"undefined", ".text", with(func(s *elf.Sym64) { s.Shndx = 0 }), Site{}},
		{"elsewhere", ".text", with(func(s *elf.Sym64) { s.Value = 0x2000 }), Site{}},
		{"PLT", ".plt.sec", function, Site{Start: true}},
	} {
		s := NewStarts(image(t, elf.EM_X86_64, c.section, code, c.symbol))
		if got := s.At(0x1002); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	for name, whole := range map[string]bool{"f": true, "f.cold": false, "f.cold.1": false, "f.constprop.0": true, "f.part.0": true, "f.__part.1": false, "cold": true, "__x86_indirect_thunk_rax": false} {
		if isWhole([]byte(name)) != whole {
			t.Errorf("isWhole(%s) = %t", name, !whole)
		}
	}
	// arm64: aligned, and not a word that the function loads.
	arm := []byte{0x40, 0, 0, 0x58, 0xc0, 3, 0x5f, 0xd6, 1, 2, 3, 4, 5, 6, 7, 8, 0xc0, 3, 0x5f, 0xd6, 0, 0, 0, 0} // ldr x0, .+8; ret; 8 bytes; ret; udf
	s := NewStarts(image(t, elf.EM_AARCH64, ".text", arm, elf.Sym64{Info: byte(elf.STT_FUNC), Shndx: 1, Value: 0x1000, Size: uint64(len(arm))}))
	for off, want := range map[uint64]bool{0: true, 1: false, 2: false, 4: true, 8: false, 12: false, 16: true, 20: false, 24: false} {
		if got := s.At(0x1000 + off); got.Start != want {
			t.Errorf("arm64, offset %d: %+v", off, got)
		}
	}
}

// TestEntries checks entries against what compilers write: functions, parts of them, the PLT and the start.
func TestEntries(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil || runtime.GOARCH != "amd64" {
		t.Skip("skipped: gcc on x86_64 is needed")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "prog")
	cmd := exec.Command("gcc", "-O2", "-fno-pie", "-no-pie", "-x", "c", "-", "-o", path)
	cmd.Stdin = strings.NewReader(`#include <stdio.h>
#include <stdlib.h>
__attribute__((cold, noinline)) void bad(int n) { printf("%d\n", n); }
__attribute__((noinline)) int f(int n) { char b[100]; sprintf(b, "%d", n); if (__builtin_expect(n > 5, 0)) { bad(n); puts(b); abort(); } return atoi(b); }
int main(int c, char **v) { return f(c); }`)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("skipped: %v: %s", err, out)
	}
	check := func(want map[string]bool, addresses map[string]uint64) map[string]uint64 {
		f, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s := NewStarts(f)
		all := map[string]uint64{"plt": f.Section(".plt").Addr}
		EachSymbol(f, func(sym *Symbol) bool {
			if s.IsFunction(sym) {
				all[string(sym.Name())] = sym.Value
				if entry, named := want[string(sym.Name())]; named && s.IsEntry(sym.Value, sym.Name()) != entry {
					t.Errorf("symbol %s is an entry: %t", sym.Name(), !entry)
				}
			}
			return true
		})
		if addresses == nil {
			addresses = all
		}
		for name, entry := range want {
			if addr, ok := addresses[name]; !ok {
				t.Errorf("no function %s", name)
			} else if site := s.At(addr); !site.Start || site.Entry != entry {
				t.Errorf("%s: %+v, want an entry: %t", name, site, entry)
			}
		}
		return addresses
	}
	want := map[string]bool{"main": true, "f": true, "bad": true, "f.cold": false, "_start": false, "plt": false}
	addresses := check(want, nil)
	if out, err := exec.Command("strip", path).CombinedOutput(); err != nil {
		t.Skipf("skipped: %v: %s", err, out)
	}
	check(want, addresses)
}

// checkFile compares what is proved of a file with a disassembler. It returns the numbers of instructions: proved, and
// all.
func checkFile(t *testing.T, objdump, path string) (proved, all int) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := NewStarts(f)
	insns := boundaries(t, objdump, path)
	seen := map[uint64]bool{}
	wrong := 0
	for fn := range functions(s) {
		w := s.around(fn)
		w.run()
		for i, mark := range w.marks {
			addr := w.from + uint64(i)
			if mark != begins || seen[addr] {
				continue
			}
			seen[addr] = true
			if _, ok := insns[addr]; !ok {
				if wrong++; wrong < 10 {
					t.Errorf("%s: %#x, in the function at %#x, is not an instruction: % x", path, addr, fn, w.code[i:min(i+8, len(w.code))])
				}
			}
		}
	}
	t.Logf("%s: %d of %d instructions (%.1f %%), %d wrong", path, len(seen), len(insns), 100*float64(len(seen))/float64(len(insns)), wrong)
	return len(seen), len(insns)
}

// TestStartsOfPrograms checks that a disassembler agrees with each instruction that is proved, in programs of this
// system; STARTS names more.
func TestStartsOfPrograms(t *testing.T) {
	if _, err := exec.LookPath("objdump"); err != nil || runtime.GOARCH != "amd64" {
		t.Skip("skipped: objdump on x86_64 is needed")
	}
	for _, pattern := range strings.Fields("/bin/bash /lib/x86_64-linux-gnu/libc.so.6 /lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 " + os.Getenv("STARTS")) {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			if proved, all := checkFile(t, "objdump", path); !strings.Contains(os.Getenv("STARTS"), pattern) && proved < all/2 {
				t.Errorf("%s: only %d of %d instructions are proved", path, proved, all)
			}
		}
	}
}

// TestStartsOfRISCV is TestStartsOfPrograms for code of a cross compiler.
func TestStartsOfRISCV(t *testing.T) {
	const gcc, objdump = "riscv64-linux-gnu-gcc", "riscv64-linux-gnu-objdump"
	for _, tool := range []string{gcc, objdump} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("skipped: ", err)
		}
	}
	source := `static int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }
int g(int n, const char *s) { for (int i = 0; i < n; i++) if (s[i] == n) return f(i); return f(n) * 3 + 0x1234567; }
void _start(void) { for (;;) g(5, "abcde"); }`
	path := filepath.Join(t.TempDir(), "prog")
	for _, options := range []string{"-O2", "-O0", "-O2 -march=rv64g"} { // the last has no instructions of 16 bits
		cmd := exec.Command(gcc, append(strings.Fields(options), "-nostdlib", "-static", "-x", "c", "-", "-o", path)...)
		cmd.Stdin = strings.NewReader(source)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("skipped: %v: %s", err, out)
		}
		if proved, all := checkFile(t, objdump, path); proved < all*9/10 {
			t.Errorf("%s: only %d of %d instructions are proved", options, proved, all)
		}
	}
	for _, path := range strings.Fields(os.Getenv("STARTS_RISCV")) {
		checkFile(t, objdump, path)
	}
}

// FuzzFrames checks that any content of .eh_frame is read in bounded time and memory, and without a crash.
func FuzzFrames(f *testing.F) {
	if file, err := elf.Open("/proc/self/exe"); err == nil {
		if sec := file.Section(".eh_frame"); sec != nil {
			data, _ := sec.Data()
			f.Add(data[:min(len(data), 4096)])
		}
	}
	f.Add([]byte("\x14\x00\x00\x00\x00\x00\x00\x00\x01zR\x00\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01\x00\x00\x14\x00\x00\x00\x1c\x00\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00\x0a\x0b\x44\x0e\x10\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file := &elf.File{FileHeader: elf.FileHeader{Class: elf.ELFCLASS64, ByteOrder: binary.LittleEndian, Machine: elf.EM_X86_64}}
		x := &frames{file: file, data: data}
		x.index()
		for i := range x.all {
			x.entered(&x.all[i], x.all[i].from)
		}
		if len(x.all) > len(data)/8 {
			t.Errorf("%d entries in %d bytes", len(x.all), len(data))
		}
	})
}
