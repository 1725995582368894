// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"slices"

	"btc/backend/emit"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/ir"
	"btc/targets/kernel"
)

// contexts are the manifest's names for what programs read through their context.
var contexts = map[probe.Context]string{
	probe.CtxRecord: "record", probe.CtxRegs: "regs", probe.CtxPerf: "regs", probe.CtxArgs: "args", probe.CtxIter: "args", probe.CtxNone: "args",
}

// code returns the manifest's description of a program's instructions.
func code(m *ir.Module, f *emit.Func, byName map[string]*emit.Func) *manifest.Code {
	c := &manifest.Code{Context: "none", Frame: f.StackSize, Forms: forms(m, f, byName), Result: f.Result}
	if f.Context.Any() {
		c.Context = contexts[f.Prog.Type().Program.Context()]
	}
	c.Raw = f.Prog.MayRunRaw && !f.Prog.SharesScratch && !f.Context.Any()
	c.RecordNr = f.Prog.Kind == probe.Tracepoint &&
		(f.Prog.Attach.Target == "syscalls" || probe.IsPattern(f.Prog.Attach.Target)) &&
		slices.Contains(f.Context.Loads, kernel.RecordNr)
	c.Share = f.Prog.MayShare && !f.Prog.SharesScratch && !f.Context.Other
	if c.Share {
		for _, at := range f.Context.Loads {
			if n := (at - kernel.RecordArgs) / 8; at >= kernel.RecordArgs && n < manifest.MaxCallArgs &&
				!slices.Contains(c.RecordArgs, n) {
				c.RecordArgs = append(c.RecordArgs, n)
			}
		}
		slices.Sort(c.RecordArgs)
	}
	return c
}

// forms lists the tests of a program and of the subprograms that it calls.
func forms(m *ir.Module, f *emit.Func, byName map[string]*emit.Func) []manifest.Form {
	var all []manifest.Form
	seen := map[string]bool{f.Name: true}
	for work := []*emit.Func{f}; len(work) > 0; work = work[1:] {
		for _, t := range work[0].Forms {
			form := manifest.Form{Insn: t.Insn, Arch: t.Arch, Helper: t.Helper}
			if work[0] != f {
				form.Function = work[0].Name
				if work[0].Global {
					form.Function = m.Symbol(form.Function)
				}
			}
			all = append(all, form)
		}
		for _, name := range work[0].Calls {
			if callee := byName[name]; callee != nil && !seen[name] {
				seen[name] = true
				work = append(work, callee)
			}
		}
	}
	return all
}
