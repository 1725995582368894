// SPDX-License-Identifier: Apache-2.0

package page

import (
	"encoding/binary"
	"math"
	"regexp"
	"slices"
	"strings"

	"btc/internal/profile"
)

// Limits of a page, which keep it small.
const (
	maxRows    = 100_000 // of a map
	maxCells   = 600_000 // of a map: values of all columns
	maxColumns = 600     // of a map
	maxLines   = 200_000 // that the script printed
	maxNames   = 10_000  // of processes that printed them
)

// Builder makes the data of a page from what a run reports, in order of time.
type Builder struct {
	Data    Data
	maps    map[string]*MapBuilder
	frames  map[Frame]int
	events  map[string]int // texts
	hosts   map[string]int // of the events, as recordings name them
	times   []moment       // of the lines
	clocks  map[string]float64
	names   map[string]int // of processes
	partial map[string]*partial
}

// moment is when something was printed: when it was read, in milliseconds, and, with clock, in nanoseconds of a clock that the
// script read.
type moment struct {
	at    float64
	clock string
	ns    uint64
}

// NewBuilder returns a builder.
func NewBuilder() *Builder {
	return &Builder{maps: map[string]*MapBuilder{}, frames: map[Frame]int{}, events: map[string]int{}, hosts: map[string]int{}, clocks: map[string]float64{}, names: map[string]int{}, partial: map[string]*partial{}}
}

// Frame returns the index of a frame.
func (b *Builder) Frame(name, kind string) int {
	f := Frame{profile.Printable(name), kind}
	i, ok := b.frames[f]
	if !ok {
		i = len(b.Data.Frames)
		b.frames[f] = i
		b.Data.Frames = append(b.Data.Frames, f)
	}
	return i
}

// Map returns the builder of a map, which begin describes the first time.
func (b *Builder) Map(name string, begin func() MapBuilder) *MapBuilder {
	m := b.maps[name]
	if m == nil {
		x := begin()
		m = &x
		m.page, m.rows, m.step = b, map[string]int32{}, 1
		b.maps[name] = m
	}
	return m
}

// Element is an element of a map as a run reports it.
type Element struct {
	Parts   []string // of the key, without stacks
	Path    []int    // frames from the root on, with the parts of the key before them; nil: the key has no stack
	A, N    uint64   // N: the count of avg and stats
	Buckets []uint64
	Text    string // of a value that is not a number
	Cut     Cut
}

// Cut says why a stack is not whole.
type Cut int

// The reasons.
const (
	Whole Cut = iota
	CutDepth
	CutUnwind
	CutLost
)

// cell is a value of a row, or of a bucket of it.
type cell struct {
	row, bucket int32
	a, n        uint64
}

// column has the cells of an interval, in order.
type column struct {
	end   float64
	cells []cell
}

// MapBuilder makes a Map. Names of the parts of the key are set by who makes it.
type MapBuilder struct {
	Map
	Names     []string // of the parts of the key
	Signed    bool
	Clears    bool // the script clears it: what it prints is of an interval
	Histogram bool
	Counted   bool // avg, stats
	Range     func(bucket int) (low, high int64)

	page    *Builder
	rows    map[string]int32 // by their identity
	parts   [][]string       // of each row
	paths   [][]int
	cuts    []Cut
	texts   []string
	last    map[[2]int32]cell // values that were last shown
	columns []column
	open    int // number of intervals that the last column has
	step    int // number of intervals that a column has
	cells   int
	key     []byte
	samples []sample
}

// sample is a stack that the script printed.
type sample struct {
	moment
	t   int // in microseconds
	row int32
	a   uint64
}

// row returns the number of the row of an element.
func (m *MapBuilder) row(e *Element) int32 {
	m.key = m.key[:0]
	for _, p := range e.Parts {
		m.key = append(append(m.key, p...), 0)
	}
	for _, f := range e.Path {
		m.key = binary.LittleEndian.AppendUint32(m.key, uint32(f))
	}
	r, ok := m.rows[string(m.key)]
	if !ok {
		r = int32(len(m.parts))
		m.rows[string(m.key)] = r
		parts := make([]string, len(e.Parts))
		for i, p := range e.Parts {
			parts[i] = profile.Printable(p)
		}
		m.parts, m.paths, m.cuts, m.texts = append(m.parts, parts), append(m.paths, slices.Clone(e.Path)), append(m.cuts, e.Cut), append(m.texts, "")
	}
	if e.Text != "" {
		m.texts[r] = profile.Printable(e.Text)
	}
	return r
}

// Show notes the elements that the map has at a time. printed says that the script printed them.
func (m *MapBuilder) Show(at float64, elems []Element, printed bool) {
	now := make(map[[2]int32]cell, len(elems))
	add := func(row int32, bucket int, a, n uint64) {
		k := [2]int32{row, int32(bucket)}
		c := now[k]
		c.row, c.bucket, c.a, c.n = row, int32(bucket), c.a+a, c.n+n
		now[k] = c
	}
	for i := range elems {
		e := &elems[i]
		row := m.row(e)
		if !m.Histogram {
			add(row, 0, e.A, e.N)
			continue
		}
		for b, n := range e.Buckets {
			if n != 0 {
				add(row, b, n, 0)
			}
		}
	}
	cells := make([]cell, 0, len(now))
	for k, c := range now {
		if was, ok := m.last[k]; ok && !m.Level && !m.restarted(c, was) {
			c.a, c.n = c.a-was.a, c.n-was.n
		}
		if m.Level || c.a != 0 || c.n != 0 {
			cells = append(cells, c)
		}
	}
	if m.last = now; m.Clears && printed {
		m.last = nil
	}
	m.add(at, cells)
}

// restarted reports whether a value began anew since it was last shown.
func (m *MapBuilder) restarted(c, was cell) bool {
	if m.Counted {
		return c.n < was.n
	}
	return c.a < was.a && !(m.Signed && !m.Histogram)
}

func compare(a, b cell) int {
	if a.row != b.row {
		return int(a.row - b.row)
	}
	return int(a.bucket - b.bucket)
}

// add appends the cells of an interval to the columns.
func (m *MapBuilder) add(at float64, cells []cell) {
	slices.SortFunc(cells, compare)
	if n := len(m.columns); n > 0 && m.open < m.step {
		m.cells -= len(m.columns[n-1].cells)
		m.columns[n-1] = m.join(m.columns[n-1], column{at, cells})
		m.cells += len(m.columns[n-1].cells)
		m.open++
	} else {
		m.columns = append(m.columns, column{at, cells})
		m.cells += len(cells)
		m.open = 1
	}
	for len(m.columns) > 1 && (m.cells > maxCells || len(m.columns) > maxColumns) {
		m.halve()
	}
}

// halve makes one column of each two.
func (m *MapBuilder) halve() {
	half := m.columns[:0]
	m.cells = 0
	for i := 0; i < len(m.columns); i += 2 {
		c := m.columns[i]
		if i+1 < len(m.columns) {
			c = m.join(c, m.columns[i+1])
		}
		half = append(half, c)
		m.cells += len(c.cells)
	}
	if len(m.columns)%2 == 0 {
		m.open += m.step
	}
	clear(m.columns[len(half):])
	m.columns, m.step = half, 2*m.step
}

// join returns the column of two intervals: their sum, or, of levels, the later one.
func (m *MapBuilder) join(a, b column) column {
	if m.Level {
		return b
	}
	out := make([]cell, 0, max(len(a.cells), len(b.cells)))
	x, y := a.cells, b.cells
	for len(x) > 0 || len(y) > 0 {
		switch {
		case len(y) == 0 || len(x) > 0 && compare(x[0], y[0]) < 0:
			out, x = append(out, x[0]), x[1:]
		case len(x) == 0 || compare(x[0], y[0]) > 0:
			out, y = append(out, y[0]), y[1:]
		default:
			c := x[0]
			c.a, c.n = c.a+y[0].a, c.n+y[0].n
			out, x, y = append(out, c), x[1:], y[1:]
		}
	}
	return column{b.end, out}
}

// Clock is a reading of a clock in nanoseconds, and what tells the clock from others; the zero value is none.
type Clock struct {
	Name string
	NS   uint64
}

// moment notes that something was read at a time, which is later than a clock that the script read for it: by little, for one of all.
func (b *Builder) moment(at float64, c Clock) moment {
	if c.Name != "" {
		if d, ok := b.clocks[c.Name]; !ok || at-float64(c.NS)/1e6 < d {
			b.clocks[c.Name] = at - float64(c.NS)/1e6
		}
	}
	return moment{at, c.Name, c.NS}
}

// micros returns a time in microseconds.
func (b *Builder) micros(m moment) int {
	if m.clock != "" {
		return int(math.Round((float64(m.ns)/1e6 + b.clocks[m.clock]) * 1000))
	}
	return int(m.at * 1000)
}

// Sample notes a stack that the script printed.
func (m *MapBuilder) Sample(at float64, c Clock, e *Element) {
	if m.Samples == nil {
		m.Events, m.Samples = true, &Samples{Clock: true}
	}
	if len(m.samples) == maxLines || len(m.parts) == maxRows {
		m.Samples.Omitted++
		return
	}
	m.Samples.Clock = m.Samples.Clock && c.Name != ""
	m.samples = append(m.samples, sample{moment: m.page.moment(at, c), row: m.row(e), a: e.A})
}

// finishSamples writes the samples in order of time.
func (m *MapBuilder) finishSamples() {
	for i := range m.samples {
		m.samples[i].t = m.page.micros(m.samples[i].moment)
	}
	slices.SortStableFunc(m.samples, func(a, b sample) int { return a.t - b.t })
	s, last := m.Samples, 0
	for _, x := range m.samples {
		s.T, s.Row = append(s.T, x.t-last), append(s.Row, int(x.row))
		if last = x.t; m.Shape != "count" {
			s.A = append(s.A, Number{Value: x.a})
		}
	}
	m.Cells = len(m.samples)
}

// Point is the value of an interval of a time series.
type Point struct {
	End   float64
	Value uint64
}

// Series notes the intervals of the elements of a tseries; a later call has precedence.
func (m *MapBuilder) Series(elems []Element, points [][]Point) {
	at := map[float64]int{}
	for i := range m.columns {
		at[m.columns[i].end] = i
	}
	for i := range elems {
		row := m.row(&elems[i])
		for _, p := range points[i] {
			j, ok := at[p.End]
			if !ok {
				j = len(m.columns)
				at[p.End] = j
				m.columns = append(m.columns, column{end: p.End})
			}
			c := &m.columns[j]
			if k := slices.IndexFunc(c.cells, func(x cell) bool { return x.row == row }); k >= 0 {
				c.cells[k].a = p.Value
			} else {
				c.cells = append(c.cells, cell{row: row, a: p.Value})
			}
		}
	}
	slices.SortFunc(m.columns, func(a, b column) int {
		if a.end < b.end {
			return -1
		}
		return 1
	})
	m.columns = m.columns[max(len(m.columns)-2*maxColumns, 0):]
}

// finish returns the map.
func (m *MapBuilder) finish() *Map {
	keep := m.keep()
	m.Rows = len(keep)
	number := make([]int32, len(m.parts)) // of each row in the page, -1: none
	for i := range number {
		number[i] = -1
	}
	for i, r := range keep {
		number[r] = int32(i)
	}
	for i, name := range m.Names {
		k := &Key{Name: profile.Printable(name), Numeric: true, At: make([]int, len(keep))}
		seen := map[string]int{}
		for j, r := range keep {
			text := ""
			if i < len(m.parts[r]) {
				text = m.parts[r][i]
			}
			n, ok := seen[text]
			if !ok {
				n = len(k.Texts)
				seen[text] = n
				k.Texts = append(k.Texts, text)
				k.Numeric = k.Numeric && isNumber(text)
			}
			k.At[j] = n
		}
		m.Keys = append(m.Keys, k)
	}
	if slices.ContainsFunc(m.texts, func(s string) bool { return s != "" }) {
		for _, r := range keep {
			m.Texts = append(m.Texts, m.texts[r])
		}
	}
	if m.step > 1 {
		m.Joined = m.step
	}
	m.encode(number)
	if m.Samples != nil {
		m.finishSamples()
	}
	if slices.ContainsFunc(m.paths, func(p []int) bool { return p != nil }) {
		m.tree(keep)
		m.countCuts()
	}
	return &m.Map
}

func isNumber(text string) bool {
	if text == "" {
		return false
	}
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && !(i == 0 && c == '-' && len(text) > 1) {
			return false
		}
	}
	return true
}

// keep returns the rows that the page has: all, or those with the largest values.
func (m *MapBuilder) keep() []int32 {
	rows := make([]int32, len(m.parts))
	for i := range rows {
		rows[i] = int32(i)
	}
	if len(rows) <= maxRows {
		return rows
	}
	sums := make([]float64, len(rows))
	exact := make([]uint64, len(rows))
	for _, c := range m.columns {
		for _, x := range c.cells {
			sums[x.row] += m.float(x.a)
			exact[x.row] += x.a
		}
	}
	slices.SortStableFunc(rows, func(a, b int32) int {
		switch {
		case sums[a] > sums[b]:
			return -1
		case sums[a] < sums[b]:
			return 1
		}
		return 0
	})
	m.Omitted = &Omitted{Rows: len(rows) - maxRows}
	for _, r := range rows[maxRows:] {
		m.Omitted.Value.Value += exact[r]
	}
	m.Omitted.Value.Signed = m.Signed
	rows = rows[:maxRows]
	slices.Sort(rows)
	return rows
}

func (m *MapBuilder) float(v uint64) float64 {
	if m.Signed {
		return float64(int64(v))
	}
	return float64(v)
}

// encode writes the columns as the page has them.
func (m *MapBuilder) encode(number []int32) {
	first, last := int32(math.MaxInt32), int32(-1)
	if m.Histogram {
		for _, c := range m.columns {
			for _, x := range c.cells {
				first, last = min(first, x.bucket), max(last, x.bucket)
			}
		}
		for b := first; b <= last; b++ {
			low, high := m.Range(int(b))
			bound := func(v, none int64) Bound {
				if v == none {
					return nil
				}
				return &v
			}
			m.Bounds = append(m.Bounds, [2]Bound{bound(low, math.MinInt64), bound(high, math.MaxInt64)})
		}
	}
	m.Columns, m.Times = []Column{}, []float64{}
	for _, c := range m.columns {
		x := Column{Rows: []int{}, A: []Number{}}
		was := 0
		for _, y := range c.cells {
			r := int(number[y.row])
			if r < 0 {
				continue
			}
			x.Rows = append(x.Rows, r-was)
			was = r
			x.A = append(x.A, Number{y.a, m.Signed && !m.Histogram})
			if m.Counted {
				x.Count = append(x.Count, Number{Value: y.n})
			}
			if m.Histogram {
				x.Buckets = append(x.Buckets, int(y.bucket-first))
			}
		}
		m.Cells += len(x.A)
		m.Times, m.Columns = append(m.Times, c.end), append(m.Columns, x)
	}
}

// tree makes the tree of the stacks of rows.
func (m *MapBuilder) tree(keep []int32) {
	t := &Tree{Leaf: make([]int, len(keep)), Depth: []int{}, Frame: []int{}}
	frames := m.page.Data.Frames
	order := make([]int, len(frames)) // of each frame among all, by name
	sorted := make([]int, len(frames))
	for i := range sorted {
		sorted[i] = i
	}
	slices.SortFunc(sorted, func(a, b int) int {
		if c := strings.Compare(frames[a].Name, frames[b].Name); c != 0 {
			return c
		}
		return strings.Compare(frames[a].Kind, frames[b].Kind)
	})
	for i, f := range sorted {
		order[f] = i
	}
	rows := make([]int, len(keep))
	for i := range rows {
		rows[i] = i
	}
	slices.SortFunc(rows, func(a, b int) int {
		return slices.CompareFunc(m.paths[keep[a]], m.paths[keep[b]], func(x, y int) int { return order[x] - order[y] })
	})
	var last, open []int // the path of the row before, and its nodes
	for _, r := range rows {
		path := m.paths[keep[r]]
		same := 0
		for same < len(last) && same < len(path) && last[same] == path[same] {
			same++
		}
		open = open[:same]
		for _, f := range path[same:] {
			open = append(open, len(t.Frame))
			t.Depth, t.Frame = append(t.Depth, len(open)-1), append(t.Frame, f)
		}
		t.Leaf[r] = -1
		if len(open) > 0 {
			t.Leaf[r] = open[len(open)-1]
		}
		last = path
	}
	m.Tree = t
}

// countCuts counts the stacks that are not whole, by their values.
func (m *MapBuilder) countCuts() {
	c := &CutStacks{}
	add := func(row int32, n uint64) {
		c.Of.Value += n
		switch m.cuts[row] {
		case CutDepth:
			c.Depth.Value += n
		case CutUnwind:
			c.Unwind.Value += n
		case CutLost:
			c.Lost.Value += n
		}
	}
	for _, col := range m.columns {
		for _, x := range col.cells {
			if m.Counted {
				add(x.row, x.n)
			} else {
				add(x.row, x.a)
			}
		}
	}
	for _, x := range m.samples {
		add(x.row, 1)
	}
	if c.Depth.Value+c.Unwind.Value+c.Lost.Value > 0 && !m.Level && !m.Signed {
		m.Cut = c
	}
}

// partial is a line that has no end yet.
type partial struct {
	at   moment
	call int
	took int64
	who  string
	text string
}

// Print notes what a call of the script printed at a time; took is a duration in nanoseconds, or -1.
func (b *Builder) Print(at float64, c Call, host, text string, took int64) {
	b.PrintBy(at, Clock{}, c, host, "", text, took)
}

// PrintBy is Print with the clock that the script read, if any, and with the name of the process; "": unknown.
func (b *Builder) PrintBy(at float64, clock Clock, c Call, host, who, text string, took int64) {
	when := b.moment(at, clock)
	e := b.Data.Events
	if e == nil {
		e = &Events{}
		b.Data.Events = e
	}
	call := slices.Index(e.Calls, c)
	if call < 0 {
		call = len(e.Calls)
		e.Calls = append(e.Calls, c)
	}
	p := b.partial[host]
	if p == nil {
		p = &partial{took: -1}
		b.partial[host] = p
	}
	for line := range strings.SplitAfterSeq(text, "\n") {
		if line == "" {
			continue
		}
		if p.text == "" {
			p.at, p.call = when, call
		}
		if p.took = max(p.took, took); who != "" {
			p.who = who
		}
		if p.text += line; strings.HasSuffix(line, "\n") || len(p.text) > 1<<16 {
			b.line(host, p)
		}
	}
}

// line adds a line that is whole.
func (b *Builder) line(host string, p *partial) {
	e := b.Data.Events
	text := printableLine(strings.TrimSuffix(p.text, "\n"))
	at, call, took, who := p.at, p.call, p.took, p.who
	p.text, p.took, p.who = "", -1, ""
	switch {
	case strings.TrimSpace(text) == "":
		return
	case len(b.times) == maxLines:
		e.Omitted++
		return
	}
	b.times = append(b.times, at)
	e.Call = append(e.Call, call)
	e.Text = append(e.Text, b.text(&e.Texts, text))
	e.Took = append(e.Took, Number{uint64(took), true})
	w := -1
	if who != "" {
		w = b.name(profile.Printable(who))
	}
	e.Who = append(e.Who, w)
	h, ok := b.hosts[host]
	if !ok {
		h = len(e.Hosts)
		b.hosts[host] = h
		e.Hosts = append(e.Hosts, profile.Printable(host))
	}
	e.Host = append(e.Host, h)
}

// name returns the index of the name of a process; -1: there are too many.
func (b *Builder) name(who string) int {
	i, ok := b.names[who]
	switch e := b.Data.Events; {
	case ok:
		return i
	case len(e.Names) == maxNames:
		return -1
	default:
		b.names[who] = len(e.Names)
		e.Names = append(e.Names, who)
		return len(e.Names) - 1
	}
}

func (b *Builder) text(texts *[]string, text string) int {
	i, ok := b.events[text]
	if !ok {
		i = len(*texts)
		b.events[text] = i
		*texts = append(*texts, text)
	}
	return i
}

// banner is a line that says how to end a run: a page of nothing else does not show it.
var banner = regexp.MustCompile(`(?i)(\b(ctrl|control)[- ]?|\^)c\b`)

// printableLine is Printable with tabs, which a script puts between columns.
func printableLine(text string) string {
	parts := strings.Split(text, "\t")
	column := 0
	var out strings.Builder
	for i, p := range parts {
		if i > 0 {
			n := 8 - column%8
			out.WriteString(strings.Repeat(" ", n))
			column += n
		}
		p = profile.Printable(p)
		out.WriteString(p)
		column += len([]rune(p))
	}
	return out.String()
}

// Finish returns the data.
func (b *Builder) Finish() *Data {
	for host, p := range b.partial {
		if p.text != "" {
			b.line(host, p)
		}
	}
	if e := b.Data.Events; e != nil {
		last := 0
		for _, m := range b.times {
			t := b.micros(m)
			e.T, last = append(e.T, t-last), t
		}
		if len(e.T) == 0 {
			b.Data.Events = nil
		}
		e.Counts = make([]int, len(e.Calls))
		for _, c := range e.Call {
			e.Counts[c]++
		}
		if !slices.ContainsFunc(e.Took, func(n Number) bool { return int64(n.Value) >= 0 }) {
			e.Took = nil
		}
		if len(e.Names) == 0 {
			e.Who = nil
		}
		if !slices.ContainsFunc(e.Texts, func(text string) bool { return !banner.MatchString(text) }) { // all are for a terminal
			b.Data.Events = nil
		}
		if len(e.Hosts) < 2 && !b.Data.Merged {
			e.Hosts, e.Host = nil, nil
		}
	}
	b.Data.Maps = []*Map{}
	for _, m := range b.maps {
		b.Data.Maps = append(b.Data.Maps, m.finish())
	}
	slices.SortFunc(b.Data.Maps, func(x, y *Map) int { return strings.Compare(x.Name, y.Name) })
	return &b.Data
}
