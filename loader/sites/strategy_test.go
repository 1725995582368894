// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"testing"

	"btc/internal/manifest"
	"btc/loader/resolve"
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
