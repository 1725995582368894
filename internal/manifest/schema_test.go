// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/manifest.schema.json")

const schemaFile = "../../docs/manifest.schema.json"

// TestPublishedSchema checks that the published schema is the one generated from the Go types and their
// comments.
func TestPublishedSchema(t *testing.T) {
	docs := typeDocs(t)
	defs := map[string]any{}
	root := schemaOf(reflect.TypeFor[Manifest](), docs, defs)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "btc manifest " + Schema
	delete(defs, "Manifest")
	root["$defs"] = defs
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(root); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(schemaFile, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, b.Bytes()) {
		t.Errorf("%s is out of date: run go test ./internal/manifest -update", schemaFile)
	}
}

// typeDocs returns the comments of the fields of the types: "Type.Field" -> comment.
func typeDocs(t *testing.T) map[string]string {
	f, err := parser.ParseFile(token.NewFileSet(), "manifest.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		g, ok := n.(*ast.GenDecl)
		if !ok {
			return true
		}
		for _, s := range g.Specs {
			ts, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			docs[ts.Name.Name] = flat(g.Doc.Text())
			st, ok := ts.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, fd := range st.Fields.List {
				for _, name := range fd.Names {
					docs[ts.Name.Name+"."+name.Name] = flat(fd.Doc.Text() + fd.Comment.Text())
				}
			}
		}
		return false
	})
	return docs
}

func flat(s string) string { return strings.Join(strings.Fields(s), " ") }

func schemaOf(typ reflect.Type, docs map[string]string, defs map[string]any) map[string]any {
	if typ == reflect.TypeFor[HostValue]() {
		return map[string]any{"type": "string", "enum": HostValues[:numOfText]}
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return schemaOf(typ.Elem(), docs, defs)
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "contentEncoding": "base64"}
		}
		return map[string]any{"type": []string{"array", "null"}, "items": schemaOf(typ.Elem(), docs, defs)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(typ.Elem(), docs, defs)}
	case reflect.Struct:
		return structSchema(typ, docs, defs)
	}
	return map[string]any{"type": "integer"}
}

func structSchema(typ reflect.Type, docs map[string]string, defs map[string]any) map[string]any {
	ref := map[string]any{"$ref": "#/$defs/" + typ.Name()}
	if _, ok := defs[typ.Name()]; ok {
		return ref
	}
	props, required := map[string]any{}, []string{}
	out := map[string]any{"type": "object", "description": docs[typ.Name()], "properties": props}
	defs[typ.Name()] = out
	for _, f := range reflect.VisibleFields(typ) {
		if f.Anonymous {
			continue
		}
		owner := typ
		if n := len(f.Index); n > 1 {
			owner = typ.FieldByIndex(f.Index[:n-1]).Type
		}
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := schemaOf(f.Type, docs, defs)
		if d := docs[owner.Name()+"."+f.Name]; d != "" {
			p["description"] = d
		}
		props[name] = p
		if opts != "omitempty" {
			required = append(required, name)
		}
	}
	out["required"] = required
	if typ.Name() == "Manifest" {
		return out
	}
	return ref
}

// TestHostValuesAreDocumented checks that the documents name each host value, and that the list has each once.
func TestHostValuesAreDocumented(t *testing.T) {
	for i, h := range HostValues {
		page := "../../docs/manifest.md"
		if h.Named() {
			page = "../../docs/layouts.md"
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "`"+string(h)+"`") || h.index() != i {
			t.Errorf("%s is not in %s, or twice in the list", h, page)
		}
	}
	if HostValues[numOfText] != HostStart {
		t.Errorf("the first value without a text is %s", HostValues[numOfText])
	}
}
