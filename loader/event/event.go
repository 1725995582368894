// Package event takes records of the events ring buffer apart.
//
// It takes a record's bytes, as any program could have written them, and gives
// the event's description and the values of its fields, or an error. It never
// reads outside of the record.
package event

import (
	"encoding/binary"
	"fmt"

	"btc/loader/format"
	"btc/loader/manifest"
)

// header is {u32 id, u32 length of the record}.
const header = 8

// Event is a decoded record. Values share memory with the record.
type Event struct {
	*manifest.Event
	Values []format.Value
}

// Decode reads a record.
func Decode(m *manifest.Manifest, record []byte) (Event, error) {
	if len(record) < header {
		return Event{}, fmt.Errorf("event of %d bytes has no header", len(record))
	}
	id := binary.NativeEndian.Uint32(record)
	length := binary.NativeEndian.Uint32(record[4:])
	if uint64(id) >= uint64(len(m.Events)) {
		return Event{}, fmt.Errorf("unknown event %d", id)
	}
	e := &m.Events[id]
	if uint64(length) > uint64(len(record)) || int(length) < e.Size {
		return Event{}, fmt.Errorf("event %d: length %d is not in %d..%d", id, length, e.Size, len(record))
	}
	record = record[:length]
	out := Event{Event: e, Values: make([]format.Value, len(e.Fields))}
	for i := range e.Fields {
		f := &e.Fields[i]
		if !f.Var {
			out.Values[i] = format.Value{Layout: &f.Layout, Bytes: record[f.Off : f.Off+f.Layout.Size]}
			continue
		}
		off := int(binary.NativeEndian.Uint16(record[f.Off:]))
		n := int(binary.NativeEndian.Uint16(record[f.Off+2:]))
		if off+n > len(record) {
			return Event{}, fmt.Errorf("event %d: text of %d bytes at offset %d is outside of the record of %d", id, n, off, len(record))
		}
		out.Values[i] = format.Value{Layout: &f.Layout, Bytes: record[off : off+n], Var: true}
	}
	return out, nil
}

// Uint is the value of an integer field; 0 when there is no such field.
func (e *Event) Uint(field int) uint64 {
	if field >= len(e.Values) {
		return 0
	}
	v := e.Values[field]
	return format.Uint(v.Layout, v.Bytes)
}
