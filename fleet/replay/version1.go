// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"btc/fleet/merge"
	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/output"
	"btc/loader/render"
)

// bare is the part of a player for a recording without a head, as of version 1: its manifest is made of the lines. Values
// get layouts that print what the lines say; what they do not say is in lacks.
type bare struct {
	manifest manifest.Manifest
	names    map[string]bool       // of the maps since the last snapshot
	clauses  map[manifest.Pos]bool // in the manifest's programs
	trials   []*output.Trial       // one after the other
	raw      bool                  // json2: the lines as they are
	shown    bool                  // a document
}

// lacks says what a recording without a head lacks. It is printed once.
const lacks = "WARNING: %s is json2 of version 1, or has no head. It does not have the script, the names of the parts of keys, " +
	"the files of frames, losses, scalars that were never set, and what --top left out. Pointers are printed in decimal, " +
	"arrays as tuples, strings that are not UTF-8 as buffers, numbers as print() divided them, and times in UTC"

// maxClauses bounds the calls whose probes are kept.
const maxClauses = 4096

// begin1 begins the replay of a recording without a head.
func (p *player) begin1(line gjson.Result) error {
	at, err := time.Parse(time.RFC3339Nano, line.Get("time").Str)
	if err != nil {
		return fmt.Errorf("%.40q is not a time", line.Get("time").Str)
	}
	b := &bare{names: map[string]bool{}, clauses: map[manifest.Pos]bool{}}
	p.bare = b
	m := &b.manifest
	m.Script.File = "the script"
	m.Config.PrintMapsOnExit, m.Config.StrTruncTrailer = true, ".."
	for _, kind := range []string{"printf", "print", "time", "join", "cat", "system", "print_map"} {
		m.Events = append(m.Events, manifest.Event{ID: len(m.Events), Kind: kind})
	}
	p.want, p.hosts, p.room, p.maxBytes = nil, 1, p.want.Room(), p.want.MaxLine()
	p.manifest, p.started = m, at
	if err := p.opts.inOrder(at); err != nil {
		return err
	}
	if p.opts.Format == nil {
		p.opts.Format = &output.Text
	}
	if p.opts.Map != "" && !p.opts.Format.Profile {
		return p.opts.Format.CheckMap(m, p.opts.Map)
	}
	if err := p.open(); err != nil {
		return err
	}
	p.begin(&output.Run{Object: "unknown", Arch: "unknown", Started: at}, &format.Env{Trailer: "..", Names: true, Local: p.local, Escape: p.opts.Escape && !p.opts.Format.JSON})
	if b.raw = p.opts.Format.Records; !b.raw {
		p.run.MessageNow(fmt.Sprintf(lacks, p.name))
	}
	p.sink = p.opts.Format.New(p.run)
	for _, path := range p.pinned {
		p.sink.Pinned(path)
	}
	p.pinned = nil
	return nil
}

// pinned1 replays a line that is not JSON, and reports whether version 1 has such a line.
func (p *player) pinned1(text []byte) bool {
	path, is := strings.CutPrefix(strings.TrimSuffix(string(text), "\n"), "Program pinned to ")
	switch {
	case !is || p.run != nil && p.bare == nil:
		return false
	case p.run == nil:
		if p.pinned = append(p.pinned, path); len(p.pinned) > maxClauses {
			return false
		}
	case p.bare.raw:
		p.run.Out.Write(append(bytes.TrimSpace(text), '\n'))
	default:
		p.sink.Pinned(path)
	}
	return true
}

// line1 replays a line of a recording without a head, if it is not one that both versions have.
func (p *player) line1(kind string, text []byte, line gjson.Result, at time.Time) (done bool, err error) {
	b := p.bare
	switch {
	case b.raw:
		if !p.outside(at) {
			p.run.Out.Write(append(bytes.TrimSpace(text), '\n'))
		}
		return true, nil
	case kind == "map" && !line.Get("line").Exists():
		name := line.Get("name").String()
		if b.names[name] { // of the next snapshot
			if err := p.flush(); err != nil {
				return true, err
			}
		}
		b.names[name] = true
		return false, nil
	}
	if kind == "end" {
		p.final = true
	}
	if !strings.HasSuffix(kind, "_result") {
		p.trials1()
		return false, nil
	}
	line.Get("data").ForEach(func(name, x gjson.Result) bool {
		t := trial(kind, name.String(), x)
		if len(b.trials) > 0 && b.trials[0].Mode != t.Mode {
			p.trials1()
		}
		b.trials = append(b.trials, t)
		return false
	})
	return true, nil
}

// trials1 reports the tests or benchmarks so far: the recording does not say how many there are.
func (p *player) trials1() {
	b := p.bare
	if len(b.trials) == 0 {
		return
	}
	var names []string
	for _, t := range b.trials {
		names = append(names, t.Name)
	}
	p.sink.BeginTrials(b.trials[0].Mode, names)
	for _, t := range b.trials {
		p.sink.Trial(t)
	}
	p.sink.EndTrials()
	b.trials = nil
}

// event1 returns the event for a line, with the values that the line has.
func (p *player) event1(line gjson.Result, kinds ...string) (*format.Event, error) {
	m := &p.bare.manifest
	i := slices.IndexFunc(m.Events, func(e manifest.Event) bool { return e.Kind == kinds[0] })
	e := m.Events[i]
	at := manifest.Pos{Line: int(line.Get("line").Int()), Col: int(line.Get("col").Int())}
	e.Pos = at
	if !p.bare.clauses[at] && len(p.bare.clauses) < maxClauses {
		p.bare.clauses[at] = true
		line.Get("probes").ForEach(func(_, x gjson.Result) bool {
			m.Programs = append(m.Programs, manifest.Program{Clause: len(p.bare.clauses), Pos: at, Attach: manifest.Attach{Text: x.String()}})
			return len(m.Programs) < maxClauses
		})
	}
	out := &format.Event{Event: &e}
	var err error
	args := line.Get("args")
	if kinds[0] == "print" {
		args = gjson.Result{}
	}
	args.ForEach(func(_, x gjson.Result) bool {
		var v format.Value
		if v, err = p.value1(x); err == nil {
			e.Fields = append(e.Fields, manifest.Field{Layout: *v.Layout})
			out.Values = append(out.Values, v)
		}
		return err == nil
	})
	return out, err
}

// value1 returns a value with a layout made for it.
func (p *player) value1(x gjson.Result) (format.Value, error) {
	var g guess
	g.add(x)
	l := g.layout()
	p.decoder.loose = true
	b, err := p.decoder.value(&l, x)
	return format.Value{Layout: &l, Bytes: b}, err
}

// describe1 returns the map of a line, with layouts for its keys and values, and its entries.
func (p *player) describe1(line gjson.Result) (*manifest.Map, gjson.Result, error) {
	m, entries, err := merge.Describe(line)
	switch {
	case err != nil:
		return nil, entries, fmt.Errorf("map %.64q: %w", line.Get("name").String(), err)
	case len(p.manifest.Maps) > 1024:
		return nil, entries, errors.New("more than 1024 maps")
	}
	var keys, values guess
	keyed := false
	entries.ForEach(func(_, x gjson.Result) bool {
		if k := x.Get("key"); k.Exists() {
			keyed = true
			keys.add(k)
		}
		if m.Shape == "plain" {
			values.add(x.Get("value"))
		}
		return true
	})
	if m.Shape == "plain" {
		l := values.layout()
		m.Value = &l
	}
	have := p.manifest.Map(m.Name)
	switch {
	case keyed && keys.kind != "tuple":
		return nil, entries, fmt.Errorf("map %s: its keys are not lists with the same number of parts", m.Name)
	case keyed:
		l := keys.layout()
		if len(l.Fields) == 1 && l.Fields[0].Layout.Kind != "tuple" {
			l = l.Fields[0].Layout
		}
		if m.Shape == "tseries" { // the key is the first part
			slot := manifest.Field{Off: l.Size, Layout: manifest.Layout{Kind: "int", Size: 8}}
			l = manifest.Layout{Kind: "tuple", Size: l.Size + 8, Fields: []manifest.Field{{Layout: l}, slot}}
		}
		m.Key = &l
	case have != nil && !entries.Get("0").Exists():
		m.Key = have.Key // an empty map
	}
	if host := line.Get("host").String(); host != "" {
		p.run.Host = host
	}
	p.manifest.Object.SHA256 = line.Get("object").String()
	if have != nil {
		*have = m
	} else {
		p.manifest.Maps = append(p.manifest.Maps, m)
	}
	return &m, entries, nil
}

// map1 returns the map of a line.
func (p *player) map1(line gjson.Result, e *manifest.Event) (*output.Map, error) {
	m, entries, err := p.describe1(line)
	if err != nil {
		return nil, err
	}
	x := &output.Map{Event: e, Map: m}
	if err = p.decoder.start(line); err == nil {
		p.decoder.loose = true
		x.Elements, err = p.decoder.elements(m, line, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", m.Name, err)
	}
	x.Top = order(m, x.Elements, entries)
	return x, nil
}

// order returns how elements are printed so that they are in the order of the line, and the divisor of averages.
func order(m *manifest.Map, elems []render.Element, entries gjson.Result) (top render.Top) {
	for _, o := range []string{"", render.Descending, render.ByKey} {
		sorted := render.Ordered(m, slices.Clone(elems), render.Top{Order: o})
		if slices.EqualFunc(sorted, elems, func(a, b render.Element) bool { return string(a.Key) == string(b.Key) }) {
			top.Order = o
			break
		}
	}
	if m.Shape != "avg" && m.Shape != "stats" {
		return top
	}
	// print() has divided the averages, but not the totals.
	low, high := uint64(1), uint64(math.MaxUint32)
	i := 0
	entries.ForEach(func(_, x gjson.Result) bool {
		mean := m.Rule().Mean(elems[i].Value, elems[i].Count)
		shown, err := number(x.Get("value.average"))
		i++
		if err != nil {
			return true
		}
		if m.Signed() {
			mean, shown = uint64(max(int64(mean), -int64(mean))), uint64(max(int64(shown), -int64(shown)))
		}
		low = max(low, mean/(shown+1)+1)
		if shown > 0 {
			high = min(high, mean/shown)
		}
		return true
	})
	if low > 1 && low <= high {
		top.Div = uint32(low)
	}
	return top
}

// prepare1 prepares the sink for the maps of a snapshot. Without lines that say so, the last one is that of the end.
func (p *player) prepare1(lines [][]byte) error {
	clear(p.bare.names)
	if !p.opts.Format.Document && !p.opts.Format.Metrics {
		return nil
	}
	for _, text := range lines {
		if _, _, err := p.describe1(gjson.ParseBytes(text)); err != nil {
			return err
		}
	}
	return p.document()
}

// document makes the sink for the maps of a snapshot: formats of metrics and profiles know all maps beforehand.
func (p *player) document() error {
	f := p.opts.Format
	if f.Profile {
		if err := f.CheckMap(p.manifest, p.opts.Map); err != nil {
			if p.final && !p.bare.shown {
				return err
			}
			return nil
		}
	}
	p.bare.shown = true
	p.sink = f.New(p.run) // it knows the host now, too
	return nil
}

// guess is a layout for values of JSON.
type guess struct {
	kind    string
	signed  bool
	size    int  // of strings and buffers
	json    int  // size of the JSON
	cut     bool // a string was truncated
	parts   []guess
	names   []string
	enum    map[string]string
	mode    string
	anyText bool // values of several kinds, which are printed as JSON
}

// kindOf returns the kind of a value.
func kindOf(v gjson.Result) string {
	switch v.Type {
	case gjson.Number:
		if _, err := number(v); err != nil {
			return "json"
		}
		return "int"
	case gjson.String:
		return "string"
	case gjson.True, gjson.False:
		return "bool"
	case gjson.Null:
		return "none"
	}
	has := func(names ...string) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return !v.Get(name).Exists() })
	}
	user := func(kind string) string {
		if has("pid") {
			return "u" + kind
		}
		return "k" + kind
	}
	switch {
	case v.IsArray():
		return "tuple"
	case merge.IsStack(v):
		return user("stack")
	case has("text", "truncated"), has("base64", "truncated"):
		return "string"
	case has("base64"):
		return "buffer"
	case has("address", "text"):
		return user("sym")
	case has("uid", "text"):
		return "username"
	case has("ns", "text"):
		return "timestamp"
	case has("value", "text"):
		return "enum"
	case has("id", "text") && strings.HasPrefix(v.Get("text").String(), v.Get("id").Raw+" ("):
		return "cgroup" // the ID, with --names
	case has("id", "text"):
		return "cgroup_path"
	}
	return "record"
}

// add makes the layout fit one more value.
func (g *guess) add(v gjson.Result) {
	kind := kindOf(v)
	if g.kind != "" && g.kind != kind || kind == "json" {
		kind, g.anyText = "json", true
	}
	g.kind = kind
	g.json = max(g.json, len(v.Raw))
	switch kind {
	case "int":
		g.signed = g.signed || v.Raw[0] == '-'
	case "string", "buffer":
		g.cut = g.cut || v.Get("truncated").Exists()
		if t, err := text(v); err == nil {
			g.size = max(g.size, len(t))
		}
	case "enum":
		if g.enum == nil {
			g.enum = map[string]string{}
		}
		g.enum[v.Get("value").Raw] = merge.Text(v.Get("text"))
	case "kstack", "ustack":
		if g.mode = merge.Text(v.Get("mode")); v.Get("text").Exists() {
			_, g.mode = merge.StackOfText(v)
		}
	case "tuple", "record":
		i := 0
		first := g.parts == nil
		v.ForEach(func(key, x gjson.Result) bool {
			if first {
				g.parts, g.names = append(g.parts, guess{}), append(g.names, key.String())
			}
			if i >= len(g.parts) || kind == "record" && g.names[i] != key.String() {
				g.anyText = true
				return false
			}
			g.parts[i].add(x)
			i++
			return true
		})
		if g.anyText || i != len(g.parts) {
			g.kind, g.anyText = "json", true
		}
	}
}

// layout returns the layout.
func (g *guess) layout() manifest.Layout {
	l := manifest.Layout{Kind: g.kind, Size: 8}
	switch g.kind {
	case "int":
		l.Signed = g.signed
	case "cgroup":
		l.Kind, l.IDOf = "int", "cgroup"
	case "bool":
		l.Size = 1
	case "none", "":
		l.Kind, l.Size = "none", 0
	case "string":
		if l.Size = g.size + 1; g.cut {
			l.Size = g.size
		}
	case "buffer":
		l.Size = 4 + g.size
	case "json":
		l.Kind, l.Size, l.Count = "string", g.json, g.json
	case "enum":
		l.Enum = g.enum
	case "usym", "ustack":
		l.Size = 16
	case "tuple", "record":
		l.Size = 0
		for i := range g.parts {
			f := manifest.Field{Off: l.Size, Layout: g.parts[i].layout()}
			if g.kind == "record" {
				f.Name = g.names[i]
			}
			l.Size += (f.Layout.Size + 7) / 8 * 8
			l.Fields = append(l.Fields, f)
		}
	}
	if g.kind == "kstack" || g.kind == "ustack" {
		l.Mode = g.mode
	}
	return l
}

// printed returns the format of a line with a text.
func printed(text []byte) *format.Format {
	return format.ParseFormat(strings.ReplaceAll(string(text), "%", "%%"))
}

// framesOf returns the frames of a stack of version 1, with their addresses.
func framesOf(v gjson.Result) []format.Frame {
	frames, _ := merge.StackOfText(v)
	addresses := v.Get("addresses").Array()
	for i := range frames {
		if len(addresses) == len(frames) && frames[i].Address != format.UnwindFailure {
			frames[i].Address, _ = strconv.ParseUint(addresses[i].Raw, 10, 64)
		}
	}
	return frames
}
