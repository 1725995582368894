package binary

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// File is an ELF file, by itself or stored in an archive.
type File struct {
	*elf.File
	Offset uint64 // where the ELF file begins in the archive, in bytes
}

// Member splits "ARCHIVE!/MEMBER", the name of a file in a zip archive.
func Member(path string) (archive, member string, ok bool) { return strings.Cut(path, "!/") }

// New reads an ELF file of size bytes, or with inside the member of a zip archive, from
// which the system runs code only when it is stored without compression. It need not be closed.
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

// Sizes of the records of a zip archive.
const (
	endRecord     = 22
	centralRecord = 46
	localRecord   = 30
	maxDirectory  = 16 << 20 // bytes that are read of an archive's directory
)

// stored finds a member of a zip archive that is not compressed: where its bytes
// lie. The archive is read as hostile input.
func stored(r io.ReaderAt, size int64, member string) (off, length int64, err error) {
	tail := make([]byte, min(size, endRecord+1<<16))
	if _, err := r.ReadAt(tail, size-int64(len(tail))); err != nil {
		return 0, 0, err
	}
	end := bytes.LastIndex(tail, []byte("PK\x05\x06"))
	if end < 0 || len(tail)-end < endRecord {
		return 0, 0, fmt.Errorf("it is no zip archive")
	}
	le := binary.LittleEndian
	dirSize, dirAt := int64(le.Uint32(tail[end+12:])), int64(le.Uint32(tail[end+16:]))
	if dirSize > maxDirectory || dirAt+dirSize > size {
		return 0, 0, fmt.Errorf("the directory of the archive is damaged")
	}
	dir := make([]byte, dirSize)
	if _, err := r.ReadAt(dir, dirAt); err != nil {
		return 0, 0, err
	}
	for len(dir) >= centralRecord && string(dir[:4]) == "PK\x01\x02" {
		name, extra, comment := int(le.Uint16(dir[28:])), int(le.Uint16(dir[30:])), int(le.Uint16(dir[32:]))
		next := centralRecord + name + extra + comment
		if next > len(dir) {
			break
		}
		if string(dir[centralRecord:centralRecord+name]) != member {
			dir = dir[next:]
			continue
		}
		if method := le.Uint16(dir[10:]); method != 0 {
			return 0, 0, fmt.Errorf("%s is compressed: nothing can be run from there", member)
		}
		length, local := int64(le.Uint32(dir[20:])), int64(le.Uint32(dir[42:]))
		head := make([]byte, localRecord)
		if _, err := r.ReadAt(head, local); err != nil || string(head[:4]) != "PK\x03\x04" {
			return 0, 0, fmt.Errorf("the archive is damaged at %s", member)
		}
		off := local + localRecord + int64(le.Uint16(head[26:])) + int64(le.Uint16(head[28:]))
		if off+length > size {
			return 0, 0, fmt.Errorf("the archive is damaged at %s", member)
		}
		return off, length, nil
	}
	return 0, 0, fmt.Errorf("the archive has no member %s", member)
}
