// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"btc/internal/spell"
)

// decoder decodes JSON (RFC 8259) as encoding/json does, but stricter: keys are case-sensitive, and it stops at the
// first error. encoding/json would add 0.2 MB to the loader.
type decoder struct {
	data   []byte
	at     int
	depth  int
	used   int // bytes allocated for elements of arrays and maps so far
	fields map[reflect.Type]map[string]int
	names  map[string]string // keys that have occurred
	buf    []byte            // a string with escapes
	// keys are the offsets of the object's keys, of DecodeStrict; nil: keys that v does not have are
	// skipped, and of equal ones the last one counts.
	keys map[string]int
}

// maxMemory bounds what is allocated for the elements of arrays and maps, in bytes; lists grow by doubling, so the
// elements themselves take at least a quarter. An element such as "{}" takes two bytes in the file but hundreds in
// memory.
const maxMemory = 64 << 20

// charge counts n allocated bytes against maxMemory.
func (d *decoder) charge(n uintptr) error {
	if d.used += int(n); d.used > maxMemory {
		return &FormatError{Text: fmt.Sprintf("lists take more than %d MiB of memory", maxMemory>>20), Size: true}
	}
	return nil
}

// maxNesting is the maximum nesting depth of lists. Layouts have their own limit.
const maxNesting = 1000

// DecodeJSON decodes a JSON value into what v points to: a struct, with tags for all of its fields, a slice, or a map
// from string to string. Unknown keys are ignored, and null leaves the value unchanged. Lists and maps for which more
// than 64 MiB are allocated are an error. Errors quote only keys and numbers from the content.
func DecodeJSON(data []byte, v any) error { return decode(data, v) }

// decode decodes the single JSON value in data into what v points to.
func decode(data []byte, v any) error {
	d := &decoder{data: data, fields: map[reflect.Type]map[string]int{}, names: map[string]string{}}
	if err := d.value(reflect.ValueOf(v).Elem()); err != nil {
		if f, ok := err.(*FormatError); ok && f.Path == here {
			f.Path = ""
		}
		return err
	}
	if d.next(); d.at < len(data) {
		return &FormatError{Text: "unexpected data after the JSON value"}
	}
	return nil
}

// DecodeStrict decodes the single JSON object in data, a file that an operator wrote, into the
// struct that v points to. Unlike in a manifest, keys that the struct does not have, repeated keys
// and null are errors. lines are the lines of the object's keys; an error, which is a
// *FormatError, is at line at.
func DecodeStrict(data []byte, v any) (lines map[string]int, at int, err error) {
	d := &decoder{data: data, fields: map[reflect.Type]map[string]int{}, names: map[string]string{}}
	d.keys = map[string]int{}
	if d.next() != '{' {
		err = d.bad("'{'")
	} else if err = d.value(reflect.ValueOf(v).Elem()); err == nil {
		if d.next(); d.at < len(data) {
			err = d.bad("the end of the file")
		}
	}
	line := func(at int) int { return 1 + bytes.Count(data[:min(at, len(data))], []byte("\n")) }
	for key, at := range d.keys {
		d.keys[key] = line(at)
	}
	return d.keys, line(d.at), err
}

// next skips spaces and returns the next byte, 0 at the end.
func (d *decoder) next() byte {
	for ; d.at < len(d.data); d.at++ {
		switch c := d.data[d.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// value decodes a value into v. A value that does not fit v is an error with its path. If v is invalid, the value is
// skipped.
func (d *decoder) value(v reflect.Value) error {
	c := d.next()
	from := d.at
	if c == 'n' && d.keys == nil {
		if err := d.word("null"); err != nil {
			return err
		}
		if v.IsValid() && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice || v.Kind() == reflect.Map) {
			v.SetZero()
		}
		return nil
	}
	if v.IsValid() && v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	switch {
	case c == '{':
		if !v.IsValid() || v.Kind() == reflect.Struct || v.Kind() == reflect.Map {
			if v.IsValid() && v.Kind() == reflect.Map && v.IsNil() {
				v.Set(reflect.MakeMap(v.Type()))
			}
			return d.list('}', func(int) error { return d.member(v) })
		}
		return d.wrong(from, "an object", v)
	case c == '[':
		return d.array(from, v)
	case c == '"':
		s, err := d.text()
		if err != nil || !v.IsValid() {
			return err
		}
		return d.setText(from, v, string(s))
	case c == 't', c == 'f':
		word := "true"
		if c == 'f' {
			word = "false"
		}
		if err := d.word(word); err != nil || !v.IsValid() {
			return err
		}
		if v.Kind() != reflect.Bool {
			return d.wrong(from, "a boolean", v)
		}
		v.SetBool(c == 't')
		return nil
	case c == '-' || isDigit(c):
		return d.number(v)
	}
	return d.bad("the beginning of a value")
}

// list decodes what is in brackets, calling element for each element.
func (d *decoder) list(shut byte, element func(i int) error) error {
	if d.depth++; d.depth > maxNesting {
		return &FormatError{Text: fmt.Sprintf("byte %d: nesting too deep (max %d)", d.at+1, maxNesting)}
	}
	d.at++
	for i := 0; ; i++ {
		if c := d.next(); i == 0 && c == shut {
			break
		}
		if err := element(i); err != nil {
			return err
		}
		if c := d.next(); c == shut {
			break
		} else if c != ',' {
			return d.bad("',' or '" + string(shut) + "'")
		}
		d.at++
	}
	d.at++
	d.depth--
	return nil
}

// member reads a key and its value.
func (d *decoder) member(v reflect.Value) error {
	if d.next() != '"' {
		return d.bad("a key")
	}
	from := d.at
	name, err := d.text()
	if err != nil {
		return err
	}
	key := d.keyOf(name)
	if d.keys != nil && d.depth == 1 {
		if _, repeated := d.keys[key]; repeated {
			d.at = from
			return &FormatError{Text: fmt.Sprintf("the key %q is there twice", key)}
		}
		d.keys[key] = from
	}
	if d.next() != ':' {
		return d.bad("':'")
	}
	d.at++
	if v.IsValid() && v.Kind() == reflect.Map { // map from string to string
		s := reflect.New(v.Type().Elem()).Elem()
		if err := d.charge(mapEntry); err != nil {
			return err
		}
		err := d.value(s)
		if err != nil {
			err = under(key, err)
		}
		v.SetMapIndex(reflect.ValueOf(key), s)
		return err
	}
	into := reflect.Value{}
	if v.IsValid() {
		if i, ok := d.fieldsOf(v.Type())[key]; ok {
			if into = v.Field(i & 0xff); i > 0xff {
				into = into.Field(i>>8 - 1)
			}
		} else if d.keys != nil {
			d.at = from
			text := fmt.Sprintf("unknown key %q", key)
			if near := spell.Nearest(key, slices.Sorted(maps.Keys(d.fieldsOf(v.Type())))); near != "" {
				text += "; did you mean " + near + "?"
			}
			return &FormatError{Text: text}
		}
	}
	if err := d.value(into); err != nil {
		return under(key, err)
	}
	return nil
}

// keyOf returns a key as a string. A file has few different ones, so most take no memory.
func (d *decoder) keyOf(name []byte) string {
	key, ok := d.names[string(name)]
	if !ok {
		key = string(name)
		if len(d.names) < maxNames {
			d.names[key] = key
		}
	}
	return key
}

// maxNames bounds the keys that are remembered; a manifest has about 150.
const maxNames = 512

// mapEntry is the approximate size in bytes of an entry of a map from string to string.
const mapEntry = 96

// fieldsOf returns the numbers of the fields of a struct, by key. An embedded struct has its number in the low 8 bits, and
// the number of its field, from 1, in the others.
func (d *decoder) fieldsOf(t reflect.Type) map[string]int {
	all := d.fields[t]
	if all == nil {
		all = map[string]int{}
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Anonymous {
				for name, j := range d.fieldsOf(f.Type) {
					all[name] = i | (j+1)<<8
				}
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			all[name] = i
		}
		d.fields[t] = all
	}
	return all
}

func (d *decoder) array(from int, v reflect.Value) error {
	if !v.IsValid() {
		return d.list(']', func(int) error { return d.value(v) })
	}
	if v.Kind() != reflect.Slice || v.Type().Elem().Kind() == reflect.Uint8 {
		return d.wrong(from, "an array", v)
	}
	size := v.Type().Elem().Size()
	all := reflect.New(v.Type()).Elem() // settable, so that it can grow
	all.Set(reflect.MakeSlice(v.Type(), 0, 0))
	err := d.list(']', func(i int) error {
		if i == all.Cap() {
			if err := d.charge(size * uintptr(max(1, 2*i))); err != nil {
				return err
			}
			all.Grow(max(1, i)) // grows by doubling
		}
		all.SetLen(i + 1)
		if err := d.value(all.Index(i)); err != nil {
			return under("["+strconv.Itoa(i)+"]", err)
		}
		return nil
	})
	v.Set(all)
	return err
}

func (d *decoder) setText(from int, v reflect.Value, s string) error {
	switch {
	case v.Kind() == reflect.String:
		v.SetString(s)
		return nil
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return &FormatError{Path: here, Text: fmt.Sprintf("byte %d: %v", from+1, err)}
		}
		v.SetBytes(b)
		return nil
	}
	return d.wrong(from, "a string", v)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// digits skips digits and reports whether there was one.
func (d *decoder) digits() bool {
	from := d.at
	for d.at < len(d.data) && isDigit(d.data[d.at]) {
		d.at++
	}
	return d.at > from
}

// skip skips one byte if it is one of those.
func (d *decoder) skip(bytes string) bool {
	if d.at < len(d.data) && strings.IndexByte(bytes, d.data[d.at]) >= 0 {
		d.at++
		return true
	}
	return false
}

func (d *decoder) number(v reflect.Value) error {
	from := d.at
	d.skip("-")
	if !d.skip("0") && !d.digits() || d.skip(".") && !d.digits() {
		return d.bad("a digit")
	}
	if d.skip("eE") {
		d.skip("+-")
		if !d.digits() {
			return d.bad("a digit")
		}
	}
	if !v.IsValid() {
		return nil
	}
	text := d.data[from:d.at]
	n, negative, ok := integer(text)
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		switch {
		case ok && !negative && n < 1<<63:
			v.SetInt(int64(n))
			return nil
		case ok && negative && n <= 1<<63:
			v.SetInt(-int64(n))
			return nil
		}
	case reflect.Uint64:
		if ok && !negative {
			v.SetUint(n)
			return nil
		}
	}
	return d.wrong(from, "the number "+string(text), v)
}

// integer parses a decimal number of 64 bits without allocating.
func integer(text []byte) (n uint64, negative, ok bool) {
	if text[0] == '-' {
		negative, text = true, text[1:]
	}
	for _, c := range text {
		if !isDigit(c) || n > (1<<64-1-uint64(c-'0'))/10 {
			return 0, negative, false
		}
		n = 10*n + uint64(c-'0')
	}
	return n, negative, true
}

func (d *decoder) word(word string) error {
	for i := range len(word) {
		if d.at == len(d.data) || d.data[d.at] != word[i] {
			return d.bad(strconv.Quote(word))
		}
		d.at++
	}
	return nil
}

// text decodes a string, which is valid until the next one. Invalid UTF-8 and unpaired UTF-16 surrogates become
// U+FFFD.
func (d *decoder) text() ([]byte, error) {
	d.at++
	start, out := d.at, d.buf[:0]
	defer func() { d.buf = out }()
	for from := d.at; d.at < len(d.data); {
		c := d.data[d.at]
		switch {
		case c == '"':
			d.at++
			if from == start {
				return d.data[start : d.at-1], nil
			}
			out = append(out, d.data[from:d.at-1]...)
			return out, nil
		case c < ' ':
			return nil, d.bad("the rest of a string")
		case c == '\\':
			out = append(out, d.data[from:d.at]...)
			d.at++
			r, err := d.escape()
			if err != nil {
				return nil, err
			}
			out = utf8.AppendRune(out, r)
			from = d.at
		case c < utf8.RuneSelf:
			d.at++
		default:
			r, size := utf8.DecodeRune(d.data[d.at:])
			if r == utf8.RuneError && size == 1 {
				out = append(append(out, d.data[from:d.at]...), "\ufffd"...)
				from = d.at + 1
			}
			d.at += size
		}
	}
	return nil, d.bad("")
}

// escape decodes an escape, after the backslash.
func (d *decoder) escape() (rune, error) {
	if d.at == len(d.data) {
		return 0, d.bad("")
	}
	c := d.data[d.at]
	if c == 'u' {
		d.at++
		r, err := d.hex()
		if err != nil || !utf16.IsSurrogate(r) {
			return r, err
		}
		if d.at+1 < len(d.data) && d.data[d.at] == '\\' && d.data[d.at+1] == 'u' {
			back := d.at
			d.at += 2
			low, err := d.hex()
			if err != nil {
				return 0, err
			}
			if r := utf16.DecodeRune(r, low); r != utf8.RuneError {
				return r, nil
			}
			d.at = back // a separate character
		}
		return utf8.RuneError, nil
	}
	i := strings.IndexByte(`"\/bfnrt`, c)
	if i < 0 {
		return 0, d.bad("an escape character")
	}
	d.at++
	return rune("\"\\/\b\f\n\r\t"[i]), nil
}

func (d *decoder) hex() (rune, error) {
	r := rune(0)
	for range 4 {
		if d.at == len(d.data) {
			return 0, d.bad("")
		}
		n, err := strconv.ParseUint(string(d.data[d.at:d.at+1]), 16, 8)
		if err != nil {
			return 0, d.bad("a hexadecimal digit")
		}
		r = r<<4 | rune(n)
		d.at++
	}
	return r, nil
}

// bad returns a JSON syntax error.
func (d *decoder) bad(want string) error {
	if d.at >= len(d.data) {
		return &FormatError{Text: "unexpected end of file in the JSON object"}
	}
	return &FormatError{Text: fmt.Sprintf("byte %d: expected %[3]s, found %[2]q", d.at+1, d.data[d.at:d.at+1], want)}
}

// here is the path of a value relative to itself; enclosing values prepend their parts.
const here = "."

// wrong returns the error for a value of the wrong type.
func (d *decoder) wrong(at int, have string, v reflect.Value) error {
	return &FormatError{Path: here, Text: fmt.Sprintf("byte %d: expected %[3]s, found %[2]s", at+1, have, kindName(v.Kind()))}
}

// under prepends a key or an index to the path of an error.
func under(part string, err error) error {
	f, ok := err.(*FormatError)
	switch {
	case !ok || f.Path == "":
	case f.Path == here:
		f.Path = part
	case f.Path[0] == '[':
		f.Path = part + f.Path
	default:
		f.Path = part + "." + f.Path
	}
	return err
}

// kindName returns the name of a Go kind in JSON terms.
func kindName(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "an integer in range"
}
