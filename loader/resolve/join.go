// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"fmt"
	"slices"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/diag"
)

// The kernel runs at most 64 programs at a tracepoint (BPF_TRACE_MAX_PROGS), and 36 (7.2) to 40 (5.10) at the
// entry and exit of a function together (BPF_MAX_TRAMP_LINKS, and the page that the trampoline has to fit in).
// Others have no limit: raw tracepoints are called one by one, and each kprobe, uprobe, counter or timer has an
// event of its own. Where a script has more clauses on one attach point, the loader joins them: one program calls
// several clauses, in the order of the script. Each clause stays a function of its own, with its own frame,
// predicate, return and counters.
//
// Clauses are joined where the limit would be met, and from manyClauses on because an event becomes cheaper: a
// program at a tracepoint costs about 45 ns more than a call (docs/targets.md). Below that, each keeps its own
// program, whose statistics tools show.
const (
	maxTracepoint = 64
	maxTrampoline = 32
	// manyClauses is the number of clauses on one site above which they are joined, and the number of those that a
	// program calls unless the limit requires more.
	manyClauses = 8
)

// JoinFrame is the largest frame of a clause that can be joined: the program that calls it needs 32 of the 512
// bytes of stack that the kernel permits.
const JoinFrame = manifest.MaxFrame - 32

// siteLimit returns the number of programs that the kernel runs at one attach site of a plan, and a name of the site
// that is the same for all plans that share it; 0 if there is no limit.
func siteLimit(p *Plan, m *Match) (limit int, site string) {
	switch {
	case p.Prog.Kind == probe.Tracepoint && p.Strategy == Single:
		return maxTracepoint, "tracepoint:" + m.Group + ":" + m.Name
	case (p.Prog.Kind == probe.Fentry || p.Prog.Kind == probe.Fexit) && m.BPF == 0:
		return maxTrampoline, "function " + m.Group + ":" + m.Name
	}
	return 0, ""
}

// Join joins the plans of clauses where more share an attach site than the kernel accepts. With separate set, or
// where that is not enough, it returns an error.
func Join(m *manifest.Manifest, plans []Plan, separate bool) ([]Plan, *diag.Error) {
	size := manyClauses
	if separate {
		size = 1
	}
	for ; ; size *= 2 {
		out := joined(plans, size)
		site, limit, over := overfull(out)
		switch {
		case over == nil:
			return out, nil
		case separate || size > manifest.MaxPrograms:
			why := "they cannot be joined in fewer programs, because their frames are too large or clauses with other attach sites are between them"
			if separate {
				why = "with --budget, each clause is a program of its own"
			}
			return nil, &diag.Error{Script: &m.Script, Pos: over.Prog.Pos,
				Text:  fmt.Sprintf("too many clauses on %s: the kernel runs at most %d programs there", site, limit),
				Notes: []string{why}}
		}
	}
}

// overfull returns the first plan that exceeds the limit of one of its sites.
func overfull(plans []Plan) (site string, limit int, over *Plan) {
	n := map[string]int{}
	for i := range plans {
		for j := range plans[i].Matches {
			limit, site := siteLimit(&plans[i], &plans[i].Matches[j])
			if site == "" {
				break
			}
			if n[site]++; n[site] > limit {
				return site, limit, &plans[i]
			}
		}
	}
	return "", 0, nil
}

// joined joins up to size plans each, at the sites where their number is above manyClauses, or above the limit for
// more than that.
func joined(plans []Plan, size int) []Plan {
	if size == 1 {
		return plans
	}
	n := map[string]int{}
	for i := range plans {
		for j := range plans[i].Matches {
			if _, site := siteLimit(&plans[i], &plans[i].Matches[j]); site != "" {
				n[site]++
			}
		}
	}
	full := func(p *Plan) bool {
		return slices.ContainsFunc(p.Matches, func(m Match) bool {
			limit, site := siteLimit(p, &m)
			if size == manyClauses {
				limit = manyClauses
			}
			return site != "" && n[site] > limit
		})
	}
	var out []Plan
	last := map[string]int{} // by site and kind, because entries and exits run at different times: the plan in out that has its last clause
	for i := range plans {
		p := plans[i]
		at := -1
		if full(&p) {
			at = before(out, last, &p, size)
		}
		if at < 0 {
			at = len(out)
			out = append(out, p)
		} else {
			out[at].Joined = append(slices.Clip(out[at].Joined), p)
		}
		for j := range p.Matches {
			if _, site := siteLimit(&p, &p.Matches[j]); site != "" {
				last[p.Prog.Kind+" "+site] = at
			}
		}
	}
	return out
}

// before returns the plan in out that a clause can join: one with the same sites, without a clause in between at
// any of them; -1 if there is none.
func before(out []Plan, last map[string]int, p *Plan, size int) int {
	if !joinable(p) {
		return -1
	}
	_, site := siteLimit(p, &p.Matches[0])
	at, ok := last[p.Prog.Kind+" "+site]
	if !ok || 1+len(out[at].Joined) >= size {
		return -1
	}
	first := &out[at]
	if !joinable(first) || first.Strategy != p.Strategy ||
		first.Filtered != p.Filtered || len(first.Matches) != len(p.Matches) {
		return -1
	}
	for i := range p.Matches {
		_, a := siteLimit(first, &first.Matches[i])
		_, b := siteLimit(p, &p.Matches[i])
		if a != b || last[p.Prog.Kind+" "+b] != at || first.Matches[i].PID != p.Matches[i].PID {
			return -1
		}
	}
	return at
}

// Apart returns the plans of the clauses of a plan, which are not joined.
func (p *Plan) Apart() []Plan {
	all := append([]Plan{*p}, p.Joined...)
	all[0].Joined = nil
	return all
}

// joinable reports whether a program can be called by another one.
func joinable(p *Plan) bool {
	return len(p.Matches) > 0 && p.Prog.Code != nil && p.Prog.Code.Frame <= JoinFrame
}
