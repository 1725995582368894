// SPDX-License-Identifier: Apache-2.0

// Package merge combines the results of runs of one object on many hosts: the maps that btrun wrote with -f json2
// become maps as from a single host.
//
// It takes streams of lines, which may be those of hosts that lie, and returns maps. A line that no run of the object
// writes is an error, time and memory are in proportion to the input, and a stream is merged as a whole or not at all.
// count, sum, avg, stats, min, max, hist, lhist and tseries are exact:
// all hosts have the same buckets, and intervals of wall-clock time. If a stream has several snapshots of a map, the
// last one is used. Memory use depends on the number of keys, not of hosts.
package merge

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/loader/format"
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
	head   []byte // of the first run that has one
	// huge means that counts are so large that adding them to others may overflow.
	huge bool
}

// Stream collects the lines of one run and keeps the last line of each map.
type Stream struct {
	Name string // name in errors, and the host of lines without one
	// Host overrides the host named in the lines, and Object the hash of the object; "" keeps those of the lines.
	Host, Object string
	// Want is what the object's runs can report; nil if that is not known.
	Want *Want

	head []byte            // the first line of version 2
	last map[string][]byte // the last line of each map
	size int               // of these lines, in bytes
	// detached describes, for each probe that the budget detached, what its data covers.
	detached []string
}

// Map is a merged map. Its description is as in a manifest, with the parts of keys as written in JSON.
type Map struct {
	manifest.Map
	elems map[string]*element // by key: the JSON of its parts, "" for a scalar
	parts int                 // of each key in the lines
	huge  bool                // see Runs
	// stacks are the frames of those parts of keys that are stacks, by their text.
	stacks map[string]*stack
	scaled bool // print() has divided the values
}

// element is a value; which fields are used is as in render.Element.
type element struct {
	aggregate.State
	buckets []aggregate.Bucket // those that are not empty
	raw     string             // plain: the JSON
}

// Hosts returns the number of hosts with runs.
func (r *Runs) Hosts() int { return len(r.hosts) }

// ErrNotJSON2 is the error for a stream that was not written by btrun -f json2 or --record.
var ErrNotJSON2 = errors.New("not the output of btrun -f json2 or btrun --record")

// Read merges a stream. name identifies it in errors and is the host of lines without one. cut reports whether the
// stream ends within a line, as after a run that was killed; the lines before it are used.
func (r *Runs) Read(name string, in io.Reader) (cut bool, err error) {
	s, cut, err := read(name, in)
	if err == nil {
		err = r.Fold(s)
	}
	return cut, err
}

// Read is like that of Runs.
func (c *Set) Read(index int, name string, in io.Reader) (cut bool, err error) {
	s, cut, err := read(name, in)
	if err == nil {
		err = c.Fold(index, s)
	}
	return cut, err
}

func read(name string, in io.Reader) (s *Stream, cut bool, err error) {
	s = &Stream{Name: name}
	n := 0
	cut, err = Lines(in, s.Want.MaxLine, func(line []byte) error {
		n++
		return s.Line(line)
	})
	if err != nil {
		return nil, false, fmt.Errorf("%s:%d: %w", name, max(n, 1), err)
	}
	return s, cut, nil
}

// Lines calls do for each line of a stream, which is valid until do returns, and safe to parse if it
// is JSON. A line of more than limit() bytes is an error. cut reports that the stream ends within a
// line, which is dropped if it is not JSON.
func Lines(in io.Reader, limit func() int, do func(line []byte) error) (cut bool, err error) {
	b := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := readLine(b, limit())
		if err == nil || err == io.EOF {
			if e := checkLine(line); e != nil {
				return false, e
			}
		}
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

// readLine reads a line of at most limit bytes; the result is valid until the next one.
func readLine(b *bufio.Reader, limit int) ([]byte, error) {
	line, err := b.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return line, err
	}
	long := slices.Clone(line)
	for err == bufio.ErrBufferFull {
		if line, err = b.ReadSlice('\n'); len(long)+len(line) > limit {
			return nil, fmt.Errorf("a line of more than %d MiB", limit>>20)
		}
		if len(long)+len(line) > cap(long) {
			long = slices.Grow(long, len(long)) // a line may have a hundred megabytes
		}
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
		if len(s.detached) == MaxDetached {
			return fmt.Errorf("the budget has detached more than %d probes", MaxDetached)
		}
		s.detached = append(s.detached, fmt.Sprintf("the budget detached %.200q: its data covers the first %.1f s",
			x.Get("probe").String(), x.Get("covered_ns").Float()/1e9))
	}
	if kind == "head" && s.head == nil && len(line) <= maxHead {
		s.head = bytes.Clone(line)
	}
	if kind == "reload" { // maps that the new object does not have ended with the old one
		s.last, s.size, s.head = nil, 0, nil
	}
	if kind != "map" {
		return nil
	}
	if s.Want != nil {
		h, err := parseHead(gjson.ParseBytes(line))
		if err == nil {
			err = s.Want.check(&h)
		}
		if err != nil {
			return err
		}
	}
	if asked {
		return nil
	}
	if s.last == nil {
		s.last = map[string][]byte{}
	}
	old, have := s.last[name]
	if s.size += len(line) - len(old); s.size > s.Want.Room() || !have && len(s.last) == maxMaps {
		return fmt.Errorf("its maps take more than the %d MiB that the object allows", s.Want.Room()>>20)
	}
	if cap(old) > 2*len(line) {
		old = nil
	}
	s.last[name] = append(old[:0], line...)
	return nil
}

// maxHead bounds the head of a run: its manifest is that of an object.
const maxHead = 16 << 20

// MaxDetached bounds the probes that a run names as detached; an object has at most so many.
const MaxDetached = 4096

// Maps returns the number of maps that the run printed by itself.
func (s *Stream) Maps() int { return len(s.last) }

// Fold adds the maps of a run whose lines were read, or none of them.
func (r *Runs) Fold(s *Stream) error {
	x, err := s.runs(r.ByHost)
	if err != nil {
		return err
	}
	return r.Add(x)
}

// Check returns an error for the line of print() of a map, which is valid JSON, that no run of the object writes. It
// is not part of a report, so a map that the object does not have is only checked for itself.
func (s *Stream) Check(line []byte) error {
	x := Stream{Name: s.Name, Host: s.Host, Object: s.Object, Want: s.Want}
	if x.Want != nil && x.Want.maps[gjson.GetBytes(line, "name").Str] == nil {
		x.Want = nil
	}
	r := &Runs{maps: map[string]*Map{}, hosts: map[string]bool{}}
	return r.addLine(&x, gjson.ParseBytes(line))
}

// runs returns the maps of the run.
func (s *Stream) runs(byHost bool) (*Runs, error) {
	r := &Runs{ByHost: byHost, maps: map[string]*Map{}, hosts: map[string]bool{}, head: s.head}
	if len(s.last) == 0 {
		return nil, fmt.Errorf("%s: no map at the end of the run and no snapshot: %w", s.Name, ErrNotJSON2)
	}
	for _, text := range s.detached {
		r.Partial = append(r.Partial, s.Name+": "+text)
	}
	for name, line := range s.last {
		err := ErrNotJSON2
		if gjson.ValidBytes(line) {
			err = r.addLine(s, gjson.ParseBytes(line))
		}
		if err == nil && len(r.hosts) > 1 {
			err = errors.New("its lines are of several hosts")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: map %.64s: %w", s.Name, name, err)
		}
	}
	return r, nil
}

func (r *Runs) addLine(s *Stream, line gjson.Result) error {
	h, err := parseHead(line)
	if err != nil {
		return err
	}
	m, ahead := h.m, maxAheadRecorded
	m.scaled = h.asked
	if s.Object != "" {
		h.object = s.Object
	}
	if err := r.sameObject(s.Name, h.object); err != nil {
		return err
	}
	if h.host == "" {
		h.host = s.Name
	}
	if s.Host != "" {
		h.host = s.Host
	}
	if err := m.check(); err != nil {
		return err
	}
	var w *wanted
	if s.Want != nil {
		if err := s.Want.check(&h); err != nil {
			return err
		}
		w, ahead = s.Want.maps[m.Name], maxAhead
	}
	prefix := ""
	if r.ByHost {
		prefix = string(format.AppendQuoted(nil, []byte(h.host)))
	}
	if h.div > 0 || h.top > 0 {
		r.Top.Div, r.Top.Keep = h.div, h.top
	}
	if err := m.addEntries(&h, prefix, w, time.Now().Add(ahead)); err != nil {
		return err
	}
	r.hosts[h.host] = true
	r.huge = r.huge || m.huge
	r.maps[m.Name] = m
	return nil
}

// sameObject returns an error for a run of another object.
func (r *Runs) sameObject(stream, object string) error {
	switch {
	case object == "":
		return errors.New("the line names no object: it was written by a btrun older than btc merge")
	case r.object == "":
		r.object, r.first = object, stream
	case r.object != object:
		return r.otherObject(object)
	}
	return nil
}

func (r *Runs) otherObject(object string) error {
	return fmt.Errorf("it is of object %.12s, but %s is of object %.12s: only runs of one object can be merged",
		object, r.first, r.object)
}

// Merges reports whether values of several hosts can be combined: assigned values cannot.
func (m *Map) Merges() bool {
	return m.Shape != "plain" && (m.Shape != "tseries" || m.Agg != "")
}

// join adds b to a.
func (m *Map) join(a, b *element) {
	if m.Shape != "plain" {
		a.State, a.buckets = m.Rule().Merge(a.State, b.State), aggregate.AddSparse(a.buckets, b.buckets)
	}
}

// Add merges other runs into r, or none of them; o must not be used afterwards.
func (r *Runs) Add(o *Runs) error {
	if o.object == "" {
		return nil
	}
	if r.maps == nil {
		r.maps, r.hosts = map[string]*Map{}, map[string]bool{}
	}
	if err := r.fits(o); err != nil {
		return err
	}
	r.object, r.first = o.object, cmp.Or(r.first, o.first)
	for h := range o.hosts {
		r.hosts[h] = true
	}
	r.huge = r.huge || o.huge
	if r.head == nil {
		r.head = o.head
	}
	r.Partial = append(r.Partial, o.Partial...)
	for name, x := range o.maps {
		m := r.maps[name]
		if m == nil {
			r.maps[name] = x
			continue
		}
		if len(m.elems) == 0 {
			m.parts = x.parts
		}
		if m.stacks == nil {
			m.stacks = x.stacks
		}
		for text, st := range x.stacks {
			m.stacks[text] = st
		}
		for key, el := range x.elems {
			if have := m.elems[key]; have != nil && (m.Merges() || !r.ByHost) {
				m.join(have, el)
			} else { // of two runs of one host, the later one
				m.elems[key] = el
			}
		}
	}
	return nil
}

// fits returns an error if other runs cannot be merged into r.
func (r *Runs) fits(o *Runs) error {
	if r.object != "" && r.object != o.object {
		return fmt.Errorf("%s: map %s: %w", o.first, slices.Min(slices.Collect(maps.Keys(o.maps))), r.otherObject(o.object))
	}
	for name, x := range o.maps {
		m := r.maps[name]
		switch {
		case m == nil:
		case differs(&m.Map, &x.Map):
			return fmt.Errorf("%s: map %s: its description differs from that of the other runs", o.first, name)
		case m.parts != x.parts && len(m.elems) > 0 && len(x.elems) > 0:
			return fmt.Errorf("%s: map %s: its keys have not the number of parts of those of the other runs", o.first, name)
		case (r.huge || o.huge) && m.overflows(x):
			return fmt.Errorf("%s: map %s: the sum with the other runs has more than 64 bits", o.first, name)
		}
	}
	return nil
}

// overflows reports whether the sum of a count and one of x has more than 64 bits.
func (m *Map) overflows(x *Map) bool {
	over := func(a, b uint64) bool { return a+b < a }
	for key, b := range x.elems {
		a := m.elems[key]
		switch {
		case a == nil:
		case over(a.Count, b.Count), m.Shape == "count" && over(a.Value, b.Value):
			return true
		case m.Agg == "avg" && len(b.Points) > 0 && len(a.Points) > 0:
			for _, p := range b.Points {
				at := func(q aggregate.Point, n uint64) int { return cmp.Compare(q.N, n) }
				i, found := slices.BinarySearchFunc(a.Points, p.N, at)
				if found && over(a.Points[i].Meta, p.Meta) {
					return true
				}
			}
		}
	}
	return false
}

// Set merges streams of which some may be false: those that contradict more of the others are left out. It is safe
// for concurrent use.
type Set struct {
	ByHost bool

	mu     sync.Mutex
	groups map[string]*group // by description
	late   []member          // with huge counts
}

// group are streams with the same description of the object.
type group struct {
	runs    *Runs
	members []member
}

// member is a stream by its number; runs is set for those that are not merged yet.
type member struct {
	index int
	name  string
	runs  *Runs
}

// Refused is a stream that was left out.
type Refused struct {
	Index int
	Err   error
}

// Fold adds a run whose lines were read.
func (c *Set) Fold(index int, s *Stream) error {
	x, err := s.runs(c.ByHost)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if x.huge {
		c.late = append(c.late, member{index, s.Name, x})
		return nil
	}
	id := x.description()
	g := c.groups[id]
	if g == nil {
		if c.groups == nil {
			c.groups = map[string]*group{}
		}
		g = &group{runs: &Runs{ByHost: c.ByHost}}
		c.groups[id] = g
	}
	g.members = append(g.members, member{index: index, name: s.Name})
	return g.runs.Add(x)
}

// description is equal for runs whose maps have the same descriptions.
func (r *Runs) description() string {
	id := []byte(r.object)
	for _, name := range slices.Sorted(maps.Keys(r.maps)) {
		m := r.maps[name]
		id = fmt.Appendf(id, "\n%q %s", name, m.Shape)
		if len(m.elems) > 0 {
			id = fmt.Appendf(id, " %d", m.parts)
		}
		id = render.JSONBounds(id, &m.Map)
	}
	return string(id)
}

// Runs returns the merged runs, and the streams that are not part of them. The runs of most streams are right; of as
// many, those of the first one.
func (c *Set) Runs() (*Runs, []Refused) {
	groups := slices.Collect(maps.Values(c.groups))
	for _, g := range groups {
		slices.SortFunc(g.members, func(a, b member) int { return cmp.Compare(a.index, b.index) })
	}
	slices.SortFunc(groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(len(b.members), len(a.members)), cmp.Compare(a.members[0].index, b.members[0].index))
	})
	slices.SortFunc(c.late, func(a, b member) int { return cmp.Compare(a.index, b.index) })
	for _, m := range c.late {
		groups = append(groups, &group{runs: m.runs, members: []member{m}})
	}
	all := &Runs{ByHost: c.ByHost}
	var refused []Refused
	for _, g := range groups {
		for _, m := range g.members {
			g.runs.first = m.name
			if err := all.fits(g.runs); err != nil {
				refused = append(refused, Refused{m.index, err})
			}
		}
		g.runs.first = g.members[0].name
		all.Add(g.runs) // fails if they do not fit
	}
	return all, refused
}
