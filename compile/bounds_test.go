// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"btc/targets/kernel"
)

// doubled returns a first line and n lines in which each number uses the previous one twice.
func doubled(n int, first, line string) string {
	var b strings.Builder
	b.WriteString(first)
	for i := range n {
		b.WriteString(strings.NewReplacer("N", fmt.Sprint(i+1), "P", fmt.Sprint(i)).Replace(line))
	}
	return b.String()
}

// TestDoubling checks that code that grows exponentially with the length of a script is rejected before
// any stage walks it. Some of these scripts used gigabytes; others never finished.
func TestDoubling(t *testing.T) {
	structs := func(n int, word string) string {
		return doubled(n, word+" S0 { int a; int b; };\n", word+" SN { "+word+" SP a; "+word+" SP b; };\n")
	}
	tuples := func(n int) string { return doubled(n, "$a0 = (1, 1); ", "$aN = ($aP, $aP); ") }
	objects := doubled(40, "#define A0 \"xxxxxxxx\"\n", "#define AN AP AP\n")
	calls := func(n int, x string) string { return strings.Repeat("F(", n) + x + strings.Repeat(")", n) }
	for _, c := range []struct{ name, text, want string }{
		{"tuples", "begin { " + tuples(60) + "}", "x.bt:1:253: error[E0110]: a value has more than 16384 parts"},
		{"records", "begin { " + doubled(60, "$a0 = (a = 1, b = 1); ", "$aN = (a = $aP, b = $aP); ") + "}", "error[E0110]: a value has more than 16384 parts"},
		{"keys", "begin { " + tuples(11) + "@[$a11, $a11, $a11, $a11, $a11] = 1; }", "error[E0110]: a value has more than 16384 parts"},
		{"loop", "begin { " + tuples(12) + "@[1] = $a12; for ($kv : @) { $b = ($kv, $kv); } }", "error[E0110]: a value has more than 16384 parts"},
		{"structs", structs(60, "struct") + "begin { print(*(struct S60 *)0); }", "x.bt:14:43: error[E0222]: struct S13 has more than 16384 members"},
		{"unions", structs(60, "union") + "begin { print(*(union S60 *)0); }", "x.bt:14:40: error[E0222]: union S13 has more than 16384 members"},
		{"kernel types", "union A { " + strings.Repeat("struct task_struct aX; ", 60) + "};\nbegin { }", "union A has more than 16384 members"},
		{"unions printed", structs(12, "union") + "begin { " + strings.Repeat("print(*(union S12 *)0); ", 100) + "}", "the values of the script up to here have more than 524288 parts"},
		{"union of arrays", "struct A { union { " + numbered(500, "int a%d[16000]; ") + "}; };\nbegin { print(*(struct A *)0); }", "x.bt:2:9: error[E0401]: the result is too large for an object: fields[0]: the printed form of a value is larger than 8 MiB"},
		{"array", "struct A { int x[4000][4000]; };\nbegin { print(*(struct A *)0); }", "x.bt:2:15: error[E0401]: a value of 64000000 bytes"},
		{"array of the script", "begin { print(sizeof(int64[65536][65536][65536][65536])); }", "array too large (max 67108864 bytes)"},
		{"C macros", objects + "begin { print(A40); print(A39); print(A38); }", "E0110]: macro expansion is too large"},
		{"C macro calls", "#define F(x) x x\nbegin { print(" + calls(40, "1") + "); }", "macro expansion is too large"},
		{"C macro calls in #if", "#define F(x) x+x\n#if " + calls(40, "1") + "\n#endif\nbegin { }", "macro expansion is too large"},
		{"C macros in a struct", doubled(40, "#define A0 int a;\n", "#define AN AP AP\n") + "struct X { A40 };\nbegin { }", "macro expansion is too large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tgt, err := kernel.Default("x86_64")
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			out, diags := Compile(Input{Name: "x.bt", Text: c.text, Target: tgt, Compiler: "test", Verify: true})
			runtime.ReadMemStats(&after)
			if said := fmt.Sprint(diags.Err()); out != nil || !strings.Contains(said, c.want) {
				t.Errorf("error = %.300s, want %q", said, c.want)
			}
			if mem := after.TotalAlloc - before.TotalAlloc; mem > 512<<20 {
				t.Errorf("allocated %d MiB", mem>>20)
			}
		})
	}
}

// TestRuleCheck compiles scripts that violated the rules of the IR, which caused a panic.
func TestRuleCheck(t *testing.T) {
	for name, text := range map[string]string{
		"longest length": `tracepoint:syscalls:sys_enter_openat { @[str(args.filename, 18446744073709551615)] = count(); }`,
		"iterator":       `iter:task { printf("%d %s\n", ctx->task->pid, ctx->task->comm); }`,
		"iterator gaps":  `iter:task { printf("%d %s %d %s\n", ctx->task->pid, "abcdefghijklm", (int8)ctx->task->prio, "x"); print((1, "abc")); }`,
		"long key":       `begin { @["` + strings.Repeat("A", 1023) + `"] = 1; @a["` + strings.Repeat("B", 1023) + `", 1] = 1; }`,
		"empty struct":   "struct Z {};\nbegin { print(*(struct Z *)0); @ = *(struct Z *)0; @a[*(struct Z *)0] = 1; $x = *(struct Z *)0; print((1, $x)); }",
	} {
		t.Run(name, func(t *testing.T) {
			tgt, err := kernel.Default("x86_64")
			if err != nil {
				t.Fatal(err)
			}
			if out, diags := Compile(Input{Name: "x.bt", Text: text, Target: tgt, Compiler: "test", Verify: true}); out == nil {
				t.Error(diags.Err())
			}
		})
	}
}

// TestPrivateFiles checks that messages only quote headers next to the script or below a directory of
// -I, because a script may include any file.
func TestPrivateFiles(t *testing.T) {
	const secret = "hunter2"
	dir, outside := t.TempDir(), t.TempDir()
	write := func(path, text string) string {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, text := range map[string]string{
		"word": secret + "\n", "binary": "A=" + secret + "\x00B=1\x00", "directive": "# " + secret + "\n", "error": "#error " + secret + "\n",
		"if": "#if " + secret + "(\n", "type": "struct " + secret + " { " + secret + " x; };\n", "quote": "'" + secret + "\n",
		"macro": "#define PASSWORD if " + secret + "\n", "array": "struct a { int x[" + secret + "]; };\n",
	} {
		write(filepath.Join(dir, name+".env"), text)
		path := write(filepath.Join(outside, name+".h"), text)
		if err := os.Symlink(path, filepath.Join(dir, name+"_link.h")); err != nil {
			t.Fatal(err)
		}
		write(filepath.Join(dir, name+".h"), text)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, file := range append(files, "../"+filepath.Base(outside)+"/word.h", filepath.Join(outside, "type.h")) {
		for _, form := range []string{"#include \"%s\"\nbegin { print(PASSWORD); }", "struct x {\n#include \"%s\"\n};\nbegin { print(PASSWORD); }", "enum x { a =\n#include \"%s\"\n};\nbegin { }"} {
			tgt, err := kernel.Default("x86_64")
			if err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprintf(form, file)
			_, diags := Compile(Input{Name: filepath.Join(dir, "x.bt"), Text: text, Target: tgt, Compiler: "test"})
			said := fmt.Sprint(diags.Err())
			own := filepath.Dir(file) == dir && strings.HasSuffix(file, ".h") && !strings.HasSuffix(file, "_link.h")
			switch quoted := strings.Contains(said, secret); {
			case own && quoted:
				shown++
			case quoted:
				t.Errorf("%s: message quotes the file:\n%s", text, said)
			case !diags.HasErrors():
				t.Logf("%s: no error", text)
			}
		}
	}
	if shown == 0 {
		t.Error("no message quotes the header next to the script")
	}
}
