// SPDX-License-Identifier: Apache-2.0

package targetfile

import "encoding/binary"

// encoder appends the primitive forms.
type encoder struct{ b []byte }

func (e *encoder) uint(v int)      { e.b = binary.AppendUvarint(e.b, uint64(v)) }
func (e *encoder) int64(v int64)   { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) string(s string) { e.uint(len(s)); e.b = append(e.b, s...) }
func (e *encoder) bytes(p []byte)  { e.uint(len(p)); e.b = append(e.b, p...) }

// decoder decodes the primitive forms. After the first error every result is zero and err is set, so that callers can
// check once at the end of a record.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = damage("%s", what)
	}
	d.b = nil
}

// uint decodes a number of at most 31 bits.
func (d *decoder) uint() int {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > 1<<31-1 {
		d.fail("bad number")
		return 0
	}
	d.b = d.b[n:]
	return int(v)
}

func (d *decoder) int64() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail("bad number")
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count decodes the length of a list whose elements take at least min bytes each, so that a bogus count allocates
// nothing.
func (d *decoder) count(min int) int {
	n := d.uint()
	if n > len(d.b)/min {
		d.fail("list longer than its record")
		return 0
	}
	return n
}

func (d *decoder) bytes() []byte {
	n := d.uint()
	if n > len(d.b) {
		d.fail("string longer than its record")
		return nil
	}
	p := d.b[:n:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) string() string { return string(d.bytes()) }

// end reports the first error, or that bytes are left over.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.fail("record longer than its content")
	}
	return d.err
}
