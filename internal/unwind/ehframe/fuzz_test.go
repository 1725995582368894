// SPDX-License-Identifier: Apache-2.0

package ehframe

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing"

	"btc/internal/unwind"
)

// image returns an ELF file with code, and a section of a name at the address 0x3000.
func image(machine elf.Machine, name string, data []byte) []byte {
	le := binary.LittleEndian
	names := append([]byte("\x00"+name+"\x00.shstrtab\x00"), 0)
	const code = 0x1000
	var out bytes.Buffer
	head := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(machine), Version: 1, Entry: 0x1040, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64, Shnum: 3, Shstrndx: 2}
	copy(head.Ident[:], "\x7fELF\x02\x01\x01")
	at := uint64(64 + 56)
	head.Shoff = at + uint64(len(data)+len(names))
	binary.Write(&out, le, head)
	binary.Write(&out, le, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: 5, Filesz: 2 * code, Memsz: 2 * code})
	out.Write(data)
	out.Write(names)
	binary.Write(&out, le, elf.Section64{})
	binary.Write(&out, le, elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Addr: 0x3000, Off: at, Size: uint64(len(data))})
	binary.Write(&out, le, elf.Section64{Name: uint32(2 + len(name)), Type: uint32(elf.SHT_STRTAB), Off: at + uint64(len(data)), Size: uint64(len(names))})
	return out.Bytes()
}

// frames makes a section of one common part and one entry for 64 bytes of code at 0x1000.
func frames(augmentation string, initial, rules []byte, data ...byte) []byte {
	le := binary.LittleEndian
	common := append([]byte{0, 0, 0, 0, 1}, augmentation...)
	common = append(common, 0, 1, 0x78, 16)
	if augmentation != "" {
		common = append(append(common, byte(len(data))), data...)
	}
	common = append(common, initial...)
	b := append(le.AppendUint32(nil, uint32(len(common))), common...)
	e := le.AppendUint32(nil, uint32(len(b)+4))
	e = le.AppendUint64(e, 0x1000)
	e = le.AppendUint64(e, 64)
	if augmentation != "" {
		e = append(e, 0)
	}
	e = append(e, rules...)
	return append(append(b, le.AppendUint32(nil, uint32(len(e)))...), e...)
}

// atEntry is what the common part of x86_64 says: the CFA is rsp + 8, the return address below it.
var atEntry = []byte{0x0c, 7, 8, 0x90, 1}

// TestRules checks the row of each kind of rule, and that what rows cannot represent is unknown.
func TestRules(t *testing.T) {
	expression := func(op byte, code ...byte) []byte { return append([]byte{op, byte(len(code))}, code...) }
	for _, c := range []struct {
		name  string
		rules []byte
		want  unwind.Row
	}{
		{"at entry", nil, unwind.Row{Kind: unwind.KindSP, CFA: 1, RA: -1}},
		{"frame pointer", []byte{0x0e, 16, 0x86, 2, 0x0d, 6}, unwind.Row{Kind: unwind.KindFP, Flags: unwind.FPSaved, CFA: 2, FP: -2, RA: -1}},
		{"frame pointer lost", []byte{0x07, 6}, unwind.Row{Kind: unwind.KindSP, Flags: unwind.FPLost, CFA: 1, RA: -1}},
		{"other register", []byte{0x0c, 10, 0}, unwind.Row{Kind: unwind.KindReg + 10, RA: -1}},
		{"no return address", []byte{0x07, 16}, unwind.Row{Kind: unwind.KindEnd}},
		{"return address in a register", []byte{0x09, 16, 5}, unwind.Row{Kind: unwind.KindUnknown}},
		{"frame of 1 MiB", []byte{0x0e, 0x80, 0x80, 0x40}, unwind.Row{Kind: unwind.KindUnknown}},
		{"not words", []byte{0x0e, 12}, unwind.Row{Kind: unwind.KindUnknown}},
		{"aligned stack", append(expression(0x0f, 0x76, 0x78, 0x06), 0x10, 6, 2, 0x76, 0), unwind.Row{Kind: unwind.KindDerefFP, Flags: unwind.FPAtFP, CFA: -1, RA: -1}},
		{"saved stack pointer", expression(0x0f, 0x77, 0x10, 0x06, 0x23, 8), unwind.Row{Kind: unwind.KindDerefSP, Flags: unwind.CFAPlus8, CFA: 2, RA: -1}},
		{"saved stack pointer, 16 more", expression(0x0f, 0x77, 0x10, 0x06, 0x23, 16), unwind.Row{Kind: unwind.KindUnknown}},
		{"stub", expression(0x0f, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22), unwind.Row{Kind: unwind.KindPLT, CFA: 11, RA: -1}},
		{"other expression", expression(0x0f, 0x77, 8, 0x31, 0x1c), unwind.Row{Kind: unwind.KindUnknown}},
		{"register after an expression", append(expression(0x0f, 0x77, 8, 0x31, 0x1c), 0x0d, 7), unwind.Row{Kind: unwind.KindUnknown}},
		{"remember and restore", []byte{0x0a, 0x0e, 32, 0x0b}, unwind.Row{Kind: unwind.KindSP, CFA: 1, RA: -1}},
		{"restore without remember", []byte{0x0b}, unwind.Row{Kind: unwind.KindUnknown}},
		{"restored", []byte{0x90, 3, 0xc0 | 16}, unwind.Row{Kind: unwind.KindSP, CFA: 1, RA: -1}},
		{"size of arguments", []byte{0x2e, 24}, unwind.Row{Kind: unwind.KindSP, CFA: 1, RA: -1}},
		{"negative offset", []byte{0x2f, 6, 2}, unwind.Row{Kind: unwind.KindSP, Flags: unwind.FPSaved, CFA: 1, FP: 2, RA: -1}},
		{"unknown instruction", []byte{0x3f}, unwind.Row{Kind: unwind.KindUnknown}},
		{"instruction that ends", []byte{0x0c, 7}, unwind.Row{Kind: unwind.KindUnknown}},
	} {
		f, err := elf.NewFile(bytes.NewReader(image(elf.EM_X86_64, ".eh_frame", frames("", atEntry, c.rules))))
		if err != nil {
			t.Fatal(err)
		}
		table, err := Build(f)
		if err != nil {
			t.Fatal(err)
		}
		got := table.Lookup(0x1020)
		if got.PC = 0; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		if before, after := table.Lookup(0xfff), table.Lookup(0x1040); before.Kind != unwind.KindNone || after.Kind != unwind.KindNone && after.Kind != unwind.KindEnd {
			t.Errorf("%s: %+v before the code, %+v after it", c.name, before, after)
		}
	}
}

// FuzzBuild makes tables from any bytes in .eh_frame, .debug_frame and .gopclntab, and from any file. Their rows are in
// order, and no more than a map can hold.
func FuzzBuild(f *testing.F) {
	f.Add(uint8(0), frames("zR", atEntry, []byte{0x44, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6}, 0))
	f.Add(uint8(0), frames("zPLR", atEntry, []byte{0x44, 0x0e, 16}, 0x9b, 1, 2, 3, 4, 0x1b, 0x1b))
	f.Add(uint8(1), frames("zRS", atEntry, []byte{0x0f, 4, 0x77, 0xa0, 1, 6}, 0))
	f.Add(uint8(2), frames("zRB", []byte{0x0c, 31, 0}, []byte{0x41, 0x2d, 0x0e, 32, 0x9d, 4, 0x9e, 3}, 0))
	f.Add(uint8(3), append([]byte{0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8, 2}, make([]byte, 120)...))
	f.Add(uint8(4), image(elf.EM_RISCV, ".eh_frame", frames("", []byte{0x0d, 2}, []byte{0x44, 0x0e, 16})))
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		file := data
		machines := []elf.Machine{elf.EM_X86_64, elf.EM_AARCH64, elf.EM_RISCV}
		switch kind % 5 {
		case 0, 1:
			file = image(machines[kind/5%3], ".eh_frame", data)
		case 2:
			file = image(machines[kind/5%3], ".debug_frame", data)
		case 3:
			file = image(machines[kind/5%3], ".gopclntab", data)
		}
		e, err := elf.NewFile(bytes.NewReader(file))
		if err != nil {
			return
		}
		table, err := Build(e)
		if err != nil {
			return
		}
		for i := range table.Rows {
			if i > 0 && table.Rows[i].PC <= table.Rows[i-1].PC {
				t.Fatalf("rows %+v, %+v", table.Rows[i-1], table.Rows[i])
			}
		}
		b, err := table.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if err := new(unwind.Table).UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
	})
}
