// SPDX-License-Identifier: Apache-2.0

package format

import (
	"io"
	"unicode/utf8"
)

// Clean appends text that may come from a traced program. With Escape, control characters that could affect a
// terminal become \xNN; newlines (except with OneLine) and tabs stay. Invalid UTF-8 is treated like the control
// characters 0x80 to 0x9f, which some terminals obey.
func (e *Env) Clean(dst, text []byte) []byte {
	if !e.Escape {
		return append(dst, text...)
	}
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == '\n' && !e.oneLine || r == '\t':
			dst = append(dst, text[0])
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError && n == 1 && text[0] < 0xa0:
			dst = appendEscaped(dst, text[:n], false)
		default:
			dst = append(dst, text[:n]...)
		}
		text = text[n:]
	}
	return dst
}

// OneLine returns an Env in which, with Escape, newlines in strings become \x0a, too: otherwise a process could forge
// lines of a map by its name.
func (e *Env) OneLine() *Env {
	one := *e
	one.oneLine = true
	return &one
}

// lines returns the Env for text with several lines.
func (e *Env) lines() *Env {
	if !e.oneLine {
		return e
	}
	return &Env{Escape: e.Escape}
}

// terminal is a writer to a terminal that makes control characters in the output harmless.
type terminal struct {
	w    io.Writer
	json bool
	kept []byte // JSON: the start of a character
}

// Terminal returns a writer that shows control characters other than newlines and tabs as
// \xNN. Each call of Write must contain whole characters.
func Terminal(w io.Writer) io.Writer { return &terminal{w: w} }

// TerminalJSON returns a writer for JSON to a terminal: it escapes the control characters that JSON allows unescaped
// in strings (DEL and U+0080 to U+009F).
func TerminalJSON(w io.Writer) io.Writer { return &terminal{w: w, json: true} }

func (t *terminal) Write(b []byte) (int, error) {
	var out []byte
	if !t.json {
		out = (&Env{Escape: true}).Clean(nil, b)
	} else {
		text := append(t.kept, b...)
		t.kept = nil
		const c1 = 0xc2 // the first byte of U+0080 to U+00bf
		for i := 0; i < len(text); i++ {
			switch c := text[i]; {
			case c == c1 && i+1 == len(text):
				t.kept = []byte{c}
			case c == c1 && text[i+1] < 0xa0:
				i++
				out = appendUnicode(out, text[i])
			case c == 0x7f:
				out = appendUnicode(out, c)
			default:
				out = append(out, c)
			}
		}
	}
	if _, err := t.w.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// appendUnicode appends a character below U+0100 as JSON's \u00NN.
func appendUnicode(dst []byte, c byte) []byte {
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
