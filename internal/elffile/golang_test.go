// SPDX-License-Identifier: Apache-2.0

package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

// goProgram returns an ELF file with the section .gopclntab, at 0x3000, .text, at 0x1000, and .go.module, at 0x8000.
func goProgram(table, module []byte) []byte {
	le := binary.LittleEndian
	names := []byte("\x00.gopclntab\x00.shstrtab\x00.text\x00.go.module\x00.eh_frame\x00")
	var out bytes.Buffer
	at := uint64(64)
	body := slices.Concat(table, module, names)
	sections := []elf.Section64{{},
		{Name: 1, Type: uint32(elf.SHT_PROGBITS), Addr: 0x3000, Off: at, Size: uint64(len(table))},
		{Name: 12, Type: uint32(elf.SHT_STRTAB), Off: at + uint64(len(table)+len(module)), Size: uint64(len(names))},
		{Name: 22, Type: uint32(elf.SHT_NOBITS), Addr: 0x1000, Size: 0x1000},
		{Name: 28, Type: uint32(elf.SHT_PROGBITS), Addr: 0x8000, Off: at + uint64(len(table)), Size: uint64(len(module))},
	}
	if len(module) > 0 { // with C code
		sections = append(sections, elf.Section64{Name: 39, Type: uint32(elf.SHT_NOBITS), Size: 8})
	}
	head := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: 2, Shoff: at + uint64(len(body))}
	copy(head.Ident[:], "\x7fELF\x02\x01\x01")
	binary.Write(&out, le, head)
	out.Write(body)
	binary.Write(&out, le, sections)
	return out.Bytes()
}

// A goVersion is a version of the table.
type goVersion struct {
	name  string
	magic uint32
	width uint64
	head  bool // the start of the code is in the head
}

var goVersions = []goVersion{{"1.2", 0xfffffffb, 8, false}, {"1.16", 0xfffffffa, 8, false}, {"1.18", 0xfffffff0, 4, true}, {"1.20", 0xfffffff1, 4, true}, {"1.26", 0xfffffff1, 4, false}}

// table makes the table of functions main.f0, main.f1, ... from 0x1000 on, of 16 bytes each. It says that there are more.
func (v *goVersion) table(functions int, more uint64) []byte {
	le := binary.LittleEndian
	const names, at = 128, 4096
	b := make([]byte, at)
	le.PutUint32(b, v.magic)
	b[6], b[7] = 1, 8
	le.PutUint64(b[8:], uint64(functions)+more)
	table, base, nameBase, text := uint64(at), uint64(at), uint64(names), uint64(0)
	switch v.name {
	case "1.2":
		table, base, nameBase = 16, 0, 0
	case "1.16":
		le.PutUint64(b[8*3:], names)
		le.PutUint64(b[8*7:], at)
	default:
		le.PutUint64(b[8*4:], names)
		le.PutUint64(b[8*8:], at)
		if text = 0x1000; v.head {
			le.PutUint64(b[8*3:], text)
		}
	}
	if v.name == "1.2" {
		b = b[:16]
	}
	put := func(n uint64) {
		if v.width == 4 {
			b = le.AppendUint32(b, uint32(n))
		} else {
			b = le.AppendUint64(b, n)
		}
	}
	entry := 2 * v.width
	infos := table + entry*uint64(functions) + v.width + 8
	nameAt := infos + 64*uint64(functions) // of 1.2, whose names follow
	if nameBase != 0 {
		nameAt = names
	}
	for i := range uint64(functions) {
		put(0x1000 + 16*i - text)
		put(infos + 64*i - base)
	}
	put(0x1000 + 16*uint64(functions) - text)
	b = append(b, make([]byte, infos-uint64(len(b)))...)
	for i := range uint64(functions) {
		info := make([]byte, 64)
		name := info[v.width:]
		le.PutUint32(name, uint32(nameAt+16*i-nameBase))
		le.PutUint32(name[12:], uint32(i%2)) // the table of stack sizes
		b = append(b, info...)
	}
	if nameBase == 0 {
		b = append(b, make([]byte, 16*functions)...)
	}
	for i := range functions {
		copy(b[int(nameAt)+16*i:], fmt.Sprintf("main.f%d", i))
	}
	return b
}

// module is a description of a program (moduledata) by which its code begins at 0x1000.
func (v *goVersion) module(functions int) []byte {
	if v.head || v.width == 8 {
		return nil
	}
	le := binary.LittleEndian
	b := make([]byte, 256)
	le.PutUint64(b[16:], 0x3000)
	le.PutUint64(b[16+moduleText:], 0x1000)
	le.PutUint64(b[16+moduleEText:], 0x1000+16*uint64(functions))
	return b
}

// TestGoTable checks the functions of tables of each version, and that one is not read if it has not as many as it says:
// each takes time.
func TestGoTable(t *testing.T) {
	const functions = 20
	for _, v := range goVersions {
		for _, more := range []uint64{0, 1000} {
			f, err := elf.NewFile(bytes.NewReader(goProgram(v.table(functions, more), v.module(functions))))
			if err != nil {
				t.Fatal(err)
			}
			g := ReadGoTable(f)
			if (g != nil) != (more == 0) {
				t.Errorf("%s, %d functions of %d: read %t", v.name, functions, functions+more, g != nil)
			}
			if g == nil {
				continue
			}
			i := uint64(0)
			g.Each(func(f *GoFunction) bool {
				if want := fmt.Sprintf("main.f%d", i); f.Addr != 0x1000+16*i || f.End != f.Addr+16 || string(f.Name()) != want || f.Sized != (i%2 == 1) {
					t.Errorf("%s: %#x to %#x, %q, %t; want %s", v.name, f.Addr, f.End, f.Name(), f.Sized, want)
				}
				i++
				return true
			})
			if i != functions {
				t.Errorf("%s: %d functions, want %d", v.name, i, functions)
			}
		}
	}
}

// FuzzGoTable reads any bytes as a table. Functions are in the code, in any case.
func FuzzGoTable(f *testing.F) {
	for _, v := range goVersions {
		f.Add(v.table(3, 0), v.module(3))
	}
	f.Fuzz(func(t *testing.T, table, module []byte) {
		e, err := elf.NewFile(bytes.NewReader(goProgram(table, module)))
		if err != nil {
			return
		}
		g := ReadGoTable(e)
		if g == nil {
			return
		}
		g.Each(func(f *GoFunction) bool {
			if f.Addr < g.From || f.End <= f.Addr || f.End > g.To || len(f.Name()) >= maxSymbolName {
				t.Fatalf("%#x to %#x, of %#x to %#x, with a name of %d bytes", f.Addr, f.End, g.From, g.To, len(f.Name()))
			}
			return true
		})
	})
}
