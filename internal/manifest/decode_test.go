// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// strings are inputs that are, or almost are, JSON with contents of a manifest.
var texts = []string{
	`{"schema":"a","maps":[{"name":"@x","key_size":8,"key":{"kind":"int","size":8}},{}],"params":null}`,
	`{"schema":"\u00e4\ud83d\ude00\ud83d\u0041\udc00\"\\\/\b\f\n\r\t","script":{"file":"\ud83d"}}`,
	"{\"schema\":\"a\xff\xc3b\u00e9\xed\xa0\x80\"}",
	`{"config":{"other":{"a":"b","":"c","d":null}},"object":{"size":-12}}`,
	`{"config":{"other":null},"object":null,"programs":[null]}`,
	`{"events":[{"format_bytes":"YWJj"},{"format_bytes":null},{"format_bytes":"%%"}]}`,
	`{"object":{"size":9223372036854775807}}`, `{"object":{"size":9223372036854775808}}`,
	`{"object":{"size":1.0}}`, `{"object":{"size":01}}`, `{"object":{"size":-}}`, `{"object":{"size":-0}}`,
	`{"schema":1}`, `{"schema":true}`, `{"maps":{}}`, `{"maps":[[]]}`, `{"config":{"other":{"a":1}}}`,
	`{"unknown":[1,-2.5e+3,"x",{"y":[true,false,null]},[],{}],"schema":"b"}`,
	`{"unknown":[1,]}`, `{"unknown":{"a":1,}}`, `{"unknown":.5}`, `{"unknown":1.}`, `{"unknown":1e}`, `{"unknown":tru}`, `{"unknown":"\x"}`,
	`{"unknown":"\u12g4"}`, "{\"unknown\":\"a\nb\"}", `{"unknown" 1}`, `{unknown:1}`, `{"a":1 "b":2}`, `{"schema":"a"`, `{"schema":"a`, `{"schema":"\`,
	` { "schema" : "a" } `, `{"schema":"a"}x`, "{\"schema\":\"a\"}\x00", ``, `null`, `[]`, `"x"`, `nul`, `{"schema":"a","schema":"b"}`,
}

// FuzzDecode checks that input is decoded as by encoding/json, or rejected by both. Input with features
// of that package that we do not support, case-insensitive and duplicate keys, is skipped.
func FuzzDecode(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var have, want Manifest
		err, wantErr := decode([]byte(text), &have), json.Unmarshal([]byte(text), &want)
		if (err == nil) != (wantErr == nil) {
			if !json.Valid([]byte(text)) || !unusual(text) {
				t.Fatalf("%q: error = %v, encoding/json: %v", text, err, wantErr)
			}
			return
		}
		if err == nil && !reflect.DeepEqual(have, want) && !unusual(text) {
			t.Errorf("%q: got\n%+v\nencoding/json:\n%+v", text, have, want)
		}
	})
}

// unusual reports whether JSON has keys that encoding/json does not distinguish, or deeper nesting
// than a manifest may have.
func unusual(text string) bool {
	d := json.NewDecoder(strings.NewReader(text))
	seen := []map[string]bool{nil} // keys of the enclosing objects
	key := false                   // whether a key comes next
	for {
		tok, err := d.Token()
		if err != nil {
			return false
		}
		top := seen[len(seen)-1]
		switch x := tok.(type) {
		case json.Delim:
			if x == '{' || x == '[' {
				seen = append(seen, nil)
				if x == '{' {
					seen[len(seen)-1] = map[string]bool{}
				}
			} else {
				seen = seen[:len(seen)-1]
			}
			key = seen[len(seen)-1] != nil
			if len(seen) > maxNesting {
				return true
			}
			continue
		case string:
			if top != nil && key {
				fold := strings.ToLower(strings.ToUpper(x))
				if top[fold] || fold != x {
					return true
				}
				top[fold], key = true, false
				continue
			}
		}
		key = top != nil
	}
}

// TestDeepLists checks that deep nesting is an error and does not crash the process.
func TestDeepLists(t *testing.T) {
	for _, open := range []string{"[", `{"a":`} {
		err := decode([]byte(`{"unknown":`+strings.Repeat(open, 1<<20)), new(Manifest))
		if err == nil || !strings.Contains(err.Error(), "nesting too deep") {
			t.Errorf("%s: error = %v", open, err)
		}
	}
}
