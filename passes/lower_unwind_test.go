// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"btc/internal/arch"
	"btc/internal/unwind"
	"btc/ir"
	"btc/ir/interp"
	"btc/targets/kernel"
)

// process is a process as its registers, memory, mappings and tables describe it.
type process struct {
	pc, sp, fp, lr uint64
	words          map[uint64]uint64 // of the stack
	ranges         []codeRange
	tables         map[uint32][]unwind.Row // by number of the file
	unknown        bool                    // the loader knows nothing of it
	helper         []uint64                // frames that the kernel's helper finds
}

type codeRange struct {
	start, end, bias uint64
	file, flags      uint32
}

// stackProgram returns a program that stores a stack, lowered.
func stackProgram(t testing.TB, a *arch.Arch, kind string, depth int) *ir.Module {
	t.Helper()
	return programOf(t, a, "dwustack", kind, depth)
}

// programOf returns a program that stores a stack by an operation, lowered.
func programOf(t testing.TB, a *arch.Arch, op, kind string, depth int) *ir.Module {
	t.Helper()
	m, err := ir.Parse(fmt.Sprintf(`
map (name ustack_%[1]d, shape stack, depth %[1]d, user)
map (name @, shape count, key (kind ustack, size 16, stack ustack_%[1]d), value (kind int, size 8))
func @p prog (%[2]s) {
  slot s0 "key" 16 align 8
b0(v0:ctx):
  v1:i64 = %[3]s ustack_%[1]d(v0), #%[1]d
  store.u64 [s0+0], v1
  store.u64 [s0+8], 7
  count @, s0+0
  ret 0
}
`, depth, kind, op))
	if err != nil {
		t.Fatal(err)
	}
	if m.Target, err = kernel.Default(a.Name); err != nil {
		t.Fatal(err)
	}
	if err := Run(m, Options{Verify: ir.VerifyStage}); err != nil {
		t.Fatal(err)
	}
	return m
}

// machine returns a machine with the process as number 7.
func (p *process) machine(m *ir.Module) *interp.Machine {
	k := interp.New(m)
	for i, r := range p.ranges {
		value := binary.NativeEndian.AppendUint64(nil, r.start)
		value = binary.NativeEndian.AppendUint64(value, r.end)
		value = binary.NativeEndian.AppendUint64(value, r.bias)
		value = binary.NativeEndian.AppendUint32(value, r.file)
		k.Put(unwindRanges, number(100+i), binary.NativeEndian.AppendUint32(value, r.flags))
	}
	if !p.unknown {
		n := uint64(len(p.ranges))<<32 | 100
		if p.ranges == nil {
			n = 0
		}
		k.Put(unwindProcs, number(7), binary.NativeEndian.AppendUint64(nil, n))
	}
	for n, rows := range p.tables {
		k.PutMap(unwindTables, n, (&unwind.Table{Rows: rows}).Chunks())
	}
	return k
}

func number(n int) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(n)) }

// input returns what a program sees. The registers are those of the context, or of the task.
func (p *process) input(a *arch.Arch, task bool) interp.Input {
	regs := make([]byte, a.RegsSize)
	put := func(name string, v uint64) {
		if r, ok := a.Reg(name); ok {
			binary.LittleEndian.PutUint64(regs[r.Offset:], v)
		}
	}
	put(a.Mode.Name, uint64(a.UserMode))
	put(a.IP.Name, p.pc)
	put(a.SP.Name, p.sp)
	put(a.FP, p.fp)
	put(a.Link, p.lr)
	in := interp.Input{Prog: "p", PID: 7, TID: 7, Ctx: regs, Ustack: p.helper, User: map[uint64][]byte{}, Kernel: map[uint64][]byte{}, Globals: map[string][]byte{
		"unwind": binary.LittleEndian.AppendUint64(nil, unwindDw),
	}}
	for addr, w := range p.words {
		for next := addr; ; next += 8 { // adjacent words are read together
			w, ok := p.words[next]
			if !ok {
				break
			}
			in.User[addr] = binary.LittleEndian.AppendUint64(in.User[addr], w)
		}
		_ = w
	}
	if task {
		in.Ctx, in.TaskRegs = nil, 0xffff888000001000
		in.Kernel[in.TaskRegs] = regs
	}
	return in
}

// walk runs the program, and returns the frames and why the walk ended.
func walk(t testing.TB, k *interp.Machine, in interp.Input, depth int) (frames []uint64, why string) {
	t.Helper()
	if _, err := k.Run(in); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("ustack_%d", depth)
	keys := k.Keys(name)
	if len(keys) > 0 {
		id := binary.LittleEndian.Uint64([]byte(keys[len(keys)-1]))
		value := k.Element(name, []byte(keys[len(keys)-1]))[0]
		for i := range id & (1<<stackLenBits - 1) {
			frames = append(frames, binary.LittleEndian.Uint64(value[8*i:]))
		}
		for i := len(frames); i < depth; i++ {
			if binary.LittleEndian.Uint64(value[8*i:]) != 0 {
				t.Errorf("a frame after the last one: %#x", value)
			}
		}
	}
	for r := range unwind.Reasons {
		for _, b := range k.Element(unwindStats, number(int(r))) {
			if binary.LittleEndian.Uint64(b) > 0 {
				why += r.String()
			}
		}
	}
	return frames, why
}

const (
	code  = 0x400000
	saved = unwind.FPSaved | unwind.RASaved
)

// one is a mapping with one file.
var one = []codeRange{{start: code, end: code + 0x10000, bias: code, file: 1}}

// rows returns a table: a function at 0x100 with a rule, one at 0x200 with a frame of 32 bytes, and the end at 0x300.
func rows(r unwind.Row) map[uint32][]unwind.Row {
	r.PC = 0x100
	return map[uint32][]unwind.Row{1: {
		{PC: 0x80, Kind: unwind.KindNone}, r, {PC: 0x200, Kind: unwind.KindSP, CFA: 4, RA: -1, Flags: saved, FP: -2},
		{PC: 0x300, Kind: unwind.KindEnd}, {PC: 0x400, Kind: unwind.KindNone},
	}}
}

// TestWalk unwinds made-up stacks.
func TestWalk(t *testing.T) {
	x86, arm, riscv := arch.ByName("x86_64"), arch.ByName("aarch64"), arch.ByName("riscv64")
	signal := unwind.SignalContext(x86.Machine)
	many := make([]unwind.Row, 2000)
	for i := range many {
		many[i] = unwind.Row{PC: uint32(16 * i), Kind: unwind.KindSP, CFA: 2, RA: -1}
	}
	many[1999].Kind = unwind.KindEnd
	deep, deepFrames := map[uint64]uint64{}, []uint64{}
	for i := range uint64(200) {
		deep[0x1008+16*i] = code + 16*(i+1) + 5
		deepFrames = append(deepFrames, code+16*i+5)
	}
	var spread []codeRange
	for i := range uint64(1000) {
		spread = append(spread, codeRange{start: code + i*0x1000, end: code + i*0x1000 + 0x100, bias: code + i*0x1000, file: 1})
	}
	for _, c := range []struct {
		name string
		a    *arch.Arch
		p    process
		want []uint64
		why  unwind.Reason
	}{
		{"sp", x86, process{pc: code + 0x110, sp: 0x1000, words: map[uint64]uint64{0x1008: code + 0x205, 0x1020: 1, 0x1028: code + 0x300, 0x1040: 2, 0x1048: code + 0x305},
			ranges: one, tables: rows(unwind.Row{Kind: unwind.KindSP, CFA: 2, RA: -1})},
			[]uint64{code + 0x110, code + 0x205, code + 0x300, code + 0x305}, unwind.Whole},
		{"fp", x86, process{pc: code + 0x110, sp: 0x1000, fp: 0x1010, words: map[uint64]uint64{0x1010: 0x77, 0x1018: code + 0x305},
			ranges: one, tables: rows(unwind.Row{Kind: unwind.KindFP, CFA: 2, FP: -2, RA: -1, Flags: saved})}, []uint64{code + 0x110, code + 0x305}, unwind.Whole},
		{"word at sp", x86, process{pc: code + 0x110, sp: 0x1000, words: map[uint64]uint64{0x1008: 0x1040, 0x1038: code + 0x305},
			ranges: one, tables: rows(unwind.Row{Kind: unwind.KindDerefSP, CFA: 1, RA: -1})}, []uint64{code + 0x110, code + 0x305}, unwind.Whole},
		{"word at fp, with fp at fp", x86, process{pc: code + 0x110, sp: 0x1000, fp: 0x1010, words: map[uint64]uint64{0x1008: 0x1040, 0x1010: 0x2000, 0x1038: code + 0x150, 0x1ff8: 0x3000, 0x2000: 0, 0x2ff8: code + 0x305},
			ranges: one, tables: rows(unwind.Row{Kind: unwind.KindDerefFP, CFA: -1, RA: -1, Flags: unwind.FPAtFP})}, []uint64{code + 0x110, code + 0x150, code + 0x305}, unwind.Whole},
		{"8 bytes after the word at sp", x86, process{pc: code + 0x110, sp: 0x1000, words: map[uint64]uint64{0x1008: 0x1038, 0x1038: code + 0x305},
			ranges: one, tables: rows(unwind.Row{Kind: unwind.KindDerefSP, CFA: 1, RA: -1, Flags: unwind.CFAPlus8})}, []uint64{code + 0x110, code + 0x305}, unwind.Whole},
		{"PLT before the push", x86, process{pc: code + 0x11a, sp: 0x1000, words: map[uint64]uint64{0x1000: code + 0x305},
			ranges: one, tables: rows(unwind.Row{Kind: unwind.KindPLT, CFA: 11, RA: -1})}, []uint64{code + 0x11a, code + 0x305}, unwind.Whole},
		{"PLT after the push", x86, process{pc: code + 0x11b, sp: 0x1000, words: map[uint64]uint64{0x1008: code + 0x305},
			ranges: one, tables: rows(unwind.Row{Kind: unwind.KindPLT, CFA: 11, RA: -1})}, []uint64{code + 0x11b, code + 0x305}, unwind.Whole},
		{"signal", x86, process{pc: code + 0x110, sp: 0x1000, words: map[uint64]uint64{0x1000 + uint64(signal.PC): code + 0x200, 0x1000 + uint64(signal.SP): 0x800, 0x1000 + uint64(signal.FP): 9, 0x810: 0, 0x818: code + 0x305},
			ranges: one, tables: rows(unwind.Row{Kind: unwind.KindSignal})}, []uint64{code + 0x110, code + 0x200, code + 0x305}, unwind.Whole},
		{"frame pointers by row", x86, process{pc: code + 0x110, sp: 0x1000, fp: 0x1010, words: map[uint64]uint64{0x1010: 0x1030, 0x1018: code + 0x120, 0x1030: 0, 0x1038: code + 0x130},
			ranges: one, tables: rows(unwind.Row{Kind: unwind.KindFrames})}, []uint64{code + 0x110, code + 0x120, code + 0x130}, unwind.Whole},
		{"frame pointers by range", x86, process{pc: code + 0x110, sp: 0x1000, fp: 0x1010, words: map[uint64]uint64{0x1010: 0x1030, 0x1018: code + 0x120, 0x1030: 0, 0x1038: code + 0x130},
			ranges: []codeRange{{start: code, end: code + 0x1000, flags: rangeFrames}}}, []uint64{code + 0x110, code + 0x120, code + 0x130}, unwind.Whole},
		{"return address 0", x86, process{pc: code + 0x110, sp: 0x1000, words: map[uint64]uint64{0x1008: 0}, ranges: one, tables: rows(unwind.Row{Kind: unwind.KindSP, CFA: 2, RA: -1})}, []uint64{code + 0x110}, unwind.BadValue},
		{"many rows and ranges", x86, process{pc: code + 0x3e7000 + 0x15, sp: 0x1000, words: map[uint64]uint64{0x1008: code + 0x7000 + 0x25, 0x1018: code + 5, 0x1028: code + 0x99}, ranges: spread, tables: map[uint32][]unwind.Row{1: many}},
			[]uint64{code + 0x3e7000 + 0x15, code + 0x7000 + 0x25, code + 5, code + 0x99}, unwind.NotResident},
		{"rows in several chunks", x86, process{pc: code + 16*639 + 15, sp: 0x1000, words: map[uint64]uint64{0x1008: code + 16*640 + 1, 0x1018: code + 16*1279 + 1, 0x1028: code + 16*1999 + 1},
			ranges: one, tables: map[uint32][]unwind.Row{1: many}}, []uint64{code + 16*639 + 15, code + 16*640 + 1, code + 16*1279 + 1, code + 16*1999 + 1}, unwind.Whole},
		{"link register", arm, process{pc: code + 0x110, sp: 0x1000, lr: 0x0042<<48 | code + 0x205, words: map[uint64]uint64{0x1010: 1, 0x1018: 0x7f00<<48 | code + 0x305},
			ranges: one, tables: rows(unwind.Row{Kind: unwind.KindSP, Flags: unwind.RALink})}, []uint64{code + 0x110, code + 0x205, code + 0x305}, unwind.Whole},
		{"link register of a caller", arm, process{pc: code + 0x110, sp: 0x1000, lr: code + 0x150, ranges: one, tables: rows(unwind.Row{Kind: unwind.KindSP, Flags: unwind.RALink})}, []uint64{code + 0x110, code + 0x150}, unwind.BadValue},
		{"frame record of riscv64", riscv, process{pc: code + 0x110, sp: 0x1000, fp: 0x1020, words: map[uint64]uint64{0x1010: 0, 0x1018: code + 0x120},
			ranges: one, tables: rows(unwind.Row{Kind: unwind.KindFrames})}, []uint64{code + 0x110, code + 0x120}, unwind.Whole},

		{"range without a table", x86, process{pc: code + 0x110, ranges: []codeRange{{start: code, end: code + 0x1000, flags: rangeNoTable}}}, []uint64{code + 0x110}, unwind.NoTable},
		{"code without a rule", x86, process{pc: code + 0x90, ranges: one, tables: rows(unwind.Row{})}, []uint64{code + 0x90}, unwind.NoTable},
		{"code before the first row", x86, process{pc: code + 0x10, ranges: one, tables: rows(unwind.Row{})}, []uint64{code + 0x10}, unwind.NoTable},
		{"code after 4 GiB of a file", x86, process{pc: code + 1<<32 + 0x110, ranges: []codeRange{{start: code, end: code << 20, bias: code, file: 1}}, tables: rows(unwind.Row{Kind: unwind.KindEnd})}, []uint64{code + 1<<32 + 0x110}, unwind.NoTable},
		{"stack that is not resident", x86, process{pc: code + 0x110, sp: 0x1000, ranges: one, tables: rows(unwind.Row{Kind: unwind.KindSP, CFA: 2, RA: -1})}, []uint64{code + 0x110}, unwind.NotResident},
		{"too many frames", x86, process{pc: code + 5, sp: 0x1000, words: deep, ranges: one, tables: map[uint32][]unwind.Row{1: many}}, deepFrames[:127], unwind.TooDeep},
		{"code in no mapping", x86, process{pc: code + 0x110, sp: 0x1000, words: map[uint64]uint64{0x1008: 0x999999}, ranges: one, tables: rows(unwind.Row{Kind: unwind.KindSP, CFA: 2, RA: -1})}, []uint64{code + 0x110}, unwind.UnknownCode},
		{"innermost code in no mapping", x86, process{pc: 0x999999, ranges: one}, []uint64{0x999999}, unwind.UnknownCode},
		{"code before all mappings", x86, process{pc: 0x1000, ranges: one}, []uint64{0x1000}, unwind.UnknownCode},
		{"process that is not known", x86, process{pc: code + 0x110, unknown: true}, []uint64{code + 0x110}, unwind.NotYetKnown},
		{"file that is not known", x86, process{pc: code + 0x110, ranges: []codeRange{{start: code, end: code + 0x1000}}}, []uint64{code + 0x110}, unwind.NotYetKnown},
		{"table that is not there", x86, process{pc: code + 0x110, ranges: one}, []uint64{code + 0x110}, unwind.NotYetKnown},
		{"rule that rows cannot represent", x86, process{pc: code + 0x110, ranges: one, tables: rows(unwind.Row{Kind: unwind.KindUnknown})}, []uint64{code + 0x110}, unwind.Unrepresented},
		{"rule with another register", x86, process{pc: code + 0x110, ranges: one, tables: rows(unwind.Row{Kind: unwind.KindReg + 10})}, []uint64{code + 0x110}, unwind.Unrepresented},
		{"CFA below sp", x86, process{pc: code + 0x110, sp: 0x1000, fp: 0x800, ranges: one, tables: rows(unwind.Row{Kind: unwind.KindFP, CFA: 2, RA: -1})}, []uint64{code + 0x110}, unwind.BadValue},
		{"CFA that stays", x86, process{pc: code + 0x110, sp: 0x1000, words: map[uint64]uint64{0xff8: code + 0x150}, ranges: one, tables: rows(unwind.Row{Kind: unwind.KindSP, RA: -1})}, []uint64{code + 0x110, code + 0x150}, unwind.BadValue},
		{"address of the kernel", x86, process{pc: code + 0x110, sp: 0x1000, words: map[uint64]uint64{0x1008: 0xffffffff81000000}, ranges: one, tables: rows(unwind.Row{Kind: unwind.KindSP, CFA: 2, RA: -1})}, []uint64{code + 0x110}, unwind.BadValue},
		{"frame pointer below sp", x86, process{pc: code + 0x110, sp: 0x1000, fp: 0x800, words: map[uint64]uint64{0x800: 0, 0x808: code + 0x305}, ranges: one, tables: rows(unwind.Row{Kind: unwind.KindFrames})}, []uint64{code + 0x110, code + 0x305}, unwind.Whole},
		{"frame pointer that stays", x86, process{pc: code + 0x110, sp: 0x1000, fp: 0xff0, words: map[uint64]uint64{0xff0: 0xff0, 0xff8: code + 0x110}, ranges: one, tables: rows(unwind.Row{Kind: unwind.KindFrames})}, []uint64{code + 0x110}, unwind.BadValue},
		{"frame pointer that is not aligned", x86, process{pc: code + 0x110, sp: 0x1000, fp: 0x1004, ranges: one, tables: rows(unwind.Row{Kind: unwind.KindFrames})}, []uint64{code + 0x110}, unwind.BadValue},
		{"CFA that is not aligned", x86, process{pc: code + 0x110, sp: 0x1000, fp: 0x1004, words: map[uint64]uint64{0x100c: code + 0x305}, ranges: one, tables: rows(unwind.Row{Kind: unwind.KindFP, CFA: 2, RA: -1})}, []uint64{code + 0x110}, unwind.BadValue},
		{"lost frame pointer", x86, process{pc: code + 0x110, sp: 0x1000, words: map[uint64]uint64{0x1008: code + 0x450}, ranges: one, tables: map[uint32][]unwind.Row{1: {{PC: 0x100, Kind: unwind.KindSP, CFA: 2, RA: -1, Flags: unwind.FPLost}, {PC: 0x400, Kind: unwind.KindFrames}}}},
			[]uint64{code + 0x110, code + 0x450}, unwind.Unrepresented},
		{"lost frame pointer of a frame", x86, process{pc: code + 0x110, sp: 0x1000, words: map[uint64]uint64{0x1008: code + 0x450}, ranges: one, tables: map[uint32][]unwind.Row{1: {{PC: 0x100, Kind: unwind.KindSP, CFA: 2, RA: -1, Flags: unwind.FPLost}, {PC: 0x400, Kind: unwind.KindFP, CFA: 2, RA: -1}}}},
			[]uint64{code + 0x110, code + 0x450}, unwind.Unrepresented},
	} {
		m := stackProgram(t, c.a, `kind uprobe, attach (target "a", name f)`, 127)
		k := c.p.machine(m)
		got, why := walk(t, k, c.p.input(c.a, false), 127)
		if !slices.Equal(got, c.want) || why != c.why.String() {
			t.Errorf("%s: frames %#x, %s; want %#x, %s", c.name, got, why, c.want, c.why)
		}
		asks := 0
		if c.why == unwind.NotYetKnown {
			asks = 1
		}
		walk(t, k, c.p.input(c.a, false), 127)
		if len(k.Events) != asks {
			t.Errorf("%s: %d requests, want %d", c.name, len(k.Events), asks)
		}
		task := stackProgram(t, c.a, `kind kprobe, attach (name f)`, 127)
		if again, reason := walk(t, c.p.machine(task), c.p.input(c.a, true), 127); !cmp.Equal(got, again) || why != reason {
			t.Errorf("%s, from the kernel: frames %#x, %s; want %#x, %s", c.name, again, reason, got, why)
		}
	}
}

// TestWalkOrHelper checks when the kernel's helper is used, and which stacks there are.
func TestWalkOrHelper(t *testing.T) {
	x86 := arch.ByName("x86_64")
	p := process{pc: code + 0x110, sp: 0x1000, words: map[uint64]uint64{0x1008: code + 0x305}, ranges: one, tables: rows(unwind.Row{Kind: unwind.KindSP, CFA: 2, RA: -1}), helper: []uint64{1, 2, 3}}
	byTables, byHelper := []uint64{code + 0x110, code + 0x305}, []uint64{1, 2, 3}
	for _, c := range []struct {
		name   string
		kind   string
		depth  int
		change func(p *process, in *interp.Input)
		want   []uint64
		why    string
	}{
		{"off", "kprobe", 127, func(_ *process, in *interp.Input) { in.Globals["unwind"] = nil }, byHelper, ""},
		{"keeps frame pointers", "kprobe", 127, func(p *process, _ *interp.Input) { p.ranges = nil }, byHelper, ""},
		{"limit", "kprobe", 1, nil, byTables[:1], "whole"},
		{"limit that the stack has", "kprobe", 2, nil, byTables, "whole"},
		{"more than the kernel's limit", "kprobe", 1024, nil, byTables, "whole"},
		{"thread of the kernel", "kprobe", 127, func(_ *process, in *interp.Input) { in.Kernel[in.TaskRegs] = make([]byte, x86.RegsSize) }, nil, ""},
		{"registers of the kernel", "kprobe", 127, func(_ *process, in *interp.Input) {
			binary.LittleEndian.PutUint64(in.Kernel[in.TaskRegs][x86.Mode.Offset:], 0x10)
		}, nil, ""},
		{"registers that cannot be read", "kprobe", 127, func(_ *process, in *interp.Input) { delete(in.Kernel, in.TaskRegs) }, nil, ""},
		{"sample of a process", "profile", 127, nil, byTables, "whole"},
		{"sample of the kernel", "profile", 127, func(_ *process, in *interp.Input) {
			in.Ctx = make([]byte, x86.RegsSize)
			binary.LittleEndian.PutUint64(in.Ctx[x86.IP.Offset:], 0xffffffff81000000)
		}, byTables, "whole"},
		{"top of the kernel's stack", "kprobe", 127, func(_ *process, in *interp.Input) {
			in.Lacks = []string{"task_pt_regs", "get_current_task_btf"}
			const task, stack = 0xffff888000100000, 0xffff888000200000
			target, _ := kernel.Default(x86.Name)
			size := 0
			for _, f := range []string{"task_struct", "pt_regs"} {
				typ, ok := target.ParseType("struct " + f)
				if !ok {
					panic(f)
				}
				size = typ.Resolve().Size
			}
			in.Task, in.Kernel[task] = task, make([]byte, 16<<10)
			for i := 0; i < 16<<10; i += 8 { // every word, as the field's offset is the target's
				binary.LittleEndian.PutUint64(in.Kernel[task][i:], stack)
			}
			in.Kernel[stack+threadSize-uint64(size)] = in.Kernel[in.TaskRegs]
		}, byTables, "whole"},
	} {
		q := p
		in := q.input(x86, c.kind == "kprobe")
		if c.kind == "profile" {
			in.TaskRegs = 0xffff888000001000
			in.Kernel[in.TaskRegs] = slices.Clone(in.Ctx)
		}
		if c.change != nil {
			c.change(&q, &in)
		}
		kind := map[string]string{"kprobe": "kind kprobe, attach (name f)", "profile": "kind profile, attach (unit hz, count 99)"}[c.kind]
		got, why := walk(t, q.machine(stackProgram(t, x86, kind, c.depth)), in, c.depth)
		if !slices.Equal(got, c.want) || why != c.why {
			t.Errorf("%s: frames %#x, %q; want %#x, %q", c.name, got, why, c.want, c.why)
		}
	}
}

// TestRaw checks what is sent of a process or a file that is not known, and that the walk goes on there as it would have in
// the program.
func TestRaw(t *testing.T) {
	const stack = 0x7ffd00003000 // three pages
	memory := make([]byte, 3*unwind.RawPage)
	sp := uint64(stack + 0x345*8)
	put := func(addr, v uint64) { binary.LittleEndian.PutUint64(memory[addr-stack:], v) }
	put(sp+8, code+0x205)
	put(sp+8+32, code+0x20205) // another file
	put(sp+8+32+32, code+0x305)
	table := rows(unwind.Row{Kind: unwind.KindSP, CFA: 2, RA: -1})[1]
	tables := map[uint32][]unwind.Row{1: table}
	other := codeRange{start: code + 0x20000, end: code + 0x30000, bias: code + 0x20000, file: 2}
	whole := []uint64{code + 0x110, code + 0x205, code + 0x20205, code + 0x305}
	for _, c := range []struct {
		name   string
		ranges []codeRange // nil: not known
		count  uint64
		prefix []uint64
	}{
		{"process", nil, 0, nil},
		{"file", []codeRange{{start: code, end: code + 0x10000}}, 1, nil},
		{"mapping of a caller", one, 2, whole[:2]},
		{"table of a caller", append(slices.Clone(one), other), 3, whole[:2]},
	} {
		p := process{pc: code + 0x110, sp: sp, ranges: c.ranges, unknown: c.ranges == nil, tables: tables}
		m := stackProgram(t, arch.ByName("x86_64"), `kind uprobe, attach (target "a", name f)`, 127)
		m.Map(unwindAsked).BPF.MaxEntries = 64 // as the loader does
		k := p.machine(m)
		in := p.input(arch.ByName("x86_64"), false)
		in.User, in.Mono = map[uint64][]byte{stack: memory}, 5e9
		budget := func(second, process uint64) {
			b := make([]byte, unwind.BudgetSize)
			binary.LittleEndian.PutUint64(b[unwind.BudgetSecond:], second)
			binary.LittleEndian.PutUint64(b[unwind.BudgetProcess:], process)
			k.Put(unwindBudget, number(0), b)
		}
		budget(3, 64)
		for n := range 5 {
			if _, err := k.Run(in); err != nil {
				t.Fatal(err)
			}
			if want := min(n+1, 3); len(k.Records) != want {
				t.Fatalf("%s: %d records after %d stacks; want %d", c.name, len(k.Records), n+1, want)
			}
		}
		budget(100, 4) // the process has sent 3
		for range 5 {
			if _, err := k.Run(in); err != nil {
				t.Fatal(err)
			}
		}
		if len(k.Records) != 4 {
			t.Fatalf("%s: %d records of a process that may send 4", c.name, len(k.Records))
		}
		r, ok := unwind.ParseRaw(k.Records[0])
		if !ok {
			t.Fatalf("%s: bad record", c.name)
		}
		if r.Tgid != 7 || r.Depth != 127 || r.ID == 0 || r.ID&(1<<unwind.StackLenBits-1) != 0 || r.SP-unwind.RawBelow != r.From || len(r.Stack) != int(stack+uint64(len(memory))-r.From) {
			t.Errorf("%s: process %d, depth %d, ID %#x, stack from %#x (sp %#x), %d bytes", c.name, r.Tgid, r.Depth, r.ID, r.From, r.SP, len(r.Stack))
		}
		if !slices.Equal(r.Frames, c.prefix) {
			t.Errorf("%s: frames %#x before; want %#x", c.name, r.Frames, c.prefix)
		}
		if k.Element("ustack_127", binary.LittleEndian.AppendUint64(nil, r.ID)) == nil {
			t.Errorf("%s: the stack is not in the map", c.name)
		}
		more, why := unwind.Walk(elf.EM_X86_64, r.Registers, &rawMemory{r, func(addr uint64) (*unwind.Table, uint64) {
			if addr >= other.start {
				return &unwind.Table{Rows: []unwind.Row{{PC: 0x200, Kind: unwind.KindSP, CFA: 4, RA: -1}}}, other.bias
			}
			return &unwind.Table{Rows: table}, code
		}}, 127)
		if got := append(slices.Clone(r.Frames), more...); !slices.Equal(got, whole) || why != unwind.Whole {
			t.Errorf("%s: frames %#x, %v; want %#x, whole", c.name, got, why, whole)
		}
		reasons := 0
		for r := range unwind.Reasons {
			for _, b := range k.Element(unwindStats, number(int(r))) {
				reasons += int(binary.LittleEndian.Uint64(b))
			}
		}
		if reasons != 6 {
			t.Errorf("%s: %d of 10 stacks are counted; want those that were not sent", c.name, reasons)
		}
	}
}

type rawMemory struct {
	*unwind.Raw
	find func(addr uint64) (*unwind.Table, uint64)
}

func (m *rawMemory) Find(addr uint64) (*unwind.Table, uint64, unwind.Reason) {
	t, bias := m.find(addr)
	return t, bias, 0
}

// TestStackID checks that ids of stacks that the loader finds are those that programs compute.
func TestStackID(t *testing.T) {
	for _, depth := range []int{1, 2, 3, 7, 8, 9, 16, 20, 127, 200} {
		m := stackProgram(t, arch.ByName("x86_64"), `kind kprobe, attach (name f)`, depth)
		for n := 1; n <= depth; n += max(1, depth/9) {
			var frames []uint64
			for i := range n {
				frames = append(frames, 0x7f1234567890+uint64(i*i)*0x1111)
			}
			p := process{helper: frames}
			k := p.machine(m)
			in := p.input(arch.ByName("x86_64"), true)
			in.Globals["unwind"] = nil
			if _, err := k.Run(in); err != nil {
				t.Fatal(err)
			}
			keys := k.Keys(fmt.Sprint("ustack_", depth))
			if len(keys) != 1 {
				t.Fatalf("%d stacks", len(keys))
			}
			if got, want := unwind.StackID(frames, depth), binary.LittleEndian.Uint64([]byte(keys[0])); got != want {
				t.Errorf("%d frames of %d: id %#x; the program has %#x", n, depth, got, want)
			}
		}
	}
}

// TestEveryUserStack checks how ustack of a script differs from dw_ustack: tables are for all stacks or for none, and the
// helper finds the stack where something is not known yet, which is counted and asked for all the same.
func TestEveryUserStack(t *testing.T) {
	x86 := arch.ByName("x86_64")
	p := process{pc: code + 0x110, sp: 0x1000, words: map[uint64]uint64{0x1008: code + 0x305}, ranges: one, tables: rows(unwind.Row{Kind: unwind.KindSP, CFA: 2, RA: -1}), helper: []uint64{1, 2, 3}}
	byTables, byHelper := []uint64{code + 0x110, code + 0x305}, []uint64{1, 2, 3}
	for _, c := range []struct {
		name   string
		mode   uint64
		change func(p *process)
		want   []uint64
		why    string
		asks   int
	}{
		{"all", unwindAll, nil, byTables, "whole", 0},
		{"those of dw_ustack", unwindDw, nil, byHelper, "", 0},
		{"none", unwindOff, nil, byHelper, "", 0},
		{"keeps frame pointers", unwindAll, func(p *process) { p.ranges = nil }, byHelper, "", 0},
		{"unknown process", unwindAll, func(p *process) { p.unknown = true }, byHelper, unwind.NotYetKnown.String(), 1},
		{"table that is not made", unwindAll, func(p *process) { p.ranges = []codeRange{{start: code, end: code + 0x10000}} }, byHelper, unwind.NotYetKnown.String(), 1},
		{"no table", unwindAll, func(p *process) { p.ranges = []codeRange{{start: code, end: code + 0x10000, flags: rangeNoTable}} }, byTables[:1], unwind.NoTable.String(), 0},
	} {
		q := p
		if c.change != nil {
			c.change(&q)
		}
		k := q.machine(programOf(t, x86, "anyustack", "kind profile, attach (unit hz, count 99)", 127))
		in := q.input(x86, false)
		in.Globals["unwind"] = binary.LittleEndian.AppendUint64(nil, c.mode)
		got, why := walk(t, k, in, 127)
		if !slices.Equal(got, c.want) || why != c.why || len(k.Events) != c.asks {
			t.Errorf("%s: frames %#x, %q, %d requests; want %#x, %q, %d", c.name, got, why, len(k.Events), c.want, c.why, c.asks)
		}
	}
}
