// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/output"
)

// ofRun are the members of the head of a run that hold for the runs of its object on all hosts.
var ofRun = []string{"name", "names", "str_trunc_trailer", "print_maps_on_exit", "args", "params", "attach", "zone"}

// AppendHead appends the head of a merged report, with which btc replay reads it. The manifest is that of the first run
// with a head, or m, which may be nil; without one there is no head.
func (r *Runs) AppendHead(dst []byte, at time.Time, m *manifest.Manifest) []byte {
	first := gjson.Parse("{}")
	if gjson.ValidBytes(r.head) {
		first = gjson.ParseBytes(r.head)
	}
	raw := []byte(first.Get("manifest").Raw)
	if len(raw) == 0 && m != nil {
		raw, _ = json.Marshal(m) // it has no values that JSON lacks
	}
	if len(raw) == 0 {
		return dst
	}
	dst = appendHead(dst, at, r.object, r.ByHost, slices.Sorted(maps.Keys(r.hosts)))
	for _, name := range ofRun {
		if v := first.Get(name); v.Exists() {
			dst = append(fmt.Appendf(dst, ", %q: ", name), v.Raw...)
		}
	}
	if !first.Get("print_maps_on_exit").Exists() {
		dst = append(dst, `, "print_maps_on_exit": true, "str_trunc_trailer": ".."`...)
	}
	return append(append(append(dst, `, "manifest": `...), raw...), "}\n"...)
}

// Begun describes a report whose runs have not ended: those of an object on hosts.
type Begun struct {
	Manifest *manifest.Manifest
	Name     string // of the object in metrics
	ByHost   bool
	Names    bool // of containers after the IDs of cgroups
	Hosts    []string
	Args     []string // the parameters of the script
	Params   map[string]string
}

// AppendHead appends the head of the report.
func (b *Begun) AppendHead(dst []byte, at time.Time) []byte {
	dst = appendHead(dst, at, b.Manifest.Object.SHA256, b.ByHost, slices.Sorted(slices.Values(b.Hosts)))
	dst = format.AppendQuoted(append(dst, `, "name": `...), []byte(b.Name))
	c := &b.Manifest.Config
	dst = fmt.Appendf(dst, `, "names": %v, "print_maps_on_exit": %v, "str_trunc_trailer": `, b.Names, c.PrintMapsOnExit)
	dst = appendList(append(format.AppendQuoted(dst, []byte(c.StrTruncTrailer)), `, "args": `...), b.Args)
	dst = append(dst, `, "params": {`...)
	for i, name := range slices.Sorted(maps.Keys(b.Params)) {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(format.AppendQuoted(dst, []byte(name)), ": "...)
		dst = format.AppendQuoted(dst, []byte(b.Params[name]))
	}
	raw, _ := json.Marshal(b.Manifest) // it has no values that JSON lacks
	return append(append(append(dst, `}, "manifest": `...), raw...), "}\n"...)
}

// appendHead appends the members of a head that every report has.
func appendHead(dst []byte, at time.Time, object string, byHost bool, hosts []string) []byte {
	dst = fmt.Appendf(dst, `{"type": "head", "version": %d, "time": "`, output.Version)
	dst = append(at.UTC().AppendFormat(dst, time.RFC3339Nano), `", "host": "", "object": `...)
	dst = format.AppendQuoted(dst, []byte(object))
	return appendList(fmt.Appendf(dst, `, "merged": true, "by_host": %v, "hosts": `, byHost), hosts)
}

// appendList appends strings as a list.
func appendList(dst []byte, all []string) []byte {
	dst = append(dst, '[')
	for i, s := range all {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = format.AppendQuoted(dst, []byte(s))
	}
	return append(dst, ']')
}

// AppendFinal appends the line before the maps at the end of a report.
func AppendFinal(dst []byte, at time.Time) []byte {
	dst = at.UTC().AppendFormat(append(dst, `{"type": "snapshot", "time": "`...), time.RFC3339Nano)
	return append(dst, "\", \"final\": true}\n"...)
}
