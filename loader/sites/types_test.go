// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"btc/loader/adapt"
)

var (
	i32  = &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	u16  = &btf.Int{Name: "unsigned short", Size: 2}
	file = &btf.Struct{Name: "file", Size: 40}
)

// TestTypeText checks C types without qualifiers, as the compiler's target writes them.
func TestTypeText(t *testing.T) {
	deep := btf.Type(i32)
	for range 40 {
		deep = &btf.Const{Type: deep}
	}
	for _, c := range []struct {
		t    btf.Type
		want string
	}{
		{i32, "int"}, {&btf.Const{Type: i32}, "int"}, {&btf.Volatile{Type: &btf.Restrict{Type: &btf.TypeTag{Type: i32}}}, "int"},
		{&btf.Pointer{Target: i32}, "int *"}, {&btf.Pointer{Target: &btf.Pointer{Target: &btf.Const{Type: file}}}, "struct file **"},
		{file, "struct file"}, {&btf.Union{Name: "u"}, "union u"}, {&btf.Enum{Name: "e"}, "enum e"}, {&btf.Fwd{Name: "f"}, "struct f"}, {&btf.Fwd{Name: "f", Kind: btf.FwdUnion}, "union f"},
		{&btf.Void{}, "void"}, {&btf.Pointer{Target: &btf.Void{}}, "void *"}, {&btf.Typedef{Name: "size_t", Type: u16}, "size_t"}, {deep, ""},
	} {
		if got := typeText(c.t); got != c.want {
			t.Errorf("%v: %q, want %q", c.t, got, c.want)
		}
	}
}

// TestPrototype checks the description of a function: parameters with sizes and classes, the result's width, and
// variadic functions.
func TestPrototype(t *testing.T) {
	param := func(name string, t btf.Type) btf.FuncParam { return btf.FuncParam{Name: name, Type: t} }
	big := &btf.Typedef{Name: "big_t", Type: &btf.Union{Name: "big", Size: 24}}
	for i, c := range []struct {
		proto *btf.FuncProto
		skip  int
		want  adapt.Prototype
	}{
		{&btf.FuncProto{Return: &btf.Void{}}, 0, adapt.Prototype{Result: "void"}},
		{&btf.FuncProto{Return: i32, Params: []btf.FuncParam{param("f", &btf.Pointer{Target: file}), param("n", u16)}}, 0,
			adapt.Prototype{Result: "int", ResultBits: -32, Params: []adapt.Param{{Name: "f", Type: "struct file *", Size: 8}, {Name: "n", Type: "unsigned short", Size: 2}}}},
		{&btf.FuncProto{Return: &btf.Typedef{Name: "u", Type: u16}, Params: []btf.FuncParam{param("data", &btf.Pointer{Target: &btf.Void{}}), param("n", u16)}}, 1,
			adapt.Prototype{Result: "u", ResultBits: 16, Params: []adapt.Param{{Name: "n", Type: "unsigned short", Size: 2}}}},
		{&btf.FuncProto{Return: &btf.Enum{Name: "e", Size: 8, Signed: true}, Params: []btf.FuncParam{param("s", file), param("u", big), param("d", &btf.Float{Size: 8})}}, 0,
			adapt.Prototype{Result: "enum e", ResultBits: -64, Params: []adapt.Param{{Name: "s", Type: "struct file", Size: 40, Class: "struct"}, {Name: "u", Type: "big_t", Size: 24, Class: "union"}, {Name: "d", Type: "", Size: 8, Class: "float"}}}},
		{&btf.FuncProto{Return: file, Params: []btf.FuncParam{param("n", i32), param("", &btf.Void{})}}, 0,
			adapt.Prototype{Result: "struct file", ResultClass: "struct", Variadic: true, Params: []adapt.Param{{Name: "n", Type: "int", Size: 4}, {Type: "void"}}}},
		{&btf.FuncProto{Return: i32, Params: []btf.FuncParam{param("n", i32)}}, 5, adapt.Prototype{Result: "int", ResultBits: -32}},
	} {
		if d := cmp.Diff(c.want, *prototype(c.proto, c.skip)); d != "" {
			t.Errorf("prototype %d (-want +got):\n%s", i, d)
		}
	}
	for _, c := range []struct {
		size   uint32
		signed bool
		want   int
	}{{4, true, -32}, {4, false, 32}, {1, true, -8}, {8, false, 64}} {
		if got := bits(c.size, c.signed); got != c.want {
			t.Errorf("%s: %d", fmt.Sprint(c), got)
		}
	}
}
