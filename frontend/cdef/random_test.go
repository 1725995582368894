// SPDX-License-Identifier: Apache-2.0

package cdef

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// randomStruct generates a struct with bitfields, arrays, nested and anonymous parts, packed and
// aligned. It returns the names of its members, and which of them are bitfields.
func randomStruct(r *rand.Rand, n int) (text string, members, bits []string) {
	scalars := []string{"char", "short", "int", "long", "unsigned char", "unsigned short", "unsigned int", "unsigned long", "_Bool", "void *"}
	integers := scalars[:8]
	sizes := map[string]int{"char": 8, "short": 16, "int": 32, "long": 64, "unsigned char": 8, "unsigned short": 16, "unsigned int": 32, "unsigned long": 64}
	var b strings.Builder
	count := 0
	var body func(depth int)
	body = func(depth int) {
		for range 1 + r.IntN(5) {
			count++
			name := fmt.Sprintf("m%d", count)
			switch k := r.IntN(12); {
			case k < 4:
				fmt.Fprintf(&b, "%s %s;", scalars[r.IntN(len(scalars))], name)
				members = append(members, name)
			case k < 7:
				t := integers[r.IntN(len(integers))]
				fmt.Fprintf(&b, "%s %s : %d;", t, name, 1+r.IntN(sizes[t]))
				bits = append(bits, name)
			case k == 7:
				fmt.Fprintf(&b, "%s : 0;", integers[r.IntN(len(integers))])
			case k == 8:
				fmt.Fprintf(&b, "%s %s[%d][%d];", scalars[r.IntN(len(scalars))], name, 1+r.IntN(4), 1+r.IntN(3))
				members = append(members, name)
			case k == 9:
				fmt.Fprintf(&b, "%s %s __attribute__((aligned(%d)));", scalars[r.IntN(len(scalars))], name, 1<<r.IntN(6))
				members = append(members, name)
			case k == 10:
				fmt.Fprintf(&b, "%s %s __attribute__((packed));", scalars[r.IntN(len(scalars))], name)
				members = append(members, name)
			case depth < 3:
				b.WriteString([]string{"struct {", "union {"}[r.IntN(2)])
				body(depth + 1)
				b.WriteString([]string{"};", "} __attribute__((packed));"}[r.IntN(2)])
			}
		}
	}
	fmt.Fprintf(&b, "%s t%d { char first;", []string{"struct", "struct", "union"}[r.IntN(3)], n)
	members = append(members, "first")
	body(0)
	b.WriteString([]string{"};", "};", "} __attribute__((packed));", "} __attribute__((aligned(16)));", "} __attribute__((packed, aligned(4)));"}[r.IntN(5)])
	return b.String(), members, bits
}

// TestRandomLayouts compares the layouts of random structs with the C compiler's.
func TestRandomLayouts(t *testing.T) {
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("skipped: no C compiler to compare with: ", err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var src, main, all strings.Builder
	src.WriteString("#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n")
	const total = 300
	for n := range total {
		text, members, bits := randomStruct(r, n)
		all.WriteString(text + "\n")
		word := strings.Fields(text)[0]
		fmt.Fprintf(&main, "{ %s t%d x; unsigned char *p = (unsigned char *)&x; printf(\"%d %%zu %%zu\", sizeof x, _Alignof(%s t%d));\n", word, n, n, word, n)
		for _, m := range members {
			fmt.Fprintf(&main, "printf(\" %s=%%zu\", offsetof(%s t%d, %s));\n", m, word, n, m)
		}
		for _, m := range bits { // the first and last bit that is set
			fmt.Fprintf(&main, "memset(&x, 0, sizeof x); x.%s = -1; { int a = -1, b = -1; for (int i = 0; i < 8 * (int)sizeof x; i++) if (p[i / 8] >> (i %% 8) & 1) { if (a < 0) a = i; b = i; } printf(\" %s=%%d:%%d\", a, b - a + 1); }\n", m, m)
		}
		main.WriteString("printf(\"\\n\"); }\n")
	}
	src.WriteString(all.String() + "int main(void) {\n" + main.String() + "return 0; }\n")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.c"), []byte(src.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-w", "-O0", "-o", filepath.Join(dir, "a"), filepath.Join(dir, "a.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want, err := exec.Command(filepath.Join(dir, "a")).Output()
	if err != nil {
		t.Fatal(err)
	}
	e, l := read(all.String())
	if l.Len() > 0 {
		t.Fatal(l.Sorted()[0])
	}
	texts, lines := strings.Split(all.String(), "\n"), strings.Split(strings.TrimSpace(string(want)), "\n")
	if len(lines) != total {
		t.Fatalf("the C program printed %d lines, want %d", len(lines), total)
	}
	for n, line := range lines {
		word := strings.Fields(texts[n])[0]
		typ, ok := e.Tagged(word, fmt.Sprintf("t%d", n))
		if !ok {
			t.Fatalf("t%d is missing", n)
		}
		got := fmt.Sprintf("%d %d %d", n, typ.Size, typ.Align())
		for _, f := range strings.Fields(line)[3:] {
			name, _, _ := strings.Cut(f, "=")
			m, _ := typ.Comp.Find(name)
			if m.BitSize > 0 {
				got += fmt.Sprintf(" %s=%d:%d", name, 8*m.Off+m.BitOff, m.BitSize)
			} else {
				got += fmt.Sprintf(" %s=%d", name, m.Off)
			}
		}
		if got != line {
			t.Errorf("%s\n got %s\nwant %s", texts[n], got, line)
		}
	}
}
