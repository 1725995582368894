// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/internal/spell"
)

// Lists reports whether List lists a kind of probe. The attach points of others depend on the host's files.
func Lists(kind string) bool {
	t := probe.Find(kind)
	return t.Listed && t.Space != probe.UserSpace
}

// List returns the attach points of one kind that match the rest of a pattern ("tcp_*" of "kprobe:tcp_*"), sorted.
// No match is not an error.
func List(k Kernel, kind, rest string) (out []string, err error) {
	first, second, both := strings.Cut(rest, ":")
	var names []string // those of the kind
	end := ""          // of each
	switch kind {
	case probe.Kprobe, probe.Kretprobe:
		out, err = listFunctions(k, Pattern(kind, rest))
	case probe.Software, probe.Hardware: // those of the language; a virtual machine may have no hardware ones
		names, end = probe.EventNames(kind), ":"
	case probe.Profile, probe.Interval:
		names, end = probe.Units(), ":"
	case probe.Self:
		if !both || probe.Glob(second, probe.OwnSignals) {
			names, end = []string{"signal"}, ":"+probe.OwnSignals
		}
	case probe.Iter:
		names, err = k.Iterators()
	default:
		p := Pattern(kind, rest)
		if !both && kind != probe.RawTracepoint {
			p.Attach.Target = "*" // the name is searched in all categories or modules, which are shown
		}
		out, err = ListMatches(k, p)
	}
	for _, n := range names {
		if first == "" || probe.Glob(first, n) {
			out = append(out, kind+":"+n+end)
		}
	}
	if IsMissing(err) {
		err = nil
	}
	slices.Sort(out)
	return slices.Compact(out), err
}

// Nearest returns the attach point whose name is the most like a misspelt one ("tracepoint:sched:sched_swich"), or "".
// Its name begins with the same letters.
func Nearest(k Kernel, kind, rest string) string {
	i := strings.LastIndexByte(rest, ':') + 1
	name := rest[i:]
	if probe.Find(kind) == nil || !Lists(kind) || probe.IsPattern(rest) || len(name) < 3 || strings.Count(rest, ":") > 1 {
		return ""
	}
	pattern := name[:3] + "*"
	if i > 0 {
		pattern = "*:" + pattern
	}
	points, err := List(k, kind, pattern)
	if err != nil {
		return ""
	}
	whole := map[string]string{} // by name; the one of the same category or module, or the first
	for _, p := range points {
		last := p[strings.LastIndexByte(p, ':')+1:]
		if whole[last] == "" || i > 0 && strings.HasPrefix(p, kind+":"+rest[:i]) {
			whole[last] = p
		}
	}
	return whole[spell.Nearest(name, slices.Sorted(maps.Keys(whole)))]
}

// Pattern returns a program for ListMatches: its attach point is a pattern of one or two parts.
func Pattern(kind, rest string) *manifest.Program {
	p := &manifest.Program{Kind: kind}
	p.Attach.Text = kind + ":" + rest
	i := strings.LastIndexByte(rest, ':')
	p.Attach.Name = rest[i+1:]
	p.Attach.Target, _, _ = strings.Cut(rest[:i+1], ":")
	return p
}

// ListMatches returns what attaching a program would match.
func ListMatches(k Kernel, p *manifest.Program) (out []string, err error) {
	plan, err := One(k, p)
	for i := range plan.Matches {
		out = append(out, plan.Matches[i].Text)
	}
	return out, err
}

// listFunctions lists traceable functions, by name only or with their module.
func listFunctions(k Kernel, p *manifest.Program) (out []string, err error) {
	err = k.CheckKprobes(p)
	var gone *Missing
	if errors.As(err, &gone) && gone.Why != "" { // it says why no function matches
		err = errors.New(gone.Why)
	}
	if err != nil {
		return nil, err
	}
	functions, err := k.Functions()
	for _, f := range Matching(functions, &p.Attach) {
		if p.Attach.Target != "" {
			f.Name = f.Module + ":" + f.Name
		}
		out = append(out, p.Kind+":"+f.Name)
	}
	return out, err
}
