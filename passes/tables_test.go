// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"
	"strings"
	"testing"

	"btc/ir"
)

// opsWhere lists the ops in a table for which a predicate holds.
func opsWhere(holds func(op ir.Op) bool) string {
	var names []string
	for i := range ir.Ops {
		if op := ir.Op(i); op != ir.OpInvalid && holds(op) {
			names = append(names, op.String())
		}
	}
	return strings.Join(names, " ")
}

// TestOpTables checks which ops the passes treat alike: a wrong entry would miscompile programs.
func TestOpTables(t *testing.T) {
	for _, c := range []struct {
		what  string
		trait ir.Trait
		want  string
	}{
		{"commutative", ir.Commutes, "add mul and or xor"},
		{"constant during a run", ir.Stable,
			"saved pid tid uid gid cpu curtask cgroup numaid ncpus arg retval funcip probeip reg usermode"},
		{"no effect other than a write to the first argument", ir.WritesArg0, "store comm readmem memcopy memzero strlit str strcopy"},
		{"known on the host", ir.HostDecides, "core global attachid saved perarch"},
		{"arithmetic", ir.Binary, "add sub mul udiv umod and or xor shl lshr ashr"},
		{"a number for any operands", ir.Number,
			"const mul udiv umod and or xor shl lshr ashr boolint pid tid uid gid nsecs elapsed cpu rand cgroup numaid mapget"},
		{"updates of an aggregation", ir.Updates, "count sum avg min max stats hist lhist"},
	} {
		if got := opsWhere(func(op ir.Op) bool { return op.Is(c.trait) }); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// TestHelperTables checks which calls may be removed if unused, and which may be merged.
func TestHelperTables(t *testing.T) {
	for _, c := range []struct {
		helpers     string
		drop, merge bool
	}{
		{"get_current_pid_tgid get_current_uid_gid get_smp_processor_id get_current_task get_current_task_btf " +
			"get_current_cgroup_id get_numa_node_id get_func_ip get_attach_cookie", true, true},
		{"ktime_get_ns ktime_get_boot_ns ktime_get_tai_ns ktime_get_coarse_ns jiffies64 ringbuf_query", true, false},
		{"get_prandom_u32 send_signal get_stackid map_update_elem probe_read_kernel ringbuf_reserve", false, false},
	} {
		for name := range strings.FieldsSeq(c.helpers) {
			v := &ir.Value{Op: ir.OpCall, Sym: name, Type: ir.TI64}
			if got := droppable(&ir.Module{}, v); got != c.drop {
				t.Errorf("%s may be removed: %t", name, got)
			}
			if got := mergeable(&ir.Module{}, v); got != c.merge {
				t.Errorf("%s may be merged: %t", name, got)
			}
		}
	}
}

// TestScalars checks which keys a per-CPU cache may have: numbers, however they were loaded.
func TestScalars(t *testing.T) {
	for _, c := range []struct {
		kind, def string
		want      bool
	}{
		{"kprobe", "arg v0", true},
		{"kretprobe", "retval v0", true},
		{"tracepoint", "load.u64 [v0+8]", true},
		{"fentry", "load.u64 [v0+8]", false},
		{"fentry", "arg v0", false},
		{"uprobe", "reg ip(v0)", false},
		{"fentry", "read.u64 [v0]", false},
		{"fentry", "read.u64 [v2]", true},
		{"fentry", "load.u64 [v3]", false},
		{"fentry", "pid", true},
		{"fentry", "add v4, 1", true},
		{"fentry", "add v4, v5", false},
		{"fentry", "sub v5, v4", false},
		{"fentry", "zext.u8 v4", true},
		{"fentry", "sext.s8 v5", false},
		{"fentry", "cast v4", true},
		{"fentry", "cast v5", false},
		{"kprobe", "call ktime_get_ns()", false},
	} {
		f := parse(t, fmt.Sprintf(`map (name @x)
func @p prog (kind %s) {
b0(v0:ctx):
  v2:kaddr = curtask
  v3:btf(struct task_struct) = curtask
  v4:i64 = tid
  v5:i64 = call ktime_get_ns()
  v9:i64 = %s
  ret 0
}`, c.kind, c.def)).Funcs[0]
		if got := scalar(f, f.Blocks[0].Values[4], 8); got != c.want {
			t.Errorf("%s in a %s: scalar = %t", c.def, c.kind, got)
		}
	}
	// A chain of additions is followed up to a limit.
	f := parse(t, "func @p prog (kind kprobe) {\nb0(v0:ctx):\n  v1:i64 = arg v0\n  v2:i64 = add v1, 1\n  v3:i64 = add v2, 1\n  ret 0\n}").Funcs[0]
	for deep, want := range []bool{false, false, false, true} {
		if got := scalar(f, f.Blocks[0].Values[2], deep); got != want {
			t.Errorf("depth limit %d: scalar = %t", deep, got)
		}
	}
}

// TestLossCounters checks that each position that adds to a map has a counter, and that ops at other
// positions are counted at the first.
func TestLossCounters(t *testing.T) {
	at := func(line int) ir.Pos { return ir.Pos{Line: line, Col: 1, Stmt: -1} }
	m := &ir.Module{}
	x := &ir.Map{BPF: ir.BPFMap{Loss: -1}, Updates: []ir.UpdatePos{{Pos: at(1)}, {Pos: at(2)}, {Pos: at(3)}}}
	y := &ir.Map{BPF: ir.BPFMap{Loss: -1}}
	needLoss(m, y)
	needLoss(m, x)
	needLoss(m, x)
	l := &lowering{m: m, Builder: &ir.Builder{}}
	for _, c := range []struct{ line, want int }{{9, 1}, {3, 2}, {2, 3}, {1, 1}, {3, 2}, {2, 3}} {
		l.Pos = at(c.line)
		if got := l.lossHere(x); got != c.want {
			t.Errorf("counter of line %d = %d, want %d", c.line, got, c.want)
		}
	}
	if g := m.Global("lost"); g == nil || g.Size != 8*4 || y.BPF.Loss != 0 {
		t.Errorf("counters %+v, for the other map %d", g, y.BPF.Loss)
	}
}

// TestZeros checks the values that replace a rejected construct.
func TestZeros(t *testing.T) {
	for typ, want := range map[ir.Type]string{ir.TI64: "0", ir.TI1: "false", ir.TKAddr: "null:kaddr", ir.TBTF("struct s", true): "null:btf(struct s)?"} {
		if got := zeroOf(typ).String(); got != want {
			t.Errorf("zero of %s = %s", typ, got)
		}
	}
	if zeroOf(ir.TVoid) != nil {
		t.Error("zeroOf(void) is not nil")
	}
}

// TestThreadedBlocksDie checks that unreachable blocks are removed in the same sweep, so that their
// edges do not keep other blocks from being threaded.
func TestThreadedBlocksDie(t *testing.T) {
	f := parse(t, `func @p prog (kind kprobe) {
b0(v0:ctx):
  v1:i64 = load.u64 [v0+112]
  jump b1(1)
b1(v2:i64):
  v3:i1 = icmp eq v2, 0
  br v3, b2, b4
b2:
  v4:i64 = load.u64 [v0+104]
  jump b3
b3:
  jump b4
b4:
  ret v1
}`).Funcs[0]
	th := newThreader(f)
	if !th.sweep() {
		t.Fatal("no jumps threaded")
	}
	for i, want := range []bool{false, true, true, true, false} {
		if th.dead[i] != want {
			t.Errorf("b%d: dead = %t", i, th.dead[i])
		}
	}
	if n := len(th.preds[4]); n != 1 {
		t.Errorf("%d edges lead to b4, want 1", n)
	}
	if th.sweep() {
		t.Error("second sweep threads more jumps")
	}
}
