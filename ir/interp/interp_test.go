// SPDX-License-Identifier: Apache-2.0

package interp

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"btc/ir"
	"btc/targets/kernel"
)

// programs are run once per line of inputs; want is the final state.
var programs = []struct{ name, text, inputs, want string }{
	{"scalar maps", `
map (name @n, shape plain, value (kind int, size 8, signed))
map (name @unset, shape plain, value (kind int, size 8))
map (name @gone, shape plain, value (kind int, size 8))
map (name @c, shape count, value (kind int, size 8))
map (name @sum, shape sum, value (kind int, size 8, signed))
map (name @min, shape min, value (kind int, size 8, signed))
map (name @max, shape max, value (kind int, size 8))
map (name @avg, shape avg, value (kind int, size 8, signed))
func @p prog (kind kprobe) {
b0(v0:ctx):
  v1:i64 = arg v0
  v2:i64 = mapadd @n, v1
  mapset @gone, v1
  v3:i1 = mapdel @gone
  count @c
  sum @sum, v1
  min @min, v1
  max @max, v1
  avg @avg, v1
  v4:i64 = aggget @avg
  v5:i1 = maphas @unset
  v6:i64 = boolint v5
  ret v2
}`, "run p ctx+112=5\nrun p ctx+112=-2 cpu=1\nrun p ctx+112=4 cpu=3", `
@avg: count 3 total 7
@c: 3
@max: -2
@min: -2
@n: 7
@sum: 7`},
	{"keyed maps", `
map (name @x, shape count, key (kind tuple, size 24, fields [(layout (kind int, size 8, signed)), (off 8, layout (kind string, size 16))]), value (kind int, size 8))
map (name @s, shape plain, key (kind int, size 8), value (kind string, size 8), max_entries 1)
func @p prog (kind kprobe) {
  slot s0 key 24 align 8
  slot s1 str 8 align 8
b0(v0:ctx):
  v1:i64 = pid
  store.u64 [s0+0], v1
  comm s0+8
  count @x, s0+0
  strlit hello(s1+0), #8
  mapsetmem @s, s1+0, s0+0
  mapgetmem @s, s1+0, s0+0
  v2:i1 = streq hello(s1+0), #8
  v3:i64 = boolint v2
  ret v3
}`, "run p pid=7 comm=bash\nrun p pid=7 comm=bash\nrun p pid=8 comm=a", `
@s[7]: "hello"
@x[(7, "bash")]: 2
@x[(8, "a")]: 1`},
	{"histograms", `
map (name @h, shape hist, value (kind int, size 8))
map (name @k, shape hist, bits 2, value (kind int, size 8))
map (name @l, shape lhist, max 100, step 10, value (kind int, size 8))
func @p prog (kind kprobe) {
b0(v0:ctx):
  v1:i64 = arg v0
  hist @h, v1
  hist @k, v1
  lhist @l, v1
  ret 0
}`, "run p ctx+112=-1\nrun p ctx+112=0\nrun p ctx+112=1\nrun p ctx+112=2\nrun p ctx+112=3\nrun p ctx+112=15\nrun p ctx+112=100\nrun p ctx+112=99", `
@h: 0=1 1=1 2=1 3=2 5=1 8=2
@k: 0=1 1=1 2=1 3=1 4=1 12=1 23=2
@l: 0=1 1=4 2=1 10=1 11=1`},
	{"events", `
event (id 0, name e0, kind printf, fields [(layout (kind int, size 4, signed)), (layout (kind string, size 64))])
meta (errors [(text zero)])
func @p prog (kind kprobe) {
  slot s0 str 16 align 8
b0(v0:ctx):
  v1:i64 = arg v0, #1
  v2:uaddr = cast v1
  v3:i64 = str s0+0, v2, 16, #16
  emit e0(v3, s0+0)
  seenproc
  divzero #0
  ret v3
}`, `run p ctx+104=0x1000 user@0x1000="hi there\x00" pid=3` + "\n" + `run p ctx+104=0x9 pid=3`, `
event e0(9, "hi there")
event proc(3)
event error(0)
event e0(0, "")
event error(0)`},
	{"core record", `
event (id 0, name e0, kind printf, size 24, tail, fields [(off 8, layout (kind int, size 8)), (off 16, var, layout (kind string, size 64))])
map (name events, shape intern, bpf (name events, type ringbuf, max_entries 4096))
func @p prog (kind kprobe) {
  slot s0 rec 32 align 8
b0(v0:ctx):
  store.u32 [s0+0], 0
  store.u32 [s0+4], 28
  v1:i64 = load.s8 [v0+112]
  store.u64 [s0+8], v1
  store.u16 [s0+16], 24
  store.u16 [s0+18], 3
  store.u32 [s0+20], 0
  store.u32 [s0+24], 0x636261
  v2:i64 = call ringbuf_output(map(events), s0+0, 28, 0)
  ret v2
}`, "run p ctx+112=0xff", `
event e0(18446744073709551615, "abc")`},
	{"stacks", `
map (name st, shape stack, depth 8)
map (name @x, shape count, key (kind kstack, size 8, stack st), value (kind int, size 8))
func @p prog (kind kprobe) {
  slot s0 key 8 align 8
b0(v0:ctx):
  v1:i64 = kstack st(v0), #2
  store.u64 [s0+0], v1
  count @x, s0+0
  ret 0
}`, "run p kstack=16,17,18\nrun p kstack=16,17\nrun p", `
@x[stack[10 11]]: 2
@x[stack[]]: 1`},
	{"callback", `
map (name @x, shape plain, key (kind int, size 8), value (kind int, size 8))
map (name @s, shape plain, value (kind int, size 8))
func @p prog (kind kprobe) {
  slot s0 key 8 align 8
b0(v0:ctx):
  v1:i64 = pid
  store.u64 [s0+0], v1
  v2:i64 = mapadd @x, 10, s0+0
  v3:i64 = call for_each_map_elem(@x, &each, null:stack, 0)
  ret v3
}
func @each(i64, mapval(@x), mapval(@x)) {
b0(v0:i64, v1:mapval(@x), v2:mapval(@x)):
  v3:i64 = load.u64 [v1]
  v4:i64 = load.u64 [v2]
  v5:i64 = add v3, v4
  v6:i64 = mapadd @s, v5
  ret 0
}`, "run p pid=1\nrun p pid=2", `
@s: 34
@x[1]: 10
@x[2]: 10`},
	{"arithmetic", `
map (name @x, shape plain, value (kind int, size 8, signed))
func @p prog (kind kprobe) {
b0(v0:ctx):
  v1:i64 = arg v0
  v2:i64 = udiv v1, 0
  v3:i64 = umod v1, 0
  v4:i64 = ashr v3, 66
  v5:i64 = bswap.u16 0x1234
  v6:i64 = sext.s8 0x80
  v7:i64 = select true, v5, v6
  v8:i64 = add v7, v6
  v9:i64 = add v8, v4
  v10:i64 = add v9, v2
  mapset @x, v10
  ret v3
}`, "run p ctx+112=-8", `
@x: 13200`},
}

func TestPrograms(t *testing.T) {
	for _, tt := range programs {
		t.Run(tt.name, func(t *testing.T) {
			m := parse(t, tt.text)
			if err := ir.Verify(m); err != nil {
				t.Fatal(err)
			}
			inputs, err := ParseInputs(tt.inputs)
			if err != nil {
				t.Fatal(err)
			}
			_, state, err := RunAll(m, inputs)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimSpace(tt.want), strings.Join(state, "\n")); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
		})
	}
}

func parse(t *testing.T, text string) *ir.Module {
	t.Helper()
	m, err := ir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if m.Target, err = kernel.Default("x86_64"); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTraps(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"out of slot", "  slot s0 x 8 align 8\nb0(v0:ctx):\n  v1:i64 = load.u64 [s0+4] !2:3\n  ret 0", "2:3: @p: access of 8 bytes outside of slot s0 of @p (8 bytes) at 4: v1:i64 = load.u64 [s0+4]"},
		{"wild", "b0(v0:ctx):\n  v1:ctx = add v0, 0x100000\n  v2:i64 = load.u64 [v1]\n  ret 0", "which is not memory of the program"},
		{"context store", "b0(v0:ctx):\n  store.u64 [v0], 1\n  ret 0", "read-only"},
		{"record leaked", "b0(v0:ctx):\n  v1:ringbuf(8)? = call ringbuf_reserve(map(events), 8, 0)\n  ret 0", "neither submitted nor discarded"},
		{"endless", "b0(v0:ctx):\n  jump b1\nb1:\n  jump b1", "steps"},
	}
	for _, tt := range tests {
		m := parse(t, "map (name events, shape intern, bpf (name events, type ringbuf))\nfunc @p prog (kind kprobe) {\n"+tt.body+"\n}")
		_, err := New(m).Run(Input{Prog: "p"})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error = %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestRelocations(t *testing.T) {
	m := parse(t, `
func @p prog (kind kprobe) {
b0(v0:ctx):
  v1:i64 = core type_size field(struct list_head)
  v2:i64 = core byte_off field(struct list_head:prev)
  v3:i64 = core enumval_exists field(enum bpf_func_id:BPF_FUNC_map_lookup_elem)
  v4:i64 = core field_exists field(struct list_head:nonsense)
  v5:i64 = arg v0
  v6:kaddr = cast v5
  v7:i64 = read.u64 [v6+field(struct list_head:prev)]
  v8:i64 = mul v1, 1000
  v9:i64 = mul v2, 100
  v10:i64 = mul v3, 10
  v11:i64 = add v8, v9
  v12:i64 = add v11, v10
  v13:i64 = add v12, v4
  v14:i64 = add v13, v7
  ret v14
}`)
	in, err := ParseInputs("run p ctx+112=0x1000 kernel@0x1000=u64:7,5")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := New(m).Run(in[0]); err != nil || got != 16815 {
		t.Errorf("Run = %d, %v", got, err)
	}
}

func TestEveryOpRuns(t *testing.T) {
	runs := map[ir.Op]bool{}
	for _, op := range Ops() {
		runs[op] = true
	}
	for i := range ir.Ops {
		op := ir.Op(i)
		if placed := !op.Info().Inline && op != ir.OpInvalid; placed != runs[op] {
			t.Errorf("%s: can occur in programs = %t, implemented = %t", op, placed, runs[op])
		}
	}
}

func TestEquivalentFindsDifferences(t *testing.T) {
	const text = "map (name @x, shape sum, value (kind int, size 8))\nfunc @p prog (kind kprobe) {\nb0(v0:ctx):\n  sum @x, 1\n  ret 0\n}"
	a, b := parse(t, text), parse(t, strings.Replace(text, "@x, 1", "@x, 2", 1))
	in := []Input{{Prog: "p"}}
	if err := Equivalent(a, a.Clone(), in); err != nil {
		t.Error(err)
	}
	if err := Equivalent(a, b, in); err == nil || !strings.Contains(err.Error(), "@x: 1") {
		t.Errorf("error = %v", err)
	}
}
