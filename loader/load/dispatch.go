package load

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"btc/loader/attach"
	"btc/loader/hostinfo"
	"btc/loader/kerneltypes"
	"btc/loader/manifest"
	"btc/loader/object"
)

// Programs of many system call tracepoints run from one raw tracepoint.
//
// The kernel waits for a grace period, tens of milliseconds, at the end of each
// tracepoint's perf event, one after the other: 360 take more than ten seconds
// to detach. They all come from two raw tracepoints, sys_enter and sys_exit,
// whose links end in no time. What the kernel's perf_syscall_enter and
// perf_syscall_exit do for each tracepoint, a few instructions in front of the
// program do: they look the number of the call up in a table, leave out calls in
// the ABI of 32 bits, whose numbers mean others and for which the tracepoints do
// not fire, and lay the tracepoint's record out in the frame.

const (
	// dispatchFrom is how many tracepoints of one program make it worth while.
	dispatchFrom = 9
	// dispatchClauses is the most programs that may share a raw tracepoint: each
	// is run at every system call.
	dispatchClauses = 16
	// syscallSlots is the size of the table of numbers. x32 calls, which have bit
	// 30 set, lie behind it as those of 32 bits do.
	syscallSlots = 1024
	frameSize    = 512
)

// Layout of the record of a system call's tracepoint (struct syscall_tp_t of
// kernel/trace/trace_syscalls.c); the attach point's number is kept where the
// common fields are, which no program can read.
const (
	recordID    = 0
	recordNr    = 8
	recordArgs  = 16 // six words; at the exit the result
	argWords    = 6
	recordEnter = recordArgs + 8*argWords
	recordExit  = recordArgs + 8
)

// syscallABI is what the programs must know of an architecture: where struct
// pt_regs has the arguments and the call's number, and how a task says that it
// makes a call of 32 bits.
type syscallABI struct {
	args   [argWords]int16 // offsets in pt_regs
	nr     int16           // the same, of the number
	nrSize asm.Size
	field  string // of struct thread_info, a u32 of which is read
	bit    int32  // set in that field for a call of 32 bits
}

// syscallABIs has a row for each architecture, as uname -m calls it. The layouts
// of pt_regs are ABI (ptrace). TS_COMPAT of x86 and TIF_32BIT of arm64 have had
// their numbers since before 5.10.
var syscallABIs = map[string]syscallABI{
	"x86_64":  {args: [6]int16{112, 104, 96, 56, 72, 64}, nr: 120, nrSize: asm.DWord, field: "status", bit: 1 << 1},
	"aarch64": {args: [6]int16{272, 8, 16, 24, 32, 40}, nr: 280, nrSize: asm.Word, field: "flags", bit: 1 << 22},
}

// contextHelpers are the helpers that take the program's context, which a record
// in the frame is not.
var contextHelpers = map[asm.BuiltinFunc]bool{
	asm.FnPerfEventOutput: true, asm.FnGetStackid: true, asm.FnGetStack: true, asm.FnTailCall: true,
	asm.FnGetAttachCookie: true, asm.FnGetFuncIp: true, asm.FnPerfEventReadValue: true,
}

// dispatcher makes the programs of one raw tracepoint.
type dispatcher struct {
	abi     syscallABI
	field   int32 // offset in struct task_struct of the field that tells 32 bits
	numbers map[string]int
}

// dispatchSyscalls changes the plans of system call tracepoints, where it is
// worth while and the same: each then has one link for its matches; those with
// numbers that we do not know follow in a plan of their own.
func dispatchSyscalls(o *object.Object, exp *attach.Expansion) {
	if o.Spec.ByteOrder != binary.LittleEndian {
		return
	}
	machine, err := hostinfo.Machine()
	if _, ok := syscallABIs[machine]; err != nil || !ok {
		return
	}
	numbers := hostinfo.SyscallEvents(machine)
	for _, direction := range []string{"sys_enter", "sys_exit"} {
		if worthDispatch(o, exp, direction) {
			splitPlans(exp, direction, numbers)
		}
	}
}

// worthDispatch tells whether the programs of sys_enter or sys_exit should share
// the raw tracepoint. It is all of them or none: among programs of two kinds the
// order of the script would be lost.
func worthDispatch(o *object.Object, exp *attach.Expansion, direction string) bool {
	most, plans := 0, 0
	for i := range exp.Plans {
		p := &exp.Plans[i]
		matches := syscallMatches(p, direction)
		if matches == 0 {
			continue
		}
		if !canDispatch(o.Spec.Programs[p.Prog.Name], p.Prog) {
			return false
		}
		most = max(most, matches)
		plans++
	}
	return most >= dispatchFrom && plans <= dispatchClauses
}

func syscallMatches(p *attach.Plan, direction string) int {
	n := 0
	for i := range p.Matches {
		if m := &p.Matches[i]; p.Prog.Kind == "tracepoint" && m.Group == "syscalls" && strings.HasPrefix(m.Name, direction+"_") {
			n++
		}
	}
	return n
}

// splitPlans puts the matches of one direction, as far as we know their numbers,
// into plans of their own.
func splitPlans(exp *attach.Expansion, direction string, numbers map[string]int) {
	var plans []attach.Plan
	for _, p := range exp.Plans {
		if p.Multi || syscallMatches(&p, direction) == 0 {
			plans = append(plans, p)
			continue
		}
		known, rest := p, p
		known.Matches, rest.Matches = nil, nil
		for _, m := range p.Matches {
			call, ok := strings.CutPrefix(m.Name, direction+"_")
			nr, has := numbers[call]
			if m.Group == "syscalls" && ok && has && nr < syscallSlots {
				known.Matches = append(known.Matches, m)
			} else {
				rest.Matches = append(rest.Matches, m)
			}
		}
		if len(known.Matches) > 0 {
			known.Multi, known.Raw = true, direction
			plans = append(plans, known)
		}
		if len(rest.Matches) > 0 {
			plans = append(plans, rest)
		}
	}
	exp.Plans = plans
}

// canDispatch tells whether a program works with a record in its frame as its
// context: it gives it to no helper, has room for it, and what it keeps outside
// of its frame is not what only the kernel's count of running programs protects,
// which raw tracepoints are not part of.
func canDispatch(spec *ebpf.ProgramSpec, mp *manifest.Program) bool {
	if spec == nil || spec.Type != ebpf.TracePoint {
		return false
	}
	end := mainEnd(spec.Instructions)
	raw := 0
	for i := range spec.Instructions {
		ins := &spec.Instructions[i]
		if ins.IsBuiltinCall() && contextHelpers[asm.BuiltinFunc(ins.Constant)] || ins.Reference() == "scratch_k" {
			return false
		}
		if i == end {
			for _, id := range mp.IDInsns {
				if id >= raw {
					return false // in a subprogram, with a frame of its own
				}
			}
		}
		raw += int(ins.Size()) / asm.InstructionSize
	}
	return true
}

// mainEnd is the index of the first instruction behind the program's main
// function: subprograms follow it.
func mainEnd(insns asm.Instructions) int {
	for i := 1; i < len(insns); i++ {
		if btf.FuncMetadata(&insns[i]) != nil {
			return i
		}
	}
	return len(insns)
}

// newDispatcher looks up what the programs need of this kernel.
func newDispatcher() (*dispatcher, error) {
	machine, err := hostinfo.Machine()
	if err != nil {
		return nil, err
	}
	d := &dispatcher{abi: syscallABIs[machine], numbers: hostinfo.SyscallEvents(machine)}
	blob, _, err := kerneltypes.Subset(kerneltypes.Path, []string{"task_struct"})
	if err != nil {
		return nil, err
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(blob))
	if err != nil {
		return nil, err
	}
	var task *btf.Struct
	if err := spec.TypeByName("task_struct", &task); err != nil {
		return nil, err
	}
	info, at, ok := member(task, "thread_info")
	if !ok {
		return nil, fmt.Errorf("struct task_struct has no thread_info")
	}
	s, isStruct := info.(*btf.Struct)
	if !isStruct {
		return nil, fmt.Errorf("thread_info is no struct")
	}
	_, in, ok := member(s, d.abi.field)
	if !ok {
		return nil, fmt.Errorf("struct thread_info has no %s", d.abi.field)
	}
	d.field = int32(at + in)
	return d, nil
}

func member(s *btf.Struct, name string) (btf.Type, uint32, bool) {
	for _, m := range s.Members {
		if m.Name == name {
			return btf.UnderlyingType(m.Type), m.Offset.Bytes(), true
		}
	}
	return nil, 0, false
}

// table maps the number of a system call to the number of its attach point plus
// one; 0 stands for calls that are not traced.
func (d *dispatcher) table(plan *attach.Plan) (*ebpf.Map, error) {
	content := make([]byte, 4*syscallSlots)
	for i := range plan.Matches {
		m := &plan.Matches[i]
		nr := d.numbers[strings.TrimPrefix(m.Name, plan.Raw+"_")]
		binary.LittleEndian.PutUint32(content[4*nr:], uint32(m.ID)+1)
	}
	return ebpf.NewMap(&ebpf.MapSpec{
		Name: "btc_syscalls", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(len(content)), MaxEntries: 1,
		Contents: []ebpf.MapKV{{Key: uint32(0), Value: content}},
	})
}

// program turns a tracepoint's program into one of the raw tracepoint.
func (d *dispatcher) program(spec *ebpf.ProgramSpec, mp *manifest.Program, raw string, table *ebpf.Map) error {
	body := spec.Instructions
	size := int16(recordExit)
	var args [argWords]bool
	if raw == "sys_enter" {
		args = recordArgsRead(body)
		size = recordArgs
		for i, read := range args {
			if read {
				size = recordArgs + 8*int16(i+1)
			}
		}
	}
	record := -(frameDepth(body[:mainEnd(body)])+7)&^7 - size
	if record < -frameSize {
		return fmt.Errorf("no room in the frame of %s", mp.Name)
	}
	if err := idFromFrame(body, mp, record+recordID); err != nil {
		return err
	}
	head := d.prologue(raw, record, args, table)
	spec.Type, spec.AttachType, spec.AttachTo = ebpf.RawTracepoint, ebpf.AttachNone, raw
	spec.SectionName = "raw_tp/" + raw
	spec.Instructions = putInFront(head, body)
	return nil
}

// prologue leaves with 0 where the program must not run; else it fills the
// record and gives its address in r1, as the program expects its context.
// The word of the record where the number is serves as a buffer before.
func (d *dispatcher) prologue(raw string, record int16, args [argWords]bool, table *ebpf.Map) asm.Instructions {
	const out = 2 // index of the way out
	var p asm.Instructions
	emit := func(ins ...asm.Instruction) { p = append(p, ins...) }
	leave := func(op asm.JumpOp, reg asm.Register, imm int32) {
		at := 0
		for i := range p {
			at += int(p[i].Size()) / asm.InstructionSize
		}
		emit(asm.Instruction{OpCode: op.Op(asm.ImmSource), Dst: reg, Offset: int16(out - at - 1), Constant: int64(imm)})
	}
	// read copies size bytes at r3 to the frame.
	read := func(to int16, size int32) {
		emit(asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(to)), asm.Mov.Imm(asm.R2, size), asm.FnProbeReadKernel.Call())
		leave(asm.JNE, asm.R0, 0)
	}
	emit(asm.Mov.Reg(asm.R6, asm.R1),
		asm.Instruction{OpCode: asm.Ja.Op(asm.ImmSource), Offset: 2},
		asm.Mov.Imm(asm.R0, 0), asm.Return())
	if raw == "sys_enter" {
		emit(asm.LoadMem(asm.R7, asm.R6, 8, asm.DWord))
	} else {
		emit(asm.LoadMem(asm.R3, asm.R6, 0, asm.DWord), asm.Add.Imm(asm.R3, int32(d.abi.nr)))
		read(record+recordNr, int32(d.abi.nrSize.Sizeof()))
		emit(asm.LoadMem(asm.R7, asm.RFP, record+recordNr, d.abi.nrSize))
	}
	// Unsigned: numbers below 0 mean no system call, and are large, too.
	leave(asm.JGE, asm.R7, syscallSlots)
	emit(asm.Mov.Reg(asm.R1, asm.R7), asm.LSh.Imm(asm.R1, 2),
		asm.LoadMapValue(asm.R2, table.FD(), 0), asm.Add.Reg(asm.R2, asm.R1), asm.LoadMem(asm.R8, asm.R2, 0, asm.Word))
	leave(asm.JEq, asm.R8, 0)
	emit(asm.FnGetCurrentTask.Call(), asm.Mov.Reg(asm.R3, asm.R0), asm.Add.Imm(asm.R3, d.field))
	read(record+recordNr, 4)
	emit(asm.LoadMem(asm.R1, asm.RFP, record+recordNr, asm.Word))
	leave(asm.JSet, asm.R1, d.abi.bit)
	emit(asm.Add.Imm(asm.R8, -1),
		asm.StoreMem(asm.RFP, record+recordID, asm.R8, asm.DWord),
		asm.StoreMem(asm.RFP, record+recordNr, asm.R7, asm.DWord))
	if raw == "sys_exit" {
		emit(asm.LoadMem(asm.R1, asm.R6, 8, asm.DWord), asm.StoreMem(asm.RFP, record+recordArgs, asm.R1, asm.DWord))
	}
	for i, at := range d.abi.args {
		if args[i] {
			emit(asm.LoadMem(asm.R3, asm.R6, 0, asm.DWord), asm.Add.Imm(asm.R3, int32(at)))
			read(record+recordArgs+8*int16(i), 8)
		}
	}
	emit(asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(record)))
	return p
}

// frameDepth is how many bytes of its frame a function uses: the lowest place
// that it names, by an access or as an address.
func frameDepth(insns asm.Instructions) int16 {
	depth := int16(0)
	fromFrame := map[asm.Register]bool{}
	for i := range insns {
		ins := &insns[i]
		op := ins.OpCode
		switch {
		case op.Class() == asm.LdXClass && ins.Src == asm.RFP, op.Class().IsStore() && ins.Dst == asm.RFP:
			depth = max(depth, -ins.Offset)
		case op.Class().IsALU() && op.ALUOp() == asm.Mov && op.Source() == asm.RegSource:
			fromFrame[ins.Dst] = ins.Src == asm.RFP
			continue
		case op.Class().IsALU() && op.ALUOp() == asm.Add && op.Source() == asm.ImmSource && fromFrame[ins.Dst]:
			depth = max(depth, int16(-max(ins.Constant, -frameSize-1)))
		}
	}
	return depth
}

// recordArgsRead tells which arguments a program may read in its context: it has
// a load at their offset from something that is not its frame.
func recordArgsRead(insns asm.Instructions) (read [argWords]bool) {
	for i := range insns {
		ins := &insns[i]
		if ins.OpCode.Class() == asm.LdXClass && ins.Src != asm.RFP && ins.Offset >= recordArgs && ins.Offset < recordEnter {
			read[(ins.Offset-recordArgs)/8] = true
		}
	}
	return read
}

// idFromFrame makes the marked instructions load the attach point's number from
// the frame.
func idFromFrame(insns asm.Instructions, mp *manifest.Program, at int16) error {
	return eachID(insns, mp, func(ins *asm.Instruction) {
		load := asm.LoadMem(ins.Dst, asm.RFP, at, asm.DWord)
		ins.OpCode, ins.Src, ins.Offset, ins.Constant = load.OpCode, load.Src, load.Offset, 0
	})
}

// putInFront puts instructions before a function's first. The function's name,
// type and first line move to its new beginning.
func putInFront(head, insns asm.Instructions) asm.Instructions {
	first := insns[0]
	head[0] = btf.WithFuncMetadata(head[0], btf.FuncMetadata(&first)).WithSymbol(first.Symbol())
	if src := first.Source(); src != nil {
		head[0] = head[0].WithSource(src)
	}
	rest := append(asm.Instructions{btf.WithFuncMetadata(first, nil).WithSymbol("")}, insns[1:]...)
	return append(head, rest...)
}
