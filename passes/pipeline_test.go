package passes

import (
	"testing"

	"btc/ir"
	"btc/ir/kernel"
)

// parse reads IR text with the default target.
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

// lowered runs the whole pipeline, verified after each pass.
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
			t.Errorf("%s takes stage %d and gives %d where the one before it gave %d", p.Name, p.Before, p.After, stage)
		}
		stage = p.After
	}
	if stage != ir.Core {
		t.Errorf("the pipeline ends in stage %d", stage)
	}
	for _, o := range Orders() {
		first, then := rows[o.First], rows[o.Then]
		if len(first) == 0 || len(then) == 0 {
			t.Errorf("order %s, %s names a pass that is not in the table", o.First, o.Then)
			continue
		}
		if first[0] > then[0] {
			t.Errorf("%s runs after %s, but: %s", o.First, o.Then, o.Reason)
		}
	}
}
