// SPDX-License-Identifier: Apache-2.0

package permit

import (
	"bytes"
	"encoding/json"
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
