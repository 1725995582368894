// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"btc/frontend/diag"
	"btc/targets/kernel"
)

// TestFrameForMoreValues checks a script that keeps many numbers, in addition to keys, live across the
// iterations of a loop. It fits in a stack frame only if memory objects are moved to scratch memory.
func TestFrameForMoreValues(t *testing.T) {
	host, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("begin { ")
	for i := range 4 {
		fmt.Fprintf(&b, "let $s%d : string[64] = str($1, 63); ", i)
	}
	for i := range 16 {
		fmt.Fprintf(&b, "let $v%d : int64 = (int64)$2 + %d; ", i, i)
	}
	b.WriteString("for $i : 0..$3 { ")
	for i := range 16 {
		fmt.Fprintf(&b, "$v%d = $v%d * 3 + $i; ", i, (i+1)%16)
	}
	b.WriteString("} ")
	for i := range 4 {
		fmt.Fprintf(&b, "@m[$s%d] = $v%d; ", i, i)
	}
	for i := range 16 {
		fmt.Fprintf(&b, "@n[%d] = $v%d; ", i, i)
	}
	b.WriteString("}")

	in := Input{Name: "frame.bt", Text: b.String(), Target: host, Verify: true}
	in.fixed = in.newFixed()
	diags := &diag.List{}
	m := frontend(in, diag.NewSource(in.Name, in.Text), diags)
	if m == nil {
		t.Fatal(diags.Err())
	}
	var tooLarge machineError
	if _, err := lower(in, m, 0); !errors.As(err, &tooLarge) {
		t.Fatalf("the script fits in the usual frame, so the test proves nothing: %v", err)
	}
	if out, diags := Compile(in); out == nil {
		t.Error(diags.Err())
	}
}
