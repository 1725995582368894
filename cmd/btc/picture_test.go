// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"btc/fleet/replay"
)

// TestPictures compares the pictures of the tools' pages with what btc replay draws of recordings: of tar and gzip, which tools
// of examples have traced.
func TestPictures(t *testing.T) {
	for _, tool := range []string{"offcputime", "wakeuptime"} {
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
