// SPDX-License-Identifier: Apache-2.0

package kerneltypes

import (
	"bytes"
	"fmt"
	"io"
)

// window reads pieces of a file. sysfs returns at most a page per read; the last pages read
// are cached.
type window struct {
	r     io.ReaderAt
	pages [4]page
	next  int
	large []byte // for data that spans pages
}

type page struct {
	off  int64 // multiple of pageSize; valid when data is not empty
	data []byte
}

const pageSize = 4096

func indexNUL(b []byte) int { return bytes.IndexByte(b, 0) }

// at returns n bytes at an offset. The bytes after them in the same page are within the slice's capacity. The slice
// is valid until the next call.
func (w *window) at(off int64, n int) ([]byte, error) {
	p, err := w.page(off &^ (pageSize - 1))
	if err != nil {
		return nil, err
	}
	if in := int(off & (pageSize - 1)); in+n <= len(p) {
		return p[in : in+n : len(p)], nil
	}
	if n > 64<<20 {
		return nil, fmt.Errorf("BTF type too large: %d bytes", n)
	}
	w.large = append(w.large[:0], make([]byte, n)...)
	if m, err := readFull(w.r, w.large, off); m < n {
		return nil, fmt.Errorf("truncated BTF: %w", err)
	}
	return w.large, nil
}

func (w *window) page(off int64) ([]byte, error) {
	for i := range w.pages {
		if p := &w.pages[i]; p.off == off && len(p.data) > 0 {
			return p.data, nil
		}
	}
	p := &w.pages[w.next]
	w.next = (w.next + 1) % len(w.pages)
	if p.data == nil {
		p.data = make([]byte, 0, pageSize)
	}
	n, err := readFull(w.r, p.data[:pageSize], off)
	p.off, p.data = off, p.data[:n]
	if n == 0 {
		return nil, fmt.Errorf("truncated BTF: %w", err)
	}
	return p.data, nil
}

// readFull reads until b is full or the file ends.
func readFull(r io.ReaderAt, b []byte, off int64) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = r.ReadAt(b[n:], off+int64(n))
		n += m
	}
	return n, err
}

// each calls fn for pieces of a section in order, with their offset from the section's start.
func (w *window) each(s section, fn func(b []byte, off int64)) error {
	buf := make([]byte, 8*pageSize)
	for off := int64(0); off < s.size; {
		n := int(min(int64(len(buf)), s.size-off))
		if m, err := readFull(w.r, buf[:n], s.off+off); m < n {
			return fmt.Errorf("truncated BTF: %w", err)
		}
		fn(buf[:n], off)
		off += int64(n)
	}
	return nil
}
