// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"strconv"
	"strings"

	"btc/internal/aggregate"
)

// Widths of a histogram's row.
const (
	labelWidth = 16
	countWidth = 8
	barWidth   = 52
)

// RowWidth is the width of a histogram's row without its bar.
const RowWidth = labelWidth + countWidth + 3

// appendRows appends a row for each bucket from the first to the last that is
// not empty; bucket 0 has no lower bound. The bars have bar columns; 0: as the language prints them.
func appendRows(dst []byte, b aggregate.Buckets, el *Element, div uint64, bar int, full func(dst []byte) []byte) []byte {
	bar = cmp.Or(bar, barWidth)
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
		dst = AppendBucket(dst, b, i, buckets[i]/div)
		from := len(dst)
		if most > 0 {
			// Single precision, as the language's own output computes it.
			for range int(float32(buckets[i]/div) / float32(most) * float32(bar)) {
				dst = append(dst, '@')
			}
		}
		dst = full(append(pad(dst, from, bar, false), "|\n"...))
	}
	return dst
}

// AppendBucket appends the beginning of the row of bucket i, which has counted n values.
func AppendBucket(dst []byte, b aggregate.Buckets, i int, n uint64) []byte {
	from := len(dst)
	dst = appendLabel(dst, b, i)
	dst = pad(dst, from, labelWidth, false)
	from = len(dst)
	dst = pad(strconv.AppendUint(dst, n, 10), from, countWidth, true)
	return append(dst, " |"...)
}

func appendLabel(dst []byte, b aggregate.Buckets, i int) []byte {
	if i == 0 {
		return append(appendFirst(append(dst, "(..., "...), b, 1), ')')
	}
	switch low, high := b.Bounds(i); {
	case low == high:
		return append(appendFirst(append(dst, '['), b, i), ']')
	case b.Open(i):
		return append(appendFirst(append(dst, '['), b, i), ", ...)"...)
	}
	dst = appendFirst(append(dst, '['), b, i)
	return append(appendFirst(append(dst, ", "...), b, i+1), ')')
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

// appendFirst appends the first number of bucket i >= 1 as it is printed: in hist() 1024 is 1K from the bucket on whose
// width is a multiple of it, in lhist() if the step is.
func appendFirst(dst []byte, b aggregate.Buckets, i int) []byte {
	v, thousands := b.First(i), 0
	switch {
	case b.Step == 0:
		thousands = aggregate.HistThousands(b.Bits, i)
		return suffixed(dst, int64(aggregate.HistFirst(b.Bits, i)>>(10*thousands)), thousands)
	case b.Step%1024 != 0 || v == 0:
	case v%(1<<20) == 0:
		thousands = 2
	case v%1024 == 0:
		thousands = 1
	}
	return suffixed(dst, v>>(10*thousands), thousands)
}

func suffixed(dst []byte, v int64, thousands int) []byte {
	dst = strconv.AppendInt(dst, v, 10)
	if thousands > 0 {
		dst = append(dst, " KMGTPE"[thousands])
	}
	return dst
}
