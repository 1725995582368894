// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"strconv"
	"strings"
	"testing"

	"btc/ir"
)

// refutedByItself is a program in which $unit changes only where it has already changed. Passes with
// pessimistic initial values never find this out, but sccp does.
const refutedByItself = `module a file "a"
func @p prog (kind kprobe) {
b0(v0:ctx):
  jump b1(0, 1)
b1(v1:i64, v2:i64):
  v3:i1 = icmp eq v2, 1
  br v3, b2, b3
b2:
  jump b4(v2)
b3:
  v4:i64 = call ktime_get_ns()
  jump b4(v4)
b4(v5:i64):
  v6:i64 = add v1, v5
  v7:i1 = icmp ult v6, 9
  br v7, b1(v6, v5), b5
b5:
  ret v6
}`

func TestOnlyPropagationDecidesLoops(t *testing.T) {
	after := func(passes ...func(*ir.Module) []ir.Diag) string {
		m := parse(t, refutedByItself)
		for _, p := range passes {
			p(m)
			if err := ir.VerifyStage(m, ir.Core); err != nil {
				t.Fatal(err)
			}
		}
		return m.String()
	}
	if out := after(fold, simplifyCFG, cse, jumpThreading, decideRanges, simplifyCFG, fold, dce); !strings.Contains(out,
		"ktime_get_ns") {
		t.Errorf("loop decided without sccp, so sccp is useless here:\n%s", out)
	}
	if out := after(sccp, simplifyCFG); strings.Contains(out, "ktime_get_ns") {
		t.Errorf("branch not removed:\n%s", out)
	}
}

// TestPropagationInEndlessLoop checks that an endless loop stays one.
func TestPropagationInEndlessLoop(t *testing.T) {
	m := parse(t, `module a file "a"
func @p prog (kind kprobe) {
b0(v0:ctx):
  jump b1(1)
b1(v1:i64):
  v2:i1 = icmp ne v1, 0
  br v2, b1(v1), b2
b2:
  ret 0
}`)
	sccp(m)
	simplifyCFG(m)
	dce(m)
	if out := m.String(); strings.Contains(out, "ret") || !strings.Contains(out, "jump b1") {
		t.Errorf("got:\n%s", out)
	}
}

// TestPropagationGivesUp checks that sccp gives up if back edges refute constants in sweep after sweep.
func TestPropagationGivesUp(t *testing.T) {
	chain := func(n int) string {
		params, first, next := []string{}, []string{}, []string{}
		for i := range n {
			params = append(params, "v"+strconv.Itoa(i+10)+":i64")
			first = append(first, "1")
			next = append(next, "v"+strconv.Itoa(i+11))
		}
		next[n-1] = "v1"
		return `module a file "a"
func @p prog (kind kprobe) {
b0(v0:ctx):
  v1:i64 = load.u64 [v0+8]
  jump b1(` + strings.Join(first, ", ") + `, 3)
b1(` + strings.Join(params, ", ") + `, v50:i64):
  v60:i64 = call ktime_get_ns()
  v61:i1 = icmp ult v60, v50
  br v61, b1(` + strings.Join(next, ", ") + `, 3), b2
b2:
  ret v50
}`
	}
	for n, decided := range map[int]bool{3: true, maxSweeps + 4: false} {
		m := parse(t, chain(n))
		sccp(m)
		if got := strings.Contains(m.String(), "ret 3"); got != decided {
			t.Errorf("%d parameters: decided = %v, want %v\n%s", n, got, decided, m)
		}
	}
}
