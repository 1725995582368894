// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/binary"
	"slices"
	"sort"
	"strings"
	"time"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/metrics"
	"btc/loader/render"
)

// sample is a metric's value for one set of label values.
type sample struct {
	values []string // values of the metric's labels
	el     render.Element
	start  time.Time // since when a cumulative value counts
}

// other is the value of all labels of the sample that combines the series beyond MaxSeries.
const other = "other"

// DefaultMaxSeries is the default maximum number of series per metric.
const DefaultMaxSeries = 10000

// Sampler makes samples of maps. It remembers which keys have their own series, so that a counter of "other" never
// decreases.
type Sampler struct {
	*Run
	list []metrics.Metric
	left []string // maps that are not metrics
	seen map[string]*chosen
}

// chosen are the series of a metric in the last snapshot, by label values.
type chosen struct {
	at    time.Time
	byKey map[string]series
	other series
}

// series is one of them.
type series struct {
	own   bool // not combined with others
	known bool
	last  uint64    // size of the last value
	start time.Time // of the counts
}

// next continues a series with a value: its counts began with the run, or after the last snapshot if they were not in
// it or have decreased since.
func (c *chosen) next(before series, size uint64, started time.Time) series {
	now := series{known: true, last: size, start: before.start}
	switch {
	case c == nil:
		now.start = started
	case !before.known || size < before.last:
		now.start = c.at
	}
	return now
}

// NewSampler returns a sampler of the maps of a run.
func NewSampler(r *Run) *Sampler {
	s := &Sampler{Run: r, seen: map[string]*chosen{}}
	s.list, s.left = metrics.Of(r.Manifest, r.Object, r.Buckets)
	return s
}

// Next returns a sampler of a later state of the run, whose manifest may have changed: keys keep their series.
func (s *Sampler) Next(r *Run) *Sampler {
	next := NewSampler(r)
	next.seen = s.seen
	return next
}

// metric returns the metric of a map; nil if it is none.
func (s *Sampler) metric(m *manifest.Map) *metrics.Metric {
	for i := range s.list {
		if s.list[i].Map.Name == m.Name {
			return &s.list[i]
		}
	}
	return nil
}

// samples returns the samples of a map, ordered by label values.
func (s *Sampler) samples(x *Map) (*metrics.Metric, []sample) {
	m := s.metric(x.Map)
	if m == nil || x.unset() {
		return m, nil
	}
	elems := x.Elements
	if x.Map.Scalar() {
		elems = elems[:1]
	}
	parts := metrics.Parts(x.Map)
	byText := map[string]int{}
	var out []sample
	for i := range elems {
		el := elems[i]
		values := make([]string, 0, len(m.Labels))
		for j := range parts {
			values = s.labels(values, &parts[j], el.Key)
		}
		// Keys with equal text, such as addresses in one function, are one series.
		text := strings.Join(values, "\x00")
		if at, ok := byText[text]; ok {
			out[at].el = merge(x.Map, out[at].el, el)
			continue
		}
		byText[text] = len(out)
		out = append(out, sample{values: values, el: el})
	}
	out = s.limit(m, out)
	if m.Kind == metrics.Histogram {
		for i := range out {
			out[i].el.Buckets = m.Fold(out[i].el.Buckets)
		}
	}
	return m, out
}

// labels appends the label values for a part of a key. For a cgroup that is its path, followed by
// the labels of its container.
func (s *Sampler) labels(dst []string, f *manifest.Field, key []byte) []string {
	env := *s.Env
	env.Escape, env.Trailer = false, ""
	var b []byte
	if l := &f.Layout; f.Off >= 0 && f.Off+l.Size <= len(key) {
		b = key[f.Off : f.Off+l.Size]
	}
	v := format.Value{Layout: &f.Layout, Bytes: b}
	env.Names = false
	if format.IsCgroup(&f.Layout) {
		c := env.CgroupOf(v)
		text := c.Path
		if f.Layout.IDOf != "" {
			text = string(env.Append(nil, v))
		}
		return append(append(dst, strings.ToValidUTF8(text, "\uFFFD")), c.Values()...)
	}
	text := string(env.Append(nil, v))
	if f.Layout.Kind == "kstack" || f.Layout.Kind == "ustack" {
		text = foldedLine(text)
	}
	return append(dst, strings.ToValidUTF8(text, "\uFFFD"))
}

// foldedLine returns a stack in one line, outermost frame first, as flame graphs read it.
func foldedLine(text string) string {
	var frames []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			frames = append(frames, strings.ReplaceAll(line, ";", ","))
		}
	}
	slices.Reverse(frames)
	return strings.Join(frames, ";")
}

// limit keeps as many samples as MaxSeries permits and combines the others. Samples shown in the last snapshot are
// kept; a key that was among the others stays there.
func (s *Sampler) limit(m *metrics.Metric, all []sample) []sample {
	last := s.seen[m.Name]
	now := &chosen{at: s.At, byKey: make(map[string]series, len(all))}
	if now.at.IsZero() {
		now.at = time.Now()
	}
	s.seen[m.Name] = now
	room := max(1, s.maxSeries()/seriesOf(m))
	text := func(x *sample) string { return strings.Join(x.values, "\x00") }
	rank := func(x *sample) int {
		before := last.series(text(x))
		switch {
		case before.own:
			return 0
		case !before.known:
			return 1
		}
		return 2
	}
	if len(all) > room || last != nil {
		sort.SliceStable(all, func(i, j int) bool {
			if a, b := rank(&all[i]), rank(&all[j]); a != b {
				return a < b
			}
			return compareSize(m.Map, &all[j].el, &all[i].el) < 0
		})
	}
	kept := len(all)
	for kept > 0 && rank(&all[kept-1]) == 2 {
		kept--
	}
	if kept < len(all) || kept > room {
		kept = min(kept, room-1) // one series is for the others
	}
	for i := range all {
		key := text(&all[i])
		x := last.next(last.series(key), size(m.Map, &all[i].el), s.Started)
		x.own = i < kept
		now.byKey[key], all[i].start = x, x.start
	}
	if kept < len(all) {
		rest := all[kept]
		for i := range all[kept+1:] {
			rest.el = merge(m.Map, rest.el, all[kept+1+i].el)
		}
		rest.values = make([]string, len(m.Labels))
		for i := range rest.values {
			rest.values[i] = other
		}
		before := series{known: true, start: s.Started} // its keys may have had series of their own
		if last != nil && last.other.known {
			before = last.other
		}
		now.other = last.next(before, size(m.Map, &rest.el), s.Started)
		rest.start = now.other.start
		all = append(slices.Clip(all[:kept]), rest)
	}
	sort.SliceStable(all, func(i, j int) bool { return slices.Compare(all[i].values, all[j].values) < 0 })
	return all
}

// series returns the series of a key in the last snapshot.
func (c *chosen) series(key string) series {
	if c == nil {
		return series{}
	}
	return c.byKey[key]
}

func (s *Sampler) maxSeries() int {
	if s.MaxSeries > 0 {
		return s.MaxSeries
	}
	return DefaultMaxSeries
}

// seriesOf returns the number of series for one set of label values.
func seriesOf(m *metrics.Metric) int {
	switch m.Kind {
	case metrics.Histogram:
		return len(m.Bounds) + 2 // the last bucket and the count
	case metrics.Summary:
		return 2
	}
	return 1
}

// size is what elements are ordered by: their counts.
func size(m *manifest.Map, el *render.Element) uint64 {
	switch m.Shape {
	case "avg", "stats", "hist", "lhist":
		return el.Count
	}
	n := number(m, el)
	if m.Signed() && int64(n) < 0 {
		return -n
	}
	return n
}

// compareSize orders elements by size.
func compareSize(m *manifest.Map, a, b *render.Element) int {
	x, y := size(m, a), size(m, b)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// number returns the value of an element of a counter or gauge; for a tseries, that of the newest interval with a
// value.
func number(m *manifest.Map, el *render.Element) uint64 {
	switch m.Shape {
	case "plain":
		return format.Uint(m.Value, el.Bytes)
	case "tseries":
		if n := len(el.Points); n > 0 {
			return el.Points[n-1].Value
		}
		return 0
	}
	return el.Value
}

// merge combines two elements as if their values had been recorded under one key. Plain values are added up.
func merge(m *manifest.Map, a, b render.Element) render.Element {
	if m.Shape == "plain" {
		sum := number(m, &a) + number(m, &b)
		// little-endian, like all supported hosts
		a.Bytes = binary.NativeEndian.AppendUint64(nil, sum)[:min(8, m.Value.Size)]
		return a
	}
	a.State, a.Buckets = m.Rule().Merge(a.State, b.State), aggregate.AddBuckets(a.Buckets, b.Buckets)
	return a
}
