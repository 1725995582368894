// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strconv"
	"strings"

	"btc/internal/manifest"
)

// Widths of a histogram's row.
const (
	labelWidth = 16
	countWidth = 8
	barWidth   = 52
)

// labels formats the intervals of a histogram's buckets.
type labels interface {
	// bound appends the lower bound of bucket i (i >= 1).
	bound(dst []byte, i int) []byte
	// single reports whether bucket i holds exactly one number.
	single(i int) bool
	// open reports whether bucket i has no upper bound.
	open(i int) bool
}

// appendRows appends a row for each bucket from the first to the last that is
// not empty; bucket 0 has no lower bound.
func appendRows(dst []byte, l labels, el *Element, div uint64, full func(dst []byte) []byte) []byte {
	buckets := el.Buckets
	first, last, most := -1, -1, uint64(0)
	for i, c := range buckets {
		if c == 0 {
			continue
		}
		if first < 0 {
			first = i
		}
		last = i
		most = max(most, c/div)
	}
	if first < 0 {
		return dst
	}
	for i := first; i <= last; i++ {
		if n := el.gap(i); n > 0 {
			dst = append(strconv.AppendInt(append(dst, "... "...), int64(n), 10), " empty buckets\n"...)
			i += n
		}
		from := len(dst)
		dst = appendLabel(dst, l, i)
		dst = pad(dst, from, labelWidth, false)
		from = len(dst)
		dst = strconv.AppendUint(dst, buckets[i]/div, 10)
		dst = pad(dst, from, countWidth, true)
		dst = append(dst, " |"...)
		from = len(dst)
		if most > 0 {
			// Single precision, as the language's own output computes it.
			for range int(float32(buckets[i]/div) / float32(most) * barWidth) {
				dst = append(dst, '@')
			}
		}
		dst = full(append(pad(dst, from, barWidth, false), "|\n"...))
	}
	return dst
}

func appendLabel(dst []byte, l labels, i int) []byte {
	switch {
	case i == 0:
		dst = append(dst, "(..., "...)
		return append(l.bound(dst, 1), ')')
	case l.single(i):
		return append(l.bound(append(dst, '['), i), ']')
	case l.open(i):
		return append(l.bound(append(dst, '['), i), ", ...)"...)
	}
	dst = l.bound(append(dst, '['), i)
	return append(l.bound(append(dst, ", "...), i+1), ')')
}

// pad pads the text dst[from:] with spaces after it, or before it if right is set.
func pad(dst []byte, from, width int, right bool) []byte {
	n := width - (len(dst) - from)
	if n <= 0 {
		return dst
	}
	end := len(dst)
	dst = append(dst, strings.Repeat(" ", n)...)
	if right {
		copy(dst[from+n:], dst[from:end])
		copy(dst[from:from+n], strings.Repeat(" ", n))
	}
	return dst
}

// histLabels are the labels of hist() with 1<<bits intervals in each power of two.
type histLabels struct{ bits int }

func (h histLabels) bound(dst []byte, i int) []byte {
	thousands := manifest.HistThousands(h.bits, i)
	dst = strconv.AppendUint(dst, manifest.HistFirst(h.bits, i)>>(10*thousands), 10)
	if thousands > 0 {
		dst = append(dst, " KMGTPE"[thousands])
	}
	return dst
}

func (h histLabels) single(i int) bool { return i-1 < 2<<h.bits }
func (h histLabels) open(int) bool     { return false }

// lhistLabels are the labels of lhist().
type lhistLabels struct{ m *manifest.Map }

// value returns the lower bound of bucket i. If max is not a whole number of steps, the last bucket begins at the last
// whole step.
func (h lhistLabels) value(i int) int64 { return h.m.Min + int64(i-1)*h.m.Step }

func (h lhistLabels) bound(dst []byte, i int) []byte {
	v := h.value(i)
	if h.m.Step%1024 == 0 && v != 0 {
		if v%(1<<20) == 0 {
			return append(strconv.AppendInt(dst, v>>20, 10), 'M')
		}
		if v%1024 == 0 {
			return append(strconv.AppendInt(dst, v>>10, 10), 'K')
		}
	}
	return strconv.AppendInt(dst, v, 10)
}

func (h lhistLabels) single(i int) bool { return !h.open(i) && h.value(i+1) == h.value(i)+1 }
func (h lhistLabels) open(i int) bool {
	return i >= manifest.LhistBuckets(h.m.Min, h.m.Max, h.m.Step)-1
}
