// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sample = `module tcp file "tcp.bt"
stmt 1:21 "@size = hist(arg2)"
map (name @size, shape hist, pos !1:21#0, value (kind int, size 8, align 8, signed), bits 2, bpf (name AT_size, type percpu_array, key_size 4, value_size 1000, max_entries 1, flags 0x20, present -1, gens 1, loss -1))
map (name "@", shape plain, key (kind tuple, size 24, align 8, fields [(name "", off 0, layout (kind int, size 8)), (off 8, var, layout (kind string, size 16))]))
global (name param_1, kind param, size 8, init "\x01\x00", param (name "$1", type int, default "0"))
event (name printf0, kind printf, format "%d %s\n", fields [(name a, off 8, layout (kind enum, size 8, enum {-1: "X", 2: "Y Z"}))], size 16)
meta (config {missing_probes: warn}, errors [(text "division by zero", pos !3:4)])

func @probe_0 prog (kind kprobe, section "kprobe/tcp_sendmsg", attach (text "kprobe:tcp_sendmsg", name tcp_sendmsg, offset 18446744073709551615), uses_id, pos !1:1)  !1:1 {
  slot s0 "key" 24 align 8
  slot s1 "" 512 align 8 scratch 64
b0(v0:ctx):
  v1:i64 = load.u64 [v0+112]                       !1:21
  v2:i1 = icmp ugt v1, 8192                        !1:26#0
  br v2, b1, b4(v1)                                !1:26
b1 cold:
  store.u32 [s0+8], -1
  v7:mapval(@size)? = call map_lookup_elem(@size, s0+0)
  v8:i1 = icmp eq v7, null
  v9:i1 = icmp ne null, v7
  br v8, b3, b2
b2:
  v10:mapval(@size) = nonnull v7
  atomicadd.u64 [v10-8], 1
  v11:kaddr = load.u64 [v0+8+field(struct trace_event_raw_hrtimer_start:function)]
  v12:i64 = core enumval_exists field(enum bpf_func_id:BPF_FUNC_loop)
  strlit "a\"b\n\x00//"(s0+0), #8
  v13:i64 = select true, 0xffffffffffffffff, v1
  v14:i1 = icmp eq v11, null:kaddr
  emit printf0(v13, s0+8) // comment
  v15:i64 = call for_each_map_elem(map("weird name"), &cb, null:stack, 7:kaddr)
  jump b3
b3:
  ret 0
b4(v3:i64):
  v20:i64 = callsub cb(v3)
  ret v20
}

func @cb(i64, btf(struct task_struct)?) {
b0(v0:i64, v1:btf(struct task_struct)?):
  ret v0
}
`

func TestPrintParse(t *testing.T) {
	m, err := Parse(sample)
	if err != nil {
		t.Fatal(err)
	}
	text := m.String()
	again, err := Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if diff := cmp.Diff(text, again.String()); diff != "" {
		t.Errorf("printing changed after parsing (-first +second):\n%s", diff)
	}
	if got := m.Maps[0].BPF.Present; got != -1 {
		t.Errorf("present = %d", got)
	}
	if got := m.Funcs[0].Blocks[0].Values[1].Pos; got != (Pos{Line: 1, Col: 26}) {
		t.Errorf("position = %v", got)
	}
	if got := m.Maps[1].Key.Fields[1]; got.Name != "" || !got.Var || got.Layout.Kind != LString {
		t.Errorf("field = %+v", got)
	}
}

// TestEveryOpHasAText checks that every op, with every attribute in its row, can be printed and parsed.
func TestEveryOpHasAText(t *testing.T) {
	for i := range Ops {
		op, info := Op(i), &Ops[i]
		if info.Name == "" || info.Doc == "" {
			t.Errorf("op %d: no name or doc", i)
		}
		if info.Inline || op == OpInvalid {
			continue
		}
		f := &Func{Name: "f", Pos: NoPos}
		b := f.NewBlock()
		p := b.AddParam(TCtx)
		n := len(info.Args)
		if info.Variadic {
			n++
		}
		args := make([]*Value, n)
		for j := range args {
			args[j] = p
		}
		res := TVoid
		if info.Result != RVoid {
			res = TI64
		}
		v := b.Append(op, res, Pos{3, 4, 5, 6}, args...)
		fillAttrs(v, info.Attrs)
		b.Ret(Const(0), NoPos)
		text := (&Module{Name: "m", File: "x", Funcs: []*Func{f}}).String()
		m, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v in\n%s", info.Name, err, text)
			continue
		}
		got := m.Funcs[0].Blocks[0].Values[0]
		if got.Op != op || got.Text() != v.Text() || got.Imm != v.Imm || got.Sym != v.Sym || got.Mem != v.Mem ||
			got.Cond != v.Cond || got.CORE != v.CORE || got.Kind != v.Kind || got.Pos != v.Pos || len(got.Args) != n {
			t.Errorf("%s parsed as %s", v.Text(), got.Text())
		}
	}
}

func fillAttrs(v *Value, attrs Attr) {
	if attrs&AImm != 0 {
		v.Imm = -7
	}
	if attrs&ASym != 0 {
		v.Sym = "a b"
	}
	if attrs&AMem != 0 {
		v.Mem = S16
	}
	if attrs&ACORE != 0 {
		v.CORE = CORERef{"struct sock", "__sk_common.skc_family"}
	}
	if attrs&ACond != 0 {
		v.Cond = SGE
	}
	if attrs&AKind != 0 {
		v.Kind = EnumvalValue
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct{ text, want string }{
		{"func @f() {\nb0:\n  v1:i64 = frob 1\n}", `line 3: unknown op "frob"`},
		{"func @f() {\nb0:\n  ret v1\n}", "line 4: value v1 is not defined in f"},
		{"func @f() {\nb0:\n  jump b1\n}", "line 4: block b1 is not defined in f"},
		{"func @f() {\nb0:\n  ret 0\n  ret 0\n}", "line 4: value after the terminator of b0"},
		{"func @f() {\nb0:\n  ret 0", "line 3: unclosed function f"},
		{"map (name @x, color 3)", `line 1: unknown attribute "color" in ir.Map`},
		{"map (name @x", "line 1: unclosed bracket"},
		{"func @f() {\nb0:\n  v1:i64 = add s0+0, 1\n}", "line 3: slot s0 is not declared"},
	}
	for _, tt := range tests {
		if _, err := Parse(tt.text); err == nil || err.Error() != tt.want {
			t.Errorf("%q: error = %v, want %s", tt.text, err, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample)
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(text)
		if err != nil {
			return
		}
		once := m.String()
		m2, err := Parse(once)
		if err != nil {
			t.Fatalf("printed module does not parse: %v\n%s", err, once)
		}
		if twice := m2.String(); once != twice {
			t.Fatalf("printed\n%s\nthen\n%s", once, twice)
		}
	})
}

// attrSample has an attribute of each kind.
type attrSample struct {
	Name, UTFText string
	On            bool
	N             int8
	Big           uint64
	Raw           []byte
	Flags         []bool
	Table         map[string]bool
	Numbers       map[int]string
	Inner         struct{ At Pos }
	Deep          *struct{ At, Other Pos }
	hidden        int
}

// TestAttributes prints and parses each kind of attribute.
func TestAttributes(t *testing.T) {
	for _, text := range []string{
		"()",
		"(on)",
		`(name "a b", utftext x)`,
		"(n -5, big 18446744073709551615)",
		`(raw "\x00a", flags [true, false], table {a: true, b: false}, numbers {-1: x, 2: "", 10: y})`,
		"(inner (at !0:0#0))",
		"(deep ())",
		"(deep (at !1:2#3^4))",
		"(deep (other !1:2#-1))",
	} {
		lines, err := lexLines(text)
		if err != nil {
			t.Fatal(err)
		}
		p := &parser{m: &Module{}, lines: lines}
		var x attrSample
		p.attrs(&x)
		p.endLine()
		if got := attrText(&x); got != text {
			t.Errorf("%s printed as %s", text, got)
		}
	}
	if got := attrText(&attrSample{Inner: struct{ At Pos }{NoPos}, hidden: 1}); got != "()" {
		t.Errorf("no attributes printed as %s", got)
	}
}

// TestOperandText checks operands that do not occur in modules.
func TestOperandText(t *testing.T) {
	if got := (*Value)(nil).String(); got != "<nil>" {
		t.Errorf("nil value printed as %s", got)
	}
	if got := (&Term{}).Text(); got != "" {
		t.Errorf("missing terminator printed as %q", got)
	}
	if got := Const(3).Text(); got != "3" {
		t.Errorf("constant 3 printed as %s", got)
	}
	if got := (Pos{Line: 3, Col: 4, Stmt: 5}).String(); got != "3:4" {
		t.Errorf("position printed as %s", got)
	}
	if got := (&Value{ID: -1, Op: OpConst, Type: TI1, Imm: 2}).String(); got != "2:i1" {
		t.Errorf("bool 2 printed as %s", got)
	}
	for want, c := range map[string]CORERef{"struct s": {Type: "struct s"}, "struct s:a.b": {"struct s", "a.b"}} {
		if got := c.String(); got != want {
			t.Errorf("%+v printed as %s", c, got)
		}
	}
}
