// SPDX-License-Identifier: Apache-2.0

package bpfwalk

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"btc/internal/arch"
	"btc/internal/unwind"
	"btc/ir"
	"btc/ir/interp"
	"btc/passes"
	"btc/targets/kernel"
	"btc/tests/unwind/unwindcase"
)

// walker is a program that stores the stack of a process.
const walker = `
map (name ustack_127, shape stack, depth 127, user)
map (name @, shape count, key (kind ustack, size 16, stack ustack_127), value (kind int, size 8))
func @p prog (kind uprobe, attach (target "a", name f)) {
  slot s0 "key" 16 align 8
b0(v0:ctx):
  v1:i64 = dwustack ustack_127(v0), #127
  store.u64 [s0+0], v1
  store.u64 [s0+8], 7
  count @, s0+0
  ret 0
}
`

// lowered returns the program for an architecture.
func lowered(t testing.TB, a *arch.Arch) *ir.Module {
	t.Helper()
	m, err := ir.Parse(walker)
	if err != nil {
		t.Fatal(err)
	}
	if m.Target, err = kernel.Default(a.Name); err != nil {
		t.Fatal(err)
	}
	if err := passes.Run(m, passes.Options{}); err != nil {
		t.Fatal(err)
	}
	return m
}

// interpret unwinds a recorded stack by the program, in the interpreter.
func interpret(t testing.TB, m *ir.Module, a *arch.Arch, c *unwindcase.Case) (frames []uint64, why string) {
	t.Helper()
	k := interp.New(m)
	number := map[string]uint32{"": 0}
	ranges := slices.Clone(c.Mappings)
	slices.SortFunc(ranges, func(x, y unwindcase.Mapping) int { return int(int64(x.Start - y.Start)) })
	for i, r := range ranges {
		value := binary.NativeEndian.AppendUint64(nil, r.Start)
		value = binary.NativeEndian.AppendUint64(value, r.End)
		value = binary.NativeEndian.AppendUint64(value, r.Bias)
		flags := uint32(0)
		switch {
		case r.File == "":
			flags = 2
		case c.Keeps[r.File]:
			flags = 1
		case number[r.File] == 0:
			number[r.File] = uint32(len(number))
			k.PutMap("unwind_tables", number[r.File], (&unwind.Table{Rows: c.Tables[r.File]}).Chunks())
		}
		value = binary.NativeEndian.AppendUint32(value, number[r.File])
		k.Put("unwind_ranges", word(i), binary.NativeEndian.AppendUint32(value, flags))
	}
	k.Put("unwind_procs", word(7), binary.NativeEndian.AppendUint64(nil, uint64(len(ranges))<<32))
	in := interp.Input{Prog: "p", PID: 7, TID: 7, Ctx: make([]byte, a.RegsSize), User: map[uint64][]byte{}, Globals: map[string][]byte{"unwind": {1, 0, 0, 0, 0, 0, 0, 0}}}
	regs := c.Registers()
	for name, v := range map[string]uint64{a.IP.Name: regs.PC, a.SP.Name: regs.SP, a.FP: regs.FP, a.Link: regs.LR} {
		if r, ok := a.Reg(name); ok {
			binary.LittleEndian.PutUint64(in.Ctx[r.Offset:], v)
		}
	}
	for i := 0; i < len(c.Words); { // adjacent words are read together
		var run []byte
		start := c.Words[i][0]
		for ; i < len(c.Words) && c.Words[i][0] == start+uint64(len(run)); i++ {
			run = binary.LittleEndian.AppendUint64(run, c.Words[i][1])
		}
		in.User[start] = run
	}
	if _, err := k.Run(in); err != nil {
		t.Fatal(c.Name, err)
	}
	for _, key := range k.Keys("ustack_127") {
		id := binary.LittleEndian.Uint64([]byte(key))
		value := k.Element("ustack_127", []byte(key))[0]
		for i := range id & (1<<11 - 1) {
			frames = append(frames, binary.LittleEndian.Uint64(value[8*i:]))
		}
	}
	for r := range unwind.Reasons {
		for _, b := range k.Element("unwind_stats", word(int(r))) {
			if binary.LittleEndian.Uint64(b) > 0 {
				why += r.String()
			}
		}
	}
	return frames, why
}

func word(n int) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(n)) }

// TestRecorded unwinds the recorded stacks by the program and compares them with gdb's.
func TestRecorded(t *testing.T) {
	all, err := unwindcase.Load("../testdata")
	if err != nil {
		t.Fatal(err)
	}
	programs := map[*arch.Arch]*ir.Module{}
	n, equal := 0, 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, c := range all[name] {
			a := arch.ByMachine(c.Machine)
			if programs[a] == nil {
				programs[a] = lowered(t, a)
			}
			got, why := interpret(t, programs[a], a, c)
			want, reason := unwind.Walk(c.Machine, c.Registers(), c, 127)
			n++
			if !slices.Equal(got, want) || why != reason.String() {
				t.Errorf("%s: frames %#x, %s; the walk in Go finds %#x, %v", c.Name, got, why, want, reason)
			}
			if slices.Equal(got, c.Truth) {
				equal++
			}
		}
	}
	t.Logf("%d stacks, %d as gdb finds them", n, equal)
	if n == 0 {
		t.Error("no recorded stacks")
	}
}
