// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"strings"

	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/internal/aggregate"
	"btc/internal/manifest"
)

// maxMapHelp bounds the help of a map, in bytes.
const maxMapHelp = 500

// mapDocs collects the script's comments that document its maps, for metrics. A comment line that begins with the
// name of a map documents it, and can give a unit, and the bounds of a hist():
//
//	// @bytes [bytes]: Bytes that each process read.
//	// @took [ns 1us..10s]: How long calls took.
//	// @calls: Calls that failed.
//
// The first such line for a map is used.
func (c *checker) mapDocs() {
	for _, comment := range c.info.Script.Comments {
		for line := range strings.Lines(comment.Text) {
			line = strings.TrimSpace(strings.TrimSuffix(strings.TrimLeft(strings.TrimSpace(line), "/*# \t"), "*/"))
			doc, ok := cutMapDoc(line)
			m := c.maps[doc.name]
			if !ok || m == nil || m.Help != "" || m.Unit != "" || m.Range != "" {
				continue
			}
			m.Help, m.Unit = strings.ToValidUTF8(doc.help[:min(len(doc.help), maxMapHelp)], ""), doc.unit
			_, err := aggregate.ParseRange(doc.bounds)
			if err == nil && doc.bounds != "" && (m.agg == nil || m.agg.Kind != types.Hist) {
				err = fmt.Errorf("%s: only a hist() has bounds that can be chosen", doc.bounds)
			}
			if err != nil {
				c.l.Add(diag.Ignored, comment.At, "the bounds in the comment on %s are ignored: %v", doc.name, err)
				continue
			}
			m.Range = doc.bounds
		}
	}
}

// mapDoc is what a comment says of a map.
type mapDoc struct{ name, unit, bounds, help string }

// cutMapDoc splits "@name [unit bounds]: help". Bounds have dots or a slash.
func cutMapDoc(line string) (d mapDoc, ok bool) {
	head, help, ok := strings.Cut(line, ":")
	if !ok || !strings.HasPrefix(head, "@") {
		return d, false
	}
	d.help = strings.TrimSpace(help)
	var rest string
	d.name, rest, _ = strings.Cut(head, " ")
	if rest = strings.TrimSpace(rest); rest == "" {
		return d, true
	}
	inside, ok := strings.CutPrefix(rest, "[")
	if !ok || !strings.HasSuffix(inside, "]") {
		return mapDoc{}, false
	}
	words := strings.Fields(strings.TrimSuffix(inside, "]"))
	if len(words) > 0 && manifest.IsUnit(words[0]) {
		d.unit, words = words[0], words[1:]
	}
	if len(words) == 1 && (strings.Contains(words[0], "..") || strings.HasPrefix(words[0], "/")) {
		d.bounds, words = words[0], nil
	}
	if len(words) > 0 || d.unit == "" && d.bounds == "" {
		return mapDoc{}, false
	}
	return d, true
}
