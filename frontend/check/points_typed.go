// SPDX-License-Identifier: Apache-2.0

package check

import (
	"path"
	"strconv"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/internal/probe"
	"btc/internal/spell"
	"btc/targets/kernel"
)

// typedPoints resolves fentry, fexit and rawtracepoint, whose arguments have types in the target. A pattern is
// expanded if the clause reads them, because each function has its own arguments.
func (c *checker) typedPoints(p *Point, ap *ast.AttachPoint, readsArgs bool) []*Point {
	if p.ofBPF() {
		return []*Point{p}
	}
	last := ap.Parts[len(ap.Parts)-1]
	all := c.typedMembers(p)
	switch {
	case !p.Pattern:
		if len(all) == 0 {
			c.typedMissing(p, last)
		}
		return []*Point{p}
	case len(all) == 0:
		c.absent(p, ap, "nothing in the target's kernel matches %s; resolved on the host at load time", p.Text)
	}
	if !readsArgs {
		return []*Point{p}
	}
	var points []*Point
	for _, name := range all {
		one := *p
		one.Name, one.Pattern = name, false
		one.Missing = "ignore"                                                  // the host may lack a match of the pattern
		if strings.Contains(one.Target, "*") && p.Kind != probe.RawTracepoint { // only the host knows its modules
			one.Target = ""
		}
		one.name()
		points = append(points, &one)
	}
	return points
}

// ofBPF reports whether p is a fentry or fexit of BPF programs.
func (p *Point) ofBPF() bool {
	return (p.Kind == probe.Fentry || p.Kind == probe.Fexit) &&
		(p.Target == "bpf" || strings.HasPrefix(p.Target, "bpf:"))
}

// typedMembers lists the names in the target that match an attach point.
func (c *checker) typedMembers(p *Point) []string {
	if p.Kind == probe.RawTracepoint {
		return c.t.RawTracepoints(p.Name)
	}
	var names []string
	for _, name := range c.t.Funcs(p.Name) {
		f, ok := c.t.Func(name)
		if !ok || f.Proto == nil {
			continue
		}
		if in, err := path.Match(p.Target, moduleName(f)); p.Target == "" || in && err == nil {
			names = append(names, name)
		}
	}
	return names
}

// moduleName returns the module of a function as written in attach points.
func moduleName(f *kernel.Function) string {
	if f.Module == "" {
		return "vmlinux"
	}
	return f.Module
}

// typedMissing warns about a name that the target does not know. Functions of modules that the
// target lacks are resolved on the host.
func (c *checker) typedMissing(p *Point, at ast.Node) {
	what, list := "traceable function", c.t.Funcs
	if p.Kind == probe.RawTracepoint {
		what, list = "raw tracepoint", c.t.RawTracepoints
	} else if p.Target != "" && p.Target != "vmlinux" {
		return
	}
	d := c.absent(p, at, "no %s %s in the target's kernel; resolved on the host at load time", what, p.Name)
	c.similar(d, p.Name, list)
}

// argLimit returns the number of arguments that argN can name: those in registers, or
// as many as a usdt or raw tracepoint may have.
func (b *body) argLimit() int {
	if b.argsInMemory() {
		return 12
	}
	return len(b.t.Arch().Args)
}

// argsInMemory reports whether the arguments are in memory, not in registers.
func (b *body) argsInMemory() bool {
	return b.point.Kind == probe.USDT || b.point.Kind == probe.RawTracepoint
}

func (b *body) argTooFar(at ast.Node, n int64) {
	if b.argsInMemory() {
		b.fail(diag.NotInThisProbe, at, "arg%d: a %s has at most %d arguments", n, b.point.Kind, b.argLimit())
		return
	}
	b.fail(diag.NotInThisProbe, at, "arg%d: arguments from arg%d on are not in registers and cannot be read", n,
		b.argLimit())
}

// rawArg warns about an argument that a raw tracepoint does not have in the target's kernel. Other kernels may have
// it: block_rq_insert lost its first in 5.11.
func (b *body) rawArg(at ast.Node, n int64) {
	if b.point.Kind != probe.RawTracepoint || b.point.Pattern {
		return
	}
	proto, ok := b.t.RawTracepoint(b.point.Name)
	if !ok {
		return
	}
	if have := proto.Slot(len(proto.Params)); n >= int64(have) {
		b.fail(diag.NotInTarget, at, "arg%d: %s has %s in the target's kernel; resolved on the host at load time", n,
			b.point.Text, countOf(have, "argument"))
	}
}

// countOf returns a number with its noun: "1 argument", "2 arguments".
func countOf(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

// iter reads "iter:KIND".
func (c *checker) iter(p *Point, kind ast.AttachPart) bool {
	if what := kernel.IterOverMap(p.Name); what != "" {
		c.fail(diag.NotSupported, kind,
			"iter:%s visits the %s of one map, and a script cannot name another program's map", p.Name, what)
		return false
	}
	if _, ok := c.t.Iter(p.Name); !ok {
		d := c.absent(p, kind, "the target's kernel has no iterator %s; resolved on the host at load time", p.Name)
		if near := spell.Nearest(p.Name, c.t.Iters()); near != "" {
			d.Hint("did you mean %s?", near)
		}
	}
	return true
}

// ctxValue types ctx as the kernel does: the arguments of an iterator, or the registers.
func (b *body) ctxValue(c *callSite) {
	if inPerf(b.point.Type) { // bpf_perf_event_data, which is not in the kernel's BTF
		c.e.Type = types.MakePointer(types.TNone, types.Kernel)
		return
	}
	name := "pt_regs"
	if b.point.Kind == probe.Iter {
		name = "bpf_iter__" + b.point.Name
	}
	t, ok := b.env.Tagged("struct", name)
	if !ok {
		b.fail(diag.UnknownType, c.at, "the target has no struct %s, the type of ctx here", name)
		c.e.Type = types.TInvalid
		return
	}
	c.e.Type = types.MakePointer(t, types.Kernel)
}
