// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestCost checks what parsing a manifest allocates in all, whatever it repeats up to the size limit. The last element
// is invalid in one half, so that all others are walked before the error.
func TestCost(t *testing.T) {
	valid, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	// with returns the manifest with a key replaced or added.
	with := func(key, value string) []byte {
		var all map[string]json.RawMessage
		if err := json.Unmarshal(valid, &all); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		fmt.Fprintf(&b, "{%q:%s", key, value)
		for k, v := range all {
			if k != key {
				fmt.Fprintf(&b, ",%q:%s", k, v)
			}
		}
		return append(b.Bytes(), '}')
	}
	many := func(open, element, shut, last string) func(key string) []byte {
		return func(key string) []byte {
			n := (15<<20 - len(valid)) / (len(element) + 1)
			return with(key, open+strings.Repeat(element+",", n)+last+shut)
		}
	}
	list := func(element string) func(string) []byte { return many("[", element, "]", element) }
	program := `{"name":"a","kind":"begin","section":"x","attach":{"text":"begin"},"id_insns":[`
	layout := strings.Repeat(`{"kind":"tuple","fields":[{"layout":`, 14)
	for _, c := range []struct {
		name, key string
		make      func(string) []byte
	}{
		{"id_insns", "programs", many("["+program, "1", "]}]", "-1")},
		{"many id_insns", "programs", list(strings.Replace(program, `"a"`, `"a"`, 1) + strings.Repeat("1,", 65000) + "-1]}")},
		{"layouts", "events", many(`[{"id":0,"kind":"printf","size":8,"fields":[{"off":0,"layout":{"kind":"tuple","size":8,"fields":[`, `{"layout":{"kind":"none"}}`, `]}}]}]`, `{"layout":{}}`)},
		{"nested layouts", "events", many(`[`, `{"id":0,"kind":"printf","size":8,"fields":[{"off":0,"layout":`+layout+`{"kind":"x"}`+strings.Repeat("}]}", 14)+`}]}`, `]`, `{}`)},
		{"programs", "programs", list("{}")}, {"maps", "maps", list("{}")}, {"events", "events", list("{}")}, {"params", "params", list("{}")},
		{"globals", "globals", list("{}")}, {"errors", "errors", list("{}")}, {"losses", "losses", list("{}")}, {"fields", "fields", list("{}")},
		{"needs", "needs", list("{}")}, {"unsafe", "unsafe", list("{}")}, {"requires", "requires", list(`"host-values"`)}, {"short strings", "requires", list(`""`)},
		{"arches", "arches", list(`"a"`)}, {"key names", "maps", many(`[{"name":"@","symbol":"a","shape":"count","type":"array","key_names":[`, `"x"`, `]}]`, `"y"`)},
		{"unknown list", "unknown", list("[]")}, {"unknown objects", "unknown", list("{}")}, {"unknown numbers", "unknown", list("1")},
		{"unknown strings", "unknown", list(`"\u0041"`)}, {"unknown keys", "unknown", many("{", `"\u0041":1`, "}", `"a":1`)},
		{"deep", "unknown", list(strings.Repeat("[", 900) + strings.Repeat("]", 900))},
		{"chain", "errors", many(`[{"chain":[`, "{}", "]}]", `{"line":-1}`)},
		{"null", "maps", list("null")}, {"enum", "maps", many(`[{"key":{"enum":{`, `"1":"a"`, `}}}]`, `"2":"b"`)},
		{"other", "config", many(`{"other":{`, `"1":"a"`, `}}`, `"2":"b"`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := c.make(c.key)
			if len(data) > MaxBytes {
				t.Fatalf("%d bytes", len(data))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Parse(data)
			runtime.ReadMemStats(&after)
			used := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("%d MiB: %v", used, err)
			if used > 96 {
				t.Errorf("allocated %d MiB", used)
			}
		})
	}
}
