// SPDX-License-Identifier: Apache-2.0

// Package message renders messages of the compiler and the loader in bpftrace's form, which its runtime
// tests expect.
package message

import (
	"fmt"
	"regexp"
	"strings"

	"btc/frontend/diag"
)

// Loader rewrites the messages of btrun in text into that form.
func Loader(text string) string {
	for _, f := range loaderForms {
		text = f.ours.ReplaceAllString(text, f.theirs)
	}
	return text
}

// loaderForms match the first line of a message, followed by the line of the script, the marker and the
// hint.
var loaderForms = []struct {
	ours   *regexp.Regexp
	theirs string
}{
	{loaderError, "${1}ERROR: "},
	{loaderWarning, "${1}WARNING: "},
	{regexp.MustCompile(`(?m)^ \d+ \| `), ""},
	{regexp.MustCompile(`(?m)^ +\| ( *)\^$`), "${1}~"},
	{regexp.MustCompile(`(?m)^ *= hint: `), "HINT: "},
	{regexp.MustCompile(`(?m)^ERROR: HINT: `), "HINT: "},
	// Errors that bpftrace finds while attaching have no position.
	{regexp.MustCompile(`(?m)^\S+:\d+:\d+: (ERROR|WARNING): (Unable to attach probe: )`), "$1: $2"},
	{regexp.MustCompile(`(?m)^ +\| (Could not |Offset outside |Possible attachment attempt )`), "ERROR: $1"},
	{regexp.MustCompile(`(?m)^ +\| (Use --unsafe )`), "$1"},
}

var (
	loaderError   = regexp.MustCompile(`(?m)^([^\s:]*:\d+:\d+: )?(?:error|btrun): `)
	loaderWarning = regexp.MustCompile(`(?m)^([^\s:]*:\d+:\d+: )?warning: `)
)

// Text renders the messages of the compiler. btc's own form shows more: codes, several positions,
// hints.
func Text(l *diag.List, errorsOnly bool) string {
	var b strings.Builder
	severities := []diag.Severity{diag.Error, diag.Warning}
	if errorsOnly {
		severities = severities[:1]
	}
	for _, severity := range severities {
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
	if line := d.Span.File.Line(from.Line); d.Code == diag.BadInclude && strings.HasSuffix(d.Message, " file not found") {
		// bpftrace's file with the C code of a script begins with a line of its own.
		fmt.Fprintf(b, "definitions.h:%d:%d: fatal error: %s\n", from.Line+1, strings.IndexAny(line, `<"`)+1, d.Message)
		return
	}
	if from.Line != to.Line {
		fmt.Fprintf(b, "%s:%d-%d: %s: %s\n", d.Span.File.Name, from.Line, to.Line, word, d.Message)
		return
	}
	fmt.Fprintf(b, "%s:%d:%d-%d: %s: %s\n", d.Span.File.Name, from.Line, from.Col, to.Col, word, d.Message)
	fmt.Fprintf(b, "%s\n%s%s\n", d.Span.File.Line(from.Line), strings.Repeat(" ", from.Col-1), strings.Repeat("~", max(1, to.Col-from.Col)))
}
