// SPDX-License-Identifier: Apache-2.0

package permit

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDescriptionJSON compares the JSON of a description with the output of encoding/json for its
// fields.
func TestDescriptionJSON(t *testing.T) {
	full := &Description{
		Object: "a \"b\".o", SHA256: "00", Script: "tab\t.bt", Compiler: "btc", Target: "6.1", Arches: []string{"x86_64", "arm64"},
		Permissions: []string{"signal"}, Actions: []ActionText{{"signal", "kills", "", 3}, {"files", "writes", "/tmp/é", 0}},
		Probes: []ProbeText{{"kprobe", "kprobe:f", 1}, {"end", "end", 0}}, Reads: []string{"/etc/x"}, Helpers: []string{"send_signal"},
		Kfuncs: []string{}, MapBytes: 1 << 40, Maps: []MapText{{"@", "count", 1, 8}},
	}
	none := &Description{Arches: []string{}, Permissions: []string{}, Actions: []ActionText{}, Probes: []ProbeText{}, Reads: []string{}, Helpers: []string{}, Kfuncs: []string{}, Maps: []MapText{}}
	for _, d := range []*Description{full, none} {
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		e.SetIndent("", " ")
		if err := e.Encode(d); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), string(d.JSON())); diff != "" {
			t.Errorf("-encoding/json +JSON:\n%s", diff)
		}
	}
}

// TestClean checks that control characters are replaced in all strings, and that lists of the object stay as they are.
func TestClean(t *testing.T) {
	shared := []string{"a\nb", "c"}
	d := struct {
		Text  string
		Lists [][]string
		N     int
	}{"x\x1b[1m\u0085", [][]string{shared, nil}, 3}
	clean(reflect.ValueOf(&d).Elem())
	if d.Text != "x\ufffd[1m\ufffd" || len(d.Lists) != 2 || len(d.Lists[0]) != 2 || d.Lists[0][0] != "a\ufffdb" || d.Lists[0][1] != "c" || d.N != 3 {
		t.Errorf("%+q", d.Lists)
	}
	if shared[0] != "a\nb" {
		t.Errorf("the object's list has changed: %q", shared)
	}
}
