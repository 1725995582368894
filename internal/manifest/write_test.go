package manifest

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
)

// encoded is what encoding/json makes of a value.
func encoded(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

func written(v any) string {
	w := &writer{fields: map[reflect.Type][]field{}}
	w.value(reflect.ValueOf(v))
	return string(w.out)
}

// TestWriterAgrees writes manifests with every field set to something, empty and
// not, as encoding/json does.
func TestWriterAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		m := &Manifest{}
		fill(r, reflect.ValueOf(m).Elem(), 5)
		if got, want := written(m), encoded(t, m); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	}
}

// fill sets a value at random; pointers end at a depth of 0.
func fill(r *rand.Rand, v reflect.Value, depth int) {
	if r.IntN(5) == 0 {
		return
	}
	texts := []string{"", "a", "say \"x\"\\\n", "<&>", "\x00\x1f\x7f", "\xff\xc3", "é\u2028\u2029\U0001F600"}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(r, v.Field(i), depth)
		}
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem(), depth-1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		for i := range v.Len() {
			if depth > 0 {
				fill(r, v.Index(i), depth-1)
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(3) {
			v.SetMapIndex(reflect.ValueOf(texts[r.IntN(len(texts)-2)]), reflect.ValueOf(texts[r.IntN(len(texts))]))
		}
	case reflect.String:
		v.SetString(texts[r.IntN(len(texts))])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int64() - r.Int64())
	default:
		v.SetUint(r.Uint64())
	}
}

func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\\b\f\n\r\t\x00\x1e", "\xff", "\xe2\x80\xa8", "\xe2\x80", "�"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := written(s), encoded(t, s); got != want {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
	})
}
