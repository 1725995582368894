// SPDX-License-Identifier: Apache-2.0

// Package ast holds the syntax tree of the bpftrace language: one node type
// for each construct, each with its byte span, a walker, and the printer that
// is also the formatter.
//
// The tree mirrors the source: no types, no resolved names, no desugaring. Later stages keep their results in tables
// of their own, keyed by node pointer, so a node occurs only once in a tree.
package ast

import (
	"btc/frontend/cpp"
	"btc/frontend/diag"
	"btc/internal/probe"
)

// Node is any part of the tree.
type Node interface {
	// Span is the range of source bytes the node was parsed from.
	Span() diag.Span
}

// Extent is embedded in every node and holds its span.
type Extent struct{ At diag.Span }

// Span implements Node.
func (e Extent) Span() diag.Span { return e.At }

// Ext makes an Extent, for composite literals.
func Ext(s diag.Span) Extent { return Extent{At: s} }

// Name is an identifier that is not an expression: a field, a label, the name
// of a macro.
type Name struct {
	Extent
	Text string
}

// Comment is one comment with its delimiters: "// ..." or "/* ... */".
type Comment struct {
	Extent
	Text string
}

// Script is a whole source file.
type Script struct {
	Extent
	Source *diag.Source
	// Shebang is the first line if it starts with "#!", else empty.
	Shebang string
	// Header holds *CDef, *Config and *Import in source order.
	Header []Item
	// Items holds *Probe, *Macro, *Func and *MapDecl in source order.
	Items []Item
	// Comments are all comments outside C definitions, in source order.
	Comments []*Comment
	// C is the C text of Header after preprocessing; nil for a tree from the parser.
	C *cpp.Unit
	// Macros are the names of the macros that calls may refer to, the script's own first; nil for a tree from the
	// parser.
	Macros []string
}

// CText passes the C text in Header to the preprocessor in pieces.
func (s *Script) CText() []cpp.Chunk {
	var all []cpp.Chunk
	for _, item := range s.Header {
		switch item := item.(type) {
		case *CDef:
			all = append(all, cpp.Chunk{At: item.At, Directive: item.Kind == CDirective})
		case *Import:
			all = append(all, cpp.Chunk{At: item.At, Import: true, Path: item.Path.Value})
		}
	}
	return all
}

// Item is a top-level construct.
type Item interface {
	Node
	item()
}

// CDefKind distinguishes the C constructs at the top of a script.
type CDefKind int

// The kinds of C text.
const (
	CDirective CDefKind = iota // a whole line that starts with '#'
	CStruct                    // struct, with or without a body
	CUnion
	CEnum
	CTypedef
)

// CDef is one C definition or preprocessor line, kept as text.
type CDef struct {
	Extent
	Kind CDefKind
	// Name is the tag of a struct, union or enum, or the word after '#'
	// ("include", "define"); empty for a typedef.
	Name string
	// Text is the C text: for a definition with its final ';' (added when it
	// was left out), for a directive the whole line, continuation lines
	// included.
	Text string
}

// Config is "config = { ... }".
type Config struct {
	Extent
	Entries []*ConfigEntry
}

// ConfigEntry is "key = value".
type ConfigEntry struct {
	Extent
	Key *Name
	// Value is *StringLit, *IntLit, *BoolLit or *Ident.
	Value Expr
}

// Import is `import "path";`, at the top or as a statement.
type Import struct {
	Extent
	Path *StringLit
}

// MapDecl is "let @m = kind(max);" at the top.
type MapDecl struct {
	Extent
	Map  *Map
	Kind *Name
	Max  *IntLit
}

// Macro is "macro name(params) { ... }".
type Macro struct {
	Extent
	Name *Name
	// Params holds *Var (by reference), *Map (by reference) and *Ident
	// (substituted).
	Params []Expr
	Body   *Block
}

// Func is "fn name($a : T, ...) : R { ... }".
type Func struct {
	Extent
	Name   *Name
	Params []*Param
	Result Type
	// Body has no Value: functions return with a statement.
	Body *Block
}

// Param is one parameter of a Func.
type Param struct {
	Extent
	Var  *Var
	Type Type
}

// Probe is "points /pred/ { ... }".
type Probe struct {
	Extent
	Points []*AttachPoint
	// Pred is nil without a predicate.
	Pred Expr
	// Body has no Value.
	Body *Block
}

// AttachPoint is one attach point: its source text, whole and split into parts.
type AttachPoint struct {
	Extent
	// Label is the name of a "name=" prefix, or nil.
	Label *Name
	// Raw is the source text without the label.
	Raw string
	// Provider is the canonical lower-case name of the probe type ("kprobe"
	// for "k" and "Kprobe"); empty if the written provider has a wildcard or a
	// positional parameter, or is unknown.
	Provider string
	// Parts are the pieces between ':'; the first is the provider as written.
	Parts []AttachPart
}

// AttachPart is one piece of an attach point.
type AttachPart struct {
	Extent
	probe.Part
}

func (*CDef) item()    {}
func (*Config) item()  {}
func (*Import) item()  {}
func (*MapDecl) item() {}
func (*Macro) item()   {}
func (*Func) item()    {}
func (*Probe) item()   {}
