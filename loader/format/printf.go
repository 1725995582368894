// SPDX-License-Identifier: Apache-2.0

package format

// The formats are implemented here, 3 KB of btrun, because package fmt has neither C's flags and length modifiers nor
// the language's directives (%r, %rx, %rh).

import (
	"strconv"
	"strings"
)

// Format is a parsed printf format.
type Format struct {
	pieces []piece
	tail   string
}

// piece is literal text and the following directive.
type piece struct {
	lit                   string
	left, plus, alt, zero bool
	width                 int
	length                string
	conv                  string
	bits                  int  // width of a number, from the length modifier
	decimal               bool // a plain decimal number, signed or not
	bare                  bool // just the text of the value
}

// maxWidth bounds the width of a directive.
const maxWidth = 4096

// ParseFormat parses a format. Text that is not a directive is literal; flags must be in the order "-+ #0"; a "*" is
// accepted but consumes no argument.
func ParseFormat(s string) *Format {
	f := &Format{}
	from := 0
	for i := 0; i < len(s); {
		if s[i] != '%' {
			i++
			continue
		}
		if p, n := parseDirective(s[i:]); n > 0 {
			p.lit = f.joinLiteral(s[from:i])
			if p.conv == "%" {
				f.tail = p.lit + "%"
			} else {
				f.pieces, f.tail = append(f.pieces, p), ""
			}
			i += n
			from = i
			continue
		}
		i++
	}
	f.tail += s[from:]
	return f
}

// joinLiteral prepends the literal text pending from "%%" to lit.
func (f *Format) joinLiteral(lit string) string {
	lit = f.tail + lit
	f.tail = ""
	return lit
}

// Args returns the number of values that the format consumes.
func (f *Format) Args() int { return len(f.pieces) }

// parseDirective reads a directive at the start of s; n is 0 if there is none.
func parseDirective(s string) (p piece, n int) {
	i := 1
	flag := func(c byte) bool {
		if i < len(s) && s[i] == c {
			i++
			return true
		}
		return false
	}
	p.left, p.plus = flag('-'), flag('+')
	flag(' ')
	p.alt, p.zero = flag('#'), flag('0')
	number := func() int {
		if flag('*') {
			return 0
		}
		from := i
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		v, _ := strconv.Atoi(s[from:i])
		return min(v, maxWidth)
	}
	p.width = number()
	if flag('.') {
		number()
	}
	from := i
	for i < len(s) && strings.IndexByte("hlLjzt", s[i]) >= 0 {
		i++
	}
	p.length = s[from:i]
	for _, c := range []string{"rx", "rh", "gr", "r", "d", "i", "u", "o", "x", "X", "c", "p", "s", "%"} {
		if strings.HasPrefix(s[i:], c) {
			p.conv = c
			p.settle()
			return p, i + len(c)
		}
	}
	return p, 0
}

// settle interprets the directive's parts once, for all values. A number without a length
// modifier has 32 bits.
func (p *piece) settle() {
	p.bits = 32
	switch p.length {
	case "hh":
		p.bits = 8
	case "h":
		p.bits = 16
	case "":
	default:
		p.bits = 64
	}
	plain := p.width == 0 && !p.plus
	p.bare = plain && p.conv == "s"
	p.decimal = plain && (p.conv == "d" || p.conv == "i" || p.conv == "u")
}

// MaxText bounds the text of an event, in bytes: a record of 64 KiB can have hundreds of fields that overlap.
const MaxText = 4 << 20

// Cut reports whether text from an offset is longer than MaxText, and says so at its end.
func Cut(dst []byte, from int) ([]byte, bool) {
	if len(dst)-from <= MaxText {
		return dst, false
	}
	return append(dst, " [cut: more than 4 MiB]\n"...), true
}

// Printf appends the format's text. Missing values print nothing, and values after MaxText bytes are omitted.
func (e *Env) Printf(dst []byte, f *Format, args []Value) []byte {
	from := len(dst)
	for i := range f.pieces {
		p := &f.pieces[i]
		if len(dst)-from > MaxText {
			dst, _ = Cut(dst, from)
			return dst
		}
		dst = append(dst, p.lit...)
		if i >= len(args) {
			continue
		}
		// Fast path for the common directives.
		switch v := args[i]; {
		case p.decimal && v.Layout.Kind == "int":
			dst = p.number(dst, Uint(v.Layout, v.Bytes))
		case p.bare && v.Layout.Kind == "string":
			dst = appendString(e, dst, v.Layout, v.Bytes, v.Var)
		default:
			dst = e.directive(dst, p, v)
		}
	}
	return append(dst, f.tail...)
}

func (e *Env) directive(dst []byte, p *piece, v Value) []byte {
	from := len(dst)
	first := -1 // bytes of the first piece, to which the width applies; -1: all
	switch p.conv {
	case "s":
		if p.plus && v.Layout.Kind == "int" && v.Layout.Signed && int64(Uint(v.Layout, v.Bytes)) >= 0 {
			dst = append(dst, '+')
		}
		dst = e.Append(dst, v)
		first = firstPiece(v)
	case "r", "rx", "rh":
		if v.Layout.Kind != "buffer" {
			dst = e.Append(dst, v)
			break
		}
		b := bufferBytes(v.Bytes, v.Var)
		if p.conv == "rh" {
			dst = appendSpaced(dst, b)
		} else {
			dst = appendEscaped(dst, b, p.conv == "r")
		}
	default:
		if !isNumber(v) {
			dst = append(e.Append(append(dst, "!{invalid integer conversion: "...), v), '}')
			return dst
		}
		if p.conv == "gr" {
			dst = appendGFP(dst, Uint(v.Layout, v.Bytes))
			break
		}
		n := Uint(v.Layout, v.Bytes)
		if v.Layout.Kind == "bool" {
			n = min(n, 1)
		}
		dst = p.number(dst, n)
	}
	if first < 0 {
		first = len(dst) - from
	}
	return p.pad(dst, from, first)
}

// firstPiece returns the length of the bracket that opens a compound value.
func firstPiece(v Value) int {
	switch v.Layout.Kind {
	case "tuple", "array":
		return 1
	case "record":
		return 2
	}
	return -1
}

func isNumber(v Value) bool {
	switch v.Layout.Kind {
	case "int", "bool", "ptr", "enum", "ksym", "probe", "username", "timestamp":
		return true
	}
	return false
}

// number appends v cast to the directive's width.
func (p *piece) number(dst []byte, v uint64) []byte {
	bits := p.bits
	low := v << (64 - bits) >> (64 - bits)
	switch p.conv {
	case "d", "i":
		s := int64(v<<(64-bits)) >> (64 - bits)
		if p.plus && s >= 0 {
			dst = append(dst, '+')
		}
		return strconv.AppendInt(dst, s, 10)
	case "u":
		return strconv.AppendUint(dst, low, 10)
	case "o":
		if p.alt && low != 0 {
			dst = append(dst, '0')
		}
		return strconv.AppendUint(dst, low, 8)
	case "x":
		if p.alt && low != 0 {
			dst = append(dst, "0x"...)
		}
		return strconv.AppendUint(dst, low, 16)
	case "X":
		if p.alt && low != 0 {
			dst = append(dst, "0X"...)
		}
		return append(dst, strings.ToUpper(strconv.FormatUint(low, 16))...)
	case "c":
		return append(dst, byte(v))
	case "p":
		if v == 0 {
			return append(dst, '0')
		}
	}
	return appendHex(dst, v)
}

// pad pads the text dst[from:from+first] to the directive's width, on its outer side.
func (p *piece) pad(dst []byte, from, first int) []byte {
	n := p.width - first
	if n <= 0 {
		return dst
	}
	fill := " "
	if p.zero {
		fill = "0"
	}
	at := from
	if p.left {
		at += first
	}
	rest := string(dst[at:])
	return append(append(dst[:at], strings.Repeat(fill, n)...), rest...)
}

func appendSpaced(dst, b []byte) []byte {
	for i, c := range b {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
	}
	return dst
}
