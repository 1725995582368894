// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/cdef"
	"btc/frontend/cpp"
	"btc/frontend/debuginfo"
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/internal/probe"
	"btc/targets/kernel"
)

// maxRounds bounds the inference of types. Types only grow, each in a few steps; a script that needs more rounds gets
// the errors of the last round.
const maxRounds = 32

// Check checks a script for a target. Errors and warnings are added to l; if l has errors
// afterwards, no code may be generated from the Info.
//
// Files finds the debug information of programs, for uprobes that use names from it; nil if none may be read.
func Check(script *ast.Script, t *kernel.Target, files *debuginfo.Finder, l *diag.List) *Info {
	c := &checker{
		files: files,
		info:  &Info{Script: script, Target: t}, t: t, l: l,
		functions: functionTable(), maps: map[string]*mapState{}, params: map[int]*Param{},
		subprogs: map[string]*function{}, reported: map[report]bool{}, warned: map[string]bool{},
	}
	c.header()
	c.items()
	c.unsafePoints = len(c.info.Unsafe)
	// Types are inferred in rounds that report nothing; the last round reports.
	for range maxRounds {
		c.l, c.changed = new(diag.List), false
		c.round()
		if !c.changed && (c.l.HasErrors() || !c.seedMaps()) && !c.readOnly(l) {
			break
		}
	}
	c.l, c.final, c.reported = l, true, map[report]bool{}
	c.round()
	c.finish()
	return c.info
}

// readOnly gives an integer type to maps that are read but never written: in the language they are 0. It reports
// whether there are any.
func (c *checker) readOnly(l *diag.List) bool {
	found := false
	for _, m := range c.order {
		if m.onlyRead != nil && !m.written && m.agg == nil && m.Value == nil {
			m.Value, found = types.Literal(0), true
			if c.cut { // the skipped part may write it
				continue
			}
			d := l.Add(diag.NeverWritten, m.onlyRead.Span(), "%s is read, but never written: it is always 0", m.Name)
			var names []string
			for _, other := range c.order {
				if other.written {
					names = append(names, strings.TrimPrefix(other.Name, "@"))
				}
			}
			suggest(d, strings.TrimPrefix(m.Name, "@"), "@", names)
		}
	}
	return found
}

// checker is the state of one Check.
type checker struct {
	info      *Info
	t         *kernel.Target
	files     *debuginfo.Finder // nil if no files may be read
	env       *cdef.Env
	l         *diag.List // the current list of diagnostics
	functions map[string]*Function
	maps      map[string]*mapState
	subprogs  map[string]*function // functions of the script
	// cut is set when a part of the script was skipped because it is too large.
	cut bool
	// tooManyPrograms is set when the limit of programs has been reported.
	tooManyPrograms bool
	order           []*mapState
	params          map[int]*Param
	clauses         []*clause
	reported        map[report]bool // in the last round
	unsafePoints    int             // number of attach points in Info.Unsafe, the rest are calls
	warned          map[string]bool // unstable features already warned about
	final           bool            // the round that reports
	changed         bool            // a type grew in this round
	spare           []Expr          // see newExpr
	guesses         int             // unknown names so far, see maxGuesses
}

// clause is one probe of the script.
type clause struct {
	index  int
	probe  *ast.Probe
	scope  *scope
	bodies []*body
}

// fail reports an error or warning; hints and notes can be added to the result. The attach points of a clause often
// have the same errors: at each position only the first of a kind is reported.
func (c *checker) fail(code diag.Code, at ast.Node, format string, args ...any) *diag.Diagnostic {
	d := &diag.Diagnostic{Code: code, Span: at.Span(), Message: fmt.Sprintf(format, args...)}
	c.cut = c.cut || code == diag.TooLarge
	if x, ok := at.(ast.Expr); ok && code.Severity() == diag.Error && c.ofParameters(x) {
		d.Hint("%s", giveValue)
	}
	if key := (report{code, d.Span}); !c.reported[key] || !c.final {
		c.reported[key] = true
		c.l.Append(d)
	}
	return d
}

// ofParameters records the parameters in an invalid expression: it may be valid once their values are known. It
// reports whether there are any.
func (c *checker) ofParameters(x ast.Expr) bool {
	found := false
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Positional:
			found = true
			c.needsValue(n.N)
		case *ast.Call:
			if s, ok := optionName(n); ok {
				found = true
				if c.info.NeedsOption == nil {
					c.info.NeedsOption = map[string]bool{}
				}
				c.info.NeedsOption[s] = true
			}
		}
		return true
	})
	return found
}

// optionName returns the name in "getopt(name, ...)".
func optionName(x *ast.Call) (string, bool) {
	if x.Func.Text != "getopt" || len(x.Args) == 0 {
		return "", false
	}
	s, ok := ast.Unparen(x.Args[0]).(*ast.StringLit)
	if !ok {
		return "", false
	}
	return s.Value, true
}

// report is where a kind of diagnostic was reported.
type report struct {
	code diag.Code
	at   diag.Span
}

// unsupported reports a construct of the language that this compiler does not support yet.
func (c *checker) unsupported(at ast.Node, format string, args ...any) *diag.Diagnostic {
	return c.fail(diag.NotSupported, at, "not supported: %s", fmt.Sprintf(format, args...))
}

// header reads the C text and the config block.
func (c *checker) header() {
	c.info.Config = defaultConfig()
	for _, item := range c.info.Script.Header {
		if item, ok := item.(*ast.Config); ok {
			c.config(item)
		}
	}
	unit := c.info.Script.C
	if unit == nil {
		unit = cpp.Read(c.info.Script.CText(), cdef.Predefined(c.t), c.l)
	}
	c.env = cdef.Read(unit, c.t, c.l)
}

// items resolves declarations and attach points.
func (c *checker) items() {
	probes := 0
	for _, item := range c.info.Script.Items {
		switch item := item.(type) {
		case *ast.MapDecl:
			c.declareMap(item)
		case *ast.Func:
			c.subprogram(item)
		case *ast.Probe:
			c.clause(probes, item)
			probes++
		}
	}
	if probes == 0 && !c.l.HasErrors() {
		c.l.Add(diag.NoProbes, c.info.Script.Span(), "the script has no probes")
	}
}

// clause resolves the attach points of one probe into programs.
func (c *checker) clause(index int, p *ast.Probe) {
	cl := &clause{index: index, probe: p, scope: resolveScopes(c, p)}
	c.clauses = append(c.clauses, cl)
	shared := map[string]*body{}
	for _, ap := range p.Points {
		// An iterator has its own kind of objects, and the run ends with it.
		if len(p.Points) > 1 && ap.Provider == probe.Iter {
			c.fail(diag.BadAttachPoint, ap, "iter probe only supports one attach point.")
			return
		}
		points := c.points(ap, cl.scope.args)
		if c.tooMany(ap, len(points)) {
			return
		}
		for _, point := range points {
			if cl.scope.args && c.leftOut(ap, point) {
				continue
			}
			key := cl.key(point)
			b := shared[key]
			if b == nil {
				b = newBody(c, cl, point)
				shared[key] = b
				cl.bodies = append(cl.bodies, b)
			}
			b.sharing = append(b.sharing, point)
			c.info.Programs = append(c.info.Programs, &Program{Clause: index, Probe: p, Point: point, Body: b.out})
		}
	}
}

// leftOut reports whether an attach point of a clause that reads args is skipped because the target does not know
// them, as missing_probes allows.
func (c *checker) leftOut(at ast.Node, p *Point) bool {
	if p.Missing == "error" || p.Pattern || p.ofBPF() {
		return false
	}
	known := true
	switch p.Kind {
	case probe.Tracepoint:
		_, known = c.t.Tracepoint(p.Target, p.Name)
	case probe.Fentry, probe.Fexit, probe.RawTracepoint:
		known = len(c.typedMembers(p)) > 0
	}
	if !known && p.Missing == "warn" {
		name := p.Name
		if p.Target != "" {
			name = p.Target + ":" + name
		}
		c.fail(diag.NotInTarget, at, "No matches for %s %s. Skipping.", p.Kind, name).
			Hint("the target does not know its arguments, which the clause reads")
	}
	return !known
}

// key returns a string that is equal for attach points with equal facts for a clause's body.
func (cl *clause) key(p *Point) string {
	switch {
	case cl.scope.probe:
		return p.Text
	case cl.scope.args:
		return p.Kind + ":" + p.Target + ":" + p.Name
	}
	return p.Kind
}

// maxPrograms is the maximum number of programs of an object.
const maxPrograms = 4096

// maxMaps is the maximum number of the script's maps; the object needs some more of its own.
const maxMaps = 1000

// tooMany reports an error if n more programs exceed the limit of a script.
func (c *checker) tooMany(at ast.Node, n int) bool {
	most := min(c.limit("max_bpf_progs"), maxPrograms)
	if len(c.info.Programs)+n <= most {
		return false
	}
	if c.tooManyPrograms { // once for the script, not for each clause
		return true
	}
	c.tooManyPrograms = true
	hint := "use narrower patterns, or raise max_bpf_progs in the config block"
	if most == maxPrograms {
		hint = "an object has at most 4096 programs, whatever max_bpf_progs says: use narrower patterns, or split the script"
	}
	c.fail(diag.BadAttachPoint, at, "Your program is trying to generate more than %d BPF programs, which exceeds the current limit of %d", most, most).
		Hint("%s", hint)
	return true
}

// limit returns the value of a numeric setting.
func (c *checker) limit(name string) int {
	n, _ := strconv.Atoi(c.info.Config.Values[name])
	return n
}

// round types every body once.
func (c *checker) round() {
	for _, m := range c.order {
		m.begin(c.cut)
	}
	for _, p := range c.params {
		p.Int, p.Str = false, false
	}
	c.info.Unsafe = c.info.Unsafe[:c.unsafePoints]
	c.info.Options = nil
	for _, cl := range c.clauses {
		for _, b := range cl.bodies {
			b.run()
		}
	}
}

// seedMaps gives a type to maps that are only ever computed from themselves, as
// in "@x = @x + nsecs": that of their initial zero. It reports
// whether there are any.
func (c *checker) seedMaps() bool {
	seeded := false
	for _, m := range c.order {
		if m.written && m.Value == nil && m.agg == nil {
			m.Value, seeded = types.Literal(0), true
		}
	}
	return seeded
}

// finish fixes what depends on all uses together and reports what is still undecided.
func (c *checker) finish() {
	if len(c.order) > maxMaps {
		c.l.Add(diag.TooLarge, c.order[maxMaps].keyAt, "the script has more than %d maps", maxMaps)
	}
	c.mapDocs()
	for _, m := range c.order {
		c.finishMap(m)
	}
	for _, cl := range c.clauses {
		for _, b := range cl.bodies {
			b.finishVars()
		}
	}
	c.finishSubprogs()
	for _, n := range slices.Sorted(maps.Keys(c.params)) {
		c.info.Params = append(c.info.Params, c.params[n])
	}
}
