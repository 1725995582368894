// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"btc/internal/kernelfs"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/adapt"
	"btc/loader/resolve"
)

// point is the result for an attach point on the target.
type point struct {
	verdict Verdict
	sites   int
	text    string // the reason, unless the verdict is ok
}

// points resolves the attach points of all programs by the loader's rules.
func (c *checker) points() []point {
	results := resolve.All(Kernel(c.t), c.m, func(string) bool { return true })
	lost := map[int]bool{} // errors of clauses without which the script does not run
	for _, e := range results.Clauses {
		lost[e.Clause] = !e.Warn
	}
	points := make([]point, len(c.m.Programs))
	for i := range results.Programs {
		points[i] = c.point(&results.Programs[i], lost)
	}
	for i := len(results.Programs); i < len(points); i++ {
		points[i] = point{verdict: Unknown}
	}
	c.limits(results)
	if results.Limit != nil {
		c.find(Fails, nil, results.Limit.Pos, "%s", results.Limit.Text)
	}
	return points
}

// limits joins clauses as the loader does, and reports an attach site with more clauses than fit. On kernels that allow
// it, the loader runs programs of tracepoints from raw tracepoints, which have no limit.
func (c *checker) limits(results *resolve.Results) {
	var plans []resolve.Plan
	for i := range results.Programs {
		if plan := results.Programs[i].Plan; plan != nil {
			plans = append(plans, *plan)
		}
	}
	if _, err := resolve.Join(c.m, plans, false); err != nil {
		verdict := Unknown
		for i := range plans {
			if p := plans[i].Prog; p.Kind != probe.Tracepoint || p.Code == nil || !p.Code.Raw {
				verdict = Fails
			}
		}
		c.find(verdict, nil, err.Pos, "%s", err.Text)
	}
}

func (c *checker) point(r *resolve.Result, lost map[int]bool) point {
	p := r.Prog
	// The target's types do not show whether the kernel has fentry.
	if arch := c.t.Arch(); p.Kind == probe.Fentry || p.Kind == probe.Fexit {
		if since := arch.FentrySince; release(c.t.Release()) < since[0]*1000+since[1] {
			return point{verdict: Fails, text: fmt.Sprintf(
				"%s: kernels for %s have no fentry before Linux %d.%d",
				p.Attach.Text, arch.Label, since[0], since[1])}
		}
	}
	if r.Plan != nil {
		return c.attached(p, r.Plan)
	}
	pt := point{verdict: Fails, text: strings.Join(append([]string{r.Err.Text}, r.Err.Notes...), " ")}
	switch {
	case r.Unknown:
		pt.verdict = Unknown
	case r.Dropped && !lost[p.Clause]:
		pt.verdict, pt.text = Skipped, strings.TrimSuffix(pt.text, ".")+": the script runs without it"
		if adapt.Mode(p) != "error" {
			pt.text += " (missing_probes)"
		}
	}
	return pt
}

// attached returns the result for an attach point that the target has.
func (c *checker) attached(p *manifest.Program, plan *resolve.Plan) point {
	out := point{verdict: OK, sites: len(plan.Matches)}
	if plan.Cut {
		out.text = plan.CutText()
	}
	module := "" // set if all attach sites depend on a module
	for i := range plan.Matches {
		if module = c.moduleOf(p, &plan.Matches[i]); module == "" {
			break
		}
	}
	depends := "" // set if all attach sites depend on the host's configuration
	for i := range plan.Matches {
		if depends = c.depends(p, plan.Matches[i].Name); depends == "" {
			break
		}
	}
	switch {
	case depends != "":
		out.verdict, out.text = Unknown, p.Attach.Text+": "+depends
	case module != "":
		out.verdict = Unknown
		out.text = fmt.Sprintf("%s exists only while %s is loaded", p.Attach.Text, module)
	case p.Attach.Offset != 0 && (p.Kind == probe.Kprobe || p.Kind == probe.Kretprobe):
		out.verdict = Unknown
		out.text = fmt.Sprintf("%s depends on the instructions of the host's kernel", p.Attach.Text)
	}
	return out
}

// moduleOf describes the module that contains an attach site, or "" for the kernel itself.
func (c *checker) moduleOf(p *manifest.Program, m *resolve.Match) string {
	switch p.Kind {
	case probe.Kprobe, probe.Kretprobe, probe.Fentry, probe.Fexit:
		if f, ok := c.t.Func(m.Name); ok && f.Module != "" {
			return "the module " + f.Module
		}
	case probe.RawTracepoint:
		if t, ok := c.t.Typedef("btf_trace_" + m.Name); ok && t.InModule {
			return "its module"
		}
	case probe.Tracepoint:
		if ev, ok := c.t.Tracepoint(m.Group, m.Name); ok && ev.Struct() != nil && ev.Struct().InModule {
			return "its module"
		}
	}
	return ""
}

// format returns the target's format file of an event.
func (c *checker) format(category, event string) (*kernelfs.Format, error) {
	ev, ok := c.t.Tracepoint(category, event)
	if !ok {
		return nil, fs.ErrNotExist
	}
	format := &kernelfs.Format{Name: event}
	for _, f := range ev.Fields {
		format.Fields = append(format.Fields,
			kernelfs.FormatField{Name: f.Name, CType: f.CType, Offset: f.Offset, Size: f.Size, Signed: f.Signed})
	}
	return format, nil
}

// events returns the tracepoints that the loader would attach a program to.
func (c *checker) events(p *manifest.Program) []adapt.Event {
	if p.Kind != probe.Tracepoint {
		return nil
	}
	return events(c.t.Tracepoints(p.Attach.Target, p.Attach.Name))
}

// events splits names of the form group:event.
func events(names []string) []adapt.Event {
	var all []adapt.Event
	for _, name := range names {
		group, event, _ := strings.Cut(name, ":")
		all = append(all, adapt.Event{Group: group, Name: event})
	}
	return all
}

// release returns a kernel version as 1000 times major plus minor.
func release(text string) int {
	major, rest, _ := strings.Cut(text, ".")
	minor := strings.FieldsFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	a, _ := strconv.Atoi(major)
	b := 0
	if len(minor) > 0 {
		b, _ = strconv.Atoi(minor[0])
	}
	return a*1000 + b
}
