// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"fmt"
	"strings"

	"btc/internal/probe"
)

// Verify checks the module: structure, types, and the rules of the kernel verifier, plus rules
// that keep a program from doing anything other than what the script says. High and core ops may
// be mixed. The error is Diags; nil when there are none. Rules that need the Target are skipped
// when the module has none.
func Verify(m *Module) error {
	var all Diags
	all = append(all, verifyTables(m)...)
	names := namesOf(m)
	errs := make([]Diags, len(m.Funcs))
	m.EachFunc(func(i int, f *Func) { errs[i] = verifyFunc(m, f, names) })
	for _, some := range errs {
		all = append(all, some...)
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// VerifyStage is like Verify, and for stage Core also checks that no high op is left and that each
// map has its BPF form.
func VerifyStage(m *Module, stage Stage) error {
	var all Diags
	if err := Verify(m); err != nil {
		all = err.(Diags)
	}
	if stage == Core {
		for _, f := range m.Funcs {
			for _, b := range f.Blocks {
				for _, v := range b.Values {
					if v.Op.Info().Stage == High {
						all = append(all,
							Diag{Pos: v.Pos, Text: "@" + f.Name + ": high op is left after lowering: " + v.Text()})
					}
				}
			}
		}
		for _, x := range m.Maps {
			if x.BPF.Type == "" {
				all = append(all, Diag{Pos: x.Pos, Text: "map " + x.Name + " has no BPF form after lowering"})
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// Type returns the row of the program's kind of probe.
func (p *Prog) Type() *probe.Type {
	t := probe.Lookup(p.Kind)
	if t == nil {
		panic(fmt.Sprintf("BUG: unknown probe kind %q", p.Kind))
	}
	return t
}

func verifyTables(m *Module) Diags {
	var errs Diags
	seen := map[string]bool{}
	once := func(kind, name string, pos Pos) {
		if seen[kind+name] {
			errs = append(errs, Diag{Pos: pos, Text: fmt.Sprintf("%s %s is declared twice", kind, name)})
		}
		seen[kind+name] = true
	}
	for _, x := range m.Maps {
		once("map", x.Name, x.Pos)
		// Loaders shorten longer names for the kernel; only those of internal maps may be so.
		if b := x.BPF; b.Type != "" && (b.Name == "" || len(b.Name) > 15 && x.Shape != ShapeIntern) {
			errs = append(errs,
				Diag{Pos: x.Pos, Text: fmt.Sprintf("map %s: BPF name %q must be 1 to 15 bytes long", x.Name, b.Name)})
		}
	}
	for _, g := range m.Globals {
		once("global", g.Name, NoPos)
		if g.Size <= 0 || len(g.Init) > g.Size {
			errs = append(errs,
				Diag{Text: fmt.Sprintf("global %s: size %d, initial value of %d bytes", g.Name, g.Size, len(g.Init))})
		}
	}
	for i, e := range m.Events {
		once("event", e.Name, e.Pos)
		if e.ID != i {
			errs = append(errs,
				Diag{Pos: e.Pos, Text: fmt.Sprintf("event %s at index %d has number %d", e.Name, i, e.ID)})
		}
	}
	for _, f := range m.Funcs {
		once("function", f.Name, f.Pos)
		if f.Prog != nil {
			if probe.Lookup(f.Prog.Kind) == nil {
				errs = append(errs,
					Diag{Pos: f.Pos, Text: fmt.Sprintf("@%s: unknown program kind %q", f.Name, f.Prog.Kind)})
			}
		}
	}
	return errs
}

// checker verifies one function.
type checker struct {
	m      *Module
	f      *Func
	names  *moduleNames
	errs   Diags
	dom    *DomTree
	preds  [][]Pred
	ranges *Ranges
}

// at reports a rule that v breaks.
func (c *checker) at(v *Value, format string, args ...any) {
	c.report(v.Pos, fmt.Sprintf(format, args...)+": "+v.Text())
}

// atTerm reports a rule that b's terminator breaks.
func (c *checker) atTerm(b *Block, format string, args ...any) {
	c.report(b.Term.Pos, fmt.Sprintf("%s: b%d: %s", fmt.Sprintf(format, args...), b.ID, b.Term.Text()))
}

func (c *checker) fn(format string, args ...any) {
	c.report(c.f.Pos, fmt.Sprintf(format, args...))
}

func (c *checker) report(pos Pos, text string) {
	c.errs = append(c.errs, Diag{Pos: pos, Text: "@" + c.f.Name + ": " + text})
}

func byName[T any](all []*T, name func(*T) string) map[string]*T {
	found := map[string]*T{}
	for _, x := range all {
		if _, twice := found[name(x)]; !twice {
			found[name(x)] = x
		}
	}
	return found
}

// moduleNames maps the names that values refer to: Module.Map and its like search a list,
// of hundreds in a large script, for each of them.
type moduleNames struct {
	maps    map[string]*Map
	globals map[string]*Global
	events  map[string]*Event
	funcs   map[string]*Func
}

func namesOf(m *Module) *moduleNames {
	return &moduleNames{
		byName(m.Maps, func(x *Map) string { return x.Name }),
		byName(m.Globals, func(g *Global) string { return g.Name }),
		byName(m.Events, func(e *Event) string { return e.Name }),
		byName(m.Funcs, func(f *Func) string { return f.Name }),
	}
}

func verifyFunc(m *Module, f *Func, names *moduleNames) Diags {
	c := &checker{m: m, f: f, names: names}
	c.structure()
	if len(c.errs) > 0 { // the next checks walk the graph
		return c.errs
	}
	c.dom = Dominators(f)
	c.preds = Preds(f)
	c.dominance()
	if len(c.errs) > 0 {
		return c.errs
	}
	c.ranges = NewRanges(f, c.dom)
	c.ranges.parts = true
	for _, b := range f.Blocks {
		for _, v := range b.Values {
			c.value(v)
		}
		c.term(b)
	}
	if len(c.errs) == 0 {
		c.slotsInitialised()
		c.recordsReleased()
	}
	return c.errs
}

// structure checks what the graph walks rely on.
func (c *checker) structure() {
	if len(c.f.Blocks) == 0 {
		c.fn("no block")
		return
	}
	inFunc := map[*Block]bool{}
	blockIDs, valueIDs, slotIDs := map[int]bool{}, map[int]bool{}, map[int]bool{}
	placed := map[*Value]bool{}
	for _, s := range c.f.Slots {
		if slotIDs[s.ID] || s.ID >= c.f.nextSlot {
			c.fn("slot s%d: number is not unique", s.ID)
		}
		slotIDs[s.ID] = true
		if s.Size <= 0 || s.Align != 1 && s.Align != 2 && s.Align != 4 && s.Align != 8 {
			c.fn("slot s%d: size %d, alignment %d", s.ID, s.Size, s.Align)
		}
	}
	for _, b := range c.f.Blocks {
		inFunc[b] = true
		if blockIDs[b.ID] || b.ID < 0 || b.ID >= c.f.nextBlock || b.Func != c.f {
			c.fn("block b%d: number is not unique or the block is another function's", b.ID)
		}
		blockIDs[b.ID] = true
		for i, v := range append(append([]*Value(nil), b.Params...), b.Values...) {
			switch {
			case v.Block != b:
				c.at(v, "placed in b%d but its Block differs", b.ID)
			case v.ID < 0 || v.ID >= c.f.nextValue || valueIDs[v.ID]:
				c.at(v, "number is not unique")
			case (i < len(b.Params)) != (v.Op == OpParam):
				c.at(v, "parameters and values are mixed")
			case i >= len(b.Params) && (v.Op == OpInvalid || v.Op >= numOps || v.Op.Info().Inline):
				c.at(v, "op cannot be placed in a block")
			}
			valueIDs[v.ID] = true
			placed[v] = true
		}
	}
	for _, b := range c.f.Blocks {
		c.termShape(b, inFunc)
	}
	c.entryShape()
	c.f.Uses(func(p **Value) {
		switch v := *p; {
		case v == nil:
			c.fn("an operand is nil")
		case v.ID >= 0 && !placed[v]:
			c.fn("operand %s is not placed in the function", v)
		case v.ID < 0 && (!v.Op.Info().Inline || v.Op == OpParam):
			c.fn("operand %s has no number", v.Op)
		case v.Op == OpSlotAddr && (v.Slot == nil || !slotIDs[v.Slot.ID] || v.Type != TStack):
			c.fn("operand %s: slot is not the function's", v)
		}
	})
}

func (c *checker) termShape(b *Block, inFunc map[*Block]bool) {
	n := map[TermKind]int{Jump: 1, Br: 2, Ret: 0}
	want, ok := n[b.Term.Kind]
	if !ok {
		c.fn("b%d has no terminator", b.ID)
		return
	}
	if len(b.Term.Succs) != want || (b.Term.Arg != nil) != (b.Term.Kind != Jump) {
		c.fn("b%d: terminator with %d edges", b.ID, len(b.Term.Succs))
		return
	}
	for _, e := range b.Term.Succs {
		if !inFunc[e.To] {
			c.fn("b%d: edge to a block of no function", b.ID)
		} else if len(e.Args) != len(e.To.Params) {
			c.atTerm(b, "%d arguments for %d parameters of b%d", len(e.Args), len(e.To.Params), e.To.ID)
		}
		if e.To == c.f.Entry() {
			c.atTerm(b, "edge to the entry block")
		}
	}
}

func (c *checker) entryShape() {
	want := c.f.Params
	if c.f.Prog != nil {
		want = []Type{TCtx}
	} else if len(want) > 5 {
		c.fn("a subprogram has at most 5 parameters")
	}
	params := c.f.Entry().Params
	if len(params) != len(want) {
		c.fn("entry block has %d parameters, the function %d", len(params), len(want))
		return
	}
	for i, p := range params {
		if c.f.Global && (c.f.Prog != nil || want[i] != TI64) {
			c.fn("a global function's parameter %d is %s, not a number", i, want[i])
		}
		if p.Type != want[i] {
			c.fn("entry parameter %d is %s, not %s", i, p.Type, want[i])
		}
	}
}

// dominance checks that each operand is defined on every path to its use.
func (c *checker) dominance() {
	order := make(map[*Value]int)
	for _, b := range c.f.Blocks {
		for i, v := range b.Values {
			order[v] = i + 1
		}
	}
	visible := func(v *Value, b *Block, i int) bool {
		switch {
		case v.ID < 0:
			return true
		case v.Block == b:
			return order[v] < i
		}
		return c.dom.Dominates(v.Block, b)
	}
	for _, b := range c.dom.Order {
		for i, v := range b.Values {
			for _, a := range v.Args {
				if !visible(a, b, i+1) {
					c.at(v, "%s is not defined on every path to its use", a)
				}
			}
		}
		b.Term.Uses(func(p **Value) {
			if !visible(*p, b, len(b.Values)+1) {
				c.atTerm(b, "%s is not defined on every path to its use", *p)
			}
		})
	}
}

func (c *checker) term(b *Block) {
	switch b.Term.Kind {
	case Br:
		if b.Term.Arg.Type != TI1 {
			c.atTerm(b, "condition is %s, not i1", b.Term.Arg.Type)
		}
	case Ret:
		if b.Term.Arg.Type != TI64 {
			c.atTerm(b, "return value is %s, not i64", b.Term.Arg.Type)
		}
	}
	for _, e := range b.Term.Succs {
		for i, a := range e.Args {
			if p := e.To.Params[i]; !assignable(p.Type, a.Type) {
				c.atTerm(b, "argument %s is %s, parameter %s of b%d is %s", a, a.Type, p, e.To.ID, p.Type)
			}
		}
	}
}

// assignable reports whether a value of type from may be used as one of type to: a pointer
// known not to be null for a nullable one.
func assignable(to, from Type) bool {
	return to == from || to.Nullable && to.NonNull() == from
}

// describe names a type in words, for messages.
func describe(t Type) string {
	switch {
	case t.Nullable:
		return "a nullable " + strings.TrimSuffix(t.String(), "?")
	case t.IsForeign():
		return article(t) + t.String() + ", which only helpers can read"
	}
	return article(t) + t.String()
}

func article(t Type) string {
	if t.Kind == I1 || t.Kind == I64 || t.Kind == Addr {
		return "an "
	}
	return "a "
}
