// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// The kinds of BTF, as in include/uapi/linux/btf.h.
const (
	btfInt = iota + 1
	btfPtr
	btfArray
	btfStruct
	btfUnion
	btfEnum
	btfFwd
	btfTypedef
	btfVolatile
	btfConst
	btfRestrict
	btfFunc
	btfFuncProto
	btfVar
	btfDatasec
	btfFloat
	btfDeclTag
	btfTypeTag
	btfEnum64
)

// btfType is one BTF record. link is the type it refers to or its size; extra is the data
// after the record's fixed part, still encoded.
type btfType struct {
	kind  uint8
	flag  bool // kind_flag
	vlen  int
	link  uint32
	name  string
	extra []byte
}

// btf is a parsed BTF blob followed by those of modules; types[0] is void.
type btf struct {
	types   []btfType
	kernel  string // for a module's blob: the kernel's strings, which precede its own
	strings string
	signed  bool // the producer marks signed enums (pahole 1.24, Linux 6.0)
	base    int  // types of the kernel itself; the modules' follow
	modules []moduleTypes
}

// moduleTypes is the index of a module's first type.
type moduleTypes struct {
	name  string
	first int
}

// module names the module that a type belongs to, "" for the kernel's own.
func (b *btf) module(id int) string {
	name := ""
	for _, m := range b.modules {
		if id >= m.first {
			name = m.name
		}
	}
	return name
}

var errBTF = errors.New("damaged or truncated BTF")

// parseBTF splits raw BTF (little endian, version 1) into records. It checks lengths; references between types are
// checked when they are followed.
func parseBTF(raw []byte) (*btf, error) {
	b := &btf{types: make([]btfType, 1, len(raw)/40+1)}
	if err := b.parse(raw); err != nil {
		return nil, err
	}
	b.base = len(b.types)
	return b, nil
}

// parse reads the strings and appends the records of a blob unchanged.
func (b *btf) parse(raw []byte) error {
	if len(raw) < 24 || binary.LittleEndian.Uint16(raw) != 0xeb9f {
		return errors.New("not little-endian BTF")
	}
	if raw[2] != 1 {
		return fmt.Errorf("unknown BTF version %d", raw[2])
	}
	word := func(at int) uint64 { return uint64(binary.LittleEndian.Uint32(raw[at:])) }
	header, size := word(4), uint64(len(raw))
	typeOff, typeLen := header+word(8), word(12)
	strOff, strLen := header+word(16), word(20)
	if typeOff+typeLen > size || strOff+strLen > size {
		return errBTF
	}
	b.strings = string(raw[strOff : strOff+strLen])
	rest := raw[typeOff : typeOff+typeLen]
	for len(rest) > 0 {
		t, n, err := b.record(rest)
		if err != nil {
			return err
		}
		b.types = append(b.types, t)
		rest = rest[n:]
	}
	return nil
}

// record decodes the record at the start of raw and returns its length. Kind and vlen are masked as in kernels of
// 2026 (7 and 24 bits); in older BTF the added bits are zero.
func (b *btf) record(raw []byte) (btfType, int, error) {
	if len(raw) < 12 {
		return btfType{}, 0, errBTF
	}
	info := binary.LittleEndian.Uint32(raw[4:])
	t := btfType{
		kind: uint8(info >> 24 & 0x7f), flag: info>>31 != 0, vlen: int(info & 0xffffff),
		link: binary.LittleEndian.Uint32(raw[8:]), name: b.name(binary.LittleEndian.Uint32(raw)),
	}
	extra := 0
	switch t.kind {
	case btfInt, btfVar, btfDeclTag:
		extra = 4
	case btfArray:
		extra = 12
	case btfStruct, btfUnion, btfDatasec, btfEnum64:
		extra = 12 * t.vlen
	case btfEnum, btfFuncProto:
		extra = 8 * t.vlen
	case btfPtr, btfFwd, btfTypedef, btfVolatile, btfConst, btfRestrict, btfFunc, btfFloat, btfTypeTag:
	default:
		return t, 0, fmt.Errorf("unknown BTF kind %d", t.kind)
	}
	if 12+extra > len(raw) {
		return t, 0, errBTF
	}
	t.extra = raw[12 : 12+extra]
	if t.kind == btfEnum && t.flag {
		b.signed = true
	}
	return t, 12 + extra, nil
}

func (b *btf) name(off uint32) string {
	text, at := b.kernel, int64(off)
	if at >= int64(len(text)) {
		text, at = b.strings, at-int64(len(text))
	}
	if at >= int64(len(text)) {
		return ""
	}
	s := text[at:]
	if i := strings.IndexByte(s, 0); i >= 0 {
		return s[:i]
	}
	return s
}

// at returns a type, void for a reference past the end.
func (b *btf) at(id uint32) *btfType {
	if int64(id) >= int64(len(b.types)) {
		id = 0
	}
	return &b.types[id]
}

func (t *btfType) word(i int) uint32 { return binary.LittleEndian.Uint32(t.extra[4*i:]) }

// member returns member i of a struct or union.
func (b *btf) member(t *btfType, i int) (name string, typ uint32, bit, bits int) {
	off := t.word(3*i + 2)
	if t.flag {
		return b.name(t.word(3 * i)), t.word(3*i + 1), int(off & 0xffffff), int(off >> 24)
	}
	return b.name(t.word(3 * i)), t.word(3*i + 1), int(off), 0
}

// param returns parameter i of a prototype.
func (b *btf) param(t *btfType, i int) (name string, typ uint32) {
	return b.name(t.word(2 * i)), t.word(2*i + 1)
}

// enumerator returns constant i of an enum. Producers before pahole 1.24 do not record whether an enum is signed;
// their values are read as signed.
func (b *btf) enumerator(t *btfType, i int) (name string, value int64) {
	if t.kind == btfEnum64 {
		return b.name(t.word(3 * i)), int64(uint64(t.word(3*i+1)) | uint64(t.word(3*i+2))<<32)
	}
	v := t.word(2*i + 1)
	if t.flag || !b.signed {
		return b.name(t.word(2 * i)), int64(int32(v))
	}
	return b.name(t.word(2 * i)), int64(v)
}

// strip follows qualifiers and type tags.
func (b *btf) strip(id uint32) uint32 {
	for range 32 {
		switch t := b.at(id); t.kind {
		case btfConst, btfVolatile, btfRestrict, btfTypeTag:
			id = t.link
		default:
			return id
		}
	}
	return 0
}

// userPtr reports whether a pointer has a type tag for user space.
func (b *btf) userPtr(ptr *btfType) bool {
	id := ptr.link
	for range 32 {
		t := b.at(id)
		switch t.kind {
		case btfTypeTag:
			if t.name == "user" {
				return true
			}
		case btfConst, btfVolatile, btfRestrict:
		default:
			return false
		}
		id = t.link
	}
	return false
}

// size returns a type's size in bytes, 0 if it has none.
func (b *btf) size(id uint32, depth int) int {
	t := b.at(b.strip(id))
	if depth > 32 {
		return 0
	}
	switch t.kind {
	case btfInt, btfStruct, btfUnion, btfEnum, btfEnum64, btfFloat:
		return int(t.link)
	case btfPtr:
		return 8
	case btfTypedef:
		return b.size(t.link, depth+1)
	case btfArray:
		if n := int64(b.size(t.word(0), depth+1)) * int64(t.word(2)); n < 1<<31 {
			return int(n)
		}
	}
	return 0
}
