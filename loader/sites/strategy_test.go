// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"btc/internal/manifest"
	"btc/loader/resolve"
	"btc/loader/rewrite"
)

// TestWorthSharing checks that the kernel's tracepoint is used for programs that cannot use a record as
// their context, and if there are only few tracepoints.
func TestWorthSharing(t *testing.T) {
	shares, keeps := &manifest.Code{Share: true}, &manifest.Code{}
	many := make([]resolve.Match, sharedFrom)
	for i := range many {
		many[i] = resolve.Match{Group: "syscalls", Name: "sys_enter_x"}
	}
	one := []resolve.Match{{Group: "syscalls", Name: "sys_enter_read"}}
	exits := []resolve.Match{{Group: "syscalls", Name: "sys_exit_read"}}
	for _, c := range []struct {
		name    string
		code    []*manifest.Code
		matches [][]resolve.Match
		want    bool
	}{
		{"many", []*manifest.Code{shares}, [][]resolve.Match{many}, true},
		{"one", []*manifest.Code{shares}, [][]resolve.Match{one}, false},
		{"many and one", []*manifest.Code{shares, shares}, [][]resolve.Match{many, one}, true},
		{"many that keep theirs", []*manifest.Code{keeps}, [][]resolve.Match{many}, false},
		{"many and one that keeps its own", []*manifest.Code{shares, keeps}, [][]resolve.Match{many, one}, false},
		{"many and an exit that keeps its own", []*manifest.Code{shares, keeps}, [][]resolve.Match{many, exits}, true},
		{"many of an older object", []*manifest.Code{nil}, [][]resolve.Match{many}, false},
	} {
		var plans []resolve.Plan
		for i, code := range c.code {
			plans = append(plans,
				resolve.Plan{Prog: &manifest.Program{Kind: "tracepoint", Code: code}, Matches: c.matches[i]})
		}
		if got := worthSharing(plans, "sys_enter"); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	var plans []resolve.Plan
	for range sharedPrograms + 1 {
		plans = append(plans, resolve.Plan{Prog: &manifest.Program{Kind: "tracepoint", Code: shares}, Matches: many})
	}
	if worthSharing(plans, "sys_enter") {
		t.Error("too many programs on a raw tracepoint")
	}
}

// TestSplitCalls checks that a system call whose number is not in our table keeps its own tracepoint,
// as do calls in the other direction.
func TestSplitCalls(t *testing.T) {
	plans := splitCalls([]resolve.Plan{{Prog: &manifest.Program{Kind: "tracepoint"}, Matches: []resolve.Match{
		{Group: "syscalls", Name: "sys_enter_read"}, {Group: "syscalls", Name: "sys_enter_newest"}, {Group: "syscalls", Name: "sys_exit_read"}, {Group: "sched", Name: "x"}}}},
		"sys_enter", map[string]int{"read": 0})
	if len(plans) != 2 || plans[0].Direction != "sys_enter" || plans[0].Strategy != resolve.SharedRaw ||
		len(plans[0].Matches) != 1 ||
		len(plans[1].Matches) != 3 ||
		plans[1].Strategy != resolve.Single {
		t.Errorf("plans = %+v", plans)
	}
}

// TestNumbersByLink checks that one link is used for many sites only if the program can get the number
// of its attach point from it.
func TestNumbersByLink(t *testing.T) {
	for _, c := range []struct {
		p    manifest.Program
		want bool
	}{
		{manifest.Program{}, true},
		{manifest.Program{UsesID: true}, false},
		{manifest.Program{UsesID: true, Code: &manifest.Code{Frame: manifest.MaxFrame - 8}}, true},
		{manifest.Program{UsesID: true, Code: &manifest.Code{Frame: manifest.MaxFrame - 7}}, false},
	} {
		if got := resolve.LinksNumber(&c.p); got != c.want {
			t.Errorf("LinksNumber(%+v) = %v", c.p, got)
		}
	}
}

func TestDynamicEvents(t *testing.T) {
	got := dynamicEvents("p:mine/sched_switch do_sys_open\nr1024:k/ret vfs_read\ns:synthetic/lat u64 x;\nu:events/user_e\n")
	for _, want := range []string{"mine/sched_switch", "k/ret", "synthetic/lat", "events/user_e"} {
		if !got[want] {
			t.Errorf("%s not found in %v", want, got)
		}
	}
}

// TestEventGroups checks that an event whose name another group has, or that a user made, is not the only one.
func TestEventGroups(t *testing.T) {
	dir := t.TempDir()
	for _, event := range []string{"sched/sched_switch", "mine/sched_switch", "irq/irq_entry", "kprobes/vfs_read"} {
		if err := os.MkdirAll(dir+"/events/"+event, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	g := eventGroups{read: true, dir: dir, names: []string{"sched", "mine", "irq", "kprobes"}, dynamic: dynamicEvents("p:kprobes/vfs_read vfs_read\n")}
	for _, c := range []struct {
		group, event string
		want         bool
	}{{"irq", "irq_entry", true}, {"sched", "sched_switch", false}, {"kprobes", "vfs_read", false}, {"irq", "nonexistent", true}} {
		if got := g.only(c.group, c.event); got != c.want {
			t.Errorf("%s:%s: %v", c.group, c.event, got)
		}
	}
	if none := (&eventGroups{read: true}); none.only("irq", "irq_entry") {
		t.Error("without tracefs an event is the only one")
	}
}

// TestSplitBorder checks the largest number of a system call that has a slot.
func TestSplitBorder(t *testing.T) {
	for nr, want := range map[int]resolve.Strategy{0: resolve.SharedRaw, rewrite.SyscallSlots - 1: resolve.SharedRaw, rewrite.SyscallSlots: resolve.Single} {
		plans := splitCalls([]resolve.Plan{{Prog: &manifest.Program{Kind: "tracepoint"}, Matches: []resolve.Match{{Group: "syscalls", Name: "sys_exit_x"}}}}, "sys_exit", map[string]int{"x": nr})
		if len(plans) != 1 || plans[0].Strategy != want {
			t.Errorf("number %d: %+v", nr, plans)
		}
	}
	raw := resolve.Plan{Prog: &manifest.Program{Kind: "tracepoint"}, Strategy: resolve.Raw, Matches: []resolve.Match{{Group: "syscalls", Name: "sys_exit_x"}}}
	if plans := splitCalls([]resolve.Plan{raw}, "sys_exit", map[string]int{"x": 1}); len(plans) != 1 || plans[0].Strategy != resolve.Raw {
		t.Errorf("a plan with another strategy: %+v", plans)
	}
}

// TestPreferRaw checks that either all programs of a tracepoint run from its raw tracepoint or none.
func TestPreferRaw(t *testing.T) {
	h := look(t)
	if !h.GuardsRawTracepoints() {
		t.Skip("skipped: this kernel does not guard raw tracepoints")
	}
	needTracepoints(t)
	rawCode, keeps := &manifest.Code{Raw: true}, &manifest.Code{}
	plan := func(code *manifest.Code, matches ...resolve.Match) resolve.Plan {
		return resolve.Plan{Prog: &manifest.Program{Kind: "tracepoint", Code: code}, Matches: matches}
	}
	sw, wake := resolve.Match{Group: "sched", Name: "sched_switch"}, resolve.Match{Group: "sched", Name: "sched_wakeup"}
	call := resolve.Match{Group: "syscalls", Name: "sys_enter_read"}
	describe := func(plans []resolve.Plan) string {
		var b strings.Builder
		for _, p := range plans {
			fmt.Fprintf(&b, "%d:", p.Strategy)
			for _, m := range p.Matches {
				b.WriteString(" " + m.Name)
			}
			b.WriteString("; ")
		}
		return b.String()
	}
	one, raw := fmt.Sprintf("%d:", resolve.Single), fmt.Sprintf("%d:", resolve.Raw)
	for _, c := range []struct {
		what  string
		plans []resolve.Plan
		want  string
	}{
		{"raw", []resolve.Plan{plan(rawCode, sw, wake)}, raw + " sched_switch sched_wakeup; "},
		{"keeps its own", []resolve.Plan{plan(keeps, sw)}, one + " sched_switch; "},
		{"an older object", []resolve.Plan{plan(nil, sw)}, one + " sched_switch; "},
		{"one of two keeps", []resolve.Plan{plan(rawCode, sw), plan(keeps, sw)}, one + " sched_switch; " + one + " sched_switch; "},
		{"of two sites one", []resolve.Plan{plan(rawCode, sw, wake), plan(keeps, sw)}, raw + " sched_wakeup; " + one + " sched_switch; " + one + " sched_switch; "},
		{"system calls have none", []resolve.Plan{plan(rawCode, call, wake)}, raw + " sched_wakeup; " + one + " sys_enter_read; "},
		{"another strategy", []resolve.Plan{plan(rawCode, sw), {Prog: &manifest.Program{Kind: "tracepoint"}, Strategy: resolve.SharedRaw, Matches: []resolve.Match{call}}}, raw + " sched_switch; " + fmt.Sprintf("%d:", resolve.SharedRaw) + " sys_enter_read; "},
	} {
		if got := describe(preferRaw(c.plans, h)); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}
