// SPDX-License-Identifier: Apache-2.0

package output

import (
	"errors"
	"strconv"
	"time"

	"btc/internal/manifest"
	"btc/internal/profile"
	"btc/loader/profiles"
)

// folded is a line for each stack, which flamegraph.pl and similar tools read.
var folded = Format{
	Name: "folded", Help: "the stacks of a map in one line each, for flame graphs", Document: true, Profile: true,
	New: func(r *Run) Sink {
		return Profiler(r, func(p *profile.Profile) {
			if n := p.Folded(r.Out.Write); n > 0 {
				r.Message("WARNING: " + strconv.Itoa(n) + " stacks with a negative value are left out")
			}
		})
	},
}

// pprof is the format of go tool pprof and of continuous profilers.
var pprof = Format{
	Name: "pprof", Help: "the stacks of a map as a profile for go tool pprof", Document: true, Profile: true, Binary: true,
	New: func(r *Run) Sink {
		return Profiler(r, func(p *profile.Profile) { p.Pprof(r.Out.Write) })
	},
}

// CheckMap returns an error if the format cannot write the maps of an object: a format of profiles writes only one, of
// this name or, if it is "", the only one that is a profile.
func (f *Format) CheckMap(m *manifest.Manifest, name string) error {
	switch {
	case f.Profile:
		_, err := profiles.Find(m, name)
		return err
	case name != "":
		return errors.New("--map needs a format of profiles: -f folded or -f pprof")
	}
	return nil
}

// Profiler returns the sink of a format of profiles, which passes the profile since the start to write: at each snapshot,
// and at the end.
func Profiler(r *Run, write func(p *profile.Profile)) Sink {
	m, _ := profiles.Find(r.Manifest, r.Map) // CheckMap was called
	document := func(maps func(show func(*Map)), _ bool) {
		maps(func(x *Map) {
			if m == nil || x.Map.Name != m.Name {
				return
			}
			p := profiles.Make(r.Manifest, x.Map, x.Elements, r.Env)
			p.Start = uint64(r.Started.UnixNano())
			at := r.At
			if at.IsZero() {
				at = time.Now()
			}
			p.Duration = uint64(max(at.Sub(r.Started), 0))
			write(p)
		})
	}
	return &documents{text: text{Run: r}, what: "a profile, which contains only the stacks of a map", write: document}
}
