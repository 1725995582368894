// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// MaxBytes is the largest manifest that a reader accepts. A manifest contains the script's source and a few hundred
// bytes for each program, map and event.
const MaxBytes = 16 << 20

// FormatError is an error in a manifest: Path is its location in the JSON ("maps[3].key.size"),
// empty for the whole file.
type FormatError struct {
	Path string
	Text string
	// Size: a size or a number of entries exceeds the limits of a manifest.
	Size bool
}

func (f *FormatError) Error() string {
	if f.Path == "" {
		return "manifest: " + f.Text
	}
	return "manifest: " + f.Path + ": " + f.Text
}

// Parse reads a manifest and validates it: its result can be used without further checks of sizes, offsets and
// counts. Its error is a *FormatError.
func Parse(data []byte) (*Manifest, error) {
	if len(data) > MaxBytes {
		return nil, &FormatError{
			Text: fmt.Sprintf("manifest too large: %d bytes (max %d)", len(data), MaxBytes),
		}
	}
	m := new(Manifest)
	if err := decode(data, m); err != nil {
		return nil, err
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

// File returns m in the form that is written to the file: event formats that are not UTF-8 are in
// FormatBytes, because JSON strings are UTF-8.
func (m *Manifest) File() *Manifest {
	file := *m
	file.Events = slices.Clone(m.Events)
	for i := range file.Events {
		if e := &file.Events[i]; !utf8.ValidString(e.Format) {
			e.Format, e.FormatBytes = "", []byte(e.Format)
		}
	}
	return &file
}

// EmptyTime is the required feature of files in which a time event without a format means
// the empty format. In files without it, such an event means the default format, %H:%M:%S and a newline.
const EmptyTime = "empty-time"

// StoredMaps is the required feature of files that have Map.Stored.
const StoredMaps = "stored-maps"

// features are the entries of Requires that this version knows.
var features = []string{
	"host-values",   // globals with Host
	"attach-params", // Attach.Substitute
	"given-params",  // Given
	TextParams,
	"front-tables", // Map.Cache without Enable
	EmptyTime,
	StoredMaps,
}

// Knows reports whether this version of the package understands a required feature.
func Knows(feature string) bool { return slices.Contains(features, feature) }

// Map finds a map by its name in the language or, for internal maps, by name, or nil if there is none.
func (m *Manifest) Map(name string) *Map {
	for i := range m.Maps {
		if m.Maps[i].Name == name {
			return &m.Maps[i]
		}
	}
	return nil
}

// Resets reports whether the script clears a map, or sets its values to zero.
func (m *Manifest) Resets(x *Map) bool {
	for i := range m.Events {
		if e := &m.Events[i]; e.Map == x.Name && (e.Kind == "clear" || e.Kind == "zero") {
			return true
		}
	}
	return false
}

// MapSymbol returns the ELF symbol of the map that the manifest calls name: name itself where it
// names no such map.
func (m *Manifest) MapSymbol(name string) string {
	if x := m.Map(name); x != nil {
		return x.Symbol
	}
	return name
}

// EachLayout visits the layouts of all values, including nested ones, each with the position of its map or event.
func (m *Manifest) EachLayout(visit func(*Layout, Pos)) {
	var walk func(*Layout, Pos)
	walk = func(l *Layout, pos Pos) {
		if l == nil {
			return
		}
		visit(l, pos)
		walk(l.Elem, pos)
		for i := range l.Fields {
			walk(&l.Fields[i].Layout, pos)
		}
	}
	for i := range m.Maps {
		walk(m.Maps[i].Key, m.Maps[i].Pos)
		walk(m.Maps[i].Value, m.Maps[i].Pos)
	}
	for i := range m.Events {
		for j := range m.Events[i].Fields {
			walk(&m.Events[i].Fields[j].Layout, m.Events[i].Pos)
		}
	}
}

// CopiesWhole reports whether any value is a whole struct or union of the kernel.
func (m *Manifest) CopiesWhole() bool {
	whole := false
	m.EachLayout(func(l *Layout, _ Pos) { whole = whole || l.CORE != "" })
	return whole
}

// Event finds an event by ID, or nil if there is none.
func (m *Manifest) Event(id int) *Event {
	if id < 0 || id >= len(m.Events) {
		return nil
	}
	return &m.Events[id]
}

// Global finds a global by name, or nil if there is none.
func (m *Manifest) Global(name string) *Global {
	for i := range m.Globals {
		if m.Globals[i].Name == name {
			return &m.Globals[i]
		}
	}
	return nil
}
