// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"btc/cmd/btc/cost"
	"btc/internal/manifest"
	"btc/internal/option"
	"btc/internal/probe"
	"btc/loader/object"
	"btc/targets/kernel"
)

// coster holds the options of btc cost.
type coster struct {
	script scriptFlags
	rates  []rate
	asJSON bool
}

// rate is how often a probe fires.
type rate struct {
	pattern string // keyed by attach point; "*" for all
	hz      float64
}

// costOf is the report of one object, as `btc cost --json` prints it.
type costOf struct {
	Object     string       `json:"object"`
	Target     string       `json:"target"`
	Arch       string       `json:"arch"`
	Measured   cost.Machine `json:"measured"`
	Statistics float64      `json:"statistics_ns"`
	Programs   []costed     `json:"programs"`
}

// costed is a program; percentages are of one CPU.
type costed struct {
	cost.Program
	Rate             float64  `json:"rate,omitempty"` // events per second
	Percent          *float64 `json:"cpu_percent,omitempty"`
	PercentWithProbe *float64 `json:"cpu_percent_with_probe,omitempty"`
}

func costCommand() *command {
	c := new(coster)
	return &command{
		name: "cost", operands: "FILE.o ... | FILE.bt | -e PROGRAM", files: []string{"o", "bt"},
		summary: "estimate the cost of an event, without running anything",
		about: "The estimate is for the path on which all filters pass and nothing fails, based on figures measured " +
			"on one machine. The cost of the probe itself is shown separately. docs/howto/guard-rails.md describes the accuracy.",
		examples: []example{{"btc cost --rate 100k/s reads.bt", "estimate the share of one CPU at 100,000 events a second"}},
		options: option.Table{
			{Name: "rate", Value: "[PROBE=]N/s", Repeat: true, To: c.addRate,
				Help: "how often probes fire, such as 100k/s, to print the share of one CPU; PROBE is an attach point or a pattern"},
			{Name: "json", To: &c.asJSON, Help: "print one JSON object per object, one per line"},
			{Name: "program", Short: "e", Value: "PROGRAM", To: c.script.setProgram, Help: "the script itself instead of a file"},
			{Name: "target", Value: "FILE", Repeat: true, To: &c.script.targets.files,
				Help: `target file, architecture of an embedded target, or "host"; default: the embedded target`},
		},
		run: c.run,
	}
}

// addRate parses "100k/s" and "kprobe:f=2.5M/s".
func (c *coster) addRate(text string) error {
	r := rate{pattern: "*"}
	number := text
	if i := strings.LastIndexByte(text, '='); i >= 0 {
		r.pattern, number = text[:i], text[i+1:]
	}
	digits, perSecond := strings.CutSuffix(number, "/s")
	unit := 1.0
	for suffix, n := range map[string]float64{"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9} {
		if d, ok := strings.CutSuffix(digits, suffix); ok {
			digits, unit = d, n
			break
		}
	}
	n, err := strconv.ParseFloat(digits, 64)
	if !perSecond || err != nil || strings.Trim(digits, "0123456789.") != "" || r.pattern == "" || n*unit > 1e12 {
		return fmt.Errorf("--rate: %q is not a number of events per second such as 100k/s or kprobe:vfs_read=2M/s",
			text)
	}
	r.hz = n * unit
	c.rates = append(c.rates, r)
	return nil
}

func (c *coster) run(line *option.Line) int {
	operands := line.All()
	table, err := cost.Default()
	if err != nil {
		return fail("the table of costs: %v", err)
	}
	isScript := c.script.isExpr || len(operands) == 1 && (filepath.Ext(operands[0]) == ".bt" || operands[0] == "-")
	switch {
	case c.script.isExpr && len(operands) > 0:
		return fail("unexpected argument %q: -e already gives the script", operands[0])
	case isScript:
		return c.ofScript(operands, table)
	case len(operands) == 0:
		return fail("no object: expected FILE.o from `btc compile`, FILE.bt or -e PROGRAM")
	}
	var all []costOf
	for _, path := range operands {
		o, err := object.Read(path)
		if err != nil {
			return fail("%v", err)
		}
		t, err := c.target(o.Manifest)
		if err != nil {
			return fail("%v", err)
		}
		r, err := c.of(path, o, t, table)
		if err != nil {
			return fail("%s: %v", path, err)
		}
		all = append(all, r)
	}
	return c.print(all)
}

// target returns the kernel for which an object is estimated.
func (c *coster) target(m *manifest.Manifest) (*kernel.Target, error) {
	if len(c.script.targets.files) > 1 {
		return nil, errors.New("an estimate is for one target: give one --target")
	}
	if names := append(slices.Clone(c.script.targets.files), m.Arches...); len(names) > 0 {
		t, err := openTarget(names[0])
		if err == nil && len(m.Arches) > 0 && !slices.Contains(m.Arches, t.Arch().Label) {
			err = fmt.Errorf("the object was compiled for %s, not for %s", strings.Join(m.Arches, " and "),
				t.Arch().Label)
		}
		return t, err
	}
	return openTarget("")
}

func (c *coster) ofScript(operands []string, table *cost.Table) int {
	name, text, err := c.script.script(operands)
	if err != nil {
		return fail("%v", err)
	}
	out, status := c.script.compile(name, text)
	if out == nil {
		return status
	}
	m, err := manifest.Parse(out.Manifest)
	if err != nil {
		return fail("%v", err)
	}
	o, err := object.Parse(out.Object, m)
	if err != nil {
		return fail("%v", err)
	}
	t, err := c.target(m)
	if err != nil {
		return fail("%v", err)
	}
	r, err := c.of(name, o, t, table)
	if err != nil {
		return fail("%s: %v", name, err)
	}
	return c.print([]costOf{r})
}

// of estimates one object.
func (c *coster) of(name string, o *object.Object, t *kernel.Target, table *cost.Table) (costOf, error) {
	programs, err := cost.Estimate(o, t, table)
	r := costOf{
		Object: name, Target: t.Release(), Arch: t.Arch().Label, Measured: table.Measured, Statistics: table.Statistics,
		Programs: []costed{},
	}
	for _, p := range programs {
		x := costed{Program: p}
		hz := c.rateOf(&p, o.Manifest)
		if hz > 0 {
			percent := hz * p.NS / 1e7
			x.Rate, x.Percent = hz, &percent
			if p.ProbeNS != nil {
				with := hz * (p.NS + *p.ProbeNS) / 1e7
				x.PercentWithProbe = &with
			}
		}
		r.Programs = append(r.Programs, x)
	}
	return r, err
}

// rateOf returns how often a program runs, from the last option that matches it or else the rate of
// a timer; 0 if unknown.
func (c *coster) rateOf(p *cost.Program, m *manifest.Manifest) float64 {
	for _, r := range slices.Backward(c.rates) {
		if probe.Glob(r.pattern, p.Probe) && (r.pattern != "*" || !isTimer(p.Kind)) {
			return r.hz
		}
	}
	i := slices.IndexFunc(m.Programs, func(x manifest.Program) bool { return x.Name == p.Name })
	if i < 0 || !isTimer(p.Kind) || m.Programs[i].Attach.Count == 0 {
		return 0
	}
	a := &m.Programs[i].Attach
	if ns, ok := probe.Nanoseconds(a.Unit, a.Count); ok && ns > 0 {
		return 1e9 / float64(ns)
	}
	return float64(a.Count) // Hz; for a profile probe, on each CPU
}

func isTimer(kind string) bool { return kind == probe.Interval || kind == probe.Profile }

func (c *coster) print(all []costOf) int {
	for i := range all {
		if c.asJSON {
			b, err := json.Marshal(&all[i])
			if err != nil {
				return fail("%v", err)
			}
			fmt.Println(string(b))
			continue
		}
		if i > 0 {
			fmt.Println()
		}
		all[i].text(os.Stdout)
	}
	return 0
}

// text prints a report for humans.
func (r *costOf) text(w io.Writer) {
	fmt.Fprintf(w, "%s on Linux %s, %s, based on measurements on %s with Linux %s:\n\n", r.Object, r.Target, r.Arch,
		r.Measured.CPU, r.Measured.Kernel)
	if len(r.Programs) == 0 {
		fmt.Fprintln(w, "  no program is attached to anything")
		return
	}
	fmt.Fprintf(w, "  %10s %10s %10s  %s\n", "ns/event", "at least", "+ probe", "probe")
	notes := []string{}
	note := func(text string) {
		if !slices.Contains(notes, text) {
			notes = append(notes, text)
		}
	}
	for i := range r.Programs {
		p := &r.Programs[i]
		trap := "?"
		if p.ProbeNS != nil {
			trap = nanoseconds(*p.ProbeNS)
		} else {
			note("? the cost of " + p.Kind + " itself: " + p.ProbeNote)
		}
		fmt.Fprintf(w, "  %10s %10s %10s  %s", nanoseconds(p.NS), nanoseconds(p.LeastNS), trap, p.Probe)
		if p.Line > 0 {
			fmt.Fprintf(w, " (line %d)", p.Line)
		}
		fmt.Fprintln(w)
		p.details(w)
		if p.Loops {
			note("a loop with an unknown trip count counts as one iteration")
		}
		for _, name := range p.Unmeasured {
			note("not measured, so a usual cost is assumed: " + name)
		}
	}
	for i := range r.Programs {
		p := &r.Programs[i]
		for _, c := range p.Cheaper {
			note(fmt.Sprintf("hint: %s costs %s ns, %s costs %s ns; %s", c.Probe, nanoseconds(c.NS), p.Probe, nanoseconds(*p.ProbeNS), c.Note))
		}
		if (p.Kind == probe.Uprobe || p.Kind == probe.Uretprobe) && len(p.Cheaper) == 0 && p.ProbeNS != nil && *p.ProbeNS > 10*p.NS {
			note("a " + p.Kind + " interrupts the program at each hit, also where a filter of the script rejects the event; btrun -p PID limits the hits to one process")
		}
	}
	if len(notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, n := range notes {
		fmt.Fprintln(w, "  "+n)
	}
}

// details prints the calls of a program, and its share of a CPU.
func (p *costed) details(w io.Writer) {
	const shown = 4
	var calls []string
	for i, c := range p.Calls {
		if c.NS < 0.5 || i == shown {
			break
		}
		text := c.Name + " " + nanoseconds(c.NS)
		if c.Count > 1 {
			text = fmt.Sprintf("%d x %s", c.Count, text)
		}
		calls = append(calls, text)
	}
	indent := strings.Repeat(" ", 37)
	if len(calls) > 0 {
		fmt.Fprintln(w, indent+strings.Join(calls, ", "))
	}
	if p.Percent == nil {
		return
	}
	text := fmt.Sprintf("%s%s/s: %.3g%% of a CPU", indent, count(p.Rate), *p.Percent)
	if p.PercentWithProbe != nil {
		text += fmt.Sprintf(", %.3g%% with the probe", *p.PercentWithProbe)
	} else {
		text += " without the probe itself"
	}
	if p.Kind == probe.Profile {
		text += ", on each CPU"
	}
	fmt.Fprintln(w, text)
}

// nanoseconds formats a time with few significant digits.
func nanoseconds(ns float64) string {
	if ns >= 10 {
		return strconv.FormatFloat(ns, 'f', 0, 64)
	}
	return strconv.FormatFloat(ns, 'f', 1, 64)
}

// count formats a number with a unit.
func count(n float64) string {
	for _, u := range []struct {
		suffix string
		unit   float64
	}{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
		if n >= u.unit {
			return strconv.FormatFloat(n/u.unit, 'g', 4, 64) + u.suffix
		}
	}
	return strconv.FormatFloat(n, 'g', 4, 64)
}
