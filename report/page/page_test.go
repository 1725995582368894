// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sum returns the sum of the values of a row in all columns.
func sum(m *Map, row int) (a, n uint64) {
	for _, c := range m.Columns {
		at := 0
		for i, d := range c.Rows {
			if at += d; at != row {
				continue
			}
			a += c.A[i].Value
			if c.Count != nil {
				n += c.Count[i].Value
			}
		}
	}
	return a, n
}

func rowOf(m *Map, key string) int {
	for i, at := range m.Keys[0].At {
		if m.Keys[0].Texts[at] == key {
			return i
		}
	}
	return -1
}

func counts(b *Builder) *MapBuilder {
	return b.Map("@x", func() MapBuilder {
		m := MapBuilder{Names: []string{"comm"}}
		m.Name, m.Shape = "@x", "count"
		return m
	})
}

func count(key string, n uint64) Element { return Element{Parts: []string{key}, A: n} }

// TestColumnsAddUp checks that the columns of a map add up to what the run found, however many intervals there are: columns hold
// differences, a value that is smaller than before began anew, and an element that is not there adds nothing.
func TestColumnsAddUp(t *testing.T) {
	for _, intervals := range []int{1, 2, 599, 601, 5000} {
		b := NewBuilder()
		m := counts(b)
		for i := range intervals {
			m.Show(float64(i+1), []Element{count("a", uint64(3*(i+1))), count("b", uint64(i+1)%7)}, false)
		}
		d := b.Finish().Maps[0]
		if len(d.Columns) > maxColumns || len(d.Columns) != len(d.Times) || d.Times[len(d.Times)-1] != float64(intervals) {
			t.Errorf("%d intervals: %d columns, which end at %v", intervals, len(d.Columns), d.Times[len(d.Times)-1])
		}
		if got, _ := sum(d, rowOf(d, "a")); got != uint64(3*intervals) {
			t.Errorf("%d intervals: a is %d, want %d", intervals, got, 3*intervals)
		}
		want := uint64(intervals)/7*6 + uint64(intervals)%7 // it is counted up to 6, and deleted
		if got, _ := sum(d, rowOf(d, "b")); got != want {
			t.Errorf("%d intervals: b is %d, want %d", intervals, got, want)
		}
	}
}

// TestPrintAndClear checks the idiom of a script that prints and clears a map: each print is an interval, also if a value is larger
// than the one before.
func TestPrintAndClear(t *testing.T) {
	b := NewBuilder()
	m := b.Map("@x", func() MapBuilder {
		x := MapBuilder{Names: []string{"comm"}, Clears: true}
		x.Name, x.Shape = "@x", "count"
		return x
	})
	for i, n := range []uint64{5, 7, 2} {
		m.Show(float64(i+1), []Element{count("a", n)}, true)
	}
	m.Show(4, []Element{count("a", 1)}, false)
	d := b.Finish().Maps[0]
	if got, _ := sum(d, 0); got != 15 {
		t.Errorf("a is %d, want 15", got)
	}
}

// TestAverages checks that sums and counts of avg are differences, and that their sums are signed.
func TestAverages(t *testing.T) {
	b := NewBuilder()
	m := b.Map("@x", func() MapBuilder {
		x := MapBuilder{Names: []string{"comm"}, Counted: true, Signed: true}
		x.Name, x.Shape = "@x", "avg"
		return x
	})
	m.Show(1, []Element{{Parts: []string{"a"}, A: 10, N: 2}}, false)
	m.Show(2, []Element{{Parts: []string{"a"}, A: 4, N: 5}}, false)
	d := b.Finish().Maps[0]
	if a, n := sum(d, 0); a != 4 || n != 5 {
		t.Errorf("sum %d of %d, want 4 of 5", a, n)
	}
	if text, _ := json.Marshal(d.Columns[1]); string(text) != `{"r":[0],"a":[-6],"n":[3]}` {
		t.Errorf("the second interval is %s", text)
	}
}

// TestHistogram checks the buckets of a histogram over time, from the first to the last one that has values.
func TestHistogram(t *testing.T) {
	b := NewBuilder()
	m := b.Map("@x", func() MapBuilder {
		x := MapBuilder{Histogram: true, Range: func(i int) (int64, int64) { return int64(i), int64(i) }}
		x.Name, x.Shape, x.Scalar = "@x", "hist", true
		return x
	})
	m.Show(1, []Element{{Buckets: []uint64{0, 0, 5, 0, 1}}}, false)
	m.Show(2, []Element{{Buckets: []uint64{0, 0, 6, 0, 1, 3}}}, false)
	d := b.Finish().Maps[0]
	text, err := json.Marshal([]any{d.Bounds, d.Columns})
	if err != nil {
		t.Fatal(err)
	}
	if want := `[[[2,2],[3,3],[4,4],[5,5]],[{"r":[0,0],"a":[5,1],"b":[0,2]},{"r":[0,0],"a":[1,3],"b":[0,3]}]]`; string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// TestLevels checks that a map of values, such as max(), has the value at the end of each column.
func TestLevels(t *testing.T) {
	b := NewBuilder()
	m := b.Map("@x", func() MapBuilder {
		x := MapBuilder{Names: []string{"comm"}}
		x.Name, x.Shape, x.Level = "@x", "max", true
		return x
	})
	for i := range 700 {
		m.Show(float64(i), []Element{count("a", uint64(i))}, false)
	}
	d := b.Finish().Maps[0]
	last := d.Columns[len(d.Columns)-1]
	if d.Joined != 2 || len(d.Columns) != 350 || last.A[0].Value != 699 {
		t.Errorf("%d columns of %d, which end with %v", len(d.Columns), d.Joined, last)
	}
}

// TestTree checks the tree of stacks: equal paths are one node, and children are in order of name.
func TestTree(t *testing.T) {
	b := NewBuilder()
	m := b.Map("@x", func() MapBuilder {
		x := MapBuilder{Names: []string{"comm"}}
		x.Name, x.Shape = "@x", "count"
		return x
	})
	path := func(names ...string) (p []int) {
		for i, name := range names {
			kind := "u"
			if i == 0 {
				kind = "l"
			}
			p = append(p, b.Frame(name, kind))
		}
		return p
	}
	m.Show(1, []Element{
		{Parts: []string{"sh"}, Path: path("sh", "main", "read"), A: 2},
		{Parts: []string{"sh"}, Path: path("sh", "main", "poll"), A: 3, Cut: CutDepth},
		{Parts: []string{"sh"}, Path: path("sh", "main"), A: 1},
		{Parts: []string{"sh"}, Path: path("sh", "main", "read"), A: 5}, // another address in the same functions
	}, false)
	d := b.Finish()
	tree := d.Maps[0].Tree
	var lines []string
	for i := range tree.Depth {
		lines = append(lines, strings.Repeat(" ", tree.Depth[i])+d.Frames[tree.Frame[i]].Name)
	}
	if got, want := strings.Join(lines, "\n"), "sh\n main\n  poll\n  read"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := fmt.Sprint(tree.Leaf), "[3 2 1]"; got != want {
		t.Errorf("leaves %s, want %s", got, want)
	}
	if a, _ := sum(d.Maps[0], 0); a != 7 {
		t.Errorf("equal stacks are %d, want 7", a)
	}
	if c := d.Maps[0].Cut; c == nil || c.Depth.Value != 3 || c.Of.Value != 11 {
		t.Errorf("cut stacks are %+v", c)
	}
}

// TestLargeMap checks that a map with many elements is cut to the largest, and that the page says what the others have.
func TestLargeMap(t *testing.T) {
	b := NewBuilder()
	m := counts(b)
	var elems []Element
	total := uint64(0)
	for i := range maxRows + 10 {
		elems = append(elems, count(fmt.Sprint("key", i), uint64(i)))
		total += uint64(i)
	}
	m.Show(1, elems, false)
	d := b.Finish().Maps[0]
	shown := uint64(0)
	for _, n := range d.Columns[0].A {
		shown += n.Value
	}
	if d.Rows != maxRows || d.Omitted.Rows != 10 || d.Omitted.Value.Value != 45 || shown+45 != total {
		t.Errorf("%d rows with %d of %d, omitted %+v", d.Rows, shown, total, d.Omitted)
	}
}

// TestLines checks that lines end where the script ends them, and that their text is harmless.
func TestLines(t *testing.T) {
	b := NewBuilder()
	b.Print(1, Call{"printf", 3}, "", "a ", -1)
	b.Print(2, Call{"printf", 4}, "", "b\nc\x1b[2J\td\u202e\n", 77)
	b.Print(3, Call{"printf", 4}, "", "no end", -1)
	e := b.Finish().Events
	if got, want := fmt.Sprintf("%q", e.Texts), `["a b" "c\\x1b[2J        d\\u202e" "no end"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(e.T, e.Call), "[1000 1000 1000] [0 1 1]"; got != want {
		t.Errorf("times and calls are %s, want %s", got, want)
	}
}

// TestBanner checks that a page does not have a line that says how to end a run, if it is the only one.
func TestBanner(t *testing.T) {
	for _, tc := range []struct {
		lines []string
		want  bool
	}{
		{[]string{"Tracing block I/O... Hit Ctrl-C to end.\n"}, false}, {[]string{"Tracing. ^C ends it\n"}, false}, {[]string{"Hit Ctrl-C to end.\n", "sh 7\n"}, true}, {[]string{"vertical_c\n"}, true},
	} {
		b := NewBuilder()
		for _, text := range tc.lines {
			b.Print(1, Call{"printf", 3}, "", text, -1)
		}
		if d := b.Finish(); (d.Events != nil) != tc.want {
			t.Errorf("%q: the page has them: %v", tc.lines, d.Events != nil)
		}
	}
}

// TestHostNames checks that a host is one host whatever its name is, and that many do not take long.
func TestHostNames(t *testing.T) {
	b := NewBuilder()
	for i := range 100_000 {
		b.Print(float64(i), Call{"printf", 1}, "a\u202e", "x\n", -1)
		b.Print(float64(i), Call{"printf", 1}, fmt.Sprintf("%06d", i), "x\n", -1)
	}
	b.Data.Merged = true
	if d := b.Finish(); len(d.Events.Hosts) != 100_001 || d.Events.Hosts[0] != `a\u202e` {
		t.Errorf("%d hosts, of which the first is %s", len(d.Events.Hosts), d.Events.Hosts[0])
	}
}

// TestNumbers checks that integers that JavaScript cannot represent are strings.
func TestNumbers(t *testing.T) {
	for _, x := range []struct {
		n    Number
		want string
	}{
		{Number{5, false}, "5"}, {Number{math.MaxUint64, false}, `"18446744073709551615"`}, {Number{math.MaxUint64, true}, "-1"},
		{Number{1 << 53, true}, "9007199254740992"}, {Number{1<<53 + 1, true}, `"9007199254740993"`}, {Number{1 << 63, true}, `"-9223372036854775808"`},
	} {
		if got, err := json.Marshal(x.n); err != nil || string(got) != x.want {
			t.Errorf("%+v is %s, want %s (%v)", x.n, got, x.want, err)
		}
	}
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// unpack returns the JSON and the arrays of a compressed element.
func unpack(t *testing.T, text string) (head, arrays []byte) {
	t.Helper()
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	at := 4 + binary.LittleEndian.Uint32(raw)
	if at%8 != 0 {
		t.Errorf("arrays begin at %d", at)
	}
	return raw[4:at], raw[at:]
}

// TestArrays checks the types of arrays: the smallest one that has all values, at an offset that it can be read from.
func TestArrays(t *testing.T) {
	for _, x := range []struct {
		all  []int
		want string
	}{
		{[]int{0, 255}, "u1,8,2"}, {[]int{-128, 127}, "i1,8,2"}, {[]int{0, 256}, "u2,8,2"}, {[]int{-129, 0}, "i2,8,2"}, {[]int{0, 1 << 16}, "u4,8,2"},
		{[]int{-1, 1 << 16}, "i4,8,2"}, {[]int{0, 1 << 32}, "f8,8,2"}, {[]int{-1, exact}, "f8,8,2"}, {[]int{}, "u1,5,0"},
	} {
		p := packer{arrays: make([]byte, 5)}
		for len(x.all) > 0 && len(p.arrays) < 8 {
			p.arrays = append(p.arrays, 1)
		}
		if got := p.ints(x.all); got != x.want {
			t.Errorf("%v is %v, want %s", x.all, got, x.want)
		}
	}
	p := packer{arrays: make([]byte, 1)}
	if got := p.ints([]int{1 << 20}); got != "u4,4,1" || !bytes.Equal(p.arrays[4:], []byte{0, 0, 16, 0}) {
		t.Errorf("%v in %v", got, p.arrays)
	}
	large := []Number{{exact + 1, false}}
	if got := fmt.Sprint(p.numbers(large)); got != fmt.Sprint(large) || len(p.arrays) != 8 {
		t.Errorf("a number that JavaScript cannot represent is %v", got)
	}
	if got := p.numbers([]Number{{math.MaxUint64, true}}); got != "i1,8,1" {
		t.Errorf("-1 is %v", got)
	}
	if got := p.strings([]string{"a", "", "b"}); got != "s,9,4" || string(p.arrays[9:]) != "a\x00\x00b" {
		t.Errorf("strings are %v in %q", got, p.arrays)
	}
	if got := fmt.Sprint(p.strings([]string{"a\x00"})); got != "[a\x00]" {
		t.Errorf("a string with a zero is %q", got)
	}
}

// hostile has what a page must not run.
const hostile = "</script><script>alert(1)</script><!-- \u2028 \"'&"

// TestHostile checks that data ends no element of the page, compressed or not, and that the policy allows only the script and the
// style that are in the page.
func TestHostile(t *testing.T) {
	for _, repeat := range []int{1, 2000} {
		b := NewBuilder()
		b.Data.File, b.Data.Script.Source = hostile, "begin { }\n"+hostile
		for i := range repeat {
			b.Print(float64(i), Call{"printf", 1}, hostile, fmt.Sprint(hostile, i, "\n"), -1)
		}
		d := b.Finish()
		var out bytes.Buffer
		if err := Write(&out, d, d); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if strings.Contains(text, "alert(1)</script>") || strings.Contains(text, "<!-- ") {
			t.Error("data is in the page as it is")
		}
		scripts := regexp.MustCompile(`(?s)<script([^>]*)>(.*?)</script>`).FindAllStringSubmatch(text, -1)
		own := slices.IndexFunc(scripts, func(s []string) bool { return s[1] == "" })
		if len(scripts) != 3+2*min(repeat-1, 1) || own != 2 || scripts[own][2] != JavaScript() {
			t.Fatalf("%d scripts, own %d", len(scripts), own)
		}
		if !strings.Contains(text, "'sha256-"+digest(scripts[own][2])+"'") {
			t.Error("the policy is for another script")
		}
		raw := []byte(scripts[0][2])
		if strings.Contains(scripts[0][1], "base64") != (repeat > 1) {
			t.Errorf("%d lines: %s", repeat, scripts[0][1])
		}
		if repeat > 1 {
			raw, _ = unpack(t, scripts[0][2])
			if lines, arrays := unpack(t, scripts[3][2]); !bytes.Contains(lines, []byte(`"t":"u2,`)) || bytes.Count(arrays, []byte("alert(1)")) != repeat {
				t.Errorf("the lines are %.200s", lines)
			}
		}
		var loose map[string]any
		if err := json.Unmarshal(raw, &loose); err != nil || loose["file"] != hostile {
			t.Errorf("the data is %.200s: %v", raw, err)
		}
	}
}
