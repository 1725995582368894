// SPDX-License-Identifier: Apache-2.0

package obj

import (
	"fmt"

	"btc/backend/emit"
	"btc/ir"
)

// maxMaps is the maximum number of maps that a program and its subprograms may use (MAX_USED_MAPS
// in the kernel). All globals of a section count as one map.
const maxMaps = 64

// mapLimit returns an error for the first program that uses too many maps.
func mapLimit(m *ir.Module, funcs []*emit.Func) error {
	section := map[string]string{} // section of a global
	for _, s := range newDataSections(m) {
		for _, g := range s.vars {
			section[g.Name] = s.name
		}
	}
	byName := map[string]*emit.Func{}
	for _, f := range funcs {
		byName[f.Name] = f
	}
	for _, f := range funcs {
		if f.Prog == nil {
			continue
		}
		if n := len(mapsOf(f, byName, section)); n > maxMaps {
			return ir.Diag{
				Pos:  f.Pos,
				Text: fmt.Sprintf("this probe uses %d maps; the kernel allows %d per program", n, maxMaps),
				Hint: `keep several values in one map, by a key: @m["a"], @m["b"]`,
			}
		}
	}
	return nil
}

// mapsOf returns the maps and data sections used by f and the subprograms that it can reach.
func mapsOf(f *emit.Func, byName map[string]*emit.Func, section map[string]string) map[string]bool {
	used, seen := map[string]bool{}, map[string]bool{f.Name: true}
	for work := []*emit.Func{f}; len(work) > 0; {
		g := work[len(work)-1]
		work = work[:len(work)-1]
		for _, r := range g.Relocs {
			switch r.Kind {
			case emit.Map:
				used[r.Sym] = true
			case emit.Global:
				used[section[r.Sym]] = true
			}
		}
		for _, name := range g.Calls {
			if sub := byName[name]; sub != nil && !seen[name] {
				seen[name] = true
				work = append(work, sub)
			}
		}
	}
	return used
}
