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
	dst = fmt.Appendf(dst, `{"type": "head", "version": %d, "time": "`, output.Version)
	dst = append(at.UTC().AppendFormat(dst, time.RFC3339Nano), `", "host": "", "object": `...)
	dst = format.AppendQuoted(dst, []byte(r.object))
	dst = fmt.Appendf(dst, `, "merged": true, "by_host": %v, "hosts": [`, r.ByHost)
	for i, host := range slices.Sorted(maps.Keys(r.hosts)) {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = format.AppendQuoted(dst, []byte(host))
	}
	dst = append(dst, ']')
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

// AppendFinal appends the line before the maps at the end of a report.
func AppendFinal(dst []byte, at time.Time) []byte {
	dst = at.UTC().AppendFormat(append(dst, `{"type": "snapshot", "time": "`...), time.RFC3339Nano)
	return append(dst, "\", \"final\": true}\n"...)
}
