package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxBytes is the largest manifest a reader takes. A manifest holds the script's
// text and a few hundred bytes for each program, map and event.
const MaxBytes = 16 << 20

// Fault is what is wrong with a manifest and where: Path is the place in the
// JSON ("maps[3].key.size"), empty when the whole file is meant.
type Fault struct {
	Path string
	Text string
	// Size: something is larger than a manifest may hold, or more of it.
	Size bool
}

func (f *Fault) Error() string {
	if f.Path == "" {
		return "manifest: " + f.Text
	}
	return "manifest: " + f.Path + ": " + f.Text
}

// Parse reads a manifest and validates it: what it returns is safe to act upon
// without further checks of sizes, offsets and counts. Its error is a *Fault.
func Parse(data []byte) (*Manifest, error) {
	if len(data) > MaxBytes {
		return nil, &Fault{Text: fmt.Sprintf("%d bytes are more than the %d a manifest may have", len(data), MaxBytes)}
	}
	m := new(Manifest)
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(m); err != nil {
		return nil, jsonFault(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, &Fault{Text: "text after the end of the JSON object"}
	}
	for i := range m.Events {
		if e := &m.Events[i]; len(e.FormatBytes) > 0 {
			e.Format, e.FormatBytes = string(e.FormatBytes), nil
		}
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return m, nil
}

// Marshal validates m and gives its file: indented JSON with a newline at the
// end. The same manifest gives the same bytes.
func Marshal(m *Manifest) ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	file := *m
	file.Events = slices.Clone(m.Events)
	for i := range file.Events {
		if e := &file.Events[i]; !utf8.ValidString(e.Format) {
			e.Format, e.FormatBytes = "", []byte(e.Format)
		}
	}
	w := &writer{fields: map[reflect.Type][]field{}}
	w.value(reflect.ValueOf(&file))
	return append(w.out, '\n'), nil
}

func jsonFault(err error) error {
	var syn *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syn):
		return &Fault{Text: fmt.Sprintf("byte %d: %s", syn.Offset, strings.TrimPrefix(syn.Error(), "json: "))}
	case errors.As(err, &typ):
		return &Fault{Path: typ.Field, Text: fmt.Sprintf("byte %d: a %s where %s is needed", typ.Offset, typ.Value, goKind(typ.Type.Kind().String()))}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &Fault{Text: "the file ends in the middle of the JSON object"}
	}
	return &Fault{Text: err.Error()}
}

// goKind puts a Go kind in JSON's words.
func goKind(k string) string {
	switch k {
	case "string":
		return "a string"
	case "bool":
		return "true or false"
	case "slice":
		return "an array"
	case "struct", "map", "ptr":
		return "an object"
	}
	return "a whole number in range"
}

// features are the entries of Requires that this version knows.
var features = []string{
	"host-values",   // globals with Host
	"attach-params", // Attach.Fill
	"given-params",  // Given
	"front-tables",  // Map.Front
}

// Knows reports whether this version of the package understands a required feature.
func Knows(feature string) bool { return slices.Contains(features, feature) }

// Map finds a map by its name in the language or, for internal maps, by name; nil when there is none.
func (m *Manifest) Map(name string) *Map {
	for i := range m.Maps {
		if m.Maps[i].Name == name {
			return &m.Maps[i]
		}
	}
	return nil
}

// Event finds an event by ID; nil when there is none.
func (m *Manifest) Event(id int) *Event {
	if id < 0 || id >= len(m.Events) {
		return nil
	}
	return &m.Events[id]
}

// Global finds a global by name; nil when there is none.
func (m *Manifest) Global(name string) *Global {
	for i := range m.Globals {
		if m.Globals[i].Name == name {
			return &m.Globals[i]
		}
	}
	return nil
}
