// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"

	"btc/compile"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/object"
	"btc/targets/kernel"
)

// estimate returns the estimates of a script's programs.
func estimate(t *testing.T, script string) []Program {
	t.Helper()
	table, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	target, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	out, diags := compile.Compile(compile.Input{Name: "x.bt", Text: script, Target: target, Compiler: "test"})
	if out == nil {
		t.Fatal(diags)
	}
	m, err := manifest.Parse(out.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	o, err := object.Parse(out.Object, m)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Estimate(o, target, table)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestTable checks that the table has the entries that estimates look up, in order, and all kinds of
// probes.
func TestTable(t *testing.T) {
	table, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(table.Measured.Kernel, "-") {
		t.Errorf("%q names the build of a kernel", table.Measured.Kernel)
	}
	if table.Measured.CPU == "" || table.Measured.Kernel == "" || table.Measured.Command == "" || table.Insn <= 0 || table.Memory <= 0 ||
		table.Atomic <= 0 || table.Call <= 0 || table.Statistics <= 0 {
		t.Errorf("missing figures in the table: %+v", table)
	}
	check := func(what string, points []Point) {
		if len(points) == 0 {
			t.Errorf("%s: no points", what)
		}
		for i := 1; i < len(points); i++ {
			if points[i].Bytes <= points[i-1].Bytes {
				t.Errorf("%s: points are not in order", what)
			}
		}
	}
	for name, points := range table.Helpers {
		check(name, points)
	}
	for _, kind := range mapKinds {
		for _, op := range []string{"lookup", "update"} {
			check(op+" of "+kind, table.Maps[kind][op])
		}
	}
	for _, kind := range probe.Types() {
		i := slices.IndexFunc(table.Probes, func(p Probe) bool { return p.Kind == kind.Kind })
		switch {
		case kind.Runner != probe.Kernel:
		case i < 0:
			t.Errorf("%s is not in the table", kind.Kind)
		case (table.Probes[i].NS == nil) != (table.Probes[i].Note != ""):
			t.Errorf("%s: want a figure or a reason: %+v", kind.Kind, table.Probes[i])
		}
	}
}

func TestInterpolation(t *testing.T) {
	points := []Point{{8, 10}, {16, 20}, {64, 32}}
	for bytes, want := range map[int]float64{0: 10, 8: 10, 12: 15, 16: 20, 40: 26, 64: 32, 128: 48} {
		if have := at(points, bytes); have != want {
			t.Errorf("cost at %d bytes = %v, want %v", bytes, have, want)
		}
	}
	if have := at([]Point{{0, 7}}, 1000); have != 7 {
		t.Errorf("constant cost = %v", have)
	}
}

// TestHelperSize checks that the size of a read is taken from the register that the helper takes it from, if it is known.
func TestHelperSize(t *testing.T) {
	e := estimator{Table: &Table{Helpers: map[string][]Point{}}}
	for _, name := range []string{"probe_read_kernel", "ringbuf_output"} {
		e.Helpers[name] = []Point{{0, 0}, {1 << 21, 1 << 21}} // as many nanoseconds as bytes
	}
	for _, c := range []struct {
		helper     asm.BuiltinFunc
		reg        asm.Register
		value      content
		want       float64
		unmeasured int
	}{
		{asm.FnProbeReadKernel, asm.R2, content{kind: constant, value: 64}, 64, 0},
		{asm.FnProbeReadKernel, asm.R2, content{kind: constant}, 0, 0},
		{asm.FnProbeReadKernel, asm.R2, content{kind: constant, value: 1<<20 - 1}, 1<<20 - 1, 0},
		{asm.FnProbeReadKernel, asm.R2, content{kind: constant, value: 1 << 20}, usualBytes, 0},
		{asm.FnProbeReadKernel, asm.R2, content{kind: constant, value: -1}, usualBytes, 0},
		{asm.FnProbeReadKernel, asm.R2, content{value: 64}, usualBytes, 0},
		{asm.FnProbeReadKernel, asm.R3, content{kind: constant, value: 64}, usualBytes, 0},
		{asm.FnRingbufOutput, asm.R3, content{kind: constant, value: 48}, 48, 0},
		{asm.FnGetCurrentPidTgid, asm.R1, content{}, 0, 1},
	} {
		var s registers
		s[c.reg] = c.value
		e.out = Program{}
		if got := e.helper(c.helper, &s); got.NS != c.want || got.Count != 1 || len(e.out.Unmeasured) != c.unmeasured {
			t.Errorf("%v with %+v: %+v, %d unmeasured, want %v ns", c.helper, c.value, got, len(e.out.Unmeasured), c.want)
		}
	}
}

// TestEstimate checks that more work costs more.
func TestEstimate(t *testing.T) {
	ns := func(script string) *Program {
		t.Helper()
		all := estimate(t, script)
		if len(all) != 1 {
			t.Fatalf("%s: %d programs", script, len(all))
		}
		return &all[0]
	}
	const point = "tracepoint:syscalls:sys_enter_getpgid "
	count, keyed := ns(point+"{ @ = count(); }"), ns(point+"{ @[args.pid] = count(); }")
	text := ns("tracepoint:syscalls:sys_enter_chdir { @[str(args.filename)] = count(); }")
	if count.NS <= 0 || count.NS > 30 || keyed.NS < count.NS+10 || text.NS < keyed.NS+50 {
		t.Errorf("estimates: count %.1f, keyed %.1f, by string %.1f; want them to increase", count.NS, keyed.NS, text.NS)
	}
	if count.Probe != "tracepoint:syscalls:sys_enter_getpgid" || count.ProbeNS == nil || count.Line != 1 || count.Loops {
		t.Errorf("estimate of count = %+v", count)
	}
	// A filter ends the event early; the code after it counts as if it passes.
	filtered := ns(point + "/args.pid == 7/ { @[str(args.pid)] = count(); }")
	if filtered.LeastNS > 10 || filtered.NS < filtered.LeastNS+50 {
		t.Errorf("estimate with a filter: %.1f to %.1f", filtered.LeastNS, filtered.NS)
	}
	// The more expensive branch counts.
	both := ns(point + "{ if (args.pid == 7) { @ = count(); } else { @s[comm] = count(); } }")
	if comm := ns(point + "{ @s[comm] = count(); }"); both.NS < comm.NS {
		t.Errorf("estimate of the branch %.1f, of its expensive side alone %.1f", both.NS, comm.NS)
	}
	// Only successful operations count: an update follows a lookup that found nothing.
	if i := slices.IndexFunc(keyed.Calls, func(c Call) bool { return c.Name[:10] == "map_update" }); i >= 0 {
		t.Errorf("update of a missing element is counted: %+v", keyed.Calls)
	}
	// A loop counts once per iteration, if the trip count is known.
	loop := func(n string) *Program {
		return ns(point + "{ $i = 0; while ($i < " + n + ") { $i++; @[$i] = count(); } }")
	}
	if few, many := loop("10"), loop("40"); few.Loops || many.Loops || many.NS < 3*few.NS || many.NS > 5*few.NS {
		t.Errorf("estimate for 10 iterations: %.1f, for 40: %.1f", few.NS, many.NS)
	}
	if unknown := loop("args.pid"); !unknown.Loops || unknown.NS > 1000 || len(unknown.Unmeasured) > 0 {
		t.Errorf("loop with unknown trip count: %+v", unknown)
	}
	none := ns("kprobe:vfs_read { @ = count(); }")
	if none.ProbeNS != nil || none.ProbeNote == "" {
		t.Errorf("kprobe: %+v", none)
	}
	if all := estimate(t, `begin { @ = 1; } end { @ = 2; } interval:s:1 { print(@); }`); len(all) != 1 || all[0].Kind != probe.Interval {
		t.Errorf("programs of the loader are counted: %+v", all)
	}
}

// TestUnmeasured checks that a helper that is missing in the table is named.
func TestUnmeasured(t *testing.T) {
	all := estimate(t, `kprobe:f { override(1); }`)
	if len(all) != 1 || len(all[0].Unmeasured) == 0 || all[0].NS <= 0 {
		t.Errorf("estimate of override = %+v, want an unmeasured helper", all)
	}
}

// TestWalks checks that walks by unwind tables count only for stacks that have them by default.
func TestWalks(t *testing.T) {
	walks := func(stack string) bool {
		p := estimate(t, "config = { unstable_dw_ustack = enable; } profile:hz:99 { @["+stack+"] = count(); }")[0]
		return slices.ContainsFunc(p.Calls, func(c Call) bool { return c.Name == "probe_read_user" })
	}
	if walks("ustack") || !walks("dw_ustack") {
		t.Errorf("walks of ustack: %t, of dw_ustack: %t", walks("ustack"), walks("dw_ustack"))
	}
}
