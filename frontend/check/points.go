// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/internal/spell"
)

// points resolves an attach point; the result is empty on error. Tracepoint patterns are expanded if the clause reads
// args, because each event has its own fields.
func (c *checker) points(ap *ast.AttachPoint, readsArgs bool) []*Point {
	t := probe.Lookup(ap.Provider)
	if i := slices.IndexFunc(ap.Parts, func(p ast.AttachPart) bool { return len(p.Params) > 0 }); i >= 0 {
		return c.filled(ap, t, ap.Parts[i], readsArgs)
	}
	switch {
	case t == nil && len(ap.Parts) > 0 && ap.Parts[0].Wildcard:
		return c.kindPattern(ap, readsArgs)
	case t == nil:
		return nil // the parser has reported an unknown probe type
	}
	p := c.newPoint(ap, t)
	parts := ap.Parts[1:]
	if t.Form == probe.UserCode && len(parts) == 2 && parts[1].Location {
		return c.sourceLine(p, ap, parts)
	}
	if !c.parse(p, ap) {
		return nil
	}
	switch t.Form {
	case probe.Named:
		if !c.uniqueName(p, ap) {
			return nil
		}
	case probe.Function:
		c.kprobe(p, parts[len(parts)-1])
	case probe.Typed:
		return c.typedPoints(p, ap, readsArgs)
	case probe.UserCode:
		return c.uprobes(p, ap, readsArgs)
	case probe.Event:
		return c.tracepoints(p, ap, readsArgs)
	case probe.Iterator:
		if !c.iter(p, parts[0]) {
			return nil
		}
	}
	return []*Point{p}
}

func (c *checker) newPoint(ap *ast.AttachPoint, t *probe.Type) *Point {
	p := &Point{Kind: t.Kind, Type: t, Attach: manifest.Attach{Missing: c.info.Config.Missing}, At: ap.At}
	if ap.Label != nil {
		p.Label = ap.Label.Text
	}
	return p
}

// parse reads the parts of an attach point into p.
func (c *checker) parse(p *Point, ap *ast.AttachPoint) bool {
	var parts []probe.Part
	for _, part := range ap.Parts[1:] {
		parts = append(parts, part.Part)
	}
	point, err := p.Type.Parse(parts)
	if err == nil {
		p.Attach.Set(p.Type, &point)
		p.Pattern = point.Pattern
		return true
	}
	at := ast.Node(ap)
	if err.Part >= 0 {
		at = ap.Parts[1+err.Part]
	}
	d := c.fail(diag.BadAttachPoint, at, "%s", err.Text)
	for _, hint := range err.Hints {
		d.Hint("%s", hint)
	}
	if p.Type.Form == probe.Counter && err.Part == 0 && !parts[0].Wildcard {
		suggest(d, parts[0].Text, "", probe.EventNames(p.Kind))
	}
	return false
}

// filled checks an attach point with parameters, whose values the loader inserts. Where a value decides how the
// clause is compiled, it is required now.
func (c *checker) filled(ap *ast.AttachPoint, t *probe.Type, first ast.AttachPart, readsArgs bool) []*Point {
	quoted := slices.ContainsFunc(ap.Parts, func(p ast.AttachPart) bool { return p.Quoted && len(p.Params) > 0 })
	location := slices.ContainsFunc(ap.Parts, func(p ast.AttachPart) bool { return p.Location })
	if t == nil || !t.Parameters || readsArgs || quoted || location {
		for _, part := range ap.Parts {
			for _, n := range part.Params {
				c.needsValue(n)
			}
		}
		d := c.fail(diag.NotConstant, first, "the value of this parameter must be known to compile the clause")
		if readsArgs {
			d.Hint("the fields of args depend on the event or function")
		}
		d.Hint("%s", giveValue)
		return nil
	}
	n := len(ap.Parts) - 1
	if n > t.Max {
		c.fail(diag.BadAttachPoint, ap, "%s probe type requires at most %d arguments, found %d", t.Kind, t.Max, n)
		return nil
	}
	p := c.newPoint(ap, t)
	p.Text = t.Kind
	for _, part := range ap.Parts[1:] {
		p.Substitute = append(p.Substitute, part.Text)
		p.Text += ":" + part.Text
		p.Pattern = p.Pattern || part.Wildcard
	}
	if t.Form == probe.Event && len(ap.Parts[1].Params) == 0 {
		p.Target = ap.Parts[1].Text
	}
	return []*Point{p}
}

const giveValue = "give its value when compiling: btc compile SCRIPT -- VALUE"

func (c *checker) needsValue(n int) {
	if c.info.NeedsValue == nil {
		c.info.NeedsValue = map[int]bool{}
	}
	c.info.NeedsValue[n] = true
}

// name updates the full name after a change to a part.
func (p *Point) name() { p.Text = p.Type.Text(p.Attach.Point()) }

// kprobe records that probing an address is dangerous, and warns about a function that the target does not have.
func (c *checker) kprobe(p *Point, fn ast.AttachPart) {
	if p.Addr != 0 {
		c.info.Unsafe = append(c.info.Unsafe, Use{"kprobe-address", fn.At})
	}
	if p.Name != "" && !p.Pattern && (p.Target == "" || p.Target == "vmlinux") && !c.t.HasFunc(p.Name) &&
		!c.t.HasFunc(c.alias(p.Name)) {
		d := c.absent(p, fn,
			"%s is not traceable (either non-existing, inlined, or marked as \"notrace\"); attaching to it will likely fail",
			p.Name)
		d.Hint("in the target's kernel; the host may differ")
		c.similar(d, p.Name, c.t.Funcs)
	}
}

// alias returns the other name of a function of a system call without arguments; "" for other functions. The kernel
// lists one of the two names and accepts both.
func (c *checker) alias(name string) string {
	if call, ok := strings.CutPrefix(c.t.Arch().SyscallFunc(name), c.t.Arch().SyscallPrefix); ok {
		return "__do_sys_" + call
	}
	return ""
}

// absent warns about an attach point that the target does not have, unless missing_probes is ignore.
func (c *checker) absent(p *Point, at ast.Node, format string, args ...any) *diag.Diagnostic {
	if p.Missing == "ignore" {
		return &diag.Diagnostic{}
	}
	return c.fail(diag.NotInTarget, at, format, args...)
}

// similar adds a "did you mean" hint with the nearest of the names that share a prefix.
func (c *checker) similar(d *diag.Diagnostic, name string, list func(string) []string) {
	if !c.guess() {
		return
	}
	head := name[:min(len(name), 4)]
	if near := spell.Nearest(name, list(head+"*")); near != "" && near != name {
		d.Hint("did you mean %s?", near)
	}
}

// tracepoints resolves "tracepoint:category:event".
func (c *checker) tracepoints(p *Point, ap *ast.AttachPoint, readsArgs bool) []*Point {
	if !p.Pattern {
		if _, ok := c.t.Tracepoint(p.Target, p.Name); !ok {
			d := c.absent(p, ap,
				"tracepoint %s:%s does not exist in the target's kernel; resolved on the host at load time", p.Target,
				p.Name)
			c.similar(d, p.Target+":"+p.Name,
				func(string) []string { return c.t.Tracepoints("*", p.Name[:min(len(p.Name), 3)]+"*") })
		}
		return []*Point{p}
	}
	all := c.t.Tracepoints(p.Target, p.Name)
	if len(all) == 0 {
		c.absent(p, ap, "no tracepoint of the target's kernel matches %s:%s; resolved on the host at load time",
			p.Target, p.Name)
	}
	if !readsArgs || len(all) > 0 && p.syscallExits() {
		return []*Point{p}
	}
	if c.tooMany(ap, len(all)) {
		return nil
	}
	var points []*Point
	for _, name := range all {
		one := *p
		one.Target, one.Name, _ = strings.Cut(name, ":")
		one.Pattern = false
		one.Missing = "ignore" // the host may lack a match of the pattern
		one.name()
		points = append(points, &one)
	}
	return points
}

// syscallExits reports whether p is a pattern of system call exits, which all have the same arguments.
func (p *Point) syscallExits() bool {
	return p.Kind == probe.Tracepoint && p.Pattern && p.Target == "syscalls" && strings.HasPrefix(p.Name, "sys_exit_")
}

// uniqueName reports a second test or benchmark with the same name.
func (c *checker) uniqueName(p *Point, ap *ast.AttachPoint) bool {
	for _, other := range c.info.Programs {
		if other.Point.Kind == p.Kind && other.Point.Name == p.Name {
			c.fail(diag.BadAttachPoint, ap, "%q was used as the name for more than one %s probe", p.Name, strings.ToUpper(p.Kind)).
				Note(other.Point.At, "this is the other instance")
			return false
		}
	}
	return true
}

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
