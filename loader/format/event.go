// SPDX-License-Identifier: Apache-2.0

package format

import (
	"encoding/binary"
	"fmt"

	"btc/internal/manifest"
)

// header is {u32 id, u32 length of the record}.
const header = 8

// Event is a decoded record. Values share memory with the record.
type Event struct {
	*manifest.Event
	Values []Value
}

// DecodeEvent decodes a record of the events ring buffer, whose bytes are not trusted, or returns an error. It never
// reads outside the record.
func DecodeEvent(m *manifest.Manifest, record []byte) (Event, error) {
	var e Event
	err := e.Read(m, record)
	return e, err
}

// Read decodes a record into e and reuses e's memory. After an error e is invalid.
func (e *Event) Read(m *manifest.Manifest, record []byte) error {
	values := e.Values[:0]
	e.Event, e.Values = nil, nil
	if len(record) < header {
		return fmt.Errorf("event of %d bytes has no header", len(record))
	}
	id := binary.NativeEndian.Uint32(record)
	length := binary.NativeEndian.Uint32(record[4:])
	if uint64(id) >= uint64(len(m.Events)) {
		return fmt.Errorf("unknown event %d", id)
	}
	x := &m.Events[id]
	if uint64(length) > uint64(len(record)) || int(length) < x.Size {
		return fmt.Errorf("event %d: length %d is not in %d..%d", id, length, x.Size, len(record))
	}
	record = record[:length]
	for i := range x.Fields {
		f := &x.Fields[i]
		if !f.Var {
			values = append(values, Value{Layout: &f.Layout, Bytes: record[f.Off : f.Off+f.Layout.Size]})
			continue
		}
		off := int(binary.NativeEndian.Uint16(record[f.Off:]))
		n := int(binary.NativeEndian.Uint16(record[f.Off+2:]))
		if off+n > len(record) {
			return fmt.Errorf("event %d: %d bytes at offset %d are outside the record of %d bytes", id, n, off,
				len(record))
		}
		values = append(values, Value{Layout: &f.Layout, Bytes: record[off : off+n], Var: true})
	}
	e.Event, e.Values = x, values
	return nil
}

// Uint returns the value of an integer field; 0 if there is no such field.
func (e *Event) Uint(field int) uint64 {
	if field >= len(e.Values) {
		return 0
	}
	v := e.Values[field]
	return Uint(v.Layout, v.Bytes)
}
