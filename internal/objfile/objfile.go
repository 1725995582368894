// SPDX-License-Identifier: Apache-2.0

// Package objfile is the form of an object as one file: the ELF file of the programs with the manifest in its last
// section.
//
// Join appends the section, and Split takes it off again: it returns the same two byte slices, or an error if a single
// byte of the file is not as Join wrote it. Split reads hostile files; it allocates no more than their size. docs/manifest.md
// describes the layout.
package objfile

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
)

// Section is the name of the section of the manifest. Loaders skip what may be DWARF without a message: libbpf prints a
// line for each section that it does not know unless its name begins with .debug_ (is_sec_name_dwarf in libbpf.c). The
// name is in the string table of the object itself, so that appending the section moves nothing.
const Section = ".debug_btc_manifest"

// Sizes of an ELF64 file.
const (
	headerSize  = 64
	sectionSize = 64
	digestSize  = sha256.Size
)

var order = binary.LittleEndian

// ErrNone is the error of Split for a file without the section.
var ErrNone = errors.New("the section " + Section + " is missing")

// ErrChanged is the error of Split for a file with the section that is not as Join wrote it.
var ErrChanged = errors.New("damaged, or changed after it was compiled: use the object as btc compile wrote it")

// header returns the offset of the section headers and their number, if the file is a little-endian ELF64 file that ends
// with them.
func header(file []byte) (at uint64, n int, ok bool) {
	if len(file) < headerSize || string(file[:4]) != elf.ELFMAG || file[elf.EI_CLASS] != byte(elf.ELFCLASS64) ||
		file[elf.EI_DATA] != byte(elf.ELFDATA2LSB) || order.Uint16(file[58:]) != sectionSize {
		return 0, 0, false
	}
	at, n = order.Uint64(file[40:]), int(order.Uint16(file[60:]))
	size := uint64(len(file))
	return at, n, n > 0 && at >= headerSize && at <= size && size-at == uint64(n)*sectionSize
}

// names returns the string table of the names of sections.
func names(file []byte, at uint64, n int) []byte {
	table := int(order.Uint16(file[62:]))
	if table >= n {
		return nil
	}
	h := file[at+uint64(table)*sectionSize:]
	from, size := order.Uint64(h[24:]), order.Uint64(h[32:])
	if from > at || size > at-from {
		return nil
	}
	return file[from : from+size]
}

// name returns the offset of Section in a string table, or 0.
func name(table []byte) uint32 {
	return uint32(bytes.Index(table, []byte("\x00"+Section+"\x00")) + 1)
}

// sectionHeader returns the header of the section for a manifest.
func sectionHeader(name uint32, from, size uint64) []byte {
	var h [sectionSize]byte
	order.PutUint32(h[0:], name)
	order.PutUint32(h[4:], uint32(elf.SHT_PROGBITS))
	order.PutUint64(h[24:], from)
	order.PutUint64(h[32:], size)
	order.PutUint64(h[48:], 1) // alignment
	return h[:]
}

// seal returns the digest of a file without the digest itself, which is before the section headers at an offset.
func seal(file []byte, at uint64) []byte {
	h := sha256.New()
	h.Write(file[:at-digestSize])
	h.Write(file[at:])
	return h.Sum(nil)
}

// Join returns the file of an object and its manifest. The object ends with its section headers, and its string table of
// section names has the name Section.
func Join(object, manifest []byte) ([]byte, error) {
	at, n, ok := header(object)
	if !ok || at%8 != 0 || n+1 >= int(elf.SHN_LORESERVE) {
		return nil, errors.New("not a little-endian ELF64 file that ends with its section headers")
	}
	index := name(names(object, at, n))
	if index == 0 || len(manifest) == 0 {
		return nil, fmt.Errorf("no manifest, or no name %s in the string table", Section)
	}
	file := append(bytes.Clone(object[:at]), manifest...)
	for len(file)%8 != 0 {
		file = append(file, 0)
	}
	file = append(file, make([]byte, digestSize)...)
	end := uint64(len(file))
	file = append(file, object[at:]...)
	file = append(file, sectionHeader(index, at, uint64(len(manifest)))...)
	order.PutUint64(file[40:], end)
	order.PutUint16(file[60:], uint16(n+1))
	copy(file[end-digestSize:], seal(file, end))
	return file, nil
}

// Split returns the object and the manifest of a file that Join wrote. The manifest shares the file's memory.
func Split(file []byte) (object, manifest []byte, err error) {
	at, n, ok := header(file)
	if !ok {
		return nil, nil, ErrNone
	}
	strings := names(file, at, n)
	index := name(strings)
	if index == 0 {
		return nil, nil, ErrNone
	}
	last := file[len(file)-sectionSize:]
	if order.Uint32(last) != index {
		for h := file[at:]; len(h) > 0; h = h[sectionSize:] {
			if order.Uint32(h) == index { // objcopy and others that sort sections
				return nil, nil, ErrChanged
			}
		}
		return nil, nil, ErrNone
	}
	from, size := order.Uint64(last[24:]), order.Uint64(last[32:])
	if from < headerSize || from%8 != 0 || from > at || size == 0 || size > at-from {
		return nil, nil, ErrChanged
	}
	pad := -(from + size) & 7
	if at-from-size != pad+digestSize || !bytes.Equal(file[from+size:from+size+pad], make([]byte, pad)) ||
		!bytes.Equal(last, sectionHeader(index, from, size)) || !bytes.Equal(file[at-digestSize:at], seal(file, at)) {
		return nil, nil, ErrChanged
	}
	object = make([]byte, 0, from+uint64(n-1)*sectionSize)
	object = append(append(object, file[:from]...), file[at:at+uint64(n-1)*sectionSize]...)
	order.PutUint64(object[40:], from)
	order.PutUint16(object[60:], uint16(n-1))
	if name(names(object, from, n-1)) != index { // the name is not in the object, but in the manifest
		return nil, nil, ErrChanged
	}
	return object, file[from : from+size : from+size], nil
}

// Size returns the size of an ELF64 file whose section headers are last, from its first 64 bytes, or 0 if they are not
// the header of such a file.
func Size(head []byte) uint64 {
	if len(head) < headerSize || string(head[:4]) != elf.ELFMAG || head[elf.EI_CLASS] != byte(elf.ELFCLASS64) {
		return 0
	}
	o := binary.ByteOrder(order)
	if head[elf.EI_DATA] == byte(elf.ELFDATA2MSB) {
		o = binary.BigEndian
	}
	at, n := o.Uint64(head[40:]), uint64(o.Uint16(head[60:]))*uint64(o.Uint16(head[58:]))
	if at < headerSize || at > 1<<40 {
		return 0
	}
	return at + n
}

// Linked reports whether bpftool gen object wrote a file: libbpf's linker has the symbol table second
// (init_output_elf in linker.c), compilers have it after the programs.
func Linked(file []byte) bool {
	at, n, ok := header(file)
	if !ok {
		// libelf also writes the headers last, but may pad the file.
		if Size(file) == 0 || Size(file) > uint64(len(file)) {
			return false
		}
		at, n = order.Uint64(file[40:]), int(order.Uint16(file[60:]))
	}
	return n > 2 && at+3*sectionSize <= uint64(len(file)) &&
		order.Uint32(file[at+2*sectionSize+4:]) == uint32(elf.SHT_SYMTAB)
}
