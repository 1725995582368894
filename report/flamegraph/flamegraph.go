// SPDX-License-Identifier: Apache-2.0

// Package flamegraph draws a profile as a flame graph: one SVG file that needs nothing else, with zoom, search and
// details inside.
//
// It takes a profile, and writes the picture. The same profile gives the same bytes. Names may contain anything: they
// are escaped, and characters that cannot be printed are shown as \x1b and \u202e.
package flamegraph

import (
	"bufio"
	_ "embed" // the style and the script of the picture
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"btc/internal/profile"
)

// Options are what a picture shows besides the stacks.
type Options struct {
	Title string // "": Flame graph
	// About is the second line, such as the question and the script; "": the profile's comment.
	About string
	// MinWidth is the share of the total below which boxes are drawn as one; 0: DefaultMinWidth.
	MinWidth float64
}

// DefaultMinWidth is a tenth of a pixel.
const DefaultMinWidth = 0.1 / (width - 2*margin)

// Sizes in pixels.
const (
	width    = 1200
	margin   = 10
	row      = 17 // height of a box with the gap above it
	header   = 66
	footer   = 32
	fontSize = 12
	glyph    = 7.2 // width of a character
)

// maxBoxes bounds the size of the picture: with more boxes, the narrowest are drawn as one.
const maxBoxes = 20000

//go:embed flamegraph.css
var style string

//go:embed flamegraph.js
var script string

// Kinds of boxes, which have colors of their own.
const (
	user    = "u"
	kernel  = "k"
	inlined = "i"
	label   = "l" // a part of the key, such as the name of the process
	merged  = "o" // several narrow boxes
	root    = "r"
)

// shades is the number of colors of a kind.
const shades = 6

// box is a node of the tree of stacks.
type box struct {
	name     string
	kind     string
	value    int64
	start    int64 // sum of the values to the left
	depth    int
	children []*box // in order of their names
}

// name is a name of a box as it is drawn, with its kind.
type name struct{ text, kind string }

// Write draws the last value of a profile's samples. Samples with a negative value have no area; their number is shown.
func Write(w io.Writer, p *profile.Profile, o Options) error {
	if len(p.Types) == 0 {
		return fmt.Errorf("the profile has no values")
	}
	typ := p.Types[len(p.Types)-1]
	all, negative := tree(p)
	minWidth := o.MinWidth
	if minWidth == 0 {
		minWidth = DefaultMinWidth
	}
	least := threshold(all, int64(minWidth*float64(all.value)))
	boxes := visible(nil, all, least)
	depth := 0
	for _, b := range boxes {
		depth = max(depth, b.depth)
	}
	out := bufio.NewWriterSize(w, 1<<16)
	height := header + (depth+1)*row + footer
	title, about := o.Title, o.About
	if title == "" {
		title = "Flame graph"
	}
	if about == "" {
		about = p.Comment
	}
	total := amount(all.value, typ)
	if p.Duration > 0 {
		total += " in " + amount(int64(p.Duration), profile.Type{Unit: "nanoseconds"})
	}
	if negative > 0 {
		total += fmt.Sprintf("; %d stacks with a negative value are left out", negative)
	}
	fmt.Fprintf(out, `<?xml version="1.0" encoding="UTF-8" standalone="no"?>
<svg xmlns="http://www.w3.org/2000/svg" version="1.1" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="img">
<title>%[3]s</title>
<style>%[4]s</style>
<rect class="bg" width="%[1]d" height="%[2]d"/>
<text class="title" x="%[5]d" y="24" text-anchor="middle">%[3]s</text>
<text class="about" x="%[5]d" y="44" text-anchor="middle">%[6]s</text>
<text id="total" class="about" x="%[5]d" y="60" text-anchor="middle">%[7]s</text>
<text id="reset" class="button" x="%[8]d" y="24">Reset zoom</text>
<text id="matched" class="about" x="%[9]d" y="44" text-anchor="end"></text>
<text id="details" x="%[8]d" y="%[10]d"> </text>
<g id="boxes">
`, width, height, escaped(title), style, width/2, escaped(cut(about, width-2*margin)), escaped(total), margin, width-margin, height-12)
	for _, b := range boxes {
		b.write(out, all.value, height, typ)
	}
	fmt.Fprintf(out, "</g>\n<foreignObject id=\"tools\" x=\"%d\" y=\"8\" width=\"210\" height=\"26\"></foreignObject>\n<script type=\"text/ecmascript\"><![CDATA[\n%s]]></script>\n</svg>\n", width-margin-210, script)
	return out.Flush()
}

// tree returns the tree of the samples' stacks, and the number of samples with a negative value.
func tree(p *profile.Profile) (all *box, negative int) {
	ids := map[name]int32{}
	var names []name
	intern := func(n name) int32 {
		id, ok := ids[n]
		if !ok {
			id = int32(len(names))
			ids[n] = id
			names = append(names, n)
		}
		return id
	}
	frames := make([]int32, len(p.Frames))
	for i := range p.Frames {
		f := &p.Frames[i]
		kind := user
		switch {
		case f.Kernel:
			kind = kernel
		case f.Inlined:
			kind = inlined
		}
		frames[i] = intern(name{profile.Printable(p.Show(f)), kind})
	}
	type stack struct {
		path  []int32
		value int64
	}
	var stacks []stack
	for i := range p.Samples {
		s := &p.Samples[i]
		value := s.Values[len(s.Values)-1]
		if value < 0 {
			negative++
		}
		if value <= 0 {
			continue
		}
		path := make([]int32, 0, len(s.Labels)+len(s.Frames))
		for _, text := range s.Labels {
			if text != "" {
				path = append(path, intern(name{profile.Printable(text), label}))
			}
		}
		for _, f := range s.Frames {
			path = append(path, frames[f])
		}
		stacks = append(stacks, stack{path, value})
	}
	rank := make([]int32, len(names)) // of each name in the order of all
	order := make([]int32, len(names))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		if c := strings.Compare(names[a].text, names[b].text); c != 0 {
			return c
		}
		return strings.Compare(names[a].kind, names[b].kind)
	})
	for i, id := range order {
		rank[id] = int32(i)
	}
	for i := range stacks {
		for j, id := range stacks[i].path {
			stacks[i].path[j] = rank[id]
		}
	}
	slices.SortFunc(stacks, func(a, b stack) int { return slices.Compare(a.path, b.path) })
	all = &box{name: "all", kind: root}
	open := []*box{all} // the boxes of the last stack
	var room []box
	var last []int32
	for _, s := range stacks {
		same := 0
		for same < len(last) && same < len(s.path) && last[same] == s.path[same] {
			same++
		}
		open = open[:same+1]
		for _, id := range s.path[same:] {
			parent := open[len(open)-1]
			n := names[order[id]]
			if len(room) == 0 {
				room = make([]box, 1024)
			}
			b := &room[0]
			room = room[1:]
			*b = box{name: n.text, kind: n.kind, start: all.value, depth: parent.depth + 1}
			parent.children = append(parent.children, b)
			open = append(open, b)
		}
		for _, b := range open {
			b.value += s.value
		}
		last = s.path
	}
	return all, negative
}

// threshold returns the value that a box needs to be drawn by itself: at least least, and so large that there are not
// more than maxBoxes.
func threshold(all *box, least int64) int64 {
	var values []int64
	var walk func(b *box)
	walk = func(b *box) {
		if b.value > least {
			values = append(values, b.value)
			for _, c := range b.children {
				walk(c)
			}
		}
	}
	walk(all)
	if len(values) <= maxBoxes {
		return least
	}
	slices.Sort(values)
	return max(least, values[len(values)-maxBoxes])
}

// visible appends a box and those above it. Adjacent boxes with at most the value least are one.
func visible(dst []*box, b *box, least int64) []*box {
	dst = append(dst, b)
	var narrow *box
	count := 0
	end := func() {
		if narrow != nil && narrow.value > least {
			narrow.name = fmt.Sprintf("%d narrow boxes", count)
			dst = append(dst, narrow)
		}
		narrow, count = nil, 0
	}
	for _, c := range b.children {
		if c.value > least {
			end()
			dst = visible(dst, c, least)
			continue
		}
		if narrow == nil {
			narrow = &box{kind: merged, start: c.start, depth: c.depth}
		}
		narrow.value += c.value
		count++
	}
	end()
	return dst
}

// maxTitle bounds the name in the title of a box, in bytes: a process chooses its symbols, and browsers fail on larger files.
const maxTitle = 4096

// write draws a box.
func (b *box) write(out *bufio.Writer, total int64, height int, typ profile.Type) {
	scale := float64(width-2*margin) / float64(max(total, 1))
	x, w := margin+float64(b.start)*scale, float64(b.value)*scale
	if total == 0 {
		w = width - 2*margin
	}
	y := height - footer - (b.depth+1)*row
	out.WriteString(`<g><title>`)
	name := b.name
	if len(name) > maxTitle {
		name = strings.ToValidUTF8(name[:maxTitle], "") + ".."
	}
	out.WriteString(escaped(name))
	fmt.Fprintf(out, " (%s, %.2f%%)</title><rect class=\"%s\" x=\"%s\" y=\"%d\" width=\"%s\" height=\"%d\" rx=\"1\"/>",
		amount(b.value, typ), 100*float64(b.value)/float64(max(total, 1)), b.class(), pixels(x), y, pixels(w), row-1)
	if text := cut(b.name, w-6); text != "" {
		fmt.Fprintf(out, `<text x="%s" y="%d">%s</text>`, pixels(x+3), y+row-5, escaped(text))
	}
	out.WriteString("</g>\n")
}

// class returns the class of a box's color, which depends on its kind and name only.
func (b *box) class() string {
	if b.kind == root || b.kind == merged {
		return b.kind
	}
	h := fnv.New32a()
	h.Write([]byte(b.name))
	return b.kind + strconv.Itoa(int(h.Sum32()%shades))
}

func pixels(x float64) string { return strconv.FormatFloat(float64(int64(x*100+0.5))/100, 'f', -1, 64) }

// cut shortens text to a width in pixels; "" if too little would be left.
func cut(text string, w float64) string {
	n := int(w / glyph)
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	if n < 3 {
		return ""
	}
	runes := []rune(text)
	return string(runes[:n-2]) + ".."
}

var entities = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")

// escaped returns text for XML.
func escaped(text string) string { return entities.Replace(profile.Printable(text)) }

// amount formats a value with its unit.
func amount(v int64, t profile.Type) string {
	f := float64(v)
	steps := map[string]struct {
		unit float64
		list []string
		by   []float64
	}{
		"nanoseconds": {1, []string{"ns", "µs", "ms", "s"}, []float64{1, 1e3, 1e6, 1e9}}, "microseconds": {1e3, []string{"ns", "µs", "ms", "s"}, []float64{1, 1e3, 1e6, 1e9}},
		"milliseconds": {1e6, []string{"ns", "µs", "ms", "s"}, []float64{1, 1e3, 1e6, 1e9}}, "seconds": {1e9, []string{"ns", "µs", "ms", "s"}, []float64{1, 1e3, 1e6, 1e9}},
		"bytes": {1, []string{"B", "KiB", "MiB", "GiB", "TiB"}, []float64{1, 1 << 10, 1 << 20, 1 << 30, 1 << 40}}, "kilobytes": {1 << 10, []string{"B", "KiB", "MiB", "GiB", "TiB"}, []float64{1, 1 << 10, 1 << 20, 1 << 30, 1 << 40}},
	}
	s, ok := steps[t.Unit]
	if !ok {
		text := thousands(v)
		switch {
		case t.Unit == "count" && t.Name == "samples":
			return text + " " + strings.TrimSuffix("samples", plural(v))
		case t.Unit != "count" && t.Unit != "":
			return text + " " + profile.Printable(t.Unit)
		}
		return text
	}
	f *= s.unit
	i := 0
	for i+1 < len(s.by) && f >= s.by[i+1] {
		i++
	}
	return strconv.FormatFloat(f/s.by[i], 'f', min(i, 2), 64) + " " + s.list[i]
}

// plural returns the "s" that a number of one does not have.
func plural(v int64) string {
	if v == 1 {
		return "s"
	}
	return ""
}

// thousands formats a number with commas.
func thousands(v int64) string {
	text := strconv.FormatInt(v, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
