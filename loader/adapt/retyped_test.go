// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"btc/internal/manifest"
)

// withMember returns types with a struct s that has the member m.
func withMember(t *testing.T, typ btf.Type) *btf.Spec {
	t.Helper()
	b, err := btf.NewBuilder([]btf.Type{&btf.Struct{Name: "s", Size: 8, Members: []btf.Member{{Name: "m", Type: typ}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// TestRetype checks which changes of a member's type keep its field relocatable, and that others are named.
func TestRetype(t *testing.T) {
	u32, flags := &btf.Int{Name: "u32", Size: 4}, &btf.Enum{Name: "flags", Size: 4, Values: []btf.EnumValue{{Name: "A", Value: 1}}}
	wrapped := &btf.Struct{Name: "box", Size: 4, Members: []btf.Member{{Name: "__state", Type: flags}}}
	wide := &btf.Struct{Name: "box", Size: 8, Members: []btf.Member{{Name: "__state", Type: flags}}}
	m := &manifest.Manifest{Fields: []manifest.FieldUse{{Type: "struct s", Path: "m"}}}
	for _, c := range []struct {
		name      string
		was, here btf.Type
		text      string // of Lacks if the kinds differ after Retype
	}{
		{"integer to enum", u32, flags, ""},
		{"enum to integer", flags, u32, ""},
		{"integer to enum behind a typedef", u32, &btf.Typedef{Name: "flags_t", Type: flags}, ""},
		{"integer to a struct of one enum", u32, wrapped, ""},
		{"integer to a struct of one integer", u32, &btf.Struct{Name: "box", Size: 4, Members: []btf.Member{{Name: "val", Type: u32}}}, "is struct box on this kernel"},
		{"integer to a larger struct", u32, wide, "field m in struct s is struct box on this kernel, and the script was compiled for u32"},
		{"integer to pointer", u32, &btf.Pointer{Target: u32}, "is a pointer on this kernel"},
		{"integer to array", u32, &btf.Array{Type: u32, Index: u32, Nelems: 2}, "is an array on this kernel"},
	} {
		local, here := withMember(t, c.was), withMember(t, c.here)
		Retype(m, local, here)
		a, b := member([]*btf.Spec{local}, &m.Fields[0]), member([]*btf.Spec{here}, &m.Fields[0])
		_, intWas := btf.UnderlyingType(a.Type).(*btf.Int)
		_, intIs := btf.UnderlyingType(b.Type).(*btf.Int)
		_, enumIs := btf.UnderlyingType(b.Type).(*btf.Enum)
		if same := intWas && intIs || !intWas && enumIs; same != (c.text == "") {
			t.Errorf("%s: the member is a %s", c.name, b.Type)
		}
		if text := Lacks(&m.Fields[0], local, here); c.text != "" && !strings.Contains(text, c.text) {
			t.Errorf("%s: %q", c.name, text)
		}
	}
	other := &manifest.FieldUse{Type: "struct nft_chain", Path: "table"}
	if text := Lacks(other, withMember(t, u32), withMember(t, u32)); !strings.Contains(text, "struct nft_chain is neither in the kernel nor in a module") {
		t.Error(text)
	}
	other = &manifest.FieldUse{Type: "struct s", Path: "gone"}
	for want, use := range map[string]manifest.FieldUse{
		"this kernel has no enumerator A in enum gone: enum gone is neither in the kernel nor in a module that is loaded": {Type: "enum gone", Path: "A"},
		"this kernel has no field name in struct trace_event_raw_e":                                                       {Type: "struct trace_event_raw_e", Path: "__data_loc_name"},
	} {
		if text := Lacks(&use, withMember(t, u32), withMember(t, u32)); text != want {
			t.Errorf("%s, want %s", text, want)
		}
	}
	named := manifest.FieldUse{Type: "struct nft_chain", Path: "table"}
	if named.Module = "nf_tables"; !strings.HasSuffix(Lacks(&named, withMember(t, u32), withMember(t, u32)), "struct nft_chain is of the module nf_tables, and neither in the kernel nor in a module that is loaded") {
		t.Error("the message does not name the module")
	}
	if text := Lacks(other, withMember(t, u32), withMember(t, u32)); text != "this kernel has no field gone in struct s" {
		t.Error(text)
	}
}

// TestMemberInLaterTypes checks that types that are absent, or lack the struct or the member, do not end the search.
func TestMemberInLaterTypes(t *testing.T) {
	u32 := &btf.Int{Name: "u32", Size: 4}
	b, err := btf.NewBuilder([]btf.Type{&btf.Struct{Name: "other", Size: 4, Members: []btf.Member{{Name: "m", Type: u32}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	without, err := b.Spec()
	if err != nil {
		t.Fatal(err)
	}
	if b, err = btf.NewBuilder([]btf.Type{&btf.Struct{Name: "s", Size: 4, Members: []btf.Member{{Name: "x", Type: u32}}}}, nil); err != nil {
		t.Fatal(err)
	}
	lacking, err := b.Spec()
	if err != nil {
		t.Fatal(err)
	}
	use := &manifest.FieldUse{Type: "struct s", Path: "m"}
	if m := member([]*btf.Spec{nil, without, lacking, withMember(t, u32)}, use); m == nil || m.Name != "m" {
		t.Errorf("member = %+v", m)
	}
	if m := member([]*btf.Spec{nil, without, lacking}, use); m != nil {
		t.Errorf("member = %+v", m)
	}
}
