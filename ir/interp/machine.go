// SPDX-License-Identifier: Apache-2.0

// Package interp runs IR modules of both stages: the oracle of pass tests.
//
// It takes a module and inputs (what a probe finds when it fires: context, memory, clocks,
// identities) and returns what can be observed: the return value, the maps decoded by their
// meaning, the events. High ops follow docs/layouts.md and the language, and are written
// independently of the lowerings; core ops and helpers do what the kernel does. Equivalent
// compares a module before and after a pass.
//
// All memory is in one flat address space, so a pointer is a plain number here as it is in
// BPF. What the kernel verifier would refuse (access outside of an object or to a released
// record) is a Trap.
package interp

import (
	"bytes"
	"fmt"

	"btc/internal/arch"
	"btc/internal/manifest"
	"btc/ir"
)

// Input is what one firing of a probe sees.
type Input struct {
	Prog string // name of the Func to run
	Ctx  []byte // the context; zeros follow

	Kernel, User map[uint64][]byte // readable memory by start address

	PID, TID, UID, GID  uint32 // in the initial namespaces
	NSPID, NSTID        uint32 // in the loader's PID namespace; used when NSDev is not 0
	NSDev, NSIno        uint64
	Comm                string
	CPU                 int // 0 to CPUs-1
	Boot, Mono, TAI     uint64
	Start               uint64 // boot clock when the loader started
	Cgroup, NUMA, Jiffy uint64
	Task                uint64 // address of the current task_struct
	TaskRegs            uint64 // address of the registers with which it has entered the kernel
	FuncIP              uint64
	AttachID            int64 // added to the program's first
	Kstack, Ustack      []uint64
	Args                []uint64 // arguments of a USDT probe
	Globals             map[string][]byte
	Lacks               []string // helpers that this kernel does not have
}

// CPUs is the number of CPUs of the simulated machine.
const CPUs = 4

// Trap is an error of the program that the kernel verifier would have rejected.
type Trap struct {
	Func string
	Pos  ir.Pos
	At   string // text of the value
	Text string
}

func (t *Trap) Error() string {
	return fmt.Sprintf("%d:%d: @%s: %s: %s", t.Pos.Line, t.Pos.Col, t.Func, t.Text, t.At)
}

// maxSteps bounds one run; the kernel's verifier walks at most a million instructions.
const maxSteps = 1 << 20

// Machine holds the state that outlives one firing: maps, globals, events.
type Machine struct {
	Module  *ir.Module
	Events  []string // events in order, as text: name(field, field)
	Records [][]byte // records of other ring buffers
	Actions []string // external effects of helpers: signals, overrides, writes to user memory

	mem     memory
	maps    map[string]*bpfMap
	inner   map[uint64]*bpfMap // by address of the element of an array_of_maps
	globals map[string]uint64  // address
	seen    map[uint32]bool
	stacks  map[string]map[string]uint64 // stack map, frames, id
	walks   []*walk                      // by number: mapiter's results
	rand    uint64
	arch    *arch.Arch
	ops     map[ir.Op]opFunc
	helpers map[string]helperFunc
	depth   int
	steps   int
	in      *Input
	ctx     uint64
}

// New prepares a machine with empty maps. Globals have their initial values.
// Maps that have no BPF form yet get that of docs/layouts.md.
func New(m *ir.Module) *Machine {
	k := &Machine{Module: m, maps: map[string]*bpfMap{}, inner: map[uint64]*bpfMap{}, globals: map[string]uint64{}, seen: map[uint32]bool{},
		stacks: map[string]map[string]uint64{}, rand: 0x9e3779b97f4a7c15, arch: arch.All()[0], ops: opTable(),
		helpers: helperTable()}
	if m.Target != nil {
		k.arch = m.Target.Arch()
	}
	for _, x := range m.Maps {
		if !x.BPF.Template {
			k.maps[x.Name] = newMap(k, x)
		}
	}
	for _, g := range m.Globals {
		data := make([]byte, g.Size)
		copy(data, g.Init)
		k.globals[g.Name] = k.mem.alloc("global "+g.Name, data)
	}
	return k
}

// Run fires the program once. The error is a *Trap.
func (k *Machine) Run(in Input) (ret int64, err error) {
	f := k.Module.Func(in.Prog)
	if f == nil || f.Prog == nil {
		return 0, fmt.Errorf("no program %q", in.Prog)
	}
	k.in, k.steps, k.depth = &in, 0, 0
	k.mem.kernel, k.mem.user = in.Kernel, in.User
	k.hostGlobals()
	data := make([]byte, max(len(in.Ctx), 512))
	copy(data, in.Ctx)
	mark := k.mem.mark()
	k.ctx = k.mem.alloc("context", data)
	k.mem.object(k.ctx).readOnly = true
	defer k.mem.release(mark)
	defer func() {
		if r := recover(); r != nil {
			t, ok := r.(*Trap)
			if !ok {
				panic(r)
			}
			err = t
		}
	}()
	ret = k.call(f, []int64{int64(k.ctx)})
	k.checkRecords(f)
	return ret, nil
}

// hostGlobals sets what the loader sets (docs/layouts.md), where the module has it.
func (k *Machine) hostGlobals() {
	set := map[string]uint64{}
	for what, n := range map[manifest.HostValue]uint64{
		manifest.HostStart: k.in.Start, manifest.HostPIDNSDev: k.in.NSDev, manifest.HostPIDNSIno: k.in.NSIno, manifest.HostNcpus: CPUs,
	} {
		set[string(what)] = n
	}
	for _, x := range k.Module.Maps {
		if on := x.BPF.Cache.Enable; on != "" {
			set[on] = 1
		}
	}
	for name, addr := range k.globals {
		data := k.mem.object(addr).data
		if n, ok := set[name]; ok {
			putUint(data, n)
		}
		if b, ok := k.in.Globals[name]; ok {
			copy(data, b)
		}
	}
}

// frame is a function being run.
type frame struct {
	*Machine
	f     *ir.Func
	vals  []int64
	slots []uint64 // address by Slot.ID
	at    *ir.Value
}

// trap stops the run.
func (fr *frame) trap(format string, args ...any) {
	t := &Trap{Func: fr.f.Name, Text: fmt.Sprintf(format, args...), Pos: ir.NoPos}
	if fr.at != nil {
		t.Pos, t.At = fr.at.Pos, fr.at.Text()
	}
	panic(t)
}

// val returns the value of an operand; addresses are numbers.
func (fr *frame) val(v *ir.Value) int64 {
	switch v.Op {
	case ir.OpConst:
		return v.Imm
	case ir.OpSlotAddr:
		return int64(fr.slots[v.Slot.ID]) + v.Imm
	case ir.OpMapRef, ir.OpFuncRef:
		return 0 // read by name
	}
	return fr.vals[v.ID]
}

// arg returns operand i of v.
func (fr *frame) arg(v *ir.Value, i int) int64 { return fr.val(v.Args[i]) }

// poison fills new slots, to expose reads of uninitialized memory.
const poison = 0xa5

// call runs a function with its entry parameters.
func (k *Machine) call(f *ir.Func, args []int64) int64 {
	fr := &frame{Machine: k, f: f, vals: make([]int64, f.NumValues()), slots: make([]uint64, f.NumSlots())}
	if k.depth++; k.depth > 8 {
		fr.trap("calls nest deeper than 8")
	}
	mark := k.mem.mark()
	fr.makeSlots()
	b := f.Entry()
	for i, p := range b.Params {
		fr.vals[p.ID] = args[i]
	}
	for {
		fr.block(b)
		t := &b.Term
		fr.at = nil
		var e ir.Edge
		switch t.Kind {
		case ir.Ret:
			ret := fr.val(t.Arg)
			k.mem.release(mark)
			k.depth--
			return ret
		case ir.Jump:
			e = t.Succs[0]
		case ir.Br:
			e = t.Succs[1-fr.val(t.Arg)&1]
		default:
			fr.trap("b%d has no terminator", b.ID)
		}
		passed := make([]int64, len(e.Args))
		for i, a := range e.Args {
			passed[i] = fr.val(a)
		}
		b = e.To
		for i, p := range b.Params {
			fr.vals[p.ID] = passed[i]
		}
	}
}

// makeSlots allocates the slots. Those in the BPF frame are in one object of 512 bytes as
// in the kernel, so that slots that share bytes share them here, and a callback reaches its
// caller's slots from one address.
func (fr *frame) makeSlots() {
	poisoned := func(name string, n int) uint64 {
		return fr.mem.alloc(name, bytes.Repeat([]byte{poison}, n))
	}
	stack := uint64(0)
	for _, s := range fr.f.Slots {
		if s.Class != ir.Frame || s.Off < -stackSize || s.Off+s.Size > 0 {
			fr.slots[s.ID] = poisoned(fmt.Sprintf("slot s%d of @%s", s.ID, fr.f.Name), s.Size)
			continue
		}
		if stack == 0 {
			stack = poisoned("frame of @"+fr.f.Name, stackSize)
		}
		fr.slots[s.ID] = stack + uint64(stackSize+s.Off)
	}
}

// stackSize is MAX_BPF_STACK.
const stackSize = 512

func (fr *frame) block(b *ir.Block) {
	if fr.steps++; fr.steps > maxSteps {
		fr.trap("more than %d steps", maxSteps)
	}
	for _, v := range b.Values {
		fr.steps++
		fr.at = v
		run := fr.ops[v.Op]
		if run == nil {
			fr.trap("op %s is not implemented", v.Op)
		}
		if r := run(fr, v); v.Type.Kind != ir.Void {
			fr.vals[v.ID] = r
		}
	}
}

// Ops lists the ops that the interpreter implements, for the test that the op table is
// covered.
func Ops() []ir.Op {
	var list []ir.Op
	for op := range opTable() {
		list = append(list, op)
	}
	return list
}
