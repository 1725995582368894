// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"unicode"
)

// Maps, globals, events, program and layout metadata print as attribute lists: `(name value, flag,
// sub (…), list [(…), (…)], table {1: "A"})`. Attributes are the exported fields in snake case.
// Fields with their zero value are omitted; for a Pos that is NoPos, for a struct that all its
// fields are omitted. The list is found by reflection on the struct, so a new field of the
// contract needs no printer or parser.

var posType = reflect.TypeFor[Pos]()

// attrText prints the struct that p points to.
func attrText(p any) string {
	var sb strings.Builder
	writeStruct(&sb, reflect.ValueOf(p).Elem())
	return sb.String()
}

func writeStruct(sb *strings.Builder, s reflect.Value) {
	sb.WriteByte('(')
	sep := ""
	for _, field := range attrFields(s.Type()) {
		x := s.FieldByIndex(field.Index)
		if absent(x) {
			continue
		}
		sb.WriteString(sep + attrName(field.Name))
		sep = ", "
		if x.Kind() != reflect.Bool {
			sb.WriteByte(' ')
			writeAttr(sb, x)
		}
	}
	sb.WriteByte(')')
}

// attrFields returns the fields of a struct that are attributes, in order; those of a struct embedded by value are its own.
func attrFields(t reflect.Type) (all []reflect.StructField) {
	for i := range t.NumField() {
		switch field := t.Field(i); {
		case field.Anonymous && field.Type.Kind() == reflect.Struct:
			for _, x := range attrFields(field.Type) {
				x.Index = append([]int{i}, x.Index...)
				all = append(all, x)
			}
		case field.IsExported():
			all = append(all, field)
		}
	}
	return all
}

func absent(x reflect.Value) bool {
	switch {
	case x.Type() == posType:
		return x.Interface() == NoPos
	case x.Kind() == reflect.Struct:
		for i := range x.NumField() {
			if x.Type().Field(i).IsExported() && !absent(x.Field(i)) {
				return false
			}
		}
		return true
	case x.Kind() == reflect.Slice || x.Kind() == reflect.Map:
		return x.Len() == 0
	}
	return x.IsZero()
}

func writeAttr(sb *strings.Builder, x reflect.Value) {
	switch x.Kind() {
	case reflect.String:
		sb.WriteString(word(x.String()))
	case reflect.Bool:
		sb.WriteString(strconv.FormatBool(x.Bool()))
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Int16, reflect.Int8:
		sb.WriteString(strconv.FormatInt(x.Int(), 10))
	case reflect.Uint64, reflect.Uint32, reflect.Uint16, reflect.Uint8, reflect.Uint:
		sb.WriteString(strconv.FormatUint(x.Uint(), 10))
	case reflect.Pointer:
		writeStruct(sb, x.Elem())
	case reflect.Struct:
		if x.Type() == posType {
			p := x.Interface().(Pos)
			fmt.Fprintf(sb, "!%d:%d#%d", p.Line, p.Col, p.Stmt)
			if p.Site > 0 {
				fmt.Fprintf(sb, "^%d", p.Site)
			}
			return
		}
		writeStruct(sb, x)
	case reflect.Slice:
		if x.Type().Elem().Kind() == reflect.Uint8 {
			sb.WriteString(strconv.Quote(string(x.Bytes())))
			return
		}
		writeList(sb, x)
	case reflect.Map:
		writeTable(sb, x)
	default:
		panic(fmt.Sprintf("BUG: attribute of type %s has no text form", x.Type()))
	}
}

func writeList(sb *strings.Builder, x reflect.Value) {
	sb.WriteByte('[')
	for i := range x.Len() {
		if i > 0 {
			sb.WriteString(", ")
		}
		writeAttr(sb, x.Index(i))
	}
	sb.WriteByte(']')
}

func writeTable(sb *strings.Builder, x reflect.Value) {
	keys := x.MapKeys()
	sort.Slice(keys, func(i, j int) bool {
		if keys[i].Kind() == reflect.String {
			return keys[i].String() < keys[j].String()
		}
		return keys[i].Int() < keys[j].Int()
	})
	sb.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			sb.WriteString(", ")
		}
		writeAttr(sb, k)
		sb.WriteString(": ")
		writeAttr(sb, x.MapIndex(k))
	}
	sb.WriteByte('}')
}

// attrName returns the snake-case name of a field: MaxEntries is max_entries.
func attrName(field string) string {
	var sb strings.Builder
	for i, r := range field {
		if unicode.IsUpper(r) && i > 0 && !unicode.IsUpper(rune(field[i-1])) {
			sb.WriteByte('_')
		}
		sb.WriteRune(unicode.ToLower(r))
	}
	return sb.String()
}

// attrs reads an attribute list into the struct that p points to.
func (p *parser) attrs(into any) { p.structAttrs(reflect.ValueOf(into).Elem()) }

// noPositions sets each Pos of a new struct to NoPos, which is not printed.
func noPositions(s reflect.Value) {
	for i := range s.NumField() {
		switch field := s.Field(i); {
		case field.Type() == posType:
			field.Set(reflect.ValueOf(NoPos))
		case field.Kind() == reflect.Struct:
			noPositions(field)
		}
	}
}

func (p *parser) structAttrs(s reflect.Value) {
	fields := map[string]reflect.Value{}
	for _, field := range attrFields(s.Type()) {
		fields[attrName(field.Name)] = s.FieldByIndex(field.Index)
	}
	noPositions(s)
	p.want("(")
	for !p.take(")") {
		name := p.word("attribute")
		x, ok := fields[name]
		if !ok {
			p.fail("unknown attribute %q in %s", name, s.Type())
		}
		if x.Kind() == reflect.Bool {
			x.SetBool(true)
		} else {
			p.attr(x)
		}
		if !p.take(",") && !p.is(")") {
			p.fail("expected , or ) after attribute %s", name)
		}
	}
}

func (p *parser) attr(x reflect.Value) {
	switch x.Kind() {
	case reflect.String:
		x.SetString(p.text())
	case reflect.Bool:
		x.SetBool(p.word("true or false") == "true")
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Int16, reflect.Int8:
		x.SetInt(p.int())
	case reflect.Uint64, reflect.Uint32, reflect.Uint16, reflect.Uint8, reflect.Uint:
		x.SetUint(p.uint())
	case reflect.Pointer:
		x.Set(reflect.New(x.Type().Elem()))
		p.structAttrs(x.Elem())
	case reflect.Struct:
		if x.Type() == posType {
			x.Set(reflect.ValueOf(p.pos()))
			return
		}
		p.structAttrs(x)
	case reflect.Slice:
		if x.Type().Elem().Kind() == reflect.Uint8 {
			x.SetBytes([]byte(p.text()))
			return
		}
		p.want("[")
		for !p.take("]") {
			e := reflect.New(x.Type().Elem()).Elem()
			p.attr(e)
			x.Set(reflect.Append(x, e))
			p.take(",")
		}
	case reflect.Map:
		p.table(x)
	}
}

func (p *parser) table(x reflect.Value) {
	x.Set(reflect.MakeMap(x.Type()))
	p.want("{")
	for !p.take("}") {
		k, e := reflect.New(x.Type().Key()).Elem(), reflect.New(x.Type().Elem()).Elem()
		p.attr(k)
		p.want(":")
		p.attr(e)
		x.SetMapIndex(k, e)
		p.take(",")
	}
}
