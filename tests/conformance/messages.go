package conformance

import (
	"fmt"
	"strings"

	"btc/frontend/diag"
)

// messages renders what the compiler says in bpftrace's form, in which runtime
// tests expect it; btc's own shows more (codes, several places, hints).
func messages(l *diag.List) string {
	var b strings.Builder
	for _, severity := range []diag.Severity{diag.Error, diag.Warning} {
		for _, d := range l.Sorted() {
			if d.Severity() == severity {
				message(&b, d)
			}
		}
	}
	return b.String()
}

func message(b *strings.Builder, d *diag.Diagnostic) {
	word := strings.ToUpper(d.Severity().String())
	if !d.Span.Valid() {
		fmt.Fprintf(b, "%s: %s\n", word, d.Message)
		return
	}
	from, to := d.Span.Pos(), d.Span.EndPos()
	if from.Line != to.Line {
		fmt.Fprintf(b, "%s:%d-%d: %s: %s\n", d.Span.File.Name, from.Line, to.Line, word, d.Message)
		return
	}
	fmt.Fprintf(b, "%s:%d:%d-%d: %s: %s\n", d.Span.File.Name, from.Line, from.Col, to.Col, word, d.Message)
	fmt.Fprintf(b, "%s\n%s%s\n", d.Span.File.Line(from.Line), strings.Repeat(" ", from.Col-1), strings.Repeat("~", max(1, to.Col-from.Col)))
}
