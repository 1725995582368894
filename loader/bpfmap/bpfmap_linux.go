// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Commands of bpf(2).
const (
	cmdLookup          = 1
	cmdUpdate          = 2
	cmdDelete          = 3
	cmdNextKey         = 4
	cmdLookupAndDelete = 21
	cmdLookupBatch     = 24
	cmdDrainBatch      = 25 // BPF_MAP_LOOKUP_AND_DELETE_BATCH
)

const enotsupp = unix.Errno(524) // the kernel's internal ENOTSUPP, not part of the ABI

// Map is an open map. The caller owns FD.
type Map struct {
	FD         int
	KeySize    int
	ValueSize  int
	MaxEntries int
	PerCPU     bool
	CPUs       int // possible CPUs, for per-CPU maps
}

// stride returns the size of one CPU's value, which the kernel rounds up to 8 bytes.
func (m *Map) stride() int { return (m.ValueSize + 7) &^ 7 }

// rawSize returns the number of bytes that the kernel copies for one element.
func (m *Map) rawSize() int {
	if m.PerCPU {
		return m.stride() * m.CPUs
	}
	return m.ValueSize
}

// entry returns the element in key and raw, whose memory it shares. values has room for
// the slices.
func (m *Map) entry(key, raw []byte, values [][]byte) Entry {
	values = values[:0]
	if !m.PerCPU {
		return Entry{Key: key, Values: append(values, raw)}
	}
	for cpu := range m.CPUs {
		values = append(values, raw[cpu*m.stride():][:m.ValueSize])
	}
	return Entry{Key: key, Values: values}
}

type elemAttr struct {
	fd    uint32
	_     uint32
	key   unsafe.Pointer
	value unsafe.Pointer // or the next key
	flags uint64
}

type batchAttr struct {
	in     unsafe.Pointer
	out    unsafe.Pointer
	keys   unsafe.Pointer
	values unsafe.Pointer
	count  uint32
	fd     uint32
	eflags uint64
	flags  uint64
}

func bpf(cmd uintptr, attr unsafe.Pointer, size uintptr) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_BPF, cmd, uintptr(attr), size)
		if errno == 0 {
			return nil
		}
		if errno != unix.EINTR && errno != unix.EAGAIN {
			return errno
		}
	}
}

func ptr(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

func (m *Map) elem(cmd uintptr, key, value []byte, flags uint64) error {
	a := elemAttr{fd: uint32(m.FD), key: ptr(key), value: ptr(value), flags: flags}
	return bpf(cmd, unsafe.Pointer(&a), unsafe.Sizeof(a))
}

// Lookup reads one element; ok is false when it is absent.
func (m *Map) Lookup(key []byte) (e Entry, ok bool, err error) {
	raw := make([]byte, m.rawSize())
	switch err := m.elem(cmdLookup, key, raw, 0); err {
	case nil:
		return m.entry(slices.Clone(key), raw, nil), true, nil
	case unix.ENOENT:
		return Entry{}, false, nil
	default:
		return Entry{}, false, fmt.Errorf("map lookup: %w", err)
	}
}

// Zero writes zeros to an existing element, on every CPU.
func (m *Map) Zero(key []byte) error {
	const exist = 2 // BPF_EXIST
	if err := m.elem(cmdUpdate, key, make([]byte, m.rawSize()), exist); err != nil && err != unix.ENOENT {
		return fmt.Errorf("map update: %w", err)
	}
	return nil
}

// InsertZero inserts an element of zeros, on every CPU, unless the element exists or the map is full.
func (m *Map) InsertZero(key []byte) (made bool, err error) {
	const noExist = 1 // BPF_NOEXIST
	switch err := m.elem(cmdUpdate, key, make([]byte, m.rawSize()), noExist); err {
	case nil:
		return true, nil
	case unix.EEXIST, unix.E2BIG:
		return false, nil
	default:
		return false, fmt.Errorf("map update: %w", err)
	}
}

// Set writes an element of a map that is not per CPU.
func (m *Map) Set(key, value []byte) error {
	if m.PerCPU || len(value) != m.ValueSize {
		panic("BUG: value of the wrong size for the map")
	}
	if err := m.elem(cmdUpdate, key, value, 0); err != nil {
		return fmt.Errorf("map update: %w", err)
	}
	return nil
}

// Delete removes an element; a missing one is not an error.
func (m *Map) Delete(key []byte) error {
	if err := m.elem(cmdDelete, key, nil, 0); err != nil && err != unix.ENOENT {
		return fmt.Errorf("map delete: %w", err)
	}
	return nil
}

// All reads every element. Elements that are inserted or deleted in the meantime may or may not be included; none is
// included twice.
func (m *Map) All() ([]Entry, error) { return m.collect(false) }

// Drain reads every element and deletes it. With batches (5.6) nothing that a
// program adds between reading and deleting an element is lost.
func (m *Map) Drain() ([]Entry, error) { return m.collect(true) }

func (m *Map) collect(drain bool) (all []Entry, err error) {
	err = m.Each(drain, func(e Entry) {
		kept := Entry{Key: slices.Clone(e.Key), Values: make([][]byte, len(e.Values))}
		for i, v := range e.Values {
			kept.Values[i] = slices.Clone(v)
		}
		all = append(all, kept)
	})
	return all, err
}

// Each calls visit for every element, and with drain deletes it, like All and Drain. The memory of an entry is reused
// when visit returns, so a large map takes no more memory than a batch.
func (m *Map) Each(drain bool, visit func(Entry)) error {
	n, err := m.batches(drain, visit)
	switch err {
	case unix.EINVAL, unix.EOPNOTSUPP, enotsupp, unix.EPERM:
		if n == 0 {
			return m.oneByOne(drain, visit)
		}
	case nil:
		return nil
	}
	return fmt.Errorf("reading a map: %w", err)
}

// batchBytes is the buffer that batches start with.
const batchBytes = 128 << 10

// batches reads in batches and returns the number of elements seen. A hash returns ENOSPC
// when one bucket holds more than the buffer: then it grows, at most to the map's size.
// Buckets are read whole, so no element comes twice.
func (m *Map) batches(drain bool, visit func(Entry)) (n int, err error) {
	cmd := uintptr(cmdLookupBatch)
	if drain {
		cmd = cmdDrainBatch
	}
	size := m.rawSize()
	room := min(max(batchBytes/(m.KeySize+size), 16), max(m.MaxEntries, 1))
	keys, values := make([]byte, room*m.KeySize), make([]byte, room*size)
	cursor := [2][]byte{make([]byte, max(m.KeySize, 8)), make([]byte, max(m.KeySize, 8))}
	var in unsafe.Pointer
	var parts [][]byte
	for {
		a := batchAttr{
			in:     in,
			out:    ptr(cursor[0]),
			keys:   ptr(keys),
			values: ptr(values),
			count:  uint32(room),
			fd:     uint32(m.FD),
		}
		err := bpf(cmd, unsafe.Pointer(&a), unsafe.Sizeof(a))
		if err == unix.ENOSPC && room < m.MaxEntries {
			room = min(2*room, m.MaxEntries)
			keys, values = make([]byte, room*m.KeySize), make([]byte, room*size)
			continue
		}
		if err != nil && err != unix.ENOENT {
			return n, err
		}
		for i := range min(int(a.count), room) {
			e := m.entry(keys[i*m.KeySize:(i+1)*m.KeySize], values[i*size:(i+1)*size], parts)
			parts = e.Values
			n++
			visit(e)
		}
		if err == unix.ENOENT {
			return n, nil
		}
		cursor[0], cursor[1] = cursor[1], cursor[0]
		in = ptr(cursor[1])
	}
}

// oneByOne iterates over the keys. Only keys that were already passed are deleted, so the iteration always continues
// from an existing key.
func (m *Map) oneByOne(drain bool, visit func(Entry)) error {
	keys, err := m.Keys()
	if err != nil {
		return err
	}
	for _, key := range keys {
		e, ok, err := m.Lookup(key)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		visit(e)
		if drain {
			if err := m.Delete(key); err != nil {
				return err
			}
		}
	}
	return nil
}

// Keys lists the current keys.
func (m *Map) Keys() ([][]byte, error) {
	var keys [][]byte
	var last []byte
	seen := map[string]bool{}
	// If a program deletes the current key, the walk restarts; the limit ends a walk of a busy map that would never
	// finish.
	for range 4*m.MaxEntries + 1024 {
		next := make([]byte, m.KeySize)
		err := m.elem(cmdNextKey, last, next, 0)
		if errors.Is(err, unix.ENOENT) {
			return keys, nil
		}
		if err != nil {
			return nil, fmt.Errorf("map walk: %w", err)
		}
		if !seen[string(next)] {
			seen[string(next)] = true
			keys = append(keys, next)
		}
		last = next
	}
	return keys, nil
}
