// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/internal/manifest"
	"btc/internal/probe"
)

// kindPattern resolves an attach point with a pattern for the kind of probe, "*:vfs_read" or "k*:vfs_*": one for each
// kind in which the target has a matching name. Names that the host lacks are skipped there, with a warning.
func (c *checker) kindPattern(ap *ast.AttachPoint, readsArgs bool) []*Point {
	pattern, rest := ap.Parts[0], ap.Parts[1:]
	if len(rest) == 0 { // "*sched*" searches for the name in all kinds
		rest = ap.Parts
		pattern.Text = "*"
	}
	user := strings.Contains(rest[0].Text, "/")
	var kinds []string
	for _, t := range probe.Types() {
		if t.Searched && user == (t.Space == probe.UserSpace) {
			kinds = append(kinds, t.Kind)
		}
	}
	slices.Sort(kinds)
	var points []*Point
	matched := false
	for _, kind := range kinds {
		if !probe.Glob(strings.ToLower(pattern.Text), kind) {
			continue
		}
		matched = true
		one := *ap
		one.Provider = kind
		one.Parts = append([]ast.AttachPart{pattern}, rest...)
		if !c.kindHas(kind, rest) {
			continue
		}
		for _, p := range c.points(&one, readsArgs) {
			if p.Missing != "ignore" {
				p.Missing = "warn"
			}
			points = append(points, p)
		}
	}
	switch {
	case !matched:
		c.fail(diag.BadProbeType, ap.Parts[0], "No probe type matched for %s", pattern.Text)
	case len(points) == 0:
		c.fail(diag.BadAttachPoint, ap, "the target's kernel has nothing that %s matches", ap.Raw)
	}
	return points
}

// kindHas reports whether the target has a probe of a kind with a name, given in parts. It is true for names that
// only the host knows.
func (c *checker) kindHas(kind string, parts []ast.AttachPart) bool {
	t, n := probe.Lookup(kind), len(parts)
	last := parts[n-1].Text
	if kind == probe.Tracepoint && n == 1 {
		return parts[0].Wildcard && len(c.t.Tracepoints(last, "*")) > 0
	}
	if n < t.Min || n > t.Max {
		return false
	}
	switch kind {
	case probe.Tracepoint:
		return len(c.t.Tracepoints(parts[0].Text, last)) > 0
	case probe.Kprobe, probe.Fentry:
		module := "vmlinux"
		if n > 1 {
			module = parts[0].Text
		}
		if module != "vmlinux" && c.kindHas(probe.Tracepoint, parts) {
			return false // a category is expected
		}
		return module != "vmlinux" || len(c.typedMembers(&Point{Kind: kind, Attach: manifest.Attach{Name: last}})) > 0
	case probe.RawTracepoint:
		if n > 1 && c.kindHas(probe.Tracepoint, parts) {
			return false
		}
		return len(c.t.RawTracepoints(last)) > 0
	case probe.Software, probe.Hardware:
		_, ok := probe.FindEvent(kind, parts[0].Text)
		return ok
	case probe.Iter:
		_, ok := c.t.Iter(parts[0].Text)
		return ok
	}
	return true
}
