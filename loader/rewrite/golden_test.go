// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"btc/internal/arch"
	"btc/internal/kernelfs"
	"btc/internal/manifest"
)

var update = flag.Bool("update", false, "rewrite the texts of testdata")

// mainProgram returns a program that stores the number of its attach point and its context in its stack
// frame.
func mainProgram() (*ebpf.ProgramSpec, *manifest.Program) {
	insns := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1).WithSymbol("main").WithSource(asm.Comment("its line")),
		asm.Mov.Imm(asm.R7, 3), // the number
		asm.StoreMem(asm.RFP, -24, asm.R7, asm.DWord),
		asm.LoadMem(asm.R0, asm.R6, 16, asm.DWord),
		asm.Return(),
	}
	insns[0] = btf.WithFuncMetadata(insns[0], &btf.Func{Name: "main", Type: &btf.FuncProto{Return: &btf.Void{}}})
	return &ebpf.ProgramSpec{Name: "main", Type: ebpf.TracePoint, Instructions: insns},
		&manifest.Program{
			Name:    "main",
			UsesID:  true,
			IDInsns: []int{1},
			Code:    &manifest.Code{Context: "record", Frame: 24, Share: true, RecordArgs: []int{0, 2}},
		}
}

// TestPrograms checks the code after each edit of a program.
func TestPrograms(t *testing.T) {
	edits := map[string]func(*ebpf.ProgramSpec, *manifest.Program) error{
		"cookie": IDFromCookie,
		"process": func(s *ebpf.ProgramSpec, _ *manifest.Program) error {
			s.Instructions = (&Filter{PID: 1234}).Program(s.Instructions)
			return nil
		},
		"process-namespace": func(s *ebpf.ProgramSpec, _ *manifest.Program) error {
			s.Instructions = (&Filter{PID: 1234, Namespace: kernelfs.Namespace{Dev: 4, Ino: 1 << 33}}).Program(s.Instructions)
			return nil
		},
		"filter": func(s *ebpf.ProgramSpec, _ *manifest.Program) error {
			f := Filter{Processes: 5, ProcessBytes: 8192, Cgroups: 6, NumCgroups: 2}
			s.Instructions = f.Program(s.Instructions)
			return nil
		},
	}
	for _, a := range arch.All() {
		if a.SyscallRegs == nil {
			continue
		}
		for _, direction := range []string{"sys_enter", "sys_exit"} {
			edits[direction+"-"+a.Label] = func(s *ebpf.ProgramSpec, p *manifest.Program) error {
				return (&Syscalls{Regs: a.SyscallRegs, Compat: 48, Table: 7}).Program(s, p, direction)
			}
		}
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			spec, p := mainProgram()
			if err := edit(spec, p); err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%v %s %s\n%v", spec.Type, spec.AttachTo, spec.SectionName, spec.Instructions)
			path := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			// The new first instruction has the metadata of the main function.
			if first := &spec.Instructions[0]; first.Symbol() != "main" || btf.FuncMetadata(first) == nil {
				t.Errorf("symbol of the first instruction = %q", first.Symbol())
			}
			for i := range spec.Instructions[1:] {
				if ins := &spec.Instructions[i+1]; ins.Symbol() != "" || btf.FuncMetadata(ins) != nil {
					t.Errorf("instruction %d has a symbol", i+1)
				}
			}
		})
	}
}

// TestRoomForRecords checks that a record that exceeds the space below the frame by a single byte is an
// error.
func TestRoomForRecords(t *testing.T) {
	for _, c := range []struct {
		direction string
		frame     int
		ok        bool
	}{
		{"sys_enter", 512 - 40, true}, {"sys_enter", 512 - 39, false}, // the third argument ends at 40
		{"sys_exit", 512 - 24, true}, {"sys_exit", 512 - 23, false},
	} {
		spec, p := mainProgram()
		p.Code.Frame = c.frame
		err := (&Syscalls{Regs: arch.All()[0].SyscallRegs}).Program(spec, p, c.direction)
		if (err == nil) != c.ok {
			t.Errorf("%s with a frame of %d: error = %v", c.direction, c.frame, err)
		}
	}
	for frame, ok := range map[int]bool{504: true, 505: false} {
		spec, p := mainProgram()
		p.Code.Frame = frame
		if err := IDFromCookie(spec, p); (err == nil) != ok {
			t.Errorf("cookie with a frame of %d: error = %v", frame, err)
		}
	}
}
