// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"btc/frontend/types"
)

// build compiles a source file of testdata, given as a string. It skips the test if there is no
// compiler.
func build(t *testing.T, name, text string, args ...string) string {
	t.Helper()
	compiler := "gcc"
	if filepath.Ext(name) == ".cc" {
		compiler = "g++"
	}
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skip("skipped: ", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "prog")
	cmd := exec.Command(compiler, append([]string{"-g", "-O0", "-w", "-o", out, name}, args...)...)
	cmd.Dir = dir
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, b)
	}
	return out
}

func open(t *testing.T, path string, dirs ...string) *Binary {
	t.Helper()
	b, err := (&Finder{Dirs: dirs}).Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const cSource = `
enum color { RED, GREEN = 7, BLUE = -1 };
struct small { int a; short b; };
struct big { long x[4]; };
struct bits { unsigned a : 3; unsigned b : 7; int c : 5; unsigned long d; };
struct node { struct node *next; char name[16]; union { int i; unsigned char raw[4]; }; int grid[2][3]; enum color col; _Bool ok; };
typedef struct node node_t;
int f(char c, node_t *n, double d, const char *const s, struct small sm, struct big bg, unsigned long last) { return c; }
struct big g(int first) { struct big b = {0}; return b; }
struct bits bits;
int many(int a, int b, int c, int d, int e, int f6, int g7) {
	return a;
}
static inline __attribute__((always_inline)) int in(int v) { return v + 1; }
int out1(int v) { return in(v); }
int main(void) { node_t n; f(1, &n, 0, "", (struct small){0}, (struct big){0}, 1); return out1(2); }
`

func describe(f *Func) string {
	var all []string
	for _, p := range f.Params {
		all = append(all, fmt.Sprintf("%s:%s@%d", p.Name, p.Type, p.Arg))
	}
	return strings.Join(all, " ")
}

const wantF = "c:int8@0 n:struct node *@1 d:?@-1 s:int8 *@2 sm:struct small@-1 bg:struct big@-1 last:uint64@4"

func TestParameters(t *testing.T) {
	b := open(t, build(t, "a.c", cSource))
	for _, c := range []struct{ name, want string }{
		{"f", wantF},
		{"g", "first:int32@1"}, // the address of the result comes first
		{"many", "a:int32@0 b:int32@1 c:int32@2 d:int32@3 e:int32@4 f6:int32@5 g7:int32@-1"},
	} {
		f, err := b.Func(c.name)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if have := strings.ReplaceAll(describe(f), "float", "?"); have != c.want && b.Machine.String() == "EM_X86_64" {
			t.Errorf("%s:\n got %s\nwant %s", c.name, have, c.want)
		}
	}
	if _, err := b.Func("nothing"); err == nil {
		t.Error("found a nonexistent function")
	}
}

// TestBytes checks that arrays of char, signed char and unsigned char are strings, and those of typedefs of them and of
// bool are arrays, as in bpftrace.
func TestBytes(t *testing.T) {
	b := open(t, build(t, "bytes.c", `
typedef unsigned char u8; typedef char mine; typedef signed char s8;
struct all { char c[4]; signed char sc[4]; unsigned char uc[4]; const char cc[4]; volatile unsigned char vc[4];
	u8 u[4]; mine m[4]; s8 s[4]; const u8 cu[4]; _Bool b[4]; char two[2][4]; u8 u2[2][4]; };
struct all all;
int main(void) { return all.c[0]; }
`))
	all, ok := b.Tagged("struct", "all")
	if !ok {
		t.Fatal("no struct all")
	}
	text := map[string]bool{"c": true, "sc": true, "uc": true, "cc": true, "vc": true, "two": true}
	for _, m := range all.Comp.Members() {
		inner := m.Type
		for inner.Elem.Kind == types.Array {
			inner = inner.Elem
		}
		if have := inner.Chars != types.NoChars; have != text[m.Name] {
			t.Errorf("%s of type %s is a string: %v", m.Name, m.Type, have)
		}
	}
}

func TestTypes(t *testing.T) {
	b := open(t, build(t, "a.c", cSource))
	n, ok := b.Tagged("struct", "node")
	if !ok {
		t.Fatal("no struct node")
	}
	for _, c := range []struct {
		name, typ string
		off       int
	}{
		{"next", "struct node *", 0}, {"name", "int8[16]", 8}, {"i", "int32", 24}, {"raw", "uint8[4]", 24},
		{"grid", "int32[3][2]", 28}, {"col", "enum color", 52}, {"ok", "uint8", 56},
	} {
		m, ok := n.Comp.Find(c.name)
		if !ok || m.Type.String() != c.typ || m.Off != c.off {
			t.Errorf("%s: found = %v, %s at %d, want %s at %d", c.name, ok, m.Type, m.Off, c.typ, c.off)
		}
	}
	if n.Size != 64 || n.Comp.Alignment() != 8 {
		t.Errorf("struct node: size %d, alignment %d", n.Size, n.Comp.Alignment())
	}
	next, _ := n.Comp.Find("next")
	if next.Type.Elem != n || next.Type.Space != types.User {
		t.Error("next is not a pointer to the struct in user space")
	}
	e, ok := b.Tagged("enum", "color")
	if v, found := e.Enum.Find("BLUE"); !ok || !found || v.Value != -1 || e.Size != 4 {
		t.Errorf("enum color = %v, %+v", ok, e)
	}
	if typedef, ok := b.Named("node_t"); !ok || typedef != n {
		t.Error("node_t is not struct node")
	}
	bits, _ := b.Tagged("struct", "bits")
	for _, c := range []struct {
		name      string
		off, size int
	}{{"a", 0, 3}, {"b", 3, 7}, {"c", 10, 5}} {
		if m, ok := bits.Comp.Find(c.name); !ok || m.BitOff != c.off || m.BitSize != c.size || m.Off != 0 {
			t.Errorf("%s = %+v", c.name, m)
		}
	}
}

// TestForms checks that old versions of the format, and debug information that was moved to other files
// by the compiler or objcopy, give the same results.
func TestForms(t *testing.T) {
	check := func(t *testing.T, b *Binary) {
		t.Helper()
		f, err := b.Func("f")
		if err != nil {
			t.Fatal(err)
		}
		if have := strings.ReplaceAll(describe(f), "float", "?"); have != wantF && b.Machine.String() == "EM_X86_64" {
			t.Errorf("got %s", have)
		}
		bits, ok := b.Tagged("struct", "bits")
		if m, found := bits.Comp.Find("c"); !ok || !found || m.BitOff != 10 || m.BitSize != 5 {
			t.Errorf("a bitfield: %+v", m)
		}
		if addrs, err := b.Line("a.c", 8, 0); err != nil || len(addrs) != 1 || b.at(addrs[0]) != "f" {
			t.Errorf("line 8: addresses %x, error %v", addrs, err)
		}
	}
	for _, flag := range []string{"-gdwarf-2", "-gdwarf-3", "-gdwarf-4", "-gdwarf-5", "-gz"} {
		t.Run(flag, func(t *testing.T) { check(t, open(t, build(t, "a.c", cSource, flag))) })
	}
	t.Run("split", func(t *testing.T) { check(t, open(t, build(t, "a.c", cSource, "-gdwarf-5", "-gsplit-dwarf"))) })
	t.Run("split DWARF 4", func(t *testing.T) {
		_, err := (&Finder{}).Open(build(t, "a.c", cSource, "-gdwarf-4", "-gsplit-dwarf"))
		if err == nil || !strings.Contains(err.Error(), "no debug information") {
			t.Errorf("error = %v", err)
		}
	})
	t.Run("package", func(t *testing.T) {
		if _, err := exec.LookPath("llvm-dwp"); err != nil {
			t.Skip("skipped: ", err)
		}
		// llvm-dwp of LLVM 14 does not terminate on the whole source.
		small := strings.Replace(cSource, "struct big g(int first) { struct big b = {0}; return b; }", "", 1)
		p := build(t, "a.c", small, "-gsplit-dwarf")
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, "llvm-dwp", "-e", p, "-o", p+".dwp")
		cmd.Dir = filepath.Dir(p)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("skipped: llvm-dwp failed: %v %s", err, out)
		}
		dwos, _ := filepath.Glob(filepath.Join(filepath.Dir(p), "*.dwo"))
		for _, f := range dwos {
			os.Remove(f)
		}
		check(t, open(t, p))
	})
	t.Run("stripped", func(t *testing.T) {
		p := build(t, "a.c", cSource)
		id := open(t, p).ID
		elsewhere := t.TempDir()
		for _, args := range [][]string{{"--only-keep-debug", p, filepath.Join(elsewhere, "prog.debug")}, {"--strip-debug", p}} {
			if out, err := exec.Command("objcopy", args...).CombinedOutput(); err != nil {
				t.Skipf("skipped: objcopy: %v %s", err, out)
			}
		}
		if _, err := (&Finder{}).Open(p); err == nil || !strings.Contains(err.Error(), "no debug information") {
			t.Errorf("without the debug file: error = %v", err)
		}
		b := open(t, p, elsewhere)
		check(t, b)
		if b.ID != id {
			t.Errorf("build ID %s, before stripping %s", b.ID, id)
		}
	})
}

func TestLines(t *testing.T) {
	b := open(t, build(t, "a.c", cSource))
	for _, c := range []struct {
		file string
		line int
		want string // functions, or part of the error
	}{
		{"a.c", 11, "many"}, {"a.c", 12, "many"}, {"a.c", 14, "out1"},
		{"a.c", 10, "the next line with code is 11"}, {"a.c", 9999, "no code for line 9999"}, {"b.c", 1, "no code from a source file b.c"},
		{".c", 11, "no code from a source file"},
	} {
		addrs, err := b.Line(c.file, c.line, 0)
		have := fmt.Sprint(err)
		if err == nil {
			have = ""
			for _, a := range addrs {
				have += b.at(a)
			}
		}
		if !strings.Contains(have, c.want) {
			t.Errorf("%s:%d: %s, want %s", c.file, c.line, have, c.want)
		}
	}
}

func TestCPlusPlus(t *testing.T) {
	b := open(t, build(t, "a.cc", `
namespace ns {
struct base { int x; };
class shape : public base { public: int y; static int count; shape &self; int area(int scale) const; shape(shape &s) : self(s) {} };
int shape::area(int scale) const { return scale; }
int take(const shape &s, shape &&r, long n) { return s.area(1); }
}
int main() { return 0; }
`))
	area, err := b.Func("_ZNK2ns5shape4areaEi")
	if err != nil {
		t.Fatal(err)
	}
	if have := describe(area); have != "this:struct shape *@0 scale:int32@1" {
		t.Errorf("got %s", have)
	}
	shape := area.Params[0].Type.Elem
	if m, ok := shape.Comp.Find("x"); !ok || m.Off != 0 {
		t.Errorf("member of the base class: %v %+v", ok, m)
	}
	if m, ok := shape.Comp.Find("y"); !ok || m.Off != 4 {
		t.Errorf("y = %v, %+v", ok, m)
	}
	if _, ok := shape.Comp.Find("count"); ok {
		t.Error("static member found in the object")
	}
	take, err := b.Func("_ZN2ns4takeERKNS_5shapeEOS0_l")
	if err != nil {
		t.Fatal(err)
	}
	if have := describe(take); have != "s:struct shape *@0 r:struct shape *@1 n:int64@2" {
		t.Errorf("got %s", have)
	}
}

// FuzzSections checks that damaged debug information causes neither a panic nor an endless loop.
func FuzzSections(f *testing.F) {
	if _, err := exec.LookPath("gcc"); err == nil {
		dir := f.TempDir()
		os.WriteFile(filepath.Join(dir, "a.c"), []byte(cSource), 0o600)
		cmd := exec.Command("gcc", "-g", "-w", "-c", "-o", filepath.Join(dir, "a.o"), filepath.Join(dir, "a.c"))
		if cmd.Run() == nil {
			if b, err := os.ReadFile(filepath.Join(dir, "a.o")); err == nil {
				f.Add(b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "x")
		os.WriteFile(path, data, 0o600)
		b, err := (&Finder{}).Open(path)
		if err != nil {
			return
		}
		for _, name := range b.Functions(func(string) bool { return true }) {
			fn, err := b.Func(name)
			if err != nil {
				continue
			}
			for _, p := range fn.Params {
				walk(p.Type, 0)
			}
		}
		b.Line("a.c", 8, 0)
	})
}

func walk(t *types.Type, depth int) {
	if t == nil || depth > 5 {
		return
	}
	if t.Kind == types.Struct {
		for _, m := range t.Comp.Members() {
			walk(m.Type, depth+1)
		}
	}
	walk(t.Elem, depth+1)
}
