// SPDX-License-Identifier: Apache-2.0

package format

import (
	"encoding/binary"
	"testing"

	"btc/internal/manifest"
)

var sample = &manifest.Manifest{Events: []manifest.Event{
	{ID: 0, Kind: "exit", Size: 16, Fields: []manifest.Field{{Off: 8, Layout: manifest.Layout{Kind: "int", Size: 8}}}},
	{ID: 1, Kind: "printf", Size: 24, Tail: true, Fields: []manifest.Field{
		{Off: 8, Var: true, Layout: manifest.Layout{Kind: "string", Size: 64}},
		{Off: 16, Layout: manifest.Layout{Kind: "int", Size: 8}}}},
}}

func record(id, length uint32, rest ...byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, id)
	return append(binary.NativeEndian.AppendUint32(b, length), rest...)
}

func TestDecodeEvent(t *testing.T) {
	b := record(1, 27, append([]byte{24, 0, 3, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0}, "abc"...)...)
	e, err := DecodeEvent(sample, b)
	if err != nil {
		t.Fatal(err)
	}
	if got := string((&Env{}).Append(nil, e.Values[0])); got != "abc" || e.Uint(1) != 7 || e.Uint(2) != 0 {
		t.Errorf("values %q, %d", got, e.Uint(1))
	}
}

func TestBadRecords(t *testing.T) {
	tail := make([]byte, 32)
	long := append([]byte{24, 0, 9, 0}, tail...)
	far := append([]byte{255, 255, 1, 0}, tail...)
	for name, b := range map[string][]byte{
		"empty":            nil,
		"half a header":    {1, 0, 0},
		"unknown event":    record(2, 16, tail...),
		"huge id":          record(1<<31, 16, tail...),
		"too long":         record(0, 4096, tail...),
		"too short":        record(0, 8, tail...),
		"text too long":    record(1, 27, long...),
		"text far outside": record(1, 27, far...),
	} {
		if _, err := DecodeEvent(sample, b); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzDecodeEvent checks that no input makes the decoder, or the code that prints its values, read past the
// end of the record.
func FuzzDecodeEvent(f *testing.F) {
	f.Add(record(1, 27, append([]byte{24, 0, 3, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0}, "abc"...)...))
	f.Add(record(0, 16, make([]byte, 8)...))
	p := ParseFormat("%s %d")
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeEvent(sample, b)
		if err != nil {
			return
		}
		(&Env{Trailer: ".."}).Printf(nil, p, e.Values)
	})
}
