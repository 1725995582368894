// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"btc/internal/arch"
	"btc/loader/format"
	"btc/loader/render"
)

// Head is what the first line of a recording has besides what its Run knows.
type Head struct {
	Format   string // name of the format of the run's output
	Kernel   string // release
	Manifest []byte // the JSON of the object's manifest
	Args     []string
	Params   map[string]string
	Top      render.Top // of all maps
}

// AppendHead appends the first line of a recording: its version, what describes the run and its machine, and what
// decides how its results are printed.
func (r *Run) AppendHead(dst []byte, h *Head) []byte {
	text := func(name, value string) {
		dst = format.AppendQuoted(append(append(append(dst, `, "`...), name...), `": `...), []byte(value))
	}
	dst = fmt.Appendf(dst, `{"type": "head", "version": %d, "time": "`, Version)
	dst = append(r.Started.UTC().AppendFormat(dst, time.RFC3339Nano), '"')
	text("host", r.Host)
	text("kernel", h.Kernel)
	text("arch", arch.HostLabel())
	text("object", r.Manifest.Object.SHA256)
	text("name", r.Object)
	text("format", h.Format)
	dst = fmt.Appendf(dst, `, "names": %v, "summary": %v, "rate": %v, "max_series": %d`, r.Env.Names, h.Top.Summary, r.Rate, r.MaxSeries)
	if buckets := r.Buckets.String(); buckets != "" {
		text("buckets", buckets)
	}
	text("sort", h.Top.Order)
	text("str_trunc_trailer", r.Manifest.Config.StrTruncTrailer)
	dst = fmt.Appendf(dst, `, "print_maps_on_exit": %v, "args": `, r.Manifest.Config.PrintMapsOnExit)
	dst = append(appendList(dst, h.Args), `, "params": {`...)
	var names []string
	for name := range h.Params {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(format.AppendQuoted(dst, []byte(name)), ": "...)
		dst = format.AppendQuoted(dst, []byte(h.Params[name]))
	}
	dst = append(dst, `}, "attach": [`...)
	for i, first := 0, true; i < len(r.Manifest.Programs); i++ {
		if p := &r.Manifest.Programs[i]; len(p.Attach.Substitute) > 0 {
			if !first {
				dst = append(dst, ", "...)
			}
			first = false
			dst = strconv.AppendInt(append(dst, `{"program": `...), int64(i), 10)
			text("text", p.Attach.Text)
			dst = append(dst, '}')
		}
	}
	dst = appendZone(append(dst, `], "zone": [`...), r.Started)
	dst = appendCompact(append(dst, `], "manifest": `...), h.Manifest)
	return append(dst, "}\n"...)
}

// zoneSpan is how long before and after its start a recording knows the time zone.
const zoneSpan = 2 * 366 * 24 * time.Hour

// appendZone appends the periods of the local time zone around a time: each lasts until the next one.
func appendZone(dst []byte, around time.Time) []byte {
	for at := around.Add(-zoneSpan).Local(); ; {
		name, offset := at.Zone()
		dst = fmt.Appendf(dst, `{"from": %d, "name": `, at.Unix())
		dst = format.AppendQuoted(dst, []byte(name))
		dst = fmt.Appendf(dst, `, "offset": %d}`, offset)
		_, end := at.ZoneBounds()
		if end.IsZero() || end.After(around.Add(zoneSpan)) {
			return dst
		}
		at = end
		dst = append(dst, ", "...)
	}
}

// appendCompact appends a manifest in one line, without the part that only loading an object needs and that may be large.
func appendCompact(dst, text []byte) []byte {
	depth, member := 0, 0 // member: where a member of the manifest begins in dst
	inString := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case inString:
			inString = c != '"'
			if c == '\\' && i+1 < len(text) {
				dst, i = append(dst, c), i+1
				c = text[i]
			}
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			continue
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			if depth++; depth == 1 {
				member = len(dst) + 1
			}
		case c == ',' && depth == 1, c == '}' && depth == 1:
			if bytes.HasPrefix(bytes.TrimLeft(dst[member:], ","), []byte(`"fields":`)) {
				dst = dst[:member]
			}
			member = len(dst)
			if c == '}' {
				depth--
			}
		case c == ']' || c == '}':
			depth--
		}
		dst = append(dst, c)
	}
	return dst
}

// AppendMessage appends the line of a message on the error output that no sink has written.
func AppendMessage(dst []byte, at time.Time, text string) []byte {
	dst = at.UTC().AppendFormat(append(dst, `{"type": "message", "time": "`...), time.RFC3339Nano)
	return append(format.AppendQuoted(append(dst, `", "text": `...), []byte(text)), "}\n"...)
}
