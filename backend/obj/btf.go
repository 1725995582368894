// SPDX-License-Identifier: Apache-2.0

package obj

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// The BTF kinds that objects use (kernel: include/uapi/linux/btf.h). The newest is FUNC with global
// linkage (5.6).
const (
	kindInt       = 1
	kindPtr       = 2
	kindArray     = 3
	kindStruct    = 4
	kindUnion     = 5
	kindEnum      = 6
	kindTypedef   = 8
	kindConst     = 10
	kindFunc      = 12
	kindFuncProto = 13
	kindVar       = 14
	kindDatasec   = 15
)

// Encodings of kindInt. The kernel accepts at most one of them.
const (
	intSigned = 1 << 0
	intBool   = 1 << 2
)

// Linkage of kindFunc and kindVar.
const (
	linkStatic = 0
	linkGlobal = 1
)

// typeID is the number of a type in the blob; 0 is void.
type typeID uint32

// member is a member of a struct or union, or a variable of a DATASEC.
type member struct {
	name    string
	typ     typeID
	bitOff  int
	bitSize int // 0: not a bitfield
}

// enumerator is a constant of an enum; values are 32 bits wide (ENUM64 is 6.0).
type enumerator struct {
	name  string
	value int32
}

// param is a parameter of a function prototype.
type param struct {
	name string
	typ  typeID
}

// secvar is a variable in a DATASEC.
type secvar struct {
	typ       typeID
	off, size int
}

// builder collects BTF types and strings. It deduplicates: equal types share one ID, which keeps
// the blob small. The output depends only on the sequence of calls.
type builder struct {
	types   bytes.Buffer
	n       typeID
	seen    map[string]typeID
	strings strtab
}

func newBuilder() *builder {
	return &builder{seen: map[string]typeID{}, strings: newStrtab()}
}

// strtab is a string table: NUL-terminated strings, "" at offset 0.
type strtab struct {
	buf  []byte
	offs map[string]uint32
}

func newStrtab() strtab { return strtab{buf: []byte{0}, offs: map[string]uint32{"": 0}} }

func (s *strtab) add(str string) uint32 {
	if off, ok := s.offs[str]; ok {
		return off
	}
	off := uint32(len(s.buf))
	s.offs[str] = off
	s.buf = append(append(s.buf, str...), 0)
	return off
}

// record appends a type record and returns its id; an equal record is reused.
func (b *builder) record(words ...uint32) typeID {
	raw := make([]byte, 0, 4*len(words))
	for _, w := range words {
		raw = binary.LittleEndian.AppendUint32(raw, w)
	}
	if id, ok := b.seen[string(raw)]; ok {
		return id
	}
	b.n++
	b.types.Write(raw)
	b.seen[string(raw)] = b.n
	return b.n
}

func info(kind, vlen int, flag bool) uint32 {
	w := uint32(kind)<<24 | uint32(vlen)
	if flag {
		w |= 1 << 31
	}
	return w
}

func (b *builder) int(name string, size, enc int) typeID {
	return b.record(b.strings.add(name), info(kindInt, 0, false), uint32(size), uint32(enc)<<24|uint32(size*8))
}

func (b *builder) ptr(to typeID) typeID { return b.record(0, info(kindPtr, 0, false), uint32(to)) }

func (b *builder) typedef(name string, to typeID) typeID {
	return b.record(b.strings.add(name), info(kindTypedef, 0, false), uint32(to))
}

func (b *builder) array(elem typeID, n int) typeID {
	return b.record(0, info(kindArray, 0, false), 0, uint32(elem), uint32(b.indexType()), uint32(n))
}

func (b *builder) constant(of typeID) typeID {
	return b.record(0, info(kindConst, 0, false), uint32(of))
}

// indexType returns the index type that libbpf's map definitions use.
func (b *builder) indexType() typeID { return b.int("__ARRAY_SIZE_TYPE__", 4, 0) }

// composite returns a struct or union (kind) of size bytes.
func (b *builder) composite(kind int, name string, size int, ms []member) typeID {
	flag := false
	for _, m := range ms {
		flag = flag || m.bitSize > 0
	}
	w := []uint32{b.strings.add(name), info(kind, len(ms), flag), uint32(size)}
	for _, m := range ms {
		off := uint32(m.bitOff)
		if flag {
			off |= uint32(m.bitSize) << 24
		}
		w = append(w, b.strings.add(m.name), uint32(m.typ), off)
	}
	return b.record(w...)
}

func (b *builder) enum(name string, size int, signed bool, es []enumerator) typeID {
	w := []uint32{b.strings.add(name), info(kindEnum, len(es), signed), uint32(size)}
	for _, e := range es {
		w = append(w, b.strings.add(e.name), uint32(e.value))
	}
	return b.record(w...)
}

func (b *builder) funcProto(ret typeID, params ...param) typeID {
	w := []uint32{0, info(kindFuncProto, len(params), false), uint32(ret)}
	for _, p := range params {
		w = append(w, b.strings.add(p.name), uint32(p.typ))
	}
	return b.record(w...)
}

func (b *builder) fn(name string, proto typeID, linkage int) typeID {
	return b.record(b.strings.add(name), info(kindFunc, linkage, false), uint32(proto))
}

func (b *builder) variable(name string, typ typeID, linkage int) typeID {
	return b.record(b.strings.add(name), info(kindVar, 0, false), uint32(typ), uint32(linkage))
}

func (b *builder) datasec(name string, size int, vars []secvar) typeID {
	w := []uint32{b.strings.add(name), info(kindDatasec, len(vars), false), uint32(size)}
	for _, v := range vars {
		w = append(w, uint32(v.typ), uint32(v.off), uint32(v.size))
	}
	return b.record(w...)
}

// bytes returns the .BTF section: the original 24-byte header, types, strings.
func (b *builder) bytes() []byte {
	var out bytes.Buffer
	le(&out, uint16(0xeB9F), uint8(1), uint8(0), uint32(24))
	le(&out, uint32(0), uint32(b.types.Len()), uint32(b.types.Len()), uint32(len(b.strings.buf)))
	out.Write(b.types.Bytes())
	out.Write(b.strings.buf)
	return out.Bytes()
}

// le writes values in little-endian order; a bytes.Buffer never fails.
func le(w *bytes.Buffer, vals ...any) {
	order, out := binary.LittleEndian, w.AvailableBuffer()
	for _, v := range vals {
		switch v := v.(type) {
		case uint8:
			out = append(out, v)
		case uint16:
			out = order.AppendUint16(out, v)
		case uint32:
			out = order.AppendUint32(out, v)
		case uint64:
			out = order.AppendUint64(out, v)
		default:
			panic(fmt.Sprintf("BUG: %T in an object", v))
		}
	}
	w.Write(out)
}
