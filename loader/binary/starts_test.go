// SPDX-License-Identifier: Apache-2.0

package binary

import (
	"bufio"
	"debug/elf"
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

func TestStartsOfPrograms(t *testing.T) {
	if _, err := exec.LookPath("objdump"); err != nil || runtime.GOARCH != "amd64" {
		t.Skip("skipped: objdump on x86_64 is needed")
	}
	var paths []string
	for _, pattern := range strings.Fields(os.Getenv("STARTS") + " /bin/bash /lib/x86_64-linux-gnu/libc.so.6 /lib/x86_64-linux-gnu/ld-linux-x86-64.so.2") {
		found, _ := filepath.Glob(pattern)
		paths = append(paths, found...)
	}
	for _, path := range paths {
		f, err := elf.Open(path)
		if err != nil {
			continue
		}
		defer f.Close()
		s := NewStarts(f)
		all := boundaries(t, "objdump", path)
		if len(all) < 100 {
			continue
		}
		proved := map[uint64]bool{}
		wrong, starts := 0, 0
		for fn := range functions(s) {
			w := s.around(fn)
			w.run()
			starts++
			for i, mark := range w.marks {
				addr := w.from + uint64(i)
				if mark != begins || proved[addr] {
					continue
				}
				proved[addr] = true
				if _, ok := all[addr]; !ok {
					if wrong++; wrong < 10 {
						t.Errorf("%s: %#x, in the function at %#x, is not an instruction: % x", path, addr, fn, w.code[i:min(i+8, len(w.code))])
					}
				}
			}
		}
		t.Logf("%s: %d functions, %d of %d instructions (%.1f %%), %d wrong", path, starts, len(proved), len(all), 100*float64(len(proved))/float64(len(all)), wrong)
	}
}
