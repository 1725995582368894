package attach

import (
	"bytes"
	"debug/elf"
	"testing"
)

func TestEnclosing(t *testing.T) {
	funcs := []elf.Symbol{
		{Name: "outer", Value: 100, Size: 50}, {Name: "inner", Value: 120, Size: 10}, {Name: "empty", Value: 200}, {Name: "last", Value: 1 << 40, Size: 1 << 63},
	}
	for addr, want := range map[uint64]string{99: "", 100: "outer", 119: "outer", 120: "inner", 129: "inner", 130: "outer", 150: "", 200: "", 1 << 41: "last"} {
		got := ""
		if s := enclosing(funcs, addr); s != nil {
			got = s.Name
		}
		if got != want {
			t.Errorf("%d: %q, want %q", addr, got, want)
		}
	}
}

// What a file says that it has and does not have is not a code: zeros would be.
func TestCodeOfCutFile(t *testing.T) {
	var b bytes.Buffer
	b.Write(make([]byte, 64))
	b.Write([]byte{0x55, 0x90, 0x90, 0xc3})
	prog := func(size uint64) *elf.File {
		h := elf.ProgHeader{Type: elf.PT_LOAD, Off: 64, Vaddr: 0x1000, Filesz: size, Memsz: size}
		return &elf.File{Progs: []*elf.Prog{{ProgHeader: h, ReaderAt: bytes.NewReader(b.Bytes()[64:])}}}
	}
	for _, tc := range []struct {
		size, off uint64
		bytes     int // -1: an error
	}{{4, 2, 4}, {4, 4, -1}, {1 << 60, 2, 4}, {1 << 60, 1000, 4}, {1 << 60, maxFunction, -1}} {
		code, err := codeOf(prog(tc.size), 0x1000, tc.off)
		if (err != nil) != (tc.bytes < 0) || err == nil && len(code) != tc.bytes {
			t.Errorf("%+v: %d bytes, %v", tc, len(code), err)
		}
	}
}
