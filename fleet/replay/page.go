// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/diag"
	"btc/frontend/expand"
	"btc/frontend/parse"
	"btc/internal/manifest"
	"btc/internal/profile"
	"btc/loader/format"
	"btc/loader/metrics"
	"btc/loader/output"
	"btc/loader/render"
	"btc/report/page"
)

// Page returns what a page shows of a recording; see Run. With an error, it has what precedes it, or is nil.
func Page(name string, in io.Reader, opts Options) (d *page.Data, cut bool, err error) {
	s := &pageSink{b: page.NewBuilder()}
	s.b.Data.File = profile.Printable(name)
	opts.Out, opts.Err = io.Discard, io.Discard
	opts.Format = &output.Format{Name: "html", Document: true, Binary: true, New: func(r *output.Run) output.Sink {
		s.begin(r)
		return s
	}}
	opts.seen = func(at time.Time) { s.end = at }
	opts.head = func(line gjson.Result) { s.head(line) }
	cut, err = Run(name, in, opts)
	if s.Run == nil {
		return nil, cut, err
	}
	s.finish()
	s.b.Data.Part = opts.part(s.first.Started)
	return s.b.Finish(), cut, err
}

// part says which part of a run that started at a time is replayed; "": all of it.
func (o *Options) part(started time.Time) string {
	var words []string
	for _, x := range []struct {
		word string
		Moment
	}{{"from", o.From}, {"to", o.To}} {
		if x.Given {
			words = append(words, x.word+" "+x.in(started).Sub(started).Round(time.Microsecond).String())
		}
	}
	if words == nil {
		return ""
	}
	return strings.Join(words, " ") + " after its start"
}

// pageSink is the sink of a page.
type pageSink struct {
	*output.Run
	b      *page.Builder
	plain  format.Env
	calls  map[diag.Position]*call
	fields map[*manifest.Map][]keyPart
	stacks map[diag.Position]string // names of the maps of stacks that calls printed
	first  *output.Run              // the object that the run began with
	end    time.Time
	piece  []byte
	losses map[string]uint64
}

// keyPart is a part of a key, without parts of its own.
type keyPart struct {
	name string
	off  int
	*manifest.Layout
}

func keyParts(dst []keyPart, p keyPart) []keyPart {
	if p.Kind != "tuple" && p.Kind != "record" {
		return append(dst, p)
	}
	for i := range p.Fields {
		f := &p.Fields[i]
		if f.BitSize > 0 {
			return append(dst, p)
		}
	}
	for i := range p.Fields {
		f := &p.Fields[i]
		name := f.Name
		if name == "" {
			name = p.name + "." + strconv.Itoa(i)
		}
		dst = keyParts(dst, keyPart{name, p.off + f.Off, &f.Layout})
	}
	return dst
}

func isStack(l *manifest.Layout) bool { return l.Kind == "kstack" || l.Kind == "ustack" }

// begin notes a run. Another object that replaced the one before goes on with its maps.
func (s *pageSink) begin(r *output.Run) {
	s.Run = r
	s.plain = *r.Env
	s.plain.Escape, s.plain.Trailer = false, ""
	s.calls, s.fields, s.stacks = callsOf(r.Manifest), map[*manifest.Map][]keyPart{}, map[diag.Position]string{}
	r.Message = func(text string) { s.message(text, false, 0) }
	r.MessageNow = r.Message
	d := &s.b.Data
	if s.first != nil {
		s.message("another object replaced the one of the script here (btrun --reload)", false, 0)
		return
	}
	s.first, s.end = r, r.Started
	m := r.Manifest
	d.Started = float64(r.Started.UnixMicro()) / 1000
	if r.Env.Local != nil {
		d.Zone, d.Offset = r.Env.Local(r.Started).Zone()
	}
	d.Host, d.Arch, d.Compiler = profile.Printable(r.Host), profile.Printable(r.Arch), profile.Printable(m.Compiler)
	if d.Object == "" {
		d.Object = profile.Printable(m.Object.SHA256)
	}
	d.Script.File, d.Script.Source = profile.Printable(m.Script.File), printableSource(m.Script.Source)
	d.Script.Clauses = s.clauses()
}

func printableSource(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		words := strings.Split(strings.TrimSuffix(line, "\r"), "\t")
		for j, w := range words {
			words[j] = profile.Printable(w)
		}
		lines[i] = strings.Join(words, "\t")
	}
	return strings.Join(lines, "\n")
}

// head notes what only the first line of a recording has.
func (s *pageSink) head(line gjson.Result) {
	d := &s.b.Data
	d.Kernel = profile.Printable(line.Get("kernel").String())
	if v := line.Get("object").String(); v != "" {
		d.Object = profile.Printable(v)
	}
	d.Params = nil
	for i, v := range line.Get("args").Array() {
		d.Params = append(d.Params, page.Param{Name: "$" + strconv.Itoa(i+1), Value: profile.Printable(v.String())})
	}
	line.Get("params").ForEach(func(k, v gjson.Result) bool {
		d.Params = append(d.Params, page.Param{Name: profile.Printable("--" + k.String()), Value: profile.Printable(v.String())})
		return true
	})
	d.Merged, d.ByHost, d.Hosts = line.Get("merged").Bool(), line.Get("by_host").Bool(), nil
	for _, v := range line.Get("hosts").Array() {
		d.Hosts = append(d.Hosts, profile.Printable(v.String()))
	}
}

// clauses returns the clauses of the script with the maps that each changes.
func (s *pageSink) clauses() []page.Clause {
	m := s.Manifest
	src := diag.NewSource(m.Script.File, m.Script.Source)
	script := parse.Script(src, &diag.List{}, expand.Values(check.IsValue))
	if script == nil {
		return nil
	}
	var all []page.Clause
	for _, item := range script.Items {
		x, ok := item.(*ast.Probe)
		if !ok {
			continue
		}
		at := x.Span()
		c := page.Clause{Line: src.Position(at.Start).Line, End: src.Position(at.End).Line}
		for _, p := range x.Points {
			c.Probes = append(c.Probes, profile.Printable(p.Raw))
		}
		found := map[string]bool{}
		ast.Inspect(x, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				found[mapOf(n.Left)] = true
			case *ast.IncDec:
				found[mapOf(n.X)] = true
			}
			return true
		})
		delete(found, "")
		c.Maps = slices.Sorted(maps.Keys(found))
		all = append(all, c)
	}
	return all
}

// mapOf returns the name of the map that an expression is, or is an element of; "": none.
func mapOf(x ast.Expr) string {
	switch x := ast.Unparen(x).(type) {
	case *ast.Map:
		return "@" + strings.TrimPrefix(x.Name, "@")
	case *ast.MapElem:
		return mapOf(x.Map)
	}
	return ""
}

// deletes reports whether the script deletes elements of a map: then they are its own state.
func (s *pageSink) deletes(name string) bool {
	m := s.Manifest
	script := parse.Script(diag.NewSource(m.Script.File, m.Script.Source), &diag.List{}, expand.Values(check.IsValue))
	found := false
	if script == nil {
		return false
	}
	for _, item := range script.Items {
		ast.Inspect(item, func(n ast.Node) bool {
			if c, ok := n.(*ast.Call); ok && c.Func.Text == "delete" && len(c.Args) > 0 && mapOf(c.Args[0]) == name {
				found = true
			}
			return true
		})
	}
	return found
}

func (s *pageSink) since() float64 {
	at := s.At
	if at.IsZero() {
		at = s.end
	}
	return page.Milliseconds(max(at.Sub(s.first.Started), 0))
}

// maxMessages bounds the messages of a page.
const maxMessages = 1000

func (s *pageSink) message(text string, isError bool, line int) {
	d := &s.b.Data
	if len(d.Messages) < maxMessages {
		d.Messages = append(d.Messages, page.Message{At: s.since(), Text: profile.Printable(text), Error: isError, Line: line})
	}
}

func (s *pageSink) Attached(n int)     { s.b.Data.Attached = n }
func (s *pageSink) Pinned(path string) { s.message("pinned to "+path, false, 0) }

// event notes what a call printed.
func (s *pageSink) event(e *format.Event, text []byte) {
	took := int64(-1)
	at := diag.Position{Line: e.Pos.Line, Col: e.Pos.Col}
	c, all := s.calls[at], values(e)
	if c != nil && len(c.names) != len(all) {
		c = nil
	}
	if d := c.duration(all); d >= 0 {
		took = int64(d)
	}
	var clock page.Clock
	if slices.ContainsFunc(all, func(v format.Value) bool { return isStack(v.Layout) }) {
		if c != nil && c.clock >= 0 {
			if n, ok := whole(all[c.clock]); ok && n <= math.MaxInt64/uint64(c.tick) {
				clock = page.Clock{Name: fmt.Sprintf("%s\x00%d:%d", s.Host, at.Line, at.Col), NS: n * uint64(c.tick)}
			}
		}
		s.sample(e, c, all, clock, took)
		text = foldStacks(text)
	}
	who := ""
	if i := c.process(); i >= 0 {
		who = string(s.plain.Append(nil, all[i]))
	}
	s.b.PrintBy(s.since(), clock, page.Call{Kind: e.Kind, Line: e.Pos.Line}, s.Host, who, string(text), took)
}

// process returns the index of the value that is the name of a process; -1: none.
func (c *call) process() int {
	switch {
	case c == nil:
		return -1
	case c.comm >= 0:
		return c.comm
	}
	return slices.Index(c.names, "comm") // as of @comm[tid], or args.comm
}

// whole returns the value of an integer.
func whole(v format.Value) (uint64, bool) {
	if v.Var || v.Layout.Kind != "int" || len(v.Bytes) < v.Layout.Size {
		return 0, false
	}
	return format.Uint(v.Layout, v.Bytes), true
}

// sample notes the stacks that a call printed, below the process that it names, with what took how long as their value.
func (s *pageSink) sample(e *format.Event, c *call, all []format.Value, clock page.Clock, took int64) {
	at := diag.Position{Line: e.Pos.Line, Col: e.Pos.Col}
	name, ok := s.stacks[at]
	if !ok {
		name = "stacks of " + e.Kind + "()"
		if probes := output.ProbesAt(s.Manifest, e.Pos); len(probes) > 0 {
			name = "stacks of " + shortened(strings.Join(probes, ", "))
		}
		for _, other := range s.stacks {
			if other == name {
				name = fmt.Sprintf("%s, %d:%d", name, at.Line, at.Col)
				break
			}
		}
		s.stacks[at] = name
	}
	label := c.process()
	if label < 0 && c != nil {
		label = c.pid
	}
	merged := s.b.Data.Merged
	m := s.b.Map(name, func() page.MapBuilder {
		b := page.MapBuilder{}
		b.Name, b.Shape, b.Line = profile.Printable(name), "count", e.Pos.Line
		if c != nil && c.took >= 0 {
			b.Shape, b.Unit = "sum", "ns"
		}
		if merged {
			b.Names, b.Host = append(b.Names, "host"), true
		}
		if label >= 0 {
			b.Names = append(b.Names, c.names[label])
		}
		return b
	})
	x := page.Element{A: 1, Path: []int{}}
	if m.Shape == "sum" {
		x.A = uint64(max(took, 0))
	}
	if merged {
		x.Parts = append(x.Parts, s.Host)
	}
	if label >= 0 {
		x.Parts = append(x.Parts, string(s.plain.Append(nil, all[label])))
	}
	for _, text := range x.Parts {
		x.Path = append(x.Path, s.b.Frame(text, "l"))
	}
	for _, kind := range []string{"ustack", "kstack"} {
		for _, v := range all {
			if v.Layout.Kind == kind && len(v.Bytes) >= v.Layout.Size {
				s.stack(&x, v)
			}
		}
	}
	m.Sample(s.since(), clock, &x)
}

// maxFolded is how many frames of a stack are in a line of text: the others are in the flame graph.
const maxFolded = 3

// foldStacks puts a text with stacks, which have a line for each frame, into one line.
func foldStacks(text []byte) []byte {
	var out []byte
	frame := false // the line before is a frame
	frames := 0    // of the stack
	for line := range bytes.Lines(text) {
		words := bytes.TrimSpace(line)
		if len(words) == 0 {
			continue
		}
		is := line[0] == ' ' || line[0] == '\t'
		if frames++; !is {
			frames = 0
		}
		switch {
		case frames == maxFolded+1:
			out = append(out, " ← …"...)
			continue
		case frames > maxFolded:
			continue
		case len(out) == 0:
		case is && frame:
			out = append(out, " ← "...)
		default:
			out = append(out, ' ')
		}
		out, frame = append(out, words...), is
	}
	if bytes.HasSuffix(text, []byte{'\n'}) {
		out = append(out, '\n')
	}
	return out
}

func (s *pageSink) Printf(e *format.Event, f *format.Format) {
	s.event(e, s.plain.Printf(nil, f, e.Values))
}

func (s *pageSink) Print(e *format.Event) { s.event(e, append(s.plain.Append(nil, e.Values[0]), '\n')) }

func (s *pageSink) Time(e *format.Event, text []byte) {
	s.event(&format.Event{Event: e.Event}, text)
}

func (s *pageSink) Join(e *format.Event, parts [][]byte, separator string) {
	var text []byte
	for i, part := range parts {
		if i > 0 {
			text = append(text, separator...)
		}
		text = append(text, part...)
	}
	s.event(&format.Event{Event: e.Event}, append([]byte(strings.TrimSuffix(string(text), "\n")), '\n'))
}

func (s *pageSink) Piece(e *format.Event, piece []byte, first, last bool) {
	if first {
		s.piece = s.piece[:0]
	}
	s.piece = append(s.piece, piece...)
	if last {
		s.event(e, append(s.piece, '\n'))
	}
}

func (s *pageSink) Diagnostic(d *output.Diagnostic) {
	if d.Muted {
		return
	}
	text := d.Text
	if d.Helper != "" {
		text = fmt.Sprintf("%s (%s: %d)", text, d.Helper, d.Code)
	}
	s.message(text, d.Severity == "ERROR", d.Pos.Line)
}

func (s *pageSink) Detached(d *output.Detachment) {
	s.b.Data.Coverage = append(s.b.Data.Coverage, profile.Printable(d.Probe+": "+d.Text()))
}

func (s *pageSink) Lost(n uint64) {}

func (s *pageSink) BeginTrials(string, []string) {}

func (s *pageSink) Trial(t *output.Trial) {
	text := fmt.Sprintf("%s %s: %v each, %d iterations", t.Mode, t.Name, t.Took, t.Iterations)
	if !t.Passed {
		text += ": failed"
	}
	s.message(text, !t.Passed, 0)
}

func (s *pageSink) EndTrials() {}

func (s *pageSink) Map(x *output.Map) { s.show(x, true) }

func (s *pageSink) Snapshot(all func(show func(*output.Map))) {
	all(func(x *output.Map) { s.show(x, false) })
	s.lost()
}

func (s *pageSink) End(all func(show func(*output.Map))) {
	s.b.Data.Ended = true
	s.Snapshot(all)
}

// lost notes the losses so far.
func (s *pageSink) lost() {
	if s.Losses == nil {
		return
	}
	s.losses = map[string]uint64{}
	for _, l := range s.Losses() {
		s.losses[l.Cause] += l.N
	}
}

// clears reports whether the script clears a map, or sets its values to zero.
func clears(m *manifest.Manifest, name string) bool {
	return slices.ContainsFunc(m.Events, func(e manifest.Event) bool { return e.Map == name && (e.Kind == "clear" || e.Kind == "zero") })
}

// describe returns the builder of a map.
func (s *pageSink) describe(m *manifest.Map) page.MapBuilder {
	b := page.MapBuilder{Signed: m.Signed(), Clears: clears(s.Manifest, m.Name), Counted: m.Shape == "avg" || m.Shape == "stats"}
	b.Name, b.Shape, b.Unit, b.Help, b.Scalar = profile.Printable(m.Name), m.Shape, profile.Printable(m.Unit), profile.Printable(m.Help), m.Scalar()
	b.Line = m.Pos.Line
	if m.Update != nil {
		b.Line = m.Update.Line
	}
	switch m.Shape {
	case "min", "max", "plain", "tseries":
		b.Level = true
	case "hist", "lhist":
		b.Histogram = true
		buckets := m.Buckets()
		b.Range, b.Decimal = buckets.Bounds, m.Shape == "lhist"
	}
	b.Interval = page.Milliseconds(time.Duration(m.Interval))
	b.Scratch = !m.Scalar() && m.Shape == "plain" && s.deletes(b.Name)
	for _, p := range s.parts(m) {
		if !isStack(p.Layout) {
			b.Names = append(b.Names, p.name)
		}
	}
	b.Host = s.b.Data.ByHost && len(b.Names) > 0
	return b
}

func (s *pageSink) parts(m *manifest.Map) []keyPart {
	all, ok := s.fields[m]
	if !ok {
		fields := metrics.Parts(m)
		for i := range fields {
			name := "key"
			if len(fields) > 1 {
				name += strconv.Itoa(i + 1)
			}
			if i < len(m.KeyNames) && m.KeyNames[i] != "" {
				name = m.KeyNames[i]
			}
			all = keyParts(all, keyPart{name, fields[i].Off, &fields[i].Layout})
		}
		s.fields[m] = all
	}
	return all
}

// show notes what a map has.
func (s *pageSink) show(x *output.Map, printed bool) {
	m := x.Map
	b := s.b.Map(m.Name, func() page.MapBuilder { return s.describe(m) })
	elems := make([]page.Element, 0, len(x.Elements))
	var points [][]page.Point
	for i := range x.Elements {
		el := &x.Elements[i]
		if m.Scalar() && !el.Set {
			continue
		}
		e := s.element(m, el)
		elems = append(elems, e)
		if m.Shape == "tseries" {
			var all []page.Point
			for _, p := range el.Points {
				end := render.Start(m, p.N).Add(time.Duration(m.Interval))
				all = append(all, page.Point{End: page.Milliseconds(end.Sub(s.first.Started)), Value: p.Value})
			}
			points = append(points, all)
		}
	}
	if m.Shape == "tseries" {
		b.Series(elems, points)
		return
	}
	b.Show(s.since(), elems, printed)
}

// element returns an element with its key.
func (s *pageSink) element(m *manifest.Map, el *render.Element) page.Element {
	e := page.Element{A: el.Value, N: el.Count, Buckets: el.Buckets}
	switch {
	case m.Shape == "count":
		e.A = el.Number(m)
	case m.Shape == "plain" && (m.Value.Kind == "int" || m.Value.Kind == "bool"):
		e.A = format.Uint(m.Value, el.Bytes)
	case m.Shape == "plain":
		text := s.plain.Append(nil, format.Value{Layout: m.Value, Bytes: el.Bytes})
		if isStack(m.Value) {
			text = bytes.TrimSpace(foldStacks(text))
		}
		e.A, e.Text = 0, string(text)
		if e.Text == "" {
			e.Text = " "
		}
	}
	all := s.parts(m)
	stacks := false
	for _, p := range all {
		if isStack(p.Layout) {
			stacks = true
			continue
		}
		text := "?"
		if p.off+p.Size <= len(el.Key) {
			text = string(s.plain.Append(nil, format.Value{Layout: p.Layout, Bytes: el.Key[p.off : p.off+p.Size]}))
		}
		e.Parts = append(e.Parts, text)
	}
	if !stacks {
		return e
	}
	e.Path = []int{}
	for _, text := range e.Parts {
		e.Path = append(e.Path, s.b.Frame(text, "l"))
	}
	for _, kind := range []string{"ustack", "kstack"} {
		for _, p := range all {
			if p.Kind == kind && p.off+p.Size <= len(el.Key) {
				s.stack(&e, format.Value{Layout: p.Layout, Bytes: el.Key[p.off:]})
			}
		}
	}
	return e
}

// stack appends the frames of a stack to the path of an element, the outermost first.
func (s *pageSink) stack(e *page.Element, v format.Value) {
	frames := s.plain.StackOf(v)
	if len(frames) == 0 && binary.NativeEndian.Uint64(v.Bytes) != 0 {
		e.Cut = page.CutLost
		e.Path = append(e.Path, s.b.Frame(profile.NoStack, "u"))
		return
	}
	kind := "u"
	if v.Layout.Kind == "kstack" {
		kind = "k"
	}
	whole := 0
	for i := len(frames) - 1; i >= 0; i-- {
		f := &frames[i]
		name, k := f.Sym, kind
		if f.Inlined {
			k = "i"
		} else {
			whole++
		}
		switch {
		case f.Address == format.UnwindFailure:
			name = "[unwind failure]"
			e.Cut = page.CutUnwind
		case name != "":
		case f.File != "":
			name = "[" + f.File[strings.LastIndexByte(f.File, '/')+1:] + "]"
		case kind == "k":
			name = "[kernel]"
		default:
			name = profile.NoStack
		}
		e.Path = append(e.Path, s.b.Frame(name, k))
	}
	if d := v.Layout.Depth; d > 0 && whole >= d && e.Cut == page.Whole {
		e.Cut = page.CutDepth
	}
}

// finish notes what is known at the end.
func (s *pageSink) finish() {
	d := &s.b.Data
	d.Duration = page.Milliseconds(max(s.end.Sub(s.first.Started), 0))
	for _, cause := range slices.Sorted(maps.Keys(s.losses)) {
		if n := s.losses[cause]; n > 0 {
			d.Losses = append(d.Losses, page.Loss{Cause: profile.Printable(cause), N: page.Number{Value: n}})
		}
	}
	for i := range d.Script.Clauses {
		c := &d.Script.Clauses[i]
		for at, name := range s.stacks {
			if at.Line >= c.Line && at.Line <= c.End {
				c.Maps = append(c.Maps, profile.Printable(name))
			}
		}
		slices.Sort(c.Maps)
		if d.Events == nil {
			continue
		}
		for j, call := range d.Events.Calls {
			if call.Line >= c.Line && call.Line <= c.End {
				c.Calls = append(c.Calls, j)
			}
		}
	}
}
