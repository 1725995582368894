package manifest

import (
	"encoding/base64"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// writer writes values as the encoder of encoding/json does with an indent of one
// space and without escapes for HTML. It looks at the types it meets only, where
// that encoder first prepares itself for all that could come: most of the time
// that a small manifest takes.
type writer struct {
	out    []byte
	depth  int
	fields map[reflect.Type][]field
}

// field is a field of a struct that is written.
type field struct {
	index int
	key   string // quoted, with the colon
	empty bool   // also when it is empty
}

func (w *writer) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		w.object(v)
	case reflect.Pointer:
		if v.IsNil() {
			w.text("null")
			return
		}
		w.value(v.Elem())
	case reflect.Slice:
		w.slice(v)
	case reflect.Map:
		w.dictionary(v.Interface().(map[string]string))
	case reflect.String:
		w.quote(v.String())
	case reflect.Bool:
		w.out = strconv.AppendBool(w.out, v.Bool())
	case reflect.Int, reflect.Int64:
		w.out = strconv.AppendInt(w.out, v.Int(), 10)
	case reflect.Uint64:
		w.out = strconv.AppendUint(w.out, v.Uint(), 10)
	default:
		panic("BUG: a manifest has no " + v.Kind().String())
	}
}

func (w *writer) text(s string) { w.out = append(w.out, s...) }

// next starts the line of the next element; first opens the list.
func (w *writer) next(first bool, open byte) {
	if first {
		w.out = append(w.out, open)
		w.depth++
	} else {
		w.out = append(w.out, ',')
	}
	w.line()
}

// end closes a list; one without an element is only the two brackets.
func (w *writer) end(empty bool, open, shut byte) {
	if empty {
		w.out = append(w.out, open, shut)
		return
	}
	w.depth--
	w.line()
	w.out = append(w.out, shut)
}

func (w *writer) line() {
	w.out = append(w.out, '\n')
	for range w.depth {
		w.out = append(w.out, ' ')
	}
}

func (w *writer) object(v reflect.Value) {
	first := true
	for _, f := range w.fieldsOf(v.Type()) {
		x := v.Field(f.index)
		if !f.empty && isEmpty(x) {
			continue
		}
		w.next(first, '{')
		first = false
		w.text(f.key)
		w.value(x)
	}
	w.end(first, '{', '}')
}

// isEmpty is what the option omitempty means: false, 0, nil, and what has no element.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

func (w *writer) fieldsOf(t reflect.Type) []field {
	if have, ok := w.fields[t]; ok {
		return have
	}
	all := make([]field, t.NumField())
	for i := range all {
		name, option, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		all[i] = field{i, `"` + name + `": `, option != "omitempty"}
	}
	w.fields[t] = all
	return all
}

func (w *writer) slice(v reflect.Value) {
	if v.IsNil() {
		w.text("null")
		return
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		w.text(`"` + base64.StdEncoding.EncodeToString(v.Bytes()) + `"`)
		return
	}
	for i := range v.Len() {
		w.next(i == 0, '[')
		w.value(v.Index(i))
	}
	w.end(v.Len() == 0, '[', ']')
}

func (w *writer) dictionary(m map[string]string) {
	if m == nil {
		w.text("null")
		return
	}
	for i, k := range slices.Sorted(maps.Keys(m)) {
		w.next(i == 0, '{')
		w.quote(k)
		w.text(": ")
		w.quote(m[k])
	}
	w.end(len(m) == 0, '{', '}')
}

// quote writes a string. Bytes that are no UTF-8 become U+FFFD, and the two line
// ends that JavaScript knows and JSON does not are escaped.
func (w *writer) quote(s string) {
	const hex = "0123456789abcdef"
	w.out = append(w.out, '"')
	from := 0 // what is copied as it is
	escape := func(at, size int, text string) {
		w.text(s[from:at])
		w.text(text)
		from = at + size
	}
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				escape(i, size, `\ufffd`)
			case r == '\u2028' || r == '\u2029':
				escape(i, size, `\u202`+string(hex[r&0xf]))
			}
			i += size
			continue
		}
		switch short := strings.IndexByte("\"\\\b\f\n\r\t", c); {
		case short >= 0:
			escape(i, 1, `\`+`"\bfnrt`[short:short+1])
		case c < ' ':
			escape(i, 1, `\u00`+string(hex[c>>4])+string(hex[c&0xf]))
		}
		i++
	}
	w.text(s[from:])
	w.out = append(w.out, '"')
}
