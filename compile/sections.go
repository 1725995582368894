// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"bytes"
	"debug/elf"
	"fmt"
	"strings"
)

// sections lists the contents of an object: its sections, and the functions, maps and
// variables in them.
func sections(object []byte) string {
	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		panic("BUG: the object cannot be read: " + err.Error())
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-3s %-36s %-12s %7s %7s\n", "nr", "section", "type", "offset", "bytes")
	for i, s := range f.Sections[1:] {
		fmt.Fprintf(&b, "%-3d %-36s %-12s %7d %7d\n", i+1, s.Name, strings.TrimPrefix(s.Type.String(), "SHT_"),
			s.Offset, s.Size)
	}
	symbols, err := f.Symbols()
	if err != nil {
		panic("BUG: the object's symbols cannot be read: " + err.Error())
	}
	fmt.Fprintf(&b, "\n%-38s %-8s %-24s %5s %6s\n", "symbol", "type", "section", "at", "bytes")
	for _, s := range symbols {
		if s.Name == "" || int(s.Section) >= len(f.Sections) {
			continue
		}
		kind := strings.TrimPrefix(elf.ST_TYPE(s.Info).String(), "STT_")
		fmt.Fprintf(&b, "%-38s %-8s %-24s %5d %6d\n", s.Name, kind, f.Sections[s.Section].Name, s.Value, s.Size)
	}
	return b.String()
}
