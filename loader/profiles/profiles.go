// SPDX-License-Identifier: Apache-2.0

// Package profiles makes profiles from maps with a stack in their keys.
//
// It takes a map's description and elements, and the names of their frames from format.Env; it returns a
// profile.Profile, and reads nothing itself.
package profiles

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"btc/internal/manifest"
	"btc/internal/profile"
	"btc/loader/format"
	"btc/loader/metrics"
	"btc/loader/render"
)

// Find returns the map of an object that a profile is made of: the one with a name, with or without "@", or the only
// one that has a stack in its key and values that add up.
func Find(m *manifest.Manifest, name string) (*manifest.Map, error) {
	var found []string
	var only *manifest.Map
	for i := range m.Maps {
		x := &m.Maps[i]
		if !strings.HasPrefix(x.Name, "@") || x.Key == nil || !hasStack(x.Key) || Types(x) == nil {
			continue
		}
		if x.Name == name || x.Name == "@"+name {
			return x, nil
		}
		found, only = append(found, x.Name), x
	}
	text, all := m.Script.File, strings.Join(found, ", ")
	switch {
	case len(found) == 0:
		text += " has no map for a profile: it needs a stack in the key and a value that adds up, such as @[ustack, kstack] = count()"
	case name != "":
		text = "--map: " + name + " is not a map of " + text + " with a stack in the key and a value that adds up: those are " + all
	case len(found) > 1:
		text += " has several maps for a profile: choose one of " + all + " with --map"
	default:
		return only, nil
	}
	return nil, errors.New(text)
}

// hasStack reports whether a part of a key is a stack.
func hasStack(l *manifest.Layout) bool {
	for i := range l.Fields {
		if hasStack(&l.Fields[i].Layout) {
			return true
		}
	}
	return isStack(l)
}

func isStack(l *manifest.Layout) bool { return l.Kind == "kstack" || l.Kind == "ustack" }

// Types returns what the values of a map mean in a profile; nil if they do not add up.
func Types(m *manifest.Map) []profile.Type {
	samples, total := profile.Type{Name: "samples", Unit: "count"}, profile.Type{Name: "total", Unit: unit(m)}
	switch m.Shape {
	case "count", "hist", "lhist":
		return []profile.Type{samples}
	case "avg", "stats":
		return []profile.Type{samples, total}
	case "plain":
		if m.Value.Kind != "int" {
			return nil
		}
		fallthrough
	case "sum":
		return []profile.Type{total}
	}
	return nil
}

// units are the units of pprof, each with the words for it in the names of maps and in comments on maps.
const units = "nanoseconds ns nsecs, microseconds us usecs, milliseconds ms msecs, seconds secs, bytes, kilobytes kb, pages"

// unit returns the unit of the values of a map: that in the script's comment on the map (MapNames.Unit), or the last
// word of its name (@off_cpu_us).
func unit(m *manifest.Map) string {
	word, other := m.Unit, m.Unit
	if word == "" {
		word, other = m.Name[strings.LastIndexAny(m.Name, "@_")+1:], "count"
	}
	for _, u := range strings.Split(units, ", ") {
		if words := strings.Fields(u); slices.Contains(words, word) {
			return words[0]
		}
	}
	return other
}

// part is a part of a key.
type part struct {
	name string
	off  int
	*manifest.Layout
}

// flat appends a part of a key, or the parts of a tuple or record.
func flat(dst []part, p part) []part {
	if p.Kind != "tuple" && p.Kind != "record" {
		return append(dst, p)
	}
	for i := range p.Fields {
		f := &p.Fields[i]
		name := f.Name
		if name == "" {
			name = p.name + "." + strconv.Itoa(i)
		}
		dst = flat(dst, part{name, p.off + f.Off, &f.Layout})
	}
	return dst
}

// Make returns the profile of a map of an object. Env names the frames.
func Make(o *manifest.Manifest, m *manifest.Map, elems []render.Element, env *format.Env) *profile.Profile {
	b := &profile.Builder{}
	b.Types, b.Period = Types(m), period(o)
	about := m.Shape + " in " + m.Name + " of " + o.Script.File
	if m.Help != "" {
		about += ": " + m.Help
	}
	b.Comment = valid(about)
	var parts []part
	fields := metrics.Parts(m)
	for i := range fields {
		p := part{"key" + strconv.Itoa(i+1), fields[i].Off, &fields[i].Layout}
		if i < len(m.KeyNames) && m.KeyNames[i] != "" {
			p.name = m.KeyNames[i]
		}
		parts = flat(parts, p)
	}
	for i := range parts {
		if !isStack(parts[i].Layout) {
			b.Labels = append(b.Labels, parts[i].name)
		}
	}
	plain := *env
	plain.Escape, plain.Trailer = false, ""
	known := map[uint64]frame{}
	b.Samples = make([]profile.Sample, len(elems))
	for i := range elems {
		s := &b.Samples[i]
		for _, kind := range []string{"", "ustack", "kstack"} {
			for _, p := range parts {
				v := format.Value{Layout: p.Layout, Bytes: elems[i].Key[p.off:]}
				switch {
				case p.Kind == kind:
					s.Frames = appendStack(s.Frames, b, known, &plain, v)
				case kind == "" && !isStack(p.Layout):
					v.Bytes = v.Bytes[:p.Size]
					s.Labels = append(s.Labels, valid(string(plain.Append(nil, v))))
				}
			}
		}
		s.Values = values(m, b.Types, &elems[i])
	}
	return &b.Profile
}

// valid returns text for a pprof file, whose strings are UTF-8.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// frame is a frame that a profile has, at an index.
type frame struct {
	format.Frame
	layout *manifest.Layout
	index  uint32
}

// appendStack appends the frames of a stack, outermost first. known has the last frame at each address.
func appendStack(dst []uint32, b *profile.Builder, known map[uint64]frame, env *format.Env, v format.Value) []uint32 {
	frames := env.StackOf(v)
	if len(frames) == 0 && binary.NativeEndian.Uint64(v.Bytes) != 0 {
		frames = []format.Frame{{Sym: profile.NoStack}} // was lost
	}
	isKernel := v.Layout.Kind == "kstack"
	for i := len(frames) - 1; i >= 0; i-- {
		f := &frames[i]
		if k := known[f.Address]; k.layout == v.Layout && k.Frame == *f {
			dst = append(dst, k.index)
			continue
		}
		name, address, file := f.Sym, f.Address, f.File
		switch {
		case address == format.UnwindFailure:
			name, address = "[unwind failure]", 0
		case isKernel && file == "":
			file = "kernel.kallsyms"
			fallthrough
		case isKernel:
			file = "[" + file + "]"
		case f.BuildID != "":
			address = f.FileOffset
		case v.Layout.Mode == format.ModeRaw:
			name = "0x" + strconv.FormatUint(address, 16)
		}
		index := b.Frame(&profile.Frame{Name: valid(name), Address: address, File: valid(f.Source), Line: f.Line, Kernel: isKernel, Inlined: f.Inlined}, valid(file), f.BuildID)
		known[f.Address] = frame{*f, v.Layout, index}
		dst = append(dst, index)
	}
	return dst
}

// values returns the values of an element, for each of types, which are those of its map.
func values(m *manifest.Map, types []profile.Type, el *render.Element) []int64 {
	value := el.Value
	switch m.Shape {
	case "hist", "lhist":
		value = el.Count
	case "plain":
		value = format.Uint(m.Value, el.Bytes)
	}
	if !m.Signed() {
		value = min(value, math.MaxInt64)
	}
	if len(types) > 1 {
		return []int64{int64(el.Count), int64(value)}
	}
	return []int64{int64(value)}
}

// period returns the time between two samples of a CPU in nanoseconds, if all probes of the object but those that begin
// and end it have one rate: profile:hz:99.
func period(m *manifest.Manifest) (ns uint64) {
	for i := range m.Programs {
		p := &m.Programs[i]
		if p.Kind == "begin" || p.Kind == "end" || p.Kind == "interval" {
			continue
		}
		one := p.Attach.Count
		switch p.Attach.Unit {
		case "hz":
			one = 1e9 / max(one, 1)
		case "s":
			one *= 1e9
		case "ms":
			one *= 1e6
		case "us":
			one *= 1e3
		}
		if p.Kind != "profile" || ns != 0 && ns != one {
			return 0
		}
		ns = one
	}
	return ns
}
