// SPDX-License-Identifier: Apache-2.0

// Package render prints the raw content of a script's map: it merges the CPUs' parts,
// sorts, and formats.
//
// It takes a map's description from the manifest and its entries, and returns text;
// docs/layouts.md describes the bytes of each shape.
package render

import (
	"encoding/binary"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/loader/bpfmap"
	"btc/loader/format"
)

// Element is an entry with the parts of all CPUs combined.
type Element struct {
	ID  int // free for the creator
	Key []byte
	Set bool // false: the script never assigned it (scalars)
	aggregate.State
	Buckets []uint64 // hist, lhist: up to the last that is not 0
	Bytes   []byte   // plain: the object
	// Last is the newest interval that a tseries shows, and Rows the number of intervals up to it, including those
	// without values.
	Last, Rows uint64
	short      bool // long runs of rows without values are one row
}

func word(b []byte, off int) uint64 {
	if off < 0 || off+8 > len(b) {
		return 0
	}
	return binary.NativeEndian.Uint64(b[off:])
}

// Reduce merges the parts of an entry by the map's shape. The element shares memory with the entry only for the key.
func Reduce(m *manifest.Map, e bpfmap.Entry) Element {
	el := Element{Key: e.Key, Set: !m.Scalar()}
	if m.Present >= 0 && m.Scalar() {
		for _, v := range e.Values {
			el.Set = el.Set || word(v, m.Present) != 0
		}
	}
	switch m.Shape {
	case "plain":
		el.reducePlain(m, e.Values)
	case "count", "sum":
		for _, v := range e.Values {
			el.Value += word(v, m.ValueOff)
		}
		el.Set = el.Set || m.Present < 0 && el.Value != 0
	case "avg", "stats":
		for _, v := range e.Values {
			el.Count += word(v, m.ValueOff)
			el.Value += word(v, m.ValueOff+8)
		}
	case "min", "max":
		rule, first := m.Rule(), true
		for _, v := range e.Values {
			if word(v, m.ValueOff-8) == 0 {
				continue
			}
			n := word(v, m.ValueOff)
			if !first {
				n = rule.Extreme(m.Shape, el.Value, n)
			}
			el.Value, first = n, false
		}
	case "hist", "lhist":
		el.reduceBuckets(m, e.Values)
	}
	return el
}

// reducePlain reads the object. A plain map that the script declared per CPU has several:
// integers are added; for other types the first value that is set is used.
func (el *Element) reducePlain(m *manifest.Map, values [][]byte) {
	size := m.Value.Size
	el.Bytes = make([]byte, size)
	for i, v := range values {
		part := v[m.ValueOff : m.ValueOff+size]
		switch {
		case i == 0 || allZero(el.Bytes):
			copy(el.Bytes, part)
		case m.Value.Kind == "int" && size == 8:
			binary.NativeEndian.PutUint64(el.Bytes, word(el.Bytes, 0)+word(part, 0))
		}
	}
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

func (el *Element) reduceBuckets(m *manifest.Map, values [][]byte) {
	n := m.Buckets().Len()
	// Most histograms use few buckets, so buckets after the last non-empty one are dropped.
	for used := false; n > 0 && !used; {
		for _, v := range values {
			used = used || word(v, m.ValueOff+8*(n-1)) != 0
		}
		if !used {
			n--
		}
	}
	el.Buckets = make([]uint64, n)
	for _, v := range values {
		for i := range el.Buckets {
			el.Buckets[i] += word(v, m.ValueOff+8*i)
		}
	}
	for _, c := range el.Buckets {
		el.Count += c
	}
	el.Set = el.Set || el.Count != 0
}

// average returns the average of avg and stats.
func (el *Element) average(m *manifest.Map) uint64 { return m.Rule().Mean(el.Value, el.Count) }

// Number returns the sort key of an element when its map sorts by value.
func (el *Element) Number(m *manifest.Map) uint64 {
	switch m.Shape {
	case "plain":
		return format.Uint(m.Value, el.Bytes)
	case "avg", "stats":
		return el.average(m)
	case "hist", "lhist":
		return el.Count
	}
	return el.Value
}
