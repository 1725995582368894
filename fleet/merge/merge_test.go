// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/output"
	"btc/loader/render"
)

var (
	integer64 = manifest.Layout{Kind: "int", Size: 8, Signed: true}
	unsigned  = manifest.Layout{Kind: "int", Size: 8}
	shortText = manifest.Layout{Kind: "string", Size: 16}
	pair      = manifest.Layout{Kind: "tuple", Size: 24, Fields: []manifest.Field{{Layout: integer64}, {Off: 8, Layout: shortText}}}
)

// shapes has a map of each shape that can be merged.
var shapes = []manifest.Map{
	{Name: "@avg", Shape: "avg", Value: &integer64},
	{Name: "@count", Shape: "count", Value: &unsigned, Key: &pair},
	{Name: "@hist", Shape: "hist", Value: &integer64, Key: &integer64, MapParams: manifest.MapParams{Bits: 2}},
	{Name: "@lhist", Shape: "lhist", Value: &integer64, MapParams: manifest.MapParams{Min: -10, Max: 100, Step: 7}},
	{Name: "@max", Shape: "max", Value: &integer64, Key: &shortText},
	{Name: "@min", Shape: "min", Value: &integer64, Key: &shortText},
	{Name: "@stats", Shape: "stats", Value: &integer64, Key: &pair},
	{Name: "@sum", Shape: "sum", Value: &unsigned, Key: &integer64},
	{Name: "@tseries", Shape: "tseries", Value: &integer64, MapParams: manifest.MapParams{Interval: int64(time.Second), Intervals: 5, Agg: "avg"},
		Key: &manifest.Layout{Kind: "tuple", Size: 16, Fields: []manifest.Field{{Layout: integer64}, {Off: 8, Layout: unsigned}}}},
}

// content holds the values that a host counted, by map and key.
type content map[string]map[string][]int64

// random returns some values for each map; a key consists of its parts.
func random(r *rand.Rand) content {
	c := content{}
	for i := range shapes {
		m := &shapes[i]
		c[m.Name] = map[string][]int64{}
		for range 1 + r.IntN(40) {
			var key []byte
			if m.Key != nil {
				n := r.Int64N(7) - 3
				switch m.Key {
				case &shortText:
					key = fmt.Appendf(nil, "key \"%d\"", n)
					key = append(key, make([]byte, 16-len(key))...)
				case &pair:
					key = binary.NativeEndian.AppendUint64(nil, uint64(n))
					key = append(append(key, "a,b"...), make([]byte, 13)...)
				default:
					key = binary.NativeEndian.AppendUint64(nil, uint64(n))
				}
			}
			v := r.Int64N(2000) - 100
			if m.Shape == "sum" {
				v += 1 << 62
			}
			c[m.Name][string(key)] = append(c[m.Name][string(key)], v)
		}
	}
	return c
}

// elements returns the values as counted by a run.
func elements(m *manifest.Map, values map[string][]int64) []render.Element {
	var out []render.Element
	last := int64(0) // interval over all keys
	for _, all := range values {
		for _, v := range all {
			last = max(last, 100+v&3)
		}
	}
	for key, all := range values {
		el := render.Element{Key: []byte(key), Set: true, State: aggregate.State{Count: uint64(len(all))}}
		if m.Shape == "hist" || m.Shape == "lhist" {
			el.Buckets = make([]uint64, m.Buckets().Len())
		}
		points := map[int64]*aggregate.Point{}
		for i, v := range all {
			switch {
			case m.Shape == "count":
				el.Value++
			case m.Shape == "hist" && v < 0, m.Shape == "lhist" && v < m.Min:
				el.Buckets[0]++
			case m.Shape == "hist":
				el.Buckets[aggregate.HistBucket(m.Bits, uint64(v))]++
			case m.Shape == "lhist":
				el.Buckets[min(len(el.Buckets)-1, int((v-m.Min)/m.Step)+1)]++
			case m.Shape == "min" && (i == 0 || v < int64(el.Value)), m.Shape == "max" && (i == 0 || v > int64(el.Value)):
				el.Value = uint64(v)
			case m.Shape == "tseries":
				at := 100 + v&3
				if points[at] == nil {
					points[at] = &aggregate.Point{}
				}
				points[at].Total += uint64(v)
				points[at].Meta++
			case m.Shape != "min" && m.Shape != "max":
				el.Value += uint64(v)
			}
		}
		for at := int64(100); at <= last && m.Shape == "tseries"; at++ {
			if x := points[at]; x != nil {
				x.N, x.Value = uint64(at), uint64(int64(x.Total)/int64(x.Meta))
				el.Points = append(el.Points, *x)
			}
		}
		if m.Shape == "tseries" {
			el.Window(m, uint64(last), uint64(last))
		}
		out = append(out, el)
	}
	if m.Shape == "tseries" {
		slices.SortFunc(out, func(a, b render.Element) int { return bytes.Compare(a.Key, b.Key) })
	}
	return out
}

// written returns the final output of a run in a format.
func written(f *output.Format, host string, c content) string {
	var out strings.Builder
	r := &output.Run{Manifest: &manifest.Manifest{Object: manifest.Object{SHA256: "ab12"}}, Env: &format.Env{}, Host: host, At: time.Unix(1, 0)}
	r.Out = output.NewWriter("line", func(b []byte, _ bool) []byte {
		out.Write(b)
		return b[:0]
	})
	f.New(r).End(func(show func(*output.Map)) {
		for i := range shapes {
			show(&output.Map{Map: &shapes[i], Elements: elements(&shapes[i], c[shapes[i].Name])})
		}
	})
	r.Out.Flush(true)
	return out.String()
}

// TestMergeIsOneRun checks that merging the runs of several hosts gives the output of a single host
// with all the data.
func TestMergeIsOneRun(t *testing.T) {
	json2 := output.Find("json2")
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		all := content{}
		parts := []*Runs{{}, {}}
		for host := range 1 + rnd.IntN(5) {
			c := random(rnd)
			for name, keys := range c {
				if all[name] == nil {
					all[name] = map[string][]int64{}
				}
				for key, values := range keys {
					all[name][key] = append(all[name][key], values...)
				}
			}
			name := fmt.Sprint("host", host)
			if cut, err := parts[host%2].Read(name, strings.NewReader(written(json2, name, c))); err != nil || cut {
				t.Fatal(cut, err)
			}
		}
		if err := parts[0].Add(parts[1]); err != nil {
			t.Fatal(err)
		}
		names, left := parts[0].Names()
		if len(names) != len(shapes) || len(left) > 0 {
			t.Fatal(names, left)
		}
		var got, again []byte
		second := &Runs{}
		for _, name := range names {
			got = parts[0].AppendText(got, name)
			again = parts[0].AppendJSON(again, name, time.Now())
		}
		want := strings.TrimPrefix(written(&output.Text, "", all), "\n\n")
		if string(got) != want {
			t.Fatalf("seed %d: merged\n%s\none run\n%s", seed, got, want)
		}
		// A merged report can be merged again.
		if _, err := second.Read("merged", strings.NewReader(string(again))); err != nil {
			t.Fatal(err)
		}
		got = nil
		for _, name := range names {
			got = second.AppendText(got, name)
		}
		if string(got) != want {
			t.Fatalf("seed %d: merged twice\n%s\none run\n%s", seed, got, want)
		}
	}
}

const line = `{"type": "map", "name": "@x", "shape": "count", "object": "ab", "host": "a", "signed": false, "entries": [{"key": [1], "value": 2}]}` + "\n"

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, in, want, err string
		cut                 bool
	}{
		{name: "last snapshot", in: line + strings.Replace(line, `"value": 2`, `"value": 7`, 1), want: "@x[1]: 7\n"},
		{name: "print() is not a snapshot", in: line + strings.Replace(line, `"name"`, `"line": 1, "col": 2, "probes": [], "name"`, 1), want: "@x[1]: 2\n"},
		{name: "cut", in: line + line[:50], want: "@x[1]: 2\n", cut: true},
		{name: "no newline", in: strings.TrimSpace(line), want: "@x[1]: 2\n"},
		{name: "other lines", in: `{"type": "printf", "data": "x"}` + "\n\n" + line, want: "@x[1]: 2\n"},
		{name: "symbols by name", want: "@x[f+1]: 4\n", in: strings.Replace(line, `[{"key": [1], "value": 2}]`,
			`[{"key": [{"address": 1, "text": "f+1"}], "value": 1}, {"key": [{"address": 9, "text": "f+1"}], "value": 3}]`, 1)},
		{name: "64 bits", in: strings.Replace(line, `"value": 2`, `"value": 18446744073709551615`, 1), want: "@x[1]: 18446744073709551615\n"},

		{name: "empty", err: "no map at the end"},
		{name: "text", in: "@x: 1\n", err: "not the output of btrun -f json2"},
		{name: "json", in: `{"type": "map", "data": {"@x": 1}}` + "\n", err: "names no object"},
		{name: "a list", in: "[1]\n", err: "not the output"},
		{name: "no value", in: strings.Replace(line, `, "value": 2`, "", 1), err: "an entry has no value"},
		{name: "a value that is not a number", in: strings.Replace(line, `"value": 2`, `"value": "x"`, 1), err: "a value of count"},
		{name: "too large", in: strings.Replace(line, `"value": 2`, `"value": 18446744073709551616`, 1), err: "a value of count"},
		{name: "unknown shape", in: strings.Replace(line, `count`, `size`, 1), err: `no map has the shape "size"`},
		{name: "bits", in: strings.Replace(line, `"count"`, `"hist", "bits": 60`, 1), err: `no map has the shape "hist"`},
		{name: "an invalid bucket", in: strings.Replace(strings.Replace(line, `"count"`, `"hist", "bits": 0`, 1), `2}`, `[{"min": 3, "max": 3, "count": 1}]}`, 1), err: "no bucket begins at 3"},
		{name: "tseries", in: strings.Replace(line, `"count"`, `"tseries", "interval": 9000000000000000000, "intervals": 1000`, 1), err: `no map has the shape "tseries"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &Runs{}
			cut, err := r.Read("in", strings.NewReader(c.in))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || !strings.HasPrefix(err.Error(), "in:") {
					t.Errorf("error = %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || cut != c.cut {
				t.Fatal(cut, err)
			}
			if got := string(r.AppendText(nil, "@x")); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestOtherObject(t *testing.T) {
	r := &Runs{}
	if _, err := r.Read("a", strings.NewReader(line)); err != nil {
		t.Fatal(err)
	}
	_, err := r.Read("b", strings.NewReader(strings.Replace(line, `"object": "ab"`, `"object": "cd"`, 1)))
	if err == nil || err.Error() != "b: map @x: it is of object cd, but a is of object ab: only runs of one object can be merged" {
		t.Error(err)
	}
	o := &Runs{}
	if _, err := o.Read("b", strings.NewReader(strings.Replace(line, `"object": "ab"`, `"object": "cd"`, 1))); err != nil {
		t.Fatal(err)
	}
	if err := r.Add(o); err == nil || errors.Is(err, ErrNotJSON2) {
		t.Error(err)
	}
}

func TestByHost(t *testing.T) {
	r := &Runs{ByHost: true}
	for _, in := range []string{line, strings.Replace(line, `"host": "a"`, `"host": "b"`, 1), line} {
		if _, err := r.Read("in", strings.NewReader(in)); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(r.AppendText(nil, "@x")); got != "@x[b, 1]: 2\n@x[a, 1]: 4\n" || r.Hosts() != 2 {
		t.Errorf("report %q of %d hosts", got, r.Hosts())
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(line))
	f.Add([]byte(written(output.Find("json2"), "h", random(rand.New(rand.NewPCG(1, 1))))))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := &Runs{}
		if _, err := r.Read("in", strings.NewReader(string(in))); err != nil {
			return
		}
		names, _ := r.Names()
		for _, name := range names {
			r.AppendText(nil, name)
			r.AppendJSON(nil, name, time.Unix(0, 0))
		}
	})
}

// TestPartial checks that a run in which the budget detached a probe is merged, and reported.
func TestPartial(t *testing.T) {
	const line = `{"type": "map", "name": "@n", "shape": "count", "object": "x", "host": "h", "signed": false, "entries": [{"value": 5}]}`
	const detached = `{"type": "detached", "time": "2026-01-01T00:00:00Z", "probe": "kprobe:f", "line": 3, "col": 1, "covered_ns": 20100000000}`
	r, other := &Runs{}, &Runs{}
	for stream, text := range map[string]string{"web1": detached + "\n" + line, "web2": line} {
		if _, err := other.Read(stream, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Add(other); err != nil {
		t.Fatal(err)
	}
	const want = `web1: the budget detached "kprobe:f": its data covers the first 20.1 s`
	if len(r.Partial) != 1 || r.Partial[0] != want || string(r.AppendText(nil, "@n")) != "@n: 10\n" {
		t.Errorf("Partial = %q, report %s", r.Partial, r.AppendText(nil, "@n"))
	}
}

// TestReload checks that a run in which the object was replaced is one of the last object.
func TestReload(t *testing.T) {
	lines := `{"type": "map", "name": "@n", "shape": "count", "object": "x", "host": "h", "signed": false, "entries": [{"value": 5}]}
{"type": "map", "name": "@old", "shape": "count", "object": "x", "host": "h", "signed": false, "entries": [{"value": 5}]}
{"type": "reload", "time": "2026-01-01T00:00:00Z", "object": "y"}
{"type": "head", "version": 2, "name": "second", "manifest": {}}
{"type": "map", "name": "@n", "shape": "count", "object": "y", "host": "h", "signed": false, "entries": [{"value": 7}]}`
	lines = `{"type": "head", "version": 2, "name": "first", "manifest": {}}` + "\n" + lines
	r := &Runs{}
	if _, err := r.Read("web1", strings.NewReader(lines)); err != nil {
		t.Fatal(err)
	}
	if head := string(r.AppendHead(nil, time.Time{}, nil)); !strings.Contains(head, `"name": "second"`) {
		t.Errorf("the head is not that of the last object: %s", head)
	}
	if names, _ := r.Names(); len(names) != 1 || string(r.AppendText(nil, "@n")) != "@n: 7\n" {
		t.Errorf("maps %q, report %s", names, r.AppendText(nil, "@n"))
	}
}

// TestDiffers checks that maps are told apart by what determines their values, and by nothing else.
func TestDiffers(t *testing.T) {
	signed := func(signed bool) *manifest.Layout { return &manifest.Layout{Kind: "int", Signed: signed} }
	for _, c := range []struct {
		a, b manifest.Map
		want bool
	}{
		{manifest.Map{Shape: "count"}, manifest.Map{Shape: "count", MapParams: manifest.MapParams{Bits: 1, Min: 1, Interval: 1}}, false},
		{manifest.Map{Shape: "count"}, manifest.Map{Shape: "sum"}, true},
		{manifest.Map{Shape: "sum", Value: signed(true)}, manifest.Map{Shape: "sum", Value: signed(false)}, true},
		{manifest.Map{Shape: "sum", Value: signed(true)}, manifest.Map{Shape: "sum", Value: signed(true)}, false},
		{manifest.Map{Shape: "sum", Value: signed(true)}, manifest.Map{Shape: "sum"}, true},
		{manifest.Map{Shape: "sum"}, manifest.Map{Shape: "sum", Value: signed(true)}, true},
		{manifest.Map{Shape: "sum"}, manifest.Map{Shape: "sum", Value: signed(false)}, false},
		{manifest.Map{Shape: "hist", MapParams: manifest.MapParams{Bits: 1}}, manifest.Map{Shape: "hist", MapParams: manifest.MapParams{Bits: 2}}, true},
		{manifest.Map{Shape: "hist", MapParams: manifest.MapParams{Bits: 1}}, manifest.Map{Shape: "hist", MapParams: manifest.MapParams{Bits: 1, Min: 2, Interval: 3}}, false},
		{manifest.Map{Shape: "lhist", MapParams: manifest.MapParams{Min: 1, Max: 9, Step: 2}}, manifest.Map{Shape: "lhist", MapParams: manifest.MapParams{Min: 1, Max: 9, Step: 2, Bits: 1}}, false},
		{manifest.Map{Shape: "lhist", MapParams: manifest.MapParams{Min: 1, Max: 9, Step: 2}}, manifest.Map{Shape: "lhist", MapParams: manifest.MapParams{Min: 2, Max: 9, Step: 2}}, true},
		{manifest.Map{Shape: "lhist", MapParams: manifest.MapParams{Min: 1, Max: 9, Step: 2}}, manifest.Map{Shape: "lhist", MapParams: manifest.MapParams{Min: 1, Max: 8, Step: 2}}, true},
		{manifest.Map{Shape: "lhist", MapParams: manifest.MapParams{Min: 1, Max: 9, Step: 2}}, manifest.Map{Shape: "lhist", MapParams: manifest.MapParams{Min: 1, Max: 9, Step: 1}}, true},
		{manifest.Map{Shape: "tseries", MapParams: manifest.MapParams{Interval: 1, Intervals: 2, Agg: "sum"}}, manifest.Map{Shape: "tseries", MapParams: manifest.MapParams{Interval: 1, Intervals: 2, Agg: "sum"}}, false},
		{manifest.Map{Shape: "tseries", MapParams: manifest.MapParams{Interval: 1, Intervals: 2, Agg: "sum"}}, manifest.Map{Shape: "tseries", MapParams: manifest.MapParams{Interval: 2, Intervals: 2, Agg: "sum"}}, true},
		{manifest.Map{Shape: "tseries", MapParams: manifest.MapParams{Interval: 1, Intervals: 2, Agg: "sum"}}, manifest.Map{Shape: "tseries", MapParams: manifest.MapParams{Interval: 1, Intervals: 3, Agg: "sum"}}, true},
		{manifest.Map{Shape: "tseries", MapParams: manifest.MapParams{Interval: 1, Intervals: 2, Agg: "sum"}}, manifest.Map{Shape: "tseries", MapParams: manifest.MapParams{Interval: 1, Intervals: 2, Agg: "min"}}, true},
	} {
		if got := differs(&c.a, &c.b); got != c.want {
			t.Errorf("%+v and %+v: %v", c.a, c.b, got)
		}
	}
}
