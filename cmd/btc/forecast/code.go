// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/adapt"
	"btc/loader/object"
	"btc/loader/rewrite"
	"btc/targets/kernel"
)

// code relocates one program for the target, and checks its reachable instructions: an access to a
// field that the kernel lacks is valid after a test for the field. It returns the length of the
// reachable code.
func (c *checker) code(p *manifest.Program) (Verdict, int, error) {
	spec := c.o.Spec.Programs[p.Name]
	if spec == nil {
		return Fails, 0, fmt.Errorf("the object has no program %s", p.Name)
	}
	insns, at := spec.Copy().Instructions, []int(nil)
	if p.Code != nil {
		insns, at, _ = rewrite.Decide(insns, p.Code.Forms,
			adapt.Forms(c.t.Arch().Label, func(h asm.BuiltinFunc) bool { return c.helpers[int64(h)] }))
	}
	if err := c.relocate(p, insns, at); err != nil {
		c.refuse(p, p.Pos, err)
		return Fails, len(insns), nil
	}
	f := newFlow(insns)
	f.run()
	old := origins(at)
	verdict, length := worse(c.moduleTypes(p), c.arguments(p, f)), 0
	crowded := false
	switch c.verified, crowded = f.estimate(verifierLimit); {
	case crowded:
		verdict = worse(verdict, Unknown)
		c.find(Unknown, p, p.Pos,
			"the kernel's verifier is likely to give up: more than %d pending branches on one path", pendingLimit)
	case c.verified > verifierLimit:
		verdict = worse(verdict, Unknown)
		c.find(Unknown, p, p.Pos,
			"the kernel's verifier is likely to give up: more than %d instructions on all paths", verifierLimit)
	}
	for i := range insns {
		if !f.reached(i) {
			continue
		}
		ins := &insns[i]
		length += int(ins.Size()) / asm.InstructionSize
		switch {
		case isPoison(ins):
			verdict = Fails
			c.poisoned(p, old(f.raw[i]), positionOf(insns, i, p.Pos))
		case ins.IsBuiltinCall() && !c.helpers[ins.Constant]:
			verdict = Fails
			c.noHelper(p, asm.BuiltinFunc(ins.Constant), positionOf(insns, i, p.Pos))
		case ins.IsBuiltinCall() && asm.BuiltinFunc(ins.Constant) == asm.FnGetSocketCookie && release(c.t.Release()) < 5012:
			verdict = worse(verdict, Unknown) // tracing_prog_func_proto, 5.12
			c.find(Unknown, p, positionOf(insns, i, p.Pos), "kernels before 5.12 have socket_cookie(), but not for %s", p.Kind)
		case ins.IsBuiltinCall() && asm.BuiltinFunc(ins.Constant) == asm.FnDPath &&
			(p.Kind == probe.Fentry || p.Kind == probe.Fexit) && !slices.Contains(dPath, p.Attach.Name):
			verdict = worse(verdict, Fails)
			c.find(Fails, p, positionOf(insns, i, p.Pos), "kernels do not permit path() in %s, only in fentry and fexit of %s",
				p.Attach.Text, strings.Join(dPath, ", "))
		}
	}
	return verdict, length, nil
}

// arguments checks the words of the context that a program reads against the number that the kernel passes: a raw
// tracepoint's link (bpf_raw_tp_link_attach) and the verifier (btf_ctx_access) refuse a program that reads more.
func (c *checker) arguments(p *manifest.Program, f *flow) Verdict {
	var protos []*kernel.Type
	more, what := 0, "arguments"
	switch p.Kind {
	case probe.RawTracepoint:
		for _, name := range c.t.RawTracepoints(p.Attach.Name) {
			if t, ok := c.t.RawTracepoint(name); ok {
				protos = append(protos, t)
			}
		}
	case probe.Fentry, probe.Fexit:
		if fn, ok := c.t.Func(c.t.Arch().SyscallFunc(p.Attach.Name)); ok && fn.Proto != nil {
			protos = append(protos, fn.Proto)
		}
		if p.Kind == probe.Fexit {
			more, what = 1, "arguments and the result"
		}
	}
	if len(protos) == 0 {
		return OK
	}
	has := -1
	for _, proto := range protos {
		words := more
		for _, param := range proto.Params {
			words += max(1, (param.Type().Resolve().Size+7)/8)
		}
		if has < 0 || words < has { // the verifier's refusal of one match ends the run
			has = words
		}
	}
	for i := range f.insns {
		if n := f.context[i]; n > 8*has {
			c.find(Fails, p, positionOf(f.insns, i, p.Pos), "%s has %d words of %s on this kernel, and the script reads word %d",
				p.Attach.Text, has, what, (n+7)/8)
			return Fails
		}
	}
	return OK
}

// moduleTypes returns the types that exist only in modules of the target's kernel.
func (c *checker) moduleTypes(p *manifest.Program) Verdict {
	verdict := OK
	for i := range c.m.Fields {
		u := &c.m.Fields[i]
		kind, name, _ := strings.Cut(u.Type, " ")
		kinds := map[string]kernel.Kind{"struct": kernel.Struct, "union": kernel.Union, "enum": kernel.Enum}
		if u.Program != p.Name || kinds[kind] == 0 ||
			strings.HasPrefix(name, "trace_event_raw_") { // already reported with the attach point
			continue
		}
		all := c.t.Named(kinds[kind], name)
		if len(all) > 0 && !slices.ContainsFunc(all, func(t *kernel.Type) bool { return !t.InModule }) {
			verdict = Unknown
			module := "its module"
			if name := cmp.Or(c.t.ModuleOf(kinds[kind], name), u.Module); name != "" {
				module = "the module " + name
			}
			c.find(Unknown, p, u.Pos, "%s exists only while %s is loaded", u.Type, module)
		}
	}
	return verdict
}

// origins returns the index of an instruction before Decide moved it.
func origins(at []int) func(int) int {
	if at == nil {
		return func(n int) int { return n }
	}
	back := map[int]int{}
	for was, is := range at {
		if is >= 0 {
			back[is] = was
		}
	}
	return func(n int) int {
		if was, ok := back[n]; ok {
			return was
		}
		return -1
	}
}

// noHelper reports a helper that the target lacks, unless the construct that uses it has been
// reported from the manifest's needs.
func (c *checker) noHelper(p *manifest.Program, h asm.BuiltinFunc, pos manifest.Pos) {
	name := object.HelperName(h)
	if !c.needed[name] {
		c.find(Fails, p, pos, "this kernel has no helper bpf_%s (number %d)", name, int(h))
	}
}

func (c *checker) poisoned(p *manifest.Program, insn int, pos manifest.Pos) {
	for _, u := range c.m.Fields {
		if u.Program == p.Name && u.Insn == insn {
			c.find(Fails, p, u.Pos, "%s", adapt.Lacks(&u, c.o.Spec.Types, c.spec))
			return
		}
	}
	c.find(Fails, p, pos, "this kernel lacks a type, field or enumerator that the script uses here")
}

// relocate does what the loader does before it loads a program. at maps instructions to their new indices, as in
// Decide.
func (c *checker) relocate(p *manifest.Program, insns asm.Instructions, at []int) error {
	m := c.renumbered(p.Name, at)
	if len(c.t.Structs(adapt.SyscallRecord)) == 0 {
		adapt.FixRecord(m, p.Name, insns)
	}
	var relos []*btf.CORERelocation
	var places []*asm.Instruction
	for i := range insns {
		if r := btf.CORERelocationMetadata(&insns[i]); r != nil {
			relos, places = append(relos, r), append(places, &insns[i])
		}
	}
	var spec *btf.Spec
	if len(relos) > 0 {
		if c.types == nil {
			c.types = newTypes(c.t)
		}
		var err error
		if spec, err = c.types.spec(named(c.o.Spec.Types)); err != nil {
			return err
		}
	}
	spec, err := adapt.Tracepoint(m, p, insns, c.events(p), spec, c.format)
	if err != nil || len(relos) == 0 {
		return err
	}
	c.spec = spec
	adapt.Retype(m, c.o.Spec.Types, spec)
	if err := adapt.Signs(m, p.Name, insns, c.o.Spec.Types, spec); err != nil {
		return err
	}
	local, err := btf.NewBuilder(nil, nil)
	if err != nil {
		return err
	}
	fixups, err := btf.CORERelocate(relos, []*btf.Spec{spec}, c.o.Spec.ByteOrder, local.Add)
	if err != nil {
		return fmt.Errorf("relocation: %w", err)
	}
	for i := range fixups {
		if err := fixups[i].Apply(places[i]); err != nil {
			return fmt.Errorf("relocation: %w", err)
		}
	}
	return nil
}

// renumbered returns the manifest with the new instruction indices of a program's accesses.
func (c *checker) renumbered(program string, at []int) *manifest.Manifest {
	m := *c.m
	m.Fields = nil
	for _, u := range c.m.Fields {
		if at != nil && u.Program == program {
			if u.Insn >= len(at) || at[u.Insn] < 0 {
				continue
			}
			u.Insn = at[u.Insn]
		}
		m.Fields = append(m.Fields, u)
	}
	return &m
}

// isPoison reports whether an instruction marks a failed relocation.
func isPoison(ins *asm.Instruction) bool {
	return ins.IsBuiltinCall() && ins.Constant == btf.COREBadRelocationSentinel ||
		ins.OpCode.IsDWordLoad() && ins.Dst == asm.R10
}

// positionOf returns the script's position of an instruction.
func positionOf(insns asm.Instructions, at int, none manifest.Pos) manifest.Pos {
	for i := at; i >= 0; i-- {
		if line, ok := insns[i].Source().(*btf.Line); ok {
			return manifest.Pos{Line: int(line.LineNumber()), Col: max(int(line.LineColumn()), 1)}
		}
	}
	return none
}
