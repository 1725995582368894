// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strings"

	"btc/internal/probe"
)

// Set copies the parsed attach point.
func (a *Attach) Set(t *probe.Type, p *probe.Point) {
	a.Text = t.Text(p)
	a.Target, a.Lang, a.Name, a.Offset, a.Addr = p.Target, p.Lang, p.Name, p.Offset, p.Addr
	a.Unit, a.Count, a.Len, a.Mode = p.Unit, p.Count, p.Len, p.Mode
}

// Point returns the parsed attach point.
func (a *Attach) Point() *probe.Point {
	return &probe.Point{Target: a.Target, Lang: a.Lang, Name: a.Name, Offset: a.Offset, Addr: a.Addr,
		Unit: a.Unit, Count: a.Count, Len: a.Len, Mode: a.Mode, Pattern: probe.IsPattern(a.Target) || probe.IsPattern(a.Name)}
}

// Frequency returns the rate of a profile probe in Hz; ok is false if it is not known or not an integer.
func (a *Attach) Frequency() (hz uint64, ok bool) {
	per := map[string]uint64{"us": 1e6, "ms": 1000, "s": 1}[a.Unit]
	switch {
	case len(a.Substitute) > 0 || a.Count == 0:
		return 0, false
	case a.Unit == "hz":
		return a.Count, true
	}
	return per / a.Count, per >= a.Count && per%a.Count == 0
}

// Attaches returns the text of the attach point, made from its parts. The loader uses the parts; Text is only what the
// compiler wrote. Parameters without values stay "$1".
func (a *Attach) Attaches(kind string) string {
	if len(a.Substitute) > 0 {
		return kind + ":" + strings.Join(a.Substitute, ":")
	}
	t := probe.Lookup(kind)
	if t == nil {
		return kind
	}
	return t.Text(a.Point())
}
