// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"slices"
	"sync"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/diag"
	"btc/frontend/irgen"
	"btc/internal/arch"
	"btc/internal/probe"
	"btc/ir"
	"btc/targets/kernel"
)

// supportAll builds the module of a checked script and makes it support the other targets: the script is checked for
// each of them as for the first, and for another architecture the module must be the same except for constants. It
// returns nil if a required target cannot be supported.
func (in Input) supportAll(later *laterTargets, info *check.Info, src *diag.Source, diags *diag.List) *ir.Module {
	m := in.build(info, later.arches)
	later.begin()
	one, failed := ir.NewUnifier(m), false
	for _, t := range in.Others {
		reason := later.next().mismatch(one, src).missingEvent(info, t)
		switch {
		case reason == nil:
		case in.Optional && len(later.arches) > 1:
			left := diags.Add(diag.LeftOut, reason.at, "the object supports %s only: on %s %s",
				in.Target.Arch().Label, t.Arch().Label, reason.text)
			left.Hint("--arch %s confirms that this is intended", in.Target.Arch().Label)
			later.end()
			return in.build(info, later.arches[:1])
		default:
			diags.Add(diag.TargetUnsupported, reason.at, "one object cannot support Linux %s on %s: %s", t.Release(),
				t.Arch().Label, reason.text)
			failed = true
		}
	}
	if failed {
		return nil
	}
	one.Apply()
	return m
}

// laterTargets checks and builds a script for the targets after the first, in order, while the caller does so for the
// first. Checking is most of the work with types of the kernel: of a script with two probes and a struct, compiled for two
// architectures, 3.4 ms instead of 7.6 on one processor, 1.8 for one architecture. A script without such types gains
// nothing (0.7 ms).
type laterTargets struct {
	arches []*arch.Arch  // architectures of all targets, without duplicates
	free   chan struct{} // closed when the first target's module is built
	begin  func()        // closes it
	out    chan targetResult
	done   chan struct{}
}

// targetResult is the result of checking the script for one of the further targets.
type targetResult struct {
	module *ir.Module // nil unless the target is the first of its architecture
	diags  *diag.List
	bug    any // panic
}

// startOthers starts the work. It waits for the check of the first target if there are parameters, because that check
// decides which of them are compiled into the code, or if debug information is needed, which is read only once.
func (in Input) startOthers(script *ast.Script) *laterTargets {
	o := &laterTargets{
		arches: []*arch.Arch{in.Target.Arch()},
		free:   make(chan struct{}),
		out:    make(chan targetResult, len(in.Others)),
		done:   make(chan struct{}),
	}
	o.begin = sync.OnceFunc(func() { close(o.free) })
	unify := make([]bool, len(in.Others))
	for i, t := range in.Others {
		if unify[i] = !slices.Contains(o.arches, t.Arch()); unify[i] {
			o.arches = append(o.arches, t.Arch())
		}
	}
	wait := func() { <-o.free }
	in.Files = in.Files.After(wait)
	go func() {
		defer close(o.done)
		if len(in.Params)+len(in.Options) > 0 {
			wait()
		}
		for i, t := range in.Others {
			o.out <- in.checkTarget(script, t, o.arches, unify[i])
		}
	}()
	return o
}

func (in Input) checkTarget(script *ast.Script, t *kernel.Target, arches []*arch.Arch, unify bool) (v targetResult) {
	defer func() { v.bug = recover() }()
	t.ProbesOf(in.Target)
	v.diags = &diag.List{}
	info := in.check(script, t, v.diags)
	if unify && !v.diags.HasErrors() {
		v.module = in.build(info, arches)
	}
	return v
}

// next returns the result of the next target.
func (o *laterTargets) next() targetResult {
	v := <-o.out
	if v.bug != nil {
		panic(v.bug)
	}
	return v
}

// end waits until no work is left.
func (o *laterTargets) end() {
	o.begin()
	<-o.done
}

// build builds the module that supports the architectures.
func (in Input) build(info *check.Info, arches []*arch.Arch) *ir.Module {
	info.Arches = nil
	if len(arches) > 1 {
		info.Arches = arches
	}
	return irgen.Module(info, objectName(in.Name))
}

// mismatch is the reason why a target cannot be supported.
type mismatch struct {
	at   diag.Span
	text string
}

// missingEvent returns the cause if it is an event that the target does not have: such an event
// has the fields of the first target, whose types the target may lack.
func (r *mismatch) missingEvent(info *check.Info, t *kernel.Target) *mismatch {
	if r == nil {
		return nil
	}
	for _, p := range info.Programs {
		clause, point := p.Probe.Span(), p.Point
		if point.Kind != probe.Tracepoint || point.Pattern || r.at.Start < clause.Start || r.at.Start >= clause.End ||
			t.HasEvent(point.Target, point.Name) {
			continue
		}
		return &mismatch{point.At, "the kernel has no tracepoint " + point.Target + ":" + point.Name}
	}
	return r
}

// mismatch adds the target to those that the module supports, or returns the reason why that is not possible.
func (v targetResult) mismatch(one *ir.Unifier, src *diag.Source) *mismatch {
	for _, d := range v.diags.Sorted() {
		if d.Severity() == diag.Error {
			return &mismatch{d.Span, d.Message}
		}
	}
	if v.module == nil {
		return nil
	}
	if d := one.Add(v.module); d != nil {
		return &mismatch{spanOf(src, d.Pos), d.Text}
	}
	return nil
}
