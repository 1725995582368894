// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"btc/internal/manifest"
)

// TestWholeValues checks that copying a whole value is rejected if the host has a printed member at
// another offset, of another size, or not at all.
func TestWholeValues(t *testing.T) {
	u32, u64 := &btf.Int{Name: "u32", Size: 4}, &btf.Int{Name: "u64", Size: 8}
	host := func(members ...btf.Member) *btf.Spec {
		b, err := btf.NewBuilder([]btf.Type{&btf.Struct{Name: "s", Size: 32, Members: members}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := b.Marshal(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := btf.LoadSpecFromReader(strings.NewReader(string(raw)))
		if err != nil {
			t.Fatal(err)
		}
		return spec
	}
	inner := &btf.Struct{Size: 8, Members: []btf.Member{{Name: "c", Type: u32, Offset: 32}}}
	m := &manifest.Manifest{Target: "6.12", Events: []manifest.Event{{Fields: []manifest.Field{{Layout: manifest.Layout{
		Kind: "record", Size: 24, CORE: "struct s", Fields: []manifest.Field{
			{Name: "a", Layout: manifest.Layout{Kind: "int", Size: 4}},
			{Name: "b", Off: 8, Layout: manifest.Layout{Kind: "int", Size: 8}},
			{Name: "c", Off: 20, Layout: manifest.Layout{Kind: "int", Size: 4}},
			{Name: "d", Off: 4, BitOff: 3, BitSize: 2, Layout: manifest.Layout{Kind: "int", Size: 4}},
		}}}}}}}
	a, b := btf.Member{Name: "a", Type: u32}, btf.Member{Name: "b", Type: u64, Offset: 64}
	c, d := btf.Member{Type: inner, Offset: 128}, btf.Member{Name: "d", Type: u32, Offset: 35, BitfieldSize: 2}
	for _, tc := range []struct {
		name, want string
		members    []btf.Member
	}{
		{"same", "", []btf.Member{a, d, b, c, {Name: "more", Type: u64, Offset: 192}}},
		{"moved", "(b)", []btf.Member{a, d, {Name: "b", Type: u64, Offset: 192}, c}},
		{"retyped", "(b)", []btf.Member{a, d, {Name: "b", Type: u32, Offset: 64}, c}},
		{"gone", "(no b)", []btf.Member{a, d, c}},
		{"moved in an anonymous struct", "(c)", []btf.Member{a, d, b, {Type: inner, Offset: 192}}},
		{"wider bitfield", "(d)", []btf.Member{a, {Name: "d", Type: u32, Offset: 35, BitfieldSize: 3}, b, c}},
	} {
		err := Whole(m, nil, host(tc.members...))
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: error = %v, want %q", tc.name, err, tc.want)
		}
	}
	if names := WholeTypes(m); len(names) != 1 || names[0] != "s" {
		t.Errorf("required types = %v", names)
	}
}
