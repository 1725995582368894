// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"testing"

	"btc/internal/manifest"
)

// Programs that cannot take a record for their context, and those of few
// tracepoints, keep the kernel's.
func TestWorthSharing(t *testing.T) {
	shares, keeps := &manifest.Code{Share: true}, &manifest.Code{}
	many := make([]Match, sharedFrom)
	for i := range many {
		many[i] = Match{Group: "syscalls", Name: "sys_enter_x"}
	}
	one := []Match{{Group: "syscalls", Name: "sys_enter_read"}}
	exits := []Match{{Group: "syscalls", Name: "sys_exit_read"}}
	for _, c := range []struct {
		name    string
		code    []*manifest.Code
		matches [][]Match
		want    bool
	}{
		{"many", []*manifest.Code{shares}, [][]Match{many}, true},
		{"one", []*manifest.Code{shares}, [][]Match{one}, false},
		{"many and one", []*manifest.Code{shares, shares}, [][]Match{many, one}, true},
		{"many that keep theirs", []*manifest.Code{keeps}, [][]Match{many}, false},
		{"many and one that keeps its own", []*manifest.Code{shares, keeps}, [][]Match{many, one}, false},
		{"many and an exit that keeps its own", []*manifest.Code{shares, keeps}, [][]Match{many, exits}, true},
		{"many of an older object", []*manifest.Code{nil}, [][]Match{many}, false},
	} {
		var plans []Plan
		for i, code := range c.code {
			plans = append(plans, Plan{Prog: &manifest.Program{Kind: "tracepoint", Code: code}, Matches: c.matches[i]})
		}
		if got := worthSharing(plans, "sys_enter"); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	var plans []Plan
	for range sharedPrograms + 1 {
		plans = append(plans, Plan{Prog: &manifest.Program{Kind: "tracepoint", Code: shares}, Matches: many})
	}
	if worthSharing(plans, "sys_enter") {
		t.Error("too many programs share a raw tracepoint")
	}
}

// What has no number in our table keeps a tracepoint of its own, as does the
// other direction.
func TestSplitCalls(t *testing.T) {
	plans := splitCalls([]Plan{{Prog: &manifest.Program{Kind: "tracepoint"}, Matches: []Match{
		{Group: "syscalls", Name: "sys_enter_read"}, {Group: "syscalls", Name: "sys_enter_newest"}, {Group: "syscalls", Name: "sys_exit_read"}, {Group: "sched", Name: "x"}}}},
		"sys_enter", map[string]int{"read": 0})
	if len(plans) != 2 || plans[0].Direction != "sys_enter" || plans[0].Strategy != SharedRaw || len(plans[0].Matches) != 1 || len(plans[1].Matches) != 3 || plans[1].Strategy != Single {
		t.Errorf("got %+v", plans)
	}
}

// One link holds many places only where the program can ask it for its number.
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
		if got := numbersByLink(&c.p); got != c.want {
			t.Errorf("%+v: %v", c.p, got)
		}
	}
}

func TestDynamicEvents(t *testing.T) {
	got := dynamicEvents("p:mine/sched_switch do_sys_open\nr1024:k/ret vfs_read\ns:synthetic/lat u64 x;\nu:events/user_e\n")
	for _, want := range []string{"mine/sched_switch", "k/ret", "synthetic/lat", "events/user_e"} {
		if !got[want] {
			t.Errorf("no %s in %v", want, got)
		}
	}
}
