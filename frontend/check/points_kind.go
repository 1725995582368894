package check

import (
	"slices"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"

	"btc/loader/manifest"
)

// kernelKinds and userKinds are the kinds of probes that a pattern for the kind
// can stand for: those that fire at the beginning of something.
var (
	kernelKinds = []string{"fentry", "hardware", "iter", "kprobe", "rawtracepoint", "software", "tracepoint"}
	userKinds   = []string{"uprobe", "usdt"}
)

// kindPattern resolves an attach point with a pattern for the kind of probe,
// "*:vfs_read" or "k*:vfs_*": it stands for one of each kind in which the target
// has something of that name. What of it the host lacks is left out there, with
// a warning.
func (c *checker) kindPattern(ap *ast.AttachPoint, readsArgs bool) []*Point {
	pattern, rest := ap.Parts[0], ap.Parts[1:]
	if len(rest) == 0 { // "*sched*" looks for the name in all kinds
		rest = ap.Parts
		pattern.Text = "*"
	}
	kinds := kernelKinds
	if strings.Contains(rest[0].Text, "/") {
		kinds = userKinds
	}
	var points []*Point
	matched := false
	for _, kind := range kinds {
		if !globText(strings.ToLower(pattern.Text), kind) {
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

// kindHas tells whether the target has a probe of a kind and a name, given in
// parts. What only the host can tell counts.
func (c *checker) kindHas(kind string, parts []ast.AttachPart) bool {
	prov, n := providerNamed(kind), len(parts)
	last := parts[n-1].Text
	if kind == "tracepoint" && n == 1 {
		return parts[0].Wildcard && len(c.t.Tracepoints(last, "*")) > 0
	}
	if n < prov.Min || n > prov.Max {
		return false
	}
	switch kind {
	case "tracepoint":
		return len(c.t.Tracepoints(parts[0].Text, last)) > 0
	case "kprobe", "fentry":
		module := "vmlinux"
		if n > 1 {
			module = parts[0].Text
		}
		if module != "vmlinux" && c.kindHas("tracepoint", parts) {
			return false // a category is meant
		}
		return module != "vmlinux" || len(c.typedMembers(&Point{Kind: kind, Attach: manifest.Attach{Name: last}})) > 0
	case "rawtracepoint":
		if n > 1 && c.kindHas("tracepoint", parts) {
			return false
		}
		return len(c.t.RawTracepoints(last)) > 0
	case "software":
		return slices.Contains(SoftwareEvents(), parts[0].Text)
	case "hardware":
		return slices.Contains(HardwareEvents(), parts[0].Text)
	case "iter":
		_, ok := c.t.Iter(parts[0].Text)
		return ok
	}
	return true
}

// globText tells whether a text fits a pattern in which "*" stands for any text.
func globText(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	rest, ok := strings.CutPrefix(text, parts[0])
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, p)
		if i < 0 {
			return false
		}
		rest = rest[i+len(p):]
	}
	return ok && strings.HasSuffix(rest, parts[len(parts)-1])
}
