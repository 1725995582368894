// SPDX-License-Identifier: Apache-2.0

// Package merge combines the results of runs of one object on many hosts: the maps that btrun wrote with -f json2
// become maps as from a single host.
//
// It takes streams of lines and returns maps. count, sum, avg, stats, min, max, hist, lhist and tseries are exact:
// all hosts have the same buckets, and intervals of wall-clock time. If a stream has several snapshots of a map, the
// last one is used. Memory use depends on the number of keys, not of hosts.
package merge

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"btc/internal/manifest"
	"btc/loader/render"
)

// maxLine bounds a line, in bytes: a map of a million keys takes about 60 MB.
const maxLine = 256 << 20

// Runs is a set of merged runs. It is not safe for concurrent use; give each goroutine its own and combine them with
// Add.
type Runs struct {
	// ByHost makes the host's name the first part of each key.
	ByHost bool
	// Top is which elements of maps the report shows, and in what order.
	Top render.Top
	// Partial lists the probes that a budget detached on a host, with the time that their data
	// covers.
	Partial []string

	maps   map[string]*Map
	object string // SHA-256
	first  string // the stream where object was found
	hosts  map[string]bool
}

// Stream collects the lines of one run and keeps the last line of each map.
type Stream struct {
	Name string // name in errors, and the host of lines without one
	// Host overrides the host named in the lines, and Object the hash of the object; "" keeps those of the lines.
	Host, Object string

	last map[string][]byte // the last line of each map
	// detached describes, for each probe that the budget detached, what its data covers.
	detached []string
}

// Map is a merged map. Its description is as in a manifest, with the parts of keys as written in JSON.
type Map struct {
	manifest.Map
	elems map[string]*element // by key: the JSON of its parts, "" for a scalar
}

// element is a value; which fields are used is as in render.Element.
type element struct {
	value, count uint64
	buckets      []uint64
	points       map[int64]render.Point // by start, ns
	raw          string                 // plain: the JSON
}

// Hosts returns the number of hosts with runs.
func (r *Runs) Hosts() int { return len(r.hosts) }

// ErrNotJSON2 is the error for a stream that was not written by btrun -f json2.
var ErrNotJSON2 = errors.New("not the output of btrun -f json2")

// Read merges a stream. name identifies it in errors and is the host of lines without one. cut reports whether the
// stream ends within a line, as after a run that was killed; the lines before it are used.
func (r *Runs) Read(name string, in io.Reader) (cut bool, err error) {
	s := &Stream{Name: name}
	n := 0
	cut, err = Lines(bufio.NewReaderSize(in, 1<<20), func(line []byte) error {
		n++
		return s.Line(line)
	})
	if err != nil {
		return false, fmt.Errorf("%s:%d: %w", name, max(n, 1), err)
	}
	return cut, r.Fold(s)
}

// Lines calls do for each line of a stream, which is valid until do returns. cut reports that the
// stream ends within a line, which is dropped if it is not JSON.
func Lines(in io.Reader, do func(line []byte) error) (cut bool, err error) {
	b := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := readLine(b)
		switch {
		case err == io.EOF && len(line) > 0 && !gjson.ValidBytes(line):
			return true, nil
		case err != nil && err != io.EOF:
			return false, err
		}
		if e := do(line); e != nil {
			return false, e
		}
		if err == io.EOF {
			return false, nil
		}
	}
}

// readLine reads a line of any length up to maxLine; the result is valid until the next one.
func readLine(b *bufio.Reader) ([]byte, error) {
	line, err := b.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return line, err
	}
	long := slices.Clone(line)
	for err == bufio.ErrBufferFull {
		if len(long) > maxLine {
			return nil, fmt.Errorf("a line of more than %d MiB", maxLine>>20)
		}
		line, err = b.ReadSlice('\n')
		long = append(long, line...)
	}
	return long, err
}

// Line keeps a line with a map that the run printed by itself; other lines are events.
func (s *Stream) Line(line []byte) error {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return nil
	}
	if line[0] != '{' {
		return ErrNotJSON2
	}
	kind, name, asked := "", "", false
	gjson.ParseBytes(line).ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "type":
			kind = value.Str
		case "name":
			name = strings.Clone(value.Str)
		case "line":
			asked = true
		case "entries":
			return false
		}
		return kind == "" || kind == "map"
	})
	if kind == "" {
		return ErrNotJSON2
	}
	if kind == "detached" {
		x := gjson.ParseBytes(line)
		s.detached = append(s.detached, fmt.Sprintf(
			"the budget detached %q: its data covers the first %.1f s",
			x.Get("probe").String(), x.Get("covered_ns").Float()/1e9,
		))
	}
	if kind == "map" && !asked {
		if s.last == nil {
			s.last = map[string][]byte{}
		}
		s.last[name] = append(s.last[name][:0], line...)
	}
	return nil
}

// Maps returns the number of maps that the run printed by itself.
func (s *Stream) Maps() int { return len(s.last) }

// Fold adds the maps of a run whose lines were read.
func (r *Runs) Fold(s *Stream) error {
	if r.maps == nil {
		r.maps, r.hosts = map[string]*Map{}, map[string]bool{}
	}
	if len(s.last) == 0 {
		return fmt.Errorf("%s: no map at the end of the run and no snapshot: %w", s.Name, ErrNotJSON2)
	}
	for _, text := range s.detached {
		r.Partial = append(r.Partial, s.Name+": "+text)
	}
	for name, line := range s.last {
		if !gjson.ValidBytes(line) {
			return fmt.Errorf("%s: map %s: %w", s.Name, name, ErrNotJSON2)
		}
		if err := r.addLine(s, gjson.ParseBytes(line)); err != nil {
			return fmt.Errorf("%s: map %s: %w", s.Name, name, err)
		}
	}
	return nil
}

func (r *Runs) addLine(s *Stream, line gjson.Result) error {
	// Strings that are kept are cloned, because they share the line's memory.
	m := &Map{elems: map[string]*element{}}
	object, host := "", ""
	var entries gjson.Result
	line.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "name":
			m.Name = strings.Clone(value.String())
		case "shape":
			m.Shape = strings.Clone(value.String())
		case "object":
			object = strings.Clone(value.String())
		case "host":
			host = strings.Clone(value.String())
		case "signed":
			m.Value = &manifest.Layout{Kind: "int", Size: 8, Signed: value.Bool()}
		case "bits":
			m.Bits = int(value.Int())
		case "min":
			m.Min = value.Int()
		case "max":
			m.Max = value.Int()
		case "step":
			m.Step = value.Int()
		case "interval":
			m.Interval = value.Int()
		case "intervals":
			m.Intervals = value.Int()
		case "agg":
			m.Agg = strings.Clone(value.String())
		case "entries":
			entries = value
		}
		return true
	})
	if s.Object != "" {
		object = s.Object
	}
	if err := r.sameObject(s.Name, object); err != nil {
		return err
	}
	if host == "" {
		host = s.Name
	}
	if s.Host != "" {
		host = s.Host
	}
	r.hosts[host] = true
	if m.Value == nil {
		m.Value = &manifest.Layout{Kind: "int", Size: 8}
	}
	if err := m.check(); err != nil {
		return err
	}
	have := r.maps[m.Name]
	if have == nil {
		have = m
		r.maps[m.Name] = m
	} else if err := have.same(m); err != nil {
		return err
	}
	prefix := ""
	if r.ByHost {
		prefix = strconv.Quote(strings.ToValidUTF8(host, "\uFFFD"))
	}
	return have.addEntries(entries, prefix)
}

// sameObject returns an error for a run of another object.
func (r *Runs) sameObject(stream, object string) error {
	switch {
	case object == "":
		return errors.New("the line names no object: it was written by a btrun older than btc merge")
	case r.object == "":
		r.object, r.first = object, stream
	case r.object != object:
		return fmt.Errorf(
			"it is of object %.12s, but %s is of object %.12s: only runs of one object can be merged",
			object,
			r.first,
			r.object,
		)
	}
	return nil
}

// check returns an error for an invalid description.
func (m *Map) check() error {
	switch m.Shape {
	case "count", "sum", "avg", "stats", "min", "max", "plain":
		return nil
	case "hist":
		if m.Bits >= 0 && m.Bits <= 5 {
			return nil
		}
	case "lhist":
		if manifest.LhistBuckets(m.Min, m.Max, m.Step) > 0 {
			return nil
		}
	case "tseries":
		if m.Interval > 0 && m.Intervals > 0 && m.Intervals <= 1<<20 && m.Interval <= math.MaxInt64/m.Intervals {
			return nil
		}
	}
	return fmt.Errorf("no map has the shape %q with these bounds", m.Shape)
}

// same returns an error if the description differs.
func (m *Map) same(x *Map) error {
	a, b := m.Map, x.Map
	if a.Shape != b.Shape || a.Bits != b.Bits || a.Min != b.Min || a.Max != b.Max || a.Step != b.Step ||
		a.Interval != b.Interval || a.Agg != b.Agg || a.Value.Signed != b.Value.Signed {
		return errors.New("its description differs from that of the other runs")
	}
	return nil
}

// Merges reports whether values of several hosts can be combined: assigned values cannot.
func (m *Map) Merges() bool {
	return m.Shape != "plain" && (m.Shape != "tseries" || m.Agg != "")
}

// addEntries adds the entries of a line; prefix is the first part of each key, or "".
func (m *Map) addEntries(entries gjson.Result, prefix string) (err error) {
	if !entries.IsArray() {
		return errors.New("it has no entries")
	}
	var key []byte
	entries.ForEach(func(_, entry gjson.Result) bool {
		var rawKey string
		var value gjson.Result
		entry.ForEach(func(name, v gjson.Result) bool {
			switch name.Str {
			case "key":
				rawKey = v.Raw
			case "value":
				value = v
			}
			return true
		})
		if !value.Exists() {
			err = errors.New("an entry has no value")
			return false
		}
		key = appendKey(key[:0], prefix, rawKey)
		el := m.elems[string(key)]
		if el == nil {
			el = &element{}
			if err = m.parse(el, value); err != nil {
				return false
			}
			m.elems[string(key)] = el
			return true
		}
		var more element
		if err = m.parse(&more, value); err != nil {
			return false
		}
		if m.Merges() || prefix == "" {
			m.join(el, &more)
		} else {
			*el = more // two runs of one host: the later one
		}
		return true
	})
	return err
}

// appendKey makes a key of the JSON of its parts: an object, such as a stack or an address with its symbol, is
// identified by its text, which is the same on all hosts.
func appendKey(dst []byte, prefix, raw string) []byte {
	if prefix == "" && raw == "" {
		return dst
	}
	dst = append(dst, '[')
	dst = append(dst, prefix...)
	if raw == "" {
		return append(dst, ']')
	}
	if prefix != "" {
		dst = append(dst, ',')
	}
	if !strings.Contains(raw, "{") {
		return append(dst, raw[1:]...)
	}
	n := 0
	gjson.Parse(raw).ForEach(func(_, part gjson.Result) bool {
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		if text := part.Get("text"); part.IsObject() && text.Exists() && !part.Get("truncated").Exists() {
			dst = append(dst, text.Raw...)
		} else {
			dst = append(dst, part.Raw...)
		}
		return true
	})
	return append(dst, ']')
}

// number reads an integer of up to 64 bits.
func number(v gjson.Result) (uint64, error) {
	if strings.HasPrefix(v.Raw, "-") {
		n, err := strconv.ParseInt(v.Raw, 10, 64)
		return uint64(n), err
	}
	return strconv.ParseUint(v.Raw, 10, 64)
}

// parse reads a value of the map's shape.
func (m *Map) parse(el *element, v gjson.Result) (err error) {
	fail := func(e error) {
		if err == nil && e != nil {
			err = fmt.Errorf("a value of %s: %w", m.Shape, e)
		}
	}
	get := func(v gjson.Result, to *uint64) {
		n, e := number(v)
		*to = n
		fail(e)
	}
	switch m.Shape {
	case "plain":
		el.raw = strings.Clone(v.Raw)
	case "avg", "stats":
		get(v.Get("count"), &el.count)
		get(v.Get("total"), &el.value)
	case "hist", "lhist":
		if !v.IsArray() {
			return fmt.Errorf("a value of %s is not a list", m.Shape)
		}
		v.ForEach(func(_, bucket gjson.Result) bool {
			var low gjson.Result
			n := uint64(0)
			bucket.ForEach(func(name, x gjson.Result) bool {
				switch name.Str {
				case "min":
					low = x
				case "count":
					get(x, &n)
				}
				return true
			})
			i, e := m.bucket(low)
			fail(e)
			if err != nil {
				return false
			}
			if i >= len(el.buckets) {
				el.buckets = append(el.buckets, make([]uint64, i+1-len(el.buckets))...)
			}
			el.buckets[i] += n
			el.count += n
			return true
		})
	case "tseries":
		if !v.IsArray() {
			return errors.New("a value of tseries is not a list")
		}
		el.points = map[int64]render.Point{}
		v.ForEach(func(_, x gjson.Result) bool {
			if x.Get("value").Type == gjson.Null {
				return true
			}
			p := render.Point{Set: true}
			start, e := time.Parse(time.RFC3339Nano, x.Get("start").String())
			fail(e)
			p.Start = start
			get(x.Get("value"), &p.Value)
			p.Total = p.Value
			if m.Agg == "avg" {
				get(x.Get("total"), &p.Total)
				get(x.Get("count"), &p.Meta)
			}
			el.points[start.UnixNano()] = p
			return err == nil
		})
	default:
		get(v, &el.value)
	}
	return err
}

// bucket returns the index of the bucket with a lower bound; the first bucket has none.
func (m *Map) bucket(low gjson.Result) (int, error) {
	if !low.Exists() {
		return 0, nil
	}
	n, err := number(low)
	if err != nil {
		return 0, err
	}
	if m.Shape == "lhist" {
		past := int64(n) - m.Min
		if i := past/m.Step + 1; past >= 0 && past%m.Step == 0 &&
			i < int64(manifest.LhistBuckets(m.Min, m.Max, m.Step)) {
			return int(i), nil
		}
	} else if i := manifest.HistBucket(m.Bits, n); i < manifest.HistBuckets(m.Bits) && manifest.HistFirst(m.Bits, i) == n {
		return i, nil
	}
	return 0, fmt.Errorf("no bucket begins at %s", low.Raw)
}

// join adds b to a.
func (m *Map) join(a, b *element) {
	switch m.Shape {
	case "min", "max":
		a.value = m.extreme(a.value, b.value, m.Shape)
	case "hist", "lhist":
		if len(b.buckets) > len(a.buckets) {
			a.buckets = append(a.buckets, make([]uint64, len(b.buckets)-len(a.buckets))...)
		}
		for i, n := range b.buckets {
			a.buckets[i] += n
		}
		a.count += b.count
	case "tseries":
		for at, p := range b.points {
			if have, ok := a.points[at]; ok {
				p = m.joinPoints(have, p)
			}
			a.points[at] = p
		}
	case "plain":
	default:
		a.value += b.value
		a.count += b.count
	}
}

func (m *Map) joinPoints(a, b render.Point) render.Point {
	switch m.Agg {
	case "min", "max":
		a.Value = m.extreme(a.Value, b.Value, m.Agg)
	default:
		a.Total += b.Total
		a.Meta += b.Meta
		a.Value = a.Total
		if m.Agg == "avg" {
			el := render.Element{Value: a.Total, Count: a.Meta}
			a.Value = el.Average(m.Value.Signed)
		}
	}
	return a
}

// extreme returns the smaller or larger of two numbers.
func (m *Map) extreme(a, b uint64, which string) uint64 {
	less := a < b
	if m.Value.Signed {
		less = int64(a) < int64(b)
	}
	if less == (which == "min") {
		return a
	}
	return b
}

// Add merges other runs into r; o must not be used afterwards.
func (r *Runs) Add(o *Runs) error {
	if o.object == "" {
		return nil
	}
	if r.maps == nil {
		r.maps, r.hosts = map[string]*Map{}, map[string]bool{}
	}
	if err := r.sameObject(o.first, o.object); err != nil {
		return fmt.Errorf("%s: %w", o.first, err)
	}
	for h := range o.hosts {
		r.hosts[h] = true
	}
	r.Partial = append(r.Partial, o.Partial...)
	for name, x := range o.maps {
		m := r.maps[name]
		if m == nil {
			r.maps[name] = x
			continue
		}
		if err := m.same(x); err != nil {
			return fmt.Errorf("%s: map %s: %w", o.first, name, err)
		}
		for key, el := range x.elems {
			if have := m.elems[key]; have != nil && (m.Merges() || !r.ByHost) {
				m.join(have, el)
			} else {
				m.elems[key] = el
			}
		}
	}
	return nil
}
