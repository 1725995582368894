// SPDX-License-Identifier: Apache-2.0

// Package expand is macro expansion and imports: it turns a parsed script into one without either.
//
// It takes a syntax tree and returns a new one that contains the items of imported files, and the body of the macro
// in place of every call of a macro. No node is shared: each call gets its own nodes, whose spans are in a copy of
// the source that refers to the call (diag.Source.ExpandedAt), so that every later diagnostic in expanded code shows
// the chain of calls.
//
// A macro is the script's own, or one of the standard macros, which are scripts in the directory stdlib. Its
// parameters are $x and @m, which refer to the caller's variable or map, and plain names, for which an expression or
// a type is substituted at each use and evaluated there. The macro's local variables get names that no script can
// contain (hygiene).
package expand

import (
	"maps"
	"slices"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/cpp"
	"btc/frontend/diag"
)

// maxNodes bounds the size of all expansions of a script.
const maxNodes = 200_000

// Options are the inputs from other stages and from the command line.
type Options struct {
	// Builtin reports whether a name is a builtin or function: a call of it that matches no macro is left to the
	// checker.
	Builtin func(name string) bool
	// IsValue reports names that are values, not types; see Values.
	IsValue func(name string) bool
	// Values are the parameters ($1, ...) whose values are given at compile time, Named those of getopt(): they
	// become literals.
	Values map[int]string
	Named  map[string]string
	// Count is the value of $#; "" if it is not known at compile time.
	Count string
	// Confined keeps imports and headers to the directories of C.Dirs.
	Confined bool
	// C preprocesses the C text of the script. It reads files from disk unless the options say otherwise.
	C cpp.Options
}

// Script expands a script. Errors are added to l. The returned tree is complete even if
// there are errors: code that could not be expanded is an *ast.Bad.
func Script(s *ast.Script, l *diag.List, opt Options) *ast.Script {
	x := &expander{
		l:       l,
		builtin: opt.Builtin,
		isValue: opt.IsValue,
		script:  s,
		values:  opt.Values,
		named:   opt.Named,
		count:   opt.Count,
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
	isValue  func(name string) bool
	values   map[int]string
	count    string
	named    map[string]string
	macros   map[string][]*macro     // the script's own
	allow    func(path string) error // check whether the script may read a file
	std      *library
	funcs    map[string]bool // the script's own functions, which shadow standard macros
	made     map[*macro]int  // number of expansions of each macro
	cBodies  map[*cpp.Macro]*cBody
	nodes    int  // number of nodes created by expansions
	tooLarge bool // reported
}

func (x *expander) fail(code diag.Code, at ast.Node, format string, args ...any) *diag.Diagnostic {
	return x.l.Add(code, at.Span(), format, args...)
}

// room counts a node of expanded code; it is false if there are too many.
func (x *expander) room(at ast.Node) bool {
	if x.nodes++; x.nodes <= maxNodes {
		return true
	}
	if !x.tooLarge {
		x.tooLarge = true
		x.fail(diag.TooLarge, at, "macro expansion is too large (max %d syntax nodes)", maxNodes)
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
