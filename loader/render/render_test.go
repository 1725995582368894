// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/binary"
	"strings"
	"testing"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/loader/bpfmap"
	"btc/loader/format"
)

func words(v ...int64) []byte {
	var b []byte
	for _, x := range v {
		b = binary.NativeEndian.AppendUint64(b, uint64(x))
	}
	return b
}

var intLayout = &manifest.Layout{Kind: "int", Size: 8, Signed: true}

func entry(key []byte, values ...[]byte) bpfmap.Entry {
	return bpfmap.Entry{Key: key, Values: values}
}

func keyed(m *manifest.Map, top Top, entries ...bpfmap.Entry) string {
	var elems []Element
	for _, e := range entries {
		elems = append(elems, Reduce(m, e))
	}
	return string(Keyed(nil, &format.Env{Trailer: ".."}, m, elems, top))
}

func scalar(m *manifest.Map, top Top, values ...[]byte) string {
	el := Reduce(m, entry(words(0)[:4], values...))
	return string(Scalar(nil, &format.Env{}, m, &el, top))
}

func check(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestKeyedAreSortedByValue(t *testing.T) {
	m := &manifest.Map{Name: "@x", Shape: "count", Present: -1, Key: intLayout}
	check(t, keyed(m, Top{}, entry(words(1), words(5), words(2)), entry(words(-3), words(1), words(0)), entry(words(2), words(3), words(4))),
		"@x[-3]: 1\n@x[1]: 7\n@x[2]: 7\n")
	m = &manifest.Map{Name: "@x", Shape: "sum", Present: -1, Key: intLayout, Value: intLayout}
	check(t, keyed(m, Top{}, entry(words(1), words(5)), entry(words(2), words(-5))), "@x[2]: -5\n@x[1]: 5\n")
}

// TestMinMax checks that min and max are sorted as unsigned numbers: -1 comes last.
func TestMinMax(t *testing.T) {
	m := &manifest.Map{Name: "@m", Shape: "min", Present: -1, ValueOff: 8, Key: intLayout, Value: intLayout}
	check(t, keyed(m, Top{}, entry(words(1), words(1, -1), words(1, 4), words(0, -100)), entry(words(2), words(1, 7))), "@m[2]: 7\n@m[1]: -1\n")
	m.Shape = "max"
	check(t, keyed(m, Top{}, entry(words(1), words(1, -1), words(1, 4), words(0, 100))), "@m[1]: 4\n")
}

func TestTopAndDiv(t *testing.T) {
	m := &manifest.Map{Name: "@", Shape: "plain", Present: -1, Key: intLayout, Value: intLayout}
	e := []bpfmap.Entry{entry(words(1), words(100)), entry(words(2), words(-90)), entry(words(3), words(50))}
	check(t, keyed(m, Top{Keep: 2}, e...), "@[3]: 50\n@[1]: 100\n")
	check(t, keyed(m, Top{Keep: 2, Div: 40}, e...), "@[3]: 1\n@[1]: 2\n")
	check(t, keyed(m, Top{Div: 40}, e[1]), "@[2]: -2\n")
}

// TestKeyOrder checks that values that are not numbers are sorted by key.
func TestKeyOrder(t *testing.T) {
	text := manifest.Layout{Kind: "string", Size: 8}
	m := &manifest.Map{Name: "@x", Shape: "plain", Present: -1, Value: &text, Key: &manifest.Layout{Kind: "tuple", Size: 16, Fields: []manifest.Field{
		{Off: 0, Layout: *intLayout}, {Off: 8, Layout: text}}}}
	key := func(n int64, s string) []byte {
		return append(words(n), (s + "\x00\x00\x00\x00\x00\x00\x00\x00")[:8]...)
	}
	val := func(s string) []byte { return []byte((s + "\x00\x00\x00\x00\x00\x00\x00\x00")[:8]) }
	check(t, keyed(m, Top{}, entry(key(2, "a"), val("p")), entry(key(-1, "z"), val("q")), entry(key(2, "B"), val("r"))),
		"@x[-1, z]: q\n@x[2, B]: r\n@x[2, a]: p\n")
}

// TestKeysEndAtNUL checks that what follows a string's NUL has no effect on the order.
func TestKeysEndAtNUL(t *testing.T) {
	l := &manifest.Layout{Kind: "string", Size: 4}
	for _, c := range []struct {
		a, b string
		want int
	}{{"ab\x00z", "ab\x00a", 0}, {"\x00zzz", "\x00aaa", 0}, {"\x00zzz", "a\x00\x00\x00", -1}, {"abcd", "abce", -1}, {"abcd", "abc\x00", 1}} {
		if got := compareKeys(l, []byte(c.a), []byte(c.b)); got != c.want {
			t.Errorf("%q and %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestNestedTupleKeepsParentheses(t *testing.T) {
	inner := manifest.Layout{Kind: "tuple", Size: 16, Fields: []manifest.Field{{Off: 0, Layout: *intLayout}, {Off: 8, Layout: *intLayout}}}
	m := &manifest.Map{Name: "@x", Shape: "count", Present: -1, Key: &manifest.Layout{Kind: "tuple", Size: 24, Fields: []manifest.Field{
		{Off: 0, Layout: *intLayout}, {Off: 8, Layout: inner}}}}
	check(t, keyed(m, Top{}, entry(words(1, 2, 3), words(4))), "@x[1, (2, 3)]: 4\n")
}

func TestAverages(t *testing.T) {
	stats := &manifest.Map{Name: "@", Shape: "stats", Present: 0, Value: intLayout}
	check(t, scalar(stats, Top{}, words(2, -15), words(1, 5)), "@: { .count = 3, .average = -3, .total = -10 }\n")
	check(t, scalar(stats, Top{Div: 3}, words(2, 24)), "@: { .count = 2, .average = 4, .total = 24 }\n")
	check(t, scalar(stats, Top{}, words(0, 0)), "@: { .count = 0, .average = 0, .total = 0 }\n")
	avg := &manifest.Map{Name: "@", Shape: "avg", Present: -1, Key: intLayout, Value: intLayout}
	check(t, keyed(avg, Top{}, entry(words(1), words(3, -12)), entry(words(2), words(1, -10))), "@[2]: -10\n@[1]: -4\n")
}

func buckets(n int, set map[int]int64) []byte {
	b := make([]int64, n)
	for i, c := range set {
		b[i] = c
	}
	return words(b...)
}

// TestHist checks the histogram in the documentation of the language.
func TestHist(t *testing.T) {
	m := &manifest.Map{Name: "@", Shape: "hist", Present: -1}
	check(t, scalar(m, Top{}, buckets(66, map[int]int64{0: 1, 3: 1}), buckets(66, map[int]int64{3: 1, 4: 1})), strings.TrimPrefix(`
@:
(..., 0)               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
[0]                    0 |                                                    |
[1]                    0 |                                                    |
[2, 4)                 2 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
[4, 8)                 1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |

`, "\n"))
	check(t, scalar(m, Top{}, buckets(66, nil)), "@:\n\n")
}

func TestHistLabels(t *testing.T) {
	for _, tc := range []struct {
		bits  int
		value uint64
		want  string
	}{
		{0, 0, "[0]"}, {0, 1, "[1]"}, {0, 3, "[2, 4)"}, {0, 512, "[512, 1K)"}, {0, 1024, "[1K, 2K)"}, {0, 1 << 20, "[1M, 2M)"},
		{0, 1<<63 - 1, "[4E, 8E)"}, {2, 7, "[7]"}, {2, 8, "[8, 10)"}, {2, 1024, "[1024, 1280)"}, {2, 4096, "[4K, 5K)"},
		{5, 63, "[63]"}, {5, 64, "[64, 66)"},
	} {
		i := bucketOf(tc.value, tc.bits)
		if got := string(appendLabel(nil, aggregate.Buckets{Bits: tc.bits}, i)); got != tc.want {
			t.Errorf("hist(%d, %d): got %s, want %s", tc.value, tc.bits, got, tc.want)
		}
	}
}

// bucketOf implements the rule in docs/layouts.md.
func bucketOf(v uint64, k int) int {
	n := uint64(1) << k
	if v < 2*n {
		return 1 + int(v)
	}
	p := 63
	for v>>p == 0 {
		p--
	}
	return 1 + int(n)*(p-k+1) + int(v>>(p-k)-n)
}

func TestKeyedHistIsSortedByCount(t *testing.T) {
	m := &manifest.Map{Name: "@h", Shape: "hist", Present: -1, Key: intLayout}
	got := keyed(m, Top{}, entry(words(1), buckets(66, map[int]int64{1: 5})), entry(words(2), buckets(66, map[int]int64{2: 3})))
	if !strings.HasPrefix(got, "@h[2]:\n[1]                    3 |@") || !strings.Contains(got, "|\n\n@h[1]:\n[0]                    5 |") {
		t.Errorf("got\n%s", got)
	}
}

func TestLhist(t *testing.T) {
	m := &manifest.Map{Name: "@", Shape: "lhist", Present: -1, MapParams: manifest.MapParams{Min: 0, Max: 100, Step: 10}}
	got := scalar(m, Top{}, buckets(12, map[int]int64{0: 1, 1: 2, 11: 4}))
	for _, want := range []string{"(..., 0)               1 |", "[0, 10)                2 |", "[90, 100)              0 |", "[100, ...)             4 |@@@"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q not found in\n%s", want, got)
		}
	}
	m = &manifest.Map{Name: "@", Shape: "lhist", Present: -1, MapParams: manifest.MapParams{Min: 0, Max: 10, Step: 3}}
	got = scalar(m, Top{}, buckets(5, map[int]int64{3: 1, 4: 2})) // 9 and above
	for _, want := range []string{"[6, 9)                 1 |", "[9, ...)               2 |"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q not found in\n%s", want, got)
		}
	}
	m = &manifest.Map{Name: "@", Shape: "lhist", MapParams: manifest.MapParams{Min: 0, Max: 3 << 20, Step: 512 << 10}}
	if got := string(appendLabel(nil, m.Buckets(), 2)); got != "[512K, 1M)" {
		t.Errorf("got %s", got)
	}
	m = &manifest.Map{Name: "@", Shape: "lhist", MapParams: manifest.MapParams{Min: 0, Max: 10, Step: 1}}
	if got := string(appendLabel(nil, m.Buckets(), 3)); got != "[2]" {
		t.Errorf("got %s", got)
	}
}

func TestPresence(t *testing.T) {
	plain := &manifest.Map{Name: "@", Shape: "plain", Present: 0, ValueOff: 8, Value: intLayout}
	for _, tc := range []struct {
		m     *manifest.Map
		value []byte
		want  bool
	}{
		{plain, words(1, 0), true},
		{plain, words(0, 0), false},
		{&manifest.Map{Shape: "count", Present: 0}, words(0), false},
		{&manifest.Map{Shape: "count", Present: 0}, words(2), true},
		{&manifest.Map{Shape: "hist", Present: -1}, buckets(66, nil), false},
		{&manifest.Map{Shape: "hist", Present: -1}, buckets(66, map[int]int64{9: 1}), true},
	} {
		if el := Reduce(tc.m, entry(words(0)[:4], tc.value)); el.Set != tc.want {
			t.Errorf("%s: Set = %v, want %v", tc.m.Shape, el.Set, tc.want)
		}
	}
}

// Keyed is KeyedBy in memory.
func Keyed(dst []byte, env *format.Env, m *manifest.Map, elems []Element, top Top) []byte {
	return KeyedBy(dst, env, m, elems, top, whole)
}

// whole keeps all text.
func whole(dst []byte) []byte { return dst }

// Scalar is ScalarBy in memory.
func Scalar(dst []byte, env *format.Env, m *manifest.Map, el *Element, top Top) []byte {
	return ScalarBy(dst, env, m, el, top, whole)
}
