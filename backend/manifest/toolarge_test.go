// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strings"
	"testing"

	"btc/internal/manifest"
	"btc/ir"
)

// wide returns a layout with n parts in all.
func wide(n int) *ir.Layout {
	leaf := &ir.Layout{Kind: "int", Size: 8}
	l := &ir.Layout{Kind: "record"}
	for range n - 1 {
		l.Fields = append(l.Fields, ir.Field{Layout: leaf})
	}
	return l
}

// TestTooLarge checks the limit of layouts, which counts a shared part each time that the manifest has it: keys,
// values and fields of events, up to and including the limit of the loader.
func TestTooLarge(t *testing.T) {
	const most = manifest.MaxLayouts
	full := wide(most)
	over := &ir.Layout{Kind: "record", Fields: append(full.Fields[:most-1:most-1], full.Fields[0])}
	array := &ir.Layout{Kind: "array", Count: 2, Elem: &ir.Layout{Kind: "record", Fields: full.Fields[:most-2]}}
	doubled := &ir.Layout{Kind: "int"}
	for range 64 { // 2^64 parts and more: counting must not overflow
		doubled = &ir.Layout{Kind: "tuple", Fields: []ir.Field{{Layout: doubled}, {Layout: doubled}}}
	}
	for _, c := range []struct {
		what   string
		module ir.Module
		line   int // of the map or event with too many; 0: none
	}{
		{"nothing", ir.Module{}, 0},
		{"value at the limit", ir.Module{Maps: []*ir.Map{{Value: full}}}, 0},
		{"value over it", ir.Module{Maps: []*ir.Map{{Pos: ir.Pos{Line: 3}, Value: over}}}, 3},
		{"array at the limit", ir.Module{Maps: []*ir.Map{{Value: array}}}, 0},
		{"array and an integer", ir.Module{Maps: []*ir.Map{{Pos: ir.Pos{Line: 4}, Key: wide(1), Value: array}}}, 4},
		{"sum of two maps", ir.Module{Maps: []*ir.Map{{Pos: ir.Pos{Line: 5}, Value: full}, {Pos: ir.Pos{Line: 6}, Key: wide(1)}}}, 6},
		{"the first is reported", ir.Module{Maps: []*ir.Map{{Pos: ir.Pos{Line: 5}, Value: over}, {Pos: ir.Pos{Line: 6}, Key: wide(1)}}}, 5},
		{"sum with an event", ir.Module{Maps: []*ir.Map{{Value: full}}, Events: []*ir.Event{{Pos: ir.Pos{Line: 7}, Fields: []ir.Field{{Layout: wide(1)}}}}}, 7},
		{"more than 64 bits count", ir.Module{Maps: []*ir.Map{{Pos: ir.Pos{Line: 8}, Value: doubled}}}, 8},
	} {
		d, found := TooLarge(&c.module)
		if found != (c.line > 0) || d.Pos.Line != c.line {
			t.Errorf("%s: %v at line %d, want line %d", c.what, found, d.Pos.Line, c.line)
		}
		if found && !strings.Contains(d.Text, "parts, too many for an object") {
			t.Errorf("%s: %s", c.what, d.Text)
		}
	}
}
