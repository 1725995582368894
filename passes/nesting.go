package passes

import (
	"strings"

	"btc/ir"
)

// adds are the aggregations that a load, an add and a store would carry out, and
// those that begin with their first value.
var adds = map[ir.Op]bool{ir.OpCount: true, ir.OpSum: true, ir.OpAvg: true, ir.OpStats: true, ir.OpHist: true, ir.OpLhist: true,
	ir.OpMin: true, ir.OpMax: true}

// nestingMaps finds the maps whose aggregations can be interrupted on a CPU by
// another aggregation of the same map, which would lose a step if values of one
// CPU changed without atomics.
//
// Programs of kprobes, tracepoints and perf events never meet on a CPU: the
// kernel counts them (bpf_prog_active) and drops the nested ones. The programs
// of fentry, raw tracepoints and iterators interrupt others, and are
// interrupted, but not by themselves (bpf_prog.active; the kprobe class may
// still run inside of them). Those of uprobes can be preempted by themselves, on
// another task. A function of the script may be called by any of them. The loader
// may run the program of a tracepoint that does not look at its record from the
// raw tracepoint; then one of several places can interrupt another. It may run those
// of a pattern of system calls from raw tracepoints, too: they do not meet each other, but
// the kernel does not count them, and what interrupts a system call runs inside of them.
func nestingMaps(m *ir.Module) map[string]bool {
	type users struct {
		funcs        map[*ir.Func]bool
		nest, itself bool
		calls, other bool // patterns of system calls; what is no tracepoint of one
	}
	all := map[string]*users{}
	for _, f := range m.Funcs {
		for _, b := range f.Blocks {
			for _, v := range b.Values {
				if !adds[v.Op] {
					continue
				}
				u := all[v.Args[0].Sym]
				if u == nil {
					u = &users{funcs: map[*ir.Func]bool{}}
					all[v.Args[0].Sym] = u
				}
				u.funcs[f] = true
				u.other = u.other || f.Prog == nil || !isSyscall(f)
				u.calls = u.calls || f.Prog != nil && mayBeCalls(f)
				switch {
				case f.Prog == nil || classOf(f.Prog.Kind).name == "scratch_u":
					u.itself = true
				case classOf(f.Prog.Kind).counted:
					u.nest = true
				case mayRunRaw(f):
					u.nest = true
					p := &f.Prog.Attach
					u.itself = u.itself || hasPattern(p.Target+p.Name)
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

// mayRunRaw tells whether the loader may run a tracepoint's program from the raw
// tracepoint: one that does not use its context, of an event that has a raw one.
func mayRunRaw(f *ir.Func) bool {
	if f.Prog.Kind != ir.ProgTracepoint || isSyscall(f) {
		return false
	}
	used := false
	f.Uses(func(v **ir.Value) { used = used || *v == f.Entry().Params[0] })
	return !used
}

func isSyscall(f *ir.Func) bool {
	return f.Prog.Kind == ir.ProgTracepoint && f.Prog.Attach.Target == "syscalls"
}

// mayBeCalls tells whether a program's attach point may stand for several system calls.
func mayBeCalls(f *ir.Func) bool {
	p := &f.Prog.Attach
	return f.Prog.Kind == ir.ProgTracepoint && (isSyscall(f) && hasPattern(p.Name) || hasPattern(p.Target))
}

func hasPattern(name string) bool { return strings.ContainsAny(name, "*?[{") }
