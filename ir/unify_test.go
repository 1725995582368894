// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"strings"
	"testing"

	"btc/internal/arch"
	"btc/targets/kernel"
)

// unifyPair parses the modules of one script for two architectures.
func unifyPair(t *testing.T, x86, arm string) (*Module, *Module) {
	t.Helper()
	parse := func(text, machine string) *Module {
		m, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if m.Target, err = kernel.Default(machine); err != nil {
			t.Fatal(err)
		}
		m.Arches = []*arch.Arch{arch.ByName("x86_64"), arch.ByName("arm64")}
		return m
	}
	return parse(x86, "x86_64"), parse(arm, "arm64")
}

// unify merges the modules of other architectures into m. If it fails, m is unchanged.
func unify(m *Module, others ...*Module) *Difference {
	u := NewUnifier(m)
	for _, other := range others {
		if d := u.Add(other); d != nil {
			return d
		}
	}
	u.Apply()
	return nil
}

const unifyText = `
func @p prog (kind kprobe) {
b0(v0:ctx):
  v1:i64 = arg v0
  v2:i64 = and v1, 65536
  v3:i1 = icmp ne v2, 0
  br v3, b1, b2
b1:
  jump b2
b2:
  ret 0
}`

func TestUnify(t *testing.T) {
	x, y := unifyPair(t, unifyText, unifyText)
	before := x.String()
	if d := unify(x, y); d != nil || x.String() != before {
		t.Errorf("equal modules: difference %v\n%s", d, x)
	}
	x, y = unifyPair(t, unifyText, strings.Replace(unifyText, "65536", "16384", 1))
	if d := unify(x, y); d != nil {
		t.Fatalf("different constant: difference %v", d)
	}
	if err := Verify(x); err != nil {
		t.Error(err)
	}
	if text := x.String(); !strings.Contains(text, `perarch "x86_64=65536 aarch64=16384"`) || strings.Contains(text, "v1, 65536") {
		t.Errorf("different constant: got\n%s", text)
	}
}

// TestUnifyThree unifies three modules. Two of them agree, so the third has a constant of its own.
func TestUnifyThree(t *testing.T) {
	x, y := unifyPair(t, unifyText, strings.Replace(unifyText, "65536", "16384", 1))
	z, _ := unifyPair(t, strings.Replace(unifyText, "ret 0", "ret 1", 1), unifyText)
	u := NewUnifier(x)
	if d := u.Add(z); d == nil {
		t.Error("unexpected program added")
	}
	if d := u.Add(y); d != nil {
		t.Fatal(d)
	}
	third, _ := unifyPair(t, strings.Replace(unifyText, "65536", "4096", 1), unifyText)
	row := *arch.ByName("arm64") // another architecture
	row.Name = "third"
	u.add(third, &row)
	u.Apply()
	if text := x.String(); !strings.Contains(text, `perarch "x86_64=65536 aarch64=16384 third=4096"`) {
		t.Errorf("three constants: got\n%s", text)
	}
}

// TestUnifyRefuses checks that a difference other than in constants is reported, and that the module is
// unchanged.
func TestUnifyRefuses(t *testing.T) {
	for _, c := range [][2]string{
		{"ret 0", "ret 1"},
		{"icmp ne", "icmp eq"},
		{"arg v0", "arg v0, #1"},
		{"br v3, b1, b2", "br v3, b2, b1"},
		{"kind kprobe", "kind kretprobe"},
		{"v2:i64 = and v1, 65536", "v2:i64 = zext.u32 v1"},
	} {
		x, y := unifyPair(t, unifyText, strings.Replace(unifyText, c[0], c[1], 1))
		before := x.String()
		if d := unify(x, y); d == nil || d.Text == "" {
			t.Errorf("no difference reported between %s and %s", c[0], c[1])
		}
		if x.String() != before {
			t.Errorf("%s: the module changed", c[0])
		}
	}
}

// unifyTables is a module with all parts in which modules can differ.
const unifyTables = `map (name @x, value (kind int, size 8), pos !1:2)
event (name e, fields [(name a, layout (kind int, size 8))], pos !2:3)
global (name g, size 8)
meta (config {a: b})
func @sub(i64)  !7:1 {
  slot s0 "" 8 align 8
b0(v0:i64):
  v1:i64 = load.u32 [s0+0] !7:2
  store.u64 [s0+0], 5 !7:3
  v2:i1 = icmp eq v1, v0 !7:4
  br v2, b1(v1, 7), b2 !7:5
b1(v3:i64, v4:i64):
  v5:i64 = call ktime_get_ns() !7:6
  v7:i64 = pid #0 !7:7
  v8:i64 = callsub sub(3) !7:9
  jump b2
b2:
  ret v0 !7:8
}
`

// TestUnifyFindsDifferences checks the first difference of two modules, with its position.
func TestUnifyFindsDifferences(t *testing.T) {
	const program = "the program of the probe differs there"
	for _, c := range []struct {
		old, new  string
		line, col int
		want      string
	}{
		{"map (name @x", "map (name @y)\nmap (name @x", 0, 0, "maps or messages differ there"},
		{"event (name e", "event (name y)\nevent (name e", 0, 0, "maps or messages differ there"},
		{"global (name g", "global (name y)\nglobal (name g", 0, 0, "maps or messages differ there"},
		{"func @sub", "func @y() {\nb0:\n  ret 0\n}\nfunc @sub", 0, 0, "the script's patterns match different probes there"},
		{"value (kind int, size 8)", "value (kind int, size 4)", 1, 2, "@x has a different type there"},
		{"layout (kind int, size 8)", "layout (kind int, size 4)", 2, 3, "the arguments have different types there"},
		{"name g, size 8", "name g, size 4", 0, 0, "the constants of g differ there"},
		{"{a: b}", "{a: c}", 0, 0, "settings differ there"},
		{"func @sub(", "func @sup(", 7, 1, program},
		{"func @sub(i64)", "func @sub(kaddr)", 7, 1, program},
		{"slot s0", "slot s1 \"\" 4 align 4\n  slot s0", 7, 1, program},
		{`slot s0 "" 8 align 8`, `slot s0 "" 16 align 8`, 7, 1, "an object has a different size there"},
		{`slot s0 "" 8 align 8`, `slot s0 "" 8 align 4`, 7, 1, "an object has a different size there"},
		{"b2:", "b3:\n  ret 0\nb2:", 7, 1, program},
		{"jump b2", "v6:i64 = tid\n  jump b2", 7, 1, program},
		{"b1(v3:i64, v4:i64)", "b1(v3:i64)", 7, 1, program},
		{"b1(v3:i64, v4:i64)", "b1(v3:i64, v4:kaddr)", 7, 1, program},
		{"v4:i64):", "v4:i64) cold:", 7, 1, program},
		{"jump b2", "ret 0", 7, 1, program},
		{"ret v0 !7:8", "ret 0 !7:8", 7, 8, "a condition differs there"},
		{"br v2, b1", "br true, b1", 7, 5, "a condition differs there"},
		{"b1(v1, 7), b2", "b1(v1, 7), b1(v1, 7)", 7, 5, "a value differs there"},
		{"b1(v1, 7), b2", "b1(v1, 8), b2", 7, 5, "a value differs there"},
		{"b1(v1, 7), b2", "b1(v0, 7), b2", 7, 5, "a value differs there"},
		{"b1(v1, 7), b2", "b1(v1), b2", 7, 5, "a value differs there"},
		{"load.u32", "load.u16", 7, 2, "it has a different type or position there"},
		{"[s0+0] !7:2", "[s0+4] !7:2", 7, 2, "a value differs there"},
		{"v1:i64 = load", "v1:kaddr = load", 7, 2, "it has a different type or position there"},
		{"icmp eq", "icmp ne", 7, 4, "it has a different type or position there"},
		{"icmp eq v1, v0", "icmp eq v0, v1", 7, 4, "a value differs there"},
		{"ktime_get_ns()", "get_prandom_u32()", 7, 6, "it has a different type or position there"},
		{"pid #0", "pid #1", 7, 7, "it has a different type or position there"},
		{"pid #0", "tid #0", 7, 7, "it has a different type or position there"},
		{"sub(3)", "sub(4)", 7, 9, "a value differs there"}, // not an operand that may differ
		{"sub(3)", "sub(3, 4)", 7, 9, "it has a different type or position there"},
		{"[s0+0], 5", "[s0+0], 5:kaddr", 7, 3, "a value differs there"},
		{"[s0+0], 5", "[s0+0], v1", 7, 3, "a value differs there"},
		{"[s0+0], 5", "[s0+0], 6", 0, 0, ""}, // a constant that may differ
	} {
		if !strings.Contains(unifyTables, c.old) {
			t.Fatalf("%s is not in the module", c.old)
		}
		text := strings.Replace(unifyTables, c.old, c.new, 1)
		x, y := unifyPair(t, unifyTables, text)
		switch d := unify(x, y); {
		case d == nil && c.want != "":
			t.Errorf("no difference reported between %s and %s", c.new, c.old)
		case d != nil && (d.Text != c.want || d.Pos.Line != c.line || d.Pos.Col != c.col):
			t.Errorf("%s: difference at %d:%d: %s, want %d:%d: %s", c.new, d.Pos.Line, d.Pos.Col, d.Text, c.line, c.col, c.want)
		}
	}
}

// TestUnifyOnce checks that a second module of an architecture changes nothing.
func TestUnifyOnce(t *testing.T) {
	x, y := unifyPair(t, unifyText, strings.Replace(unifyText, "65536", "16384", 1))
	_, again := unifyPair(t, unifyText, strings.Replace(unifyText, "65536", "4096", 1))
	if d := unify(x, y, again); d != nil {
		t.Fatal(d)
	}
	if text := x.String(); !strings.Contains(text, `perarch "x86_64=65536 aarch64=16384"`) {
		t.Errorf("got\n%s", text)
	}
}
