// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Point is a parsed attach point. Names may contain "*".
type Point struct {
	Target  string // module, binary, category, event of a counter, path to pin an iterator at
	Lang    string // "cpp": Name is a C++ function
	Name    string // function, marker (NAMESPACE:NAME), event, iterator
	Offset  uint64 // bytes from the first byte of Name
	Addr    uint64 // address instead of Name
	Unit    string // unit of a timer: hz, us, ms, s
	Count   uint64 // period or rate of a timer in Units; period of a counter, 0 for the event's default
	Len     int    // length of a watchpoint in bytes
	Mode    string // mode of a watchpoint: w, rw, wr, x
	Pattern bool   // Target or Name is a pattern that the host expands
}

// Error is an error in an attach point.
type Error struct {
	Part  int // index of the part after the kind; -1: the whole attach point
	Text  string
	Hints []string
}

func (e *Error) Error() string { return e.Text }

func at(part int, format string, args ...any) *Error {
	return &Error{Part: part, Text: fmt.Sprintf(format, args...)}
}

func (e *Error) hint(format string, args ...any) *Error {
	e.Hints = append(e.Hints, fmt.Sprintf(format, args...))
	return e
}

// MaxCount bounds the period or rate of a timer, and the period of a counter, in their units.
const MaxCount = 1 << 48

// Units returns the units of timers.
func Units() []string { return []string{"hz", "us", "ms", "s"} }

// Nanoseconds returns the period of count units in nanoseconds. A rate (hz) has none.
func Nanoseconds(unit string, count uint64) (ns uint64, ok bool) {
	for _, d := range durations {
		if d.suffix == unit {
			return count * d.ns, true
		}
	}
	return 0, false
}

// durations maps the suffixes of a duration to nanoseconds.
var durations = []struct {
	suffix string
	ns     uint64
}{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}, {"", 1}}

// Parse parses the parts after the kind; it reports a wrong number of parts. It does not check whether names exist on
// a host or in a target.
func (t *Type) Parse(parts []Part) (Point, *Error) {
	if err := t.checkCount(parts); err != nil {
		return Point{}, err
	}
	switch t.Form {
	case Signal:
		return parseSignal(parts)
	case Named:
		if parts[0].Text == "" {
			return Point{}, at(-1, "%s probes must have a name", t.Kind)
		}
		return Point{Name: parts[0].Text}, nil
	case Function:
		p := Point{}
		if len(parts) == 2 {
			p = Point{Target: parts[0].Text, Pattern: parts[0].Wildcard}
		}
		err := t.function(&p, parts, len(parts)-1)
		return p, err
	case Typed:
		return t.typed(parts)
	case UserCode:
		return t.userCode(parts)
	case UserMarker:
		return t.userMarker(parts)
	case Event:
		return t.event(parts)
	case Iterator:
		return t.iterator(parts)
	case Timer:
		return t.timer(parts)
	case Counter:
		return t.counter(parts)
	case Watch:
		return t.watch(parts)
	}
	return Point{}, nil
}

// checkCount reports a wrong number of parts.
func (t *Type) checkCount(parts []Part) *Error {
	n, least := len(parts), t.Min
	if n > 0 && parts[n-1].Wildcard && t.Wildcards { // tracepoint:* matches all of them
		least = min(least, 1)
	}
	if n >= least && n <= t.Max {
		return nil
	}
	numbers := strconv.Itoa(t.Min)
	for i := t.Min + 1; i <= t.Max; i++ {
		numbers += " or " + strconv.Itoa(i)
	}
	err := at(-1, "%s probe type requires %s arguments, found %d", t.Kind, numbers, n)
	if t.Form == Event {
		err.hint("%s:CATEGORY:EVENT", t.Kind)
	}
	return err
}

// OwnSignals are the signals that a self probe can wait for.
const OwnSignals = "SIGUSR1"

func parseSignal(parts []Part) (Point, *Error) {
	p := Point{Target: parts[0].Text, Name: parts[1].Text}
	switch {
	case p.Target != "signal":
		return p, at(0, "%s is not a supported trigger", p.Target).hint("self:signal:%s", OwnSignals)
	case p.Name != OwnSignals:
		return p, at(1, "%s is not a supported signal", p.Name).hint("self:signal:%s", OwnSignals)
	}
	return p, nil
}

// function reads part i, "name", "name+offset" or an address, into p.
func (t *Type) function(p *Point, parts []Part, i int) *Error {
	part := parts[i]
	name, offset, plus := strings.Cut(part.Text, "+")
	if part.Quoted {
		name, offset, plus = part.Text, "", false
		if j := strings.LastIndexByte(part.Text, '+'); j >= 0 && isNumber(part.Text[j+1:]) {
			name, offset, plus = part.Text[:j], part.Text[j+1:], true
		}
	}
	name, offset = strings.TrimSpace(name), strings.TrimSpace(offset)
	if plus {
		n, err := strconv.ParseUint(offset, 0, 32)
		switch {
		case err != nil && strings.Contains(offset, "+"):
			return at(i, "Cannot take more than one offset")
		case err != nil:
			return at(i, "Invalid offset")
		case !t.Offsets:
			return at(i, "Offset not allowed")
		}
		p.Offset = n
	}
	if addr, err := strconv.ParseUint(name, 0, 64); err == nil && !part.Quoted {
		switch {
		case plus:
			return at(i, "Offset not allowed")
		case addr == 0 && t.Space != UserSpace: // address 0 of a user-space file that is not ELF can be probed
			return at(i, "the address of a probe cannot be 0")
		}
		p.Addr = addr
		return nil
	}
	if name == "" {
		return at(i, "%ss should be attached to a function or an address", t.Kind)
	}
	p.Name = name
	p.Pattern = p.Pattern || part.Wildcard
	return nil
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 0, 64)
	return err == nil
}

// typed reads "[MODULE:]NAME", and "bpf:[ID:]PROGRAM" of fentry and fexit.
func (t *Type) typed(parts []Part) (Point, *Error) {
	n := len(parts)
	last := parts[n-1]
	ofBPF := t.Max == 3 && (n > 2 || parts[0].Text == "bpf")
	if !ofBPF {
		p := Point{Name: last.Text, Pattern: last.Wildcard || parts[0].Wildcard}
		if n == 2 {
			p.Target = parts[0].Text
		}
		if p.Name == "" {
			return p, at(-1, "%s should be attached to a function", t.Kind)
		}
		return p, nil
	}
	switch {
	case parts[0].Text != "bpf":
		return Point{}, at(-1, "Only the 'bpf' variant of this probe supports 4 arguments")
	case n == 1 || last.Text == "":
		return Point{}, at(-1,
			"the 'bpf' variant of this probe requires a bpf program name and optional bpf program id")
	}
	p := Point{Target: "bpf", Name: last.Text, Pattern: true}
	if id := parts[1]; n == 3 && id.Text != "*" {
		if n, err := strconv.ParseUint(id.Text, 0, 32); err != nil || n == 0 {
			return Point{}, at(1, "bpf program id must be a number or '*'")
		}
		p.Target += ":" + id.Text
	}
	return p, nil
}

func (t *Type) userCode(parts []Part) (Point, *Error) {
	if len(parts) == 1 || len(parts) == 2 && parts[0].Text == "cpp" { // in the program of -p: FUNCTION, cpp:FUNCTION
		p := Point{}
		if len(parts) == 2 {
			p.Lang = "cpp"
		}
		err := t.function(&p, parts, len(parts)-1)
		return p, err
	}
	p := Point{Target: parts[0].Text, Pattern: parts[0].Wildcard}
	if len(parts) == 3 {
		if p.Lang = parts[1].Text; p.Lang != "cpp" {
			return p, at(1, "unsupported language type: %s", p.Lang)
		}
	}
	i := len(parts) - 1
	if last := parts[i]; p.Pattern && last.Text != "" && last.Text[0] >= '0' && last.Text[0] <= '9' {
		return p, at(i, "Cannot use wildcards with absolute address")
	}
	err := t.function(&p, parts, i)
	return p, err
}

func (t *Type) userMarker(parts []Part) (Point, *Error) {
	n := len(parts)
	if n < 2 || parts[n-1].Text == "" {
		return Point{}, at(-1,
			"usdt should have a target and a name").hint("usdt:BINARY:NAMESPACE:NAME, usdt:BINARY:NAME")
	}
	p := Point{Target: parts[0].Text, Name: parts[n-1].Text}
	if n == 3 {
		p.Name = parts[1].Text + ":" + p.Name
	}
	p.Pattern = slices.ContainsFunc(parts, func(part Part) bool { return part.Wildcard })
	return p, nil
}

func (t *Type) event(parts []Part) (Point, *Error) {
	category, event := parts[0], Part{Text: "*", Wildcard: true}
	if len(parts) > 1 {
		event = parts[1]
	}
	p := Point{Target: category.Text, Name: event.Text, Pattern: category.Wildcard || event.Wildcard}
	if p.Target == "" || p.Name == "" {
		return p, at(-1, "%s probe must have a target", t.Kind).hint("%s:CATEGORY:EVENT", t.Kind)
	}
	return p, nil
}

func (t *Type) iterator(parts []Part) (Point, *Error) {
	for i, part := range parts {
		if part.Wildcard {
			return Point{}, at(i, "wildcards are not allowed for %s probe type", t.Kind)
		}
	}
	p := Point{Name: parts[0].Text}
	if len(parts) > 1 {
		if p.Target = parts[1].Text; p.Target == "" {
			return p, at(1, "the pin path of the iterator is empty")
		}
	}
	if p.Name == "" {
		return p, at(-1, "iter should have a kind").hint("iter:task, iter:task_file, ...")
	}
	return p, nil
}

// timer reads "hz:99", "s:1" or a duration.
func (t *Type) timer(parts []Part) (Point, *Error) {
	p := Point{}
	last := len(parts) - 1
	if last == 0 {
		ns, ok := duration(parts[0].Text)
		if !ok {
			return p, at(0, "Invalid rate of %s probe",
				t.Kind).hint("a duration is a number followed by ns, us, ms, s, m, h or d: %s:100ms", t.Kind)
		}
		p.Unit, p.Count = "us", ns/1000
		if p.Count == 0 {
			return p, at(-1, "Invalid rate of %s probe. Minimum is 1000 or 1us. Found: %d nanoseconds", t.Kind,
				ns).hint("%s", t.timerHint())
		}
	} else {
		if !slices.Contains(Units(), parts[0].Text) {
			return p, at(0, "%s is not an accepted unit of time", parts[0].Text).hint("hz, us, ms or s")
		}
		n, err := parseCount(parts[1].Text)
		if err != nil {
			return p, at(1, "Invalid rate of %s probe: invalid integer: %s", t.Kind, parts[1].Text).hint("%s", t.timerHint())
		}
		if n == 0 {
			return p, at(1, "%s frequency should be a positive integer", t.Kind).hint("%s", t.timerHint())
		}
		p.Unit, p.Count = parts[0].Text, n
	}
	if p.Count > MaxCount {
		return p, at(last, "Invalid rate of %s probe: %d %s is too large (max %d)", t.Kind, p.Count, p.Unit,
			uint64(MaxCount))
	}
	return p, nil
}

func (t *Type) timerHint() string {
	if t.Kind == Profile {
		return "for a rate write profile:hz:99, for a period profile:10ms or profile:ms:10"
	}
	return "for one second write interval:s:1 or interval:1s; the units are hz, us, ms and s"
}

// parseCount parses a number in the syntax of literals: 1e6, 1_000, 0x10.
func parseCount(s string) (uint64, error) {
	s = strings.ReplaceAll(s, "_", "")
	if mant, exp, ok := strings.Cut(s, "e"); ok && !strings.HasPrefix(s, "0x") {
		e, err := strconv.ParseUint(exp, 10, 5)
		m, err2 := strconv.ParseUint(mant, 10, 32)
		if err != nil || err2 != nil || e > 18 {
			return 0, strconv.ErrSyntax
		}
		for range e {
			if m > 1<<63/10 {
				return 0, strconv.ErrRange
			}
			m *= 10
		}
		return m, nil
	}
	return strconv.ParseUint(s, 0, 63)
}

// duration parses a duration and returns it in nanoseconds.
func duration(s string) (uint64, bool) {
	for _, d := range durations {
		number, ok := strings.CutSuffix(s, d.suffix)
		if !ok {
			continue
		}
		if n, err := parseCount(number); err == nil && n <= 1<<62/d.ns {
			return n * d.ns, true
		}
	}
	return 0, false
}

// counter reads "EVENT[:PERIOD]".
func (t *Type) counter(parts []Part) (Point, *Error) {
	p := Point{Target: parts[0].Text}
	if parts[0].Wildcard {
		return p, at(0, "wildcards are not allowed for %s probe type", t.Kind)
	}
	if _, ok := FindEvent(t.Kind, p.Target); !ok {
		return p, at(0, "%s is not a %s probe", p.Target, t.Kind)
	}
	if len(parts) > 1 && parts[1].Text != "" { // "software:faults:" also means the default
		n, err := parseCount(parts[1].Text)
		if err != nil || n > MaxCount {
			return p, at(1, "invalid count %s", parts[1].Text)
		}
		p.Count = n
	}
	return p, nil
}

// watchModes are the modes that processors support: x86 cannot watch reads only, and no processor watches data and
// code at once.
var watchModes = []string{"w", "rw", "wr", "x"}

func (t *Type) watch(parts []Part) (Point, *Error) {
	p := Point{Mode: parts[2].Text}
	var err error
	if p.Addr, err = strconv.ParseUint(parts[0].Text, 0, 64); err != nil || p.Addr == 0 {
		return p, at(0, "invalid address %s", parts[0].Text)
	}
	if p.Len, err = strconv.Atoi(parts[1].Text); err != nil || !slices.Contains([]int{1, 2, 4, 8}, p.Len) {
		return p, at(1, "watchpoint length must be one of (1,2,4,8)")
	}
	if !slices.Contains(watchModes, p.Mode) {
		return p, at(2,
			"watchpoint mode must be combination of (r,w,x)").hint("the hardware supports the modes %s", strings.Join(watchModes, ", "))
	}
	return p, nil
}

// Text returns the full name of an attach point, as the builtin probe returns it.
func (t *Type) Text(p *Point) string {
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	words := []string{t.Kind}
	switch t.Form {
	case Timer:
		words = append(words, p.Unit, number(p.Count))
	case Counter:
		words = append(words, p.Target)
		if p.Count > 0 {
			words = append(words, number(p.Count))
		}
	case Watch:
		words = append(words, "0x"+strconv.FormatUint(p.Addr, 16), strconv.Itoa(p.Len), p.Mode)
	case Iterator: // without the path to pin it at
		words = append(words, p.Name)
	default:
		name := p.Name
		if p.Offset > 0 {
			name += "+" + number(p.Offset)
		}
		if name == "" && p.Addr > 0 {
			name = "0x" + strconv.FormatUint(p.Addr, 16)
		}
		for _, s := range []string{p.Target, p.Lang, name} {
			if s != "" {
				words = append(words, s)
			}
		}
	}
	return strings.Join(words, ":")
}

// Section returns the name of the ELF section of a probe's program, following libbpf's conventions. Patterns and paths,
// which only the host resolves, are omitted: they are in the manifest.
func (t *Type) Section(p *Point) string {
	prefix := t.Program.String()
	if t.Program == ProgKprobe {
		prefix = t.Kind
	}
	if p.Pattern || p.Name == "" {
		return prefix
	}
	name := p.Name
	if p.Offset != 0 {
		name += "+" + strconv.FormatUint(p.Offset, 10)
	}
	switch t.Form {
	case Function, Typed, Iterator:
		return prefix + "/" + name
	case UserCode:
		if strings.HasPrefix(p.Target, "/") && p.Lang == "" {
			return prefix + "/" + p.Target + ":" + name
		}
	case Event:
		return prefix + "/" + p.Target + "/" + name
	}
	if t.Form == UserMarker {
		// For a section "usdt", libbpf requires maps that its own macros define; aya does not know the name. All
		// loaders leave programs in a bare "uprobe" unattached.
		return "uprobe"
	}
	return prefix
}
