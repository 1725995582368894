// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"cmp"
	"slices"
	"sort"

	"btc/internal/manifest"
	"btc/loader/format"
)

// Sort sorts elements as the language prints them: maps of numbers by value, others by key.
// Equal ones are ordered by key, so that equal content always prints the same.
func Sort(m *manifest.Map, elems []Element) {
	if m.Shape == "tseries" {
		return // already ordered by the bytes of their keys
	}
	sort.Slice(elems, func(i, j int) bool {
		a, b := &elems[i], &elems[j]
		if byValue(m) {
			if c := compareNumbers(a.Number(m), b.Number(m), signedOrder(m)); c != 0 {
				return c < 0
			}
		}
		return byKey(m, a, b) < 0
	})
}

// byKey compares elements by their keys.
func byKey(m *manifest.Map, a, b *Element) int {
	if m.Key != nil {
		if c := compareKeys(m.Key, a.Key, b.Key); c != 0 {
			return c
		}
	}
	return bytes.Compare(a.Key, b.Key)
}

func byValue(m *manifest.Map) bool {
	return m.Shape != "plain" || m.Value.Kind == "int" || m.Value.Kind == "enum"
}

// signedOrder reports whether values are sorted as signed numbers. min and max are always sorted as unsigned.
func signedOrder(m *manifest.Map) bool {
	switch m.Shape {
	case "min", "max", "hist", "lhist", "count":
		return false
	}
	return m.Signed()
}

func compareNumbers(a, b uint64, isSigned bool) int {
	if isSigned {
		return cmp.Compare(int64(a), int64(b))
	}
	return cmp.Compare(a, b)
}

// Compared reports whether keys of equal elements are ordered by parts of a kind first, and by others only as bytes.
func Compared(kind string) bool {
	return slices.Contains([]string{"int", "enum", "bool", "string"}, kind)
}

// compareKeys orders integers as signed, strings by bytes, tuples field by
// field; fields of other kinds are ignored.
func compareKeys(l *manifest.Layout, a, b []byte) int {
	switch l.Kind {
	case "int", "enum", "bool": // and "string", see Compared
		return cmp.Compare(int64(format.Uint(l, a)), int64(format.Uint(l, b)))
	case "string":
		return bytes.Compare(cString(a[:l.Size]), cString(b[:l.Size]))
	case "tuple", "record":
		for i := range l.Fields {
			f := &l.Fields[i]
			if c := compareKeys(&f.Layout, a[f.Off:], b[f.Off:]); c != 0 {
				return c
			}
		}
	}
	return 0
}

func cString(b []byte) []byte {
	if n := bytes.IndexByte(b, 0); n >= 0 {
		return b[:n]
	}
	return b
}
