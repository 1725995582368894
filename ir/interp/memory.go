// SPDX-License-Identifier: Apache-2.0

package interp

import "encoding/binary"

// object is a piece of memory with a name for messages.
type object struct {
	name     string
	data     []byte
	readOnly bool
	dead     bool // a record that was submitted
	kept     bool // by release: an element of a map or a record
}

// memory is the address space: the machine's objects from firstAddr on, one every stride
// bytes, and the kernel's and user's memory of the input.
type memory struct {
	objects      []*object
	kernel, user map[uint64][]byte
}

const (
	firstAddr = 0xffffc90000000000
	stride    = 1 << 20
)

// alloc makes an object and returns its address.
func (m *memory) alloc(name string, data []byte) uint64 {
	m.objects = append(m.objects, &object{name: name, data: data})
	return firstAddr + uint64(len(m.objects)-1)*stride
}

// allocKept is alloc for an object that release does not free.
func (m *memory) allocKept(name string, data []byte) uint64 {
	addr := m.alloc(name, data)
	m.objects[len(m.objects)-1].kept = true
	return addr
}

// mark returns a point to release to.
func (m *memory) mark() int { return len(m.objects) }

// release forgets the frame objects made since the mark. Elements of maps and records made since then stay.
func (m *memory) release(mark int) {
	for i := mark; i < len(m.objects); i++ {
		if o := m.objects[i]; o != nil && !o.kept {
			m.objects[i] = nil
		}
	}
	for len(m.objects) > mark && m.objects[len(m.objects)-1] == nil {
		m.objects = m.objects[:len(m.objects)-1]
	}
}

// object returns the object that holds the address, or nil if there is none.
func (m *memory) object(addr uint64) *object {
	i := (addr - firstAddr) / stride
	if addr < firstAddr || i >= uint64(len(m.objects)) {
		return nil
	}
	return m.objects[i]
}

// own returns n bytes of one of the machine's objects.
func (m *memory) own(addr uint64, n int) ([]byte, *object) {
	o := m.object(addr)
	if o == nil {
		return nil, nil
	}
	off := (addr - firstAddr) % stride
	if n < 0 || off+uint64(n) > uint64(len(o.data)) {
		return nil, o
	}
	return o.data[off : off+uint64(n)], o
}

// find returns n bytes of the input's memory, or fewer if it ends early.
func find(chunks map[uint64][]byte, addr uint64, n int, short bool) []byte {
	for start, data := range chunks {
		if addr < start || addr-start >= uint64(len(data)) {
			continue
		}
		rest := data[addr-start:]
		switch {
		case len(rest) >= n:
			return rest[:n]
		case short:
			return rest
		}
	}
	return nil
}

// kernelBytes reads like probe_read_kernel: any kernel memory, including the machine's own.
func (m *memory) kernelBytes(addr uint64, n int) []byte {
	if n == 0 {
		return []byte{}
	}
	if b, o := m.own(addr, n); o != nil {
		return b
	}
	return find(m.kernel, addr, n, false)
}

func (m *memory) userBytes(addr uint64, n int) []byte {
	if n == 0 {
		return []byte{}
	}
	return find(m.user, addr, n, false)
}

// str reads a string of at most limit bytes with its NUL; ok is false if memory ends first.
func (m *memory) str(addr uint64, limit int, user bool) (s []byte, ok bool) {
	var data []byte
	switch o := m.object(addr); {
	case user:
		data = find(m.user, addr, limit, true)
	case o != nil:
		off := (addr - firstAddr) % stride
		if off < uint64(len(o.data)) {
			data = o.data[off:min(len(o.data), int(off)+limit)]
		}
	default:
		data = find(m.kernel, addr, limit, true)
	}
	for i, c := range data {
		if c == 0 {
			return data[:i], true
		}
	}
	if len(data) < limit || limit == 0 {
		return nil, false
	}
	return data[:limit-1], true
}

func getUint(b []byte) uint64 {
	var buf [8]byte
	copy(buf[:], b)
	return binary.LittleEndian.Uint64(buf[:])
}

// putUint writes the low bytes of n.
func putUint(b []byte, n uint64) {
	var buf [8]byte
	binary.LittleEndian.PutUint64(buf[:], n)
	for i := range b {
		b[i] = 0
	}
	copy(b, buf[:])
}

func clearBytes(b []byte) {
	for i := range b {
		b[i] = 0
	}
}

// cstring returns b up to its NUL.
func cstring(b []byte) []byte {
	for i, c := range b {
		if c == 0 {
			return b[:i]
		}
	}
	return b
}
