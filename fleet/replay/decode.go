// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"btc/fleet/merge"
	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/render"
)

// decoder makes bytes of the values in a line, by their layouts, and keeps what the host knew of them: Env returns it.
type decoder struct {
	frames  []format.Frame // of the line
	symbols map[symbol]string
	names   map[uint64]string // of users
	probes  map[uint64]string
	cgroups map[uint64]format.Cgroup
	times   map[moment]string
	stacks  map[symbol]stack
	shown   []format.Frame    // of the stack that was asked for last
	known   map[string]uint64 // numbers of texts without one, as in a merged report
	room    int               // bytes that the decoded line may still take
	loose   bool              // a string may be any JSON
	merged  bool              // the line is of a report of several hosts
}

// symbol is an address, or the ID of a stack, of a process; 0: of the kernel.
type symbol struct {
	number uint64
	pid    uint32
}

// stack is a stack as the indices of its frames in the table of the line, or as the frames.
type stack struct {
	indices []uint32
	frames  []format.Frame
}

// moment is a time as the script prints it.
type moment struct {
	ns     uint64
	clock  int
	format string
}

// maxDecoded bounds the memory of a decoded line, whose layouts may be much larger than its text.
var maxDecoded = 1 << 30

// Sizes that are charged, in bytes.
const (
	frameSize = 128
	entrySize = 160 // of a map, without its key and value
	pointSize = 48  // of a tseries
	nameSize  = 64  // of what a table of the decoder has for a value, without its text, which is in the line
)

// take charges memory, before it is used.
func (d *decoder) take(n int) error {
	if n > d.room {
		return fmt.Errorf("a line whose values take more than %d MiB", maxDecoded>>20)
	}
	d.room -= n
	return nil
}

// start begins a line.
func (d *decoder) start(line gjson.Result) error {
	*d = decoder{
		symbols: map[symbol]string{}, names: map[uint64]string{}, probes: map[uint64]string{}, cgroups: map[uint64]format.Cgroup{},
		times: map[moment]string{}, stacks: map[symbol]stack{}, known: map[string]uint64{}, room: maxDecoded,
	}
	var err error
	line.Get("frames").ForEach(func(_, x gjson.Result) bool {
		var f format.Frame
		if err = d.take(frameSize); err != nil {
			return false
		}
		f, err = merge.ParseFrame(x)
		d.frames = append(d.frames, f)
		return err == nil
	})
	return err
}

// env returns the host data of the current line.
func (d *decoder) env(e *format.Env) {
	e.Ksym = func(addr uint64) string { return d.symbols[symbol{addr, 0}] }
	e.Usym = func(addr uint64, pid uint32) string { return d.symbols[symbol{addr, pid}] }
	e.User = func(uid uint64) string { return d.names[uid] }
	e.Probe = func(id uint64) string { return d.probes[id] }
	e.Cgroup = func(id uint64, _ string) format.Cgroup { return d.cgroups[id] }
	e.Strftime = func(l *manifest.Layout, ns uint64) string { return d.times[moment{ns, l.Clock, l.Format}] }
	e.Stack = func(_ *manifest.Layout, id uint64, pid uint32) []format.Frame {
		return d.framesOf(d.stacks[symbol{id, pid}])
	}
}

// framesOf returns the frames of a stack, until the next call.
func (d *decoder) framesOf(s stack) []format.Frame {
	if len(s.indices) == 0 {
		return s.frames
	}
	d.shown = d.shown[:0]
	for _, i := range s.indices {
		d.shown = append(d.shown, d.frames[i])
	}
	return d.shown
}

// value decodes a value of fixed size.
func (d *decoder) value(l *manifest.Layout, v gjson.Result) ([]byte, error) {
	if err := d.take(l.Size); err != nil {
		return nil, err
	}
	b := make([]byte, l.Size)
	return b, d.decode(b, l, v)
}

// argument decodes an argument of an event.
func (d *decoder) argument(f *manifest.Field, v gjson.Result) (format.Value, error) {
	x := format.Value{Layout: &f.Layout, Var: f.Var}
	var err error
	switch {
	case !f.Var:
		x.Bytes, err = d.value(&f.Layout, v)
	case f.Layout.Kind == "string" || f.Layout.Kind == "buffer":
		x.Bytes, err = text(v)
	default:
		err = fmt.Errorf("an argument of the kind %s has no fixed size", f.Layout.Kind)
	}
	return x, err
}

// text decodes a string or a buffer.
func text(v gjson.Result) ([]byte, error) {
	if v.IsObject() {
		if b := v.Get("base64"); b.Type == gjson.String {
			return base64.StdEncoding.DecodeString(b.Str)
		}
		v = v.Get("text")
	}
	if v.Type != gjson.String {
		return nil, fmt.Errorf("%.40q is not a string", v.Raw)
	}
	return []byte(v.Str), nil
}

// put stores an integer of the size of b.
func put(b []byte, n uint64) error {
	switch len(b) {
	case 1:
		b[0] = byte(n)
	case 2:
		binary.NativeEndian.PutUint16(b, uint16(n))
	case 4:
		binary.NativeEndian.PutUint32(b, uint32(n))
	case 8:
		binary.NativeEndian.PutUint64(b, n)
	default:
		return fmt.Errorf("an integer of %d bytes", len(b))
	}
	return nil
}

// number reads an integer of 64 bits.
func number(v gjson.Result) (uint64, error) {
	if v.Type == gjson.Number {
		if n, err := strconv.ParseUint(v.Raw, 10, 64); err == nil {
			return n, nil
		}
		if n, err := strconv.ParseInt(v.Raw, 10, 64); err == nil {
			return uint64(n), nil
		}
	}
	return 0, fmt.Errorf("%.40q is not an integer of 64 bits", v.Raw)
}

// member reads the number of an object, in a layout of at least 8 bytes.
func member(b []byte, v gjson.Result, name string) (uint64, error) {
	n, err := number(v.Get(name))
	if err == nil && len(b) < 8 {
		err = errors.New("a layout that is too small")
	}
	if err == nil {
		binary.NativeEndian.PutUint64(b, n)
	}
	return n, err
}

func (d *decoder) decode(b []byte, l *manifest.Layout, v gjson.Result) error {
	if len(b) < l.Size {
		return errors.New("a layout that is too small")
	}
	switch l.Kind {
	case "int", "ptr":
		if v.IsObject() {
			return d.cgroup(b, v)
		}
		n, err := number(v)
		if err != nil {
			return err
		}
		return put(b[:l.Size], n)
	case "bool":
		n := uint64(0)
		if v.Bool() {
			n = 1
		}
		return put(b[:l.Size], n)
	case "none":
		return nil
	case "string":
		t, err := text(v)
		if err != nil && d.loose {
			t, err = []byte(v.Raw), nil
		}
		copy(b, t)
		return err
	case "buffer":
		t, err := text(v)
		if err != nil || l.Size < 4 {
			return err
		}
		t = t[:min(len(t), l.Size-4)]
		binary.NativeEndian.PutUint32(b, uint32(len(t)))
		copy(b[4:], t)
		return nil
	case "tuple", "record":
		return d.fields(b, l, v)
	case "array":
		i := 0
		var err error
		v.ForEach(func(_, x gjson.Result) bool {
			if i < l.Count {
				err = d.decode(b[i*l.Elem.Size:], l.Elem, x)
			}
			i++
			return err == nil && i < l.Count
		})
		return err
	case "enum":
		if v.Type == gjson.String { // of a merged report
			for n, name := range l.Enum {
				if name == v.Str {
					v = gjson.Parse(`{"value": ` + n + `}`)
				}
			}
		}
		n, err := number(v.Get("value"))
		if err != nil {
			return err
		}
		return put(b[:l.Size], n)
	case "inet":
		return inet(b, v.Str)
	case "mac":
		for i, part := range strings.Split(v.Str, ":") {
			n, err := strconv.ParseUint(part, 16, 8)
			if err != nil || i >= 6 || i >= len(b) {
				return fmt.Errorf("%.40q is not a MAC address", v.Str)
			}
			b[i] = byte(n)
		}
		return nil
	}
	return d.named(b, l, v)
}

// fields decodes a tuple or a record, by the order of its fields.
func (d *decoder) fields(b []byte, l *manifest.Layout, v gjson.Result) error {
	i := 0
	var err error
	v.ForEach(func(_, x gjson.Result) bool {
		if i >= len(l.Fields) {
			err = errors.New("a value with too many parts")
			return false
		}
		f := &l.Fields[i]
		i++
		if f.Off < 0 || f.Off > len(b) {
			err = errors.New("a field outside its layout")
			return false
		}
		if f.BitSize > 0 {
			err = bits(b[f.Off:], f, x)
		} else {
			err = d.decode(b[f.Off:], &f.Layout, x)
		}
		return err == nil
	})
	return err
}

// bits stores a bit field.
func bits(b []byte, f *manifest.Field, v gjson.Result) error {
	n, err := number(v)
	size := f.Layout.Size
	if err != nil || size > len(b) {
		return err
	}
	plain := f.Layout
	plain.Signed = false
	mask := uint64(math.MaxUint64) >> (64 - f.BitSize) << f.BitOff
	return put(b[:size], format.Uint(&plain, b)&^mask|n<<f.BitOff&mask)
}

// inet decodes the text of an address.
func inet(b []byte, s string) error {
	const afInet, afInet6 = 2, 10
	if len(b) < 20 {
		return errors.New("a layout that is too small")
	}
	if family, ok := strings.CutPrefix(s, "<address family "); ok {
		n, err := strconv.ParseUint(strings.TrimSuffix(family, ">"), 10, 32)
		binary.NativeEndian.PutUint32(b, uint32(n))
		return err
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return fmt.Errorf("%.60q is not a network address", s)
	}
	family := uint32(afInet6)
	if a.Is4() {
		family = afInet
	}
	binary.NativeEndian.PutUint32(b, family)
	copy(b[4:], a.AsSlice())
	return nil
}

// named decodes a value whose text the host knew.
func (d *decoder) named(b []byte, l *manifest.Layout, v gjson.Result) error {
	shown := merge.Text(v.Get("text"))
	if err := d.take(nameSize); err != nil {
		return err
	}
	switch {
	case v.Type == gjson.String:
		return d.textOnly(b, l, v.Str)
	case !v.IsObject():
		return fmt.Errorf("%.40q is not a value of the kind %s", v.Raw, l.Kind)
	case v.Get("frames").Exists() && !v.Get("id").Exists():
		frames, err := d.stack(v)
		if err != nil || len(frames.frames)+len(frames.indices) == 0 {
			return err // b is 0, the number of a stack without frames: as of user code in a kernel stack
		}
		d.stacks[symbol{d.numberOf(b, v.Raw), 0}] = frames
		return nil
	}
	pid := uint32(0)
	if l.Kind == "usym" || l.Kind == "ustack" {
		n, err := number(v.Get("pid"))
		if err != nil || len(b) < 12 {
			return fmt.Errorf("a %s without a process", l.Kind)
		}
		pid = uint32(n)
		binary.NativeEndian.PutUint32(b[8:], pid)
	}
	switch l.Kind {
	case "timestamp":
		n, err := member(b, v, "ns")
		d.times[moment{n, l.Clock, l.Format}] = shown
		return err
	case "username":
		n, err := member(b, v, "uid")
		d.names[n] = shown
		return err
	case "probe":
		n, err := member(b, v, "id")
		d.probes[n] = shown
		return err
	case "cgroup_path":
		return d.cgroup(b, v)
	case "ksym", "usym":
		n, err := member(b, v, "address")
		d.symbols[symbol{n, pid}] = shown
		return err
	case "kstack", "ustack":
		n, err := member(b, v, "id")
		if err != nil {
			return err
		}
		frames, err := d.stack(v)
		d.stacks[symbol{n, pid}] = frames
		return err
	}
	return fmt.Errorf("unknown kind %.40q", l.Kind)
}

// stack returns the frames of a stack.
func (d *decoder) stack(v gjson.Result) (s stack, err error) {
	if v.Get("addresses").Exists() { // version 1
		s.frames = framesOf(v)
	} else {
		s.indices, err = merge.Frames(v, len(d.frames))
	}
	if err == nil {
		err = d.take(len(s.frames)*frameSize + len(s.indices)*4)
	}
	return s, err
}

// numberOf stores a number for a text: that of rank, or the next one. The bytes are in the order of the numbers.
func (d *decoder) numberOf(b []byte, text string) uint64 {
	n, ok := d.known[text]
	if !ok {
		n = uint64(len(d.known) + 1)
		d.known[text] = n
	}
	if len(b) < 8 {
		return 0
	}
	binary.BigEndian.PutUint64(b, n)
	return binary.NativeEndian.Uint64(b)
}

// rank gives the texts and stacks in the keys of a merged map numbers in the order in which btc merge prints elements of equal
// values: that of the texts.
func (d *decoder) rank(line gjson.Result) (err error) {
	texts := map[string]string{} // by what numberOf is called with
	line.Get("entries").ForEach(func(_, entry gjson.Result) bool {
		entry.Get("key").ForEach(func(_, part gjson.Result) bool {
			name, text := part.Raw, ""
			isStack := merge.IsStack(part) && !part.Get("id").Exists()
			if part.Type == gjson.String {
				name = part.Str
			} else if !isStack {
				return true
			}
			if _, seen := texts[name]; seen {
				return true
			}
			if text = name; isStack {
				var s stack
				if s, err = d.stack(part); err != nil {
					return false
				}
				text = string(format.AppendStack(nil, d.framesOf(s), part.Get("mode").Str))
			}
			err = d.take(len(text) + nameSize)
			texts[name], _, _ = strings.Cut(text, "\x00")
			return err == nil
		})
		return err == nil
	})
	names := slices.SortedFunc(maps.Keys(texts), func(a, b string) int { return cmp.Or(cmp.Compare(texts[a], texts[b]), cmp.Compare(a, b)) })
	for i, name := range names {
		d.known[name] = uint64(i + 1)
	}
	return err
}

// textOnly decodes a value of which only the text is known: its hosts have different numbers for it.
func (d *decoder) textOnly(b []byte, l *manifest.Layout, text string) error {
	n := d.numberOf(b, text)
	switch l.Kind {
	case "timestamp":
		d.times[moment{n, l.Clock, l.Format}] = text
	case "username":
		d.names[n] = text
	case "probe":
		d.probes[n] = text
	case "cgroup_path":
		d.cgroups[n] = format.Cgroup{Path: text}
	case "ksym", "usym":
		d.symbols[symbol{n, 0}] = text
	case "kstack", "ustack":
		frames := merge.FramesOfText(text)
		d.stacks[symbol{n, 0}] = stack{frames: frames}
		return d.take(len(frames) * frameSize)
	default:
		return fmt.Errorf("unknown kind %.40q", l.Kind)
	}
	return nil
}

// cgroup decodes a cgroup with its container.
func (d *decoder) cgroup(b []byte, v gjson.Result) error {
	n, err := member(b, v, "id")
	c := format.Cgroup{Path: merge.Text(v.Get("text"))}
	c.Label, c.Namespace, c.Pod, c.Name = merge.Text(v.Get("label")), v.Get("namespace").String(), v.Get("pod").String(), v.Get("container").String()
	if rest, is := strings.CutPrefix(c.Path, v.Get("id").Raw+" ("); is && c.Label == "" { // version 1, with --names
		c.Label = strings.TrimSuffix(rest, ")")
	}
	if c.Label != "" {
		c.Path = strings.TrimSuffix(c.Path, " ("+c.Label+")")
	}
	d.cgroups[n] = c
	return err
}

// elements decodes the entries of a map's line, limit at most, if it is not 0.
func (d *decoder) elements(m *manifest.Map, line gjson.Result, limit int) (all []render.Element, err error) {
	last := uint64(0)
	if m.Shape == "tseries" {
		if last, err = lastInterval(m, line); err != nil {
			return nil, err
		}
	}
	if d.merged {
		if err = d.rank(line); err != nil {
			return nil, err
		}
	}
	line.Get("entries").ForEach(func(_, entry gjson.Result) bool {
		if limit > 0 && len(all) == limit && !m.Scalar() {
			err = fmt.Errorf("more than the %d entries that the map can have", limit)
			return false
		}
		if err = d.take(entrySize); err != nil {
			return false
		}
		el := render.Element{Set: true}
		if !m.Scalar() {
			if el.Key, err = d.key(m, entry.Get("key")); err != nil {
				return false
			}
		}
		if err = d.element(&el, m, entry.Get("value")); err != nil {
			return false
		}
		if m.Shape == "tseries" {
			el.Window(m, last, last)
		}
		all = append(all, el)
		return true
	})
	if m.Scalar() && len(all) > 1 {
		return nil, errors.New("a scalar with several values")
	}
	render.Shorten(all, 0)
	return all, err
}

// lastInterval returns the number of the last interval of a map, which the line of a report of several hosts does not
// have.
func lastInterval(m *manifest.Map, line gjson.Result) (last uint64, err error) {
	if x := line.Get("last"); x.Exists() {
		return interval(m, x)
	}
	line.Get("entries").ForEach(func(_, entry gjson.Result) bool {
		entry.Get("value").ForEach(func(_, x gjson.Result) bool {
			var n uint64
			if n, err = interval(m, x.Get("start")); err == nil {
				last = max(last, n)
			}
			return err == nil
		})
		return err == nil
	})
	return last, err
}

// key decodes the list of the parts of a key.
func (d *decoder) key(m *manifest.Map, v gjson.Result) ([]byte, error) {
	l := render.KeyLayout(m)
	if !v.IsArray() {
		return nil, errors.New("an entry without a key")
	}
	if l.Kind != "tuple" {
		first := v.Get("0")
		return d.value(l, first)
	}
	return d.value(l, v)
}

// interval returns the number of the interval of a tseries that begins at a time.
func interval(m *manifest.Map, v gjson.Result) (uint64, error) {
	at, err := time.Parse(time.RFC3339Nano, v.Str)
	if y := at.UTC().Year(); err != nil || y < 1970 || y > 2261 || m.Interval <= 0 {
		return 0, fmt.Errorf("no interval begins at %.40q", v.Str)
	}
	return uint64(at.UnixNano()) / uint64(m.Interval), nil
}

// element decodes a value of the map's shape.
func (d *decoder) element(el *render.Element, m *manifest.Map, v gjson.Result) (err error) {
	get := func(v gjson.Result) (n uint64) {
		if err == nil {
			n, err = number(v)
		}
		return n
	}
	switch m.Shape {
	case "plain":
		el.Bytes, err = d.value(m.Value, v)
	case "avg", "stats":
		el.Count, el.Value = get(v.Get("count")), get(v.Get("total"))
	case "hist", "lhist":
		b := m.Buckets()
		v.ForEach(func(_, x gjson.Result) bool {
			i := 0
			if low := x.Get("min"); low.Exists() {
				ok := false
				if i, ok = b.Find(int64(get(low))); !ok {
					err = fmt.Errorf("no bucket begins at %.40s", low.Raw)
				}
			}
			n := get(x.Get("count"))
			if more := i + 1 - len(el.Buckets); err == nil && more > 0 {
				if err = d.take(8 * more); err != nil {
					return false
				}
				el.Buckets = append(el.Buckets, make([]uint64, more)...)
			}
			if err != nil {
				return false
			}
			el.Buckets[i] += n
			el.Count += n
			return true
		})
	case "tseries":
		v.ForEach(func(_, x gjson.Result) bool {
			if x.Get("value").Type == gjson.Null {
				return true
			}
			if err = d.take(pointSize); err != nil {
				return false
			}
			var p aggregate.Point
			if p.N, err = interval(m, x.Get("start")); err != nil {
				return false
			}
			p.Value = get(x.Get("value"))
			p.Total = p.Value
			switch m.Agg {
			case "avg":
				p.Total, p.Meta = get(x.Get("total")), get(x.Get("count"))
			case "":
				p.Meta = get(x.Get("at"))
			}
			el.Points = append(el.Points, p)
			return err == nil
		})
	default:
		el.Value = get(v)
	}
	return err
}
