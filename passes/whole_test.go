// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"flag"
	"testing"

	"btc/ir"
	"btc/ir/interp"
)

var show = flag.Bool("show", false, "log the lowered programs")

// wholePrograms together use every op. The whole pipeline compiles them, with ir.VerifyStage after each
// pass, and the observable behavior in the interpreter must be the same before and after.
var wholePrograms = []struct{ name, text, inputs string }{
	{"tracepoint count", `module a file "a"
map (name @, shape count)
func @p prog (kind tracepoint) {
b0(v0:ctx):
  count @
  ret 0
}`, `
run p
run p cpu=1`},
	{"keyed count", `module a file "a"
map (name @, shape count, key (kind tuple, size 24, fields [(layout (kind int, size 8)), (off 8, layout (kind string, size 16))]))
func @p prog (kind tracepoint) {
  slot s0 "key" 24 align 8
b0(v0:ctx):
  v1:i64 = pid
  store.u64 [s0+0], v1
  comm s0+8
  count @, s0+0
  ret 0
}`, `
run p pid=7 comm="bash"
run p pid=7 comm="bash" cpu=2
run p pid=8 comm="a"
run p pid=1 nspid=70 nsdev=4 nsino=5 comm="ns"`},
	{"kprobe hist", `module a file "a"
map (name @size, shape hist, value (kind int, size 8, signed), cleared)
map (name @k, shape hist, bits 5, key (kind int, size 8), value (kind int, size 8, signed))
map (name @l, shape lhist, min 0, max 100, step 10, value (kind int, size 8, signed))
func @p prog (kind kprobe) {
  slot s0 "key" 8 align 8
b0(v0:ctx):
  v1:i64 = arg v0, #2
  hist @size, v1
  v2:i64 = tid
  store.u64 [s0+0], v2
  hist @k, v1, s0+0
  lhist @l, v1
  ret 0
}`, `
run p ctx+96=0 tid=0 cpu=0
run p ctx+96=1 tid=1 cpu=1
run p ctx+96=2 tid=2 cpu=2
run p ctx+96=3 tid=0 cpu=3
run p ctx+96=-1 tid=1 cpu=0
run p ctx+96=4 tid=2 cpu=1
run p ctx+96=7 tid=0 cpu=2
run p ctx+96=8 tid=1 cpu=3
run p ctx+96=63 tid=2 cpu=0
run p ctx+96=64 tid=0 cpu=1
run p ctx+96=65 tid=1 cpu=2
run p ctx+96=1023 tid=2 cpu=3
run p ctx+96=1024 tid=0 cpu=0
run p ctx+96=99 tid=1 cpu=1
run p ctx+96=100 tid=2 cpu=2
run p ctx+96=101 tid=0 cpu=3
run p ctx+96=4294967296 tid=1 cpu=0
run p ctx+96=9223372036854775807 tid=2 cpu=1
run p ctx+96=-9223372036854775808 tid=0 cpu=2`},
	{"aggregations", `module a file "a"
map (name @sum, shape sum, value (kind int, size 8, signed))
map (name @ksum, shape sum, key (kind int, size 8), value (kind int, size 8, signed))
map (name @avg, shape avg, value (kind int, size 8, signed), read)
map (name @kavg, shape avg, key (kind int, size 8), value (kind int, size 8), read)
map (name @min, shape min, value (kind int, size 8, signed))
map (name @max, shape max, key (kind int, size 8), value (kind int, size 8))
map (name @stats, shape stats, key (kind int, size 8), value (kind int, size 8), declared percpulruhash)
map (name @count, shape count, deleted)
func @p prog (kind kprobe) {
  slot s0 "key" 8 align 8
b0(v0:ctx):
  v1:i64 = arg v0, #2
  store.u64 [s0+0], 7
  sum @sum, v1
  sum @ksum, v1, s0+0
  avg @avg, v1
  avg @kavg, v1, s0+0
  min @min, v1
  max @max, v1, s0+0
  stats @stats, v1, s0+0
  count @count
  v2:i1 = mapdel @count
  v3:i64 = aggget @avg
  v4:i64 = aggget @kavg, s0+0
  v5:i64 = add v3, v4
  ret v5
}`, `
run p ctx+96=5 cpu=0
run p ctx+96=-7 cpu=1
run p ctx+96=0 cpu=2
run p ctx+96=100 cpu=3
run p ctx+96=-9223372036854775808 cpu=0
run p ctx+96=3 cpu=1`},
	{"plain maps", `module a file "a"
map (name @x, shape plain, value (kind int, size 8), cleared)
map (name @s, shape plain, value (kind string, size 64))
map (name @k, shape plain, key (kind int, size 8), value (kind int, size 8))
map (name @ks, shape plain, key (kind int, size 8), value (kind string, size 1024))
map (name @p, shape plain, key (kind int, size 8), value (kind ptr, size 8), declared lruhash)
func @p prog (kind kprobe) {
  slot s0 "key" 8 align 8
  slot s1 "str" 1024 align 8
  slot s2 "str" 64 align 1
b0(v0:ctx):
  v1:i64 = cpu
  store.u64 [s0+0], v1
  mapset @x, v1
  v2:i64 = mapget @x
  v3:i64 = mapadd @x, 1
  v4:i1 = maphas @x
  v5:i1 = mapdel @x
  mapset @k, v1, s0+0
  v6:i64 = mapget @k, s0+0
  v7:i64 = mapadd @k, -1, s0+0
  v8:i1 = maphas @k, s0+0
  v9:i1 = mapdel @k, s0+0
  mapgetmem @ks, s1+0, s0+0
  mapsetmem @ks, s1+0, s0+0
  mapgetmem @s, s2+0
  mapsetmem @s, s2+0
  v10:kaddr = mapget @p, s0+0
  mapset @p, v10, s0+0
  ret 0
}`, `
run p cpu=1
run p cpu=1
run p cpu=2`},
	{"output", `module a file "a"
meta (errors [(text "division by zero", pos !1:1)])
event (name printf0, kind printf, format "%s %s %d\n", fields [(layout (kind string, size 16)), (layout (kind string, size 1024)), (layout (kind int, size 8))])
event (id 1, name printf1, kind printf, format "%s %d %s\n", fields [(layout (kind string, size 16)), (layout (kind int, size 8)), (layout (kind usym, size 16))])
event (id 2, name exit0, kind exit, fields [(name code, layout (kind int, size 8))])
event (id 3, name printf2, kind printf, format "%s %s\n", fields [(layout (kind string, size 64)), (layout (kind buffer, size 64))])
func @p prog (kind tracepoint) {
  slot s0 "str" 16 align 1
  slot s1 "str" 1024 align 1
  slot s2 "str" 16 align 1
  slot s3 "tmp" 16 align 8
  slot s4 "str" 64 align 1
  slot s5 "buf" 64 align 8
b0(v0:ctx):
  comm s0+0
  v1:uaddr = read.u64 [v0+24]
  v2:i64 = str s1+0, v1, 1024, #1024
  v3:i64 = pid
  emit printf0(s0+0, s1+0, v3)
  comm s2+0
  seenproc
  store.u64 [s3+0], 5
  store.u64 [s3+8], v3
  emit printf1(s2+0, 5, s3+0)
  v9:i64 = str s4+0, v1, v3, #64
  store.u32 [s5+0], 3
  memzero s5+4, #60
  emit printf2(s4+0, s5+0)
  divzero
  emit exit0(0)
  ret v9
}`, `
run p pid=7 comm="bash" ctx+24=0x2000 user@0x2000="/etc/passwd\x00"
run p pid=3 comm="a" ctx+24=0x2000
run p pid=0 ctx+24=0x2000 user@0x2000="xyz\x00"
run p pid=7 comm="exactly15chars." ctx+24=0x2000 user@0x2000="0123456789012345678901234567890123456789012345678901234567890123456789\x00"`},
	{"uprobe scratch", `module a file "a"
event (name printf0, kind printf, format "%s\n", fields [(layout (kind string, size 1024))])
func @p prog (kind uprobe) {
  slot s1 "str" 1024 align 1
b0(v0:ctx):
  v3:i64 = pid
  v4:i1 = icmp eq v3, 7
  br v4, b1, b2
b1:
  v1:i64 = arg v0, #0
  v5:uaddr = cast v1
  v2:i64 = str s1+0, v5, 1024, #1024
  emit printf0(s1+0)
  jump b2
b2:
  ret 0
}`, `
run p pid=7 ctx+112=0x2000 user@0x2000="abc\x00"
run p pid=8`},
	{"builtins", `module a file "a"
event (name e, kind printf, fields [(layout (kind int, size 8)), (layout (kind int, size 8)), (layout (kind int, size 8)), (layout (kind int, size 8)), (layout (kind int, size 8)), (layout (kind int, size 8)), (layout (kind int, size 8)), (layout (kind int, size 8)), (layout (kind int, size 8)), (layout (kind int, size 8)), (layout (kind int, size 8)), (layout (kind int, size 8))])
func @p prog (kind kretprobe, first_id 3) {
b0(v0:ctx):
  v1:i64 = retval v0
  v2:i64 = funcip v0
  v3:i64 = reg "sp"(v0)
  v4:i64 = usermode v0
  v5:i64 = uid
  v6:i64 = gid
  v7:i64 = nsecs #2
  v8:i64 = elapsed
  v9:kaddr = curtask
  v10:i64 = rand
  v11:i64 = cgroup
  v12:i64 = numaid
  v13:i64 = ncpus
  v14:i64 = tid #1
  emit e(v1, v2, v3, v4, v5, v6, v7, v8, v11, v12, v13, v14)
  ret v2
}`, `
run p ctx+80=5 ctx+152=77 ctx+136=3 uid=3 gid=4 tai=1000 boot=600 start=100 task=0x9000 cgroup=8 numa=1 tid=9 funcip=0x1234 attachid=3`},
	{"stacks", `module a file "a"
map (name kstack_127, shape stack, depth 127)
map (name kstack_3, shape stack, depth 3)
map (name ustack_127, shape stack, depth 127, user)
map (name @, shape count, key (kind kstack, size 8, stack kstack_127))
map (name @three, shape count, key (kind kstack, size 8, stack kstack_3))
func @p prog (kind profile) {
  slot s0 "key" 8 align 8
b0(v0:ctx):
  v1:i64 = kstack kstack_127(v0), #127
  store.u64 [s0+0], v1
  count @, s0+0
  v2:i64 = kstack kstack_3(v0), #3
  store.u64 [s0+0], v2
  count @three, s0+0
  v3:i64 = ustack ustack_127(v0), #127
  seenproc
  v4:i1 = icmp ne v3, 0
  v5:i64 = boolint v4
  ret v5
}`, `
run p kstack=16,17,18,19 ustack=1,2 pid=4
run p kstack=16,17,18,20 pid=4
run p pid=5
run p kstack=16`},
	{"memory", `module a file "a"
event (name e, kind printf, fields [(layout (kind int, size 8)), (layout (kind int, size 8)), (layout (kind int, size 8)), (layout (kind int, size 8)), (layout (kind int, size 8)), (layout (kind int, size 8)), (layout (kind int, size 8))])
func @p prog (kind kprobe) {
  slot s0 "obj" 24 align 8
  slot s1 "big" 4000 align 8
  slot s2 "obj" 24 align 8
b0(v0:ctx):
  v1:i64 = arg v0, #0
  v2:kaddr = cast v1
  v3:i64 = read.u16 [v2+field(struct sockaddr_in:sin_family)]
  v4:i64 = read.s16 [v2+field(struct sockaddr_in:sin_port)]
  v5:i64 = read.u8 [v2+field(struct iphdr:version)]
  v6:uaddr = read.u64 [v2+field(struct timespec64:tv_nsec)]
  v7:i64 = read.s8 [v6+1]
  readmem s0+0, v2, #24
  v8:kaddr = fieldaddr v2, field(struct timespec64:tv_nsec)
  readmem s1+0, v8, #4000
  v9:i64 = read.u32 [s0+4]
  memcopy s2+0, s0+0, #24
  v10:i1 = memeq s0+0, s2+0, #24
  store.u8 [s2+23], 1
  v11:i1 = memeq s0+0, s2+0, #24
  v12:i64 = load.u64 [s1+0]
  memzero s1+0, #4000
  v13:i64 = load.u64 [s1+0]
  v14:i64 = boolint v10
  v15:i64 = boolint v11
  v16:i64 = shl v14, 1
  v17:i64 = or v16, v15
  emit e(v3, v4, v5, v7, v9, v17, v12)
  ret v13
}
func @q prog (kind tracepoint) {
b0(v0:ctx):
  v3:i64 = read.s32 [v0+field(struct trace_event_raw_sched_process_exec:pid)]
  v4:i64 = read.u64 [v0+16]
  v5:i64 = add v3, v4
  ret v5
}`, `
run p ctx+112=0x1000 kernel@0x1000=u64:0x4511223380ff8102,0x2000,7 user@0x2000=u64:0x8180
run p ctx+112=0x1000
run q ctx+8=9 ctx+12=-5 ctx+16=77`},
	{"latency", `module a file "a"
map (name @start, shape plain, key (kind int, size 8), value (kind int, size 8))
map (name @ns, shape hist, value (kind int, size 8))
map (name @us, shape hist, key (kind tuple, size 24, fields [(layout (kind int, size 8)), (off 8, layout (kind string, size 16))]), value (kind int, size 8))
func @enter prog (kind kprobe) {
  slot s0 "key" 8 align 8
b0(v0:ctx):
  v1:i64 = tid
  store.u64 [s0+0], v1
  v2:i64 = nsecs
  mapset @start, v2, s0+0
  ret 0
}
func @leave prog (kind kretprobe) {
  slot s0 "key" 8 align 8
  slot s1 "key" 8 align 8
  slot s2 "key" 8 align 8
  slot s3 "key" 24 align 8
  slot s4 "key" 24 align 8
b0(v0:ctx):
  v1:i64 = tid
  store.u64 [s0+0], v1
  v2:i64 = mapget @start, s0+0
  v3:i1 = icmp ne v2, 0
  br v3, b1, b2
b1:
  v4:i64 = nsecs
  v5:i64 = tid
  store.u64 [s1+0], v5
  v6:i64 = mapget @start, s1+0
  v7:i64 = sub v4, v6
  hist @ns, v7
  v8:i64 = pid
  store.u64 [s3+0], v8
  comm s3+8
  hist @us, v7, s3+0
  v11:i64 = pid
  store.u64 [s4+0], v11
  comm s4+8
  hist @us, v7, s4+0
  v9:i64 = tid
  store.u64 [s2+0], v9
  v10:i1 = mapdel @start, s2+0
  jump b2
b2:
  ret 0
}`, `
run leave tid=3 boot=50
run enter tid=3 boot=100
run enter tid=4 boot=150
run leave tid=3 boot=228
run leave tid=3 boot=300
run leave tid=4 boot=151 comm="x"`},
	{"strings", `module a file "a"
func @p prog (kind kprobe) {
  slot s0 "str" 16 align 1
  slot s1 "str" 64 align 1
  slot s2 "key" 80 align 8
b0(v0:ctx):
  comm s0+0
  v1:i1 = streq "bash"(s0+0), #16
  v2:i1 = streq "a text that is too long"(s0+0), #16
  v3:i1 = streq "exactly-16-bytes"(s0+0), #16
  strlit "hello"(s1+0), #64
  v4:i1 = streq "hello, world, this is long"(s1+0), #64
  v5:i64 = strcopy s2+0, s0+0, #16
  v6:i64 = strcopy s2+16, s1+0, #64
  v7:i1 = streqmem s0+0, s1+0, #16
  v8:i1 = select v7, v1, v2
  v9:i64 = boolint v8
  ret v9
}`, `
run p comm="bash"
run p comm="hello"
run p comm="exactly-16-byte"`},
}

func TestWholePrograms(t *testing.T) {
	for _, p := range wholePrograms {
		t.Run(p.name, func(t *testing.T) {
			inputs, err := interp.ParseInputs(p.inputs)
			if err != nil {
				t.Fatal(err)
			}
			before, after := parse(t, p.text), lowered(t, p.text)
			if *show {
				t.Logf("%s", after)
			}
			if err := interp.Equivalent(before, after, inputs); err != nil {
				t.Errorf("%v\n%s", err, after)
			}
		})
	}
}

// TestWholeProgramsWithoutCaches checks a loader that does not enable an optional feature: without the
// per-CPU caches, the maps have all values.
func TestWholeProgramsWithoutCaches(t *testing.T) {
	cached := 0
	for _, p := range wholePrograms {
		inputs, err := interp.ParseInputs(p.inputs)
		if err != nil {
			t.Fatal(err)
		}
		before, after := parse(t, p.text), lowered(t, p.text)
		for _, x := range after.Maps {
			if x.BPF.Cache.Enable != "" {
				cached++
			}
			x.BPF.Cache = ir.PerCPUCache{} // neither enabled nor read
		}
		if err := interp.Equivalent(before, after, inputs); err != nil {
			t.Errorf("%s: %v\n%s", p.name, err, after)
		}
	}
	if cached == 0 {
		t.Error("no program with a cache")
	}
}
