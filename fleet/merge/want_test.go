// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"btc/internal/manifest"
)

// object has a map of each shape, as manifests describe them.
var object = manifest.Manifest{Maps: []manifest.Map{
	{Name: "@c", Shape: "count", Value: &unsigned, MaxEntries: 1},
	{Name: "@k", Shape: "count", Value: &unsigned, Key: &pair, MaxEntries: 3},
	{Name: "@sum", Shape: "sum", Value: &integer64, Key: &integer64, MaxEntries: 3},
	{Name: "@h", Shape: "hist", Value: &unsigned, MaxEntries: 1},
	{Name: "@l", Shape: "lhist", Value: &unsigned, MaxEntries: 1, MapParams: manifest.MapParams{Min: 0, Max: 100, Step: 10}},
	{Name: "@s", Shape: "stats", Value: &unsigned, MaxEntries: 1},
	{Name: "@p", Shape: "plain", Value: &shortText, Key: &integer64, MaxEntries: 3},
	{Name: "@n", Shape: "plain", Value: &manifest.Layout{Kind: "enum", Size: 4, Signed: true}, MaxEntries: 1},
	{Name: "@t", Shape: "tseries", Value: &unsigned, MaxEntries: 30, MapParams: manifest.MapParams{Interval: int64(time.Second), Intervals: 10, Agg: "avg"},
		Key: &manifest.Layout{Kind: "tuple", Size: 16, Fields: []manifest.Field{{Layout: integer64}, {Off: 8, Layout: unsigned}}}},
	{Name: "stacks", Shape: "stack", Depth: 10},
	{Name: "events", Shape: "intern"},
}}

// mapLine returns a line of a run.
func mapLine(name, shape, more, entries string) string {
	return fmt.Sprintf(`{"type": "map", "name": "%s", "shape": "%s", "object": "o", "host": "h"%s, "entries": [%s]}`, name, shape, more, entries)
}

// TestWant checks that a run's lines are accepted as its object allows, and all others refused.
func TestWant(t *testing.T) {
	want := Expect(&object)
	now := time.Now().UTC().Truncate(time.Second)
	at := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339Nano) }
	const series = `, "signed": false, "interval": 1000000000, "intervals": 10, "agg": "avg"`
	const u, i = `, "signed": false`, `, "signed": true`
	point := func(start, value string) string {
		return mapLine("@t", "tseries", series, `{"key": [1], "value": [{"start": "`+start+`", `+value+`}]}`)
	}
	count := func(value string) string { return mapLine("@c", "count", u, `{"value": `+value+`}`) }
	hist := func(buckets string) string {
		return mapLine("@h", "hist", u+`, "bits": 0`, `{"value": [`+buckets+`]}`)
	}
	lhist := func(buckets string) string {
		return mapLine("@l", "lhist", u+`, "min": 0, "max": 100, "step": 10`, `{"value": [`+buckets+`]}`)
	}
	stats := func(value string) string { return mapLine("@s", "stats", u, `{"value": {`+value+`}}`) }
	sum := func(entries string) string { return mapLine("@sum", "sum", i, entries) }
	key := func(key string) string { return mapLine("@k", "count", u, `{"key": `+key+`, "value": 1}`) }
	nested := func(n int) string {
		return `{"type": "map", "name": "@c", "x": ` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `, "shape": "count", "object": "o", "host": "h", "entries": [{"value": 1}]}`
	}
	for _, c := range []struct{ name, line, reason string }{
		{"count", count("3"), ""},
		{"largest count", count("18446744073709551615"), ""},
		{"negative", count("-5"), "not an integer of 64 bits"},
		{"minus zero", count("-0"), "not an integer of 64 bits"},
		{"too large", count("18446744073709551616"), "not an integer of 64 bits"},
		{"float", count("1e3"), "not an integer of 64 bits"},
		{"string", count(`"1"`), "not an integer of 64 bits"},
		{"null", count("null"), "not an integer of 64 bits"},
		{"no value", mapLine("@c", "count", u, `{"x": 1}`), "an entry has no value"},
		{"not an entry", mapLine("@c", "count", u, `5`), "an entry has no value"},
		{"two values", mapLine("@c", "count", u, `{"value": 1, "value": 2}`), `two members "value"`},
		{"two scalars", mapLine("@c", "count", u, `{"value": 1}, {"value": 1}`), "more than 1 entries"},
		{"nesting", nested(maxNesting), ""},
		{"nesting too deep", nested(maxNesting + 1), "nesting too deep"},
		{"braces in a string", strings.Replace(count("1"), `"o"`, `"\"`+strings.Repeat("[", maxNesting)+`"`, 1), ""},
		{"a quote after a backslash", strings.Replace(count("1"), `"h"`, `"h\\"`, 1), ""},
		{"not UTF-8", strings.Replace(count("1"), `"h"`, "\"\xff\"", 1), "not UTF-8"},

		{"another shape", mapLine("@c", "sum", u, `{"value": 1}`), "its description differs from that in the object"},
		{"another sign", mapLine("@sum", "sum", u, `{"key": [1], "value": 1}`), "its description differs"},
		{"other bits", mapLine("@h", "hist", u+`, "bits": 3`, ``), "its description differs"},
		{"other bounds", mapLine("@l", "lhist", u+`, "min": 0, "max": 100, "step": 20`, ``), "its description differs"},
		{"other intervals", mapLine("@t", "tseries", strings.Replace(series, `"intervals": 10`, `"intervals": 9`, 1), ``), "its description differs"},
		{"unknown map", mapLine("@x", "count", u, `{"value": 1}`), "a map that the object does not have"},
		{"map of the compiler", mapLine("events", "count", u, `{"value": 1}`), "a map that the object does not have"},
		{"no entries", `{"type": "map", "name": "@c", "shape": "count", "object": "o", "host": "h"` + u + `}`, "it has no entries"},
		{"entries that are not a list", strings.Replace(count("1"), `[{"value": 1}]`, `{"value": 1}`, 1), "it has no entries"},
		{"two names", strings.Replace(count("1"), `"shape"`, `"name": "@h", "shape"`, 1), `two members "name"`},
		{"name of the wrong type", strings.Replace(count("1"), `"count"`, `1`, 1), `its member "shape" has the wrong type`},
		{"a member after the entries", `{"type": "map", "name": "@c", "entries": [{"value": 1}], "shape": "count", "signed": false}`, "is after the entries"},
		{"no object", strings.Replace(count("1"), `"object": "o"`, `"object": ""`, 1), "the line names no object"},

		{"keys", key(`[1,"a b"]`), ""},
		{"a key that was cut", key(`[2,{"text": "abc", "truncated": true}]`), ""},
		{"no key", sum(`{"value": 1}`), "an entry without one"},
		{"a key of a scalar", mapLine("@c", "count", u, `{"key": [1], "value": 1}`), "a key in a map without keys"},
		{"too many parts", sum(`{"key": [1,2], "value": 1}`), "has not the 1 parts"},
		{"too few parts", key(`[1]`), "has not the 2 parts"},
		{"a key that is not a list", key(`7`), "has not the 2 parts"},
		{"second part", key(`[1,1]`), "part 2 of a key is not of the kind string"},
		{"first part", key(`["a","b"]`), "part 1 of a key is not an integer (signed, 8 bytes)"},
		{"large part", sum(`{"key": [9223372036854775808], "value": 1}`), "part 1 of a key is not an integer"},
		{"a stack as a string", key(`[1,{"addresses": [], "frames": [], "text": "x"}]`), "part 2 of a key is not"},
		{"all entries", sum(`{"key": [1], "value": 1}, {"key": [2], "value": 1}, {"key": [3], "value": 1}`), ""},
		{"too many entries", sum(`{"key": [1], "value": 1}, {"key": [2], "value": 1}, {"key": [3], "value": 1}, {"key": [4], "value": 1}`), "more than 3 entries"},
		{"two equal keys", sum(`{"key": [1], "value": 1}, {"key": [1], "value": 1}`), "two entries have the key"},
		{"two keys in an entry", sum(`{"key": [1], "key": [2], "value": 1}`), `two members "key"`},

		{"string value", mapLine("@p", "plain", "", `{"key": [1], "value": "sh"}`), ""},
		{"value of another kind", mapLine("@p", "plain", "", `{"key": [1], "value": [1]}`), "a value is not of the kind string"},
		{"enum", mapLine("@n", "plain", "", `{"value": {"value": 1, "text": "ONE"}}`), ""},

		{"stats", stats(`"count": 2, "average": 5, "total": 11`), ""},
		{"stats without average", stats(`"count": 2, "total": 11`), ""},
		{"stats of nothing", stats(`"count": 0, "average": 0, "total": 0`), ""},
		{"total of nothing", stats(`"count": 0, "average": 0, "total": 11`), "a total without values"},
		{"wrong average", stats(`"count": 2, "average": 7, "total": 11`), "the average is not the total divided by the count"},
		{"negative number", stats(`"count": -2, "average": 7, "total": 11`), "not an integer of 64 bits"},

		{"buckets", hist(`{"min": 1, "max": 1, "count": 2},{"min": 2, "max": 3, "count": 0},{"min": 4, "max": 7, "count": 1}`), ""},
		{"lhist", lhist(`{"max": -1, "count": 1},{"min": 0, "max": 9, "count": 2},{"min": 100, "count": 2}`), ""},
		{"no buckets", hist(``), ""},
		{"order of buckets", hist(`{"min": 4, "count": 1},{"min": 1, "count": 1}`), "its buckets are not in order"},
		{"a bucket twice", hist(`{"min": 4, "count": 1},{"min": 4, "count": 1}`), "its buckets are not in order"},
		{"between buckets", hist(`{"min": 5, "count": 1}`), "no bucket begins at 5"},
		{"past the last bucket", lhist(`{"min": 110, "count": 1}`), "no bucket begins at 110"},
		{"bucket without a count", hist(`{"min": 4}`), "a bucket without a count"},
		{"negative count", hist(`{"min": 4, "count": -1}`), "not an integer of 64 bits"},
		{"sum of counts", hist(`{"min": 4, "count": 18446744073709551615},{"min": 8, "count": 1}`), "the sum of its counts"},
		{"buckets that are not a list", mapLine("@h", "hist", u+`, "bits": 0`, `{"value": 1}`), "a value of hist is not a list"},

		{"series", point(at(0), `"value": 2, "total": 5, "count": 2`), ""},
		{"interval without a value", point(at(0), `"value": null`), ""},
		{"value is missing", point(at(0), `"total": 5`), "an interval without a value"},
		{"average of none", point(at(0), `"value": 5, "total": 5, "count": 0`), "the average is not"},
		{"wrong average of an interval", point(at(0), `"value": 5, "total": 5, "count": 2`), "the average is not"},
		{"not a time", point("292277026596-01-01T00:00:00Z", `"value": 5, "total": 5, "count": 1`), "is not a time"},
		{"too late", point("2262-04-11T23:47:16.854775807Z", `"value": 5, "total": 5, "count": 1`), "no interval begins at"},
		{"too early", point("1969-12-31T23:59:59Z", `"value": 5, "total": 5, "count": 1`), "no interval begins at"},
		{"half an interval", point("2026-01-01T00:00:00.5Z", `"value": 5, "total": 5, "count": 1`), "no interval begins at"},
		{"clock a bit ahead", point(at(30*time.Second), `"value": 5, "total": 5, "count": 1`), ""},
		{"clock ahead", point(at(10*time.Minute), `"value": 5, "total": 5, "count": 1`), "the host's clock is ahead"},
		{"nine intervals apart", mapLine("@t", "tseries", series, `{"key": [1], "value": [{"start": "`+at(-9*time.Second)+`", "value": 5, "total": 5, "count": 1},{"start": "`+at(0)+`", "value": 5, "total": 5, "count": 1}]}`), ""},
		{"ten intervals apart", mapLine("@t", "tseries", series, `{"key": [1], "value": [{"start": "`+at(-10*time.Second)+`", "value": 5, "total": 5, "count": 1},{"start": "`+at(0)+`", "value": 5, "total": 5, "count": 1}]}`), "are more than 10 apart"},
		{"order of intervals", mapLine("@t", "tseries", series, `{"key": [1], "value": [{"start": "`+at(0)+`", "value": 5, "total": 5, "count": 1},{"start": "`+at(-1*time.Second)+`", "value": 5, "total": 5, "count": 1}]}`), "its intervals are not in order"},
		{"series that is not a list", mapLine("@t", "tseries", series, `{"key": [1], "value": 1}`), "a value of tseries is not a list"},
	} {
		s := &Stream{Name: "h", Want: want}
		_, err := Lines(strings.NewReader(c.line+"\n"), want.MaxLine, s.Line)
		if err == nil {
			err = (&Runs{}).Fold(s)
		}
		if (err == nil) != (c.reason == "") || err != nil && !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v, want %q", c.name, err, c.reason)
		}
		// The same line of print() is checked at once, but not part of the report.
		asked := strings.Replace(c.line, `"shape"`, `"line": 4, "shape"`, 1)
		if !gjson.Valid(asked) || strings.Contains(c.name, "average") || strings.Contains(c.reason, "does not have") || checkLine([]byte(asked)) != nil {
			continue // print() may scale averages, and temporary maps are not the object's
		}
		if err := s.Check([]byte(asked)); (err == nil) != (c.reason == "") {
			t.Errorf("%s, from print(): %v, want %q", c.name, err, c.reason)
		}
	}
}

// TestMatches checks which JSON is a value of a layout.
func TestMatches(t *testing.T) {
	integer := func(size int, signed bool) *manifest.Layout {
		return &manifest.Layout{Kind: "int", Size: size, Signed: signed}
	}
	of := func(kind string) *manifest.Layout { return &manifest.Layout{Kind: kind} }
	two := &manifest.Layout{Kind: "array", Count: 2, Elem: integer(1, false)}
	tuple := &manifest.Layout{Kind: "tuple", Fields: []manifest.Field{{Layout: *integer(1, false)}, {Layout: *of("string")}}}
	for _, c := range []struct {
		l    *manifest.Layout
		json string
		want bool
	}{
		{integer(1, false), "255", true}, {integer(1, false), "256", false}, {integer(1, false), "-1", false}, {integer(1, true), "-128", true}, {integer(1, true), "-129", false}, {integer(1, true), "-0", false},
		{integer(8, false), "18446744073709551615", true}, {integer(16, false), "18446744073709551615", true}, {integer(0, false), "256", false}, {integer(8, true), "1.0", false}, {integer(8, true), `"1"`, false},
		{integer(8, false), `{"value": 1}`, false}, {&manifest.Layout{Kind: "int", Size: 8, IDOf: "cgroup"}, `{"value": 1}`, true}, {&manifest.Layout{Kind: "ptr", Size: 8}, "7", true},
		{of("bool"), "true", true}, {of("bool"), "false", true}, {of("bool"), "1", false}, {of("none"), "null", true}, {of("none"), "0", false},
		{of("string"), `"a"`, true}, {of("string"), `{"base64": "AA=="}`, true}, {of("string"), `{"frames": []}`, false}, {of("string"), `{"addresses": []}`, false}, {of("string"), "1", false},
		{tuple, `[1, "a"]`, true}, {tuple, `[1]`, false}, {tuple, `[1, "a", 2]`, false}, {tuple, `["a", "a"]`, false}, {tuple, `{"a": 1}`, false}, {tuple, "1", false},
		{two, "[1, 2]", true}, {two, "[1]", false}, {two, "[1, 2, 3]", false}, {two, `[1, "a"]`, false}, {two, "1", false},
		{of("record"), `{"a": 1}`, true}, {of("record"), "[1]", false}, {of("buffer"), `{}`, true}, {of("buffer"), `"a"`, false},
		{of("ksym"), `{"text": "f"}`, true}, {of("ksym"), `{"text": 1}`, false}, {of("ksym"), `"f"`, false}, {of("timestamp"), `{"text": "1"}`, true},
		{of("mac"), `"00"`, true}, {of("mac"), "1", false}, {of("probe"), `"kprobe:f"`, true},
	} {
		if got := matches(c.l, gjson.Parse(c.json)); got != c.want {
			t.Errorf("%s of %d bytes, %s: %v", c.l.Kind, c.l.Size, c.json, got)
		}
	}
}

// TestRoom checks the memory that the lines of a host may take, which grows with what the object's maps hold.
func TestRoom(t *testing.T) {
	room := func(maps ...manifest.Map) int {
		w := Expect(&manifest.Manifest{Maps: maps})
		if w.MaxLine() != min(w.Room(), maxLine) {
			t.Errorf("a line of %d in %d", w.MaxLine(), w.Room())
		}
		return w.Room()
	}
	const many = 10 << 20
	small := room(manifest.Map{Name: "@", Shape: "count", Value: &unsigned, MaxEntries: 1})
	plain := room(manifest.Map{Name: "@", Shape: "count", Value: &unsigned, Key: &integer64, MaxEntries: many})
	for _, c := range []struct {
		what     string
		got, min int
	}{
		{"key", plain, many * (64 + 64 + 6*8)},
		{"two maps", room(manifest.Map{Name: "@a", Shape: "count", Value: &unsigned, Key: &integer64, MaxEntries: many}, manifest.Map{Name: "@b", Shape: "count", Value: &unsigned, Key: &integer64, MaxEntries: many}), 2 * plain},
		{"value", room(manifest.Map{Name: "@", Shape: "plain", Value: &shortText, Key: &integer64, MaxEntries: many}), plain + many*(64+6*16)},
		{"hist", room(manifest.Map{Name: "@", Shape: "hist", Value: &unsigned, Key: &integer64, MaxEntries: many}), plain + many*100*66},
		{"tuple", room(manifest.Map{Name: "@", Shape: "count", Value: &unsigned, Key: &pair, MaxEntries: many}), many * (64 + 64 + 6*8 + 64 + 6*16)},
		{"cache", room(manifest.Map{Name: "@", Shape: "count", Value: &unsigned, Key: &integer64, MaxEntries: many, Cache: &manifest.PerCPUCache{CPUs: 1 << 10, Slots: 10 << 10}}), 2 * plain},
	} {
		if c.got < c.min || c.got > c.min+c.min/10 {
			t.Errorf("%s: %d, want %d or little more", c.what, c.got, c.min)
		}
	}
	if small != minRoom {
		t.Errorf("a small object: %d, want %d", small, minRoom)
	}
	if got := (*Want)(nil).Room(); got != 4*maxLine {
		t.Errorf("without an object: %d", got)
	}
	if huge := room(manifest.Map{Name: "@", Shape: "count", Value: &unsigned, Key: &manifest.Layout{Kind: "array", Count: math.MaxInt, Elem: &pair}, MaxEntries: many}); huge != math.MaxInt {
		t.Errorf("more than memory: %d", huge)
	}
	s := &Stream{Want: &Want{room: minRoom, maps: Expect(&object).maps}}
	long := []byte(mapLine("@c", "count", `, "signed": false`, `{"value": 1}`) + strings.Repeat(" ", 8))
	for i := 0; i < 2; i++ { // the last line of a map replaces the one before
		if err := s.Line(bytes.Clone(long)); err != nil {
			t.Fatal(err)
		}
	}
	if s.size != len(bytes.TrimSpace(long)) || s.Maps() != 1 {
		t.Errorf("%d bytes of %d maps", s.size, s.Maps())
	}
	hist := []byte(mapLine("@h", "hist", `, "signed": false, "bits": 0`, `{"value": []}`))
	s.size = minRoom - len(hist) // as if of other maps
	if err := s.Line(hist); err != nil {
		t.Error(err)
	}
	if err := s.Line([]byte(strings.Replace(string(hist), "[]", "[ ]", 1))); err == nil || !strings.Contains(err.Error(), "its maps take more than the 64 MiB that the object allows") {
		t.Error(err)
	}
}

// TestSums checks that saturating sums and products do not overflow.
func TestSums(t *testing.T) {
	const most = math.MaxUint64
	for _, c := range [][3]uint64{{1, 2, 3}, {most, 0, most}, {most, 1, most}, {most - 1, 1, most}} {
		if got := add(c[0], c[1]); got != c[2] {
			t.Errorf("%d + %d = %d", c[0], c[1], got)
		}
	}
	for _, c := range [][3]uint64{{3, 2, 6}, {most, 1, most}, {1 << 32, 1 << 32, most}, {most, 0, 0}} {
		if got := multiply(c[0], c[1]); got != c[2] {
			t.Errorf("%d * %d = %d", c[0], c[1], got)
		}
	}
}

// TestLines checks the limit of a line, and a stream that ends within one.
func TestLines(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string // the lines
		cut   bool
		err   string
	}{
		{"1\n2\n", 100, "1\n|2\n|", false, ""},
		{"1\n2", 100, "1\n|2|", false, ""},
		{"1\n{", 100, "1\n|", true, ""},
		{"", 100, "|", false, ""},
		{strings.Repeat("1", 70<<10) + "\n", 70<<10 + 1, strings.Repeat("1", 70<<10) + "\n|", false, ""},
		{strings.Repeat("1", 70<<10) + "\n", 70 << 10, "", false, "a line of more than 0 MiB"},
		{strings.Repeat("1", 200<<10) + "\n", 1 << 20, strings.Repeat("1", 200<<10) + "\n|", false, ""},
	} {
		var got strings.Builder
		cut, err := Lines(strings.NewReader(c.in), func() int { return c.limit }, func(line []byte) error {
			got.Write(append(bytes.Clone(line), '|'))
			return nil
		})
		text := ""
		if err != nil {
			text = err.Error()
		}
		if want := c.want; cut != c.cut || text != c.err || got.String() != want && got.String() != want+"|" {
			t.Errorf("%.20q: %.40q, cut %v, error %q", c.in, got.String(), cut, text)
		}
	}
}
