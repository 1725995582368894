// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"

	"btc/fleet/replay"
)

// TestPictures compares the pictures of the tools' pages with what btc replay draws of recordings: of tar and gzip, or
// of dd, which tools of examples have traced.
func TestPictures(t *testing.T) {
	for _, tool := range []string{"biostacks", "offcputime", "wakeuptime"} {
		made := filepath.Join(t.TempDir(), tool+".svg")
		r := &replayOptions{file: made}
		if err := r.replay(filepath.Join("testdata", tool+".jsonl")); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(made)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("../../docs/tools", tool+".svg")
		if *updateReference {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || string(got) != string(want) {
			t.Errorf("%s is out of date (%v); -update writes it", file, err)
		}
	}
}

// TestPictureFiles checks that the name of a file says its form and its compression.
func TestPictureFiles(t *testing.T) {
	dir := t.TempDir()
	content := func(name string) (raw, plain string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := (&replayOptions{file: file}).replay("testdata/offcputime.jsonl"); err != nil {
			t.Fatal(err)
		}
		in, err := openRecording(file)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		read, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b), string(read)
	}
	const gzip, zstd = "\x1f\x8b", "\x28\xb5\x2f\xfd"
	_, svg := content("x.svg")
	_, folded := content("x.folded")
	_, pprof := content("x.pprof")
	if !strings.HasPrefix(svg, "<") || !strings.Contains(folded, ";") || pprof == "" {
		t.Fatalf("%.20q, %.20q, %d bytes of pprof", svg, folded, len(pprof))
	}
	for _, tc := range []struct{ name, magic, want string }{
		{"x.svg.gz", gzip, svg}, {"x.svg.zst", zstd, svg}, {"x.folded.gz", gzip, folded}, {"x.folded.zst", zstd, folded},
		{"x.pprof", gzip, pprof}, {"x.pb.gz", gzip, pprof}, {"x.pb.zst", zstd, pprof},
	} {
		if raw, plain := content(tc.name); plain != tc.want || !strings.HasPrefix(raw, tc.magic) {
			t.Errorf("%s: begins with %.4q, %d bytes are not the %d of the plain file", tc.name, raw, len(plain), len(tc.want))
		}
	}
}

// TestPictureOfPart checks that an error in a recording does not discard the picture of what precedes it, and that --from,
// which would have no effect, is refused.
func TestPictureOfPart(t *testing.T) {
	whole, err := os.ReadFile("testdata/offcputime.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	damaged, file := filepath.Join(dir, "x.jsonl"), filepath.Join(dir, "x.svg")
	if err := os.WriteFile(damaged, append(whole, "no JSON\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	err = (&replayOptions{file: file}).replay(damaged)
	got, _ := os.ReadFile(file)
	want, _ := os.ReadFile("../../docs/tools/offcputime.svg")
	if err == nil || !strings.HasSuffix(err.Error(), "not a line of JSON") || len(want) == 0 || string(got) != string(want) {
		t.Errorf("%v; %d bytes, want the %d of the whole recording", err, len(got), len(want))
	}
	os.Remove(file)
	from, err := replay.ParseMoment("1s")
	if err != nil {
		t.Fatal(err)
	}
	err = (&replayOptions{file: file, from: from}).replay("testdata/offcputime.jsonl")
	if _, e := os.Stat(file); err == nil || !strings.HasPrefix(err.Error(), "--from: a profile") || e == nil {
		t.Errorf("--from: %v, %v", err, e)
	}
}

// TestHostileRecordings checks that a recording with names that attack readers, megabytes long ones among them, and one whose
// compressed data are cut off or damaged, replay in every form: with all samples, nothing that a terminal, a browser or a reader of
// folded stacks would obey, and a clear error.
func TestHostileRecordings(t *testing.T) {
	whole, err := os.ReadFile("testdata/offcputime.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text, names := string(whole), []string(nil)
	for _, name := range regexp.MustCompile(`"sym": "[^"]*"`).FindAllString(string(whole), -1) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for i, evil := range []string{`<script>alert(1)</script>`, `a\"b;c d`, `\u202egnp.exe`, `]]>--><!--\n\u001b[2J`, strings.Repeat("A;<", 1<<19)} {
		text = strings.ReplaceAll(text, names[i], fmt.Sprintf(`"sym": "%s%d"`, evil, i))
	}
	text = strings.ReplaceAll(text, `"gzip"`, `"<b>;\u202e x"`)
	recording := filepath.Join(dir, "run.jsonl")
	write := func(name string, data []byte) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	write("run.jsonl", []byte(text))
	sum := func(recording string) (sum int) {
		file := filepath.Join(dir, "sum.folded")
		if err := (&replayOptions{file: file}).replay(recording); err != nil {
			t.Fatal(err)
		}
		all, _ := os.ReadFile(file)
		for line := range strings.Lines(string(all)) {
			if strings.ContainsAny(line, "\u202e\x1b") {
				t.Errorf("folded: %.200q", line)
			}
			n, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]))
			if err != nil || strings.Count(line, " ") != 1 {
				t.Errorf("folded: %v in %.200q", err, line)
			}
			sum += n
		}
		return sum
	}
	if got, want := sum(recording), sum("testdata/offcputime.jsonl"); got != want || want == 0 {
		t.Errorf("folded: sum %d, want %d", got, want)
	}
	for _, form := range []string{"svg", "pprof", "text", replay.Timeline, "json", "otlp", "prometheus"} {
		file := filepath.Join(dir, "x."+form)
		if err := (&replayOptions{form: form, file: file}).replay(recording); err != nil {
			t.Errorf("%s: %v", form, err)
		}
		got, _ := os.ReadFile(file)
		switch form {
		case "svg":
			var x struct{}
			if err := xml.Unmarshal(got, &x); err != nil || len(got) > 1<<20 || strings.ContainsAny(string(got), "\u202e\x1b") || strings.Contains(string(got), "<script>alert") {
				t.Errorf("a picture of %d bytes, %v", len(got), err)
			}
		case "pprof":
			if x, err := pprof.ParseData(got); err != nil || x.CheckValid() != nil {
				t.Errorf("pprof: %v", err)
			}
		}
	}
	for _, suffix := range []string{".gz", ".zst"} {
		packed := filepath.Join(dir, "run.jsonl"+suffix)
		out, err := createCompressed(packed)
		if err == nil {
			_, err = out.Write(whole)
			err = errors.Join(err, out.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		data, _ := os.ReadFile(packed)
		for _, n := range []int{len(data) - 3, len(data) / 2, 12} {
			for _, form := range []string{"folded", "pprof", "svg", "text", replay.Timeline} {
				file := filepath.Join(dir, "cut."+form)
				os.Remove(file)
				err := (&replayOptions{form: form, file: file}).replay(write("cut.jsonl"+suffix, data[:n]))
				if err == nil || !strings.Contains(err.Error(), "the compressed data are cut off") {
					t.Errorf("%d bytes of %d%s as %s: %v", n, len(data), suffix, form, err)
				}
				// Of gzip, all is known before the checksum at the end.
				if got, _ := os.ReadFile(file); suffix == ".gz" && n == len(data)-3 && len(got) == 0 {
					t.Errorf("what precedes the end of %s is not shown as %s", suffix, form)
				}
			}
		}
		data[len(data)/2] ^= 0x55
		if err := (&replayOptions{file: filepath.Join(dir, "bad.svg")}).replay(write("bad.jsonl"+suffix, data)); err == nil {
			t.Errorf("damaged %s: no error", suffix)
		}
	}
}
