// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"

	"btc/internal/manifest"
)

func TestNeeds(t *testing.T) {
	m := &manifest.Manifest{
		Script: manifest.Script{File: "x.bt", Source: "begin {\n @m[1] = 1;\n for ($kv : @m) { }\n}\n"},
		Needs:  []manifest.Need{{Feature: "for_each_map_elem", Construct: "'for' over a map", Pos: manifest.Pos{Line: 3, Col: 2}}},
	}
	yes, no := func(asm.BuiltinFunc) bool { return true }, func(asm.BuiltinFunc) bool { return false }
	if err := Needs(m, yes); err != nil {
		t.Errorf("error although the kernel has it: %v", err)
	}
	want := "x.bt:3:2: error: 'for' over a map needs the helper bpf_for_each_map_elem (Linux 5.13), which this kernel lacks\n"
	if err := Needs(m, no); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error = %v, want %s", err, want)
	}
	m.Needs[0].Feature = "time_travel"
	if err := Needs(m, yes); err == nil || !strings.Contains(err.Error(), `unknown kernel feature "time_travel"`) {
		t.Errorf("error = %v", err)
	}
}
