// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"
	"math"
	"slices"

	"btc/internal/arch"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/ir"
	"btc/targets/kernel"
)

// lower-builtins replaces builtins by helper calls, context loads and globals.
//
// requires:    -
// establishes: no builtin op is left
// invalidates: dominators, liveness (it adds blocks)
//
//	v1:i64 = uid
//	->
//	v2:i64 = call get_current_uid_gid()
//	v1:i64 = zext.u32 v2
func lowerBuiltins(m *ir.Module) []ir.Diag {
	return rules{
		ir.OpPid:       lowerPid,
		ir.OpTid:       lowerPid,
		ir.OpUid:       lowerUid,
		ir.OpGid:       lowerUid,
		ir.OpNsecs:     lowerNsecs,
		ir.OpElapsed:   lowerElapsed,
		ir.OpCPU:       plainCall("get_smp_processor_id"),
		ir.OpCurtask:   plainCall("get_current_task"),
		ir.OpRand:      plainCall("get_prandom_u32"),
		ir.OpCgroup:    plainCall("get_current_cgroup_id"),
		ir.OpNumaID:    plainCall("get_numa_node_id"),
		ir.OpNcpus:     func(l *lowering, _ *ir.Value) *ir.Value { return l.hostConst(manifest.HostNcpus) },
		ir.OpArg:       lowerArg,
		ir.OpRetval:    lowerRetval,
		ir.OpFuncIP:    lowerFuncIP,
		ir.OpProbeIP:   func(l *lowering, v *ir.Value) *ir.Value { return l.saved(v, arch.SavedIP) },
		ir.OpReg:       lowerReg,
		ir.OpUsermode:  lowerUsermode,
		ir.OpComm:      lowerComm,
		ir.OpKstack:    lowerStack,
		ir.OpUstack:    lowerStack,
		ir.OpDwUstack:  lowerStack,
		ir.OpAnyUstack: lowerStack,
		ir.OpStackLen:  lowerStackLen,
		ir.OpSeenProc:  lowerSeenProc,
	}.apply(m)
}

// plainCall returns the rule for a builtin that is the plain result of a helper without arguments.
func plainCall(helper string) rule {
	return func(l *lowering, v *ir.Value) *ir.Value { return l.Call(helper, v.Type) }
}

func lowerPid(l *lowering, v *ir.Value) *ir.Value {
	if v.Imm == 1 {
		return l.initPid(v.Op)
	}
	return l.pid(v.Op)
}

// initPid emits pid or tid in the initial PID namespace.
func (l *lowering) initPid(op ir.Op) *ir.Value {
	both := l.Call("get_current_pid_tgid", ir.TI64)
	if op == ir.OpPid {
		return l.LShr(both, ir.Const(32))
	}
	return l.Extend(ir.U32, both)
}

// pid emits pid or tid in the loader's PID namespace. The kernel verifier knows the constants of
// .rodata and drops the side that is not taken.
func (l *lowering) pid(op ir.Op) *ir.Value {
	global(l.m, "pidns_ino", ir.GlobalConst, 8) // next to pidns_dev, for the loader
	dev := l.hostConst(manifest.HostPIDNSDev)
	return l.IfValue(l.ICmp(ir.EQ, dev, ir.Const(0)), ir.TI64,
		func() *ir.Value { return l.initPid(op) },
		func() *ir.Value {
			l.Block().Cold = true
			info := l.Slot("pidns", 8, 8) // struct bpf_pidns_info {u32 pid, tgid}
			l.Store(ir.U64, info, 0, ir.Const(0))
			l.Call("get_ns_current_pid_tgid", ir.TI64, dev, l.hostConst(manifest.HostPIDNSIno), info, ir.Const(8))
			off := 0
			if op == ir.OpPid {
				off = 4
			}
			return l.Load(ir.U32, info, off)
		})
}

func lowerUid(l *lowering, v *ir.Value) *ir.Value {
	both := l.Call("get_current_uid_gid", ir.TI64)
	if v.Op == ir.OpGid {
		return l.LShr(both, ir.Const(32))
	}
	return l.Extend(ir.U32, both)
}

// The clocks of nsecs, as OpNsecs's Imm.
const (
	clockBoot = iota
	clockMonotonic
	clockTAI
	clockSoftTAI
)

func lowerNsecs(l *lowering, v *ir.Value) *ir.Value {
	boot := func() *ir.Value { return l.Call("ktime_get_boot_ns", ir.TI64) }
	softTAI := func() *ir.Value { return l.Add(boot(), l.hostConst(manifest.HostTAIOff)) }
	switch v.Imm {
	case clockBoot:
		return boot()
	case clockMonotonic:
		return l.Call("ktime_get_ns", ir.TI64)
	case clockTAI: // 6.1
		return l.IfValue(l.HasHelper("ktime_get_tai_ns"), ir.TI64,
			func() *ir.Value { return l.Call("ktime_get_tai_ns", ir.TI64) }, softTAI)
	case clockSoftTAI:
		return softTAI()
	}
	panic("BUG: unknown clock: " + v.Text())
}

func lowerElapsed(l *lowering, _ *ir.Value) *ir.Value {
	return l.Sub(l.Call("ktime_get_boot_ns", ir.TI64), l.hostConst(manifest.HostStart))
}

func (l *lowering) arch() *arch.Arch { return l.m.Target.Arch() }

// hasRegs reports whether the program's context begins with the registers.
func hasRegs(kind string) bool { return probe.Lookup(kind).Program.HasRegs() }

func lowerArg(l *lowering, v *ir.Value) *ir.Value {
	ctx, n, prog := v.Args[0], int(v.Imm), l.prog()
	switch k := prog.Kind; k {
	case probe.Kprobe, probe.Uprobe:
		if n < len(l.arch().Args) {
			return l.saved(v, fmt.Sprintf("arg%d", n))
		}
		return l.refuse(v, "", "arg%d is not in a register: a %s has arg0 to arg%d", n, k, len(l.arch().Args)-1)
	case probe.USDT:
		return lowerUSDTArg(l, v)
	case probe.RawTracepoint:
		return l.Load(ir.U64, ctx, 8*n)
	case probe.Fentry, probe.Fexit:
		if f, ok := l.m.Target.Func(prog.Attach.Name); ok && f.Proto != nil && n < len(f.Proto.Params) {
			slot := f.Proto.Slot(n)
			if unloadable(f.Proto.Params[n].Type()) {
				word := l.Slot("arg", 8, 8)
				l.probeRead(word, ir.Const(8), l.AddImm(l.Cast(ir.TKAddr, ctx), int64(8*slot)))
				return l.Load(ir.U64, word, 0)
			}
			n = slot
		}
		return l.Load(ir.U64, ctx, 8*n)
	default:
		return l.refuse(v, "", "arg%d is not supported in a %s probe", n, k)
	}
}

// unloadable reports whether v is an argument that kernels before 5.17 do not let a program
// load from the context: a pointer to neither a struct nor a string. It is read like other
// kernel memory there.
func unloadable(t *kernel.Type) bool {
	if t = t.Resolve(); t.Kind != kernel.Pointer {
		return false
	}
	switch to := t.Elem().Resolve(); to.Kind {
	case kernel.Int:
		return to.Size != 1
	case kernel.Enum, kernel.Pointer, kernel.Array, kernel.Func:
		return true
	}
	return false
}

func lowerRetval(l *lowering, v *ir.Value) *ir.Value {
	ctx, prog := v.Args[0], l.prog()
	switch prog.Kind {
	case probe.Kretprobe, probe.Uretprobe:
		return l.saved(v, arch.SavedRetval)
	case probe.Fexit: // after the arguments
		f, ok := l.m.Target.Func(prog.Attach.Name)
		if !ok || f.Proto == nil {
			return l.refuse(v, "", "the target does not know the type of %s, so retval cannot be found",
				prog.Attach.Name)
		}
		return l.Load(ir.U64, ctx, 8*f.Proto.Slot(len(f.Proto.Params)))
	}
	return l.refuse(v, "", "retval is not supported in a %s probe", prog.Kind)
}

// lowerFuncIP returns what func is in a key and in an event: an address inside the probed
// function, by which the loader finds its name, or the number of an attach point;
// docs/layouts.md ("func") has the contract. The probes of one function have the same value,
// so that an entry's key is found at the return.
//
// A return probe knows the function by the helper: at a kretprobe, fentry or fexit since 5.15,
// at a uretprobe since 6.6 (the helper returns 0 before). Before that the number of the attach
// point is used. An entry probe has the instruction pointer: that of the probe, or just after
// it (a kprobe on x86), which with indirect branch tracking is not where the function begins.
// It is used unless the script compares: where another program asks at a return, the entry asks
// the helper, too, and falls back to the same number.
func lowerFuncIP(l *lowering, v *ir.Value) *ir.Value {
	ctx, prog := v.Args[0], l.prog()
	numberOr := func(other func() *ir.Value) func() *ir.Value {
		return func() *ir.Value {
			if first, exact := funcNumber(l.m, prog); exact {
				return ir.Const(math.MinInt64 | int64(first))
			}
			return other()
		}
	}
	ip := func(name string) func() *ir.Value {
		return numberOr(func() *ir.Value { return l.saved(v, name) })
	}
	number := numberOr(func() *ir.Value { return l.attachID(prog) })
	switch prog.Kind {
	case probe.Kprobe:
		if prog.Attach.Offset != 0 || !comparesFunc(l.m, probe.Kretprobe, probe.Fentry, probe.Fexit) {
			return l.saved(v, arch.SavedFunc) // the helper knows entries only
		}
		return l.funcIP(ctx, true, ip(arch.SavedFunc))
	case probe.Uprobe:
		if !comparesFunc(l.m, probe.Uretprobe) {
			return l.saved(v, arch.SavedIP)
		}
		return l.funcIP(ctx, true, ip(arch.SavedIP))
	case probe.Uretprobe:
		if !comparesFunc(l.m, probe.Uprobe) && !mixesFunc(l.m) {
			return number() // shorter
		}
		return l.funcIP(ctx, true, number)
	case probe.Kretprobe, probe.Fentry, probe.Fexit:
		return l.funcIP(ctx, false, number)
	}
	return l.refuse(v, "", "func is not supported in a %s probe", prog.Kind)
}

// funcIP calls the helper where the kernel has it; fallback is the value elsewhere and, if
// mayFail, where the helper returns 0.
func (l *lowering) funcIP(ctx *ir.Value, mayFail bool, fallback func() *ir.Value) *ir.Value {
	helper := func() *ir.Value { return l.Call("get_func_ip", ir.TI64, ctx) }
	if !mayFail {
		return l.IfValue(l.HasHelper("get_func_ip"), ir.TI64, helper, fallback)
	}
	known := l.IfValue(l.HasHelper("get_func_ip"), ir.TI64, helper, func() *ir.Value { return ir.Const(0) })
	return l.IfValue(l.ICmp(ir.NE, known, ir.Const(0)), ir.TI64, func() *ir.Value { return known }, fallback)
}

// comparesFunc reports whether a program of one of the kinds reads func.
func comparesFunc(m *ir.Module, kinds ...string) bool {
	return slices.ContainsFunc(m.Funcs, func(f *ir.Func) bool {
		return f.Prog != nil && f.Prog.UsesFunc && slices.Contains(kinds, f.Prog.Kind)
	})
}

// mixesFunc reports whether uretprobes of patterns and of functions read func: they have different
// numbers for one function.
func mixesFunc(m *ir.Module) bool {
	forms := map[bool]bool{}
	for _, f := range m.Funcs {
		if p := f.Prog; p != nil && p.UsesFunc && p.Kind == probe.Uretprobe {
			_, exact := funcNumber(m, p)
			forms[exact] = true
		}
	}
	return len(forms) > 1
}

// funcNumber returns the number that stands for the function of prog: the first attach point of the
// first program on it that reads func. exact is false for a pattern, whose function is known at
// load time, for a name of C++, which may be several functions, and for an entry probe whose
// function no other program asks for.
func funcNumber(m *ir.Module, prog *ir.Prog) (first int, exact bool) {
	if probe.IsPattern(prog.Attach.Name) || probe.IsPattern(prog.Attach.Target) || prog.Attach.Lang != "" {
		return 0, false
	}
	atReturn, found := prog.Kind != probe.Kprobe && prog.Kind != probe.Uprobe, false
	first = prog.FirstID
	for _, f := range m.Funcs {
		p := f.Prog
		if p == nil || p == prog || !p.UsesFunc || funcOf(p) != funcOf(prog) {
			continue
		}
		first, found = min(first, p.FirstID), true
	}
	return first, atReturn || found
}

// probedFunc identifies the function of an attach point.
type probedFunc struct {
	space        probe.Space
	target, name string
	offset, addr uint64
}

func funcOf(p *ir.Prog) probedFunc {
	a := &p.Attach
	f := probedFunc{probe.Lookup(p.Kind).Space, a.Target, a.Name, a.Offset, a.Addr}
	if f.space != probe.UserSpace && f.target == "vmlinux" {
		f.target = ""
	}
	return f
}

// attachID returns the number of the attach point, used instead of an address: its two top bits
// are 10, which no address has.
func (l *lowering) attachID(prog *ir.Prog) *ir.Value {
	prog.UsesID = true
	id := l.Emit(ir.OpAttachID, ir.TI64)
	id.Imm = int64(prog.FirstID)
	return l.Or(id, ir.Const(math.MinInt64))
}

func lowerReg(l *lowering, v *ir.Value) *ir.Value {
	prog := l.prog()
	_, ok := l.arch().Reg(v.Sym)
	switch {
	case !hasRegs(prog.Kind):
		return l.refuse(v, "", "reg() is not supported in a %s probe", prog.Kind)
	case !ok:
		return l.refuse(v, "", "%s has no register %q", l.arch().Label, v.Sym)
	}
	return l.saved(v, "reg "+v.Sym)
}

// lowerUsermode looks at the saved privilege level.
func lowerUsermode(l *lowering, v *ir.Value) *ir.Value {
	if !hasRegs(l.prog().Kind) {
		return l.refuse(v, "", "usermode is not supported in a %s probe", l.prog().Kind)
	}
	return l.saved(v, arch.SavedUsermode)
}

// commSize is TASK_COMM_LEN.
const commSize = 16

// lowerComm: the helper pads with NULs to the end.
func lowerComm(l *lowering, v *ir.Value) *ir.Value {
	l.Call("get_current_comm", ir.TI64, v.Args[0], ir.Const(commSize))
	return nil
}
