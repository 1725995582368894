// SPDX-License-Identifier: Apache-2.0

package binary

import (
	"archive/zip"
	"debug/elf"
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

// stored finds the bytes of a member of a zip archive that is not compressed. archive/zip adds 74 KB to btrun; it is
// used because the archive is hostile input, and it is better tested than a reader of our own.
func stored(r io.ReaderAt, size int64, member string) (off, length int64, err error) {
	z, err := zip.NewReader(&limited{r, maxDirectory}, size)
	if err != nil {
		return 0, 0, err
	}
	for _, f := range z.File {
		if f.Name != member {
			continue
		}
		if f.Method != zip.Store {
			return 0, 0, fmt.Errorf("%s is compressed: code in it cannot be mapped and probed", member)
		}
		off, err := f.DataOffset()
		if err != nil || off > size || f.CompressedSize64 > uint64(size-off) {
			return 0, 0, fmt.Errorf("the archive is damaged at %s", member)
		}
		return off, int64(f.CompressedSize64), nil
	}
	return 0, 0, fmt.Errorf("the archive has no member %s", member)
}

// limited fails once more than left bytes have been read.
type limited struct {
	io.ReaderAt
	left int64
}

func (l *limited) ReadAt(p []byte, off int64) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, fmt.Errorf("archive directory too large (max %d bytes)", maxDirectory)
	}
	return l.ReaderAt.ReadAt(p, off)
}
