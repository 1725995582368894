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

// maxDirectory bounds what is read of an archive's directory, in bytes.
const maxDirectory = 8 << 20

// stored finds the bytes of a member of a zip archive that is not compressed. archive/zip
// costs btrun 74 KB: the archive is hostile input, and the standard library's reader is
// better tested than one written here.
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
			return 0, 0, fmt.Errorf("%s is compressed: nothing can be run from there", member)
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
		return 0, fmt.Errorf("the directory of the archive has more than %d bytes", maxDirectory)
	}
	return l.ReaderAt.ReadAt(p, off)
}
