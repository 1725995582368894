// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/dwarf"
	"fmt"
	"strings"
	"testing"

	"btc/frontend/types"
)

// TestKindsOfTypes checks what each type of C becomes, with size, sign and alignment.
func TestKindsOfTypes(t *testing.T) {
	b := open(t, build(t, "kinds.c", `
struct hidden;
struct later { struct hidden *h; struct later *self; };
typedef int (*callback)(int);
typedef const volatile struct pair { int a; char b; } pair_t;
enum small { S0, S1 = 200 } __attribute__((packed));
enum negative { N = -1 };
enum wide { W = 1ll << 40 };
struct __attribute__((aligned(64))) aligned { int x; };
struct __attribute__((packed)) packed { char c; int x; };
union u { long l; char c[12]; };
struct all {
	char c; signed char sc; unsigned char uc; short s; unsigned short us; int i; unsigned u; long l; unsigned long ul;
	_Bool ok; float f; double d; long double ld; _Complex double cd; __int128 big; unsigned __int128 ubig;
	void *p; const char *cp; callback fn; pair_t pair; struct pair pairs[2][3]; enum small small; enum negative neg; enum wide wide;
	struct aligned al; struct packed pk; union u un; struct later *later; int open[];
};
struct all all; struct later later;
int main(void) { return all.c; }
`))
	all, ok := b.Tagged("struct", "all")
	if !ok {
		t.Fatal("no struct all")
	}
	for _, c := range []struct {
		name, typ string
		kind      types.Kind
		size      int
		signed    bool
	}{
		{"c", "int8", types.Int, 1, true}, {"sc", "int8", types.Int, 1, true}, {"uc", "uint8", types.Int, 1, false},
		{"s", "int16", types.Int, 2, true}, {"us", "uint16", types.Int, 2, false}, {"i", "int32", types.Int, 4, true}, {"u", "uint32", types.Int, 4, false},
		{"l", "int64", types.Int, 8, true}, {"ul", "uint64", types.Int, 8, false}, {"ok", "uint8", types.Int, 1, false},
		{"f", "float", types.Float, 4, false}, {"d", "float", types.Float, 8, false}, {"ld", "float", types.Float, 16, false}, {"cd", "float", types.Float, 16, false},
		{"big", "uint8[16]", types.Array, 16, false}, {"ubig", "uint8[16]", types.Array, 16, false},
		{"p", "none *", types.Pointer, 8, false}, {"cp", "int8 *", types.Pointer, 8, false}, {"fn", "func *", types.Pointer, 8, false},
		{"pair", "struct pair", types.Struct, 8, false}, {"pairs", "struct pair[3][2]", types.Array, 48, false},
		{"small", "enum small", types.Enum, 1, false}, {"neg", "enum negative", types.Enum, 4, true}, {"wide", "enum wide", types.Enum, 8, true},
		{"al", "struct aligned", types.Struct, 64, false}, {"pk", "struct packed", types.Struct, 5, false}, {"un", "union u", types.Struct, 16, false},
		{"later", "struct later *", types.Pointer, 8, false}, {"open", "int32[0]", types.Array, 0, false},
	} {
		m, ok := all.Comp.Find(c.name)
		if !ok {
			t.Errorf("no member %s", c.name)
			continue
		}
		got := m.Type.String()
		if c.kind == types.Float || c.kind == types.Pointer && (c.name == "p" || c.name == "fn") {
			got = c.typ // the language has no name for it
		}
		if m.Type.Kind != c.kind || m.Type.Size != c.size || m.Type.Signed != c.signed && c.kind != types.Enum || got != c.typ {
			t.Errorf("%s: %s of kind %d, %d bytes, signed %v; want %s, %d, %d, %v", c.name, m.Type, m.Type.Kind, m.Type.Size, m.Type.Signed, c.typ, c.kind, c.size, c.signed)
		}
	}
	for name, want := range map[string]int{"aligned": 64, "packed": 4, "pair": 4, "later": 8, "all": 64} {
		if x, ok := b.Tagged("struct", name); !ok || x.Comp.Alignment() != want && name != "packed" {
			t.Errorf("struct %s: alignment %d, want %d", name, x.Comp.Alignment(), want)
		}
	}
	if x, ok := b.Tagged("struct", "hidden"); ok {
		t.Errorf("a struct that is only declared is found: %v", x)
	}
	later, _ := b.Tagged("struct", "later")
	if h, ok := later.Comp.Find("h"); !ok || !h.Type.Elem.Comp.Forward {
		t.Errorf("pointer to a declared struct: %+v", h)
	}
	for name, want := range map[string]string{"pair_t": "struct pair", "pair": "struct pair", "u": "union u", "wide": "enum wide", "callback": ""} {
		if x, ok := b.Named(name); !ok || want != "" && x.String() != want {
			t.Errorf("%s: %v, %v, want %s", name, x, ok, want)
		}
	}
	if _, ok := b.Named("nothing"); ok {
		t.Error("found a type that does not exist")
	}
	for enum, want := range map[string]string{"small": "S0=0 S1=200", "negative": "N=-1", "wide": "W=1099511627776"} {
		x, _ := b.Tagged("enum", enum)
		var got []string
		for _, v := range x.Enum.Values {
			got = append(got, fmt.Sprintf("%s=%d", v.Name, v.Value))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("enum %s: %q, want %q", enum, got, want)
		}
	}
}

// TestSpelling checks the C declarations of parameters, as btc list shows them.
func TestSpelling(t *testing.T) {
	b := open(t, build(t, "spell.c", `
struct s { int x; }; typedef struct s s_t; typedef struct { int y; } anon; enum e { E }; union u { int x; };
void f(int i, const char *cp, char *const pc, const char *const *pp, volatile int *v, struct s *st, s_t t, anon *an, enum e en, union u *un, void *vp, int (*fn)(int), int (*arr)[3], const void *restrict r, unsigned long ul) {}
int main(void) { return 0; }
`))
	f, err := b.Func("f")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range f.Params {
		got = append(got, p.C+" "+p.Name)
	}
	want := []string{"int i", "const char* cp", "char* const pc", "const char* const* pp", "volatile int* v", "struct s* st", "s_t t", "anon* an", "enum e en", "union u* un", "void* vp",
		"int (*)(...)* fn", "int[]* arr", "const void* restrict r", "long unsigned int ul"}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Errorf("parameter %d: %q, want %q", i, strings.Join(got, ", "), want[i])
			break
		}
	}
}

// TestMemberOffset checks offsets as numbers and as expressions of old compilers (DW_OP_plus_uconst).
func TestMemberOffset(t *testing.T) {
	member := func(v any) *dwarf.Entry {
		return &dwarf.Entry{Field: []dwarf.Field{{Attr: dwarf.AttrDataMemberLoc, Val: v}}}
	}
	for _, c := range []struct {
		e    *dwarf.Entry
		want int
		ok   bool
	}{
		{&dwarf.Entry{}, 0, true}, // the first member, or of a union
		{member(int64(24)), 24, true}, {member(int64(-1)), -1, false}, {member(int64(maxSize)), maxSize, true}, {member(int64(maxSize + 1)), maxSize + 1, false},
		{member([]byte{0x23, 0x05}), 5, true}, {member([]byte{0x23, 0x80, 0x01}), 128, true}, {member([]byte{0x23, 0xff, 0x7f, 0x05}), 1<<14 - 1, true},
		{member([]byte{0x23, 0x80, 0x80, 0x80, 0x80, 0x04}), 1 << 30, false}, {member([]byte{0x23}), 0, false}, {member([]byte{0x10, 0x05}), 0, false}, {member([]byte{}), 0, false},
	} {
		if got, ok := memberOffset(c.e); got != c.want && c.ok || ok != c.ok {
			t.Errorf("%v: %d, %v, want %d, %v", c.e.Field, got, ok, c.want, c.ok)
		}
	}
}

// TestBaseTypes checks encodings of DWARF, and sizes that are not those of an integer.
func TestBaseTypes(t *testing.T) {
	for _, c := range []struct {
		size, enc int64
		kind      types.Kind
		want      int
		signed    bool
	}{
		{4, encFloat, types.Float, 4, false}, {8, encComplexFloat, types.Float, 8, false}, {16, encDecimalFloat, types.Float, 16, false},
		{1, encSignedChar, types.Int, 1, true}, {1, encUnsignedChar, types.Int, 1, false}, {2, encSigned, types.Int, 2, true}, {4, 7, types.Int, 4, false}, {8, encSigned, types.Int, 8, true},
		{1, 2, types.Int, 1, false}, {16, encSigned, types.Array, 16, false}, {3, encSigned, types.Array, 3, false}, {0, encSigned, types.Array, 0, false}, {-5, encSigned, types.Array, 0, false}, {1 << 40, 7, types.Array, 1 << 16, false},
	} {
		x := baseType(&dwarf.Entry{Field: []dwarf.Field{{Attr: dwarf.AttrByteSize, Val: c.size}, {Attr: dwarf.AttrEncoding, Val: c.enc}}})
		if x.Kind != c.kind || x.Size != c.want || x.Signed != c.signed {
			t.Errorf("%d bytes, encoding %d: kind %d, %d bytes, signed %v", c.size, c.enc, x.Kind, x.Size, x.Signed)
		}
	}
}

// TestVirtualBase checks that members of a virtual base, whose offset only the object has, are left out.
func TestVirtualBase(t *testing.T) {
	b := open(t, build(t, "virtual.cc", `
struct root { int r; };
struct left : virtual root { int l; };
union both { int i; unsigned char raw[4]; };
struct holder { static const int fixed = 3; static int count; int &ref; both u; int tail; holder(int &x) : ref(x) {} };
left made; int n; holder hold(n);
int use(left *x, holder *y) { return x->l + y->tail; }
int main() { return 0; }
`))
	left, ok := b.Tagged("struct", "left")
	if !ok {
		t.Fatal("no struct left")
	}
	if _, ok := left.Comp.Find("r"); ok {
		t.Error("a member of a virtual base is found")
	}
	if m, ok := left.Comp.Find("l"); !ok || m.Off != 8 {
		t.Errorf("l = %+v, %v", m, ok)
	}
	holder, _ := b.Tagged("struct", "holder")
	for name, off := range map[string]int{"ref": 0, "u": 8, "tail": 12, "fixed": -1, "count": -1} {
		m, ok := holder.Comp.Find(name)
		if ok != (off >= 0) || ok && m.Off != off {
			t.Errorf("%s: found %v, at %d, want %d", name, ok, m.Off, off)
		}
	}
}
