// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"btc/compile"
	"btc/report/stages"
	"btc/targets/kernel"
)

// TestUntrustedPage checks that the page of an untrusted script has nothing of the kernel's programs.
func TestUntrustedPage(t *testing.T) {
	target, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	out, diags := compile.Compile(compile.Input{Name: "x.bt", Text: "begin { @ = 1; }", Target: target, Compiler: "test"})
	if out == nil {
		t.Fatal(diags)
	}
	for _, untrusted := range []bool{false, true} {
		page := &stages.Stages{File: "x.bt", Source: "begin { @ = 1; }"}
		var b strings.Builder
		s := &scriptFlags{untrusted: untrusted}
		if err := s.writeStages(&b, page, out); err != nil || b.Len() == 0 {
			t.Fatal(err)
		}
		if have := page.Kernel.Absent == "--untrusted shows nothing of this machine."; have != untrusted {
			t.Errorf("untrusted %t: %+v", untrusted, page.Kernel)
		}
	}
}
