// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// figure is a quantity measured several times.
type figure struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
}

func summarize(all []float64) figure {
	if len(all) == 0 {
		return figure{Median: math.NaN()}
	}
	s := slices.Sorted(slices.Values(all))
	m := s[len(s)/2]
	if len(s)%2 == 0 {
		m = (m + s[len(s)/2-1]) / 2
	}
	return figure{Median: m, Min: s[0], Max: s[len(s)-1], N: len(s)}
}

func exactly(v float64) figure { return figure{v, v, v, 1} }

func (f figure) String() string {
	if f.N == 0 {
		return "" // nothing to compare with
	}
	if f.Min == f.Max {
		return number(f.Median)
	}
	return fmt.Sprintf("%s (%s..%s)", number(f.Median), number(f.Min), number(f.Max))
}

func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// row compares one quantity of the two sides. Ratio is btc / bpftrace, or 0 if there is none.
type row struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Btc   figure  `json:"btc"`
	Ref   figure  `json:"bpftrace"`
	Ratio float64 `json:"ratio"`
	// Spread is the smallest and the largest ratio of paired rounds.
	Spread [2]float64 `json:"spread,omitzero"`
	Note   string     `json:"note,omitempty"`
}

func compared(name, unit string, btc, ref figure) row {
	r := row{Name: name, Unit: unit, Btc: btc, Ref: ref}
	if ref.Median != 0 {
		r.Ratio = btc.Median / ref.Median
	}
	return r
}

// paired compares rounds with the same index, which ran one after the other.
func paired(name, unit string, btc, ref []float64) row {
	r := compared(name, unit, summarize(btc), summarize(ref))
	for i := range min(len(btc), len(ref)) {
		if ref[i] == 0 {
			continue
		}
		q := btc[i] / ref[i]
		if r.Spread[0] == 0 || q < r.Spread[0] {
			r.Spread[0] = q
		}
		r.Spread[1] = max(r.Spread[1], q)
	}
	return r
}

func (r row) text(sides [2]string) string {
	s := fmt.Sprintf("%-34s %-10s %s %-24s %s %-26s", r.Name, r.Unit, sides[0], r.Btc, sides[1], r.Ref)
	if ratio := r.ratio(); ratio != "" {
		s += " ratio " + ratio
	}
	if r.Note != "" {
		s += "  " + r.Note
	}
	return s
}

// ratio formats the ratio; "" if there is none.
func (r row) ratio() string {
	if r.Ratio == 0 {
		return ""
	}
	n := digits(r.Ratio)
	s := fmt.Sprintf("%.*f", n, r.Ratio)
	if r.Spread[1] != 0 {
		s += fmt.Sprintf(" (%.*f..%.*f)", n, r.Spread[0], n, r.Spread[1])
	}
	return s
}

// digits is the number of digits after the point with which a ratio is shown.
func digits(ratio float64) int {
	if ratio < 0.01 {
		return 4
	}
	return 2
}

// largerIsBetter begins the note of a row whose ratio is better above 1.
const largerIsBetter = "larger is better"

// axis is a table of results.
type axis struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Sides are the names of the two sides, if they are not btc and bpftrace.
	Sides [2]string `json:"sides,omitzero"`
	Rows  []row     `json:"rows"`
	Mean  []mean    `json:"means,omitempty"`
	Notes []string  `json:"notes,omitempty"`
	// Host describes the machine and the time; the axis may come from an earlier run.
	Host string `json:"host"`
}

// mean is a summary of ratios together with its goal.
type mean struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Goal  float64 `json:"goal"`
}

func (m mean) String() string {
	s := fmt.Sprintf("%s: %.3f", m.What, m.Value)
	switch {
	case m.Goal == 0:
	case m.Value <= m.Goal:
		s += fmt.Sprintf(" (goal %g: reached)", m.Goal)
	default:
		s += fmt.Sprintf(" (goal %g: missed)", m.Goal)
	}
	return s
}

// geometric returns the geometric mean of ratios, ignoring those that are not positive.
func geometric(rows []row) float64 {
	sum, n := 0.0, 0
	for _, r := range rows {
		if r.Ratio > 0 && !math.IsInf(r.Ratio, 0) {
			sum += math.Log(r.Ratio)
			n++
		}
	}
	return math.Exp(sum / float64(max(n, 1)))
}

func largest(rows []row) float64 {
	v := 0.0
	for _, r := range rows {
		v = max(v, r.Ratio)
	}
	return v
}

func (a *axis) add(r row) {
	a.Rows = append(a.Rows, r)
	fmt.Println(r.text(a.sides()))
}

// sides returns the names of the two compared sides.
func (a *axis) sides() [2]string {
	if a.Sides[0] == "" {
		return [2]string{"btc", "bpftrace"}
	}
	return a.Sides
}

func (a *axis) mean(what string, value, goal float64) {
	a.Mean = append(a.Mean, mean{what, value, goal})
	fmt.Println("  ", a.Mean[len(a.Mean)-1])
}

func (a *axis) note(format string, args ...any) {
	a.Notes = append(a.Notes, fmt.Sprintf(format, args...))
	fmt.Println("  ", a.Notes[len(a.Notes)-1])
}

// result holds all measurements.
type result struct {
	// Host describes the machine of the current run.
	Host string `json:"-"`
	Axes []axis `json:"axes"`
}

// put adds an axis of this run, or replaces the one with its name.
func (r *result) put(a axis) {
	if a.Host == "" {
		a.Host = r.Host
	}
	for i := range r.Axes {
		if r.Axes[i].Name == a.Name {
			r.Axes[i] = a
			return
		}
	}
	r.Axes = append(r.Axes, a)
}

func (r *result) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	b, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"bench.json": string(b) + "\n", "bench.md": r.markdown(), "bench.svg": r.svg()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (r *result) markdown() string {
	var b strings.Builder
	b.WriteString("# Benchmarks: btc against bpftrace\n\n")
	wrap(&b, "`make bench` runs both programs in turn on one machine, and writes this page. Each section names the machine, "+
		"the versions and the load.", "")
	b.WriteString("\n")
	wrap(&b, "The figures are medians, with the smallest and largest round in brackets. The ratio is btc / bpftrace: below 1, "+
		"btc is cheaper, unless the row says that larger is better. Goals are btc's own, and those that are missed are listed, "+
		"too. The scripts are in `tests/bench/events` (cost of an event), and in `examples` and `tests/corpus` (instructions).", "")
	b.WriteString("\n![ratios](bench.svg)\n")
	for _, a := range r.Axes {
		fmt.Fprintf(&b, "\n## %s\n\n", a.Title)
		wrap(&b, "Measured: "+a.Host+".", "")
		b.WriteString("\n")
		for _, m := range a.Mean {
			wrap(&b, "* "+m.String(), "  ")
		}
		for _, n := range a.Notes {
			wrap(&b, "* "+n, "  ")
		}
		sides := a.sides()
		fmt.Fprintf(&b, "\n| what | unit | %s | %s | ratio |\n|---|---|---|---|---|\n", sides[0], sides[1])
		for _, w := range a.Rows {
			name := w.Name
			if w.Note != "" {
				name += " (" + w.Note + ")"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", strings.ReplaceAll(name, "|", "\\|"), w.Unit, w.Btc, w.Ref, w.ratio())
		}
	}
	return b.String()
}

// wrap writes a paragraph in lines of at most 100 columns, the width of the documents; all lines but
// the first are indented.
func wrap(b *strings.Builder, paragraph, indent string) {
	const columns = 100
	line := 0
	for i, word := range strings.Fields(paragraph) {
		switch n := utf8.RuneCountInString(word); {
		case i == 0:
			line = n
		case line+1+n > columns:
			b.WriteString("\n" + indent)
			line = len(indent) + n
		default:
			b.WriteString(" ")
			line += 1 + n
		}
		b.WriteString(word)
	}
	b.WriteString("\n")
}

// svg draws the ratios of each axis as bars on a logarithmic scale. The line in the middle is 1;
// bars to its left favour btc.
func (r *result) svg() string {
	const left, right, height, width = 300, 40, 16, 900
	lines := 2
	axes := slices.DeleteFunc(slices.Clone(r.Axes), func(a axis) bool { return a.Sides[0] != "" })
	for i, a := range axes {
		axes[i].Rows = slices.DeleteFunc(slices.Clone(a.Rows), func(w row) bool { return w.Ratio == 0 })
		lines += min(len(a.Rows), svgRows) + 2
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n", width, lines*height)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	scale := func(ratio float64) float64 {
		v := math.Log10(min(max(ratio, 0.001), 10)) + 3 // 0.001 to 10
		return left + v/4*(width-left-right)
	}
	y := height
	fmt.Fprintf(&b, `<text x="8" y="%d">btc / bpftrace, logarithmic; shorter is better</text>`+"\n", y)
	y += height
	for _, v := range []float64{0.001, 0.01, 0.1, 0.5, 1, 10} {
		colour := "#ccc"
		if v == 1 {
			colour = "#666"
		}
		fmt.Fprintf(&b, `<line x1="%.0f" x2="%.0f" y1="%d" y2="%d" stroke="%s"/><text x="%.0f" y="%d" fill="#666" text-anchor="middle">%g</text>`+"\n",
			scale(v), scale(v), y, lines*height, colour, scale(v), y-3, v)
	}
	for _, a := range axes {
		y += height
		fmt.Fprintf(&b, `<text x="8" y="%d" font-weight="bold">%s</text>`+"\n", y, xmlText(a.Title))
		rows := a.Rows
		if len(rows) > svgRows {
			rows = spaced(rows)
		}
		for _, w := range rows {
			y += height
			if strings.HasPrefix(w.Note, largerIsBetter) {
				w.Name, w.Ratio = w.Name+" (inverse)", 1/w.Ratio
			}
			colour := "#3a7"
			if w.Ratio > 1 {
				colour = "#c43"
			}
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text><rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/><text x="%.1f" y="%d">%.*f</text>`+"\n",
				left-6, y, xmlText(w.Name), left, y-10, max(scale(w.Ratio)-left, 1), height-4, colour, max(scale(w.Ratio), left)+4, y, digits(w.Ratio), w.Ratio)
		}
		y += height
	}
	return b.String() + "</svg>\n"
}

// svgRows is the maximum number of rows of an axis in the picture.
const svgRows = 32

// spaced selects rows of an axis such that the picture shows its whole range.
func spaced(rows []row) []row {
	s := slices.Clone(rows)
	slices.SortFunc(s, func(a, b row) int {
		switch {
		case a.Ratio < b.Ratio:
			return -1
		case a.Ratio > b.Ratio:
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	var out []row
	for i := range svgRows {
		out = append(out, s[i*(len(s)-1)/(svgRows-1)])
	}
	return out
}

func xmlText(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
