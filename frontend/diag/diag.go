// SPDX-License-Identifier: Apache-2.0

// Package diag holds the compiler's diagnostics: sources with their line index, byte spans,
// diagnostics with stable codes, the catalogue of those codes, and the rendering with the
// source line and a marker.
//
// It takes spans and messages from every stage of the compiler and renders them, sorted by position. It knows nothing
// about the language.
package diag

import (
	"fmt"
	"sort"
	"strings"
)

// Code names one kind of diagnostic: "E0211" for an error, "W0203" for a
// warning. The two digits after the letter are the area: 01 syntax, 02 names
// and types, 03 target and attach points, 04 limits of the machine and of the
// object.
type Code string

// Severity reports whether a diagnostic stops the compilation.
type Severity int

// The severities. Notes exist only inside a diagnostic (Related).
const (
	Error Severity = iota
	Warning
)

// String returns the word that the rendering uses.
func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// Severity returns Warning for a W code and Error for all others.
func (c Code) Severity() Severity {
	if strings.HasPrefix(string(c), "W") {
		return Warning
	}
	return Error
}

// Related is a second position that explains a diagnostic, such as an earlier declaration.
type Related struct {
	Span    Span
	Message string
}

// Diagnostic is one error or warning. A zero Span means that the error has no position in a source (an option, a
// missing file).
type Diagnostic struct {
	Code    Code
	Span    Span
	Message string
	// Related are further positions, in the order in which they are shown.
	Related []Related
	// Hints say what to do, one line each.
	Hints []string
	// Expanded are the positions the code was expanded from, innermost first.
	Expanded []Span
}

// Severity returns the severity of the code.
func (d *Diagnostic) Severity() Severity { return d.Code.Severity() }

// Hint adds a line that says what to do. It returns d.
func (d *Diagnostic) Hint(format string, args ...any) *Diagnostic {
	d.Hints = append(d.Hints, fmt.Sprintf(format, args...))
	return d
}

// Note adds a related position. It returns d.
func (d *Diagnostic) Note(at Span, format string, args ...any) *Diagnostic {
	d.Related = append(d.Related, Related{Span: at, Message: fmt.Sprintf(format, args...)})
	return d
}

// From adds the positions that the code was expanded from, innermost first. It returns d.
func (d *Diagnostic) From(spans ...Span) *Diagnostic {
	d.Expanded = append(d.Expanded, spans...)
	return d
}

// text returns the message. For a diagnostic in a private source it is the title of the code, because the message may
// quote the source.
func (d *Diagnostic) text() string {
	if !d.Span.Private() {
		return d.Message
	}
	info, _ := Explain(d.Code)
	return info.Title
}

// Error returns the first line of the rendering, so that a Diagnostic is an error.
func (d *Diagnostic) Error() string {
	m := (&printer{}).message(d.Span, d.Severity().String(), d.text())
	m.Code = string(d.Code)
	return m.Head()
}

// List collects diagnostics. The zero value is ready for use. It is not safe
// for use by several goroutines at once.
type List struct {
	all  []*Diagnostic
	seen map[string]bool
}

// Add records a diagnostic and returns it, so that hints and notes can be
// chained. A duplicate, with the same code, position and message, is not recorded.
func (l *List) Add(code Code, at Span, format string, args ...any) *Diagnostic {
	d := &Diagnostic{Code: code, Span: at, Message: fmt.Sprintf(format, args...)}
	l.Append(d)
	return d
}

// style are the warnings about how code is written. Those in the standard library are not the user's.
var style = map[Code]bool{
	Unreachable: true, ValueDiscarded: true, OldScope: true, Deprecated: true, NeedlessCast: true, NeverAssigned: true, UsedBeforeAssign: true, Ignored: true,
}

// Append records a diagnostic made by another list, unless an equal one exists. A diagnostic in expanded code gets
// the positions that the code was expanded from. A warning in a macro of the standard library is about the values that
// the user passes: it is reported at the call. If it is about the macro's style, it is dropped.
func (l *List) Append(d *Diagnostic) {
	if call := d.Span.caller(); d.Severity() == Warning && call != d.Span {
		if style[d.Code] {
			return
		}
		name, _, _ := strings.Cut(call.Text(), "(")
		d.Span, d.Message = call, fmt.Sprintf("in %s(): %s", strings.TrimSpace(name), d.Message)
	}
	if d.Expanded == nil {
		d.Expanded = d.Span.Chain()
	}
	key := d.Error()
	if l.seen[key] {
		return
	}
	if l.seen == nil {
		l.seen = make(map[string]bool)
	}
	l.seen[key] = true
	l.all = append(l.all, d)
}

// Merge records all diagnostics of other.
func (l *List) Merge(other *List) {
	for _, d := range other.all {
		l.Append(d)
	}
}

// Len returns the number of diagnostics, warnings included.
func (l *List) Len() int { return len(l.all) }

// Errors returns the number of errors.
func (l *List) Errors() int {
	n := 0
	for _, d := range l.all {
		if d.Severity() == Error {
			n++
		}
	}
	return n
}

// HasErrors reports whether the compilation must stop.
func (l *List) HasErrors() bool { return l.Errors() > 0 }

// Sorted returns the diagnostics by source name and position. Those without a position come
// first. Diagnostics at equal positions keep the order in which they were found.
func (l *List) Sorted() []*Diagnostic {
	out := append([]*Diagnostic(nil), l.all...)
	sort.SliceStable(out, func(i, j int) bool { return less(out[i].Span, out[j].Span) })
	return out
}

func less(a, b Span) bool {
	an, bn := a.fileName(), b.fileName()
	if an != bn {
		return an < bn
	}
	if a.Start != b.Start {
		return a.Start < b.Start
	}
	return a.End < b.End
}

// Err returns nil when there is no error, and otherwise an error whose message is the plain
// rendering of the whole list.
func (l *List) Err() error {
	if !l.HasErrors() {
		return nil
	}
	return listError{l}
}

type listError struct{ list *List }

func (e listError) Error() string {
	var b strings.Builder
	_ = Render(&b, e.list, RenderOptions{})
	return strings.TrimRight(b.String(), "\n")
}
