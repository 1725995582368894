// SPDX-License-Identifier: Apache-2.0

// Package kerneltypes extracts from the kernel's BTF the few types that an object refers
// to.
//
// It takes names and returns a BTF blob with those types and the types that their layout depends on. All pointers
// become void *, because relocations of fields never follow them.
//
// It is our own code and adds 22 KB to btrun: cilium/ebpf decodes the whole BTF (5 MB, 100,000 types) in 37 ms and 10
// MB of memory; this package reads it once in small pieces, in 4 ms.
package kerneltypes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Path is the kernel's BTF file, since 5.4 with CONFIG_DEBUG_INFO_BTF.
const Path = "/sys/kernel/btf/vmlinux"

// BTF kinds (include/uapi/linux/btf.h).
const (
	kindInt       = 1
	kindPtr       = 2
	kindArray     = 3
	kindStruct    = 4
	kindUnion     = 5
	kindEnum      = 6
	kindFwd       = 7
	kindTypedef   = 8
	kindVolatile  = 9
	kindConst     = 10
	kindRestrict  = 11
	kindFunc      = 12
	kindFuncProto = 13
	kindVar       = 14
	kindDatasec   = 15
	kindFloat     = 16
	kindDeclTag   = 17
	kindTypeTag   = 18
	kindEnum64    = 19
)

// tails is the size of what follows a type's 12 bytes, for each kind: fixed bytes, and
// bytes for each of its vlen parts.
var tails = [...]struct{ fixed, each int }{
	kindInt: {4, 0}, kindPtr: {}, kindArray: {12, 0}, kindStruct: {0, 12}, kindUnion: {0, 12}, kindEnum: {0, 8},
	kindFwd: {}, kindTypedef: {}, kindVolatile: {}, kindConst: {}, kindRestrict: {}, kindFunc: {}, kindFuncProto: {0, 8},
	kindVar: {4, 0}, kindDatasec: {0, 12}, kindFloat: {}, kindDeclTag: {4, 0}, kindTypeTag: {}, kindEnum64: {0, 12},
}

var order = binary.NativeEndian

// Subset reads the BTF at path, raw or in an ELF file. It returns a blob with the types of the given names (structs,
// unions, enums and typedefs) and the types that they depend on, and the names that were not found.
func Subset(path string, names []string) (blob []byte, missing []string, err error) {
	f, err := open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	return subset(f, names)
}

func subset(r io.ReaderAt, names []string) (blob []byte, missing []string, err error) {
	s := &source{window: window{r: r}}
	if err := s.header(); err != nil {
		return nil, nil, err
	}
	wanted, err := s.findNames(names)
	if err != nil {
		return nil, nil, err
	}
	roots, found, err := s.scan(wanted, isNamed)
	if err != nil {
		return nil, nil, err
	}
	out := &sink{src: s, ids: map[uint32]uint32{}}
	for _, id := range roots {
		if _, err := out.add(id, 0); err != nil {
			return nil, nil, err
		}
	}
	blob, err = out.blob()
	for _, name := range names {
		if !found[name] && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	return blob, missing, err
}

// source is the BTF being read.
type source struct {
	window
	types, strings section
	offs           []uint32 // offset of each type from the section's start; types have IDs from 1
}

type section struct{ off, size int64 }

func (s *source) header() error {
	b, err := s.at(0, 24)
	if err != nil {
		return err
	}
	if order.Uint16(b) != 0xeB9F || b[2] != 1 {
		return errors.New("not BTF of version 1 in this machine's byte order")
	}
	size := int64(order.Uint32(b[4:]))
	field := func(i int) int64 { return int64(order.Uint32(b[i:])) }
	s.types = section{size + field(8), field(12)}
	s.strings = section{size + field(16), field(20)}
	const most = 256 << 20
	if size < 24 || s.types.size > most || s.strings.size > most {
		return errors.New("invalid BTF header")
	}
	return nil
}

// findNames returns the string offsets of the wanted names. BTF contains each string once.
func (s *source) findNames(names []string) (map[uint32]string, error) {
	want := map[string]bool{}
	var lengths [256]bool
	for _, n := range names {
		want[n] = true
		lengths[min(len(n), 255)] = true
	}
	found := map[uint32]string{}
	var text []byte // the string that spans pieces of the window
	start := uint32(0)
	err := s.each(s.strings, func(b []byte, off int64) {
		for len(b) > 0 {
			n := indexNUL(b)
			if n < 0 {
				text = append(text, b...)
				return
			}
			word := b[:n]
			if len(text) > 0 {
				text = append(text, word...)
				word = text
			}
			if lengths[min(len(word), 255)] && want[string(word)] {
				found[start] = string(word)
			}
			text = text[:0]
			b, off = b[n+1:], off+int64(n)+1
			start = uint32(off)
		}
	})
	return found, err
}

// scan walks all types and records their offsets. It returns the IDs of types of certain kinds with a wanted name,
// and the names that were found.
func (s *source) scan(wanted map[uint32]string, of func(kind int) bool) ([]uint32, map[string]bool, error) {
	s.offs = make([]uint32, 1, 1+s.types.size/24)
	var roots []uint32
	seen := map[string]bool{}
	var head [12]byte // the start of the type that is being read
	have, skip := 0, 0
	var invalid error
	err := s.each(s.types, func(b []byte, off int64) {
		for len(b) > 0 && invalid == nil {
			if n := min(skip, len(b)); n > 0 {
				b, off, skip = b[n:], off+int64(n), skip-n
				continue
			}
			n := copy(head[have:], b)
			if have == 0 {
				s.offs = append(s.offs, uint32(off))
			}
			b, off, have = b[n:], off+int64(n), have+n
			if have < len(head) {
				return
			}
			have = 0
			kind, vlen := kindOf(head[:])
			if kind == 0 || kind >= len(tails) {
				invalid = fmt.Errorf("unknown BTF kind %d", kind)
				return
			}
			skip = tails[kind].fixed + vlen*tails[kind].each
			name := order.Uint32(head[:])
			if text, ok := wanted[name]; ok && of(kind) {
				roots = append(roots, uint32(len(s.offs)-1))
				seen[text] = true
			}
		}
	})
	if err == nil {
		err = invalid
	}
	return roots, seen, err
}

func isNamed(kind int) bool {
	return kind == kindStruct || kind == kindUnion || kind == kindEnum || kind == kindEnum64 || kind == kindTypedef
}

// kindOf reads info: kind in bits 24-30 and vlen below. Older kernels use fewer
// bits of both and leave the others 0.
func kindOf(head []byte) (kind, vlen int) {
	info := order.Uint32(head[4:])
	return int(info >> 24 & 0x7f), int(info & 0xffffff)
}

// record reads a whole type. Its bytes are valid until the next read.
func (s *source) record(id uint32) (b []byte, kind, vlen int, err error) {
	if id == 0 || int(id) >= len(s.offs) {
		return nil, 0, 0, fmt.Errorf("BTF refers to type %d of %d", id, len(s.offs)-1)
	}
	off := s.types.off + int64(s.offs[id])
	if b, err = s.at(off, 12); err != nil {
		return nil, 0, 0, err
	}
	kind, vlen = kindOf(b)
	size := 12 + tails[kind].fixed + vlen*tails[kind].each
	b, err = s.at(off, size)
	return b, kind, vlen, err
}

// text reads the string at an offset of the string section.
func (s *source) text(off uint32) (string, error) {
	var b strings.Builder
	for at := s.strings.off + int64(off); ; {
		p, err := s.at(at, 1)
		if err != nil {
			return "", err
		}
		p = p[:cap(p)]
		if n := indexNUL(p); n >= 0 {
			b.Write(p[:n])
			return b.String(), nil
		}
		b.Write(p)
		at += int64(len(p))
	}
}
