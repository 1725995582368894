// SPDX-License-Identifier: Apache-2.0

package usdt

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestArguments checks the forms of arguments that compilers write, by architecture.
func TestArguments(t *testing.T) {
	const none = NoIndex
	for _, c := range []struct {
		machine elf.Machine
		text    string
		want    []Arg
	}{
		{elf.EM_X86_64, "-4@%edi 8@%rsi", []Arg{{Register, 0, 112, none, 0, 4, true}, {Register, 0, 104, none, 0, 8, false}}},
		{elf.EM_X86_64, "-8@$-5 4@$0x10", []Arg{{Const, -5, 0, 0, 0, 8, true}, {Const, 16, 0, 0, 0, 4, false}}},
		{elf.EM_X86_64, "8@$18446744073709551615", []Arg{{Const, -1, 0, 0, 0, 8, false}}},
		{elf.EM_X86_64, "2@-20(%rbp)", []Arg{{Memory, -20, 32, none, 0, 2, false}}},
		{elf.EM_X86_64, "1@(%rax)", []Arg{{Memory, 0, 80, none, 0, 1, false}}},
		{elf.EM_X86_64, "8@8(%rax,%rcx,4)", []Arg{{Memory, 8, 80, 88, 2, 8, false}}},
		{elf.EM_X86_64, "8@(%rax, %rcx)", []Arg{{Memory, 0, 80, 88, 0, 8, false}}},
		{elf.EM_X86_64, "4@16+4-8(%r15)", []Arg{{Memory, 12, 0, none, 0, 4, false}}},
		{elf.EM_X86_64, "-4@here+4(%rip)", []Arg{{Memory, 0x2004 - 0x1000, 128, none, 0, 4, true}}},
		{elf.EM_X86_64, "4@-4+here-8(%rip)", []Arg{{Memory, 0x2000 - 0x1000 - 12, 128, none, 0, 4, false}}},
		{elf.EM_X86_64, "4@here+here(%rip) 4@here-here(%rip) 4@here+there(%rip) 4@4+4(%rip)", make([]Arg, 4)},
		{elf.EM_X86_64, "%rax", []Arg{{Register, 0, 80, none, 0, 8, false}}},
		// Arguments that cannot be read keep their position.
		{elf.EM_X86_64, "8f@%xmm0 8@%rbx", []Arg{{}, {Register, 0, 40, none, 0, 8, false}}},
		{elf.EM_X86_64, "8@there(%rip) 8@here(%rax) 8@4(%rip) 3@%rax 8@%ah 8@there(,%rax,8) 8@(%rax,%rbx,3) 8@there 8@16 8@here(,%rax,3) 8@(,%zz,2)", make([]Arg, 11)},
		// Absolute addresses, of files that are not relocated.
		{elf.EM_X86_64, "4@here+4 8@here(,%rax,8) 2@0x3000(,%rcx,2)", []Arg{{Memory, 0x1004, 128, none, 0, 4, false}, {Memory, 0x1000, 128, 80, 3, 8, false}, {Memory, 0x2000, 128, 88, 1, 2, false}}},
		{elf.EM_X86_64, "@ 8@ 8@$ 8@% 8@() -@%rax 8@$x 8@(", make([]Arg, 8)},
		{elf.EM_AARCH64, "-4@w0 8@x30 8@sp", []Arg{{Register, 0, 0, none, 0, 4, true}, {Register, 0, 240, none, 0, 8, false}, {Register, 0, 248, none, 0, 8, false}}},
		{elf.EM_AARCH64, "-4@[sp, 12] 8@[x1] 8@[x1, -8] 8@[x1, x2] 4@-7", []Arg{
			{Memory, 12, 248, none, 0, 4, true}, {Memory, 0, 8, none, 0, 8, false}, {Memory, -8, 8, none, 0, 8, false},
			{Memory, 0, 8, 16, 0, 8, false}, {Const, -7, 0, 0, 0, 4, false}}},
		{elf.EM_AARCH64, "8@[x1, x2, lsl 3] 4@[x1,x2,lsl #2]", []Arg{{Memory, 0, 8, 16, 3, 8, false}, {Memory, 0, 8, 16, 2, 4, false}}},
		{elf.EM_AARCH64, "8@[x1, w2, sxtw 3] 8@[x1, x2, lsl 9] 8@[x1, x2, lsr 1] 8@d0 8@[x1, ]", make([]Arg, 5)},
		{elf.EM_AARCH64, "8@[x1 8@x2", make([]Arg, 1)},
		{elf.EM_RISCV, "8@a0 -4@5 -4@-20(s0) 8@(sp)", []Arg{
			{Register, 0, 80, none, 0, 8, false}, {Const, 5, 0, 0, 0, 4, true}, {Memory, -20, 64, none, 0, 4, true}, {Memory, 0, 16, none, 0, 8, false}}},
		{elf.EM_RISCV, "8@fa0 8@x(a0) 8@(zz) 8@8(x5", make([]Arg, 4)},
		{elf.EM_PPC64, "8@r3", make([]Arg, 1)},
		{elf.EM_X86_64, "", nil},
	} {
		r := reader{table: tableOf(c.machine), symbols: map[string]uint64{"here": 0x2000}}
		if diff := cmp.Diff(c.want, r.args(c.text, 0x1000)); diff != "" {
			t.Errorf("%s %q (-want +got):\n%s", c.machine, c.text, diff)
		}
	}
}

func TestEncode(t *testing.T) {
	b := Encode([]Arg{{}, {Memory, -2, 80, 88, 3, 4, true}})
	if len(b) != MaxArgs*ArgSize {
		t.Fatalf("encoded %d bytes", len(b))
	}
	want := binary.NativeEndian.AppendUint64(nil, 1<<64-2)
	want = binary.NativeEndian.AppendUint16(want, 80)
	want = binary.NativeEndian.AppendUint16(want, 88)
	want = append(want, 3, 3, 4, 1)
	if !bytes.Equal(b[ArgSize:2*ArgSize], want) {
		t.Errorf("encoded % x, want % x", b[ArgSize:2*ArgSize], want)
	}
	if n := len(Encode(make([]Arg, 50))); n != MaxArgs*ArgSize {
		t.Errorf("%d bytes for 50 arguments", n)
	}
}

// note returns a note with a probe.
func note(pc, base, semaphore uint64, texts string) []byte {
	desc := binary.LittleEndian.AppendUint64(nil, pc)
	desc = binary.LittleEndian.AppendUint64(desc, base)
	desc = binary.LittleEndian.AppendUint64(desc, semaphore)
	desc = append(desc, texts...)
	b := binary.LittleEndian.AppendUint32(nil, 8)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(desc)))
	b = binary.LittleEndian.AppendUint32(b, 3)
	b = append(b, "stapsdt\x00"...)
	b = append(b, desc...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// image returns an ELF file with one code segment, one data segment, the notes, and a section
// .stapsdt.base at address 0x1800.
func image(notes []byte) []byte {
	const names = "\x00.note.stapsdt\x00.stapsdt.base\x00.shstrtab\x00"
	var b bytes.Buffer
	put := func(v any) { binary.Write(&b, binary.LittleEndian, v) }
	put(elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1,
		Phoff: 64, Shoff: uint64(64 + 2*56 + len(notes) + len(names)), Ehsize: 64, Phentsize: 56, Phnum: 2, Shentsize: 64, Shnum: 4, Shstrndx: 3})
	put(elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Off: 0x100, Vaddr: 0x1000, Filesz: 0x1000, Memsz: 0x1000})
	put(elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Off: 0x2000, Vaddr: 0x4000, Filesz: 0x100, Memsz: 0x100})
	b.Write(notes)
	b.WriteString(names)
	at := uint64(64 + 2*56)
	put(elf.Section64{})
	put(elf.Section64{Name: 1, Type: uint32(elf.SHT_NOTE), Off: at, Size: uint64(len(notes))})
	put(elf.Section64{Name: 15, Type: uint32(elf.SHT_PROGBITS), Addr: 0x1800, Off: at, Size: 1})
	put(elf.Section64{Name: 29, Type: uint32(elf.SHT_STRTAB), Off: at + uint64(len(notes)), Size: uint64(len(names))})
	return b.Bytes()
}

func read(t *testing.T, b []byte) ([]Location, error) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return Read(f)
}

func TestNotes(t *testing.T) {
	other := append(binary.LittleEndian.AppendUint32(nil, 4), 0, 0, 0, 0, 1, 0, 0, 0, 'G', 'N', 'U', 0)
	notes := append(note(0x1010, 0x1800, 0, "p\x00one\x008@%rax\x00"), other...)
	// A file whose addresses were shifted by 0x100 after its notes were written.
	notes = append(notes, note(0x1010, 0x1700, 0x3f04, "p\x00two\x00\x00")...)
	have, err := read(t, image(notes))
	if err != nil {
		t.Fatal(err)
	}
	want := []Location{
		{Provider: "p", Name: "one", Addr: 0x1010, Offset: 0x110, Text: "8@%rax", Args: []Arg{{Register, 0, 80, NoIndex, 0, 8, false}}},
		{Provider: "p", Name: "two", Addr: 0x1110, Offset: 0x210, Semaphore: 0x2004},
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestInvalidNotes checks that invalid notes are reported, that notes before them are used, and also
// notes after them if it is certain where they begin.
func TestInvalidNotes(t *testing.T) {
	good := note(0x1010, 0x1800, 0, "p\x00one\x00\x00")
	for name, bad := range map[string][]byte{
		"cut short":         good[:len(good)-8],
		"less than a head":  good[:7],
		"huge sizes":        {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 3, 0, 0, 0},
		"no code there":     note(0x9000, 0x1800, 0, "p\x00one\x00\x00"),
		"no counter there":  note(0x1010, 0x1800, 0x1010, "p\x00one\x00\x00"),
		"strings cut short": note(0x1010, 0x1800, 0, "p\x00one\x00x"),
	} {
		have, err := read(t, image(append(bytes.Clone(good), bad...)))
		if err == nil || len(have) != 1 {
			t.Errorf("%s: %d probes, error = %v", name, len(have), err)
		}
		framed := map[string]bool{"no code there": true, "no counter there": true, "strings cut short": true}
		if have, err = read(t, image(slices.Concat(good, bad, good))); framed[name] && (err == nil || len(have) != 2) {
			t.Errorf("%s: %d probes around it, error = %v", name, len(have), err)
		}
	}
}

func FuzzNotes(f *testing.F) {
	f.Add(note(0x1010, 0x1800, 0x4004, "p\x00one\x00-4@-8(%rbp,%rax,4) 8@x+1(%rip)\x00"))
	f.Fuzz(func(t *testing.T, notes []byte) {
		file, err := elf.NewFile(bytes.NewReader(image(notes)))
		if err != nil {
			return
		}
		all, _ := Read(file)
		for _, l := range all {
			if l.Offset >= 0x1100 || len(l.Args) > MaxArgs {
				t.Errorf("invalid location %+v", l)
			}
			for _, a := range l.Args {
				if a.Kind != Absent && (a.Size == 0 || a.Size > 8 || a.Reg > 256) {
					t.Errorf("%q: invalid argument %+v", l.Text, a)
				}
			}
		}
	})
}

func FuzzFile(f *testing.F) {
	f.Add(image(note(0x1010, 0x1800, 0x4004, "p\x00one\x00-4@%eax\x00")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if file, err := elf.NewFile(bytes.NewReader(b)); err == nil {
			Read(file)
		}
	})
}

// TestLocations checks addresses at the ends of segments, of files that were prelinked or not, the length of names,
// and notes of other kinds.
func TestLocations(t *testing.T) {
	long := strings.Repeat("n", maxName)
	for _, c := range []struct {
		what                string
		pc, base, semaphore uint64
		texts               string
		want                Location // the zero value: an error
	}{
		{"first byte of the code", 0x1000, 0x1800, 0, "p\x00one\x00\x00", Location{Provider: "p", Name: "one", Addr: 0x1000, Offset: 0x100}},
		{"last byte of the code", 0x1fff, 0x1800, 0, "p\x00one\x00\x00", Location{Provider: "p", Name: "one", Addr: 0x1fff, Offset: 0x10ff}},
		{"past the code", 0x2000, 0x1800, 0, "p\x00one\x00\x00", Location{}},
		{"before the code", 0xfff, 0x1800, 0, "p\x00one\x00\x00", Location{}},
		{"data", 0x4000, 0x1800, 0, "p\x00one\x00\x00", Location{}},
		{"counter", 0x1000, 0x1800, 0x40fe, "p\x00one\x00\x00", Location{Provider: "p", Name: "one", Addr: 0x1000, Offset: 0x100, Semaphore: 0x20fe}},
		{"counter past the data", 0x1000, 0x1800, 0x4100, "p\x00one\x00\x00", Location{}},
		{"moved down", 0x1100, 0x1900, 0x4104, "p\x00one\x00\x00", Location{Provider: "p", Name: "one", Addr: 0x1000, Offset: 0x100, Semaphore: 0x2004}},
		{"longest name", 0x1000, 0x1800, 0, "p\x00" + long + "\x00\x00", Location{Provider: "p", Name: long, Addr: 0x1000, Offset: 0x100}},
		{"longer name", 0x1000, 0x1800, 0, "p\x00" + long + "n\x00\x00", Location{}},
		{"no third string", 0x1000, 0x1800, 0, "p\x00one\x00", Location{}},
		{"nothing", 0x1000, 0x1800, 0, "", Location{}},
	} {
		have, err := read(t, image(note(c.pc, c.base, c.semaphore, c.texts)))
		if c.want.Offset == 0 {
			if err == nil || len(have) != 0 {
				t.Errorf("%s: %+v, want an error", c.what, have)
			}
			continue
		}
		if diff := cmp.Diff([]Location{c.want}, have); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", c.what, err, diff)
		}
	}
	for what, spoil := range map[string]func(b []byte){
		"another type":  func(b []byte) { b[8] = 4 },
		"another owner": func(b []byte) { b[12] = 'S' },
	} {
		b := note(0x1010, 0x1800, 0, "p\x00one\x00\x00")
		spoil(b)
		if have, err := read(t, image(append(b, note(0x1010, 0x1800, 0, "p\x00two\x00\x00")...))); err != nil || len(have) != 1 || have[0].Name != "two" {
			t.Errorf("%s: %+v, %v, want the next one only", what, have, err)
		}
	}
	if have, err := read(t, image(nil)); err != nil || len(have) != 0 {
		t.Errorf("no notes: %+v, %v", have, err)
	}
	if got := clip(strings.Repeat("x", 65)); len(got) != 64 || clip("short") != "short" {
		t.Errorf("%q", got)
	}
}

// TestEncoded checks where programs find each part of an argument, and that there are at most MaxArgs.
func TestEncoded(t *testing.T) {
	args := slices.Repeat([]Arg{{Kind: Memory, Value: -8, Reg: 0x1234, Index: 0x5678, Scale: 3, Size: 4, Signed: true}}, MaxArgs+1)
	b := Encode(args)
	if len(b) != MaxArgs*ArgSize {
		t.Fatalf("%d bytes, want %d", len(b), MaxArgs*ArgSize)
	}
	want := binary.NativeEndian.AppendUint64(nil, ^uint64(7))
	want = binary.NativeEndian.AppendUint16(want, 0x1234)
	want = append(binary.NativeEndian.AppendUint16(want, 0x5678), byte(Memory), 3, 4, 1)
	for i := range MaxArgs {
		if !bytes.Equal(b[i*ArgSize:(i+1)*ArgSize], want) {
			t.Errorf("argument %d: %v, want %v", i, b[i*ArgSize:(i+1)*ArgSize], want)
		}
	}
	if one := Encode([]Arg{{Kind: Const, Value: 5, Size: 8}}); len(one) != MaxArgs*ArgSize || one[15] != 0 || one[ArgSize] != 0 {
		t.Errorf("%v", one[:2*ArgSize])
	}
}
