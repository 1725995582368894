// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"

	"btc/internal/manifest"
)

// maxMapHelp bounds the help of a map, in bytes.
const maxMapHelp = 500

// mapDocs collects the script's comments that document its maps, for metrics. A comment line that begins with the
// name of a map documents it, and can give a unit:
//
//	// @bytes [bytes]: Bytes that each process read.
//	// @calls: Calls that failed.
//
// The first such line for a map is used.
func (c *checker) mapDocs() {
	for _, comment := range c.info.Script.Comments {
		for line := range strings.Lines(comment.Text) {
			line = strings.TrimSpace(strings.TrimSuffix(strings.TrimLeft(strings.TrimSpace(line), "/*# \t"), "*/"))
			name, unit, help, ok := cutMapDoc(line)
			if m := c.maps[name]; ok && m != nil && m.Help == "" && m.Unit == "" {
				m.Help, m.Unit = strings.ToValidUTF8(help[:min(len(help), maxMapHelp)], ""), unit
			}
		}
	}
}

// cutMapDoc splits "@name [unit]: help".
func cutMapDoc(line string) (name, unit, help string, ok bool) {
	head, help, ok := strings.Cut(line, ":")
	if !ok || !strings.HasPrefix(head, "@") {
		return "", "", "", false
	}
	name, rest, _ := strings.Cut(head, " ")
	if rest = strings.TrimSpace(rest); rest != "" {
		unit, ok = strings.CutPrefix(rest, "[")
		if !ok || !strings.HasSuffix(unit, "]") {
			return "", "", "", false
		}
		if unit = strings.TrimSuffix(unit, "]"); !manifest.IsUnit(unit) {
			return "", "", "", false
		}
	}
	return name, unit, strings.TrimSpace(help), true
}
