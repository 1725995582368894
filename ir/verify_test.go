// SPDX-License-Identifier: Apache-2.0

package ir_test

import (
	"fmt"
	"strings"
	"testing"

	"btc/ir"
	"btc/targets/kernel"
)

// The maps, globals and events that the cases use.
const verifyTables = `module t file t.bt
map (name @x, shape plain, value (kind int, size 8), key (kind int, size 8), bpf (name AT_x, type hash, key_size 8, value_size 16))
map (name @s, shape plain, value (kind int, size 8))
map (name @h, shape hist, value (kind int, size 8))
map (name events, shape intern, bpf (name events, type ringbuf))
global (name g, kind const, size 8)
event (name e0, kind printf, fields [(name a, layout (kind int, size 8))])
func @sub(i64) {
b0(v0:i64):
  ret v0
}
`

// verifyCases are bodies of a kprobe program, each with part of the expected error ("" for none).
var verifyCases = []struct{ name, body, want string }{
	{"good", `
  slot s0 "key" 8 align 8
b0(v0:ctx):
  v1:i64 = load.u64 [v0+112]
  store.u64 [s0+0], v1
  v2:mapval(@x)? = call map_lookup_elem(@x, s0+0)
  v3:i1 = icmp ne v2, null
  br v3, b1, b2
b1:
  v4:mapval(@x) = nonnull v2
  atomicadd.u64 [v4+8], 1
  jump b2
b2:
  ret 0`, ""},
	{"dominance", `
b0(v0:ctx):
  v1:i1 = icmp eq v2, 0
  v2:i64 = add 1, 2
  ret v2`, "v2 is not defined on every path to its use: v1:i1 = icmp eq v2, 0"},
	{"edge arguments", `
b0(v0:ctx):
  jump b1
b1(v1:i64):
  ret v1`, "0 arguments for 1 parameters of b1"},
	{"no terminator", "\nb0(v0:ctx):\n  v1:i64 = pid", "b0 has no terminator"},
	{"edge type", `
b0(v0:ctx):
  jump b1(v0)
b1(v1:i64):
  ret v1`, "argument v0 is ctx, parameter v1 of b1 is i64"},
	{"entry", "\nb0(v0:i64):\n  ret v0", "entry parameter 0 is i64, not ctx"},
	{"argument kind", "\nb0(v0:ctx):\n  v1:i64 = mul v0, 2\n  ret v1", "argument 1 is a ctx, not an i64"},
	{"result type", "\nb0(v0:ctx):\n  v1:i1 = mul 1, 2\n  ret 0", "result must be i64"},
	{"pointer comparison", "\nb0(v0:ctx):\n  v1:i1 = icmp ult v0, null:ctx\n  ret 0", "for eq or ne only"},
	{"nullable load", `
  slot s0 "key" 8 align 8
b0(v0:ctx):
  store.u64 [s0+0], 0
  v2:mapval(@x)? = call map_lookup_elem(@x, s0+0)
  v3:i64 = load.u64 [v2]
  ret v3`, "argument 1 is a nullable mapval(@x), not a pointer that cannot be null: v3:i64 = load.u64 [v2]"},
	{"nonnull without test", `
  slot s0 "key" 8 align 8
b0(v0:ctx):
  store.u64 [s0+0], 0
  v2:mapval(@x)? = call map_lookup_elem(@x, s0+0)
  v3:mapval(@x) = nonnull v2
  ret 0`, "v2 is not tested on every path to here"},
	{"kernel address loaded", "\nb0(v0:ctx):\n  v1:kaddr = curtask\n  v2:i64 = load.u64 [v1]\n  ret v2", "a kaddr, which only helpers can read"},
	{"slot bounds", "\n  slot s0 \"\" 8 align 8\nb0(v0:ctx):\n  store.u64 [s0+8], 1\n  ret 0", `bytes 8 to 16 are outside slot s0 "" 8 align 8`},
	{"slot alignment", "\n  slot s0 \"\" 16 align 8\nb0(v0:ctx):\n  store.u64 [s0+4], 1\n  ret 0", "not aligned"},
	{"slot alignment of object", "\n  slot s0 \"\" 16 align 4\nb0(v0:ctx):\n  store.u64 [s0+0], 1\n  ret 0", "not aligned"},
	{"slot not written", "\n  slot s0 \"\" 8 align 8\nb0(v0:ctx):\n  store.u32 [s0+0], 1\n  v1:mapval(@x)? = call map_lookup_elem(@x, s0+0)\n  ret 0",
		"argument 2 of map_lookup_elem: byte 4 of slot"},
	{"slot not written on one path", `
  slot s0 "" 8 align 8
b0(v0:ctx):
  v1:i64 = pid
  v2:i1 = icmp eq v1, 1
  br v2, b1, b2
b1:
  store.u64 [s0+0], 1
  jump b2
b2:
  v3:i64 = load.u64 [s0+0]
  ret v3`, "byte 0 of slot"},
	{"slot written in a loop", `
  slot s0 "" 8 align 8
b0(v0:ctx):
  jump b1(0)
b1(v1:i64):
  store.u64 [s0+0], v1
  v2:i64 = add v1, 1
  v3:i1 = icmp ult v2, 10
  br v3, b1(v2), b2
b2:
  v4:i64 = load.u64 [s0+0]
  ret v4`, ""},
	{"high key not written", "\n  slot s0 \"\" 8 align 8\nb0(v0:ctx):\n  v1:i64 = mapget @x, s0+0\n  ret v1", "key of map @x: byte 0"},
	{"read size out of bounds", "\n  slot s0 \"\" 16 align 8\nb0(v0:ctx):\n  v1:i64 = call probe_read_kernel(s0+8, 16, 0)\n  ret v1", "bytes 8 to 24 are outside"},
	{"unbounded size", "\n  slot s0 \"\" 16 align 8\nb0(v0:ctx):\n  v1:i64 = pid\n  v2:i64 = nsecs\n  v3:i64 = call probe_read_kernel(s0+0, v2, 0)\n  ret v1", "a size without bound"},
	{"bounded size", "\n  slot s0 \"\" 16 align 8\nb0(v0:ctx):\n  v2:i64 = nsecs\n  v4:i64 = and v2, 15\n  v3:i64 = call probe_read_kernel(s0+0, v4, 0)\n  ret v3", ""},
	{"variable size into unwritten frame", "\n  slot s0 \"\" 16 align 8 frame -16\nb0(v0:ctx):\n  v2:i64 = nsecs\n  v4:i64 = and v2, 15\n  v3:i64 = call probe_read_kernel(s0+0, v4, 0)\n  ret v3", "may be uninitialized"},
	{"context arithmetic", "\nb0(v0:ctx):\n  v1:ctx = add v0, 8\n  ret 0", "without offset"},
	{"context alignment", "\nb0(v0:ctx):\n  v1:i64 = load.u64 [v0+4]\n  ret 0", "not a multiple of its size"},
	{"context end", "\nb0(v0:ctx):\n  v1:i64 = load.u64 [v0+168]\n  ret 0", "a kprobe program can load only bytes 0 to 168"},
	{"context store", "\nb0(v0:ctx):\n  store.u64 [v0], 1\n  ret 0", "cannot store to a ctx"},
	{"map value bounds", `
  slot s0 "key" 8 align 8
b0(v0:ctx):
  store.u64 [s0+0], 0
  v2:mapval(@x)? = call map_lookup_elem(@x, s0+0)
  v3:i1 = icmp eq v2, null
  br v3, b2, b1
b1:
  v4:mapval(@x) = nonnull v2
  v5:i64 = load.u64 [v4+16]
  jump b2
b2:
  ret 0`, "bytes 16 to 24 are outside the mapval(@x) (16 bytes)"},
	{"map value unbounded", mapValueIndex("v5:i64 = pid"), "offset 0 to 4294967295 and 8 bytes are outside"},
	{"map value unbounded 64", mapValueIndex("v5:i64 = nsecs"), "offset in the mapval(@x) is unbounded"},
	{"map value masked", mapValueIndex("v8:i64 = nsecs\n  v5:i64 = and v8, 8"), ""},
	{"counter with another bound", loopTo(8, 7), ""},
	{"counter with another bound, too large", loopTo(4, 7), "are outside"},
	{"record leaked", `
b0(v0:ctx):
  v1:ringbuf(16)? = call ringbuf_reserve(map(events), 16, 0)
  v2:i1 = icmp eq v1, null
  br v2, b1, b2
b1:
  ret 0
b2:
  v3:ringbuf(16) = nonnull v1
  store.u64 [v3+8], 1
  ret 1`, "may be neither submitted nor discarded here: b2: ret 1"},
	{"record used after", `
b0(v0:ctx):
  v1:ringbuf(16)? = call ringbuf_reserve(map(events), 16, 0)
  v2:i1 = icmp eq v1, null
  br v2, b1, b2
b1:
  ret 0
b2:
  v3:ringbuf(16) = nonnull v1
  call ringbuf_submit(v3, 0)
  store.u64 [v3+8], 1
  ret 1`, "may be released here"},
	{"record good", `
b0(v0:ctx):
  v1:ringbuf(16)? = call ringbuf_reserve(map(events), 16, 0)
  v2:i1 = icmp ne v1, null
  br v2, b2, b1
b1:
  ret 0
b2:
  v3:ringbuf(16) = nonnull v1
  store.u64 [v3+8], 1
  call ringbuf_submit(v3, 0)
  jump b1`, ""},
	{"record bounds", `
b0(v0:ctx):
  v1:ringbuf(16)? = call ringbuf_reserve(map(events), 16, 0)
  v2:i1 = icmp ne v1, null
  br v2, b2, b1
b1:
  ret 0
b2:
  v3:ringbuf(16) = nonnull v1
  store.u64 [v3+16], 1
  call ringbuf_submit(v3, 0)
  jump b1`, "bytes 16 to 24 are outside the ringbuf(16)"},
	{"helper", "\nb0(v0:ctx):\n  v1:i64 = call frobnicate(1)\n  ret v1", "unknown helper frobnicate"},
	{"helper arguments", "\nb0(v0:ctx):\n  v1:i64 = call ktime_get_ns(1)\n  ret v1", "helper ktime_get_ns expects 0 arguments"},
	{"helper context", "\nb0(v0:ctx):\n  v1:i64 = call get_stackid(1, @x, 0)\n  ret v1", "argument 1 is an i64, not the context"},
	{"helper program", "\nb0(v0:ctx):\n  v1:i64 = call d_path(0, 0, 0)\n  ret v1", "a kprobe program cannot call d_path"},
	{"helper result", "\n  slot s0 \"\" 8 align 8\nb0(v0:ctx):\n  store.u64 [s0+0], 1\n  v1:i64 = call map_lookup_elem(@x, s0+0)\n  ret v1", "result must be mapval(@x)?"},
	{"subprogram", "\nb0(v0:ctx):\n  v1:i64 = callsub sub(v0)\n  ret v1", "argument 1 is a ctx, not i64"},
	{"map key missing", "\nb0(v0:ctx):\n  v1:i64 = mapget @x\n  ret v1", "missing key for map @x"},
	{"map key for scalar", "\n  slot s0 \"\" 8 align 8\nb0(v0:ctx):\n  store.u64 [s0+0], 1\n  v1:i64 = mapget @s, s0+0\n  ret v1", "key given for scalar map @s"},
	{"map shape", "\nb0(v0:ctx):\n  count @h\n  ret 0", "map @h is hist"},
	{"map unknown", "\nb0(v0:ctx):\n  count @y\n  ret 0", "map @y is not declared"},
	{"event arity", "\nb0(v0:ctx):\n  emit e0\n  ret 0", "event e0 has 1 fields"},
	{"global", "\nb0(v0:ctx):\n  v1:i64 = global.u64 g #4\n  ret v1", "outside of the global's 8 bytes"},
	{"literal", "\n  slot s0 \"\" 2 align 1\nb0(v0:ctx):\n  strlit abc(s0+0), #2\n  ret 0", "literal of 3 bytes does not fit in 2"},
	{"div zero entry", "\nb0(v0:ctx):\n  divzero #0\n  ret 0", "no run-time error with index 0"},
	{"width", "\nb0(v0:ctx):\n  v1:i64 = zext.s8 1\n  ret v1", "width s8"},
}

func mapValueIndex(index string) string {
	return `
  slot s0 "key" 8 align 8
b0(v0:ctx):
  store.u64 [s0+0], 0
  v2:mapval(@x)? = call map_lookup_elem(@x, s0+0)
  v3:i1 = icmp eq v2, null
  br v3, b2, b1
b1:
  v4:mapval(@x) = nonnull v2
  ` + index + `
  v6:mapval(@x) = add v4, v5
  v7:i64 = load.u64 [v6]
  jump b2
b2:
  ret 0`
}

// loopTo returns a loop with increment step that ends at 16 or depending on the clock, and loads a byte
// at off plus its counter.
func loopTo(step, off int) string {
	return fmt.Sprintf(`
  slot s0 "text" 16 align 8 scratch 0
b0(v0:ctx):
  jump b1(0)
b1(v1:i64):
  v2:i64 = nsecs
  v3:i64 = shl v2, 32
  v4:i64 = or v1, v3
  v5:i1 = icmp ult v4, 16
  br v5, b2, b3
b2:
  v6:stack = add s0+0, v1
  v7:i64 = load.u8 [v6+%d]
  v8:i64 = add v1, %d
  jump b1(v8)
b3:
  ret 0`, off, step)
}

func TestVerify(t *testing.T) {
	for _, tt := range verifyCases {
		t.Run(tt.name, func(t *testing.T) {
			m, err := ir.Parse(verifyTables + "func @p prog (kind kprobe) {" + tt.body + "\n}\n")
			if err != nil {
				t.Fatal(err)
			}
			if m.Target, err = kernel.Default("x86_64"); err != nil {
				t.Fatal(err)
			}
			switch err := ir.Verify(m); {
			case err == nil && tt.want != "":
				t.Errorf("no error, want %q", tt.want)
			case err != nil && tt.want == "":
				t.Errorf("error = %v", err)
			case err != nil && !strings.Contains(err.Error(), tt.want):
				t.Errorf("error = %v\nwant %q", err, tt.want)
			}
		})
	}
}

func TestVerifyStage(t *testing.T) {
	m := ir.MustParse("map (name @x, shape count, value (kind int, size 8))\nfunc @p prog (kind begin) {\nb0(v0:ctx):\n  count @x !3:4\n  ret 0\n}")
	if err := ir.VerifyStage(m, ir.High); err != nil {
		t.Error(err)
	}
	err := ir.VerifyStage(m, ir.Core)
	if err == nil || !strings.Contains(err.Error(), "3:4: @p: high op is left after lowering: count @x") || !strings.Contains(err.Error(), "map @x has no BPF form") {
		t.Errorf("error = %v", err)
	}
	if n := strings.Count(err.Error(), "\n"); n != 1 {
		t.Errorf("%d errors, want 2: %v", n+1, err)
	}
	m.Maps[0].BPF.Type, m.Maps[0].BPF.Name = "array", "x"
	m.Funcs[0].Blocks[0].Remove(0)
	if err := ir.VerifyStage(m, ir.Core); err != nil {
		t.Errorf("core module: error = %v", err)
	}
	m.Maps[0].BPF.Name = ""
	if err := ir.VerifyStage(m, ir.Core); err == nil || err.Error() != `map @x: BPF name "" must be 1 to 15 bytes long` {
		t.Errorf("error = %v", err)
	}
}
