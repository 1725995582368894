// SPDX-License-Identifier: Apache-2.0

// Package manifest turns a module's metadata into the manifest next to the object: programs
// with attach points, maps and events with their layouts, parameters, losses, positions.
//
// It takes the module after lowering, its encoded functions and the object's
// bytes, and returns an internal/manifest.Manifest.
package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sort"
	"strconv"
	"strings"

	"btc/backend/emit"
	"btc/internal/manifest"
	"btc/ir"
	"btc/targets/kernel"
)

// sections maps kinds of globals to ELF sections.
var sections = map[ir.GlobalKind]string{
	ir.GlobalConst: ".rodata", ir.GlobalParam: ".rodata.params", ir.GlobalData: ".bss", ir.GlobalInit: ".data",
}

// usesStringParams reports whether a parameter is a part of the manifest itself.
func usesStringParams(m *manifest.Manifest) bool {
	found := slices.ContainsFunc(m.Globals, func(g manifest.Global) bool { return g.TextFrom != "" }) ||
		slices.ContainsFunc(m.Events, func(e manifest.Event) bool { return e.FormatFrom != "" })
	m.EachLayout(func(l *manifest.Layout, _ manifest.Pos) { found = found || l.FormatFrom != "" })
	return found
}

// TooLarge returns the map or event whose layouts make the manifest larger than a loader
// accepts, if there is one. A layout may contain the same part many times, and the manifest
// has each of them, so building it may take far more memory than the module.
func TooLarge(m *ir.Module) (d ir.Diag, found bool) {
	counts, n := map[*ir.Layout]int{}, 0
	add := func(pos ir.Pos, all ...*ir.Layout) {
		for _, l := range all {
			if l != nil {
				n += parts(l, counts)
			}
		}
		if n > manifest.MaxLayouts && !found {
			d, found = ir.Diag{
				Pos:  pos,
				Text: "the values of the script up to here have more than " + strconv.Itoa(manifest.MaxLayouts) + " parts, too many for an object",
			}, true
		}
	}
	for _, x := range m.Maps {
		add(x.Pos, x.Key, x.Value)
	}
	for _, e := range m.Events {
		for i := range e.Fields {
			add(e.Pos, e.Fields[i].Layout)
		}
	}
	return d, found
}

// parts counts the layouts in l, up to one more than a manifest may have; counts caches
// those that are known.
func parts(l *ir.Layout, counts map[*ir.Layout]int) int {
	n, ok := counts[l]
	if ok {
		return n
	}
	n = 1
	if l.Elem != nil {
		n += parts(l.Elem, counts)
	}
	for i := range l.Fields {
		n = min(n+parts(l.Fields[i].Layout, counts), manifest.MaxLayouts+1)
	}
	counts[l] = n
	return n
}

// Build makes the manifest of an object. compiler is the name and version recorded in it.
func Build(m *ir.Module, funcs []*emit.Func, object []byte, compiler string) *manifest.Manifest {
	sum := sha256.Sum256(object)
	out := &manifest.Manifest{
		Schema: manifest.Schema, Compiler: compiler, Language: manifest.Language,
		Object: manifest.Object{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(object))},
		Script: manifest.Script{File: m.File, Source: m.Source},
		Target: m.Target.Release(), Arches: arches(m),
		Config:   config(m.Meta.Config),
		Programs: []manifest.Program{}, Maps: []manifest.Map{}, Events: []manifest.Event{},
	}
	byName := make(map[string]*emit.Func, len(funcs))
	for _, f := range funcs {
		byName[f.Name] = f
	}
	for _, f := range funcs {
		if f.Prog != nil {
			p := program(m, f)
			p.Code = code(m, f, byName)
			out.Programs = append(out.Programs, p)
			out.Fields = append(out.Fields, fields(m, f)...)
		}
	}
	if slices.ContainsFunc(out.Programs, func(p manifest.Program) bool { return len(p.Attach.Substitute) > 0 }) {
		out.Requires = append(out.Requires, "attach-params")
	}
	out.For = m.Meta.For
	for _, x := range m.Maps {
		if x.BPF.Template {
			continue
		}
		out.Maps = append(out.Maps, mapOf(m, x))
		if out.Maps[len(out.Maps)-1].Stored != nil && !slices.Contains(out.Requires, manifest.StoredMaps) {
			out.Requires = append(out.Requires, manifest.StoredMaps)
		}
	}
	out.Params = Params(m)
	out.Losses = losses(m)
	for _, e := range m.Events {
		out.Events = append(out.Events, event(e))
		if e.Kind == "time" && e.Format == "" && !slices.Contains(out.Requires, manifest.EmptyTime) {
			out.Requires = append(out.Requires, manifest.EmptyTime)
		}
	}
	for _, g := range m.Globals {
		if g.Param != nil {
			continue
		}
		out.Globals = append(out.Globals, manifest.Global{
			Name: g.Name, Section: sections[g.Kind], Size: g.Size, Host: g.Host, Text: g.Text,
			Pos: position(g.Pos, g.End), TextFrom: g.TextFrom,
		})
		last := &out.Globals[len(out.Globals)-1]
		if m.Suffix != "" {
			last.Symbol = m.Symbol(g.Name)
		}
		if program, symbol, ok := strings.Cut(g.Text, " "); ok && (g.Host == manifest.HostUaddr || g.Host == manifest.HostUaddrCode) {
			last.Text = m.Symbol(program) + " " + symbol
		}
		if g.Host != "" && !slices.Contains(out.Requires, "host-values") {
			out.Requires = append(out.Requires, "host-values")
		}
	}
	if usesStringParams(out) {
		out.Requires = append(out.Requires, manifest.TextParams)
	}
	for _, e := range m.Meta.Errors {
		out.Errors = append(out.Errors,
			manifest.Error{Text: e.Text, Helper: e.Helper, Pos: span(e.Pos, e.End), Chain: e.Chain})
	}
	for i := range m.Meta.Clauses {
		out.Clauses = append(out.Clauses, clause(&m.Meta.Clauses[i]))
	}
	for _, n := range m.Meta.Needs {
		out.Needs = append(out.Needs, manifest.Need{Feature: n.Feature, Construct: n.Construct, Pos: pos(n.Pos)})
	}
	for _, u := range m.Meta.Unsafe {
		out.Unsafe = append(out.Unsafe, manifest.Unsafe{Name: u.Name, Pos: pos(u.Pos)})
	}
	nameParams(m, out)
	return out
}

// nameParams makes what takes the value of a parameter name the parameter's symbol.
func nameParams(m *ir.Module, out *manifest.Manifest) {
	name := func(global *string) {
		if *global != "" {
			*global = m.Symbol(*global)
		}
	}
	for i := range out.Globals {
		name(&out.Globals[i].TextFrom)
	}
	for i := range out.Events {
		name(&out.Events[i].FormatFrom)
	}
	out.EachLayout(func(l *manifest.Layout, _ manifest.Pos) { name(&l.FormatFrom) })
}

func clause(c *ir.Clause) manifest.Clause {
	out := manifest.Clause{
		Number: c.Number, Predicate: spanOf(c.Predicate), Last: spanOf(c.Last), Returns: c.Returns, Stores: c.Stores, Effects: c.Effects,
	}
	out.Tests = tests(c.Tests)
	for i := range c.Branches {
		x := &c.Branches[i]
		out.Branches = append(out.Branches, manifest.Branch{
			Cond: *spanOf(x.Cond), Body: *spanOf(x.Body), Loop: x.Loop, Tests: tests(x.Tests), Effects: x.Effects,
		})
	}
	for _, r := range c.Reads {
		out.Reads = append(out.Reads, manifest.MapRead{Map: r.Map, Span: *spanOf(r.Span)})
	}
	return out
}

func tests(all []ir.Test) (out []manifest.Test) {
	for _, t := range all {
		out = append(out, manifest.Test{
			Span: *spanOf(t.Span), Left: t.Left, Op: t.Op, Right: t.Right, Builtin: t.Builtin,
			Kind: t.Kind, Size: t.Size, Signed: t.Signed, Number: t.Number, Literal: t.Literal,
		})
	}
	return out
}

// spanOf returns a span in the manifest's form, nil if there is none.
func spanOf(s ir.Span) *manifest.Span {
	if s.Pos.Line == 0 {
		return nil
	}
	return &manifest.Span{Line: s.Pos.Line, Col: s.Pos.Col, EndLine: s.EndLine, EndCol: s.EndCol}
}

// arches returns the labels of the architectures that the object serves.
func arches(m *ir.Module) []string {
	var all []string
	for _, a := range m.Served() {
		all = append(all, a.Label)
	}
	return all
}

// position returns a position in the manifest's form, nil if there is none.
func position(p *ir.Pos, end int) *manifest.Pos {
	if p == nil {
		return nil
	}
	s := span(*p, end)
	return &s
}

func span(p ir.Pos, end int) manifest.Pos {
	return manifest.Pos{Line: p.Line, Col: p.Col, EndCol: end}
}

func pos(p ir.Pos) manifest.Pos { return manifest.Pos{Line: p.Line, Col: p.Col} }

func program(m *ir.Module, f *emit.Func) manifest.Program {
	p := f.Prog
	var record []manifest.RecordUse
	for _, u := range p.Record {
		record = append(record,
			manifest.RecordUse{Name: u.Name, Offset: u.Offset, Size: u.Size, Sign: u.Sign, Pos: pos(u.Pos)})
	}
	return manifest.Program{
		Name: m.Symbol(f.Name), Section: p.Section, Kind: string(p.Kind), Clause: p.Clause,
		Attach: p.Attach, FirstID: p.FirstID, UsesID: p.UsesID, IDInsns: f.IDInsns, UsesIP: p.UsesFunc,
		Args: p.Args, Record: record, Pos: pos(p.Pos),
	}
}

// moduleOf returns the module of the target that has a type, or "".
func moduleOf(t *kernel.Target, typ string) string {
	kind, name, _ := strings.Cut(typ, " ")
	switch {
	case t == nil:
	case kind == "struct":
		return t.ModuleOf(kernel.Struct, name)
	case kind == "union":
		return t.ModuleOf(kernel.Union, name)
	}
	return ""
}

// fields lists each position of a function's CO-RE accesses.
func fields(m *ir.Module, f *emit.Func) []manifest.FieldUse {
	var out []manifest.FieldUse
	for _, c := range f.CORE {
		out = append(out, manifest.FieldUse{
			Program: m.Symbol(f.Name), Insn: c.Insn, Type: c.Ref.Type, Path: c.Ref.Path,
			Module: moduleOf(m.Target, c.Ref.Type), Kind: int(c.Kind),
			Compared: c.Compared && c.Kind == ir.FieldRShift, Pos: pos(c.Pos),
		})
	}
	return out
}

// Params describes the parameters of load time.
func Params(m *ir.Module) []manifest.Param {
	var out []manifest.Param
	for _, g := range m.Globals {
		if p := g.Param; p != nil {
			out = append(out, manifest.Param{
				Name: p.Name, Type: p.Type, Global: m.Symbol(g.Name), Size: g.Size, Default: p.Default,
				Help: p.Help, Pos: pos(p.Pos),
			})
		}
	}
	return out
}

func mapOf(mod *ir.Module, m *ir.Map) manifest.Map {
	out := manifest.Map{
		Name: m.Name, Symbol: mod.MapSymbol(m), Shape: string(m.Shape), Type: m.BPF.Type,
		KeySize: m.BPF.KeySize, ValueSize: m.BPF.ValueSize, MaxEntries: m.BPF.MaxEntries,
		ValueOff: m.BPF.ValueOff, Present: m.BPF.Present, Gens: m.BPF.Gens, GenOff: m.BPF.GenOff, LenKey: m.BPF.Len,
		MapNames: m.MapNames, MapParams: m.MapParams, Depth: m.Depth, User: m.User, Pos: pos(m.Pos), Grows: m.Grows, Adds: m.Adds,
	}
	if m.BPF.Parts || m.BPF.Hashed || m.BPF.Low {
		out.Stored = &manifest.Stored{KeySize: m.BPF.KeySize, Low: m.BPF.Low, Parts: m.BPF.Parts}
	}
	if m.BPF.Parts || m.BPF.Hashed {
		out.KeySize, out.ValueSize = m.BPF.ScriptKey, m.BPF.ScriptValue
	}
	if m.BPF.Cache.Global != "" {
		cache := m.BPF.Cache
		out.Cache = &cache
	}
	if len(m.Updates) > 0 {
		out.Update = position(&m.Updates[0].Pos, m.Updates[0].End)
	}
	if m.Key != nil {
		k := layout(m.Key)
		out.Key = &k
	}
	if m.Value != nil {
		v := layout(m.Value)
		out.Value = &v
	}
	return out
}

// losses names the loss counters by index, as the lowering numbered them.
func losses(m *ir.Module) []manifest.Loss {
	var at []int
	by := map[int]manifest.Loss{}
	put := func(i int, l manifest.Loss) {
		if i >= 0 {
			at = append(at, i)
			by[i] = l
		}
	}
	for _, x := range m.Maps {
		if x.BPF.Loss < 0 {
			continue
		}
		switch {
		case x.Shape == ir.ShapeStack:
			put(x.BPF.Loss, manifest.Loss{Kind: "stack", Map: x.Name})
		case x.Shape != ir.ShapeIntern:
			put(x.BPF.Loss, manifest.Loss{Kind: "map", Map: x.Name})
			for i := range x.Updates {
				if u := &x.Updates[i]; u.Loss > 0 {
					by[u.Loss-1] = manifest.Loss{Kind: "map", Map: x.Name, Pos: position(&u.Pos, u.End), Chain: u.Chain}
					if i > 0 {
						at = append(at, u.Loss-1)
					}
				}
			}
		case x.BPF.Type == "ringbuf":
			put(x.BPF.Loss, manifest.Loss{Kind: "events"})
		case x.BPF.Type == "percpu_array":
			put(x.BPF.Loss, manifest.Loss{Kind: "scratch", Map: x.Name})
		}
	}
	sort.Ints(at)
	var out []manifest.Loss
	for _, i := range at {
		for len(out) < i {
			out = append(out, manifest.Loss{Kind: "unused"})
		}
		if len(out) == i {
			out = append(out, by[i])
		}
	}
	return out
}

func event(e *ir.Event) manifest.Event {
	out := manifest.Event{
		ID:         e.ID,
		Kind:       string(e.Kind),
		Format:     e.Format,
		FormatFrom: e.FormatFrom,
		Map:        e.Map,
		Size:       e.Size,
		Tail:       e.Tail,
		Pos:        span(e.Pos, e.End),
		Chain:      e.Chain,
	}
	for _, f := range e.Fields {
		out.Fields = append(out.Fields, field(f))
	}
	return out
}

func field(f ir.Field) manifest.Field {
	return manifest.Field{
		Name:    f.Name,
		Off:     f.Off,
		Var:     f.Var,
		BitOff:  f.BitOff,
		BitSize: f.BitSize,
		Layout:  layout(f.Layout),
	}
}

func layout(l *ir.Layout) manifest.Layout {
	out := manifest.Layout{
		Kind: string(l.Kind), Size: l.Size, Signed: l.Signed, Name: l.Name, CORE: l.CORE, Count: l.Count,
		Stack: l.Stack, Depth: l.Depth, Mode: l.Mode, Format: l.Format, FormatFrom: l.FormatFrom, Clock: l.Clock,
		IDOf: l.IDOf,
	}
	if l.Enum != nil {
		out.Enum = map[string]string{}
		for v, s := range l.Enum {
			out.Enum[strconv.FormatInt(v, 10)] = s
		}
	}
	if l.Elem != nil {
		e := layout(l.Elem)
		out.Elem = &e
	}
	for _, f := range l.Fields {
		out.Fields = append(out.Fields, field(f))
	}
	return out
}

// config reads the config keys that the loader acts on; others are passed on as strings.
func config(c map[string]string) manifest.Config {
	out := manifest.Config{MaxStrlen: 1024, PrintMapsOnExit: true, StrTruncTrailer: "..", CppDemangle: true}
	for k, v := range c {
		switch k {
		case "max_strlen":
			if n, err := strconv.Atoi(v); err == nil {
				out.MaxStrlen = n
			}
		case "print_maps_on_exit":
			out.PrintMapsOnExit = truth(v)
		case "str_trunc_trailer":
			out.StrTruncTrailer = v
		case "cpp_demangle":
			out.CppDemangle = truth(v)
		case "perf_rb_pages":
			if n, err := strconv.Atoi(v); err == nil {
				out.RingbufPages = n
			}
		case "max_stacks":
			if v != "0" {
				out.MaxStacks, _ = strconv.Atoi(v)
			}
		default:
			if out.Other == nil {
				out.Other = map[string]string{}
			}
			out.Other[k] = v
		}
	}
	return out
}

func truth(v string) bool { return v == "true" || v == "1" }
