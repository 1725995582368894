// SPDX-License-Identifier: Apache-2.0

// Package expand turns a parsed script into one without imports and macros.
//
// It takes a syntax tree and returns a new one in which the items of imported files are
// beside the script's own and every call of a macro is replaced by the macro's body. No
// node is shared: each call gets nodes of its own, whose spans are in a copy of the source
// that knows the call (diag.Source.ExpandedAt), so that every later diagnostic in expanded
// code has the chain of calls.
//
// A macro is the script's own, or one of the standard macros, which are scripts in the
// directory stdlib. Its parameters are $x and @m, which stand for the caller's variable or
// map, and plain names, which stand for an expression or a type: that is substituted
// wherever the name is used, and evaluated there. The macro's own variables get names that
// no script can write (hygiene).
package expand

import (
	"maps"
	"slices"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/cpp"
	"btc/frontend/diag"
)

// maxNodes bounds how much code all expansions of a script may make.
const maxNodes = 200_000

// Options are what the stage needs to know of other stages.
type Options struct {
	// Builtin reports names with a meaning of their own: a call that matches no macro of
	// that name is left to the checker.
	Builtin func(name string) bool
	// Values are parameters ($1, ...) whose values the code is made for, Named those
	// of getopt(): they become literals.
	Values map[int]string
	Named  map[string]string
	// Confined keeps imports and headers to the directories of C.Dirs.
	Confined bool
	// C preprocesses the C text of the script. It reads files from disk unless Options say
	// otherwise.
	C cpp.Options
}

// Script expands a script. Errors are added to l. The returned tree is complete even if
// there are errors: what could not be expanded is an *ast.Bad.
func Script(s *ast.Script, l *diag.List, opt Options) *ast.Script {
	x := &expander{
		l:       l,
		builtin: opt.Builtin,
		script:  s,
		values:  opt.Values,
		named:   opt.Named,
		macros:  map[string][]*macro{},
		funcs:   map[string]bool{},
		made:    map[*macro]int{},
		allow:   opt.allow(),
		cBodies: map[*cpp.Macro]*cBody{},
	}
	header, items := x.imports(s)
	x.std = standards()
	for _, item := range items {
		switch item := item.(type) {
		case *ast.Macro:
			x.define(item)
		case *ast.Func:
			x.funcs[item.Name.Text] = true
		}
	}
	out := *s
	out.Header, out.Items = header, nil
	if opt.C.ReadFile == nil {
		opt.C.ReadFile = func(path string) (string, error) {
			if err := x.allow(path); err != nil {
				return "", err
			}
			return cpp.ReadFile(path)
		}
	}
	out.C = cpp.Read(out.CText(), opt.C, l)
	out.Macros = slices.Sorted(maps.Keys(x.macros))
	for _, name := range slices.Sorted(maps.Keys(x.std.defs)) {
		if !strings.HasPrefix(name, "__") {
			out.Macros = append(out.Macros, name)
		}
	}
	x.script = &out
	top := &copier{expander: x}
	for _, item := range items {
		switch item := item.(type) {
		case *ast.Macro:
		case *ast.Probe:
			out.Items = append(out.Items, top.probe(item))
		case *ast.Func:
			out.Items = append(out.Items, top.function(item))
		default:
			out.Items = append(out.Items, item)
		}
	}
	return &out
}

// expander is the state of one Script.
type expander struct {
	l        *diag.List
	builtin  func(string) bool
	script   *ast.Script
	values   map[int]string
	named    map[string]string
	macros   map[string][]*macro     // the script's own
	allow    func(path string) error // whether the script may read a file
	std      *library
	funcs    map[string]bool // the script's own, which hide standard macros
	made     map[*macro]int  // how often a macro was expanded
	cBodies  map[*cpp.Macro]*cBody
	nodes    int  // made by expansions
	tooLarge bool // reported
}

func (x *expander) fail(code diag.Code, at ast.Node, format string, args ...any) *diag.Diagnostic {
	return x.l.Add(code, at.Span(), format, args...)
}

// room counts a node of expanded code; it is false when there are too many.
func (x *expander) room(at ast.Node) bool {
	if x.nodes++; x.nodes <= maxNodes {
		return true
	}
	if !x.tooLarge {
		x.tooLarge = true
		x.fail(diag.TooLarge, at, "macros expand to more than %d pieces of code", maxNodes)
	}
	return false
}

func (c *copier) probe(p *ast.Probe) *ast.Probe {
	out := *p
	out.Points = c.points(p.Points)
	out.Pred = c.expr(p.Pred)
	out.Body = c.block(p.Body)
	return &out
}

func (c *copier) function(f *ast.Func) *ast.Func {
	out := *f
	out.Params = nil
	for _, p := range f.Params {
		q := *p
		q.Type = c.typ(p.Type)
		out.Params = append(out.Params, &q)
	}
	out.Result = c.typ(f.Result)
	out.Body = c.block(f.Body)
	return &out
}
