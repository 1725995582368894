package check

import (
	"slices"
	"strconv"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/internal/spell"

	"btc/loader/manifest"
)

// points resolves an attach point; one that is in error gives none. Tracepoint
// patterns are expanded when the clause reads args: each event has fields of
// its own.
func (c *checker) points(ap *ast.AttachPoint, readsArgs bool) []*Point {
	prov := providerNamed(ap.Provider)
	if i := slices.IndexFunc(ap.Parts, func(p ast.AttachPart) bool { return len(p.Params) > 0 }); i >= 0 {
		return c.filled(ap, prov, ap.Parts[i], readsArgs)
	}
	switch {
	case prov == nil && len(ap.Parts) > 0 && ap.Parts[0].Wildcard:
		return c.kindPattern(ap, readsArgs)
	case prov == nil:
		return nil // the parser has reported an unknown one
	case !prov.Supported:
		c.unsupported(ap, "%s probes", prov.Name)
		return nil
	}
	n := len(ap.Parts) - 1
	if all := prov.Name == "tracepoint" && n == 1 && ap.Parts[1].Wildcard; n < prov.Min && !all || n > prov.Max {
		return nil // reported by the parser
	}
	p := &Point{Kind: prov.Name, Provider: prov, Attach: manifest.Attach{Missing: c.info.Config.Missing}, At: ap.At}
	if ap.Label != nil {
		p.Label = ap.Label.Text
	}
	parts := ap.Parts[1:]
	ok := true
	switch prov.Name {
	case "begin", "end":
	case "self":
		ok = c.self(p, parts)
	case "test", "bench":
		ok = c.named(p, ap, parts[0])
	case "kprobe", "kretprobe":
		ok = c.kprobe(p, parts)
	case "fentry", "fexit", "rawtracepoint":
		return c.typedPoints(p, ap, readsArgs)
	case "uprobe", "uretprobe":
		return c.uprobes(p, ap, parts, readsArgs)
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

// canWait are the kinds of probes whose places need not be known to compile.
var canWait = []string{"kprobe", "kretprobe", "uprobe", "uretprobe", "usdt", "tracepoint", "profile", "interval", "software", "hardware", "watchpoint"}

// filled is an attach point with parameters, whose values the loader puts in. One
// that decides how the clause is compiled needs them now.
func (c *checker) filled(ap *ast.AttachPoint, prov *Provider, first ast.AttachPart, readsArgs bool) []*Point {
	quoted := slices.ContainsFunc(ap.Parts, func(p ast.AttachPart) bool { return p.Quoted && len(p.Params) > 0 })
	location := slices.ContainsFunc(ap.Parts, func(p ast.AttachPart) bool { return p.Location })
	if prov == nil || !slices.Contains(canWait, prov.Name) || readsArgs || quoted || location {
		for _, part := range ap.Parts {
			for _, n := range part.Params {
				c.needsValue(n)
			}
		}
		d := c.fail(diag.NotConstant, first, "the value of this parameter must be known to compile the clause")
		if readsArgs {
			d.Hint("args has the fields of one event or function")
		}
		d.Hint("%s", giveValue)
		return nil
	}
	n := len(ap.Parts) - 1
	if n > prov.Max {
		c.fail(diag.BadAttachPoint, ap, "%s probe type requires at most %d arguments, found %d", prov.Name, prov.Max, n)
		return nil
	}
	p := &Point{Kind: prov.Name, Provider: prov, Attach: manifest.Attach{Missing: c.info.Config.Missing}, At: ap.At}
	if ap.Label != nil {
		p.Label = ap.Label.Text
	}
	p.Text = prov.Name
	for _, part := range ap.Parts[1:] {
		p.Fill = append(p.Fill, part.Text)
		p.Text += ":" + part.Text
		p.Pattern = p.Pattern || part.Wildcard
	}
	if prov.Name == "tracepoint" && len(ap.Parts[1].Params) == 0 {
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

// finish makes the full name.
func (p *Point) finish() {
	text := []string{p.Kind}
	switch p.Kind {
	case "profile", "interval":
		text = append(text, p.Unit, strconv.FormatUint(p.Count, 10))
	case "software", "hardware":
		text = append(text, p.Target)
		if p.Count > 0 {
			text = append(text, strconv.FormatUint(p.Count, 10))
		}
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
		words := []string{p.Target, p.Lang, name}
		if p.Kind == "iter" { // without the path to pin it at
			words = []string{name}
		}
		for _, s := range words {
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
			what := "Invalid offset"
			if strings.Contains(offset, "+") {
				what = "Cannot take more than one offset"
			}
			c.fail(diag.BadAttachPoint, part, "%s", what)
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
		if addr == 0 && !p.Provider.User { // the first byte of a file that is no ELF file can be probed
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
	if p.Name != "" && !p.Pattern && (p.Target == "" || p.Target == "vmlinux") && !c.t.HasFunc(p.Name) && !c.t.HasFunc(c.alias(p.Name)) {
		d := c.absent(p, fn, "%s is not traceable (either non-existing, inlined, or marked as \"notrace\"); attaching to it will likely fail", p.Name)
		d.Hint("so it is in the target's kernel; the host decides")
		c.similar(d, p.Name, c.t.Funcs)
	}
	return true
}

// alias is the function that a system call's function is another name of where
// the call has no arguments; "" for other functions. The kernel lists one of the
// names, and attaches to each.
func (c *checker) alias(name string) string {
	if call, ok := strings.CutPrefix(c.t.Arch().SyscallFunc(name), c.t.Arch().SyscallPrefix); ok {
		return "__do_sys_" + call
	}
	return ""
}

// absent warns of an attach point that the target does not have, unless
// missing_probes is ignore.
func (c *checker) absent(p *Point, at ast.Node, format string, args ...any) *diag.Diagnostic {
	if p.Missing == "ignore" {
		return &diag.Diagnostic{}
	}
	return c.fail(diag.NotInTarget, at, format, args...)
}

// similar adds a hint with the name that was probably meant, looked for among
// those that begin alike.
func (c *checker) similar(d *diag.Diagnostic, name string, list func(string) []string) {
	if !c.guess() {
		return
	}
	head := name[:min(len(name), 4)]
	if near := spell.Nearest(name, list(head+"*")); near != "" && near != name {
		d.Hint("did you mean %s?", near)
	}
}

func (c *checker) uprobe(p *Point, ap *ast.AttachPoint, parts []ast.AttachPart) bool {
	switch {
	case len(parts) == 1 || len(parts) == 2 && parts[0].Text == "cpp":
		// The program of -p: uprobe:FUNCTION, uprobe:cpp:FUNCTION.
		parts = append([]ast.AttachPart{{Extent: ap.Extent}}, parts...)
	}
	p.Target = parts[0].Text
	p.Pattern = parts[0].Wildcard
	if len(parts) == 3 {
		if parts[1].Text != "cpp" {
			c.fail(diag.BadAttachPoint, parts[1], "unsupported language type: %s", parts[1].Text)
			return false
		}
		p.Lang = parts[1].Text
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
	if p.Target == "" || p.Name == "" {
		c.fail(diag.BadAttachPoint, ap, "tracepoint probe must have a target").Hint("tracepoint:CATEGORY:EVENT")
		return nil
	}
	p.Pattern = category.Wildcard || event.Wildcard
	p.finish()
	if !p.Pattern {
		if _, ok := c.t.Tracepoint(p.Target, p.Name); !ok {
			d := c.absent(p, ap, "tracepoint %s:%s does not exist in the target's kernel; the host decides", p.Target, p.Name)
			c.similar(d, p.Target+":"+p.Name, func(string) []string { return c.t.Tracepoints("*", event.Text[:min(len(event.Text), 3)]+"*") })
		}
		return []*Point{p}
	}
	all := c.t.Tracepoints(p.Target, p.Name)
	if len(all) == 0 {
		c.absent(p, ap, "no tracepoint of the target's kernel matches %s:%s; the host decides", p.Target, p.Name)
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
		one.Missing = "ignore" // a member of a pattern need not exist on the host
		one.finish()
		points = append(points, &one)
	}
	return points
}

// syscallExits: a pattern of events that all have the same arguments, those of
// the exit of a system call.
func (p *Point) syscallExits() bool {
	return p.Kind == "tracepoint" && p.Pattern && p.Target == "syscalls" && strings.HasPrefix(p.Name, "sys_exit_")
}

// timeUnits are the units of profile and interval; the value is that of one in
// nanoseconds, 0 for a frequency.
var timeUnits = map[string]uint64{"hz": 0, "us": 1000, "ms": 1000000, "s": 1000000000}

// durations are the suffixes of a duration in nanoseconds, longest first.
var durations = []struct {
	suffix string
	ns     uint64
}{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}, {"", 1}}

// maxTimer is the largest period or rate that an object's manifest can hold.
const maxTimer = 1 << 48

// timer reads "hz:99", "s:1" or a duration.
func (c *checker) timer(p *Point, ap *ast.AttachPoint, parts []ast.AttachPart) bool {
	if !c.readTimer(p, ap, parts) {
		return false
	}
	if p.Count > maxTimer {
		c.fail(diag.BadAttachPoint, parts[len(parts)-1], "Invalid rate of %s probe: %d %s is too large (max %d)", p.Kind, p.Count, p.Unit, uint64(maxTimer))
		return false
	}
	return true
}

func (c *checker) readTimer(p *Point, ap *ast.AttachPoint, parts []ast.AttachPart) bool {
	if len(parts) == 1 {
		ns, ok := duration(parts[0].Text)
		if !ok {
			c.fail(diag.BadAttachPoint, parts[0], "Invalid rate of %s probe", p.Kind).Hint("a duration is a number with ns, us, ms, s, m, h or d: %s:100ms", p.Kind)
			return false
		}
		p.Unit, p.Count = "us", ns/1000
		if p.Count == 0 {
			c.fail(diag.BadAttachPoint, ap, "Invalid rate of %s probe. Minimum is 1000 or 1us. Found: %d nanoseconds", p.Kind, ns).Hint("%s", timerHint(p.Kind))
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
		c.fail(diag.BadAttachPoint, parts[1], "Invalid rate of %s probe", p.Kind).Hint("%s", timerHint(p.Kind))
		return false
	}
	p.Unit, p.Count = parts[0].Text, n
	return true
}

func timerHint(kind string) string {
	if kind == "profile" {
		return "a number of times a second is profile:hz:99, a duration profile:10ms or profile:ms:10"
	}
	return "a second is interval:s:1 or interval:1s; the units are hz, us, ms and s"
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
// spellings, sorted. The loader knows the period of each.
var (
	softwareEvents = []string{"alignment-faults", "bpf-output", "context-switches", "cpu", "cpu-clock", "cpu-migrations", "cs", "dummy",
		"emulation-faults", "faults", "major-faults", "minor-faults", "page-faults", "task-clock"}
	hardwareEvents = []string{"backend-stalls", "branch-instructions", "branch-misses", "branches", "bus-cycles", "cache-misses",
		"cache-references", "cpu-cycles", "cycles", "frontend-stalls", "instructions", "ref-cycles"}
)

// SoftwareEvents are the names of the events of software probes, sorted.
func SoftwareEvents() []string { return softwareEvents }

// HardwareEvents are the names of the events of hardware probes, sorted.
func HardwareEvents() []string { return hardwareEvents }

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
	if !slices.Contains(events, p.Target) {
		meant(c.fail(diag.BadAttachPoint, parts[0], "%s is not a %s probe", p.Target, p.Kind), p.Target, "", events)
		return false
	}
	if len(parts) > 1 && parts[1].Text != "" { // "software:faults:" is the default, too
		n, err := parseCount(parts[1].Text)
		if err != nil {
			c.fail(diag.BadAttachPoint, parts[1], "invalid count %s", parts[1].Text)
			return false
		}
		p.Count = n // 0: the event's own period
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
		c.fail(diag.BadAttachPoint, parts[2], "watchpoint mode must be combination of (r,w,x)").Hint("hardware has the modes %s", strings.Join(watchModes, ", "))
		return false
	}
	return true
}
