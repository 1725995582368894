// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"btc/internal/aggregate"
)

// sample is a manifest that uses every feature.
func sample() *Manifest {
	u64 := Layout{Kind: "int", Size: 8}
	stack := Layout{Kind: "kstack", Size: 8, Stack: "stack_k", Depth: 127}
	return &Manifest{
		Schema: Schema, Compiler: "btc", Language: Language, Arches: []string{"x86_64"},
		Object: Object{SHA256: strings.Repeat("0f", 32), Size: 10},
		Script: Script{File: "x.bt", Source: "begin { exit(); }"},
		Programs: []Program{
			{Name: "p0", Section: "kprobe/f", Kind: "kprobe", Attach: Attach{Text: "kprobe:f", Name: "f"}},
			{Name: "p1", Section: "perf_event", Kind: "interval", Attach: Attach{Text: "interval:s:1", Unit: "s", Count: 1}},
		},
		Maps: []Map{
			{
				Name:       "@x",
				Symbol:     "m_x",
				Shape:      "plain",
				Type:       "hash",
				KeySize:    24,
				ValueSize:  8,
				MaxEntries: 4096,
				Present:    -1,
				Key: &Layout{Kind: "tuple", Size: 24, Fields: []Field{
					{Off: 0, Layout: u64}, {Off: 8, Layout: Layout{Kind: "string", Size: 16}}}},
				Value: &stack,
			},
			{Name: "@h", Symbol: "m_h", Shape: "hist", Type: "percpu_array", KeySize: 4, ValueSize: 8 * 66, MaxEntries: 2, Gens: 2, Present: -1},
			{Name: "stack_k", Symbol: "stack_k", Shape: "stack", Type: "hash", KeySize: 8, ValueSize: 127 * 8, MaxEntries: 100, Depth: 127, Present: -1},
			{Name: "events", Symbol: "events", Shape: "intern", Type: "ringbuf", MaxEntries: 1 << 18, Present: -1},
			{
				Name:       "@c",
				Symbol:     "m_c",
				Shape:      "count",
				Type:       "percpu_hash",
				KeySize:    8,
				ValueSize:  8,
				MaxEntries: 4096,
				Present:    -1,
				Key:        &u64,
				Cache:      &PerCPUCache{Enable: "caches", Global: "front", CPUs: 2, Slots: 4, SlotSize: 16, KeyOff: 8},
			},
		},
		Events: []Event{
			{ID: 0, Kind: "printf", Format: "%s %d", Size: 24, Tail: true, Fields: []Field{
				{Off: 8, Var: true, Layout: Layout{Kind: "string", Size: 64}}, {Off: 16, Layout: u64}}},
			{ID: 1, Kind: "print_map", Map: "@x", Size: 8},
		},
		Params: []Param{{Name: "$1", Type: "int", Global: "param_1", Size: 8}},
		Globals: []Global{
			{Name: "gen", Section: ".bss", Size: 4},
			{Name: "front", Section: ".bss", Size: 128},
			{Name: "caches", Section: ".rodata", Size: 8},
		},
		Losses: []Loss{{Kind: "events"}, {Kind: "map", Map: "@x"}},
	}
}

func TestRoundTrip(t *testing.T) {
	want := sample()
	data, err := write(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	again, _ := write(got)
	if string(again) != string(data) {
		t.Error("writing the same manifest twice gave different bytes")
	}
}

// TestShortValues checks that a value shorter than 8 bytes must not have a word that marks it as set.
func TestShortValues(t *testing.T) {
	m := sample()
	m.Maps[0].ValueSize, m.Maps[0].Value = 4, &Layout{Kind: "string", Size: 4}
	if err := m.Validate(); err != nil {
		t.Error(err)
	}
}

func TestFormatsHoldAnyByte(t *testing.T) {
	m := sample()
	m.Events[0].Format = "\xff%s\x00%d\n"
	data, err := write(m)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(m, got); d != "" {
		t.Error(d)
	}
}

func TestUnknownKeysAreIgnored(t *testing.T) {
	data, _ := write(sample())
	data = []byte(strings.Replace(string(data), "{", `{"later": [1, {"x": null}],`, 1))
	if _, err := Parse(data); err != nil {
		t.Error(err)
	}
}

func TestErrorsNameTheirPath(t *testing.T) {
	for _, tc := range []struct {
		path  string
		spoil func(*Manifest)
	}{
		{"schema", func(m *Manifest) { m.Schema = "btc/2" }},
		{"requires[0]", func(m *Manifest) { m.Requires = []string{"teleport"} }},
		{"object.sha256", func(m *Manifest) { m.Object.SHA256 = "xyz" }},
		{"programs[0].kind", func(m *Manifest) { m.Programs[0].Kind = "kprob" }},
		{"programs[1].name", func(m *Manifest) { m.Programs[1].Name = "p0" }},
		{"programs[0].name", func(m *Manifest) { m.Programs[0].Name = "a/b" }},
		{"programs[1].attach.unit", func(m *Manifest) { m.Programs[1].Attach.Unit = "weeks" }},
		{"programs[1].attach.count", func(m *Manifest) { m.Programs[1].Attach.Count = 0 }},
		{"programs[0].attach.missing", func(m *Manifest) { m.Programs[0].Attach.Missing = "cry" }},
		{"maps[0].key_size", func(m *Manifest) { m.Maps[0].KeySize = -1 }},
		{"maps[0].key.size", func(m *Manifest) { m.Maps[0].KeySize = 16 }},
		{"maps[0].key.fields[1].off", func(m *Manifest) { m.Maps[0].Key.Fields[1].Off = 9 }},
		{"maps[0].key.fields[1].off", func(m *Manifest) { m.Maps[0].Key.Fields[1].Off = -8 }},
		{"maps[0].value.stack", func(m *Manifest) { m.Maps[0].Value.Stack = "none" }},
		{"maps[0].value_size", func(m *Manifest) { m.Maps[0].ValueOff = 8 }},
		{"maps[0].max_entries", func(m *Manifest) { m.Maps[0].MaxEntries = 1 << 40 }},
		{"maps[1].value_size", func(m *Manifest) { m.Maps[1].ValueSize = 8 }},
		{"maps[1].bits", func(m *Manifest) { m.Maps[1].Bits = 60 }},
		{"maps[1].gen_off", func(m *Manifest) { m.Maps[1].GenOff = 4 }},
		{"maps[1].key", func(m *Manifest) { m.Maps[1].Type = "hash" }},
		{"maps[2].depth", func(m *Manifest) { m.Maps[2].Depth = 1 << 20 }},
		{"maps[3]", func(m *Manifest) { m.Maps[3].Name = "@x" }},
		{"maps[4].stored", func(m *Manifest) { m.Maps[4].Cache, m.Maps[4].Stored = nil, &Stored{KeySize: 8} }},
		{"maps[4].front", func(m *Manifest) { m.Maps[4].Type = "hash" }},
		{"maps[4].front.global", func(m *Manifest) { m.Maps[4].Cache.Global = "none" }},
		{"maps[4].front.global", func(m *Manifest) { m.Maps[4].Cache.Slots = 5 }},
		{"maps[4].front.enable", func(m *Manifest) { m.Maps[4].Cache.Enable = "none" }},
		{"maps[4].front.enable", func(m *Manifest) { m.Maps[4].Cache.Enable = "gen" }},
		{"maps[4].front.cpus", func(m *Manifest) { m.Maps[4].Cache.CPUs = -1 }},
		{"maps[4].front.slot_size", func(m *Manifest) { m.Maps[4].Cache.SlotSize = 0 }},
		{"maps[4].front.value_off", func(m *Manifest) { m.Maps[4].Cache.ValueOff = 9 }},
		{"maps[4].front.key_off", func(m *Manifest) { m.Maps[4].Cache.KeyOff = -8 }},
		{"events[0].fields[1].off", func(m *Manifest) { m.Events[0].Fields[1].Off = 17 }},
		{"events[0].fields[0].off", func(m *Manifest) { m.Events[0].Fields[0].Off = 4 }},
		{"events[0].fields[0].var", func(m *Manifest) { m.Events[0].Tail = false }},
		{"events[1].map", func(m *Manifest) { m.Events[1].Map = "events" }},
		{"events[1].id", func(m *Manifest) { m.Events[1].ID = 7 }},
		{"params[0].size", func(m *Manifest) { m.Params[0].Size = 3 }},
		{"fields[1].insn", func(m *Manifest) { m.Fields = []FieldUse{{Program: "p0"}, {Program: "p0", Insn: -1}} }},
		{"maps[0].key.fields[0].bit_size", func(m *Manifest) { f := &m.Maps[0].Key.Fields[0]; f.Layout.Kind, f.BitSize = "string", 1 }},
		{"maps[0].key.fields[0].bit_size", func(m *Manifest) { f := &m.Maps[0].Key.Fields[0]; f.BitSize, f.BitOff = 8*f.Layout.Size+1, 0 }},
		{"maps[0].key.fields[0].bit_size", func(m *Manifest) { f := &m.Maps[0].Key.Fields[0]; f.BitSize, f.BitOff = 8*f.Layout.Size-2, 3 }},
		{"maps[0].key.fields[0].bit_off", func(m *Manifest) { f := &m.Maps[0].Key.Fields[0]; f.BitSize, f.BitOff = 1, 64 }},
		{"", func(m *Manifest) { f := &m.Maps[0].Key.Fields[0]; f.BitSize, f.BitOff = 8*f.Layout.Size-3, 3 }},
		{"maps[0].value.size", func(m *Manifest) {
			m.Maps[0].Value = &Layout{Kind: "array", Size: 8, Count: maxValue, Elem: &Layout{Kind: "none"}}
		}},
		{"maps[0].value", func(m *Manifest) { m.Maps[0].Value = overlapping(1 << 17) }},
		{"events[0].chain[0].end_col", func(m *Manifest) { m.Events[0].Chain = []Location{{EndCol: -1}} }},
		{"losses[1].map", func(m *Manifest) { m.Losses[1].Map = "@y" }},
	} {
		m := sample()
		tc.spoil(m)
		var f *FormatError
		if err := m.Validate(); tc.path == "" && err != nil || tc.path != "" && (!errors.As(err, &f) || f.Path != tc.path) {
			t.Errorf("error = %v, want one at %s", err, tc.path)
		}
	}
}

// overlapping returns a record with n fields, all at the same offset.
func overlapping(n int) *Layout {
	l := Layout{Kind: "array", Size: 8, Count: 8, Elem: &Layout{Kind: "int", Size: 1}}
	for ; n > 1; n /= maxFields {
		r := Layout{Kind: "record", Size: 8}
		for range min(n, maxFields) {
			r.Fields = append(r.Fields, Field{Name: strings.Repeat("a", maxName), Layout: l})
		}
		l = r
	}
	return &l
}

// TestPositionsAreChecked finds each position of a manifest by its type, so a new one that Validate
// does not check fails here.
func TestPositionsAreChecked(t *testing.T) {
	fill := func() *Manifest {
		m := sample()
		m.Needs = []Need{{Feature: "loop"}}
		m.Unsafe = []Unsafe{{Name: "system"}}
		m.Fields = []FieldUse{{Program: "p0"}}
		m.Globals[0].Pos, m.Maps[0].Update, m.Losses[1].Pos = &Pos{}, &Pos{}, &Pos{}
		m.Errors = []Error{{Chain: []Location{{}}}}
		m.Losses[1].Chain, m.Events[0].Chain = []Location{{}}, []Location{{}}
		m.Programs[0].Record = []RecordUse{{}}
		return m
	}
	if err := fill().Validate(); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for n := 0; ; n++ { // the n-th position in the manifest
		m, left, path := fill(), n, ""
		eachPosition(reflect.ValueOf(m).Elem(), "", func(at string, v reflect.Value) {
			if left--; left == -1 {
				path = at
				v.FieldByName("Col").SetInt(-1 << 62)
			}
		})
		if path == "" {
			break
		}
		found[path] = true
		if m.Validate() == nil {
			t.Errorf("%s: no error for a negative column", path)
		}
	}
	// Each field of these types, wherever it is declared, must have been visited.
	declared := map[string]bool{}
	positionsOf(reflect.TypeOf(Manifest{}), "", declared)
	for path := range declared {
		if !found[path] {
			t.Errorf("%s: position missing in the manifests of this test", path)
		}
	}
}

func isPosition(t reflect.Type) bool {
	return t == reflect.TypeOf(Pos{}) || t == reflect.TypeOf(Location{})
}

// eachPosition visits the positions in v. Paths have no indices.
func eachPosition(v reflect.Value, path string, visit func(string, reflect.Value)) {
	switch {
	case isPosition(v.Type()):
		visit(path, v)
	case v.Kind() == reflect.Pointer && !v.IsNil():
		eachPosition(v.Elem(), path, visit)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			eachPosition(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			eachPosition(v.Index(i), path, visit)
		}
	}
}

// positionsOf collects the paths of the positions that a type declares.
func positionsOf(t reflect.Type, path string, found map[string]bool) {
	switch {
	case isPosition(t):
		found[path] = true
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice:
		if t.Elem() != reflect.TypeOf(Layout{}) { // Layout has no positions, and refers to itself
			positionsOf(t.Elem(), path, found)
		}
	case t.Kind() == reflect.Struct && t != reflect.TypeOf(Layout{}):
		for i := range t.NumField() {
			positionsOf(t.Field(i).Type, path+"."+t.Field(i).Name, found)
		}
	}
}

// TestMemoryIsBounded checks the memory for lists: an element may take two bytes in the file and
// hundreds in memory.
func TestMemoryIsBounded(t *testing.T) {
	for _, list := range []string{"programs", "maps", "events", "errors", "fields", "requires", "params"} {
		text := `{"schema":"btc/1","` + list + `":[` + strings.Repeat("{},", 4<<20) + `{}]}`
		if list == "requires" {
			text = strings.ReplaceAll(text, "{}", `""`)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Parse([]byte(text))
		runtime.ReadMemStats(&after)
		var f *FormatError
		if !errors.As(err, &f) || !f.Size {
			t.Errorf("%s: error = %v", list, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 5*maxMemory {
			t.Errorf("%s: Parse allocated %d MiB", list, used>>20)
		}
	}
}

func TestLayoutsDoNotNestForEver(t *testing.T) {
	m := sample()
	l := &Layout{Kind: "int", Size: 8}
	for range 40 {
		l = &Layout{Kind: "array", Size: 8, Count: 1, Elem: l}
	}
	m.Maps[0].Value = l
	if err := m.Validate(); err == nil || !strings.Contains(err.Error(), "nest") {
		t.Errorf("error = %v", err)
	}
}

func TestBadJSON(t *testing.T) {
	for in, want := range map[string]string{
		"":                                   "unexpected end of file",
		`{"schema": "btc/1"`:                 "unexpected end of file",
		`{"schema": 1}`:                      "manifest: schema:",
		`{"maps": [{"key_size": "x"}]}`:      "maps[0].key_size: byte 24: expected an integer in range, found a string",
		`{"maps": [{"key_size": 1e99}]}`:     "maps[0].key_size: byte 24: expected an integer in range, found the number 1e99",
		`{} {}`:                              "unexpected data after",
		`{}`:                                 "manifest: schema: missing",
		"\x7fELF":                            "byte 1",
		`[]`:                                 "expected an object",
		`{"schema":"btc/1","programs":[{}]}`: "object.sha256",
	} {
		_, err := Parse([]byte(in))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): error = %v, want %q", in, err, want)
		}
	}
}

// FuzzParse checks that whatever Parse accepts can be written and parsed again.
func FuzzParse(f *testing.F) {
	data, _ := write(sample())
	f.Add(data)
	f.Add([]byte(`{"schema":"btc/1","maps":[{"shape":"hist"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			return
		}
		again, err := write(m)
		if err != nil {
			t.Fatalf("parsed, but cannot be written: %v", err)
		}
		if _, err := Parse(again); err != nil {
			t.Fatalf("written, but cannot be parsed: %v", err)
		}
	})
}

// TestValidateStored checks that a map stored in another form in the kernel must have the sizes that
// this form requires.
func TestValidateStored(t *testing.T) {
	u64 := Layout{Kind: "int", Size: 8}
	stored := func() Map {
		return Map{Name: "@stored", Symbol: "stored", Shape: "hist", Type: "hash", KeySize: 8, ValueSize: 66 * 8,
			MaxEntries: 100, Key: &u64, Present: -1, Gens: 1, Pos: Pos{Line: 1, Col: 1},
			Stored: &Stored{KeySize: 16, Parts: true}}
	}
	for _, c := range []struct {
		path   string
		change func(x *Map)
	}{
		{"", func(*Map) {}},
		{"", func(x *Map) { x.Key, x.KeySize, x.Stored.KeySize = nil, 0, 8 }},
		{"", func(x *Map) { x.Stored = &Stored{KeySize: 8, Low: true} }},
		{"", func(x *Map) { x.Key, x.KeySize, x.Stored = nil, 0, &Stored{KeySize: 4} }},
		{"", func(x *Map) {
			x.Shape, x.Key, x.KeySize, x.ValueSize, x.Value, x.Stored = "plain", nil, 0, 8, &u64, &Stored{KeySize: 4}
		}},
		{"stored.key_size", func(x *Map) { x.Stored.KeySize = 8 }},
		{"stored.key_size", func(x *Map) { x.Stored = &Stored{KeySize: 4} }},
		{"stored.key_size", func(x *Map) { x.Key, x.KeySize = nil, 0 }},
		{"key_size", func(x *Map) { x.Key, x.KeySize = nil, 4 }},
		{"stored", func(x *Map) { x.Type = "array" }},
		{"stored", func(x *Map) { x.Gens = 2 }},
		{"", func(x *Map) { x.Shape, x.ValueSize, x.ValueOff = "max", 16, 8 }},
		{"value_off", func(x *Map) { x.Shape, x.ValueSize, x.ValueOff = "max", 16, 0 }},
		{"stored", func(x *Map) { x.Shape, x.ValueSize, x.ValueOff, x.Stored = "max", 16, 8, &Stored{KeySize: 8} }},
		{"stored", func(x *Map) { x.Shape, x.Value, x.ValueSize = "plain", &u64, 8 }},
		{"stored.low", func(x *Map) { x.Stored.Low = true }},
		{"stored.low", func(x *Map) {
			x.Stored, x.Bits, x.ValueSize = &Stored{KeySize: 8, Low: true}, 2, 8*aggregate.HistBuckets(2)
		}},
	} {
		m := sample()
		x := stored()
		c.change(&x)
		m.Maps, m.Requires = append(m.Maps, x), append(m.Requires, StoredMaps)
		err := m.Validate()
		want := fmt.Sprintf("maps[%d].%s", len(m.Maps)-1, c.path)
		var f *FormatError
		switch {
		case c.path == "" && err != nil:
			t.Errorf("%+v: error = %v", x, err)
		case c.path != "" && (!errors.As(err, &f) || f.Path != want):
			t.Errorf("%+v: error = %v, want one of %s", x, err, want)
		}
	}
}
