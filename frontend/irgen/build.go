// SPDX-License-Identifier: Apache-2.0

// Package irgen generates IR from a checked script.
//
// It takes a check.Info without errors and returns an ir.Module of high ops: one function for each attach point of
// each clause, the script's maps, parameters and events, and the metadata of the manifest. It decides neither
// semantics, which frontend/check has decided, nor layout in the kernel, which the lowerings decide.
//
// Scalars become SSA values. Strings, tuples, structs and the like live in
// slots, in the storage form of docs/layouts.md.
package irgen

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/ir"
)

// builder is the state of the module being built.
type builder struct {
	m      *ir.Module
	info   *check.Info
	stmts  map[diag.Span]int // statement's span -> index in m.Stmts
	sites  map[diag.Span]int // expression's span -> ir.Pos.Site
	events map[string]int    // number of events of each kind, for their names
	// layouts caches the layouts of types, which may be large.
	layouts map[*types.Type]*ir.Layout
	tables  *tables
}

// Module builds the IR of a script. name is a C identifier for the object.
func Module(info *check.Info, name string) *ir.Module {
	src := info.Script.Source
	b := &builder{
		m: &ir.Module{Name: name, File: path.Base(src.Name), Source: src.Text, Target: info.Target, Arches: info.Arches,
			Meta: ir.Meta{For: info.For, Config: info.Config.Values}},
		info: info, stmts: map[diag.Span]int{}, sites: map[diag.Span]int{}, events: map[string]int{},
		layouts: map[*types.Type]*ir.Layout{}, tables: newTables(),
	}
	for _, m := range info.Maps {
		b.addMap(m)
	}
	b.params()
	for _, u := range info.Unsafe {
		b.m.Meta.Unsafe = append(b.m.Meta.Unsafe, ir.UnsafeUse{Name: u.Name, Pos: b.pos(u.At, -1)})
	}
	for i, p := range info.Programs {
		b.program(i, p)
	}
	b.clauses()
	b.subprograms()
	b.sizeStacks()
	return b.m
}

func (b *builder) addMap(m *check.Map) {
	out := &ir.Map{
		Name: m.Name, Shape: ir.MapShape(m.Shape), Pos: b.pos(m.At, -1), MapNames: m.MapNames, MapSpec: m.MapSpec,
	}
	if m.Key != nil {
		out.Key = identified(b.layout(m.Key), m.KeyIDs)
	}
	if m.Value != nil {
		out.Value = b.layout(m.Value)
	}
	if m.Shape == "tseries" {
		out.KeyNames = append(slices.Clip(out.KeyNames), "interval")
		if m.Scalar() {
			out.MaxEntries = int(min(m.Intervals, int64(m.MaxEntries)))
		}
		out.Key = b.seriesLayout(out.Key)
	}
	b.m.Maps = append(b.m.Maps, out)
}

// identified returns the layout of a key whose parts identify what ids says. Layouts are shared, so it is a copy.
func identified(key *ir.Layout, ids []string) *ir.Layout {
	if !slices.ContainsFunc(ids, func(id string) bool { return id != "" }) {
		return key
	}
	mark := func(l *ir.Layout, id string) *ir.Layout {
		if l.Kind != ir.LInt || l.Size != 8 {
			return l
		}
		c := *l
		c.IDOf = id
		return &c
	}
	if key.Kind != ir.LTuple {
		return mark(key, ids[0])
	}
	out := *key
	out.Fields = slices.Clone(key.Fields)
	for i := range out.Fields {
		if i < len(ids) {
			out.Fields[i].Layout = mark(out.Fields[i].Layout, ids[i])
		}
	}
	return &out
}

// pos returns a position in the script.
func (b *builder) pos(at diag.Span, stmt int) ir.Pos {
	if at = at.In(b.info.Script.Source); !at.Valid() {
		return ir.Pos{Stmt: stmt}
	}
	p := at.Pos()
	return ir.Pos{Line: p.Line, Col: p.Col, Stmt: stmt}
}

// maxStmtText bounds the text of a statement in line info.
const maxStmtText = 120

// stmt returns the index of a statement in the module's table for line info.
func (b *builder) stmt(at diag.Span) int {
	src := b.info.Script.Source
	if at = at.In(src); !at.Valid() {
		at = src.Span(0, 0)
	}
	at.File = src
	if i, ok := b.stmts[at]; ok {
		return i
	}
	text := strings.Join(strings.Fields(at.File.Text[at.Start:at.End]), " ")
	if len(text) > maxStmtText {
		text = text[:maxStmtText]
	}
	p := at.Pos()
	i := len(b.m.Stmts)
	b.m.Stmts = append(b.m.Stmts, ir.Stmt{Line: p.Line, Col: p.Col, Text: strings.ToValidUTF8(text, "?")})
	b.stmts[at] = i
	return i
}

// program builds the function of one attach point.
func (b *builder) program(i int, p *check.Program) {
	pt := p.Point
	at := b.pos(pt.At, b.stmt(pt.At))
	point := pt.Attach.Point()
	point.Pattern = pt.Pattern
	section := pt.Type.Section(point)
	prog := &ir.Prog{
		Kind: pt.Kind, Section: section, Clause: p.Clause, FirstID: i,
		UsesID: p.Body.UsesID, UsesFunc: p.Body.UsesFunc, Pos: at,
		Attach: pt.Attach,
	}
	prog.Attach.Binary = cmp.Or(pt.Binary, p.Body.Binary)
	for _, i := range slices.Sorted(maps.Keys(p.Body.Args)) {
		prog.Args = append(prog.Args, p.Body.Args[i])
	}
	for _, u := range p.Body.Record {
		prog.Record = append(prog.Record,
			ir.RecordUse{Name: u.Name, Offset: u.Offset, Size: u.Size, Sign: u.Sign, Pos: b.pos(u.At, b.stmt(u.At))})
	}
	f := &ir.Func{Name: fmt.Sprintf("%s_%d", identifier(pt.Text), i), Prog: prog, Pos: at}
	b.m.Funcs = append(b.m.Funcs, f)
	fb := &fn{builder: b, cursor: newCursor(f), body: p.Body, prog: p, vars: map[*check.Var]*ir.Value{}}
	fb.ctx = f.Entry().AddParam(ir.TCtx)
	fb.Pos = at
	fb.initVars()
	fb.clause(p.Probe)
	dropTrivialParams(f)
}

// identifier makes a C identifier from the text of an attach point.
func identifier(text string) string {
	out := []byte(text)
	for i, c := range out {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			out[i] = '_'
		}
	}
	return string(out[:min(len(out), 60)])
}

// fn builds one function.
type fn struct {
	*builder
	*cursor
	body *check.Body
	prog *check.Program
	ctx  *ir.Value
	vars map[*check.Var]*ir.Value // slots of variables that live in memory
	loop []loopTargets            // innermost last
	// trips is the product of the trip counts of the counted loops around the statement.
	trips int
	// result is the return type of a function of the script; nil in programs.
	result *types.Type
	// inlined is set in a function that is inlined at a call.
	inlined *inlined
	end     int       // column after the part of the script at the current Pos
	span    diag.Span // the part of the script at the current Pos, possibly in a macro
	at      int       // index of the current statement in Module.Stmts
}

// initVars allocates slots for variables in memory and sets them to zero or the empty
// string. Parameters are set by the caller.
func (f *fn) initVars(params ...*check.Var) {
	for _, v := range f.body.Vars {
		if v.Type.IsScalar() && !v.Addressed {
			continue
		}
		st := v.Type.Store()
		addr := f.Slot("$"+v.Name, st.Size, st.Align)
		f.vars[v] = addr
		if !v.Element && !slices.Contains(params, v) { // written at the start of each iteration
			f.clear(addr, v.Type)
		}
	}
}

// setVar sets a scalar variable: one of the script that has an address is in
// memory, the others are values.
func (f *fn) setVar(v any, x *ir.Value) {
	if v, ok := v.(*check.Var); ok && v.Addressed {
		f.Store(ir.U64, f.vars[v], 0, f.as(ir.TI64, x))
		return
	}
	f.cursor.setVar(v, x)
}

// getVar returns the value set by setVar, or 0.
func (f *fn) getVar(v any, t ir.Type) *ir.Value {
	if v, ok := v.(*check.Var); ok && v.Addressed {
		return f.as(t, f.Load(ir.U64, f.vars[v], 0))
	}
	return f.cursor.getVar(v, t)
}

// smallObject is the size in bytes up to which an object is cleared completely: larger strings are not in the stack
// frame, and stale bytes after their NUL do no harm.
const smallObject = 64

// clear sets an object to zero, or to the empty string.
func (f *fn) clear(addr *ir.Value, t *types.Type) {
	if t.Kind == types.String && t.Size > smallObject {
		f.Store(ir.U8, addr, 0, ir.Const(0))
		return
	}
	f.zero(addr, t.Store().Size)
}

func (f *fn) zero(addr *ir.Value, n int) {
	if n > 0 {
		f.Emit(ir.OpMemZero, ir.TVoid, addr).Imm = int64(n)
	}
}

// clause generates predicate and body.
func (f *fn) clause(p *ast.Probe) {
	if p.Pred != nil {
		f.statement(p.Pred.Span())
		body, skip := f.f.NewBlock(), f.f.NewBlock()
		f.condition(p.Pred, body, skip)
		f.start(skip, true)
		f.Ret(ir.Const(0))
		f.start(body, true)
	}
	f.block(p.Body)
	if !f.ended() {
		f.Ret(ir.Const(0))
	}
}

// statement assigns the following code to the statement at a span.
func (f *fn) statement(at diag.Span) {
	f.at = f.stmt(at)
	f.Pos, f.end, f.span = f.pos(at, f.at), f.endCol(at), at
}

// here assigns the following code to a part of the current statement, and returns a
// function that restores the position.
func (f *fn) here(x ast.Node) func() {
	pos, end, span := f.Pos, f.end, f.span
	f.span = x.Span()
	f.Pos, f.end = f.pos(f.span, f.at), f.endCol(f.span)
	f.Pos.Site = f.site(x)
	return func() { f.Pos, f.end, f.span = pos, end, span }
}

// site returns the number of an expression whose failing helpers are reported; 0 if they are not. The text for a member
// of a parenthesized expression omits the first parenthesis, as in bpftrace.
func (f *fn) site(x ast.Node) int {
	if !f.info.HelperErrors {
		return 0
	}
	at := x.Span()
	for inner := x; inner != nil; {
		switch n := inner.(type) {
		case *ast.Field:
			inner = n.X
		case *ast.Index:
			inner = n.X
		case *ast.Paren:
			at = n.X.Span().To(at)
			inner = nil
		default:
			inner = nil
		}
	}
	n, ok := f.sites[at]
	if !ok {
		f.m.Meta.Sites = append(f.m.Meta.Sites,
			ir.RuntimeError{Pos: f.pos(at, -1), End: f.endCol(at), Chain: f.chain(at)})
		n = len(f.m.Meta.Sites)
		f.sites[at] = n
	}
	return n
}

// endCol returns the column after a span, 0 if that is on another line.
func (b *builder) endCol(at diag.Span) int {
	if at = at.In(b.info.Script.Source); !at.Valid() || at.EndPos().Line != at.Pos().Line {
		return 0
	}
	return at.EndPos().Col
}

// chain returns the span and the macro calls that led to it, for messages about a span that is in a macro or on several
// lines; nil for other spans.
func (b *builder) chain(at diag.Span) []ir.Location {
	calls := at.Chain()
	if calls == nil && (!at.Valid() || at.EndPos().Line == at.Pos().Line) {
		return nil
	}
	var all []ir.Location
	for _, at := range append([]diag.Span{at}, calls...) {
		if !at.Valid() {
			return nil
		}
		start, end := at.Pos(), at.EndPos()
		p := ir.Location{Line: start.Line, Col: start.Col, EndCol: end.Col}
		if end.Line != start.Line {
			p.EndLine = end.Line
		}
		if at.File.Base() != b.info.Script.Source.Base() {
			p.File, p.Text = at.File.Name, at.File.Line(start.Line)
		}
		all = append(all, p)
	}
	return all
}
