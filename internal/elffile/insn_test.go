// SPDX-License-Identifier: Apache-2.0

package elffile

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/hex"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// lengthX86 returns the length of the instruction at the start of code; 0 if there is none.
func lengthX86(code []byte) int {
	x := &x86{code: code[:min(len(code), maxX86)]}
	if !x.instruction() || x.at > len(x.code) {
		return 0
	}
	return x.at
}

func TestLengthX86(t *testing.T) {
	if len(oneByte) != 256 || len(twoBytes) != 256 {
		t.Fatal(len(oneByte), len(twoBytes))
	}
	for text, want := range map[string]int{
		"c3":                               1,  // ret
		"55":                               1,  // push %rbp
		"4889e5":                           3,  // mov %rsp,%rbp
		"4883ec10":                         4,  // sub $0x10,%rsp
		"488d3d10000000":                   7,  // lea 0x10(%rip),%rdi
		"48b8efcdab8967452301":             10, // movabs
		"66b83412":                         4,
		"b878563412":                       5,
		"e800000000":                       5,
		"f30f1efa":                         4, // endbr64
		"0f1f8400000000000":                0, // incomplete byte
		"0f1f840000000000":                 8, // nopl 0x0(%rax,%rax,1)
		"662e0f1f840000000000":             10,
		"48a1efcdab8967452301":             10, // movabs 0x…,%rax
		"67a1efcdab89":                     6,
		"f6c101":                           3, // test $1,%cl
		"f7c100000100":                     6,
		"f7d9":                             2, // neg %ecx
		"0fba e007":                        0,
		"0fbae007":                         4, // bt $7,%eax
		"0f8400000000":                     6,
		"c5f877":                           3, // vzeroupper
		"c4e37d39c101":                     6, // vextracti128 $1,%ymm0,%xmm1
		"c5fd6f4520":                       5,
		"62f1fe486f4740":                   7, // vmovdqu64 0x1000(%rdi),%zmm0
		"62f37d48390701":                   7,
		"c8100000":                         4, // enter
		"64488b042528000000":               9, // mov %fs:0x28,%rax
		"8f00":                             2, // pop (%rax)
		"8fe97812c0":                       5, // llwpcb, XOP
		"660f3a0fc108":                     6, // palignr
		"0f38f00424":                       5, // movbe
		"660f78c10408":                     6, // extrq $8,$4,%xmm1: immediates, not a SIB
		"f20f78ca0510":                     6, // insertq $16,$5,%xmm2,%xmm1
		"f30fa7c8":                         4, // rep xcryptecb, PadLock
		"06":                               0,
		"48":                               0, // truncated
		"e80000":                           0,
		"66666666666666666666666666666690": 0, // more than 15 bytes
	} {
		code, err := hex.DecodeString(text)
		if err != nil {
			continue
		}
		if got := lengthX86(code); got != want {
			t.Errorf("length of %s = %d, want %d", text, got, want)
		}
	}
}

// TestLengthsOfPrograms compares the lengths with those of a disassembler, for all code of some
// programs.
func TestLengthsOfPrograms(t *testing.T) {
	if _, err := exec.LookPath("objdump"); err != nil {
		t.Skip("skipped: ", err)
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("skipped: programs of this machine are not x86")
	}
	for _, path := range []string{"/bin/bash", "/lib/x86_64-linux-gnu/libc.so.6"} {
		f, err := elf.Open(path)
		if err != nil {
			continue
		}
		f.Close()
		cmd := exec.Command("objdump", "-d", "-w", "-j", ".text", "--no-show-raw-insn", path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		text := f.Section(".text")
		g, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		code, err := g.Section(".text").Data()
		g.Close()
		if err != nil {
			t.Fatal(err)
		}
		wrong, seen := 0, 0
		last, lastText := uint64(0), ""
		for sc := bufio.NewScanner(out); sc.Scan(); {
			at, rest, ok := strings.Cut(strings.TrimSpace(sc.Text()), ":")
			addr, err := strconv.ParseUint(at, 16, 64)
			if !ok || err != nil || strings.HasSuffix(at, ">") {
				continue
			}
			if lastText != "" && !strings.Contains(lastText, "(bad)") && addr > last && wrong < 20 {
				b := code[last-text.Addr:]
				if got := lengthX86(b); got != int(addr-last) {
					wrong++
					t.Errorf("%s: %x: %s: % x: %d, want %d", path, last, lastText, b[:min(len(b), 15)], got, addr-last)
				}
				seen++
			}
			last, lastText = addr, rest
		}
		cmd.Wait()
		if seen < 1000 {
			t.Errorf("%s: only %d instructions", path, seen)
		}
		t.Logf("%s: %d instructions", path, seen)
	}
}

func FuzzLengthX86(f *testing.F) {
	f.Add([]byte{0x62, 0xf1, 0xfe, 0x48, 0x6f, 0x47, 0x40})
	f.Fuzz(func(t *testing.T, code []byte) {
		n := lengthX86(code)
		if n > len(code) || n > maxX86 {
			t.Fatalf("length %d of %d bytes", n, len(code))
		}
		if n > 0 && lengthX86(append(bytes.Clone(code[:n]), 0xff, 0xff)) != n {
			t.Fatal("length depends on the bytes after the instruction")
		}
	})
}
