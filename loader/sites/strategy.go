// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"os"
	"strings"

	"github.com/cilium/ebpf"

	"btc/internal/arch"
	"btc/internal/kernelfs"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/internal/safefile"
	"btc/loader/host"
	"btc/loader/resolve"
	"btc/loader/rewrite"
)

// choose uses one link for the attach sites of a uprobe, even if there is only one: a perf event requires
// CAP_SYS_ADMIN, the link only CAP_PERFMON.
func (x *expander) choose(p *manifest.Program, plan *resolve.Plan) {
	n := len(plan.Matches)
	if n > 0 && resolve.LinksNumber(p) && (n > 1 || len(host.Missing("CAP_SYS_ADMIN")) > 0) && x.host.UprobeMulti() {
		plan.Strategy, plan.AttachType = resolve.Multi, ebpf.AttachTraceUprobeMulti
	}
}

// Programs of many system call tracepoints run from one raw tracepoint.
//
// When a tracepoint's perf event is closed, the kernel waits for a grace period, tens of milliseconds, one after the
// other: 360 take more than ten seconds to detach. All of these tracepoints are based on two raw tracepoints,
// sys_enter and sys_exit, whose links close at once.

const (
	// sharedFrom is the number of tracepoints of one program from which sharing is worthwhile.
	sharedFrom = 9
	// sharedPrograms is the maximum number of programs that share a raw tracepoint, because each runs at every system
	// call.
	sharedPrograms = 16
)

// shareSyscalls changes the plans of system call tracepoints to use one link for all matches, where that is
// worthwhile and equivalent. Matches whose system call number is not known follow in a separate plan.
func shareSyscalls(plans []resolve.Plan) []resolve.Plan {
	here := arch.Host()
	if here == nil || here.SyscallRegs == nil {
		return plans
	}
	numbers := here.SyscallEvents()
	for _, direction := range []string{"sys_enter", "sys_exit"} {
		if worthSharing(plans, direction) {
			plans = splitCalls(plans, direction, numbers)
		}
	}
	return plans
}

// worthSharing reports whether the programs of sys_enter or sys_exit should share the raw tracepoint. Either all of
// them share or none, because programs of two kinds would not run in the order of the script.
func worthSharing(plans []resolve.Plan, direction string) bool {
	most, programs := 0, 0
	for i := range plans {
		p := &plans[i]
		matches := syscallMatches(p, direction)
		if matches == 0 {
			continue
		}
		if p.Prog.Code == nil || !p.Prog.Code.Share {
			return false
		}
		most = max(most, matches)
		programs++
	}
	return most >= sharedFrom && programs <= sharedPrograms
}

func syscallMatches(p *resolve.Plan, direction string) int {
	n := 0
	for i := range p.Matches {
		if m := &p.Matches[i]; p.Prog.Kind == probe.Tracepoint && m.Group == "syscalls" &&
			strings.HasPrefix(m.Name, direction+"_") {
			n++
		}
	}
	return n
}

// splitCalls moves the matches of one direction with known system call numbers to separate plans.
func splitCalls(plans []resolve.Plan, direction string, numbers map[string]int) []resolve.Plan {
	var out []resolve.Plan
	for _, p := range plans {
		if p.Strategy != resolve.Single || syscallMatches(&p, direction) == 0 {
			out = append(out, p)
			continue
		}
		known, rest := p, p
		known.Matches, rest.Matches = nil, nil
		for _, m := range p.Matches {
			call, ok := strings.CutPrefix(m.Name, direction+"_")
			if nr, has := numbers[call]; m.Group == "syscalls" && ok && has && nr < rewrite.SyscallSlots {
				known.Matches = append(known.Matches, m)
			} else {
				rest.Matches = append(rest.Matches, m)
			}
		}
		if len(known.Matches) > 0 {
			known.Strategy, known.Direction = resolve.SharedRaw, direction
			out = append(out, known)
		}
		if len(rest.Matches) > 0 {
			out = append(out, rest)
		}
	}
	return out
}

// Programs of tracepoints that do not read the tracepoint's record run from the underlying raw tracepoint.
//
// When a tracepoint's perf event is closed, the kernel waits for two grace periods, together tens of milliseconds, and
// holds a lock in the meantime, so that threads do not help. Links of raw tracepoints close at once, and an event does
// not pay for a record that is not read. The script sees no difference except in stacks, whose top frames differ:
// programs that use the context keep the tracepoint.

// notRaw are the groups of tracepoints without a raw tracepoint of the same name, and the group of locks: those fire
// while the kernel holds the locks of maps and of the ring buffer, where only the count of running programs, which
// does not cover raw tracepoints, prevents programs from running.
var notRaw = map[string]bool{"syscalls": true, "ftrace": true, "lock": true, "preemptirq": true}

// preferRaw changes the plans of tracepoints whose programs can run from raw tracepoints. Either all programs of an
// event do or none, because programs of two kinds would not run in the order of the script.
func preferRaw(plans []resolve.Plan, h *host.Host) []resolve.Plan {
	tracepoint := func(p *resolve.Plan) bool { return p.Prog.Kind == probe.Tracepoint && p.Strategy == resolve.Single }
	raw := func(p *resolve.Plan) bool { return p.Prog.Code != nil && p.Prog.Code.Raw }
	wanted := false
	keep := map[string]bool{} // group:event
	for i := range plans {
		p := &plans[i]
		if !tracepoint(p) {
			continue
		}
		wanted = wanted || raw(p)
		for j := range p.Matches {
			if !raw(p) {
				keep[p.Matches[j].Group+":"+p.Matches[j].Name] = true
			}
		}
	}
	if !wanted || !h.GuardsRawTracepoints() {
		return plans
	}
	var groups eventGroups
	var out []resolve.Plan
	for _, p := range plans {
		if !tracepoint(&p) {
			out = append(out, p)
			continue
		}
		ofRaw, rest := p, p
		ofRaw.Matches, rest.Matches, ofRaw.Strategy = nil, nil, resolve.Raw
		for _, m := range p.Matches {
			if notRaw[m.Group] || keep[m.Group+":"+m.Name] || !groups.only(m.Group, m.Name) {
				rest.Matches = append(rest.Matches, m)
			} else {
				ofRaw.Matches = append(ofRaw.Matches, m)
			}
		}
		for _, part := range []resolve.Plan{ofRaw, rest} {
			if len(part.Matches) > 0 {
				out = append(out, part)
			}
		}
	}
	return out
}

// eventGroups caches which groups of tracefs have events of a name. The kernel finds raw tracepoints by name only.
type eventGroups struct {
	dir     string
	names   []string        // groups
	dynamic map[string]bool // group/event of events created by users
	read    bool
}

// only reports whether an event is defined by the kernel or a module and is the only one with its name.
func (g *eventGroups) only(group, event string) bool {
	if !g.read {
		g.look()
	}
	if g.dynamic[group+"/"+event] {
		return false
	}
	for _, other := range g.names {
		if other == group {
			continue
		}
		if _, err := os.Stat(g.dir + "/events/" + other + "/" + event); err == nil {
			return false
		}
	}
	return len(g.names) > 0
}

func (g *eventGroups) look() {
	g.read = true
	dir, err := kernelfs.Tracefs()
	if err != nil {
		return
	}
	all, err := safefile.Entries(dir + "/events")
	if err != nil {
		return
	}
	text, _ := os.ReadFile(dir + "/dynamic_events") // since 5.0; without it no event is known to be dynamic
	g.dir, g.dynamic = dir, dynamicEvents(string(text))
	for _, e := range all {
		if e.IsDir() {
			g.names = append(g.names, e.Name())
		}
	}
}

// dynamicEvents reads lines such as "p:group/event function" and "s:synthetic/event int x".
func dynamicEvents(text string) map[string]bool {
	made := map[string]bool{}
	for line := range strings.Lines(text) {
		first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		_, name, _ := strings.Cut(first, ":")
		made[name] = true
	}
	return made
}
