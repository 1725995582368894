package check

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/ir/target"
)

// points resolves an attach point; one that is in error gives none. Tracepoint
// patterns are expanded when the clause reads args: each event has fields of
// its own.
func (c *checker) points(ap *ast.AttachPoint, readsArgs bool) []*Point {
	for _, part := range ap.Parts {
		if len(part.Params) > 0 {
			c.unsupported(part, "a parameter in an attach point").
				Hint("parameters are given at load time, but attach points are fixed when the script is compiled")
			return nil
		}
	}
	prov := providerNamed(ap.Provider)
	switch {
	case prov == nil:
		if len(ap.Parts) > 0 && ap.Parts[0].Wildcard {
			c.unsupported(ap.Parts[0], "a pattern for the kind of probe")
		}
		return nil // the parser has reported an unknown one
	case !prov.Supported:
		c.unsupported(ap, "%s probes", prov.Name)
		return nil
	}
	n := len(ap.Parts) - 1
	if all := prov.Name == "tracepoint" && n == 1 && ap.Parts[1].Wildcard; n < prov.Min && !all || n > prov.Max {
		return nil // reported by the parser
	}
	p := &Point{Kind: prov.Name, Provider: prov, Missing: c.info.Config.Missing, At: ap.At}
	if ap.Label != nil {
		p.Label = ap.Label.Text
	}
	parts := ap.Parts[1:]
	ok := true
	switch prov.Name {
	case "begin", "end", "self":
	case "kprobe", "kretprobe":
		ok = c.kprobe(p, parts)
	case "fentry", "fexit", "rawtracepoint":
		return c.typedPoints(p, ap, readsArgs)
	case "uprobe", "uretprobe":
		ok = c.uprobe(p, ap, parts)
	case "usdt":
		ok = c.usdt(p, ap, parts)
	case "tracepoint":
		return c.tracepoints(p, ap, readsArgs)
	case "profile", "interval":
		ok = c.timer(p, ap, parts)
	case "software", "hardware":
		ok = c.counter(p, parts)
	case "watchpoint":
		ok = c.watchpoint(p, parts)
	case "iter":
		ok = c.iter(p, ap, parts)
	}
	if !ok {
		return nil
	}
	p.finish()
	return []*Point{p}
}

// finish makes the full name.
func (p *Point) finish() {
	text := []string{p.Kind}
	switch p.Kind {
	case "profile", "interval":
		text = append(text, p.Unit, strconv.FormatUint(p.Count, 10))
	case "software", "hardware":
		text = append(text, p.Target, strconv.FormatUint(p.Count, 10))
	case "watchpoint":
		text = append(text, "0x"+strconv.FormatUint(p.Addr, 16), strconv.Itoa(p.Len), p.Mode)
	default:
		name := p.Name
		if p.Offset > 0 {
			name += "+" + strconv.FormatUint(p.Offset, 10)
		}
		if name == "" && p.Addr > 0 {
			name = "0x" + strconv.FormatUint(p.Addr, 16)
		}
		for _, s := range []string{p.Target, p.Lang, name} {
			if s != "" {
				text = append(text, s)
			}
		}
	}
	p.Text = strings.Join(text, ":")
}

// function reads "name", "name+offset" or an address into p.
func (c *checker) function(p *Point, part ast.AttachPart) bool {
	name, offset, plus := strings.Cut(part.Text, "+")
	if part.Quoted {
		name, offset, plus = part.Text, "", false
		if i := strings.LastIndexByte(part.Text, '+'); i >= 0 && isNumber(part.Text[i+1:]) {
			name, offset, plus = part.Text[:i], part.Text[i+1:], true
		}
	}
	name, offset = strings.TrimSpace(name), strings.TrimSpace(offset)
	if plus {
		n, err := strconv.ParseUint(offset, 0, 32)
		if err != nil {
			c.fail(diag.BadAttachPoint, part, "Invalid offset")
			return false
		}
		if strings.HasSuffix(p.Kind, "retprobe") {
			c.fail(diag.BadAttachPoint, part, "Offset not allowed")
			return false
		}
		p.Offset = n
	}
	if addr, err := strconv.ParseUint(name, 0, 64); err == nil && !part.Quoted {
		if plus {
			c.fail(diag.BadAttachPoint, part, "Offset not allowed")
			return false
		}
		if addr == 0 {
			c.fail(diag.BadAttachPoint, part, "the address of a probe cannot be 0")
			return false
		}
		p.Addr = addr
		return true
	}
	if name == "" {
		c.fail(diag.BadAttachPoint, part, "%s should be attached to a function or an address", p.Kind+"s")
		return false
	}
	p.Name = name
	p.Pattern = p.Pattern || part.Wildcard
	return true
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 0, 64)
	return err == nil
}

func (c *checker) kprobe(p *Point, parts []ast.AttachPart) bool {
	if len(parts) == 2 {
		p.Target = parts[0].Text
		p.Pattern = parts[0].Wildcard
	}
	fn := parts[len(parts)-1]
	if !c.function(p, fn) {
		return false
	}
	if p.Addr != 0 {
		c.info.Unsafe = append(c.info.Unsafe, Use{"kprobe-address", fn.At})
	}
	if p.Name != "" && !p.Pattern && p.Target == "" && !c.t.HasFunc(p.Name) {
		d := c.fail(diag.NotInTarget, fn, "%s is not traceable (either non-existing, inlined, or marked as \"notrace\") in the target's kernel; the host decides", p.Name)
		c.similar(d, p.Name, c.t.Funcs)
	}
	return true
}

// similar adds a hint with the name that was probably meant, looked for among
// those that begin alike.
func (c *checker) similar(d *diag.Diagnostic, name string, list func(string) []string) {
	head := name[:min(len(name), 4)]
	if near := target.Nearest(name, list(head+"*")); near != "" && near != name {
		d.Hint("did you mean %s?", near)
	}
}

func (c *checker) uprobe(p *Point, ap *ast.AttachPoint, parts []ast.AttachPart) bool {
	switch {
	case len(parts) < 2:
		c.fail(diag.BadAttachPoint, ap, "%s should have a target", p.Kind).Hint("%s:BINARY:FUNCTION", p.Kind)
		return false
	case parts[1].Location:
		c.unsupported(parts[1], "source positions in attach points")
		return false
	case parts[0].Text == "":
		c.fail(diag.BadAttachPoint, ap, "%s should have a target", p.Kind)
		return false
	}
	p.Target = parts[0].Text
	p.Pattern = parts[0].Wildcard
	if len(parts) == 3 {
		if parts[1].Text != "cpp" {
			c.fail(diag.BadAttachPoint, parts[1], "unsupported language type: %s", parts[1].Text)
			return false
		}
		c.unsupported(parts[1], "C++ names in attach points")
		return false
	}
	if last := parts[len(parts)-1]; p.Pattern && last.Text != "" && last.Text[0] >= '0' && last.Text[0] <= '9' {
		c.fail(diag.BadAttachPoint, last, "Cannot use wildcards with absolute address")
		return false
	}
	return c.function(p, parts[len(parts)-1])
}

// usdt reads "BINARY:NAME" and "BINARY:NAMESPACE:NAME"; without a binary it is
// that of -p.
func (c *checker) usdt(p *Point, ap *ast.AttachPoint, parts []ast.AttachPart) bool {
	if len(parts) < 2 || parts[len(parts)-1].Text == "" {
		c.fail(diag.BadAttachPoint, ap, "usdt should have a target and a name").Hint("usdt:BINARY:NAMESPACE:NAME, usdt:BINARY:NAME")
		return false
	}
	p.Target = parts[0].Text
	p.Name = parts[len(parts)-1].Text
	if len(parts) == 3 {
		p.Name = parts[1].Text + ":" + p.Name
	}
	for _, part := range parts {
		p.Pattern = p.Pattern || part.Wildcard
	}
	return true
}

// tracepoints resolves "tracepoint:category:event".
func (c *checker) tracepoints(p *Point, ap *ast.AttachPoint, readsArgs bool) []*Point {
	parts := ap.Parts[1:]
	category, event := parts[0], ast.AttachPart{Extent: parts[0].Extent, Text: "*", Wildcard: true}
	if len(parts) > 1 {
		event = parts[1]
	}
	p.Target, p.Name = category.Text, event.Text
	p.Pattern = category.Wildcard || event.Wildcard
	p.finish()
	if !p.Pattern {
		if _, ok := c.t.Tracepoint(p.Target, p.Name); !ok {
			d := c.fail(diag.NotInTarget, ap, "tracepoint %s:%s does not exist in the target's kernel; the host decides", p.Target, p.Name)
			c.similar(d, p.Target+":"+p.Name, func(string) []string { return c.t.Tracepoints("*", event.Text[:min(len(event.Text), 3)]+"*") })
		}
		return []*Point{p}
	}
	all := c.t.Tracepoints(p.Target, p.Name)
	if len(all) == 0 {
		c.fail(diag.NotInTarget, ap, "no tracepoint of the target's kernel matches %s:%s; the host decides", p.Target, p.Name)
	}
	if !readsArgs {
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
		one.Missing = "ignore" // a member of a pattern need not exist on the host
		one.finish()
		points = append(points, &one)
	}
	return points
}

// timeUnits are the units of profile and interval; the value is that of one in
// nanoseconds, 0 for a frequency.
var timeUnits = map[string]uint64{"hz": 0, "us": 1000, "ms": 1000000, "s": 1000000000}

// durations are the suffixes of a duration in nanoseconds, longest first.
var durations = []struct {
	suffix string
	ns     uint64
}{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}, {"", 1}}

// timer reads "hz:99", "s:1" or a duration.
func (c *checker) timer(p *Point, ap *ast.AttachPoint, parts []ast.AttachPart) bool {
	if len(parts) == 1 {
		ns, ok := duration(parts[0].Text)
		if !ok {
			c.fail(diag.BadAttachPoint, parts[0], "Invalid rate of %s probe", p.Kind)
			return false
		}
		p.Unit, p.Count = "us", ns/1000
		if p.Count == 0 {
			c.fail(diag.BadAttachPoint, ap, "Invalid rate of %s probe. Minimum is 1000 or 1us. Found: %d nanoseconds", p.Kind, ns)
			return false
		}
		return true
	}
	if _, ok := timeUnits[parts[0].Text]; !ok {
		c.fail(diag.BadAttachPoint, parts[0], "%s is not an accepted unit of time", parts[0].Text).Hint("hz, us, ms or s")
		return false
	}
	n, err := parseCount(parts[1].Text)
	if err != nil || n == 0 {
		c.fail(diag.BadAttachPoint, parts[1], "Invalid rate of %s probe", p.Kind)
		return false
	}
	p.Unit, p.Count = parts[0].Text, n
	return true
}

// parseCount reads a number as literals are written: 1e6, 1_000, 0x10.
func parseCount(s string) (uint64, error) {
	s = strings.ReplaceAll(s, "_", "")
	if mant, exp, ok := strings.Cut(s, "e"); ok && !strings.HasPrefix(s, "0x") {
		e, err := strconv.ParseUint(exp, 10, 5)
		m, err2 := strconv.ParseUint(mant, 10, 32)
		if err != nil || err2 != nil || e > 18 {
			return 0, strconv.ErrSyntax
		}
		for range e {
			m *= 10
		}
		return m, nil
	}
	return strconv.ParseUint(s, 0, 63)
}

func duration(s string) (uint64, bool) {
	for _, d := range durations {
		digits, ok := strings.CutSuffix(s, d.suffix)
		if !ok {
			continue
		}
		if n, err := parseCount(digits); err == nil && n <= 1<<62/d.ns {
			return n * d.ns, true
		}
	}
	return 0, false
}

// softwareEvents and hardwareEvents are the names of perf events by all their
// spellings, with the period a probe has when it gives none.
var softwareEvents = map[string]uint64{
	"alignment-faults": 1, "bpf-output": 1, "context-switches": 1000, "cs": 1000, "cpu-clock": 1000000, "cpu": 1000000,
	"cpu-migrations": 1, "dummy": 1, "emulation-faults": 1, "major-faults": 1, "minor-faults": 100,
	"page-faults": 100, "faults": 100, "task-clock": 1,
}

var hardwareEvents = map[string]uint64{
	"backend-stalls": 1e6, "branch-instructions": 1e5, "branches": 1e5, "branch-misses": 1e5, "bus-cycles": 1e5,
	"cache-misses": 1e6, "cache-references": 1e6, "cpu-cycles": 1e6, "cycles": 1e6, "frontend-stalls": 1e6,
	"instructions": 1e6, "ref-cycles": 1e6,
}

// SoftwareEvents and HardwareEvents are the names of perf events, sorted.
func SoftwareEvents() []string { return slices.Sorted(maps.Keys(softwareEvents)) }

// HardwareEvents: see SoftwareEvents.
func HardwareEvents() []string { return slices.Sorted(maps.Keys(hardwareEvents)) }

// counter reads "event[:count]".
func (c *checker) counter(p *Point, parts []ast.AttachPart) bool {
	events := softwareEvents
	if p.Kind == "hardware" {
		events = hardwareEvents
	}
	p.Target = parts[0].Text
	if parts[0].Wildcard {
		c.fail(diag.BadAttachPoint, parts[0], "wildcards are not allowed for %s probe type", p.Kind)
		return false
	}
	count, ok := events[p.Target]
	if !ok {
		c.fail(diag.BadAttachPoint, parts[0], "%s is not a %s probe", p.Target, p.Kind)
		return false
	}
	p.Count = count
	if len(parts) > 1 && parts[1].Text != "" { // "software:faults:" is the default, too
		n, err := parseCount(parts[1].Text)
		if err != nil {
			c.fail(diag.BadAttachPoint, parts[1], "invalid count %s", parts[1].Text)
			return false
		}
		if n > 0 {
			p.Count = n
		}
	}
	return true
}

// watchModes are what processors can watch: no x86 has one for reads only, none
// watches data and code at once.
var watchModes = []string{"w", "rw", "wr", "x"}

func (c *checker) watchpoint(p *Point, parts []ast.AttachPart) bool {
	addr, err := strconv.ParseUint(parts[0].Text, 0, 64)
	if err != nil || addr == 0 {
		c.fail(diag.BadAttachPoint, parts[0], "invalid address %s", parts[0].Text)
		return false
	}
	length, err := strconv.Atoi(parts[1].Text)
	if err != nil || !slices.Contains([]int{1, 2, 4, 8}, length) {
		c.fail(diag.BadAttachPoint, parts[1], "watchpoint length must be one of (1,2,4,8)")
		return false
	}
	p.Addr, p.Len, p.Mode = addr, length, parts[2].Text
	if !slices.Contains(watchModes, p.Mode) {
		c.fail(diag.BadAttachPoint, parts[2], "watchpoint mode must be one of %s", strings.Join(watchModes, ", "))
		return false
	}
	return true
}
