// SPDX-License-Identifier: Apache-2.0

package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// entry is a symbol of a test file.
type entry struct {
	name        string
	value, size uint64
	info        byte
	section     uint16
	version     uint16 // of the dynamic table
}

// withSymbols returns an ELF file with the tables .symtab, and .dynsym with versions if there are entries for it.
func withSymbols(class elf.Class, order binary.ByteOrder, symtab, dynsym []entry) *elf.File {
	names := []byte{0}
	var sections []elf.Section64
	var body bytes.Buffer
	const header = 64
	add := func(typ elf.SectionType, data []byte, link int) {
		sections = append(sections, elf.Section64{Type: uint32(typ), Off: uint64(header + body.Len()), Size: uint64(len(data)), Link: uint32(link)})
		body.Write(data)
	}
	table := func(list []entry) []byte {
		var b bytes.Buffer
		size := 24
		if class == elf.ELFCLASS32 {
			size = 16
		}
		b.Write(make([]byte, size)) // the first symbol of a table is null
		for _, e := range list {
			at := uint32(0)
			if e.name != "" {
				at = uint32(len(names))
				names = append(append(names, e.name...), 0)
			}
			if class == elf.ELFCLASS32 {
				binary.Write(&b, order, elf.Sym32{Name: at, Value: uint32(e.value), Size: uint32(e.size), Info: e.info, Shndx: e.section})
			} else {
				binary.Write(&b, order, elf.Sym64{Name: at, Value: e.value, Size: e.size, Info: e.info, Shndx: e.section})
			}
		}
		return b.Bytes()
	}
	sym, dyn := table(symtab), table(dynsym)
	versions := make([]byte, 2+2*len(dynsym))
	for i, e := range dynsym {
		order.PutUint16(versions[2+2*i:], e.version)
	}
	sections = append(sections, elf.Section64{})
	add(elf.SHT_STRTAB, names, 0)
	add(elf.SHT_SYMTAB, sym, 1)
	if dynsym != nil {
		add(elf.SHT_DYNSYM, dyn, 1)
		add(elf.SHT_GNU_VERSYM, versions, 3)
	}
	var b bytes.Buffer
	ident := [16]byte{0x7f, 'E', 'L', 'F', byte(class), 1, 1}
	if order == binary.BigEndian {
		ident[5] = 2
	}
	at := uint64(header + body.Len())
	if class == elf.ELFCLASS32 {
		binary.Write(&b, order, elf.Header32{Ident: ident, Type: 2, Machine: 3, Version: 1, Shoff: uint32(at), Ehsize: 52, Shentsize: 40, Shnum: uint16(len(sections)), Shstrndx: 1})
	} else {
		binary.Write(&b, order, elf.Header64{Ident: ident, Type: 2, Machine: 62, Version: 1, Shoff: at, Ehsize: 64, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: 1})
	}
	b.Write(make([]byte, header-b.Len()))
	b.Write(body.Bytes())
	for _, s := range sections {
		if class == elf.ELFCLASS32 {
			binary.Write(&b, order, elf.Section32{Type: s.Type, Off: uint32(s.Off), Size: uint32(s.Size), Link: s.Link})
		} else {
			binary.Write(&b, order, s)
		}
	}
	f, err := elf.NewFile(bytes.NewReader(b.Bytes()))
	if err != nil {
		panic(err)
	}
	return f
}

// listed returns the symbols that EachSymbol visits, at most n.
func listed(t *testing.T, f *elf.File, n int) []string {
	t.Helper()
	var all []string
	if err := EachSymbol(f, func(s *Symbol) bool {
		all = append(all, fmt.Sprintf("%s=%#x+%d type %d in %d defined %v hidden %v", s.Name(), s.Value, s.Size, s.Type, s.Section, s.Defined(), s.Hidden))
		return len(all) < n
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestEachSymbol checks the entries of both tables, of files of each class and byte order.
func TestEachSymbol(t *testing.T) {
	symtab := []entry{{"f", 0x1000, 16, 0x12, 1, 0}, {"", 0x2000, 0, 0x03, 2, 0}, {"undefined", 0, 0, 0x10, 0, 0}, {"absolute", 7, 0, 0x11, 0xfff1, 0}}
	dynsym := []entry{{"g", 0x3000, 8, 0x12, 1, 2}, {"g", 0x4000, 8, 0x12, 1, 0x8001}}
	want := []string{
		"f=0x1000+16 type 2 in 1 defined true hidden false", "=0x2000+0 type 3 in 2 defined true hidden false",
		"undefined=0x0+0 type 0 in 0 defined false hidden false", "absolute=0x7+0 type 1 in 65521 defined true hidden false",
		"g=0x3000+8 type 2 in 1 defined true hidden false", "g=0x4000+8 type 2 in 1 defined true hidden true",
	}
	for _, class := range []elf.Class{elf.ELFCLASS32, elf.ELFCLASS64} {
		for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
			f := withSymbols(class, order, symtab, dynsym)
			if got := listed(t, f, 100); strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("%s, %s:\n%s\nwant\n%s", class, order, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if got := listed(t, f, 3); len(got) != 3 {
				t.Errorf("%s, %s: %d symbols after the end", class, order, len(got))
			}
		}
	}
	if got := listed(t, withSymbols(elf.ELFCLASS64, binary.LittleEndian, symtab[:1], nil), 100); len(got) != 1 {
		t.Errorf("without a dynamic table: %q", got)
	}
}

// TestManySymbols checks tables and names that are read in several pieces, names that cross a page, and a hole.
func TestManySymbols(t *testing.T) {
	var many []entry
	for i := range 5000 {
		many = append(many, entry{fmt.Sprintf("symbol_%d", i), uint64(i + 1), 1, 2, 1, 0})
	}
	got := listed(t, withSymbols(elf.ELFCLASS64, binary.LittleEndian, many, nil), 10_000)
	if len(got) != len(many) {
		t.Fatalf("%d symbols, want %d", len(got), len(many))
	}
	for i, line := range got {
		if want := fmt.Sprintf("symbol_%d=%#x+1 ", i, i+1); !strings.HasPrefix(line, want) {
			t.Fatalf("%q, want %q", line, want)
		}
	}
	long, longer := strings.Repeat("x", maxSymbolName-1), strings.Repeat("y", maxSymbolName)
	got = listed(t, withSymbols(elf.ELFCLASS64, binary.LittleEndian, []entry{{long, 1, 1, 2, 1, 0}, {longer, 2, 1, 2, 1, 0}, {"z", 3, 1, 2, 1, 0}}, nil), 10)
	if !strings.HasPrefix(got[0], long+"=0x1+") || !strings.HasPrefix(got[1], "=0x2+") || !strings.HasPrefix(got[2], "z=0x3+") {
		t.Errorf("long names: %.20q", got)
	}
	hole := make([]entry, maxNull+100)
	hole = append(hole, entry{"after", 1, 1, 2, 1, 0})
	if got := listed(t, withSymbols(elf.ELFCLASS64, binary.LittleEndian, hole, nil), 1<<20); len(got) > maxNull || strings.HasPrefix(got[len(got)-1], "after") {
		t.Errorf("%d symbols of a hole", len(got))
	}
}
