// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/render"
)

// Limits of what a stream may contain, whatever an object allows.
const (
	maxNesting   = 1000      // of lists in a line: btrun nests at most 20
	maxMaps      = 1024      // of a run, as in a manifest
	maxName      = 256       // bytes
	maxParts     = 512       // of a key
	maxBuckets   = 1 << 17   // of lhist: a value has at most 1 MiB
	maxIntervals = 1_000_000 // of tseries
	// hugeCount is more than a host can count. Hosts with smaller counts cannot make a sum overflow.
	hugeCount = 1 << 48
)

// How far ahead of this machine's clock that of a host may be: during a run, and for a recorded run.
const (
	maxAhead         = time.Minute
	maxAheadRecorded = 24 * time.Hour
)

// checkLine returns an error for a line that no run writes. The JSON library is recursive and does not check UTF-8.
func checkLine(line []byte) error {
	depth, inString := 0, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case inString:
			if c == '\\' {
				i++
			}
			inString = c != '"'
		case c == '"':
			inString = true
		case c == '[', c == '{':
			if depth++; depth > maxNesting {
				return fmt.Errorf("nesting too deep (max %d)", maxNesting)
			}
		case c == ']', c == '}':
			depth = max(depth-1, 0)
		}
	}
	if !utf8.Valid(line) {
		return errors.New("not UTF-8")
	}
	return nil
}

// head is a line of a map, up to its entries.
type head struct {
	kind, object, host string
	asked              bool   // print() of the script
	div                uint32 // of print() in version 2, where values are not divided
	top                int
	m                  *Map
	entries            gjson.Result
	frames             gjson.Result // version 2: the table of the frames of stacks
}

// headKeys are the members of a line that are used, with the type of their values.
var headKeys = map[string]struct {
	bit  int
	want gjson.Type
}{
	"type":      {0, gjson.String},
	"name":      {1, gjson.String},
	"shape":     {2, gjson.String},
	"object":    {3, gjson.String},
	"host":      {4, gjson.String},
	"signed":    {5, gjson.True},
	"bits":      {6, gjson.Number},
	"min":       {7, gjson.Number},
	"max":       {8, gjson.Number},
	"step":      {9, gjson.Number},
	"interval":  {10, gjson.Number},
	"intervals": {11, gjson.Number},
	"agg":       {12, gjson.String},
	"line":      {13, gjson.Number},
	"entries":   {14, gjson.JSON},
	"frames":    {15, gjson.JSON},
	"div":       {16, gjson.Number},
	"top":       {17, gjson.Number},
}

// parseHead reads a line of a map, which is valid JSON. Its strings are copies.
func parseHead(line gjson.Result) (h head, err error) {
	h.m = &Map{elems: map[string]*element{}}
	h.m.Value = &manifest.Layout{Kind: "int", Size: 8}
	seen := 0
	line.ForEach(func(key, value gjson.Result) bool {
		k, known := headKeys[key.Str]
		if !known {
			return true
		}
		text, n := "", int64(0)
		switch {
		case seen>>k.bit&1 != 0:
			err = fmt.Errorf("it has two members %q", key.Str)
		case seen>>headKeys["entries"].bit&1 != 0 && key.Str != "frames":
			err = fmt.Errorf("the member %q is after the entries", key.Str)
		case k.want == gjson.Number:
			n, err = strconv.ParseInt(value.Raw, 10, 64)
		case k.want == gjson.True && value.IsBool(), k.want == gjson.JSON && value.IsArray():
		case k.want == gjson.String && value.Type == gjson.String:
			text = strings.Clone(value.Str)
		case k.want == gjson.JSON && key.Str == "entries":
			err = errors.New("it has no entries")
		default:
			err = fmt.Errorf("its member %q has the wrong type", key.Str)
		}
		if err != nil {
			return false
		}
		seen |= 1 << k.bit
		switch key.Str {
		case "type":
			h.kind = text
		case "name":
			h.m.Name = text
		case "shape":
			h.m.Shape = text
		case "object":
			h.object = text
		case "host":
			h.host = text
		case "signed":
			h.m.Value.Signed = value.Bool()
		case "bits":
			h.m.Bits = int(n)
		case "min":
			h.m.Min = n
		case "max":
			h.m.Max = n
		case "step":
			h.m.Step = n
		case "interval":
			h.m.Interval = n
		case "intervals":
			h.m.Intervals = n
		case "agg":
			h.m.Agg = text
		case "line":
			h.asked = true
		case "entries":
			h.entries = value
		case "frames":
			h.frames = value
		case "div":
			h.div = uint32(min(max(n, 0), math.MaxUint32))
		case "top":
			h.top = int(min(max(n, 0), 1<<30))
		}
		return true
	})
	if err == nil && len(h.m.Name) > maxName {
		err = fmt.Errorf("name too long: %d bytes (max %d)", len(h.m.Name), maxName)
	}
	return h, err
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
		if n := aggregate.LhistBuckets(m.Min, m.Max, m.Step); n > 0 && n <= maxBuckets {
			return nil
		}
	case "tseries":
		switch m.Agg {
		case "", "avg", "max", "min", "sum":
			if m.Interval > 0 && m.Intervals > 0 && m.Intervals <= maxIntervals && m.Interval <= math.MaxInt64/m.Intervals {
				return nil
			}
		}
	}
	return fmt.Errorf("no map has the shape %.64q with these bounds", m.Shape)
}

// Describe returns the description of a map in its line, without a key, and its entries. The line is valid JSON.
func Describe(line gjson.Result) (m manifest.Map, entries gjson.Result, err error) {
	h, err := parseHead(line)
	if err == nil {
		err = h.m.check()
	}
	if err == nil && !h.entries.IsArray() {
		err = errors.New("it has no entries")
	}
	m = h.m.Map
	m.Present = -1
	return m, h.entries, err
}

// differs reports whether two valid descriptions differ in what determines values.
func differs(a, b *manifest.Map) bool {
	switch {
	case a.Shape != b.Shape || (a.Value != nil && a.Value.Signed) != (b.Value != nil && b.Value.Signed):
		return true
	case a.Shape == "hist":
		return a.Bits != b.Bits
	case a.Shape == "lhist":
		return a.Min != b.Min || a.Max != b.Max || a.Step != b.Step
	case a.Shape == "tseries":
		return a.Interval != b.Interval || a.Intervals != b.Intervals || a.Agg != b.Agg
	}
	return false
}

// addEntries adds the entries of a line; prefix is the first part of each key, or "".
func (m *Map) addEntries(h *head, prefix string, w *wanted, maxStart time.Time) (err error) {
	entries := h.entries
	if !entries.IsArray() {
		return errors.New("it has no entries")
	}
	st, err := newStacks(h.frames)
	if err != nil {
		return err
	}
	m.stacks = st.found
	var key []byte
	n, first, last := 0, uint64(math.MaxUint64), uint64(0)
	entries.ForEach(func(_, entry gjson.Result) bool {
		var rawKey, value gjson.Result
		if !entry.IsObject() {
			err = errors.New("an entry has no value")
			return false
		}
		entry.ForEach(func(name, v gjson.Result) bool {
			to := &value
			switch name.Str {
			case "key":
				to = &rawKey
			case "value":
			default:
				return true
			}
			if to.Exists() {
				err = fmt.Errorf("an entry has two members %q", name.Str)
			}
			*to = v
			return err == nil
		})
		switch n++; {
		case err != nil:
		case !value.Exists():
			err = errors.New("an entry has no value")
		case w != nil && n > w.entries:
			err = fmt.Errorf("more than %d entries, which is what the map of the object has room for", w.entries)
		case w != nil:
			err = w.checkKey(rawKey)
		}
		if err != nil {
			return false
		}
		parts := 0
		if key, parts, err = appendKey(key[:0], prefix, rawKey, st); err != nil {
			return false
		}
		if n == 1 {
			m.parts = parts
		} else if m.parts != parts || parts == 0 {
			err = errors.New("its keys have different numbers of parts")
			return false
		}
		el := &element{}
		if err = m.parse(el, value); err == nil && w != nil && m.Shape == "plain" && !matches(w.Value, value) {
			err = fmt.Errorf("a value is not %s, as in the object", nameOf(w.Value))
		}
		if err == nil && st.table != nil && m.Shape == "plain" {
			var text []byte
			text, err = st.resolve(nil, value)
			el.raw = string(text)
		}
		if err != nil {
			return false
		}
		if len(el.Points) > 0 {
			first, last = min(first, el.Points[0].N), max(last, el.Points[len(el.Points)-1].N)
		}
		have := m.elems[string(key)]
		switch {
		case have == nil:
			m.elems[string(key)] = el
		case !rawKey.Exists() || m.exact(rawKey, w):
			err = fmt.Errorf("two entries have the key %.64s", key)
		case m.Merges():
			m.join(have, el)
		default:
			*have = *el
		}
		return err == nil
	})
	switch {
	case err != nil || first > last:
		return err
	case last-first >= uint64(m.Intervals):
		return fmt.Errorf("its intervals are more than %d apart", m.Intervals)
	case render.Start(&m.Map, last).After(maxStart):
		return fmt.Errorf("the host's clock is ahead: an interval begins at %s", render.Start(&m.Map, last).UTC().Format(time.RFC3339))
	}
	return nil
}

// exact reports whether equal keys are an error: the text of a symbol, for instance, is that of many addresses.
func (m *Map) exact(key gjson.Result, w *wanted) bool {
	if w != nil {
		return w.exact
	}
	return !strings.ContainsAny(key.Raw, `"{`) // numbers
}

// appendKey makes a key of the JSON of its parts, and returns their number: an object, such as a stack or an address
// with its symbol, is identified by its text, which is the same on all hosts. Equal keys have equal bytes.
func appendKey(dst []byte, prefix string, key gjson.Result, st *stacks) ([]byte, int, error) {
	if !key.Exists() {
		if prefix != "" {
			dst = append(append(append(dst, '['), prefix...), ']')
		}
		return dst, 0, nil
	}
	if !key.IsArray() {
		return dst, 0, errors.New("a key is not a list")
	}
	dst = append(append(dst, '['), prefix...)
	n := 0
	var err error
	key.ForEach(func(_, part gjson.Result) bool {
		if n++; n > 1 || prefix != "" {
			dst = append(dst, ',')
		}
		if n > maxParts {
			err = fmt.Errorf("a key has more than %d parts", maxParts)
			return false
		}
		text := part.Get("text")
		switch {
		case IsStack(part):
			var s string
			if s, err = st.text(part); err == nil {
				dst = format.AppendQuoted(dst, []byte(s))
			}
		case part.Type == gjson.Number:
			if _, err = number(part, part.Raw[0] == '-'); err != nil {
				err = fmt.Errorf("a part of a key: %w", err)
			}
			dst = append(dst, part.Raw...)
		case part.Type == gjson.String:
			dst = appendString(dst, part)
		case part.IsObject() && text.Type == gjson.String && !part.Get("truncated").Exists():
			dst = appendString(dst, text)
		default:
			dst, err = st.resolve(dst, part)
		}
		return err == nil
	})
	return append(dst, ']'), n, err
}

// appendString appends a JSON string in the form in which btrun writes it.
func appendString(dst []byte, v gjson.Result) []byte {
	if strings.IndexByte(v.Raw, '\\') < 0 {
		return append(dst, v.Raw...)
	}
	return format.AppendQuoted(dst, []byte(v.Str))
}

// errNumber is the error for a number of the wrong form.
var errNumber = errors.New("not an integer of 64 bits")

// number reads an integer, which a run writes in the shortest form.
func number(v gjson.Result, signed bool) (uint64, error) {
	switch {
	case v.Type != gjson.Number || v.Raw == "-0":
	case signed:
		if n, err := strconv.ParseInt(v.Raw, 10, 64); err == nil {
			return uint64(n), nil
		}
	default:
		if n, err := strconv.ParseUint(v.Raw, 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%w: %.40s", errNumber, v.Raw)
}

// parse reads a value of the map's shape.
func (m *Map) parse(el *element, v gjson.Result) (err error) {
	fail := func(e error) {
		if err == nil && e != nil {
			err = fmt.Errorf("a value of %s: %w", m.Shape, e)
		}
	}
	get := func(v gjson.Result, to *uint64, signed bool) {
		n, e := number(v, signed)
		*to = n
		fail(e)
	}
	count := func(v gjson.Result, to *uint64) {
		get(v, to, false)
		m.huge = m.huge || *to >= hugeCount
	}
	signed := m.Value.Signed
	switch m.Shape {
	case "plain":
		el.raw = strings.Clone(v.Raw)
	case "count":
		count(v, &el.Value)
	case "avg", "stats":
		count(v.Get("count"), &el.Count)
		get(v.Get("total"), &el.Value, signed)
		average := v.Get("average")
		switch {
		case err != nil:
		case el.Count == 0 && el.Value != 0:
			fail(errors.New("a total without values"))
		case average.Exists() && !m.scaled:
			n := uint64(0)
			if get(average, &n, signed); n != m.Rule().Mean(el.Value, el.Count) {
				fail(errors.New("the average is not the total divided by the count"))
			}
		}
	case "hist", "lhist":
		if !v.IsArray() {
			return fmt.Errorf("a value of %s is not a list", m.Shape)
		}
		v.ForEach(func(_, x gjson.Result) bool {
			var low gjson.Result
			b := aggregate.Bucket{}
			seen := false
			x.ForEach(func(name, x gjson.Result) bool {
				switch name.Str {
				case "min":
					low = x
				case "count":
					seen = true
					count(x, &b.N)
				}
				return true
			})
			i, e := m.bucket(low)
			fail(e)
			if !seen {
				fail(errors.New("a bucket without a count"))
			}
			b.I = int32(i)
			if n := len(el.buckets); n > 0 && el.buckets[n-1].I >= b.I {
				fail(errors.New("its buckets are not in order"))
			}
			if el.Count+b.N < el.Count {
				fail(errors.New("the sum of its counts has more than 64 bits"))
			}
			if err != nil {
				return false
			}
			if b.N > 0 || len(el.buckets) == 0 {
				el.buckets = append(el.buckets, b)
			}
			el.Count += b.N
			return true
		})
		el.buckets = slices.DeleteFunc(el.buckets, func(b aggregate.Bucket) bool { return b.N == 0 })
	case "tseries":
		if !v.IsArray() {
			return errors.New("a value of tseries is not a list")
		}
		v.ForEach(func(_, x gjson.Result) bool {
			if x.Get("value").Type == gjson.Null {
				if x.Get("value").Exists() {
					return true
				}
				fail(errors.New("an interval without a value"))
				return false
			}
			p, e := m.point(x)
			fail(e)
			if n := len(el.Points); n > 0 && el.Points[n-1].N >= p.N {
				fail(errors.New("its intervals are not in order"))
			}
			el.Points = append(el.Points, p)
			return err == nil
		})
	default:
		get(v, &el.Value, signed)
	}
	return err
}

// point reads an interval of a tseries.
func (m *Map) point(x gjson.Result) (p aggregate.Point, err error) {
	start, err := time.Parse(time.RFC3339Nano, x.Get("start").String())
	if err != nil {
		return p, fmt.Errorf("%.40q is not a time", x.Get("start").String())
	}
	// Year 2262 is the last one in ns of 64 bits.
	ns := start.UnixNano()
	if y := start.UTC().Year(); y < 1970 || y > 2261 || ns%m.Interval != 0 {
		return p, fmt.Errorf("no interval begins at %s", start.UTC().Format(time.RFC3339Nano))
	}
	p.N = uint64(ns / m.Interval)
	signed := m.Value.Signed
	if p.Value, err = number(x.Get("value"), signed); err != nil {
		return p, err
	}
	p.Total = p.Value
	if m.Agg != "avg" {
		return p, nil
	}
	if p.Total, err = number(x.Get("total"), signed); err != nil {
		return p, err
	}
	if p.Meta, err = number(x.Get("count"), false); err != nil {
		return p, err
	}
	m.huge = m.huge || p.Meta >= hugeCount
	if p.Meta == 0 || m.Rule().Mean(p.Total, p.Meta) != p.Value {
		return p, errors.New("the average is not the total divided by the count")
	}
	return p, nil
}

// bucket returns the index of the bucket with a lower bound; the first bucket has none.
func (m *Map) bucket(low gjson.Result) (int, error) {
	if !low.Exists() {
		return 0, nil
	}
	n, err := number(low, true)
	if err != nil {
		return 0, err
	}
	if i, ok := m.Buckets().Find(int64(n)); ok {
		return i, nil
	}
	return 0, fmt.Errorf("no bucket begins at %.40s", low.Raw)
}
