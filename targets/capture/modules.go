// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
)

// merge appends the types of modules to those of the kernel. The BTF of a module continues the kernel's: its ids and
// its string offsets begin where the kernel's end. Those of the second module begin there, too, so they are
// renumbered; a struct, union, enum or typedef that an earlier module describes with the same size and number of
// members is merged with it. It returns the names of the modules whose BTF is damaged, which are skipped.
func (b *btf) merge(modules []Module) (damaged []string) {
	base, text := uint32(len(b.types)), b.strings
	known := map[string]uint32{}
	for i := range modules {
		m := &btf{kernel: text}
		if err := m.parse(modules[i].BTF); err != nil {
			damaged = append(damaged, fmt.Sprintf("%s (%v)", modules[i].Name, err))
			continue
		}
		b.modules = append(b.modules, moduleTypes{modules[i].Name, len(b.types)})
		b.append(m, base, known)
	}
	return damaged
}

// append appends the types of m, whose ids begin at base, to b's.
func (b *btf) append(m *btf, base uint32, known map[string]uint32) {
	var mine []btfType
	ids := make([]uint32, len(m.types))
	for i := range m.types {
		t := &m.types[i]
		key := shapeKey(t)
		id, ok := known[key]
		if !ok || key == "" {
			id = uint32(len(b.types) + len(mine))
			mine = append(mine, *t)
		}
		if key != "" {
			known[key] = id
		}
		ids[i] = id
	}
	move := mover{base: base, ids: ids, text: len(m.kernel), shift: len(b.strings) - len(m.kernel)}
	for i := range mine {
		move.record(&mine[i])
	}
	b.types = append(b.types, mine...)
	b.strings += m.strings
	b.signed = b.signed || m.signed
}

// shapeKey returns a key by which equal types are found, "" for types that are not merged.
func shapeKey(t *btfType) string {
	switch t.kind {
	case btfStruct, btfUnion, btfEnum, btfEnum64:
		if t.name != "" {
			return strconv.Itoa(int(t.kind)) + t.name + " " + strconv.Itoa(int(t.link)) + " " + strconv.Itoa(t.vlen)
		}
	case btfTypedef, btfInt:
		return strconv.Itoa(int(t.kind)) + t.name
	}
	return ""
}

// mover renumbers a module's records for the merged types.
type mover struct {
	base  uint32
	ids   []uint32 // by id - base
	text  int      // length in bytes of the kernel's strings
	shift int
}

func (m *mover) id(id uint32) uint32 {
	switch at := int64(id) - int64(m.base); {
	case at < 0:
		return id
	case at < int64(len(m.ids)):
		return m.ids[at]
	}
	return 0
}

// record relocates the references of a record: which of its words are types or strings
// depends on its kind.
func (m *mover) record(t *btfType) {
	step, name, typ := 0, -1, -1 // words of an element, and the indices of its name and type
	switch t.kind {
	case btfPtr, btfTypedef, btfVolatile, btfConst, btfRestrict, btfFunc, btfVar, btfDeclTag, btfTypeTag:
		t.link = m.id(t.link)
		return
	case btfArray: // element and index type, length
		t.extra = slices.Clone(t.extra)
		m.word(t, 0, m.id(t.word(0)))
		m.word(t, 1, m.id(t.word(1)))
		return
	case btfFuncProto:
		t.link = m.id(t.link)
		step, name, typ = 2, 0, 1
	case btfStruct, btfUnion:
		step, name, typ = 3, 0, 1
	case btfEnum:
		step, name = 2, 0
	case btfEnum64:
		step, name = 3, 0
	default:
		return
	}
	t.extra = slices.Clone(t.extra)
	for i := 0; i < t.vlen; i++ {
		if at := step*i + name; int64(t.word(at)) >= int64(m.text) {
			m.word(t, at, t.word(at)+uint32(m.shift))
		}
		if typ >= 0 {
			m.word(t, step*i+typ, m.id(t.word(step*i+typ)))
		}
	}
}

func (m *mover) word(t *btfType, i int, v uint32) { binary.LittleEndian.PutUint32(t.extra[4*i:], v) }
