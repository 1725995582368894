// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"btc/targets/kernel"
)

// numbered repeats a format for the numbers 0 to n-1.
func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestExtremes checks that absurdly large, deep or binary input is rejected quickly with an error that
// names the limit.
func TestExtremes(t *testing.T) {
	rep := strings.Repeat
	nested := "nesting too deep or statement too long"
	for _, c := range []struct{ name, text, want string }{
		{"parentheses", "begin { print(" + rep("(", 5000) + "1" + rep(")", 5000) + "); }", nested},
		{"open parentheses", rep("(", 1<<20), "(max 8192)"},
		{"open braces", rep("{", 1<<20), nested},
		{"blocks", "begin { " + rep("{", 5000) + rep("}", 5000) + " }", nested},
		{"ifs", "begin { " + rep("if (pid) {", 5000) + rep("}", 5000) + " }", nested},
		{"else ifs", "begin { if (pid) { } " + numbered(50000, "else if (pid == %d) { } ") + "}", nested},
		{"maps", "begin { " + numbered(65, "@m%d = 1; ") + "}", "maps; the kernel allows 64 per program"},
		{"maps and those for output", "begin { " + numbered(64, "@m%d = 1; ") + "exit(); }", "this probe uses 66 maps"},
		{"signs", "begin { print(" + rep("-", 100000) + "1); }", nested},
		{"casts", "begin { print(" + rep("(int8)", 50000) + "1); }", nested},
		{"sum", "begin { print(pid" + rep("+pid", 100000) + "); }", nested},
		{"choices", "begin { print(" + rep("pid ? 1 : ", 20000) + "2); }", nested},
		{"tuple", "begin { print((1" + rep(",1", 100000) + ")); }", nested},
		{"keys", "begin { print(@a" + rep("[@a", 20000) + "[1]" + rep("]", 20000) + "); }", nested},
		{"fields", "begin { print(curtask" + rep(".parent", 50000) + ".pid); }", nested},
		{"attach points", "begin" + rep(",begin", 50000) + " { }", nested},
		{"clauses", numbered(5000, "begin { @x = %d; }\n"), "more than 1024 BPF programs"},
		{"allowed clauses", "config = { max_bpf_progs = 100000 }\n" + numbered(5000, "begin { @x = %d; }\n"), "more than 4096 BPF programs"},
		{"statements", "begin { " + numbered(50000, "@x = %d;\n") + " }", "more than 16384 statements"},
		{"statements of functions", "begin { print(f14(\"a\")); }\n" + doubling(14), "more than 16384 statements"},
		{"unrolled statements", "begin { " + rep("unroll 100 { ", 5) + "@x++;" + rep(" }", 5) + " }", "more than 16384 statements"},
		{"bytes", rep("begin { }\n", 1<<18), "(max 2097152)"},
		{"functions", numbered(20000, "fn f%d($x : int8) : int8 { return 1; }\n") + "fn r($x : int8) : int8 { return r($x); }\nbegin { }", "Recursive function call"},
		{"structs", numbered(20000, "struct s%d { int a; char c[16]; };\n") + "begin { nosuch; }", "Unknown identifier"},
		{"unknown fields", "begin { " + numbered(2000, "print(curtask.nosuch%d); ") + "}", "does not contain a field named 'nosuch0'"},
		{"nested tuple", "begin { print(" + rep("(", 60) + "1" + rep(",1)", 60) + "); }", "x.bt:1:9: error[E0401]: the result is too large for an object: layout: layouts nested too deeply (max 16)"},
		{"nested key", "begin { @x[" + rep("(", 60) + "1" + rep(",1)", 60) + "] = 1; }", "x.bt:1:9: error[E0401]: the result is too large for an object: layout: layouts nested too deeply (max 16)"},
		{"wide tuple", "begin { print((1" + rep(",1", 999) + ")); }", "x.bt:1:9: error[E0401]: the result is too large for an object: fields: 1000 is not in the range 0 to 512"},
		{"parameters", "begin { " + numbered(1000, "print($1%d); ") + " }", "too many parameters (max 128)"},
		{"maps", "begin { " + numbered(5000, "@m%d = 1; ") + " }", "more than 1000 maps"},
		{"long string", `begin { print("` + rep("a", 1<<20) + `"); }`, "String is too long"},
		{"quotes", rep(`"`, 1<<20+1), "(max 8192)"},
		{"long name", "begin { print(" + rep("a", 1<<20) + "); }", "(max 255)"},
		{"long variable", "begin { $" + rep("a", 1<<20) + " = 1; }", "(max 256)"},
		{"long map", "begin { @" + rep("a", 1<<20) + " = 1; }", "(max 256)"},
		{"long function", "kprobe:" + rep("a", 1<<20) + " { }", "(max 8192)"},
		{"long comment", "begin { } /* " + rep("x", 1<<20), "unterminated comment"},
		{"macros", "macro m0(x) { x + x }\n" + func() string {
			var b strings.Builder
			for i := range 40 {
				fmt.Fprintf(&b, "macro m%d(x) { m%d(x) + m%d(x) }\n", i+1, i, i)
			}
			return b.String()
		}() + "begin { print(m40(1)); }", "macro expansion is too large"},
		{"nested structs", "struct a { " + rep("struct { ", 20000) + "int x;" + rep("};", 20000) + "};\nbegin { }", "too deeply nested"},
		{"invalid UTF-8", "begin { print(\"\xff\xfe\"); }", "invalid UTF-8: byte 0xff"},
		{"NUL", "begin { print(\"a\x00b\"); }", "NUL byte"},
		{"only NULs", rep("\x00", 1<<20), "NUL byte"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tgt, err := kernel.Default("x86_64")
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			out, diags := Compile(Input{Name: "x.bt", Text: c.text, Target: tgt, Compiler: "test"})
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			said := fmt.Sprint(diags.Err())
			if out != nil || !strings.Contains(said, c.want) {
				t.Errorf("error = %.300s, want %q", said, c.want)
			}
			// A busy machine is many times slower than an idle one, on which each takes less than a
			// second.
			if took > time.Minute {
				t.Errorf("compile took %v", took)
			}
			if mem := after.TotalAlloc - before.TotalAlloc; mem > 1<<30 {
				t.Errorf("allocated %d MiB", mem>>20)
			}
		})
	}
}

// TestProgramLimit checks that the limit of programs is reported once, at the first clause above it, with what helps:
// the setting below 4096, which is the limit of an object.
func TestProgramLimit(t *testing.T) {
	tgt, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	const cap = "an object has at most 4096 programs, whatever max_bpf_progs says: use narrower patterns, or split the script"
	for _, c := range []struct {
		limit, clauses int
		clause         string
		line           int // of the error; 0: none; -1: any
		hint           string
	}{
		{3, 3, "begin { }", 0, ""},
		{3, 40, "begin { }", 5, "use narrower patterns, or raise max_bpf_progs in the config block"},
		{4096, 4096, "begin { }", 0, ""},
		{4096, 4097, "begin { }", 4098, cap},
		{100000, 8000, "begin { }", 4098, cap},
		{100000, 40, "tracepoint:syscalls:sys_enter_* { print(args); }", -1, cap},
	} {
		text := fmt.Sprintf("config = { max_bpf_progs = %d; max_probes = 100000 }\n", c.limit) + strings.Repeat(c.clause+"\n", c.clauses)
		out, diags := Compile(Input{Name: "x.bt", Target: tgt, Compiler: "test", Text: text})
		said := fmt.Sprint(diags.Err())
		if c.line == 0 {
			if out == nil {
				t.Errorf("%d of %d clauses: %.300s", c.clauses, c.limit, said)
			}
			continue
		}
		if strings.Count(said, "Your program is trying") != 1 || strings.Count(said, "hint: ") != 1 ||
			c.line > 0 && !strings.Contains(said, fmt.Sprintf("x.bt:%d:1: error[E0302]", c.line)) || !strings.Contains(said, "= hint: "+c.hint+"\n") && !strings.HasSuffix(said, "= hint: "+c.hint) {
			t.Errorf("%d of %d clauses: %.600s", c.clauses, c.limit, said)
		}
	}
}

// TestManyClauses checks that the cost grows linearly with the number of clauses.
func TestManyClauses(t *testing.T) {
	tgt, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	allocated := func(n int) float64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out, diags := Compile(Input{Name: "x.bt", Target: tgt, Compiler: "test", Text: "config = { max_bpf_progs = 4096 }\n" +
			numbered(n, "tracepoint:syscalls:sys_enter_read /pid == %d/ { @a[comm, pid] = count(); printf(\"%%d %%s\\n\", pid, comm); }\n")})
		if out == nil {
			t.Fatal(diags.Err())
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	allocated(10) // allocate what is created only once
	small, large := allocated(100), allocated(1000)
	if large > 15*small {
		t.Errorf("1000 clauses allocate %.1f times as much as 100, want about 10", large/small)
	}
}

// doubling returns n functions, each of which calls the next one twice, in reverse order.
func doubling(n int) string {
	var s strings.Builder
	for i := n; i > 0; i-- {
		fmt.Fprintf(&s, "fn f%d($s : string) : string { $t = f%d($s); return f%d($t); }\n", i, i-1, i-1)
	}
	s.WriteString("fn f0($s : string) : string { return $s; }\n")
	return s.String()
}

// TestLongestTimers compiles periods and rates at and above the limit, which the validation of the
// manifest also has.
func TestLongestTimers(t *testing.T) {
	x86, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	for timer, ok := range map[string]bool{
		"interval:s:281474976710656": true, "interval:s:281474976710657": false, "interval:us:9223372036854775807": false,
		"profile:hz:1111111111111111": false, "interval:3257d": true, "interval:3258d": false, "interval:ms:1e18": false,
	} {
		out, diags := Compile(Input{Name: "t.bt", Text: timer + " { }", Target: x86})
		if (out != nil) != ok {
			t.Errorf("%s: compiled = %v, want %v: %v", timer, out != nil, ok, diags.Err())
		}
	}
}
