// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"slices"
	"strings"
)

// briefDepth is the maximum number of pointers between a tracepoint's arguments and a type that an abridged module
// keeps.
const briefDepth = 2

// Abridge reduces modules, except those in whole, to their tracepoints and the types near them. It is separate from
// Make so that the loader does not link it.
func Abridge(src *Source, whole []string) {
	src.Modules = slices.Clone(src.Modules)
	for i := range src.Modules {
		src.Modules[i].brief = !slices.Contains(whole, src.Modules[i].Name)
	}
	// A type that several modules describe belongs to the first of them.
	slices.SortStableFunc(src.Modules, func(a, b Module) int { return briefLast(a) - briefLast(b) })
	src.abridge = func(b *btf, modules []Module) {
		var brief []string
		for _, m := range modules {
			if m.brief {
				brief = append(brief, m.Name)
			}
		}
		b.abridge(brief)
	}
}

func briefLast(m Module) int {
	if m.brief {
		return 1
	}
	return 0
}

// abridge replaces types of modules that are far from their tracepoints and from the arguments of a graphics driver's
// functions by forward declarations: types of large drivers are hardly ever used, and would take more space than all
// types of the kernel itself.
func (b *btf) abridge(modules []string) {
	first := len(b.types)
	for _, m := range modules {
		if at, end := b.span(m); at < end {
			first = min(first, at)
		}
	}
	near := make([]int, len(b.types)-first) // depth + 1, 0 for unreachable types
	var queue []uint32
	reach := func(id uint32, depth int) {
		at := int(id) - first
		if at < 0 || at >= len(near) || depth > briefDepth || near[at] != 0 && near[at] <= depth+1 {
			return
		}
		near[at] = depth + 1
		queue = append(queue, id)
	}
	for _, module := range modules {
		at, end := b.span(module)
		for id := at; id < end; id++ {
			t := &b.types[id]
			root := t.kind == btfTypedef && strings.HasPrefix(t.name, "btf_trace_")
			for _, prefix := range []string{"trace_event_raw_", "drm_" + module + "_"} {
				root = root || t.kind == btfStruct && strings.HasPrefix(t.name, prefix)
			}
			if root {
				near[id-first] = 1
				queue = append(queue, uint32(id))
			}
		}
	}
	for len(queue) > 0 {
		id := queue[0]
		queue = queue[1:]
		depth := near[int(id)-first] - 1
		t := &b.types[id]
		root := t.kind == btfTypedef && strings.HasPrefix(t.name, "btf_trace_")
		switch t.kind {
		case btfPtr:
			if b.at(b.strip(t.link)).kind == btfFuncProto || root {
				reach(t.link, depth)
			} else {
				reach(t.link, depth+1)
			}
		case btfTypedef, btfConst, btfVolatile, btfRestrict, btfTypeTag:
			reach(t.link, depth)
		case btfArray:
			reach(t.word(0), depth)
		case btfStruct, btfUnion:
			for i := range t.vlen {
				_, typ, _, _ := b.member(t, i)
				reach(typ, depth)
			}
		case btfFuncProto:
			reach(t.link, depth)
			for i := range t.vlen {
				_, typ := b.param(t, i)
				reach(typ, depth)
			}
		}
	}
	for i, depth := range near {
		t := &b.types[first+i]
		switch t.kind {
		case btfStruct, btfUnion, btfEnum, btfEnum64, btfFuncProto, btfTypedef:
			if depth == 0 {
				*t = btfType{kind: btfFwd, name: t.name}
			}
		}
	}
}

// span returns the range of the types of a module.
func (b *btf) span(module string) (first, end int) {
	for i, m := range b.modules {
		if m.name != module {
			continue
		}
		if i+1 < len(b.modules) {
			return m.first, b.modules[i+1].first
		}
		return m.first, len(b.types)
	}
	return 0, 0
}
