// SPDX-License-Identifier: Apache-2.0

// Package output checks the output of the loader whatever the traced programs do: JSON is valid and
// matches the published schema, names have no effect on a terminal, and a run neither crashes nor
// hangs.
package output

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// schema is a JSON Schema. Only the few keywords that docs/json2.schema.json uses are supported; others
// are an error, so that no part of the schema is ignored.
type schema struct {
	root any
}

func readSchema(path string) (*schema, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &schema{}
	return s, json.Unmarshal(b, &s.root)
}

// check returns an error if v, decoded with UseNumber, does not match the schema.
func (s *schema) check(v any) error { return s.apply(s.root, v, "line") }

func (s *schema) apply(rule, v any, at string) error {
	r, ok := rule.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: schema %v is not an object", at, rule)
	}
	for word, arg := range r {
		if err := s.word(r, word, arg, v, at); err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) word(r map[string]any, word string, arg, v any, at string) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...))
	}
	switch word {
	case "$schema", "title", "description", "$defs":
	case "$ref":
		name := strings.TrimPrefix(arg.(string), "#/$defs/")
		return s.apply(s.root.(map[string]any)["$defs"].(map[string]any)[name], v, at)
	case "type":
		kinds, many := arg.([]any)
		if !many {
			kinds = []any{arg}
		}
		if !slices.Contains(kinds, any(kindOf(v))) {
			return fail("a %s, not %v", kindOf(v), arg)
		}
	case "enum":
		if !slices.Contains(arg.([]any), v) {
			return fail("%v is none of %v", v, arg)
		}
	case "const":
		if v != arg {
			return fail("%v is not %v", v, arg)
		}
	case "minimum":
		number, _ := v.(json.Number)
		n, err := number.Int64()
		if err != nil || float64(n) < arg.(float64) {
			return fail("%v is less than %v", v, arg)
		}
	case "pattern":
		if text, ok := v.(string); ok && !regexp.MustCompile(arg.(string)).MatchString(text) {
			return fail("%q does not match %s", text, arg)
		}
	case "required":
		members, _ := v.(map[string]any)
		for _, name := range arg.([]any) {
			if _, ok := members[name.(string)]; !ok {
				return fail("no %s", name)
			}
		}
	case "items":
		list, _ := v.([]any)
		for i, item := range list {
			if err := s.apply(arg, item, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case "properties", "additionalProperties":
		return s.members(r, word, v, at)
	case "anyOf", "oneOf":
		return s.choice(word, arg.([]any), v, at)
	default:
		return fail("the word %q of the schema is not known here", word)
	}
	return nil
}

func (s *schema) members(r map[string]any, word string, v any, at string) error {
	named, _ := r["properties"].(map[string]any)
	members, _ := v.(map[string]any)
	for name, m := range members {
		rule, known := named[name]
		switch {
		case known != (word == "properties"): // handled by the other keyword
			continue
		case !known && r[word] == false:
			return fmt.Errorf("%s: unexpected member %q", at, name)
		case !known:
			rule = r[word]
		}
		if err := s.apply(rule, m, at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) choice(word string, rules []any, v any, at string) error {
	var reasons []string
	fits := 0
	for _, rule := range rules {
		if err := s.apply(rule, v, at); err != nil {
			reasons = append(reasons, err.Error())
		} else {
			fits++
		}
	}
	if fits == 0 || word == "oneOf" && fits > 1 {
		return fmt.Errorf("%s: %d of the alternatives match: %s", at, fits, strings.Join(reasons, "; "))
	}
	return nil
}

// kindOf returns the JSON Schema type of a value.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return "number"
		}
		return "integer"
	case []any:
		return "array"
	}
	return "object"
}
