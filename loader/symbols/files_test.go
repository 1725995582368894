// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"btc/internal/elffile"
)

// TestCodeOfFiles checks that an address in a file belongs to the code segment that contains it.
func TestCodeOfFiles(t *testing.T) {
	segment := func(kind elf.ProgType, flags elf.ProgFlag, off, size, addr uint64) *elf.Prog {
		return &elf.Prog{ProgHeader: elf.ProgHeader{Type: kind, Flags: flags, Off: off, Filesz: size, Vaddr: addr}}
	}
	code := elf.PF_R | elf.PF_X
	f := &elf.File{Progs: []*elf.Prog{segment(elf.PT_LOAD, elf.PF_R, 0, 100, 0), segment(elf.PT_NOTE, code, 0, 1<<20, 1),
		segment(elf.PT_LOAD, code, 100, 50, 1000), segment(elf.PT_LOAD, code, 200, 50, 900), segment(elf.PT_LOAD, code, 300, 50, 1200)}}
	for off, want := range map[uint64]uint64{99: 0, 100: 1000, 149: 1049, 150: 0, 200: 900, 349: 1249, 350: 0} {
		if got, ok := loadAddress(f, off); got != want || ok != (want != 0) {
			t.Errorf("address of byte %d = %d, %t; want %d", off, got, ok, want)
		}
	}
	if got, ok := codeStart(f); got != 900 || !ok {
		t.Errorf("start of the code = %d, %t; want 900", got, ok)
	}
	if _, ok := codeStart(&elf.File{Progs: f.Progs[:2]}); ok {
		t.Error("found code in a file without code")
	}
	for kind, want := range map[elf.Type]bool{elf.ET_EXEC: true, elf.ET_DYN: false} {
		if got := elffile.IsProgram(&elf.File{FileHeader: elf.FileHeader{Type: kind}, Progs: f.Progs}); got != want {
			t.Errorf("%s: IsProgram = %t", kind, got)
		}
	}
	if !elffile.IsProgram(&elf.File{FileHeader: elf.FileHeader{Type: elf.ET_DYN}, Progs: []*elf.Prog{segment(elf.PT_INTERP, elf.PF_R, 0, 1, 0)}}) {
		t.Error("file with an interpreter not recognized as a program")
	}
}

// codeFile writes an ELF file with 4 kB of code and functions whose names are in one string table.
func codeFile(t *testing.T, names []byte, symbols ...elf.Sym64) string {
	t.Helper()
	var table bytes.Buffer
	table.Write(make([]byte, 24))
	for i := range symbols {
		symbols[i].Info, symbols[i].Shndx = byte(elf.STT_FUNC), 1
		binary.Write(&table, binary.LittleEndian, symbols[i])
	}
	path := filepath.Join(t.TempDir(), "file")
	elfFile(t, path, []elfSection{
		{".strtab", elf.Section64{Type: uint32(elf.SHT_STRTAB)}, append([]byte{0}, names...)},
		{".symtab", elf.Section64{Type: uint32(elf.SHT_SYMTAB), Link: 1, Entsize: 24}, table.Bytes()},
	})
	return path
}

func TestFunctionsOfAFile(t *testing.T) {
	for _, helper := range []Helper{Process, Here} {
		testFunctionsOfAFile(t, helper)
	}
}

func testFunctionsOfAFile(t *testing.T, helper Helper) {
	path := codeFile(t, []byte("outer\x00inner\x00other\x00"), elf.Sym64{Name: 1, Value: 0x100, Size: 0x100}, elf.Sym64{Name: 7, Value: 0x180, Size: 0x20}, elf.Sym64{Name: 13, Value: 0x300})
	f := NewFiles(helper, func(text string) { t.Error(text) })
	defer f.Close()
	defer func() {
		if started := f.parser.proc != nil; started != (helper == Process) {
			t.Errorf("helper %d: a process was started: %v", helper, started)
		}
	}()
	for _, c := range []struct {
		q    Question
		want string
	}{
		{Question{Name: "inner"}, "inner@384+32"},
		{Question{Name: "*er"}, "outer@256+256 inner@384+32 other@768+0"},
		{Question{Name: "none"}, ""},
		{Question{Addr: 0xff}, ""},
		{Question{Addr: 0x100}, ""}, // its first byte
		{Question{Addr: 0x101}, "outer@256+256"},
		{Question{Addr: 0x180}, ""},
		{Question{Addr: 0x181}, "inner@384+32"},
		{Question{Addr: 0x1a0}, "outer@256+256"},
		{Question{Addr: 0x200}, ""},
		{Question{Addr: 0x300}, ""},
	} {
		img, err := f.Functions(path, &c.q)
		if err != nil {
			t.Fatalf("%+v: %v", c.q, err)
		}
		all := img.Functions
		if img.Around != nil {
			all = append(all, *img.Around)
		}
		var have []string
		for _, fn := range all {
			have = append(have, fmt.Sprintf("%s@%d+%d", fn.Name, fn.Value, fn.Size))
			if !fn.Loaded || fn.Offset != fn.Value {
				t.Errorf("%+v: wrong offset of %+v", c.q, fn)
			}
		}
		if got := strings.Join(have, " "); got != c.want || !img.Linked || img.Path != path || !img.HasCode && c.q.Name == "" {
			t.Errorf("%+v: got %q of %+v, want %q", c.q, got, img, c.want)
		}
	}
}

// TestHostileFiles checks that reading a malicious file is an error, and that the next file is read.
func TestHostileFiles(t *testing.T) {
	for _, helper := range []Helper{Process, Here} {
		testHostileFiles(t, helper)
	}
}

func testHostileFiles(t *testing.T, helper Helper) {
	good := codeFile(t, []byte("f\x00"), elf.Sym64{Name: 1, Value: 0x100, Size: 8})
	many := make([]elf.Sym64, 100_000) // 1.6 GB of names
	for i := range many {
		many[i] = elf.Sym64{Name: 1, Value: uint64(i + 1), Size: 1}
	}
	bomb := "_Z1f1AIiiE"
	for level := range 40 {
		ref := "S" + strings.ToUpper(fmt.Sprintf("%c", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[level%36])) + "_"
		bomb += "S_I" + ref + ref + "E"
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no program", 10)), 0o600); err != nil {
		t.Fatal(err)
	}
	f := NewFiles(helper, func(string) {})
	defer f.Close()
	for _, c := range []struct {
		name, path string
		q          Question
		want       string // part of the error; "" for none
	}{
		{"gigabytes of names", codeFile(t, []byte(strings.Repeat("x", 16000)+"\x00"), many...), Question{Name: "x*"}, "MiB of their names"},
		{"mangled name that doubles", codeFile(t, []byte(bomb+"\x00"), elf.Sym64{Name: 1, Value: 1, Size: 1}), Question{Name: "g", Lang: "cpp"}, ""},
		{"FIFO", fifo, Question{Name: "f"}, "not a regular file"},
		{"device", "/dev/zero", Question{Name: "f"}, "not a regular file"},
		{"text", text, Question{Name: "f"}, "bad magic number"},
		{"long question", good, Question{Name: strings.Repeat("f", 1<<17)}, "too long"},
		{"not an archive", good + "!/member", Question{Name: "f"}, "not a valid zip file"},
	} {
		_, err := f.Functions(c.path, &c.q)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error = %v, want %q", c.name, err, c.want)
		}
		if errors.Is(err, ErrNotELF) != (c.name == "text") {
			t.Errorf("%s: %v is an error about another kind of file", c.name, err)
		}
		if img, err := f.Functions(good, &Question{Name: "f"}); err != nil || len(img.Functions) != 1 {
			t.Errorf("after %s: image %v, error = %v", c.name, img, err)
		}
	}
	if f.parser.fails > 0 {
		t.Errorf("process failed %d times", f.parser.fails)
	}
}

// TestHostileAnswers checks that a truncated or invalid response of the other process is an error.
func TestHostileAnswers(t *testing.T) {
	var p packer
	p.text("name")
	p.number(1 << 60)
	u := &unpacker{rest: p}
	if u.text() != "name" || u.err() != nil {
		t.Error("string missing")
	}
	if s := u.text(); s != "" || u.err() == nil {
		t.Errorf("read %q past the end", s)
	}
	u = &unpacker{rest: []byte{1}}
	if u.number() != 0 || u.truth() || u.count() != 0 || u.err() == nil {
		t.Error("no error past the end")
	}
}

// FuzzQuestion checks that any file gives a response to each question, or an error.
func FuzzQuestion(f *testing.F) {
	seeds, err := filepath.Glob("../usdt/testdata/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range seeds {
		if b, err := os.ReadFile(path); err == nil && len(b) < 1<<20 {
			f.Add(b, "*", uint64(1))
		}
	}
	var small bytes.Buffer
	binary.Write(&small, binary.LittleEndian, elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: 3, Machine: 62, Version: 1, Ehsize: 64, Phoff: 64, Phentsize: 56, Phnum: 1, Shentsize: 64})
	binary.Write(&small, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: 5, Filesz: 1 << 40, Memsz: 1 << 40})
	f.Add(small.Bytes(), "f", uint64(0x10))
	f.Fuzz(func(t *testing.T, file []byte, name string, n uint64) {
		for kind := uint8(askFunctions); kind <= askAddress; kind++ {
			var p packer
			p.truth(n%5 == 0)
			p.text(name)
			p.number(uint64(len(file)))
			p.text(name)
			p.text([]string{"", "cpp", name}[n%3])
			p.number(n)
			p.number(n)
			p.truth(true)
			r := request{kind: kind, text: string(p)}
			if a := r.answerFile(bytes.NewReader(file)); !a.ok || len(a.names) < 17 {
				t.Fatalf("answerFile() = %+v", a)
			}
		}
	})
}
