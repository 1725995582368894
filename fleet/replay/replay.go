// SPDX-License-Identifier: Apache-2.0

// Package replay prints the results of a recorded run again, in any format of output: btrun --record and btrun -f json2
// write the recording.
//
// It takes the lines of a recording, which may be hostile, and drives the same output.Sink as the run did, with values
// that are decoded by the layouts of the recorded manifest. What only the host knew, such as names and stacks, is that of
// the recording: nothing is looked up on this machine, so that it works on any system. Lines are handled one by one, or
// one snapshot of the maps at a time.
package replay

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"btc/fleet/merge"
	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/format"
	"btc/loader/output"
	"btc/loader/render"
)

// Options are what a replay prints, and where.
type Options struct {
	Format   *output.Format // nil: that of the run, or text if that is a recording or not for terminals
	Map      string         // as output.Run.Map
	From, To Moment
	Buckets  aggregate.Range // of metrics; "": those of the run
	Escape   bool            // text: show control characters in strings as \xNN
	// Terminal, if it is not nil, makes text end with sparklines and heat maps of what was shown more than once.
	Terminal *Terminal
	Out, Err io.Writer
	// Open, if it is not nil, sets Out, Escape and Terminal before anything is printed, when the format is known.
	Open func(o *Options) error

	head func(line gjson.Result) // receives the first line, before the sink
	seen func(at time.Time)      // receives the time of each line
}

// Moment is a time in a run: At, or Since after its start. The zero value sets no limit.
type Moment struct {
	At    time.Time
	Since time.Duration
	Given bool
}

// ParseMoment reads a time in RFC 3339, or a duration since the start of the run, such as 90s.
func ParseMoment(text string) (m Moment, err error) {
	m.Given = true
	if m.Since, err = time.ParseDuration(text); err == nil {
		return m, nil
	}
	if m.At, err = time.Parse(time.RFC3339Nano, text); err != nil {
		return m, fmt.Errorf("%.60q is neither a time since the start of the run, such as 90s, nor one such as 2026-11-21T14:24:09Z", text)
	}
	return m, nil
}

// in returns the time in a run that started at a time.
func (m Moment) in(started time.Time) time.Time {
	if m.Given && m.At.IsZero() {
		return started.Add(m.Since)
	}
	return m.At
}

// ErrReplaced is the error for what another object reported whose head is not in the recording.
var ErrReplaced = errors.New("another object replaced the one of the head here (btrun --reload), and the head of the new one does not follow")

// player replays a recording.
type player struct {
	opts     Options
	name     string   // of the recording
	bare     *bare    // it has no head
	pinned   []string // files of lines before the first one with a time
	manifest *manifest.Manifest
	run      *output.Run
	sink     output.Sink
	drawing  *drawing // nil: none
	top      render.Top
	decoder  decoder
	formats  []*format.Format // of events, when they are needed
	zone     []period
	want     *merge.Want
	merged   bool  // the report of several hosts
	hosts    int   // 0: their number is not known
	err      error // of writing

	losses   []output.Loss
	costs    []output.Cost
	detached []output.Detachment

	pending  bool // a snapshot whose maps are being collected
	final    bool
	at       time.Time
	maps     [][]byte
	size     int
	room     int  // bytes that the lines of a snapshot may take
	skip     bool // the maps that follow are of a snapshot that is not printed
	maxBytes int

	sum      [sha256.Size]byte // of the head
	started  time.Time         // the run
	replaced bool              // by another object, whose head follows
}

// period is a period of a time zone.
type period struct {
	from int64
	zone *time.Location
}

// Run replays a recording; name is its name in errors. cut reports that the recording ends within a line. What precedes
// an error is printed.
func Run(name string, in io.Reader, opts Options) (cut bool, err error) {
	p := &player{opts: opts, name: name, maxBytes: maxHead}
	n := 0
	err = guarded(func() (err error) {
		cut, err = merge.Lines(in, p.maxLine, func(line []byte) error {
			n++
			return p.line(line)
		})
		return err
	})
	if err == nil && p.run == nil {
		err = merge.ErrNotJSON2
	}
	if p.run != nil {
		e := guarded(p.end)
		err = cmp.Or(err, e)
		if p.drawing != nil && !p.drawing.ended {
			err = cmp.Or(err, guarded(func() error {
				p.drawing.finish()
				return nil
			}))
		}
		p.run.Out.Flush(true)
	}
	switch {
	case p.err != nil:
		return cut, p.err
	case err != nil:
		return cut, fmt.Errorf("%s:%d: %w", name, max(n, 1), err)
	}
	return cut, nil
}

// end reports what is collected when the recording ends.
func (p *player) end() error {
	if p.bare != nil {
		p.final = p.pending
		p.trials1()
	}
	return p.flush()
}

// guarded returns the error of f, or a panic as an error.
func guarded(f func() error) (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("internal error: %v", x)
		}
	}()
	return f()
}

// maxHead bounds the first line: a manifest has at most 64 MiB.
const maxHead = 128 << 20

func (p *player) maxLine() int { return p.maxBytes }

// line replays a line.
func (p *player) line(text []byte) error {
	if len(strings.TrimSpace(string(text[:min(len(text), 8)]))) == 0 && len(strings.TrimSpace(string(text))) == 0 {
		return nil
	}
	if p.err != nil {
		return p.err
	}
	if !gjson.ValidBytes(text) {
		if p.pinned1(text) {
			return nil
		}
		return errors.New("not a line of JSON")
	}
	line := gjson.ParseBytes(text)
	kind := line.Get("type").Str
	switch {
	case kind == "" || !line.IsObject():
		return merge.ErrNotJSON2
	case kind == "host", kind == "alive":
		return nil
	case kind == "head":
		return p.head(text, line)
	case p.run == nil && line.Get("time").Str == "": // as of -f json
		return merge.ErrNotJSON2
	case p.run == nil:
		if err := p.begin1(line); err != nil {
			return err
		}
	case p.replaced:
		return ErrReplaced
	}
	at, err := time.Parse(time.RFC3339Nano, line.Get("time").Str)
	if err != nil {
		return fmt.Errorf("%.40q is not a time", line.Get("time").Str)
	}
	if p.opts.seen != nil && !p.outside(at) {
		p.opts.seen(at)
	}
	if p.merged && p.opts.Format.Records { // with the hosts of events
		if !p.outside(at) {
			p.run.Out.Write(append(bytes.TrimSpace(text), '\n'))
		}
		return nil
	}
	if p.bare != nil {
		if done, err := p.line1(kind, text, line, at); done || err != nil {
			return err
		}
	}
	if kind == "map" && !line.Get("line").Exists() {
		return p.collect(text, at)
	}
	p.skip = false
	if err := p.flush(); err != nil {
		return err
	}
	if kind == "reload" {
		p.replaced = true
		return nil
	}
	if p.outside(at) {
		return p.remember(kind, line)
	}
	p.run.At = at
	if kind == "snapshot" {
		return p.snapshot(line, at)
	}
	if err := p.decoder.start(line); err != nil {
		return err
	}
	if host := line.Get("host").String(); p.merged && host != "" {
		if p.opts.Format == &output.Text {
			return p.ofHost(host, kind, line)
		}
		own := p.run.Host
		p.run.Host = host
		defer func() { p.run.Host = own }()
	}
	return p.report(kind, line)
}

// ofHost prints the result in a line with the host before each line, as btc fan does.
func (p *player) ofHost(host, kind string, line gjson.Result) error {
	var text bytes.Buffer
	p.run.Out.Flush(true)
	out := p.opts.Out
	p.opts.Out = &text
	err := p.report(kind, line)
	p.run.Out.Flush(true)
	p.opts.Out = out
	name := (&format.Env{Escape: p.opts.Escape}).OneLine().Clean(nil, []byte(host))
	for part := range bytes.Lines(text.Bytes()) {
		p.run.Out.Write(append(append(bytes.Clone(name), ": "...), part...))
	}
	return err
}

// addHost makes the host the first part of the keys of all maps, as in a report by host.
func addHost(m *manifest.Manifest) {
	const maxHost = 256
	host := manifest.Layout{Kind: "string", Size: maxHost, Count: maxHost}
	for i := range m.Maps {
		x := &m.Maps[i]
		if x.Shape == "intern" || x.Shape == "stack" {
			continue
		}
		fields := []manifest.Field{{Layout: host}}
		size := maxHost
		add := func(f manifest.Field) {
			f.Off += maxHost
			fields, size = append(fields, f), max(size, f.Off+f.Layout.Size)
		}
		if l := x.Key; l != nil && x.Shape == "tseries" {
			slot := l.Fields[len(l.Fields)-1]
			if !x.Scalar() {
				eachPart(&l.Fields[0].Layout, add)
			}
			key := manifest.Layout{Kind: "tuple", Size: size, Fields: fields}
			slot.Off = size
			x.Key = &manifest.Layout{Kind: "tuple", Size: size + slot.Layout.Size, Fields: []manifest.Field{{Layout: key}, slot}}
		} else {
			if !x.Scalar() {
				eachPart(l, add)
			}
			x.Key = &manifest.Layout{Kind: "tuple", Size: size, Fields: fields}
		}
		x.KeyNames = append([]string{"host"}, x.KeyNames...)
	}
}

// eachPart calls add for each part of a key.
func eachPart(l *manifest.Layout, add func(manifest.Field)) {
	if l.Kind != "tuple" {
		add(manifest.Field{Layout: *l})
		return
	}
	for _, f := range l.Fields {
		add(f)
	}
}

// collect keeps the line of a map for the end of its snapshot. A rotated file may begin within a snapshot: what it has of
// it is one, too.
func (p *player) collect(text []byte, at time.Time) error {
	if p.skip {
		return nil
	}
	if !p.pending {
		if p.outside(at) {
			return nil
		}
		p.pending, p.final, p.at = true, false, at
		p.losses, p.costs = nil, nil
	}
	if p.size += len(text); p.size > p.room {
		return errors.New("its maps take more memory than the object allows")
	}
	p.maps = append(p.maps, bytes.Clone(text))
	return nil
}

// inOrder returns an error if no time of a run that started at a time is in the part.
func (o *Options) inOrder(started time.Time) error {
	if o.From.Given && o.To.Given && o.From.in(started).After(o.To.in(started)) {
		return errors.New("--from is later than --to")
	}
	return nil
}

// outside reports whether a time is not in the part that is replayed.
func (p *player) outside(at time.Time) bool {
	return p.opts.From.Given && at.Before(p.opts.From.in(p.started)) || p.opts.To.Given && at.After(p.opts.To.in(p.started))
}

// remember keeps what is needed of a line that is not printed.
func (p *player) remember(kind string, line gjson.Result) error {
	switch kind {
	case "detached":
		_, err := p.detach(line)
		return err
	case "snapshot":
		p.skip = true
	}
	return nil
}

// detach keeps what the budget detached.
func (p *player) detach(line gjson.Result) (*output.Detachment, error) {
	if len(p.detached) == merge.MaxDetached {
		return nil, fmt.Errorf("the budget has detached more than %d probes", merge.MaxDetached)
	}
	p.detached = append(p.detached, p.detachment(line))
	return &p.detached[len(p.detached)-1], nil
}

// head begins the replay. Another head, of an object that replaced the one before (--reload), begins it anew; that of a
// rotated file that was appended to another one is the same.
func (p *player) head(text []byte, line gjson.Result) error {
	sum := sha256.Sum256(bytes.TrimSpace(text))
	p.replaced, p.skip = false, false
	if p.run != nil {
		if sum == p.sum {
			return nil
		}
		if err := p.flush(); err != nil {
			return err
		}
		p.run.Out.Flush(true)
		p.formats, p.zone, p.losses, p.costs, p.detached, p.bare = nil, nil, nil, nil, nil, nil
	}
	p.sum = sum
	if v := line.Get("version"); v.Raw != strconv.Itoa(output.Version) {
		return fmt.Errorf("json2 of version %.20s: this btc reads versions 1 and %d", v.Raw, output.Version)
	}
	m, err := manifest.Parse([]byte(line.Get("manifest").Raw))
	if err != nil {
		return fmt.Errorf("its manifest: %w", err)
	}
	if err := applyHead(m, line); err != nil {
		return err
	}
	p.want, p.hosts = merge.Expect(m), 1
	p.maxBytes, p.room = max(p.want.MaxLine(), maxHead), p.want.Room()
	if p.merged = line.Get("merged").Bool(); p.merged {
		p.hosts = int(line.Get("hosts.#").Int())
		p.room *= min(max(p.hosts, 1), math.MaxInt/p.room)
	}
	if p.merged && line.Get("by_host").Bool() {
		addHost(m)
	}
	started, err := time.Parse(time.RFC3339Nano, line.Get("time").Str)
	if err != nil {
		return fmt.Errorf("%.40q is not a time", line.Get("time").Str)
	}
	p.manifest = m
	if p.run == nil {
		p.started = started
		if err := p.opts.inOrder(started); err != nil {
			return err
		}
	}
	if p.opts.Format == nil {
		f := output.Find(line.Get("format").String())
		if !slices.Contains(output.Formats, f) || f.Records || f.Binary {
			f = &output.Text
		}
		p.opts.Format = f
	}
	if err := p.opts.Format.CheckMap(m, p.opts.Map); err != nil {
		return err
	}
	if err := p.open(); err != nil {
		return err
	}
	line.Get("zone").ForEach(func(_, x gjson.Result) bool {
		p.zone = append(p.zone, period{x.Get("from").Int(), time.FixedZone(x.Get("name").String(), int(x.Get("offset").Int()))})
		return len(p.zone) < 1000
	})
	if p.opts.head != nil {
		p.opts.head(line)
	}
	p.top = render.Top{Order: line.Get("sort").String(), Summary: line.Get("summary").Bool()}
	env := &format.Env{
		Trailer: m.Config.StrTruncTrailer, Escape: p.opts.Escape && !p.opts.Format.JSON, Names: line.Get("names").Bool(),
		Local: p.local,
	}
	buckets := p.opts.Buckets
	if buckets.String() == "" {
		if buckets, err = aggregate.ParseRange(line.Get("buckets").String()); err != nil {
			return fmt.Errorf("buckets: %w", err)
		}
	}
	p.begin(&output.Run{
		Object: line.Get("name").String(), Host: line.Get("host").String(), Arch: line.Get("arch").String(),
		MaxSeries: int(line.Get("max_series").Int()), Rate: line.Get("rate").Bool(), Buckets: buckets, Started: started,
	}, env)
	p.sink = p.opts.Format.New(p.run)
	if p.merged && p.opts.Format == &output.Text {
		p.sink = &mergedText{Sink: p.sink, out: p.run.Out}
	}
	if p.opts.Terminal != nil && p.opts.Format == &output.Text {
		p.drawing = newDrawing(p, p.drawing, p.sink)
		p.sink = p.drawing
	}
	if p.opts.Format.Records {
		p.run.Out.Write(withFormat(text, line.Get("format").Raw, p.opts.Format.Name))
	}
	return nil
}

// mergedText prints the report of several hosts as btc merge does: an empty line follows each map, and none precedes the first.
type mergedText struct {
	output.Sink
	out   *output.Writer
	after bool // snapshots
}

func (m *mergedText) Snapshot(all func(show func(*output.Map))) {
	m.after = true
	m.Sink.Snapshot(all)
}

func (m *mergedText) End(all func(show func(*output.Map))) {
	if m.after {
		m.out.Write([]byte{'\n'})
	}
	all(func(x *output.Map) {
		if m.Sink.Map(x); len(x.Elements) > 0 {
			m.out.Write([]byte{'\n'})
		}
	})
}

// open sets where the output goes, once.
func (p *player) open() error {
	if p.opts.Open == nil {
		return nil
	}
	open := p.opts.Open
	p.opts.Open = nil
	return open(&p.opts)
}

// begin makes r the run that is replayed.
func (p *player) begin(r *output.Run, env *format.Env) {
	p.decoder.env(env)
	p.run = r
	r.Manifest, r.Env, r.Map = p.manifest, env, p.opts.Map
	r.Losses = func() []output.Loss { return p.losses }
	r.Detachments, r.Costs = func() []output.Detachment { return p.detached }, func() []output.Cost { return p.costs }
	r.Post = func(_ int, job func()) { job() }
	r.Out = output.NewWriter("full", func(b []byte, _ bool) []byte {
		if p.err == nil {
			_, p.err = p.opts.Out.Write(b)
		}
		return b[:0]
	})
	r.MessageNow = func(text string) {
		r.Out.Flush(true)
		fmt.Fprintln(p.opts.Err, text)
	}
	r.Message = r.MessageNow
}

// withFormat returns the head of a run in another format.
func withFormat(head []byte, was, format string) []byte {
	return []byte(strings.TrimSuffix(strings.Replace(string(head), `, "format": `+was, `, "format": `+strconv.Quote(format), 1), "\n") + "\n")
}

// applyHead changes the manifest as the run did: by the parameters and the settings of its environment.
func applyHead(m *manifest.Manifest, line gjson.Result) error {
	var args []string
	line.Get("args").ForEach(func(_, x gjson.Result) bool { args = append(args, x.String()); return true })
	named := map[string]string{}
	line.Get("params").ForEach(func(k, x gjson.Result) bool { named[k.String()] = x.String(); return true })
	args, named, err := manifest.MergeParams(m, args, named)
	if err != nil {
		return err
	}
	values, err := manifest.ParseParams(m, args, named)
	if err != nil {
		return err
	}
	if _, err := manifest.SubstituteStrings(m, values); err != nil {
		return err
	}
	line.Get("attach").ForEach(func(_, x gjson.Result) bool {
		if i := x.Get("program").Int(); i >= 0 && i < int64(len(m.Programs)) {
			m.Programs[i].Attach.Text = x.Get("text").String()
		}
		return true
	})
	m.Config.StrTruncTrailer = line.Get("str_trunc_trailer").String()
	m.Config.PrintMapsOnExit = line.Get("print_maps_on_exit").Bool()
	return nil
}

// local returns a time in the zone of the run.
func (p *player) local(at time.Time) time.Time {
	zone := time.UTC
	for _, x := range p.zone {
		if x.from <= at.Unix() || zone == time.UTC {
			zone = x.zone
		}
	}
	return at.In(zone)
}

// snapshot begins the maps of a snapshot, or those of the end of the run.
func (p *player) snapshot(line gjson.Result, at time.Time) error {
	p.pending, p.final, p.at = true, line.Get("final").Bool(), at
	p.losses, p.costs = nil, nil
	line.Get("losses").ForEach(func(_, x gjson.Result) bool {
		p.losses = append(p.losses, output.Loss{Cause: x.Get("cause").String(), N: x.Get("count").Uint()})
		return true
	})
	line.Get("costs").ForEach(func(_, x gjson.Result) bool {
		p.costs = append(p.costs, output.Cost{
			Probe: x.Get("probe").String(), Attached: x.Get("attached").Bool(),
			Covered: time.Duration(x.Get("covered_ns").Int()), Used: time.Duration(x.Get("used_ns").Int()),
		})
		return true
	})
	for i := range p.detached {
		p.detached[i].Run = time.Duration(line.Get("run_ns").Int())
	}
	return nil
}

// flush passes the collected maps to the sink.
func (p *player) flush() (err error) {
	if !p.pending {
		return nil
	}
	lines := p.maps
	p.pending, p.maps, p.size = false, nil, 0
	p.run.At = p.at
	if p.bare != nil {
		if err := p.prepare1(lines); err != nil {
			return err
		}
	}
	show := func(show func(*output.Map)) {
		for _, text := range lines {
			var x *output.Map
			if x, err = p.decodeMap(gjson.ParseBytes(text), nil); err != nil {
				return
			}
			show(x)
		}
	}
	if p.final {
		p.sink.End(show)
	} else {
		p.sink.Snapshot(show)
	}
	return err
}

// decodeMap decodes the line of a map.
func (p *player) decodeMap(line gjson.Result, e *manifest.Event) (*output.Map, error) {
	if p.bare != nil {
		return p.map1(line, e)
	}
	name := line.Get("name").Str
	m := p.manifest.Map(name)
	if m == nil || m.Shape == "intern" || m.Shape == "stack" {
		return nil, fmt.Errorf("a map %.64q that the object does not have", name)
	}
	if err := p.decoder.start(line); err != nil {
		return nil, fmt.Errorf("map %s: %w", name, err)
	}
	p.decoder.merged = p.merged
	x := &output.Map{Event: e, Map: m, Top: p.top}
	x.Top.Keep, x.Top.Div = int(min(max(line.Get("top").Int(), 0), 1<<30)), uint32(min(line.Get("div").Uint(), 1<<32-1))
	var err error
	if x.Elements, err = p.decoder.elements(m, line, p.want.Entries(name)*p.hosts); err != nil {
		return nil, fmt.Errorf("map %s: %w", name, err)
	}
	return x, nil
}

// event decodes the event of a line.
func (p *player) event(line gjson.Result, kinds ...string) (*format.Event, error) {
	if p.bare != nil {
		return p.event1(line, kinds...)
	}
	id := line.Get("event")
	n, err := number(id)
	if err != nil || n >= uint64(len(p.manifest.Events)) {
		return nil, fmt.Errorf("an event %.40q that the object does not have", id.Raw)
	}
	e := &format.Event{Event: &p.manifest.Events[n]}
	for _, kind := range kinds {
		if e.Kind == kind {
			return e, nil
		}
	}
	return nil, fmt.Errorf("event %d is not a %s()", n, kinds[0])
}

// arguments decodes the arguments of an event.
func (p *player) arguments(e *format.Event, args gjson.Result) (err error) {
	args.ForEach(func(_, x gjson.Result) bool {
		i := len(e.Values)
		if i >= len(e.Fields) {
			err = errors.New("too many arguments")
			return false
		}
		var v format.Value
		v, err = p.decoder.argument(&e.Fields[i], x)
		e.Values = append(e.Values, v)
		return err == nil
	})
	return err
}

// format returns the parsed format of an event.
func (p *player) format(e *format.Event) *format.Format {
	if p.formats == nil {
		p.formats = make([]*format.Format, len(p.manifest.Events))
	}
	if p.formats[e.ID] == nil {
		p.formats[e.ID] = format.ParseFormat(e.Format)
	}
	return p.formats[e.ID]
}

// exact returns a text with the bytes that JSON cannot represent.
func exact(text, invalid gjson.Result) []byte {
	if invalid.Type != gjson.String {
		return []byte(text.Str)
	}
	list := strings.Split(invalid.Str, ",")
	var b []byte
	for _, r := range text.Str {
		if r == utf8.RuneError && len(list) > 0 {
			n, err := strconv.ParseUint(list[0], 16, 8)
			list = list[1:]
			if err == nil {
				b = append(b, byte(n))
				continue
			}
		}
		b = utf8.AppendRune(b, r)
	}
	return b
}

// report passes the result in a line to the sink.
func (p *player) report(kind string, line gjson.Result) error {
	data := exact(line.Get("data"), line.Get("invalid"))
	var e *format.Event
	var err error
	with := func(kinds ...string) bool {
		if e, err = p.event(line, kinds...); err == nil && p.bare == nil {
			err = p.arguments(e, line.Get("args"))
		}
		return err == nil
	}
	switch kind {
	case "attached_probes":
		p.sink.Attached(int(line.Get("count").Int()))
	case "pinned":
		p.sink.Pinned(line.Get("path").String())
	case "printf":
		if !with("printf") {
			break
		}
		if p.bare != nil {
			p.sink.Printf(e, printed(data))
		} else {
			p.sink.Printf(e, p.format(e))
		}
	case "value":
		if e, err = p.event(line, "print"); err != nil {
			break
		}
		var v format.Value
		switch {
		case p.bare != nil:
			v, err = p.value1(line.Get("data"))
		case len(e.Fields) == 0:
			err = errors.New("an event without a value")
		default:
			v, err = p.decoder.argument(&e.Fields[0], line.Get("data"))
		}
		if err == nil {
			e.Values = append(e.Values, v)
			p.sink.Print(e)
		}
	case "time":
		if with("time") {
			p.sink.Time(e, data)
		}
	case "join":
		if with("join") {
			p.sink.Join(e, [][]byte{data}, "")
		}
	case "cat", "syscall":
		kinds := []string{"cat", "system"}
		if kind == "syscall" {
			kinds = []string{"system", "cat"}
		}
		if with(kinds...) {
			if len(data) > 0 {
				p.sink.Piece(e, data, true, false)
			}
			p.sink.Piece(e, nil, len(data) == 0, true)
		}
	case "map":
		if e, err = p.event(line, "print_map"); err != nil {
			break
		}
		var x *output.Map
		if x, err = p.decodeMap(line, e.Event); err == nil {
			p.sink.Map(x)
		}
	case "errorf", "warnf", "runtime_error", "helper_error":
		if file := line.Get("filename").String(); p.bare != nil && file != "" {
			p.manifest.Script.File = file
		}
		p.sink.Diagnostic(diagnostic(kind, line))
	case "lost_events":
		p.sink.Lost(line.Get("count").Uint())
	case "detached":
		var d *output.Detachment
		if d, err = p.detach(line); err == nil {
			p.sink.Detached(d)
		}
	case "trials":
		if line.Get("end").Bool() {
			p.sink.EndTrials()
			break
		}
		var names []string
		line.Get("names").ForEach(func(_, x gjson.Result) bool { names = append(names, x.String()); return true })
		p.sink.BeginTrials(line.Get("mode").String(), names)
	case "test_result", "benchmark_result":
		line.Get("data").ForEach(func(name, x gjson.Result) bool {
			p.sink.Trial(trial(kind, name.String(), x))
			return false
		})
	case "message":
		p.run.Message(line.Get("text").String())
	case "why":
		line.Get("report").ForEach(func(_, x gjson.Result) bool { p.run.Message(x.String()); return true })
	}
	return err
}

// trial returns the result of a test or benchmark.
func trial(kind, name string, x gjson.Result) *output.Trial {
	t := &output.Trial{Name: name, Mode: probe.Test, Iterations: 1}
	if kind == "benchmark_result" {
		t.Mode, t.Passed = probe.Bench, true
		t.Took, t.Iterations = time.Duration(x.Get("average").Int()), int(x.Get("iters").Int())
	} else {
		t.Took, t.Passed = time.Duration(x.Get("duration").Int()), x.Get("passed").Bool()
		t.Output = exact(x.Get("output"), x.Get("invalid"))
	}
	return t
}

// position returns the position in a line: its member pos, or line and col in version 1.
func position(line gjson.Result) manifest.Pos {
	v := line.Get("pos")
	if !v.Exists() {
		return manifest.Pos{Line: int(line.Get("line").Int()), Col: int(line.Get("col").Int())}
	}
	return manifest.Pos{Line: int(v.Get("0").Int()), Col: int(v.Get("1").Int()), EndCol: int(v.Get("2").Int())}
}

func diagnostic(kind string, line gjson.Result) *output.Diagnostic {
	d := &output.Diagnostic{
		Kind: kind, Severity: "WARNING", Text: string(exact(line.Get("msg"), line.Get("invalid"))), Helper: line.Get("helper").String(),
		Code: int(line.Get("retcode").Int()), Source: line.Get("source").Bool(), Muted: line.Get("muted").Bool(), Errno: line.Get("errno").String(),
	}
	if kind == "errorf" {
		d.Severity = "ERROR"
	}
	d.Pos = position(line)
	line.Get("chain").ForEach(func(_, x gjson.Result) bool {
		d.Chain = append(d.Chain, manifest.Location{
			File: x.Get("file").String(), Line: int(x.Get("line").Int()), Col: int(x.Get("col").Int()),
			EndLine: int(x.Get("end_line").Int()), EndCol: int(x.Get("end_col").Int()), Text: x.Get("text").String(),
		})
		return len(d.Chain) < 100
	})
	return d
}

func (p *player) detachment(line gjson.Result) output.Detachment {
	from, _ := time.Parse(time.RFC3339Nano, line.Get("from").String())
	d := output.Detachment{
		Probe: line.Get("probe").String(), Pos: position(line),
		From: p.local(from), Budget: line.Get("budget").Float(),
	}
	d.To = p.local(from.Add(time.Duration(line.Get("covered_ns").Int())))
	for i := range 2 {
		d.Share[i] = line.Get("share." + strconv.Itoa(i)).Float()
		d.All[i] = line.Get("share_of_all." + strconv.Itoa(i)).Float()
	}
	return d
}
