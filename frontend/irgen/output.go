// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"fmt"
	"slices"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/types"
	"btc/ir"
)

// event adds an event of a kind, with a unique name.
func (f *fn) event(kind ir.EventKind) *ir.Event {
	n := f.events[string(kind)]
	f.events[string(kind)]++
	e := &ir.Event{ID: len(f.m.Events), Name: fmt.Sprintf("%s%d", kind, n), Kind: kind, Pos: f.Pos, End: f.end}
	f.m.Events = append(f.m.Events, e)
	return e
}

// send emits an event with expressions as its fields.
func (f *fn) send(e *ir.Event, args ...ast.Expr) {
	vals := make([]*ir.Value, len(args))
	for i, x := range args {
		t := f.body.Type(x)
		// A number has its C size in the event; the reader extends it.
		e.Fields = append(e.Fields, ir.Field{Layout: f.memberLayout(t)})
		if f.m.Meta.For != "" {
			e.Columns = append(e.Columns, check.NameOf(x))
		}
		switch {
		case t.IsScalar() || t.IsAgg():
			vals[i] = f.num(x)
		case slices.ContainsFunc(args[i+1:], changes): // later arguments may change x
			vals[i] = f.temp(x, t)
		default:
			vals[i] = f.addr(x)
		}
	}
	f.Emit(ir.OpEmit, ir.TVoid, vals...).Sym = e.Name
}

// changes reports whether an expression changes a variable or a map.
func changes(x ast.Expr) bool {
	found := false
	ast.Inspect(x, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.AssignStmt, *ast.IncDec:
			found = true
		}
		return !found
	})
	return found
}

// formatted generates printf() and other functions with a format and arguments.
func formatted(kind ir.EventKind) callFunc {
	return func(f *fn, x ast.Expr, c *check.Call) *ir.Value {
		e := f.event(kind)
		e.Format = c.Format
		if kind == ir.EvErrorf || kind == ir.EvWarnf {
			e.Chain = f.chain(x.Span())
		}
		f.send(e, c.Args...)
		return nil
	}
}

// print prints a map, or a value.
func (f *fn) print(_ ast.Expr, c *check.Call) *ir.Value {
	if c.Map != nil && c.Keys == nil {
		e := f.event(ir.EvPrintMap)
		e.Map = c.Map.Name
		f.send(e, c.Args...)
		return nil
	}
	f.send(f.event(ir.EvPrint), c.Args...)
	return nil
}

func mapEvent(kind ir.EventKind) callFunc {
	return func(f *fn, _ ast.Expr, c *check.Call) *ir.Value {
		e := f.event(kind)
		e.Map = c.Map.Name
		f.send(e)
		return nil
	}
}

func (f *fn) time(_ ast.Expr, c *check.Call) *ir.Value {
	e := f.event(ir.EvTime)
	e.Format, e.FormatFrom = c.Format, f.stringFrom(c.From)
	f.send(e)
	return nil
}

// exit sends its event and ends the program. In a macro only the event is sent:
// the loader drops the events after it.
func (f *fn) exit(x ast.Expr, c *check.Call) *ir.Value {
	e := f.event(ir.EvExit)
	code := ir.Const(c.N)
	if len(c.Args) > 0 {
		code = f.num(c.Args[0])
	}
	e.Fields = []ir.Field{{Name: "code", Layout: f.layout(types.TInt64)}}
	f.Emit(ir.OpEmit, ir.TVoid, code).Sym = e.Name
	if x.Span().Chain() == nil {
		f.leave()
	}
	return nil
}

// unwatch asks the loader to remove the watchpoints at an address.
func (f *fn) unwatch(_ ast.Expr, c *check.Call) *ir.Value {
	e := f.event(ir.EvUnwatch)
	e.Fields = []ir.Field{{Name: "address", Layout: f.layout(types.TUint64)}}
	f.Emit(ir.OpEmit, ir.TVoid, f.num(c.Args[0])).Sym = e.Name
	return nil
}
