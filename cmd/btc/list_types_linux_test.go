// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// TestTypeBody checks that members have their qualifiers, and that gaps that a compiler would not
// insert are shown.
func TestTypeBody(t *testing.T) {
	integer := func(name string, size uint32) *btf.Int { return &btf.Int{Name: name, Size: size} }
	char, short, long := integer("char", 1), integer("short int", 2), integer("long int", 8)
	cred := &btf.Struct{Name: "cred", Size: 8}
	pointer := &btf.Pointer{Target: &btf.TypeTag{Type: &btf.Const{Type: cred}, Value: "rcu"}}
	for want, typ := range map[string]btf.Type{
		"const struct cred *a; long int b;": &btf.Struct{Size: 16, Members: []btf.Member{{Name: "a", Type: pointer}, {Name: "b", Type: long, Offset: 64}}},
		"char a; long int b;":               &btf.Struct{Size: 16, Members: []btf.Member{{Name: "a", Type: char}, {Name: "b", Type: long, Offset: 64}}},
		"char a; long: 64; char b; long: 0;": &btf.Struct{Size: 24, Members: []btf.Member{
			{Name: "a", Type: char}, {Name: "b", Type: char, Offset: 128}}},
		"long int a; long: 64;": &btf.Struct{Size: 16, Members: []btf.Member{{Name: "a", Type: long}}},
		"char a; long int b; } __attribute__((packed))": &btf.Struct{Size: 9, Members: []btf.Member{
			{Name: "a", Type: char}, {Name: "b", Type: long, Offset: 8}}},
		"short int a: 3; short int b: 5;": &btf.Struct{Size: 2, Members: []btf.Member{
			{Name: "a", Type: short, BitfieldSize: 3}, {Name: "b", Type: short, Offset: 3, BitfieldSize: 5}}},
		"union { char x; }; struct {} none; struct { char y; } *p; char z[3];": &btf.Union{Size: 8, Members: []btf.Member{
			{Type: &btf.Union{Size: 1, Members: []btf.Member{{Name: "x", Type: char}}}},
			{Name: "none", Type: &btf.Struct{}},
			{Name: "p", Type: &btf.Pointer{Target: &btf.Struct{Size: 1, Members: []btf.Member{{Name: "y", Type: char}}}}},
			{Name: "z", Type: &btf.Array{Type: char, Nelems: 3}}}},
		"int (* const f)(void);": &btf.Union{Size: 8, Members: []btf.Member{{Name: "f", Type: &btf.Const{
			Type: &btf.Pointer{Target: &btf.FuncProto{Return: integer("int", 4)}}}}}},
		"A = -1, B = 2,":                       &btf.Enum{Size: 4, Signed: true, Values: []btf.EnumValue{{Name: "A", Value: ^uint64(0)}, {Name: "B", Value: 2}}},
		"A = 1, } __attribute__((mode(byte)))": &btf.Enum{Size: 1, Values: []btf.EnumValue{{Name: "A", Value: 1}}},
	} {
		var b strings.Builder
		end := typeBody(&b, typ, 1)
		got := strings.Join(strings.Fields(b.String()), " ")
		if end != "" {
			got += " }" + end
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
