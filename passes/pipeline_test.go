// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"
	"strings"
	"testing"

	"btc/ir"
	"btc/targets/kernel"
)

// parse parses IR for the default target.
func parse(t *testing.T, text string) *ir.Module {
	t.Helper()
	m, err := ir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	m.Target, err = kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// lowered runs the whole pipeline and verifies the module after each pass.
func lowered(t *testing.T, text string) *ir.Module {
	t.Helper()
	m := parse(t, text)
	last := ""
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("%v\n%s", r, m)
		}
	}()
	err := Run(m, Options{Verify: ir.VerifyStage, Dump: func(pass string, m *ir.Module) { last = pass }})
	if err != nil {
		t.Fatalf("after %s: %v", last, err)
	}
	return m
}

func TestOrdersHold(t *testing.T) {
	rows := map[string][]int{}
	stage := ir.High
	for i, p := range Pipeline() {
		rows[p.Name] = append(rows[p.Name], i)
		if p.Before != stage || p.After < p.Before {
			t.Errorf("%s: Before = %d, After = %d, but the previous pass has After = %d", p.Name, p.Before, p.After, stage)
		}
		stage = p.After
	}
	if stage != ir.Core {
		t.Errorf("pipeline ends in stage %d", stage)
	}
	for _, o := range Orders() {
		first, then := rows[o.First], rows[o.Then]
		if len(first) == 0 || len(then) == 0 {
			t.Errorf("order %s, %s: pass not in the table", o.First, o.Then)
			continue
		}
		if first[0] > then[0] {
			t.Errorf("%s runs after %s, but: %s", o.First, o.Then, o.Reason)
		}
	}
}

// TestOptions checks that the sizes of objects are limited, with an error at the first use; that a run
// with a smaller frame rejects what does not fit; and that a pass that breaks the module is reported as
// a bug.
func TestOptions(t *testing.T) {
	const text = "func @p prog (kind kprobe) {\n  slot s0 \"\" %d align 8\n  slot s1 \"\" 8 align 8\nb0(v0:ctx):\n  store.u64 [s1+0], 1\n" +
		"  store.u64 [s0+0], 1  !3:4\n  v1:i64 = load.u64 [s0+0]  !4:4\n  ret v1\n}"
	if d := tooLarge(parse(t, fmt.Sprintf(text, maxObject))); len(d) != 0 {
		t.Errorf("object of the maximum size: %v", d)
	}
	err := Run(parse(t, fmt.Sprintf(text, maxObject+1)), Options{})
	if want := "3:4: a value of 1048577 bytes is used here, the limit is 1048576"; err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}

	// Slots of 16 and 8 bytes that are live at the same time.
	frame := fmt.Sprintf(
		strings.Replace(text, "ret v1", "v2:i64 = load.u64 [s1+0]\n  v3:i64 = call probe_read_kernel(s0+0, 16, v1)\n"+
			"  v4:i64 = call probe_read_kernel(s1+0, 8, v1)\n  ret v2", 1),
		16,
	)
	m := parse(t, frame)
	var dumped []string
	if err := Run(m, Options{Frame: 64, Dump: func(pass string, _ *ir.Module) { dumped = append(dumped, pass) }}); err != nil {
		t.Error(err)
	}
	if len(dumped) != len(Pipeline())+1 || dumped[0] != "input" || dumped[1] != Pipeline()[0].Name {
		t.Errorf("dumped after %v", dumped)
	}
	if strings.Contains(m.String(), "scratch_") {
		t.Errorf("module does not fit in 64 bytes:\n%s", m)
	}
	m = parse(t, frame)
	if err := Run(m, Options{Frame: 16}); err != nil || !strings.Contains(m.String(), "scratch_") {
		t.Errorf("module fits in 16 bytes: %v\n%s", err, m)
	}

	defer func() {
		if r := fmt.Sprint(recover()); !strings.HasPrefix(r, "BUG: after ") {
			t.Errorf("broken module: %s", r)
		}
	}()
	Run(parse(t, frame), Options{Verify: func(*ir.Module, ir.Stage) error { return fmt.Errorf("broken") }})
}
