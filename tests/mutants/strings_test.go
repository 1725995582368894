// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"btc/internal/manifest"
	"btc/loader/bpfmap"
	"btc/loader/format"
	"btc/loader/object"
	"btc/loader/output"
	"btc/loader/permit"
	"btc/loader/render"
)

// forged is a string that would add a series to an exposition, a line to a text, or a sequence to a terminal.
const forged = "x 1\nforged{injected=\"yes\"} 0\n#\x1b]0;forged\x07\r\n"

// TestHostileStrings puts that string into each string of manifests. Each is refused, or escaped in every format and in
// the description of the object.
func TestHostileStrings(t *testing.T) {
	tried, accepted := 0, 0
	for _, b := range bases(t)[:len(scripts)] {
		first, err := manifest.Parse(b.manifest)
		if err != nil {
			t.Fatal(err)
		}
		var all []field
		collect(reflect.ValueOf(first).Elem(), "", &all)
		for i := range all {
			if all[i].value.Kind() != reflect.String {
				continue
			}
			m, err := manifest.Parse(b.manifest)
			if err != nil {
				t.Fatal(err)
			}
			var fields []field
			collect(reflect.ValueOf(m).Elem(), "", &fields)
			fields[i].value.SetString(forged)
			text, err := json.Marshal(m.File())
			if err != nil {
				t.Fatal(err)
			}
			tried++
			if m, err = manifest.Parse(text); err != nil {
				if strings.ContainsAny(err.Error(), "\n\x1b") {
					t.Errorf("%s: the error has the string: %q", fields[i].key, err)
				}
				continue
			}
			accepted++
			checkOutput(t, fields[i].key, b.object, m)
		}
	}
	t.Logf("%d strings, %d accepted", tried, accepted)
	if accepted < tried/20 {
		t.Errorf("only %d of %d strings are accepted: the test does not reach the formats", accepted, tried)
	}
}

// printing are the strings that a script prints itself, with newlines, such as the format of printf().
var printing = map[string]bool{"Format": true}

func checkOutput(t *testing.T, key string, data []byte, m *manifest.Manifest) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, f := range output.Formats {
		var out strings.Builder
		clean := format.Env{Escape: !f.JSON, Trailer: ".."}
		run := &output.Run{
			Manifest: m, Env: &clean, Message: func(string) {}, MessageNow: func(string) {}, Post: func(_ int, job func()) { job() },
			Frames: func(*manifest.Layout, uint64) []uint64 { return nil }, Object: "x", Host: "h",
			Losses: func() []output.Loss { return []output.Loss{{Cause: "map", N: 1}} },
		}
		run.Out = output.NewWriter("none", func(text []byte, _ bool) []byte { out.Write(text); return text[:0] })
		sink := f.New(run)
		if !printing[key] {
			for i := range m.Events {
				x := &m.Events[i]
				e := format.Event{Event: x}
				for j := range x.Fields {
					e.Values = append(e.Values, format.Value{Layout: &x.Fields[j].Layout, Bytes: make([]byte, max(x.Fields[j].Layout.Size, 8))})
				}
				if len(e.Values) > 0 {
					sink.Print(&e)
				}
			}
		}
		show := func(show func(*output.Map)) {
			for i := range m.Maps {
				x := &m.Maps[i]
				if x.Shape == "intern" || x.Shape == "stack" {
					continue
				}
				entries := []bpfmap.Entry{{Key: bytesOf(x.KeySize, r), Values: [][]byte{bytesOf(x.ValueSize, r)}}}
				var elems []render.Element
				if x.Shape == "tseries" {
					elems = render.ReduceSeries(x, entries)
				} else {
					elems = append(elems, render.Reduce(x, entries[0]))
				}
				show(&output.Map{Map: x, Elements: elems})
			}
		}
		sink.End(show)
		for line := range strings.Lines(out.String()) {
			if !f.Binary && strings.HasPrefix(line, "forged") || !f.Binary && strings.ContainsRune(line, 0x1b) {
				t.Errorf("%s in -f %s: %q", key, f.Name, line)
				return
			}
		}
	}
	if o, err := object.Parse(data, m); err == nil {
		var b strings.Builder
		permit.Describe(o, 128).Print(&b)
		for line := range strings.Lines(b.String()) {
			if strings.HasPrefix(line, "forged") || strings.ContainsRune(line, 0x1b) {
				t.Errorf("%s in --inspect: %q", key, line)
			}
		}
	}
}
