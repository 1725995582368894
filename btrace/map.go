// SPDX-License-Identifier: Apache-2.0

package btrace

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/render"
	"btc/loader/run"
)

// Map is a map of the script.
type Map struct {
	session *Session
	m       *manifest.Map
}

// Maps lists the script's maps in the order of their names.
func (s *Session) Maps() []*Map {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.maps
}

// Map returns the map with a name, with or without its @; nil if there is none. The methods of a nil Map that return
// errors return ErrNoMap.
func (s *Session) Map(name string) *Map {
	name = "@" + strings.TrimPrefix(name, "@")
	for _, m := range s.Maps() {
		if m.m.Name == name {
			return m
		}
	}
	return nil
}

// ErrNoMap is the error for a map that the script does not have.
var ErrNoMap = errors.New("the script has no map of this name")

// Name returns the name in the script, with its @.
func (m *Map) Name() string {
	if m == nil {
		return ""
	}
	return m.m.Name
}

// Shape returns the kind of the values: plain, count, sum, avg, min, max, stats, hist, lhist or
// tseries.
func (m *Map) Shape() string {
	if m == nil {
		return ""
	}
	return m.m.Shape
}

// Scalar reports whether the map has one value and no key.
func (m *Map) Scalar() bool { return m != nil && m.m.Scalar() }

// Snapshot is the content of a map at a point in time.
type Snapshot struct {
	Name  string
	Shape string
	Time  time.Time // time at which it was read
	// Entries are in the order in which btrun prints them. A scalar has one entry without a key, or none if the
	// script has not set it yet.
	Entries []Entry
}

// Entry is an element of a map.
type Entry struct {
	// Key has the parts of the key: one, or those of a tuple.
	Key []Value
	// Value is a Value for a plain map, and a Count, Sum, Min, Max, Avg, Stats, *Hist or Series for aggregations.
	Value Value
}

// Snapshot reads the map, while programs run or after the session has ended, but not after Close.
// The values are not all read at the same instant.
func (m *Map) Snapshot() (*Snapshot, error) { return m.read(run.MapReader.Elements) }

// Take reads the map and empties it. An update by a program meanwhile is either in the snapshot or
// in the map afterwards, so that the sum of all snapshots counts everything exactly once.
func (m *Map) Take() (*Snapshot, error) { return m.read(run.MapReader.Take) }

func (m *Map) read(how func(run.MapReader, *manifest.Map) ([]render.Element, error)) (x *Snapshot, err error) {
	if m == nil {
		return nil, ErrNoMap
	}
	m.session.mu.RLock()
	defer m.session.mu.RUnlock()
	if m.session.state == closed {
		return nil, ErrClosed
	}
	m.session.run.Read(func(r run.MapReader) {
		var elems []render.Element
		if elems, err = how(r, m.m); err == nil {
			x = decoder{r.Env(), r.Frames}.snapshot(m.m, elems, render.Top{})
		}
	})
	return x, err
}

// snapshot decodes elements.
func (d decoder) snapshot(m *manifest.Map, elems []render.Element, top render.Top) *Snapshot {
	s := &Snapshot{Name: m.Name, Shape: m.Shape, Time: time.Now()}
	if m.Scalar() {
		if len(elems) > 0 && elems[0].Set {
			s.Entries = []Entry{{Value: d.element(m, &elems[0])}}
		}
		return s
	}
	layout := render.KeyLayout(m)
	for _, el := range render.Ordered(m, elems, top) {
		e := Entry{Value: d.element(m, &el)}
		switch key := d.value(format.Value{Layout: layout, Bytes: el.Key}).(type) {
		case Tuple:
			e.Key = key
		default:
			e.Key = []Value{key}
		}
		s.Entries = append(s.Entries, e)
	}
	return s
}

// element decodes a map's value.
func (d decoder) element(m *manifest.Map, el *render.Element) Value {
	number := func(n uint64) Number { return Number{Bits: n, Signed: m.Signed()} }
	switch m.Shape {
	case "count":
		return Count(el.Value)
	case "sum":
		return Sum{number(el.Value)}
	case "min":
		return Min{number(el.Value)}
	case "max":
		return Max{number(el.Value)}
	case "avg":
		return Avg{el.Count, number(el.Value)}
	case "stats":
		return Stats{el.Count, number(el.Value)}
	case "hist":
		return &Hist{Bits: m.Bits, Counts: el.Buckets}
	case "lhist":
		return &Hist{Linear: true, Min: m.Min, Max: m.Max, Step: m.Step, Counts: el.Buckets}
	case "tseries":
		s := Series{Interval: time.Duration(m.Interval), Function: m.Agg}
		for _, p := range el.Points {
			s.Points = append(s.Points, seriesPoint(render.Start(m, p.N), m.Rule(), p))
		}
		return s
	}
	return d.value(format.Value{Layout: m.Value, Bytes: el.Bytes})
}

// Get returns the value for a key; without arguments, the value of a scalar. Integers are compared
// by value regardless of their type, everything else by its string form.
func (s *Snapshot) Get(key ...any) (v Value, ok bool) {
	want := keyText(key)
	for _, e := range s.Entries {
		if keyText(e.Key) == want {
			return e.Value, true
		}
	}
	return nil, false
}

// Top returns the n entries with the largest values, the largest first, as btrun --top orders them: numbers by value, averages
// by their mean, histograms by their count. Others, such as strings and stacks, have no order: the last ones come first.
// A series is ordered by its newest interval. The snapshot remains as it is.
func (s *Snapshot) Top(n int) []Entry {
	all := slices.Clone(s.Entries)
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b Entry) int { return compare(b.Value, a.Value) })
	return all[:max(min(n, len(all)), 0)]
}

// compare compares values of one map.
func compare(a, b Value) int {
	number := func(v Value) (n Number, ok bool) {
		switch v := v.(type) {
		case Count:
			return Number{Bits: uint64(v)}, true
		case Sum:
			return v.Total, true
		case Min: // minima and maxima are always ordered as unsigned, as in bpftrace
			return Number{Bits: v.Value.Bits}, true
		case Max:
			return Number{Bits: v.Value.Bits}, true
		case *Hist:
			return Number{Bits: v.Count()}, true
		case int64:
			return Number{uint64(v), true}, true
		case uint64:
			return Number{Bits: v}, true
		case bool:
			if v {
				n.Bits = 1
			}
			return n, true
		case Enum:
			return Number{uint64(v.Value), true}, true
		}
		return n, false
	}
	float := func(v Value) (float64, bool) {
		switch v := v.(type) {
		case Avg:
			return v.Mean(), true
		case Stats:
			return v.Mean(), true
		case Series:
			if len(v.Points) > 0 {
				return v.Points[len(v.Points)-1].Value.Float64(), true
			}
		}
		return 0, false
	}
	if x, ok := number(a); ok {
		if y, ok := number(b); ok {
			if x.Signed {
				return cmp.Compare(x.Int64(), y.Int64())
			}
			return cmp.Compare(x.Bits, y.Bits)
		}
	}
	x, _ := float(a)
	y, _ := float(b)
	return cmp.Compare(x, y)
}

// Merge adds the entries of another snapshot of the same map, from another interval, session or host. Values of plain
// maps cannot be merged, and the bounds of histograms must be equal.
func (s *Snapshot) Merge(other *Snapshot) error {
	if s.Shape != other.Shape || s.Name != other.Name {
		return fmt.Errorf("%s, a %s, cannot be merged with %s, a %s", s.Name, s.Shape, other.Name, other.Shape)
	}
	at := map[string]int{}
	for i, e := range s.Entries {
		at[keyText(e.Key)] = i
	}
	merged := append([]Entry(nil), s.Entries...)
	for _, e := range other.Entries {
		i, ok := at[keyText(e.Key)]
		if !ok {
			if _, err := Merge(e.Value, e.Value); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			merged = append(merged, Entry{e.Key, copied(e.Value)})
			continue
		}
		v, err := Merge(merged[i].Value, e.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		merged[i].Value = v
	}
	s.Entries = merged
	if other.Time.After(s.Time) {
		s.Time = other.Time
	}
	return nil
}

// keyText returns a string that is equal only for equal keys.
func keyText(key []Value) string {
	var b []byte
	for _, v := range key {
		b = appendKey(b, v)
	}
	return string(b)
}

func appendKey(b []byte, v Value) []byte {
	switch v := v.(type) {
	case Tuple:
		b = append(b, '(')
		for _, x := range v {
			b = appendKey(b, x)
		}
		return append(b, ')')
	case Stack: // addresses differ from host to host
		return strconv.AppendQuote(b, v.String())
	case Symbol, Enum, User, Cgroup, MAC, Timestamp:
		return strconv.AppendQuote(b, fmt.Sprint(v))
	}
	switch x := reflect.ValueOf(v); x.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		b = strconv.AppendInt(b, x.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		b = strconv.AppendUint(b, x.Uint(), 10)
	default:
		b = strconv.AppendQuote(b, fmt.Sprint(v))
	}
	return append(b, ',')
}

// KeyNames returns the script's names for the parts of the key ("pid"; "ret" for args.ret), "" for a part without a
// name; nil for scalars and for objects from older compilers.
func (m *Map) KeyNames() []string {
	if m == nil {
		return nil
	}
	return slices.Clone(m.m.KeyNames)
}
