// SPDX-License-Identifier: Apache-2.0

// The directory of a zip archive is read here and not by archive/zip, which adds 82 KB to btrun: with it btrun would
// be larger than its limit of 6.5 MB. A test compares the two on the same archives.

package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// File is an ELF file, by itself or stored in an archive.
type File struct {
	*elf.File
	Offset uint64 // offset of the ELF file in the archive, in bytes
}

// Member splits "ARCHIVE!/MEMBER", the name of a file in a zip archive.
func Member(path string) (archive, member string, ok bool) { return strings.Cut(path, "!/") }

// New reads an ELF file of size bytes or, if member is not empty, that member of a zip archive. Only members stored
// without compression are supported, because the system cannot run code from others. The File need not be closed.
func New(in io.ReaderAt, size int64, member string, inside bool) (*File, error) {
	f := &File{}
	if inside {
		off, size, err := stored(in, size, member)
		if err != nil {
			return nil, err
		}
		f.Offset = uint64(off)
		in = io.NewSectionReader(in, off, size)
	}
	var err error
	f.File, err = elf.NewFile(in)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// maxDirectory bounds the size of an archive's directory, in bytes.
const maxDirectory = 8 << 20

// errNotArchive has the words of archive/zip.
var errNotArchive = errors.New("zip: not a valid zip file")

// Sizes and signatures of the records of a zip archive (APPNOTE.TXT 6.3, sections 4.3 and 4.5), all little-endian.
const (
	memberSize, memberSignature              = 30, "PK\x03\x04" // before the bytes of a member
	entrySize, entrySignature                = 46, "PK\x01\x02" // of the directory
	end64Size, end64Signature                = 56, "PK\x06\x06" // end of the directory of a large archive
	locator64Size, locator64Signature        = 20, "PK\x06\x07" // where that is
	endSize, endSignature                    = 22, "PK\x05\x06"
	maxComment                               = 1<<16 - 1 // after the end
	unknown32                         uint64 = 1<<32 - 1 // of a field that is elsewhere in a large archive
)

// stored finds the bytes of a member of a zip archive that is not compressed. The archive is hostile input.
func stored(r io.ReaderAt, size int64, member string) (off, length int64, err error) {
	dir, base, err := directory(r, size)
	if err != nil {
		return 0, 0, err
	}
	for len(dir) >= entrySize && string(dir[:4]) == entrySignature {
		names, extras := int(half(dir[28:])), int(half(dir[30:]))
		next := entrySize + names + extras + int(half(dir[32:]))
		if next > len(dir) {
			return 0, 0, errNotArchive
		}
		entry := dir[:next]
		dir = dir[next:]
		if string(entry[entrySize:][:names]) != member {
			continue
		}
		if half(entry[10:]) != 0 {
			return 0, 0, fmt.Errorf("%s is compressed: code in it cannot be mapped and probed", member)
		}
		n, at := fields64(entry, entry[entrySize+names:][:extras])
		head := make([]byte, memberSize)
		if at > uint64(size) || readFull(r, head, base+int64(at)) != nil || string(head[:4]) != memberSignature {
			return 0, 0, fmt.Errorf("the archive is damaged at %s", member)
		}
		off := base + int64(at) + memberSize + int64(half(head[26:])) + int64(half(head[28:]))
		if off > size || n > uint64(size-off) {
			return 0, 0, fmt.Errorf("the archive is damaged at %s", member)
		}
		return off, int64(n), nil
	}
	return 0, 0, fmt.Errorf("the archive has no member %s", member)
}

// fields64 returns the compressed size of an entry and the offset of its member. In a large archive they are in an
// extra field.
func fields64(entry, extra []byte) (size, at uint64) {
	size, at = word(entry[20:]), word(entry[42:])
	for len(extra) >= 4 {
		n := min(int(half(extra[2:])), len(extra)-4)
		field := extra[4:][:n]
		if half(extra) == 1 {
			for _, f := range []struct {
				is32 uint64
				to   *uint64
			}{{word(entry[24:]), new(uint64)}, {size, &size}, {at, &at}} {
				if f.is32 == unknown32 && len(field) >= 8 {
					*f.to, field = binary.LittleEndian.Uint64(field), field[8:]
				}
			}
		}
		extra = extra[4+n:]
	}
	return size, at
}

// directory returns the entries of an archive, and the offset in the file that those in the archive are relative to.
func directory(r io.ReaderAt, size int64) (entries []byte, base int64, err error) {
	tail := make([]byte, min(size, endSize+maxComment))
	if err := readFull(r, tail, size-int64(len(tail))); err != nil {
		return nil, 0, err
	}
	i := len(tail) - endSize
	for i >= 0 && (string(tail[i:][:4]) != endSignature || i+endSize+int(half(tail[i+20:])) > len(tail)) {
		i--
	}
	if i < 0 {
		return nil, 0, errNotArchive
	}
	end := size - int64(len(tail)) + int64(i) // of the entries
	count, length, at := uint64(half(tail[i+10:])), word(tail[i+12:]), word(tail[i+16:])
	if count == maxComment || length == unknown32 || at == unknown32 {
		locator, end64 := make([]byte, locator64Size), make([]byte, end64Size)
		if end >= locator64Size && readFull(r, locator, end-locator64Size) == nil &&
			string(locator[:4]) == locator64Signature {
			p := binary.LittleEndian.Uint64(locator[8:])
			if p > uint64(end) || readFull(r, end64, int64(p)) != nil || string(end64[:4]) != end64Signature {
				return nil, 0, errNotArchive
			}
			end, length, at = int64(p), binary.LittleEndian.Uint64(end64[40:]), binary.LittleEndian.Uint64(end64[48:])
		}
	}
	if length > uint64(end) || at > uint64(end)-length {
		return nil, 0, errNotArchive
	}
	if length > maxDirectory {
		return nil, 0, fmt.Errorf("archive directory too large (max %d bytes)", maxDirectory)
	}
	// What precedes an archive, as in a self-extracting one, may or may not be counted in its offsets.
	entries = make([]byte, length)
	if err := readFull(r, entries, int64(at)); err != nil {
		return nil, 0, err
	}
	base = end - int64(length) - int64(at)
	if base == 0 || bytes.HasPrefix(entries, []byte(entrySignature)) {
		return entries, 0, nil
	}
	return entries, base, readFull(r, entries, base+int64(at))
}

func half(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
func word(b []byte) uint64 { return uint64(binary.LittleEndian.Uint32(b)) }

// readFull fills b from an offset.
func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == io.EOF {
		err = errNotArchive
	}
	return err
}
