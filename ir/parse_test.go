// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// inBlock returns a function whose only block contains the lines.
func inBlock(lines string) string { return "func @f(i64) {\nb0(v0:i64):\n" + lines + "\n}" }

// TestParseRejects checks parse errors, each with its line.
func TestParseRejects(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"color red", `line 1: unknown declaration "color"`},
		{"\n\n17", `line 3: expected a declaration, found "17"`},
		{"// comment\n\nmodule m // end\n\tfile", `line 4: unknown declaration "file"`},
		{"module m file f g", `line 1: unexpected "g"`},
		{"module 5", `line 1: expected a word or a string, found "5"`},
		{"stmt 1 2", `line 1: expected ":", found "2"`},
		{"stmt -1:2 x", "line 1: line -1 is out of range"},
		{"stmt 1:16777217 x", "line 1: column 16777217 is out of range"},
		{"stmt x:2 x", `line 1: expected an integer, found "x"`},
		{"map (name @x width 3)", "line 1: expected , or ) after attribute name"},
		{"map (3)", `line 1: expected attribute, found "3"`},
		{`global (name g, init 5)`, `line 1: expected a word or a string, found "5"`},
		{"func @p prog (kind kprobe, attach (offset -1)) {", `line 1: expected an unsigned integer, found "-1"`},
		{"func f() {", `line 1: a function's name begins with @: "f"`},
		{"func @() {", `line 1: a function's name begins with @: "@"`},
		{"func 5() {", `line 1: expected a function's name, found "5"`},
		{"func @f {", `line 1: expected "(", found "{"`},
		{"func @f(i65) {", `line 1: unknown type "i65"`},
		{"func @f(5) {", `line 1: expected a type, found "5"`},
		{"func @f()", `line 1: expected "{", found ""`},
		{"func @f() {\n  ret 0\n}", "line 2: value outside a block"},
		{"func @f() {\n}", "line 2: function f has no block"},
		{"func @f() {\n  slot s0 \"\" 8 align 8\n  slot s0 \"\" 8 align 8\n}", "line 3: slot s0 is declared twice"},
		{"func @f() {\n  slot x0 \"\" 8 align 8\n}", `line 2: expected s and a number, found "x0"`},
		{"func @f() {\n  slot s0 \"\" 8\n}", `line 2: expected "align", found ""`},
		{"func @f() {\nb0:\n  ret 0\nb0:\n}", "line 4: block b0 is defined twice"},
		{"func @f() {\nb0(v0):\n}", `line 2: expected ":", found ")"`},
		{"func @f() {\nb0 warm:\n}", `line 2: expected ":", found "warm"`},
		{inBlock("  v0:i64 = pid\n  ret 0"), "line 3: value v0 is defined twice"},
		{inBlock("  v1:i64 pid"), `line 3: expected "=", found "pid"`},
		{inBlock("  v1 = pid"), `line 3: expected ":", found "="`},
		{inBlock("  v1:i64 = 5"), `line 3: expected an op, found "5"`},
		{inBlock("  v1:i64 = const 5"), "line 3: const is not an op of a block"},
		{inBlock("  v1:i64 = invalid"), `line 3: unknown op "invalid"`},
		{inBlock("  v1:i64 = add.u64 v0, 1"), `line 3: unknown op "add.u64"`},
		{inBlock("  v1:i64 = zext.u99 v0"), `line 3: unknown op "zext.u99"`},
		{inBlock("  v1:i1 = icmp 5 v0, 1"), `line 3: expected a condition, found "5"`},
		{inBlock("  v1:i1 = icmp lt v0, 1"), `line 3: unknown condition "lt"`},
		{inBlock("  v1:i64 = core 5"), `line 3: expected a CO-RE kind, found "5"`},
		{inBlock("  v1:i64 = core size"), `line 3: unknown CO-RE kind "size"`},
		{inBlock("  v1:i64 = core type_size field"), "line 3: expected (type:path) after field"},
		{inBlock("  v1:i64 = add v0, #1"), "line 3: add has no immediate"},
		{inBlock("  v1:i64 = add v0, field(x:y)"), "line 3: add has no field"},
		{inBlock("  v1:i64 = add [v0]"), "line 3: add has no operand in brackets here"},
		{inBlock("  v1:i64 = load.u64 [v0], [v0]"), "line 3: load has no operand in brackets here"},
		{inBlock("  v1:i64 = load.u64 [v0 v0]"), `line 3: expected "]", found "v0"`},
		{inBlock("  v1:i64 = load.u64 [v0+x]"), `line 3: expected "field", found "x"`},
		{inBlock("  store.u64 [v0+field(x:y)], 1"), "line 3: store has no field"},
		{inBlock("  v1:i64 = callsub f(v0, field"), `line 3: unclosed bracket`},
		{inBlock("  v1:i64 = callsub f(v0 !1:2)"), `line 3: missing ")"`},
		{inBlock("  v1:i64 = add v0, color"), `line 3: expected an operand, found "color"`},
		{inBlock("  v1:i64 = add v0, 5x"), `line 3: expected an integer, found "5x"`},
		{inBlock("  v1:btf = add v0, 1"), `line 3: expected (name) after btf`},
		{inBlock("  v1:ringbuf(-1) = add v0, 1"), `line 3: size -1 is out of range`},
		{inBlock("  v1:i1 = icmp eq null, null\n  ret 0"), "line 5: null needs a type: null:TYPE"},
		{inBlock("  br v0 b1, b2"), `line 3: expected ",", found "b1"`},
		{inBlock("  br v0, b1 b2"), `line 3: expected ",", found "b2"`},
		{inBlock("  jump v1"), `line 3: expected b and a number, found "v1"`},
		{inBlock("  jump b16777216"), `line 3: expected b and a number, found "b16777216"`},
		{inBlock("  v1:ringbuf(16777217) = add v0, 1"), "line 3: size 16777217 is out of range"},
		{inBlock("  v1:btf(struct = add v0, 1"), "line 3: unclosed bracket"},
		{inBlock("  v16777216:i64 = add v0, 1"), `line 3: unknown op "v16777216"`},
		{inBlock("  v1:i64 = add v0, 1:i65"), `line 3: unknown type "i65"`},
		{inBlock("  v1:i64 = call f(map(5))"), `line 3: expected a word or a string, found "5"`},
		{inBlock("  v1:i64 = call f(map(@x)"), "line 3: unclosed bracket"},
		{inBlock("  v1:i64 = call f(&5)"), `line 3: expected a function's name, found "5"`},
		{inBlock("  v1:i64 = call f(v0"), "line 3: unclosed bracket"},
		{inBlock("  ret v0 !1:x"), `line 3: expected an integer, found "x"`},
		{inBlock("  ret v0 !1:2^-1"), "line 3: site -1 is out of range"},
		{inBlock("  ret v0\n\n  ret v0"), "line 5: value after the terminator of b0"},
		{"map (name @x,\n  color 3\n)", `line 1: unknown attribute "color" in ir.Map`},
		{"func @f() {\n  slot s0 \"\" 8 align 16777217\n}", "line 2: alignment 16777217 is out of range"},
		{"func @f() {\n  slot s \"\" 8 align 8\n}", `line 2: expected s and a number, found "s"`},
		{"func @ab", `line 1: expected "(", found ""`},
		{inBlock("  ret v0 v0"), `line 3: unexpected "v0"`},
		{inBlock("  ret v0 !1"), `line 3: expected ":", found ""`},
		{inBlock("  strlit \"abc(v0)"), "line 3: bad string at column 10"},
	} {
		if _, err := Parse(c.text); err == nil || err.Error() != c.want {
			t.Errorf("%q: error = %v, want %s", c.text, err, c.want)
		}
	}
}

// TestPrintedForms checks that IR in the printed form does not change when it is parsed and printed.
func TestPrintedForms(t *testing.T) {
	for _, text := range []string{
		"module m file f.bt\n",
		"module m file \"\"\n",
		"stmt 1:2 \"x\"\nstmt 3:4 \"5 y\"\n",
		"meta (warnings [a, \"b c\"])\n",
		"global (name g, size 8)\n\nfunc @f() {\nb0:\n  ret 0\n}\n",
		"func @f() {\nb0:\n  ret 0\n}\n\nfunc @g(i64, ctx)  !1:2 {\nb0(v0:i64, v1:ctx):\n  ret 0\n}\n",
		"func @f() {\n  slot s0 \"k\" 8 align 8\n  slot s1 \"\" 4 align 4 frame -8\n  slot s2 \"\" 4 align 4 scratch 16\nb0:\n  ret 0\n}\n",
		"func @f() {\nb0 cold:\n  jump b1                                          !1:2#3^4\nb1:\n  ret 0                                            !1:2\n}\n",
		"func @f() {\nb0:\n  v0:i64 = pid                                     !1:2#0\n  v1:i64 = pid                                     !1:2^1\n  ret 0\n}\n",
		"meta (errors [(pos !0:0#0)])\nfunc @f()  !0:0#0 {\nb0:\n  ret 0\n}\n",
		"stmt 1:2 \"x\"\n\nfunc @f() {\nb0:\n  ret 0\n}\n",
		"map (name @x)\n\nfunc @f() {\nb0:\n  ret 0\n}\n",
		"event (name e)\n\nfunc @f() {\nb0:\n  ret 0\n}\n",
		"module m file f\nfunc @f() {\nb0:\n  ret 0\n}\n",
		"module \"\" file f\n",
		"func @f(map, func, i1, stack, void) {\nb0:\n  v1:i1 = icmp eq false, true\n  memzero v1, #-1\n  v3:i64 = core type_size\n  v4:i64 = core enumval_value field(enum e:A)\n  ret 0\n}\n",
		"func @f() {\nb0:\n  v0:i64 = pid #1\n  v1:i64 = kstack stacks(v0), #5\n  v2:i64 = arg v0, #-2\n  ret 0\n}\n",
		"func @f(kaddr, mapval(@x)?, mapkey(@x), ringbuf(8), btf(struct s), uaddr, addr) {\nb0(v0:kaddr):\n  v1:i1 = icmp eq v0, null\n" +
			"  v2:i1 = icmp eq null, v0\n  v3:i1 = icmp eq null:kaddr, null:kaddr\n  v4:kaddr = add 7:kaddr, 1\n  ret 0\n}\n",
		"func @f() {\nb0:\n  br true, b1(1, true), b2\nb1:\n  ret 0\nb2:\n  ret 0\n}\n",
		"func @f() {\nb0:\n  v0:i64 = call f(map(events), map(\"5 x\"), @x, &cb)\n  ret 0\n}\n",
		"func @f() {\nb0:\n  v0:i64 = load.u64 [v0+8+field(struct x:y)]\n  v1:i64 = load.u64 [v0+field(x:y.z[0])]\n  v2:i64 = load.u64 [v0-8]\n  ret 0\n}\n",
		"func @f() {\nb0:\n  strlit \"5x\"(v1), #8\n  strlit x$.@_9(v1), #8\n  strlit \"\"(v1), #8\n  v1:i64 = pid\n  ret 0\n}\n",
	} {
		m, err := Parse(text)
		if err != nil {
			t.Errorf("%v in\n%s", err, text)
			continue
		}
		if d := cmp.Diff(text, m.String()); d != "" {
			t.Errorf("(-parsed +printed)\n%s", d)
		}
	}
}

// TestParseForms checks that the parser accepts forms that are not printed.
func TestParseForms(t *testing.T) {
	for text, want := range map[string]string{
		"func @f() {\r\nb0:\n\tret 0x10\n}":                           "ret 16",
		"func @f() {\nb0:\n  ret 0xffffffffffffffff\n}":               "ret -1",
		"func @f() {\nb0:\n  ret +5\n}":                               "ret 5",
		"func @f(\n  i64,\n  ctx\n) {\nb0:\n  ret 0\n}":               "func @f(i64, ctx) {",
		"func @f() {\nb0:\n  v1:i64 = add 1, 2 // sum\n  ret v1\n}":   "v1:i64 = add 1, 2\n",
		"func @f() {\nb7:\n  v9:i64 = pid\n  memzero v9\n  ret v9\n}": "b7:\n  v9:i64 = pid\n  memzero v9\n  ret v9",
	} {
		m, err := Parse(text)
		if err != nil || !strings.Contains(m.String(), want) {
			t.Errorf("Parse(%q) = %v, %v", text, m, err)
		}
	}
	f := MustParse("func @f() {\n  slot s5 \"\" 8 align 8\n  slot s2 \"\" 8 align 8\nb7:\n  jump b3\nb3:\n  ret v1\nb1:\n  v1:i64 = pid\n  ret v1\n}").Funcs[0]
	if f.NumValues() != 2 || f.NumBlocks() != 8 || f.NumSlots() != 6 {
		t.Errorf("got %d values, %d blocks, %d slots", f.NumValues(), f.NumBlocks(), f.NumSlots())
	}
	m := MustParse("func @f() {\nb7:\n  v9:i64 = pid\n  memzero v9\n  ret v9\n}")
	f = m.Funcs[0]
	if id := f.Blocks[0].Values[1].ID; id != 10 || f.NumValues() != 11 || f.NumBlocks() != 8 || f.NumSlots() != 0 {
		t.Errorf("after adding value v%d: %d values, %d blocks, %d slots", id, f.NumValues(), f.NumBlocks(), f.NumSlots())
	}
}

// TestModuleLookups checks that parts are found by name.
func TestModuleLookups(t *testing.T) {
	m := MustParse("map (name @x)\nmap (name @y)\nglobal (name g)\nglobal (name h)\nevent (name d)\nevent (name e)\nfunc @a() {\nb0:\n  ret 0\n}\nfunc @b() {\nb0:\n  ret 0\n}")
	if m.Map("@y") != m.Maps[1] || m.Global("h") != m.Globals[1] || m.Event("e") != m.Events[1] || m.Func("b") != m.Funcs[1] {
		t.Error("lookup found another part")
	}
	if m.Map("x") != nil || m.Global("x") != nil || m.Event("x") != nil || m.Func("x") != nil {
		t.Error("lookup of an unknown name found a part")
	}
}

// TestUseOfContext checks how a program uses its context.
func TestUseOfContext(t *testing.T) {
	for body, want := range map[string]ContextUse{
		"v1:i64 = pid": {},
		"v1:i64 = load.u64 [v0+8]\n  v2:i64 = load.u32 [v0]": {Loads: []int{8, 0}},
		"v1:i64 = load.u64 [v0+field(x:y)]":                  {Other: true},
		"store.u64 [v1], v0\n  v1:i64 = pid":                 {Other: true},
		"v1:i64 = arg v0, #1":                                {Other: true},
		"jump b1(v0)\nb1(v1:ctx):":                           {Other: true},
	} {
		f := MustParse("func @p prog (kind kprobe) {\nb0(v0:ctx):\n  " + body + "\n  ret 0\n}").Funcs[0]
		got := UsesOfContext(f)
		if d := cmp.Diff(want, got); d != "" || got.Any() != (len(want.Loads) > 0 || want.Other) {
			t.Errorf("%s (-want +got)\n%s", body, d)
		}
	}
}

// TestLayoutGlobals checks that a global is aligned to its size and a table to a cache line, and that
// each kind has its own section.
func TestLayoutGlobals(t *testing.T) {
	m := MustParse("global (name a, kind const, size 1)\nglobal (name b, kind const, size 4)\nglobal (name c, kind param, size 3)\n" +
		"global (name d, kind param, size 3)\nglobal (name e, kind const, size 12)\nglobal (name f, kind const, size 1024)\nglobal (name g, kind const, size 1023)\n")
	want := map[string]GlobalOffset{"a": {GlobalConst, 0},
		"b": {GlobalConst, 4},
		"c": {GlobalParam, 0},
		"d": {GlobalParam, 4},
		"e": {GlobalConst, 8},
		"f": {GlobalConst, 64},
		"g": {GlobalConst, 1088}}
	if d := cmp.Diff(want, LayoutGlobals(m)); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// TestModuleParts checks what is added to a module on demand.
func TestModuleParts(t *testing.T) {
	m := &Module{}
	if got := m.Served(); got != nil {
		t.Errorf("architectures without a target = %v", got)
	}
	at := Pos{Line: 3, Col: 4}
	a := m.HostValue("kaddr", "jiffies", "", at, 9)
	b := m.HostValue("cgroupid", "jiffies", "", at, 9)
	c := m.HostValue("kaddr", "init_task", "", at, 9)
	if m.HostValue("kaddr", "jiffies", "", Pos{}, 0) != a || len(m.Globals) != 3 {
		t.Errorf("existing value created again: %s", m)
	}
	for i, want := range []*Global{
		{Name: "kaddr_0", Kind: GlobalConst, Size: 8, Host: "kaddr", Text: "jiffies", Pos: &at, End: 9},
		{Name: "cgroupid_0", Kind: GlobalConst, Size: 8, Host: "cgroupid", Text: "jiffies", Pos: &at, End: 9},
		{Name: "kaddr_1", Kind: GlobalConst, Size: 8, Host: "kaddr", Text: "init_task", Pos: &at, End: 9},
	} {
		if d := cmp.Diff(want, []*Global{a, b, c}[i]); d != "" {
			t.Errorf("(-want +got)\n%s", d)
		}
	}

	needs := []Need{{"loop", "a", Pos{Line: 1}}, {"loop", "b", Pos{Line: 2}}, {"get_func_ip", "c", Pos{Line: 1}}}
	for _, n := range append(needs, Need{"loop", "d", Pos{Line: 2}}) {
		m.Meta.AddNeed(n)
	}
	if d := cmp.Diff(needs, m.Meta.Needs); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if !GlobalConst.Constant() || !GlobalParam.Constant() || GlobalData.Constant() || GlobalInit.Constant() {
		t.Error("wrong result of Constant")
	}
	for kind, want := range map[LayoutKind]int{LInt: 8, LBool: 8, LPtr: 8, LEnum: 8, LString: 3, LBuffer: 3, LTuple: 3} {
		if got := (&Layout{Kind: kind, Size: 3}).MemSize(); got != want {
			t.Errorf("%s of 3 bytes: %d bytes in memory, want %d", kind, got, want)
		}
	}
}

// TestNamesInC checks the identifiers in generated headers.
func TestNamesInC(t *testing.T) {
	for name, want := range map[string]string{"": "", "a_Z09": "a_Z09", "/[`{@:": "______", "a.b-c": "a_b_c", "é": "_", "5x": "5x"} {
		if got := CIdentifier(name); got != want {
			t.Errorf("C name of %q = %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]bool{"": false, "x": true, "_9": true, "0x": false, "9": false, "while": false, "class": false, "While": true, "/x": true, ":x": true} {
		if got := IsCName(name); got != want {
			t.Errorf("%q is a valid name: %t", name, got)
		}
	}
}
