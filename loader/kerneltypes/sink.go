// SPDX-License-Identifier: Apache-2.0

package kerneltypes

import (
	"bytes"
	"fmt"
	"sort"
)

// sink collects types under new IDs.
type sink struct {
	src   *source
	ids   map[uint32]uint32 // old -> new
	types [][]byte          // by new ID - 1; names and types still to be filled in
	refs  []nameRef
	void  uint32 // the ID of "void *", once needed
}

// nameRef is a word of a type with an offset in the old string section.
type nameRef struct {
	typ, at int
	off     uint32
}

// maxNesting bounds the nesting of types, far above that of any kernel structure.
const maxNesting = 64

// add copies a type and the types that it contains, and returns its new ID. All pointers
// become one pointer to void.
func (k *sink) add(id uint32, depth int) (uint32, error) {
	if id == 0 {
		return 0, nil
	}
	if n, ok := k.ids[id]; ok {
		return n, nil
	}
	if depth > maxNesting {
		return 0, fmt.Errorf("BTF types nested too deeply (max %d)", maxNesting)
	}
	rec, kind, vlen, err := k.src.record(id)
	if err != nil {
		return 0, err
	}
	if kind == kindPtr {
		k.ids[id] = k.pointer(rec)
		return k.ids[id], nil
	}
	b := bytes.Clone(rec)
	k.types = append(k.types, b)
	n := uint32(len(k.types))
	k.ids[id] = n
	k.name(n, 0)
	switch kind {
	case kindArray:
		return n, k.replace(b, depth, 12, 16)
	case kindStruct, kindUnion:
		for i := range vlen {
			k.name(n, 12+12*i)
			if err := k.replace(b, depth, 12+12*i+4); err != nil {
				return 0, err
			}
		}
	case kindEnum:
		for i := range vlen {
			k.name(n, 12+8*i)
		}
	case kindEnum64:
		for i := range vlen {
			k.name(n, 12+12*i)
		}
	case kindTypedef, kindVolatile, kindConst, kindRestrict, kindTypeTag:
		return n, k.replace(b, depth, 8)
	case kindInt, kindFwd, kindFloat:
	default:
		return 0, fmt.Errorf("unexpected BTF kind %d inside a type", kind)
	}
	return n, nil
}

// pointer returns the one pointer of the blob, to void.
func (k *sink) pointer(rec []byte) uint32 {
	if k.void == 0 {
		b := bytes.Clone(rec)
		clear(b[8:12])
		k.types = append(k.types, b)
		k.void = uint32(len(k.types))
	}
	return k.void
}

// replace adds the types whose IDs are in the words of b, and writes the new IDs there.
func (k *sink) replace(b []byte, depth int, words ...int) error {
	for _, at := range words {
		id, err := k.add(order.Uint32(b[at:]), depth+1)
		if err != nil {
			return err
		}
		order.PutUint32(b[at:], id)
	}
	return nil
}

func (k *sink) name(typ uint32, at int) {
	if off := order.Uint32(k.types[typ-1][at:]); off != 0 {
		k.refs = append(k.refs, nameRef{int(typ - 1), at, off})
	}
}

// blob fills in the names and assembles header, types and strings.
func (k *sink) blob() ([]byte, error) {
	sort.Slice(k.refs, func(i, j int) bool { return k.refs[i].off < k.refs[j].off })
	strs := []byte{0}
	last, at := uint32(0), uint32(0)
	for _, r := range k.refs {
		if r.off != last {
			text, err := k.src.text(r.off)
			if err != nil {
				return nil, err
			}
			last, at = r.off, uint32(len(strs))
			strs = append(append(strs, text...), 0)
		}
		order.PutUint32(k.types[r.typ][r.at:], at)
	}
	size := 0
	for _, t := range k.types {
		size += len(t)
	}
	out := make([]byte, 24, 24+size+len(strs))
	order.PutUint16(out, 0xeB9F)
	out[2] = 1
	order.PutUint32(out[4:], 24)
	order.PutUint32(out[12:], uint32(size))
	order.PutUint32(out[16:], uint32(size))
	order.PutUint32(out[20:], uint32(len(strs)))
	for _, t := range k.types {
		out = append(out, t...)
	}
	return append(out, strs...), nil
}
