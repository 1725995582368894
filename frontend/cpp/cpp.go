// SPDX-License-Identifier: Apache-2.0

// Package cpp is the C preprocessor for the C text at the top of a script: it
// executes the directives, reads the user's own headers, and replaces macros.
//
// It takes chunks of C text and returns a Unit: the remaining tokens, which cdef parses as declarations, and the
// macros defined at the end, which the script's own code uses too.
//
// It is our own code and costs 73 KB in btc: modernc.org/cc/v4 costs 2 MB and 55 ms per compilation, and ignores the
// attribute packed.
//
// Headers of the kernel and of the C library are not read: scripts include them for types, which the target provides,
// and for constants, which are in a table of cdef.
package cpp

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"btc/frontend/diag"
)

// Chunk is one piece of C text of a script: a preprocessor line or a definition.
type Chunk struct {
	At        diag.Span
	Directive bool
	// Import marks the chunk as an import of the header at Path.
	Import bool
	Path   string
}

// Options are the search path for headers and the predefined macros.
type Options struct {
	// Dirs are the directories of -I, in order.
	Dirs []string
	// Include are files that are read before the script's own text.
	Include []string
	// Predefined is C text that is read first; it consists of directives only.
	Predefined string
	// Constant returns the constants of the system's headers for #if, or nil if there is none.
	Constant func(name string) (int64, bool)
	// ReadFile reads a header of at most MaxFile bytes; nil when no files may be
	// read.
	ReadFile func(path string) (string, error)
}

// Unit is preprocessed C text.
type Unit struct {
	// Tokens are the tokens of the declarations, with macros replaced.
	Tokens []Token
	macros map[string]*Macro
	work   int        // work done for the C text
	used   int        // work done for all uses in the script's code
	l      *diag.List // the list given to Read, for errors that no single use causes
	// later, when not nil, defines the predefined macros: a script without C text
	// needs them only if it uses one.
	later      func()
	predefined map[string]bool
}

// all returns the macros by name.
func (u *Unit) all() map[string]*Macro {
	if later := u.later; later != nil {
		u.later = nil
		later()
	}
	return u.macros
}

// Macro finds a macro that is defined at the end of the text.
func (u *Unit) Macro(name string) (*Macro, bool) {
	if u.later != nil && !u.predefined[name] {
		m, ok := u.macros[name] // __LINE__ and similar macros
		return m, ok
	}
	m, ok := u.all()[name]
	return m, ok
}

// Macros returns the names of the macros that are defined at the end of the text, unordered.
func (u *Unit) Macros() []string { return slices.Collect(maps.Keys(u.all())) }

// Expand replaces the macros in a list of tokens. Errors are added to l, which may be nil.
func (u *Unit) Expand(all []Token, l *diag.List) []Token {
	x, done := u.use(l)
	defer done()
	return x.expand(all)
}

// use returns an expansion for a use of macros in the script's code. When it is done, its work counts towards the limit
// of all uses; beyond that limit nothing is expanded.
func (u *Unit) use(l *diag.List) (x *expansion, done func()) {
	work := new(int)
	x = &expansion{macros: u.all(), limit: maxUse, work: work}
	x.report = func(at diag.Span, format string, args ...any) {
		if l == nil && *work > maxUse && u.l != nil { // the caller only sees that it is not a constant
			u.l.Add(diag.TooLarge, at, format, args...)
		}
		reporter(l)(at, format, args...)
	}
	if u.used > maxUses {
		*work = maxUse + 1
	}
	return x, func() {
		if *work < 0 {
			u.used += maxUse
		}
		u.used += max(0, *work)
	}
}

func reporter(l *diag.List) func(diag.Span, string, ...any) {
	return func(at diag.Span, format string, args ...any) {
		if l != nil {
			l.Add(diag.CSyntax, at, format, args...)
		}
	}
}

// Call expands a function-like macro at a position with the tokens of its arguments; ok is false if their number is
// wrong.
func (u *Unit) Call(m *Macro, args [][]Token, at Token, l *diag.List) (out []Token, ok bool) {
	x, done := u.use(l)
	defer done()
	if m.Variadic && len(args) > len(m.Params) {
		last := len(m.Params) - 1
		for _, more := range args[last+1:] {
			args[last] = append(append(args[last], Token{Kind: Punct, Text: ",", At: at.At}), more...)
		}
		args = args[:last+1]
	}
	if args = m.fit(args); !x.count(m, args, at) {
		return nil, false
	}
	return x.expand(x.substitute(m, args, at, (*hide)(nil).with(m))), true
}

// Read preprocesses the chunks of a script in order. Errors are added to l; the Unit
// contains what could be read in any case.
func Read(chunks []Chunk, opt Options, l *diag.List) *Unit {
	r := &reader{
		opt:    opt,
		l:      l,
		unit:   &Unit{macros: map[string]*Macro{}, l: l},
		once:   map[string]bool{},
		system: map[string]bool{},
	}
	r.specials()
	switch {
	case opt.Predefined == "":
	case len(chunks) == 0 && len(opt.Include) == 0:
		r.unit.later, r.unit.predefined = r.predefined, defined(opt.Predefined)
	default:
		r.predefined()
	}
	for _, path := range opt.Include {
		r.option(path)
	}
	for _, c := range chunks {
		r.chunk(c)
	}
	r.flush()
	r.unclosed(0)
	return r.unit
}

// defined returns the names that a string of directives may define.
func defined(text string) map[string]bool {
	names := map[string]bool{}
	for line := range strings.Lines(text) {
		if def, ok := strings.CutPrefix(line, "#define "); ok {
			name, _, _ := strings.Cut(strings.TrimSpace(def), " ")
			name, _, _ = strings.Cut(name, "(")
			names[name] = true
		}
	}
	return names
}

// reader is the state of one Read.
type reader struct {
	opt     Options
	l       *diag.List
	unit    *Unit
	pending []Token // tokens whose macros are not replaced yet
	nesting []condition
	once    map[string]bool // files with #pragma once
	system  map[string]bool // directories of the system's headers
	files   []file          // files being read, innermost last
	dir     string          // directory of the script being read
	bytes   int             // bytes of all headers
	opened  int             // headers
	counter int             // value of __COUNTER__
}

// predefined defines the predefined macros; they have no position.
func (r *reader) predefined() {
	r.source(diag.NewSource("<predefined>", r.opt.Predefined))
	for _, m := range r.unit.macros {
		m.At = diag.Span{}
	}
}

func (r *reader) fail(at diag.Span, format string, args ...any) *diag.Diagnostic {
	return r.l.Add(diag.CSyntax, at, format, args...)
}

// specials defines the macros whose value depends on their position.
func (r *reader) specials() {
	number := func(at diag.Span, v int) Token {
		return Token{Kind: Number, Text: itoa(v), At: at}
	}
	for name, f := range map[string]func(at diag.Span) Token{
		"__LINE__": func(at diag.Span) Token { return number(at, at.Pos().Line) },
		"__FILE__": func(at diag.Span) Token {
			name := ""
			if at.Valid() {
				name = at.File.Name
			}
			return Token{Kind: StringLit, Text: quote(name), Value: name, At: at}
		},
		"__COUNTER__": func(at diag.Span) Token { r.counter++; return number(at, r.counter-1) },
	} {
		r.unit.macros[name] = &Macro{Name: name, special: f}
	}
}

// Special returns the value of __LINE__ and similar macros at a position; ok is false for
// other macros.
func (m *Macro) Special(at diag.Span) (Token, bool) {
	if m.special == nil {
		return Token{}, false
	}
	return m.special(at), true
}

// chunk reads a piece of the script.
func (r *reader) chunk(c Chunk) {
	r.dir = ""
	if name := c.At.File.Base().Name; name != diag.Stdin {
		r.dir = filepath.Dir(name)
	}
	if c.Import {
		text, err := r.read(c.Path)
		if err != nil {
			r.l.Add(diag.BadInclude, c.At, "cannot read %s: %v", c.Path, cause(err))
			return
		}
		r.file(c.Path, text, c.At)
		return
	}
	x := &lexer{src: c.At.File, pos: c.At.Start, end: c.At.End, bol: true}
	if c.Directive {
		x.next() // '#'
		r.directive(x, c.At)
		return
	}
	r.declaration(x)
}

// declaration reads a definition, which may contain directives between the members of a struct, as in kernel headers.
func (r *reader) declaration(x *lexer) {
	at := x.src.Span(x.pos, x.end)
	var last Token
	read := r.active()
	for {
		t, err := x.next()
		switch {
		case err != nil:
			if r.active() {
				r.fail(at, "%v", err)
			}
			return
		case t.Kind == End && x.pos >= x.end:
			if read && last.Kind != End && !last.Is(";") { // the final ';' may be omitted
				end := x.src.Span(x.end, x.end)
				r.pending = append(r.pending, Token{Kind: Punct, Text: ";", At: end})
			}
			return
		case t.Is("#") && t.first:
			r.directive(x, t.At)
		case t.Kind != End && r.active():
			if len(r.pending) == cap(r.pending) { // headers are long: double the capacity
				r.pending = slices.Grow(r.pending, len(r.pending)+1)
			}
			r.pending = append(r.pending, t)
			last = t
		}
	}
}

// source reads a whole file.
func (r *reader) source(src *diag.Source) {
	x := &lexer{src: src, end: len(src.Text), bol: true, included: true}
	outer := len(r.nesting)
	for x.pos < x.end {
		t, err := x.next()
		switch {
		case err != nil && r.active():
			r.fail(t.span(src), "%v", err)
		case t.Is("#") && t.first:
			r.directive(x, t.At)
		case t.Kind != End && r.active():
			r.pending = append(r.pending, t)
		}
	}
	r.flush()
	r.unclosed(outer)
}

// span returns the token's position, or the end of the source for a token without one.
func (t Token) span(src *diag.Source) diag.Span {
	if t.At.Valid() {
		return t.At
	}
	return src.Span(len(src.Text), len(src.Text))
}

// unclosed reports conditions that the file left open; outer is the number open before it.
func (r *reader) unclosed(outer int) {
	if n := len(r.nesting); n > outer {
		r.fail(r.nesting[n-1].at, "#if without #endif")
		r.nesting = r.nesting[:outer]
	}
}

// flush replaces the macros in the tokens read so far.
func (r *reader) flush() {
	if len(r.pending) == 0 {
		return
	}
	x := &expansion{macros: r.unit.macros, limit: maxWork, work: &r.unit.work, report: r.tooLarge}
	made := x.expand(r.pending)
	if len(r.unit.Tokens) == 0 {
		r.unit.Tokens = made
	} else {
		r.unit.Tokens = append(r.unit.Tokens, made...)
	}
	r.pending = nil
}

func (r *reader) tooLarge(at diag.Span, format string, args ...any) { r.fail(at, format, args...) }

// directive executes a line; '#' has been read.
func (r *reader) directive(x *lexer, at diag.Span) {
	x.inLine = true
	name, err := x.next()
	x.inLine = false
	if name.Kind == End && err == nil { // a '#' alone does nothing
		return
	}
	switch {
	case name.Is("include") || name.Is("include_next"), name.Is("error"), name.Is("warning"):
		rest := x.restOfLine()
		directive := x.src.Span(at.Start, x.pos-trailing(rest))
		switch {
		case !r.active():
		case name.Is("error"):
			r.fail(directive, "#error %s", strings.TrimSpace(rest))
		case name.Is("warning"):
		default:
			r.flush()
			r.includeLine(x.src.Span(x.pos-len(rest), x.pos), directive)
		}
		return
	}
	rest, e := x.line()
	if err == nil {
		err = e
	}
	directive := at
	if n := len(rest); n > 0 {
		directive = x.src.Span(at.Start, rest[n-1].At.End)
	} else if name.Kind != End {
		directive = x.src.Span(at.Start, name.At.End)
	}
	if name.Kind == Word && r.conditional(name.Text, rest, directive) || !r.active() {
		return
	}
	if err != nil {
		r.fail(directive, "%v", err)
		return
	}
	r.flush()
	switch {
	case name.Kind != Word:
		r.fail(directive, "unknown preprocessor directive").Hint("comments begin with //")
	case name.Text == "define":
		m, err := parseDefine(rest)
		if err != nil {
			r.fail(directive, "%v", err)
			return
		}
		r.unit.macros[m.Name] = m
	case name.Text == "undef":
		if len(rest) == 0 || rest[0].Kind != Word {
			r.fail(directive, "#undef needs a name")
			return
		}
		delete(r.unit.macros, rest[0].Text)
	case name.Text == "pragma":
		r.pragma(rest, directive)
	case name.Text == "line", name.Text == "ident":
	default:
		r.fail(directive, "unknown preprocessor directive #%s", name.Text).Hint("comments begin with //")
	}
}

// trailing counts the spaces at the end of a string.
func trailing(s string) int { return len(s) - len(strings.TrimRight(s, " \t\r\f\v")) }

// pragma implements #pragma once; others are left to the consumer of the tokens.
func (r *reader) pragma(rest []Token, at diag.Span) {
	if len(rest) == 1 && rest[0].Is("once") {
		if n := len(r.files); n > 0 {
			r.once[r.files[n-1].id] = true
		}
		return
	}
	r.unit.Tokens = append(r.unit.Tokens, Token{Kind: Pragma, At: at, Line: rest, Included: len(r.files) > 0})
}
