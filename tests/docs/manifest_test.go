// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"btc/internal/manifest"
)

var keyRow = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\|")

// TestManifestPage checks that docs/manifest.md has a section (###) for each type of the manifest, with
// exactly one row per key, in the order of the type.
func TestManifestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/manifest.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string][]string{}
	for _, s := range strings.Split(string(page), "\n### ")[1:] {
		name, text, _ := strings.Cut(s, "\n")
		var keys []string
		for _, m := range keyRow.FindAllStringSubmatch(text, -1) {
			keys = append(keys, m[1])
		}
		sections[name] = keys
	}
	for _, typ := range structsOf(reflect.TypeFor[manifest.Manifest](), nil) {
		want := keysOf(typ)
		if have := sections[typ.Name()]; !slices.Equal(have, want) {
			t.Errorf("section %s has the keys %q, want %q", typ.Name(), have, want)
		}
		delete(sections, typ.Name())
	}
	for name := range sections {
		t.Errorf("section %s: no such type", name)
	}
}

// structsOf returns the struct types that typ consists of.
func structsOf(typ reflect.Type, known []reflect.Type) []reflect.Type {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || slices.Contains(known, typ) {
		return known
	}
	known = append(known, typ)
	for i := range typ.NumField() {
		if f := typ.Field(i); !f.Anonymous { // see keysOf
			known = structsOf(f.Type, known)
		}
	}
	return known
}

func keysOf(typ reflect.Type) []string {
	var keys []string
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Anonymous { // its keys are those of the type that embeds it
			keys = append(keys, keysOf(f.Type)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		keys = append(keys, name)
	}
	return keys
}
