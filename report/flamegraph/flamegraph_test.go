// SPDX-License-Identifier: Apache-2.0

package flamegraph

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"btc/internal/profile"
)

var update = flag.Bool("update", false, "write testdata")

// fold makes a profile of folded stacks.
func fold(typ profile.Type, lines ...string) *profile.Profile {
	b := &profile.Builder{}
	b.Types, b.Labels = []profile.Type{typ}, []string{"comm"}
	for _, line := range lines {
		at := strings.LastIndexByte(line, ' ')
		value, _ := strconv.ParseInt(line[at+1:], 10, 64)
		parts := strings.Split(line[:at], ";")
		s := profile.Sample{Labels: parts[:1], Values: []int64{value}}
		for _, text := range parts[1:] {
			name, isKernel := strings.CutSuffix(text, profile.KernelSuffix)
			name, isInlined := strings.CutSuffix(name, profile.InlinedSuffix)
			s.Frames = append(s.Frames, b.Frame(&profile.Frame{Name: name, Kernel: isKernel, Inlined: isInlined}, "", ""))
		}
		b.Samples = append(b.Samples, s)
	}
	return &b.Profile
}

var samples = profile.Type{Name: "samples", Unit: "count"}

func draw(t *testing.T, p *profile.Profile, o Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, p, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// drawn is a box of a picture.
type drawn struct {
	name, class string
	x, w        float64
	y           int
}

var boxPattern = regexp.MustCompile(`<g><title>(.*) \([^(]*\)</title><rect class="(\w+)" x="([\d.]+)" y="(\d+)" width="([\d.]+)"`)

func boxesOf(svg string) (all []drawn) {
	for _, m := range boxPattern.FindAllStringSubmatch(svg, -1) {
		x, _ := strconv.ParseFloat(m[3], 64)
		y, _ := strconv.Atoi(m[4])
		w, _ := strconv.ParseFloat(m[5], 64)
		all = append(all, drawn{m[1], m[2], x, w, y})
	}
	return all
}

// TestBoxes checks where the boxes of a small profile are.
func TestBoxes(t *testing.T) {
	svg := draw(t, fold(samples, "x;main;read;sys_read_[k] 30", "x;main;small_[i] 10", "y;main 60"), Options{})
	want := []drawn{
		{"all", "r", 10, 1180, 134 - 0}, {"x", "l", 10, 472, 117}, {"main", "u", 10, 472, 100}, {"read", "u", 10, 354, 83}, {"sys_read", "k", 10, 354, 66},
		{"small", "i", 364, 118, 83}, {"y", "l", 482, 708, 117}, {"main", "u", 482, 708, 100},
	}
	got := boxesOf(svg)
	for i := range got {
		got[i].class = got[i].class[:1]
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%v, want\n%v", got, want)
	}
	if !strings.Contains(svg, ">100 samples</text>") || !strings.Contains(svg, "sys_read (30 samples, 30.00%)") {
		t.Error("no total or share")
	}
}

// TestSame checks that the picture does not depend on the order of the samples.
func TestSame(t *testing.T) {
	lines := []string{"x;a;b 1", "x;a;c 2", "y;a 3", "x;a;b 4"}
	want := draw(t, fold(samples, lines...), Options{})
	for range 10 {
		rand.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		if draw(t, fold(samples, lines...), Options{}) != want {
			t.Fatal("the picture differs")
		}
	}
}

// wellFormed checks that a picture is XML without characters that change how text around them looks, and returns its
// text.
func wellFormed(t *testing.T, svg string) (text []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	inScript := false
	for {
		token, err := d.Token()
		if err == io.EOF {
			return text
		}
		if err != nil {
			t.Fatal(err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			inScript = x.Name.Local == "script"
			if !strings.Contains("svg title style rect text g foreignObject script", x.Name.Local) {
				t.Errorf("element %s", x.Name.Local)
			}
			for _, a := range x.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || strings.Contains(a.Name.Local, "href") {
					t.Errorf("attribute %s", a.Name.Local)
				}
			}
		case xml.CharData:
			if !inScript {
				text = append(text, string(x))
			}
			if strings.ContainsAny(string(x), "\u202e\u2066\x1b\x00\x7f") {
				t.Errorf("%q", x)
			}
		}
	}
}

// TestHostile checks names that a traced program chose.
func TestHostile(t *testing.T) {
	names := []string{"<script>alert(1)</script>", "]]><script>alert(1)</script>", `"><rect onload='alert(1)'/>`, "&lt;", "\u202egnp", "\x1b[31m\x00\x7f", "bad\xff", "--><!--", "${x}"}
	b := &profile.Builder{}
	b.Types, b.Labels, b.Comment = []profile.Type{samples}, []string{"comm"}, names[1]
	for _, name := range names {
		b.Samples = append(b.Samples, profile.Sample{Labels: []string{name}, Frames: []uint32{b.Frame(&profile.Frame{Name: name}, "", "")}, Values: []int64{5}})
	}
	svg := draw(t, &b.Profile, Options{Title: names[0]})
	text := strings.Join(wellFormed(t, svg), "\n")
	for _, want := range []string{"<script>alert(1)</script> (5 samples", `\u202egnp (5`, `\x1b[31m\x00\x7f (5`, `bad\xff (5`, "&lt; (5", "]]><script>alert(1)</script> (5"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if n := strings.Count(svg, "<script"); n != 1 {
		t.Errorf("%d scripts", n)
	}
}

// TestEmpty draws profiles without an area.
func TestEmpty(t *testing.T) {
	for _, p := range []*profile.Profile{fold(samples), fold(samples, "x;a 0"), fold(samples, "x;a -5")} {
		svg := draw(t, p, Options{})
		wellFormed(t, svg)
		if got := boxesOf(svg); len(got) != 1 || got[0].w != 1180 {
			t.Errorf("%v", got)
		}
	}
	if svg := draw(t, fold(samples, "x;a -5", "x;b 1"), Options{}); !strings.Contains(svg, "1 sample; 1 stacks with a negative value are left out") {
		t.Error("the negative value is not shown")
	}
	if err := Write(io.Discard, &profile.Profile{}, Options{}); err == nil {
		t.Error("no error without values")
	}
}

// TestNarrow checks that narrow boxes are drawn as one, so that nothing is lost.
func TestNarrow(t *testing.T) {
	var lines []string
	for i := range 20000 {
		lines = append(lines, fmt.Sprintf("x;f%05d;g 1", i))
	}
	lines = append(lines, "x;f10000x 20000")
	svg := draw(t, fold(samples, lines...), Options{})
	got := boxesOf(svg)
	var names []string
	for _, b := range got {
		names = append(names, b.name)
	}
	if want := "[all x 10001 narrow boxes f10000x 9999 narrow boxes]"; fmt.Sprint(names) != want {
		t.Errorf("got %v, want %s", names, want)
	}
	if sum := got[2].w + got[3].w + got[4].w; sum < 1179.9 || sum > 1180.1 {
		t.Errorf("width %g", sum)
	}
}

// random makes a profile of n stacks with a total of total.
func random(n, total int) *profile.Profile {
	r := rand.New(rand.NewPCG(1, 2))
	b := &profile.Builder{}
	b.Types, b.Labels = []profile.Type{samples}, []string{"comm"}
	for range n {
		s := profile.Sample{Labels: []string{fmt.Sprint("process", r.IntN(20))}, Values: []int64{int64(total / n)}}
		for depth := range 10 + r.IntN(50) {
			s.Frames = append(s.Frames, b.Frame(&profile.Frame{Name: fmt.Sprintf("some::name_space::function%d", depth*7+r.IntN(4)), Kernel: depth > 30}, "", ""))
		}
		b.Samples = append(b.Samples, s)
	}
	return &b.Profile
}

// TestLarge draws 20,000 stacks of a million samples, and checks the size of the picture.
func TestLarge(t *testing.T) {
	p := random(20000, 1e6)
	begin := time.Now()
	svg := draw(t, p, Options{})
	t.Logf("%d bytes in %v", len(svg), time.Since(begin))
	boxes := boxesOf(svg)
	if n := len(boxes); n > 2*maxBoxes || n < maxBoxes/10 {
		t.Errorf("%d boxes", n)
	}
	if len(svg) > 8<<20 {
		t.Errorf("%d bytes", len(svg))
	}
	if !strings.Contains(svg, ">1,000,000 samples</text>") {
		t.Error("samples are lost")
	}
}

func BenchmarkWrite(b *testing.B) {
	p := random(20000, 1e6)
	for b.Loop() {
		Write(io.Discard, p, Options{})
	}
}

func TestAmount(t *testing.T) {
	for _, x := range []struct {
		v    int64
		t    profile.Type
		want string
	}{
		{1, samples, "1 sample"}, {1234567, samples, "1,234,567 samples"}, {999, profile.Type{Name: "total", Unit: "count"}, "999"},
		{1500, profile.Type{Unit: "microseconds"}, "1.50 ms"}, {12, profile.Type{Unit: "nanoseconds"}, "12 ns"}, {90, profile.Type{Unit: "seconds"}, "90.00 s"},
		{1536, profile.Type{Unit: "bytes"}, "1.5 KiB"}, {3, profile.Type{Unit: "kilobytes"}, "3.0 KiB"}, {7, profile.Type{Unit: "pages"}, "7 pages"}, {-1234, profile.Type{Unit: "count"}, "-1,234"},
	} {
		if got := amount(x.v, x.t); got != x.want {
			t.Errorf("%d %v: %s, want %s", x.v, x.t, got, x.want)
		}
	}
}

// TestPictures compares pictures with their files. The one of the documents is of samples that btc profile took.
func TestPictures(t *testing.T) {
	text, err := os.ReadFile("testdata/tar.folded")
	if err != nil {
		t.Fatal(err)
	}
	for file, p := range map[string]*profile.Profile{
		"testdata/small.svg":              fold(samples, "x;main;read;sys_read_[k] 30", "x;main;small_[i] 10", "y;main 60"),
		"../../docs/howto/flamegraph.svg": fold(samples, strings.Split(strings.TrimSpace(string(text)), "\n")...),
	} {
		p.Comment, p.Duration = "threads on the CPU, 499 samples a second, command tar cf - /usr/share/perl | gzip", 1.4e9
		got := draw(t, p, Options{})
		wellFormed(t, got)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || got != string(want) {
			t.Errorf("%s is out of date (%v); -update writes it", file, err)
		}
	}
}
