package ir

import (
	"strings"
	"testing"

	"btc/internal/arch"
	"btc/ir/kernel"
)

// unifyPair parses a script's module as it came out for each architecture.
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

// unify makes the first module serve the others' architectures, or changes nothing.
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
		t.Errorf("equal modules: %v\n%s", d, x)
	}
	x, y = unifyPair(t, unifyText, strings.Replace(unifyText, "65536", "16384", 1))
	if d := unify(x, y); d != nil {
		t.Fatalf("another constant: %v", d)
	}
	if err := Verify(x); err != nil {
		t.Error(err)
	}
	if text := x.String(); !strings.Contains(text, `perarch "x86_64=65536 aarch64=16384"`) || strings.Contains(text, "v1, 65536") {
		t.Errorf("another constant gives\n%s", text)
	}
}

// Three modules become one; where two of them agree, the third alone has its constant.
func TestUnifyThree(t *testing.T) {
	x, y := unifyPair(t, unifyText, strings.Replace(unifyText, "65536", "16384", 1))
	z, _ := unifyPair(t, strings.Replace(unifyText, "ret 0", "ret 1", 1), unifyText)
	u := NewUnifier(x)
	if d := u.Add(z); d == nil {
		t.Error("another program was added")
	}
	if d := u.Add(y); d != nil {
		t.Fatal(d)
	}
	third, _ := unifyPair(t, strings.Replace(unifyText, "65536", "4096", 1), unifyText)
	row := *arch.ByName("arm64") // an architecture of its own
	row.Name = "third"
	u.add(third, &row)
	u.Apply()
	if text := x.String(); !strings.Contains(text, `perarch "x86_64=65536 aarch64=16384 third=4096"`) {
		t.Errorf("three constants give\n%s", text)
	}
}

// A difference that no constant can bridge is told, and nothing is changed.
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
			t.Errorf("%s and %s were made one", c[0], c[1])
		}
		if x.String() != before {
			t.Errorf("%s: the module changed", c[0])
		}
	}
}
