// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"
	"time"

	"btc/internal/manifest"
	"btc/loader/bpfmap"
	"btc/loader/format"
)

// series returns a tseries map with intervals of 100 ms.
func series(agg string, keys ...manifest.Field) *manifest.Map {
	off := 0
	for _, k := range keys {
		off = k.Off + k.Layout.Size
	}
	fields := append(keys, manifest.Field{Off: off, Layout: manifest.Layout{Kind: "int", Size: 8}})
	return &manifest.Map{Name: "@", Shape: "tseries", Present: -1, Value: intLayout, MapParams: manifest.MapParams{Interval: 100e6, Intervals: 5, Agg: agg},
		Key: &manifest.Layout{Kind: "tuple", Size: off + 8, Fields: fields}}
}

func seriesText(m *manifest.Map, entries ...bpfmap.Entry) string {
	elems := ReduceSeries(m, entries)
	if m.Scalar() {
		return string(Scalar(nil, &format.Env{}, m, &elems[0], Top{}))
	}
	return string(Keyed(nil, &format.Env{}, m, elems, Top{}))
}

func seriesLine(m *manifest.Map, full bool, entries ...bpfmap.Entry) string {
	elems := ReduceSeries(m, entries)
	return string(ValueJSON(nil, &format.JSON{Env: &format.Env{}, Full: full}, m, &elems[0], 0))
}

func inUTC(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
}

// TestSeriesGraph checks that an interval without values has its own row, and that zero is marked with
// a line.
func TestSeriesGraph(t *testing.T) {
	inUTC(t)
	m := series("")
	check(t, seriesText(m, entry(words(1), words(-5, 1, 11)), entry(words(3), words(5, 1, 13)), entry(words(4), words(9, 1, 4))), `@:
             -5                                                  5
hh:mm:ss.ms  |___________________________________________________|
00:00:01.100 *                         .                         | -5
00:00:01.200 |                         .                         | -
00:00:01.300 |                         .                         * 5
             v___________________________________________________v
             -5                                                  5

`)
	check(t, seriesText(m, entry(words(0), words(0, 0, 0))), "@:\n<no data>\n")
}

// TestSeriesCPUs checks that only the newest interval of a slot is used, from all CPUs that have it.
func TestSeriesCPUs(t *testing.T) {
	inUTC(t)
	for agg, want := range map[string]string{"": "8", "sum": "10", "avg": "2", "min": "2", "max": "8"} {
		m := series(agg)
		parts := [][]byte{words(2, 1, 10), words(8, 4, 10), words(100, 9, 5), words(0, 0, 0)}
		check(t, seriesLine(m, false, entry(words(0), parts...)), `[{"interval_start":"1970-01-01 00:00:01.000000000","value":`+want+`}]`)
	}
	m := series("sum")
	check(t, seriesLine(m, true, entry(words(0), words(2, 1, 10)), entry(words(2), words(3, 1, 12))),
		`[{"start": "1970-01-01T00:00:01Z", "value": 2},{"start": "1970-01-01T00:00:01.1Z", "value": null},{"start": "1970-01-01T00:00:01.2Z", "value": 3}]`)
}

// TestSeriesKeys checks that all keys end at the last interval of any key, and that keys are in byte
// order.
func TestSeriesKeys(t *testing.T) {
	inUTC(t)
	m := series("", manifest.Field{Layout: *intLayout})
	key := func(k, n int64) []byte { return words(k, n) }
	check(t, seriesText(m, entry(key(2, 0), words(4, 1, 10)), entry(key(1, 1), words(3, 1, 11))), `@[1]:
                   2                                                   4
hh:mm:ss.ns        |___________________________________________________|
00:00:01.100000000 |                         *                         | 3
                   v___________________________________________________v
                   2                                                   4

@[2]:
             3                                                   5
hh:mm:ss.ms  |___________________________________________________|
00:00:01.000 |                         *                         | 4
00:00:01.100 |                                                   | -
             v___________________________________________________v
             3                                                   5

`)
}

// TestSeriesExtremes checks numbers at the limits of their types, and numbers whose difference
// overflows int64.
func TestSeriesExtremes(t *testing.T) {
	inUTC(t)
	const least, most = -1 << 63, 1<<63 - 1
	for _, c := range []struct {
		from, to int64
		rows     [2]string // without the values
	}{
		{-1e12, 1, [2]string{"*                                                   |", "|                                                   *"}},
		{-100, 1, [2]string{"*                                                   .", "|                                                   *"}},
		{-1, 100, [2]string{"*                                                   |", "|                                                   *"}},
		{-1e17, 5, [2]string{"*                                                   |", "|                                                   *"}},
		{least, 5, [2]string{"*                                                   |", "|                                                   *"}},
		{least, least, [2]string{"*                                                   |", "*                                                   |"}},
		{most, most, [2]string{"|                                                   *", "|                                                   *"}},
		{-50, -5, [2]string{"*                                                   |", "|                                                   *"}},
		{0, 0, [2]string{"|                         *                         |", "|                         *                         |"}},
		{-1 << 62, 1<<62 - 1, [2]string{"*                         .                         |", "|                         .                         *"}},
	} {
		text := seriesText(series(""), entry(words(1), words(c.from, 1, 11)), entry(words(2), words(c.to, 1, 12)))
		lines := strings.Split(text, "\n")
		for i, want := range c.rows {
			if got := lines[3+i]; !strings.Contains(got, " "+want+" ") {
				t.Errorf("%d and %d: row %q, want %q", c.from, c.to, got, want)
			}
		}
	}
	seriesText(series(""), entry(words(1), words(least, 1, 11)), entry(words(2), words(most, 1, 12))) // must not panic
}
