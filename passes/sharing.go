// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"btc/internal/probe"
	"btc/ir"
)

// sharing decides which programs a loader may run from an attach point that they share, or from a
// raw tracepoint instead of their own. The decision is recorded in the manifest, and the
// aggregations are lowered accordingly: among such programs the kernel does not keep one from
// interrupting another.
//
// requires:    high ops
// establishes: Prog.MayShare, Prog.MayRunRaw
// invalidates: nothing
//
//	func @p prog (kind tracepoint, attach (target "sched", name "sched_switch")) {
//	->
//	func @p prog (kind tracepoint, attach (target "sched", name "sched_switch"), may_run_raw) {
func sharing(m *ir.Module) []ir.Diag {
	calls := false // an attach point may be several system calls
	for _, f := range m.Funcs {
		calls = calls || f.Prog != nil && mayBeCalls(f)
	}
	for _, f := range m.Funcs {
		// Attach points with parameters ($1) are known only to the loader.
		if p := f.Prog; p != nil && p.Kind == probe.Tracepoint && len(p.Attach.Substitute) == 0 {
			p.MayShare = calls && (isSyscall(f) || probe.IsPattern(p.Attach.Target))
			// A program that does not read its record is the same at the raw tracepoint that the
			// record is made from. System calls have no raw tracepoints of their own.
			p.MayRunRaw = !isSyscall(f) && !ir.UsesOfContext(f).Any()
		}
	}
	return nil
}

// nestingMaps finds the maps whose aggregations can be interrupted on a CPU by
// another aggregation of the same map, which would lose a step if values of one
// CPU changed without atomics.
//
// Programs of kprobes, tracepoints and perf events never meet on a CPU: the kernel counts them
// (bpf_prog_active) and drops the nested ones. The programs of fentry, raw tracepoints and
// iterators interrupt others, and are interrupted, but not by themselves (bpf_prog.active; the
// kprobe class may still run inside of them). Those of uprobes can be preempted by themselves, on
// another task. A function of the script may be called by any of them. Of a program that may run
// from the raw tracepoint (sharing), one of several instances can interrupt another. Those of
// system calls that may share one do not meet each other, but the kernel does not count them, and
// what interrupts a system call runs inside of them.
func nestingMaps(m *ir.Module) map[string]bool {
	type users struct {
		funcs        map[*ir.Func]bool
		nest, itself bool
		calls, other bool // programs that may share the raw tracepoint of system calls; other programs
	}
	all := map[string]*users{}
	for _, f := range m.Funcs {
		for _, b := range f.Blocks {
			for _, v := range b.Values {
				if !v.Op.Is(ir.Updates) {
					continue
				}
				u := all[v.Args[0].Sym]
				if u == nil {
					u = &users{funcs: map[*ir.Func]bool{}}
					all[v.Args[0].Sym] = u
				}
				u.funcs[f] = true
				u.other = u.other || f.Prog == nil || !isSyscall(f)
				u.calls = u.calls || f.Prog != nil && f.Prog.MayShare
				switch {
				case f.Prog == nil || classOf(f.Prog.Kind).name == "scratch_u":
					u.itself = true
				case classOf(f.Prog.Kind).counted:
					u.nest = true
				case f.Prog.MayRunRaw:
					u.nest = true
					p := &f.Prog.Attach
					u.itself = u.itself || probe.IsPattern(p.Target+p.Name)
				}
			}
		}
	}
	nests := map[string]bool{}
	for name, u := range all {
		nests[name] = u.itself || u.nest && len(u.funcs) > 1 || u.calls && u.other
	}
	return nests
}

func isSyscall(f *ir.Func) bool {
	return f.Prog.Kind == probe.Tracepoint && f.Prog.Attach.Target == "syscalls"
}

// mayBeCalls reports whether a program's attach point may match several system calls.
func mayBeCalls(f *ir.Func) bool {
	p := &f.Prog.Attach
	return f.Prog.Kind == probe.Tracepoint && (isSyscall(f) && probe.IsPattern(p.Name) || probe.IsPattern(p.Target))
}
