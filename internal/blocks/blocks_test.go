// SPDX-License-Identifier: Apache-2.0

package blocks

import (
	"math"
	"slices"
	"strings"
	"testing"
)

var nan = float32(math.NaN())

// line returns a line with numbers.
func line(text string, kind Kind, values ...float32) Line {
	return Line{Text: []byte(text), Values: values, Kind: kind}
}

func drawn(lines []Line, columns int, color bool) []string {
	var all []string
	for _, l := range Draw(lines, columns, color) {
		all = append(all, string(l))
	}
	return all
}

func TestDraw(t *testing.T) {
	bars := line("8 |", Bars, 0, 3, 8, 99, -2)
	bars.Tint = 8
	for _, x := range []struct {
		name    string
		lines   []Line
		columns int
		color   bool
		want    []string
	}{
		{"text", []Line{line("@x: 1", Rate)}, 80, true, []string{"@x: 1"}},
		{"rate", []Line{line("@x: 1", Rate, nan, 0, 50, 100)}, 80, true, []string{"@x: 1  ▁▄█"}},
		{"negative", []Line{line("@x: 1", Rate, -100, 0, 100)}, 80, false, []string{"@x: 1 ▁▄█"}},
		{"level", []Line{line("@x: 1", Level, 1000, 1001, 1002)}, 80, false, []string{"@x: 1 ▁▄█"}},
		{"equal", []Line{line("@x: 1", Level, 7, 7), line("@y: 1", Rate, 0, 0), line("@z: 1", Rate, 3, 3)}, 80, false, []string{"@x: 1 ▄▄", "@y: 1 ▁▁", "@z: 1 ██"}},
		{"none", []Line{line("@x: 1", Level, nan, nan)}, 80, false, []string{"@x: 1   "}},
		{"aligned", []Line{line("@x: 1", Rate, 1, 2), line("@long: 1", Rate, 1, 2), line("", Rate), line("@y: 1", Rate, 1, 2)}, 80, false, []string{"@x: 1    ▄█", "@long: 1 ▄█", "", "@y: 1 ▄█"}},
		{"heat", []Line{line("2 |", Heat, 0, 1, 100), line("1 |", Heat, 50, 25, 75)}, 80, false, []string{"2 |  ░█", "1 | ▒░▓"}},
		{"colors", []Line{line("2 |", Heat, 0, 1, 100), line("1 |", Heat, 100, 100, 50)}, 80, true, []string{"2 |  \x1b[34m█\x1b[31m█\x1b[m", "1 | \x1b[31m██\x1b[36m█\x1b[m"}},
		{"bars", []Line{bars}, 80, false, []string{"8 |  ▃██ "}},
		{"bars in color", []Line{bars}, 80, true, []string{"8 |  \x1b[31m▃██ \x1b[m"}},
		{"the latest", []Line{line("@x: 1", Rate, 1, 2, 3, 4, 5, 6, 7, 8)}, 11, false, []string{"@x: 1 ▄▅▆▇█"}},
		{"no room", []Line{line("@x: 1", Rate, 1, 2, 3, 4, 5, 6, 7, 8)}, 9, false, []string{"@x: 1"}},
		{"no columns", []Line{line("", Rate, 1, 2, 3, 4, 5)}, -1, false, []string{""}},
		{"a long text", []Line{line("@x[a long key]: 1", Rate, 1, 2, 3, 4, 5, 6, 7, 8), line("@x: 1", Rate, 1, 2, 3, 4, 5, 6, 7, 8)}, 24, false, []string{"@x[a long key]: 1 ▃▄▅▆▇█", "@x: 1            ▂▃▄▅▆▇█"}},
		{"wide characters", []Line{line("@中: 1", Rate, 1, 2, 3, 4, 5, 6), line("@xyz: 1", Rate, 1, 2, 3, 4, 5, 6)}, 80, false, []string{"@中: 1  ▂▃▄▅▆█", "@xyz: 1 ▂▃▄▅▆█"}},
	} {
		if got := drawn(x.lines, x.columns, x.color); !slices.Equal(got, x.want) {
			t.Errorf("%s:\n%q, want\n%q", x.name, got, x.want)
		}
	}
}

func TestPossible(t *testing.T) {
	for env, want := range map[string]bool{
		"LANG=en_US.UTF-8":                  true,
		"LANG=C.utf8":                       true,
		"LANG=C":                            false,
		"":                                  false,
		"LC_ALL=C LANG=en_US.UTF-8":         false,
		"LC_CTYPE=C.UTF-8 LANG=C":           true,
		"LC_ALL=C.UTF-8 TERM=dumb":          false,
		"LC_ALL=C.UTF-8 TERM=xterm":         true,
		"LC_CTYPE=de_DE.ISO-8859-1 LANG=C8": false,
	} {
		vars := map[string]string{}
		for _, v := range strings.Fields(env) {
			name, value, _ := strings.Cut(v, "=")
			vars[name] = value
		}
		if got := Possible(func(name string) string { return vars[name] }); got != want {
			t.Errorf("%s: %t, want %t", env, got, want)
		}
	}
}
