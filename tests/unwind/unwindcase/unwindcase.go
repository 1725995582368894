// SPDX-License-Identifier: Apache-2.0

// Package unwindcase has stacks that were captured from stopped processes, with the answer of gdb: tests of the walks
// unwind them again. A case is self-contained: registers, the words of the stack that a walk reads, mappings, and the
// rows of the functions on the stack.
package unwindcase

import (
	"debug/elf"
	"encoding/json"
	"os"
	"path/filepath"
	"sort"

	"btc/internal/unwind"
)

// Case is a captured stack.
type Case struct {
	Name     string
	Machine  elf.Machine
	PC       uint64
	Regs     []uint64 // by their DWARF numbers
	Words    [][2]uint64
	Mappings []Mapping
	Tables   map[string][]unwind.Row // of each file: the rows around the addresses of the stack
	Keeps    map[string]bool         `json:",omitempty"` // files whose code keeps frame pointers
	Truth    []uint64                // the addresses that gdb finds
	Names    []string                // their functions, as gdb names them
	Reason   string                  // why the walk ends
}

// Mapping is a mapping of code; File is empty if it is not of a file that has a table.
type Mapping struct {
	Start, End, Bias uint64
	File             string
}

// Registers returns those with which a walk begins.
func (c *Case) Registers() unwind.Registers {
	r := unwind.Registers{PC: c.PC, Other: c.Regs}
	switch c.Machine {
	case elf.EM_X86_64:
		r.SP, r.FP = c.Regs[7], c.Regs[6]
	case elf.EM_AARCH64:
		r.SP, r.FP, r.LR = c.Regs[31], c.Regs[29], c.Regs[30]
	case elf.EM_RISCV:
		r.SP, r.FP, r.LR = c.Regs[2], c.Regs[8], c.Regs[1]
	}
	return r
}

// Word implements unwind.Memory.
func (c *Case) Word(addr uint64) (uint64, bool) {
	i := sort.Search(len(c.Words), func(i int) bool { return c.Words[i][0] >= addr })
	if i == len(c.Words) || c.Words[i][0] != addr {
		return 0, false
	}
	return c.Words[i][1], true
}

// Find implements unwind.Memory.
func (c *Case) Find(addr uint64) (*unwind.Table, uint64, unwind.Reason) {
	for _, m := range c.Mappings {
		if addr-m.Start < m.End-m.Start {
			if m.File == "" {
				return nil, 0, unwind.NoTable
			}
			return &unwind.Table{Machine: c.Machine, Rows: c.Tables[m.File], Frames: c.Keeps[m.File]}, m.Bias, 0
		}
	}
	return nil, 0, unwind.UnknownCode
}

// Load reads all cases below a directory, by name of the file.
func Load(dir string) (map[string][]*Case, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	all := map[string][]*Case{}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var cases []*Case
		if err := json.Unmarshal(b, &cases); err != nil {
			return nil, err
		}
		all[filepath.Base(path)] = cases
	}
	return all, nil
}
