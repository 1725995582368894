// SPDX-License-Identifier: Apache-2.0

package symbolize

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"btc/internal/elffile"
	"btc/loader/format"
)

// source has functions that are inlined into others, in C and, with a namespace, in C++.
const source = `
#ifdef __cplusplus
namespace space {
template <typename T> struct box {
	T value;
	inline __attribute__((always_inline)) T twice(T x) { return x * 2 + value; }
};
int other(int n);
#endif
static inline __attribute__((always_inline)) int leaf(volatile int *p, int n) {
	for (int i = 0; i < n; i++)
		*p += i;
	return *p;
}
static inline __attribute__((always_inline)) int middle(volatile int *p, int n) {
	int x = leaf(p, n);
	return x + leaf(p, 3);
}
__attribute__((noinline)) int outer(volatile int *p, int n) {
	return middle(p, n) + 1;
}
static __attribute__((noinline)) int hidden(volatile int *p) {
	if (__builtin_expect(*p == 12345, 0))
		return outer(p, 7) * 3;
	return middle(p, 2);
}
#ifdef __cplusplus
}
using namespace space;
#endif
int main(int argc, char **argv) {
	volatile int v = argc;
	int x = outer(&v, 2) + hidden(&v);
#ifdef __cplusplus
	box<int> b = {x};
	x += b.twice(v);
#endif
	return x + leaf(&v, argc);
}
`

func tools(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip("skipped: no ", name)
		}
	}
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// program is a program with debug information, and the addresses of its own functions.
type program struct {
	path, id string
	offsets  []uint64 // in the file
	addrs    []uint64
}

// built compiles source.
func built(t *testing.T, dir, compiler string, flags ...string) *program {
	t.Helper()
	name := "a.c"
	if compiler == "g++" {
		name = "a.cc"
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	p := &program{path: filepath.Join(dir, "program")}
	cmd := exec.Command(compiler, slices.Concat([]string{"-O2", "-Wl,--build-id", "-o", p.path}, flags, []string{name})...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("skipped: %s %v: %s", compiler, flags, out)
	}
	p.read(t)
	return p
}

func (p *program) read(t *testing.T) {
	t.Helper()
	f, err := elf.Open(p.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p.id = elffile.BuildID(f)
	elffile.EachSymbol(f, func(s *elffile.Symbol) bool {
		name := string(s.Name())
		if s.Type != elf.STT_FUNC || !strings.Contains(name, "outer") && !strings.Contains(name, "hidden") && name != "main" {
			return true
		}
		for a := s.Value; a < s.Value+s.Size; a++ {
			for _, x := range f.Progs {
				if x.Type == elf.PT_LOAD && x.Vaddr <= a && a < x.Vaddr+x.Filesz {
					p.addrs, p.offsets = append(p.addrs, a), append(p.offsets, a-x.Vaddr+x.Off)
				}
			}
		}
		return true
	})
	if len(p.addrs) < 50 {
		t.Fatalf("%d addresses", len(p.addrs))
	}
}

// expected is what a tool prints for each address: pairs of a function and a line.
func expected(t *testing.T, p *program, tool ...string) [][]string {
	t.Helper()
	var in strings.Builder
	for _, a := range p.addrs {
		fmt.Fprintf(&in, "%#x\n", a)
	}
	cmd := exec.Command(tool[0], append(tool[1:], p.path)...)
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", tool, err)
	}
	var all [][]string
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i := 0; i < len(lines); {
		if strings.HasPrefix(lines[i], "0x") {
			all = append(all, nil)
			i++
			continue
		}
		line, _, _ := strings.Cut(lines[i+1], " (discriminator")
		all[len(all)-1] = append(all[len(all)-1], lines[i]+" "+line)
		i += 2
	}
	if len(all) != len(p.addrs) {
		t.Fatalf("%v: %d of %d addresses", tool, len(all), len(p.addrs))
	}
	return all
}

// check compares the frames of all addresses, whose names are not demangled, with those of a tool.
func check(t *testing.T, p *program, want [][]string, dirs ...string) {
	t.Helper()
	files, err := NewFiles(dirs, func(text string) { t.Error(text) })
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	bad, inlined := 0, 0
	for i, off := range p.offsets {
		files.frames(&format.Frame{File: p.path, BuildID: p.id, FileOffset: off}, false)
		m := files.modules[p.id]
		if m.units == nil {
			t.Fatal("no debug information")
		}
		addr, _, ok := m.address(&format.Frame{File: p.path, FileOffset: off})
		if !ok || addr != p.addrs[i] {
			t.Fatalf("offset %#x is at %#x, %t; want %#x", off, addr, ok, p.addrs[i])
		}
		var got []string
		all := m.units.at(addr, 0, "")
		if n := len(all); n > 0 { // a function that has no other name in symbol tables is called as there
			if s := m.symbol(addr, 0, all[n-1].name); s != nil && strings.Contains(s.name, all[n-1].name) {
				all[n-1].name, _, _ = strings.Cut(s.name, ".")
			}
		}
		for _, x := range all {
			line := fmt.Sprint(x.line)
			if x.line == 0 {
				line = "?"
			}
			file := x.file
			if file == "" {
				file = "??"
			}
			got = append(got, fmt.Sprintf("%s %s:%s", x.name, file, line))
		}
		inlined = max(inlined, len(got))
		// binutils call also an inlined function as in symbol tables there, which have only the one that it is inlined into.
		if n := len(got); n > 1 && n == len(want[i]) {
			symbol, _, _ := strings.Cut(want[i][n-1], " ")
			if rest, wrong := strings.CutPrefix(want[i][0], symbol+" "); wrong {
				want[i][0] = all[0].name + " " + rest
			}
		}
		if !slices.Equal(got, want[i]) {
			if bad++; bad < 5 {
				t.Errorf("%#x:\n  %q\nwant\n  %q", addr, got, want[i])
			}
		}
	}
	if inlined < 3 {
		t.Errorf("at most %d functions at an address", inlined)
	}
	if bad > 0 {
		t.Errorf("%d of %d addresses differ", bad, len(p.addrs))
	}
}

// TestAddr2line compares functions, inlined functions and lines at each address of a program with those of binutils, for each
// version of DWARF and each compression, in the program and in debug files.
func TestAddr2line(t *testing.T) {
	tools(t, "gcc", "addr2line", "objcopy")
	for _, c := range []struct {
		compiler string
		flags    string
	}{
		{"gcc", "-g -gdwarf-2 -gstrict-dwarf"}, {"gcc", "-g -gdwarf-3"}, {"gcc", "-g -gdwarf-4"}, {"gcc", "-g -gdwarf-5"}, {"gcc", "-g -gdwarf-5 -gz=zlib"}, {"gcc", "-g -gz=zstd"},
		{"g++", "-g -gdwarf-4"}, {"g++", "-g -gdwarf-5 -ffunction-sections"}, {"gcc", "-g -static -no-pie"}, {"gcc", "-g -fuse-ld=lld"}, {"gcc", "-g -fuse-ld=gold"},
	} {
		t.Run(c.compiler+" "+c.flags, func(t *testing.T) {
			tools(t, c.compiler)
			dir := t.TempDir()
			p := built(t, dir, c.compiler, strings.Fields(c.flags)...)
			want := expected(t, p, "addr2line", "-a", "-f", "-i", "-e")
			check(t, p, want, dir)
			debug := filepath.Join(t.TempDir(), ".build-id", p.id[:2], p.id[2:]+".debug")
			if err := os.MkdirAll(filepath.Dir(debug), 0o755); err != nil {
				t.Fatal(err)
			}
			run(t, dir, "objcopy", "--only-keep-debug", p.path, debug)
			check(t, p, want, filepath.Dir(filepath.Dir(filepath.Dir(debug))))
		})
	}
}

// TestLLVM does the same with llvm-symbolizer.
func TestLLVM(t *testing.T) {
	tools(t, "gcc", "llvm-symbolizer")
	dir := t.TempDir()
	p := built(t, dir, "gcc", "-g")
	check(t, p, expected(t, p, "llvm-symbolizer", "-a", "-i", "--functions=linkage", "--no-demangle", "--output-style=GNU", "-e"), dir)
}

// TestDwz checks that names in a file that several debug files share are found.
func TestDwz(t *testing.T) {
	tools(t, "gcc", "addr2line", "dwz")
	dir, common := t.TempDir(), t.TempDir()
	p := built(t, dir, "gcc", "-g", "-gdwarf-4")
	want := expected(t, p, "addr2line", "-a", "-f", "-i", "-e")
	for i := range 3 {
		run(t, dir, "cp", "program", fmt.Sprintf("copy%d", i))
	}
	run(t, dir, "dwz", "-m", filepath.Join(common, "common.debug"), "-M", "common.debug", "program", "copy0", "copy1", "copy2")
	if f, err := elf.Open(p.path); err != nil || f.Section(".gnu_debugaltlink") == nil {
		t.Fatal("nothing in common: ", err)
	}
	check(t, p, want, dir, common)
}

// TestSplit checks that debug information in .dwo files is refused by the name of one, and that symbols are used.
func TestSplit(t *testing.T) {
	tools(t, "gcc")
	dir := t.TempDir()
	p := built(t, dir, "gcc", "-g", "-gsplit-dwarf")
	var warnings []string
	files, err := NewFiles([]string{dir}, func(text string) { warnings = append(warnings, text) })
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	got := files.frames(&format.Frame{File: p.path, BuildID: p.id, FileOffset: p.offsets[0]}, false)
	if len(got) != 1 || got[0].Sym == "" || got[0].Line != 0 {
		t.Errorf("got %+v", got)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], ".dwo") {
		t.Errorf("warnings %q", warnings)
	}
}

// TestBombs checks that files whose tables are much larger than they are take no more memory than is permitted.
func TestBombs(t *testing.T) {
	tools(t, "gcc")
	dir := t.TempDir()
	assembled := func(name, text string) *elfFile {
		if err := os.WriteFile(filepath.Join(dir, name+".s"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		run(t, dir, "gcc", "-c", "-o", name, name+".s")
		e := openELF(filepath.Join(dir, name))
		if e == nil {
			t.Fatal("no ELF file")
		}
		t.Cleanup(e.close)
		return e
	}
	files := &Files{warned: map[string]bool{}}
	defer func(nodes, names int) { maxNodes, maxNames = nodes, names }(maxNodes, maxNames)
	maxNodes, maxNames = 1000, 1000

	// A list of ranges that each of many functions has.
	const count, pairs = 200, 100
	text := ".section .debug_abbrev\n.uleb128 1, 0x11\n.byte 1\n.uleb128 0x11, 1, 0x12, 1, 0, 0\n.uleb128 2, 0x2e\n.byte 0\n.uleb128 0x55, 0x17, 0, 0, 0\n" +
		".section .debug_info\n.long 2f-1f\n1: .word 4\n.long 0\n.byte 8\n.uleb128 1\n.quad 0x1000, 0x2000\n"
	if out, err := exec.Command("gcc", "-dumpmachine").Output(); err == nil && strings.HasPrefix(string(out), "aarch64") {
		text = strings.ReplaceAll(text, ".word 4", ".hword 4")
	}
	text += strings.Repeat(".uleb128 2\n.long 0\n", count) + ".uleb128 0\n2:\n.section .debug_ranges\n" + strings.Repeat(".quad 0x1000, 0x2000\n", pairs) + ".quad 0, 0\n"
	m := &module{files: files, debug: assembled("ranges", text)}
	u, err := m.readUnits()
	if err != nil || len(u.ranges) != 1 {
		t.Fatalf("%v: %v", u, err)
	}
	all := 0
	for _, f := range u.load(u.ranges[0].unit).functions {
		all += len(f.ranges)
	}
	if all < pairs || all > 2*maxNodes+pairs {
		t.Errorf("%d ranges are kept", all)
	}

	// A section that says that it is larger when it is decompressed.
	m = &module{files: files, debug: assembled("large", ".section .zdebug_info\n.ascii \"ZLIB\"\n.byte 0, 0, 1, 0, 0, 0, 0, 0\n.long 0\n")}
	if _, err := m.readUnits(); err == nil || err.Error() != "more than 4 GiB" {
		t.Errorf("a large section: %v", err)
	}

	// Functions with the same name.
	text = ""
	for i := range 100 {
		text += fmt.Sprintf(".type %[1]s%02[2]d, @function\n.globl %[1]s%02[2]d\n%[1]s%02[2]d: .long 0\n", strings.Repeat("x", 98), i)
	}
	e := assembled("names", text)
	m = &module{files: files, layout: e}
	m.addSymbols(e)
	if len(m.named) != maxNames/100 {
		t.Errorf("%d names of 100 bytes are kept", len(m.named))
	}
}
