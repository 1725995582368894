// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"btc/fleet/replay"
	"btc/tests/tier"
)

var update = flag.Bool("update", false, "write the answers and the pictures of docs/gallery")

const gallery = "../../docs/gallery"

// TestGallery checks that the pages of the gallery's recordings say what the gallery says that they do: each picture there is followed
// by the sentence with the answer. -update writes the sentences and the pictures.
func TestGallery(t *testing.T) {
	tier.Real.Need(t, "starts a browser")
	findBrowser(t)
	text, err := os.ReadFile(filepath.Join(gallery, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	recordings, err := filepath.Glob(filepath.Join(gallery, "*.jsonl.gz"))
	if err != nil || len(recordings) < 8 {
		t.Fatalf("%d recordings (%v)", len(recordings), err)
	}
	total := int64(len(text))
	for _, file := range recordings {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl.gz")
		packed, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		in, err := gzip.NewReader(packed)
		if err != nil {
			t.Fatal(err)
		}
		d, cut, err := replay.Page(name+".jsonl", in, replay.Options{})
		packed.Close()
		if err != nil || cut {
			t.Fatalf("%s: %v", file, err)
		}
		x := open(t, d, nil)
		answer := strings.Join(strings.Fields(x.text(".card .answer")), " ")
		x.axe()
		picture := filepath.Join(gallery, name+".png")
		if *update {
			x.run(chromedp.EmulateViewport(1280, 800), chromedp.Evaluate[chromedp.Void](`new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(), 500)))`, chromedp.EvalAwaitPromise))
			shot, err := chromedp.Run(x.ctx, chromedp.CaptureScreenshot())
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(picture, small(t, shot), 0o644); err != nil {
				t.Fatal(err)
			}
			text = replaceAnswer(t, text, name, answer)
		}
		if want := answerOf(text, name); want != answer {
			t.Errorf("%s: the gallery says %q; the page says %q: -update writes it, and the picture", name, want, answer)
		}
		for _, f := range []string{file, picture} {
			if i, err := os.Stat(f); err != nil {
				t.Error(err)
			} else {
				total += i.Size()
			}
		}
	}
	if *update {
		if err := os.WriteFile(filepath.Join(gallery, "README.md"), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if total > 1<<20 {
		t.Errorf("the gallery is %d bytes", total)
	}
}

// answerOf returns the sentence after the picture of a run: the quoted lines.
func answerOf(text []byte, name string) string {
	_, after, _ := strings.Cut(string(text), "]("+name+".png)\n\n")
	var words []string
	for line := range strings.SplitSeq(after, "\n") {
		quoted, ok := strings.CutPrefix(line, "> ")
		if !ok {
			break
		}
		words = append(words, strings.Fields(quoted)...)
	}
	return strings.Join(words, " ")
}

// replaceAnswer puts a sentence after the picture of a run.
func replaceAnswer(t *testing.T, text []byte, name, answer string) []byte {
	t.Helper()
	before, after, ok := strings.Cut(string(text), "]("+name+".png)\n\n")
	if !ok {
		t.Fatalf("the gallery has no %s.png", name)
	}
	for strings.HasPrefix(after, "> ") {
		_, after, _ = strings.Cut(after, "\n")
	}
	var out strings.Builder
	out.WriteString(before + "](" + name + ".png)\n\n")
	column := 0
	for i, w := range strings.Fields(answer) {
		switch {
		case i == 0:
			out.WriteString(">")
		case column+1+len([]rune(w)) > 96:
			out.WriteString("\n>")
			column = 0
		}
		out.WriteString(" " + w)
		column += 1 + len([]rune(w))
	}
	return []byte(out.String() + "\n" + after)
}

// small returns a picture with the 64 colors that it has most of: a third of the bytes.
func small(t *testing.T, shot []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	used := map[color.RGBA]int{}
	b := full.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			r, g, bl, _ := full.At(x, y).RGBA()
			used[color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(bl >> 8), 255}]++
		}
	}
	var all []color.RGBA
	for c := range used {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int {
		if d := used[b] - used[a]; d != 0 {
			return d
		}
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	var palette color.Palette
	for _, c := range all { // not what is near to another one
		near := slices.ContainsFunc(palette, func(p color.Color) bool {
			q := p.(color.RGBA)
			d := func(a, b uint8) int { return (int(a) - int(b)) * (int(a) - int(b)) }
			return d(q.R, c.R)+d(q.G, c.G)+d(q.B, c.B) < 60
		})
		if !near {
			palette = append(palette, c)
		}
		if len(palette) == 64 {
			break
		}
	}
	out := image.NewPaletted(b, palette)
	draw.Draw(out, b, full, b.Min, draw.Src)
	var text bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&text, out); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}
