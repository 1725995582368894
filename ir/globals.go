// SPDX-License-Identifier: Apache-2.0

package ir

// GlobalOffset is the address of a global: its section and offset. Globals of one kind make
// up a section.
type GlobalOffset struct {
	Kind GlobalKind
	Off  int
}

// LayoutGlobals lays out the sections of m's globals, each in the order of m.Globals.
func LayoutGlobals(m *Module) map[string]GlobalOffset {
	offsets := make(map[string]GlobalOffset, len(m.Globals))
	ends := map[GlobalKind]int{}
	for _, g := range m.Globals {
		align := min(8, g.Size)
		for align&(align-1) != 0 {
			align--
		}
		if g.Size >= 1024 { // per-CPU caches, each aligned to a cache line
			align = 64
		}
		end := ends[g.Kind]
		if rest := end % max(1, align); rest != 0 {
			end += align - rest
		}
		offsets[g.Name] = GlobalOffset{g.Kind, end}
		ends[g.Kind] = end + g.Size
	}
	return offsets
}
