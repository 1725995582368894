// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"github.com/tidwall/gjson"

	"btc/internal/manifest"
	"btc/loader/render"
)

// Want is what the runs of an object can report. A stream with it is checked line by line.
type Want struct {
	maps map[string]*wanted
	room uint64
}

// wanted is what the lines of a map can contain.
type wanted struct {
	manifest.Map
	parts   []*manifest.Layout // of a key
	entries int                // maximum number
	exact   bool               // different keys have different JSON
}

// minRoom is the memory that the lines of a host may take in any case.
const minRoom = 64 << 20

// Expect returns what runs of the object with a manifest can report.
func Expect(m *manifest.Manifest) *Want {
	w := &Want{maps: map[string]*wanted{}}
	for i := range m.Maps {
		x := &m.Maps[i]
		if x.Shape == "intern" || x.Shape == "stack" {
			continue
		}
		y := &wanted{Map: *x, entries: 1, exact: true}
		if x.Shape == "plain" && x.Value.Kind != "int" {
			value := *x.Value
			value.Signed = false // not in the line
			y.Map.Value = &value
		}
		if !x.Scalar() {
			y.entries = x.MaxEntries
			if c := x.Cache; c != nil {
				y.entries += c.CPUs * c.Slots
			}
			key := render.KeyLayout(x)
			if key.Kind == "tuple" {
				for j := range key.Fields {
					y.parts = append(y.parts, &key.Fields[j].Layout)
				}
			} else {
				y.parts = []*manifest.Layout{key}
			}
			for _, l := range y.parts {
				y.exact = y.exact && exactKinds[l.Kind]
			}
		}
		w.maps[x.Name] = y
		w.room = add(w.room, multiply(uint64(y.entries), y.lineBytes(m)))
	}
	return w
}

// exactKinds are the kinds of key parts whose JSON differs if their bytes do.
var exactKinds = map[string]bool{"int": true, "ptr": true, "string": true, "mac": true}

// lineBytes is the approximate maximum size of an entry in a line.
func (w *wanted) lineBytes(m *manifest.Manifest) uint64 {
	n := uint64(64)
	for _, l := range w.parts {
		n = add(n, partBytes(m, l))
	}
	switch w.Shape {
	case "hist", "lhist":
		n += 100 * uint64(w.Buckets().Len())
	case "tseries":
		n += 160 * uint64(w.Intervals)
	case "plain":
		n = add(n, partBytes(m, w.Value))
	}
	return n
}

// partBytes is the approximate maximum size of a value: six bytes for an escaped one, the addresses and lines of a
// stack twice.
func partBytes(m *manifest.Manifest, l *manifest.Layout) uint64 {
	n := 64 + 6*uint64(l.Size)
	if x := m.Map(l.Stack); x != nil {
		n += 1024 * uint64(x.Depth)
	}
	for i := range l.Fields {
		n = add(n, add(uint64(len(l.Fields[i].Name)), partBytes(m, &l.Fields[i].Layout)))
	}
	if l.Elem != nil {
		n = add(n, multiply(uint64(max(l.Count, 0)), partBytes(m, l.Elem)))
	}
	return n
}

func multiply(a, b uint64) uint64 {
	if hi, lo := bits.Mul64(a, b); hi == 0 {
		return lo
	}
	return math.MaxUint64
}

func add(a, b uint64) uint64 {
	if a+b < a {
		return math.MaxUint64
	}
	return a + b
}

// Entries returns the maximum number of entries of a map in the report of a run; 0: not known.
func (w *Want) Entries(name string) int {
	if x := w.maps[name]; x != nil {
		return x.entries
	}
	return 0
}

// Room returns the number of bytes that the last lines of a stream's maps may take in total; w may be nil.
func (w *Want) Room() int {
	if w == nil {
		return maxLine * 4
	}
	return int(min(max(w.room, minRoom), math.MaxInt))
}

// MaxLine returns the maximum length of a line; w may be nil.
func (w *Want) MaxLine() int { return min(w.Room(), maxLine) }

// check returns an error for the line of a map that no run of the object writes.
func (w *Want) check(h *head) error {
	x := w.maps[h.m.Name]
	switch {
	case x == nil:
		return fmt.Errorf("it reports %.40q, a map that the object does not have", h.m.Name)
	case differs(&x.Map, &h.m.Map):
		return fmt.Errorf("map %s: its description differs from that in the object", h.m.Name)
	case !h.entries.Exists():
		return fmt.Errorf("map %s: it has no entries", h.m.Name)
	}
	return nil
}

// checkKey returns an error if a key is not one of the map.
func (w *wanted) checkKey(key gjson.Result) error {
	if key.Exists() != (w.parts != nil) {
		return errors.New("a key in a map without keys, or an entry without one")
	}
	if w.parts == nil {
		return nil
	}
	n, bad := 0, -1
	key.ForEach(func(_, part gjson.Result) bool {
		if n >= len(w.parts) || !matches(w.parts[n], part) {
			bad = n
		}
		n++
		return bad < 0
	})
	switch {
	case !key.IsArray() || bad < 0 && n < len(w.parts) || bad >= len(w.parts):
		return fmt.Errorf("a key has not the %d parts of those of the object", len(w.parts))
	case bad >= 0:
		return fmt.Errorf("part %d of a key is not %s, as in the object", bad+1, nameOf(w.parts[bad]))
	}
	return nil
}

// nameOf describes the values of a layout.
func nameOf(l *manifest.Layout) string {
	if l.Kind == "int" {
		sign := "un"
		if l.Signed {
			sign = ""
		}
		return fmt.Sprintf("an integer (%ssigned, %d bytes)", sign, l.Size)
	}
	return "of the kind " + l.Kind
}

// matches reports whether a value has the JSON type of a layout, see format.JSON.
func matches(l *manifest.Layout, v gjson.Result) bool {
	text := v.Type == gjson.String
	switch l.Kind {
	case "int", "ptr":
		if v.IsObject() {
			return l.IDOf != ""
		}
		if v.Type != gjson.Number {
			return false
		}
		size := 8 * min(max(l.Size, 1), 8)
		if l.Signed {
			_, err := strconv.ParseInt(v.Raw, 10, size)
			return err == nil && v.Raw != "-0"
		}
		_, err := strconv.ParseUint(v.Raw, 10, size)
		return err == nil
	case "bool":
		return v.IsBool()
	case "none":
		return v.Type == gjson.Null
	case "kstack", "ustack":
		return IsStack(v) || v.IsObject() && v.Get("text").Type == gjson.String
	case "probe":
		return text || v.IsObject() && isText(v.Get("text"))
	case "string":
		return text || v.IsObject() && !v.Get("frames").Exists() && !v.Get("addresses").Exists()
	case "tuple":
		n, ok := 0, v.IsArray()
		v.ForEach(func(_, x gjson.Result) bool {
			ok = ok && n < len(l.Fields) && matches(&l.Fields[n].Layout, x)
			n++
			return ok
		})
		return ok && n == len(l.Fields)
	case "array":
		n, ok := 0, v.IsArray()
		v.ForEach(func(_, x gjson.Result) bool {
			ok = ok && n < l.Count && matches(l.Elem, x)
			n++
			return ok
		})
		return ok && n == l.Count
	case "record", "buffer":
		return v.IsObject()
	case "enum", "timestamp", "username", "cgroup_path", "ksym", "usym":
		return v.IsObject() && isText(v.Get("text"))
	}
	return text
}

// isText reports whether a value is text, which is in base64 if it is not UTF-8.
func isText(v gjson.Result) bool {
	return v.Type == gjson.String || v.IsObject() && v.Get("base64").Type == gjson.String
}
