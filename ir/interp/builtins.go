// SPDX-License-Identifier: Apache-2.0

package interp

import (
	"encoding/binary"
	"slices"

	"btc/internal/probe"
	"btc/ir"
)

// input makes an op from a value of the input.
func input(get func(in *Input) uint64) opFunc {
	return func(fr *frame, _ *ir.Value) int64 { return int64(get(fr.in)) }
}

func builtinOps() map[ir.Op]opFunc {
	return map[ir.Op]opFunc{
		ir.OpPid: pid,
		ir.OpTid: pid,
		ir.OpUid: input(func(in *Input) uint64 { return uint64(in.UID) }),
		ir.OpGid: input(func(in *Input) uint64 { return uint64(in.GID) }),
		ir.OpNsecs: func(fr *frame, v *ir.Value) int64 {
			return int64([]uint64{fr.in.Boot, fr.in.Mono, fr.in.TAI, fr.in.TAI}[v.Imm])
		},
		ir.OpElapsed:   input(func(in *Input) uint64 { return in.Boot - in.Start }),
		ir.OpCPU:       input(func(in *Input) uint64 { return uint64(in.CPU) }),
		ir.OpCurtask:   input(func(in *Input) uint64 { return in.Task }),
		ir.OpRand:      func(fr *frame, _ *ir.Value) int64 { return fr.random() },
		ir.OpCgroup:    input(func(in *Input) uint64 { return in.Cgroup }),
		ir.OpNumaID:    input(func(in *Input) uint64 { return in.NUMA }),
		ir.OpJiffies:   input(func(in *Input) uint64 { return in.Jiffy }),
		ir.OpNcpus:     input(func(*Input) uint64 { return CPUs }),
		ir.OpArg:       argument,
		ir.OpRetval:    retval,
		ir.OpFuncIP:    funcIP,
		ir.OpProbeIP:   func(fr *frame, v *ir.Value) int64 { return fr.ctxWord(v, fr.arch.IP.Offset) },
		ir.OpReg:       register,
		ir.OpUsermode:  usermode,
		ir.OpComm:      comm,
		ir.OpKstack:    stackID,
		ir.OpUstack:    stackID,
		ir.OpDwUstack:  stackID,
		ir.OpAnyUstack: stackID,
		ir.OpStackLen:  func(fr *frame, v *ir.Value) int64 { return fr.arg(v, 0) & (1<<stackLenBits - 1) },
		ir.OpSeenProc:  seenProc,
	}
}

// random returns the next 32 bits of a fixed pseudo-random sequence (xorshift).
func (k *Machine) random() int64 {
	k.rand ^= k.rand << 13
	k.rand ^= k.rand >> 7
	k.rand ^= k.rand << 17
	return int64(k.rand & 0xffffffff)
}

// loaderPID returns tgid and tid in the loader's namespace.
func (in *Input) loaderPID() (pid, tid uint32) {
	if in.NSDev != 0 {
		return in.NSPID, in.NSTID
	}
	return in.PID, in.TID
}

func pid(fr *frame, v *ir.Value) int64 {
	pid, tid := fr.in.PID, fr.in.TID
	if v.Imm == 0 {
		pid, tid = fr.in.loaderPID()
	}
	if v.Op == ir.OpPid {
		return int64(pid)
	}
	return int64(tid)
}

func (fr *frame) kind() string {
	if fr.f.Prog == nil {
		fr.trap("reads the context in a subprogram")
	}
	return fr.f.Prog.Kind
}

// ctxWord returns the 8 bytes of the context at off.
func (fr *frame) ctxWord(v *ir.Value, off int) int64 {
	return int64(getUint(fr.bytes(fr.arg(v, 0)+int64(off), 8, false)))
}

func argument(fr *frame, v *ir.Value) int64 {
	n := int(v.Imm)
	switch fr.kind() {
	case probe.USDT:
		if n < len(fr.in.Args) {
			return int64(fr.in.Args[n])
		}
		return 0
	case probe.Kprobe, probe.Uprobe:
		if n >= len(fr.arch.Args) {
			fr.trap("argument %d is on the stack", n)
		}
		return fr.ctxWord(v, fr.arch.Args[n].Offset)
	}
	return fr.ctxWord(v, 8*n)
}

func retval(fr *frame, v *ir.Value) int64 {
	if fr.kind() == probe.Fexit { // after the arguments
		if fr.Module.Target == nil {
			fr.trap("the result of a function needs a target")
		}
		f, ok := fr.Module.Target.Func(fr.f.Prog.Attach.Name)
		if !ok || f.Proto == nil {
			fr.trap("function %s is not in the target", fr.f.Prog.Attach.Name)
		}
		return fr.ctxWord(v, 8*len(f.Proto.Params))
	}
	return fr.ctxWord(v, fr.arch.Result.Offset)
}

// funcIP returns an address in the function.
func funcIP(fr *frame, v *ir.Value) int64 {
	switch fr.kind() {
	case probe.Kprobe:
		return fr.ctxWord(v, fr.arch.IP.Offset) - fr.arch.PastProbe
	case probe.Uprobe:
		return fr.ctxWord(v, fr.arch.IP.Offset)
	}
	return int64(fr.in.FuncIP)
}

func register(fr *frame, v *ir.Value) int64 {
	r, ok := fr.arch.Reg(v.Sym)
	if !ok {
		fr.trap("no register %s", v.Sym)
	}
	return fr.ctxWord(v, r.Offset)
}

func usermode(fr *frame, v *ir.Value) int64 {
	return truth(fr.ctxWord(v, fr.arch.Mode.Offset)&fr.arch.UserMask == fr.arch.UserMode)
}

func (in *Input) comm16() []byte {
	b := make([]byte, 16)
	copy(b[:15], in.Comm)
	return b
}

func comm(fr *frame, v *ir.Value) int64 {
	copy(fr.bytes(fr.arg(v, 0), 16, true), fr.in.comm16())
	return 0
}

// stackID stores the frames in the stack map and returns their id, 0 for an empty stack.
func stackID(fr *frame, v *ir.Value) int64 {
	frames := fr.in.Kstack
	if v.Op != ir.OpKstack {
		frames = fr.in.Ustack
	}
	if v.Op != ir.OpKstack && v.Imm > 1 && fr.f.Prog.AtFunctionEntry() {
		frames = withCaller(frames, fr.returnAddress(v))
	}
	frames = frames[:min(len(frames), int(v.Imm))]
	b := fr.maps[v.Sym]
	if b == nil {
		fr.trap("no stack map %s", v.Sym)
	}
	if len(frames) == 0 {
		return 0
	}
	value := make([]byte, b.spec.ValueSize)
	for i, ip := range frames {
		binary.LittleEndian.PutUint64(value[8*i:], ip)
	}
	ids := fr.stacks[v.Sym]
	if ids == nil {
		ids = map[string]uint64{}
		fr.stacks[v.Sym] = ids
	}
	id, ok := ids[string(value)]
	if !ok {
		id = uint64(len(ids)+1)<<stackLenBits | uint64(len(frames))
		ids[string(value)] = id
		key := make([]byte, 8)
		putUint(key, id)
		b.update(key, value, 0, 0)
	}
	return int64(id)
}

// withCaller returns frames with the caller as the second one, unless it already is or is not the
// address of code.
func withCaller(frames []uint64, caller uint64) []uint64 {
	if len(frames) == 0 || caller < 4096 || len(frames) > 1 && frames[1] == caller {
		return frames
	}
	return slices.Insert(slices.Clone(frames), 1, caller)
}

// returnAddress returns the return address at a function's entry, 0 if it cannot be read.
func (fr *frame) returnAddress(v *ir.Value) uint64 {
	if r, ok := fr.arch.Reg(fr.arch.Link); ok {
		return uint64(fr.ctxWord(v, r.Offset))
	}
	b := fr.mem.userBytes(uint64(fr.ctxWord(v, fr.arch.SP.Offset)), 8)
	if b == nil {
		return 0
	}
	return getUint(b)
}

// stackLenBits is the number of low bits of a stack's id that hold its length.
const stackLenBits = 11

// seenProc sends a process's number once.
func seenProc(fr *frame, _ *ir.Value) int64 {
	pid, _ := fr.in.loaderPID()
	if !fr.seen[pid] {
		fr.seen[pid] = true
		fr.event(ir.EvProc, "", []string{itoa(int64(pid))})
	}
	return 0
}
