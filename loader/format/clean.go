package format

import "unicode/utf8"

// Clean appends text that a traced program may have chosen. With Escape, control
// characters that could change what a terminal shows become \xNN; newlines and
// tabs stay. Bytes that are no UTF-8 count as control characters from 0x80 to
// 0x9f, which some terminals obey.
func (e *Env) Clean(dst, text []byte) []byte {
	if !e.Escape {
		return append(dst, text...)
	}
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == '\n' || r == '\t':
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
