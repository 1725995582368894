// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"strings"
	"testing"

	"btc/frontend/diag"
	"btc/targets/kernel"
)

// TestEventOfOneArchitecture checks that the cause is reported, an event that the other architecture
// lacks, rather than its consequences.
func TestEventOfOneArchitecture(t *testing.T) {
	x86, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	for event, script := range map[string]string{
		"i915:g4x_wm":              "begin { @a = 1; } tracepoint:i915:g4x_wm { print(args.pipe); }",
		"i915:i915_context_create": "tracepoint:i915:i915_context_create { @[args.ctx] = count(); }",
	} {
		arm, err := kernel.Default("aarch64")
		if err != nil {
			t.Fatal(err)
		}
		in := Input{Name: "x.bt", Text: script, Target: x86, Others: []*kernel.Target{arm}, Optional: true}
		out, diags := Compile(in)
		if out == nil {
			t.Fatal(diags.Err())
		}
		found := ""
		for _, d := range diags.Sorted() {
			if d.Code == diag.LeftOut {
				found = d.Message
			}
		}
		if want := "the object supports x86_64 only: on arm64 the kernel has no tracepoint " + event; !strings.HasPrefix(found, want) {
			t.Errorf("%s: diagnostics %q", script, found)
		}
	}
}
