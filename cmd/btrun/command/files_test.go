// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// smallDisk mounts a tmpfs of 1 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("skipped: cannot mount tmpfs: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func TestDocumentFile(t *testing.T) {
	dir := smallDisk(t)
	path := filepath.Join(dir, "x.prom")
	d, err := createDocument(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("file exists before the first document: %v", err)
	}
	d.Write([]byte("one\n"))
	d.Write([]byte("end\n"))
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Error("file contains half a document")
	}
	if err := d.Replace(); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode() != 0o644 {
		t.Fatal(fi, err)
	}
	want := func(text string) {
		t.Helper()
		if b, err := os.ReadFile(path); string(b) != text {
			t.Errorf("%q, %v; want %q", b, err, text)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
			t.Errorf("files left behind: %q", left)
		}
	}
	want("one\nend\n")
	d.Write(bytes.Repeat([]byte("x"), 2<<20))
	if err := d.Replace(); err == nil || !strings.Contains(err.Error(), "keeps its last content, and this document is dropped: no space left") {
		t.Errorf("full disk: error = %v", err)
	}
	want("one\nend\n")
	d.Write([]byte("two\n"))
	if err := d.Replace(); err != nil {
		t.Error("after the disk was full:", err)
	}
	want("two\n")
	d.Write([]byte("three"))
	d.end(true)
	want("two\n")
}

func TestDocumentFileLink(t *testing.T) {
	dir := t.TempDir()
	path, link, other := filepath.Join(dir, "x.prom"), filepath.Join(dir, "link"), filepath.Join(dir, "other")
	os.WriteFile(path, []byte("old"), 0o600)
	os.Symlink(path, link)
	os.WriteFile(other, []byte("of others"), 0o600)
	os.Symlink(other, filepath.Join(dir, ".x.prom.new")) // an existing link must not be followed
	d, err := createDocument(link)
	if err != nil {
		t.Fatal(err)
	}
	d.Write([]byte("new"))
	if err := d.Replace(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{path: "new", other: "of others"} {
		if b, _ := os.ReadFile(name); string(b) != want {
			t.Errorf("%s: contents %q", name, b)
		}
	}
	if fi, _ := os.Lstat(link); fi.Mode()&os.ModeSymlink == 0 {
		t.Error("link was replaced")
	}
}

func TestRotatingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.jsonl")
	os.WriteFile(path, []byte("old\n"), 0o600)
	var messages strings.Builder
	r, err := createRotating(path, 100, 2, &messages)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "old\n" {
		t.Errorf("old contents removed before the run writes: %q", b)
	}
	for i := range 40 { // of 10 bytes, written in pieces
		fmt.Fprintf(r, "line ")
		fmt.Fprintf(r, "%04d\nli", i)
		fmt.Fprintf(r, "ne %04d\n", 1000+i)
	}
	fmt.Fprintf(r, "last")
	if err := r.end(true); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"": "last\n", ".1": "line 0035\n", ".2": "line 0030\n"} {
		b, err := os.ReadFile(path + name)
		if err != nil || !strings.HasPrefix(string(b), want) || len(b) > 100 {
			t.Errorf("FILE%s: %q, %v; want %q first", name, b, err, want)
		}
	}
	if _, err := os.Stat(path + ".3"); !os.IsNotExist(err) {
		t.Error("more files than --keep")
	}
	if messages.Len() > 0 {
		t.Error(messages.String())
	}
}

// TestRotatingRecording checks that each file begins with the head of the recording.
func TestRotatingRecording(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.jsonl")
	r, err := createRotating(path, 30, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	const head = `{"type": "head", "version": 2}` + "\n"
	r.Write([]byte(head))
	for _, line := range []string{"one", "two", "three"} {
		r.Write([]byte(strings.Repeat("-", 20) + line + "\n"))
	}
	if err := r.end(true); err != nil {
		t.Fatal(err)
	}
	for name, line := range map[string]string{path: "three", path + ".1": "two", path + ".2": "one"} {
		want := head + strings.Repeat("-", 20) + line + "\n"
		if b, _ := os.ReadFile(name); string(b) != want {
			t.Errorf("%s: %q, want %q", filepath.Base(name), b, want)
		}
	}
}

// TestRotatingHeads checks that a head counts for no file's size, and that files begin with the last one, also if it
// comes in one piece with the lines around it.
func TestRotatingHeads(t *testing.T) {
	head := func(n int) string {
		return fmt.Sprintf(`{"type": "head", "version": 2, "object": %q}`, strings.Repeat(fmt.Sprint(n), 90)) + "\n"
	}
	text := head(1) + "aaaaaaaaa\nbbbbbbbbb\nccccccccc\nddddddddd\n" + head(2) + "eeeeeeeee\nfffffffff\n"
	for _, tc := range []struct {
		size int64
		want []string // FILE first
	}{
		{20, []string{head(2) + "eeeeeeeee\nfffffffff\n", head(1) + "ccccccccc\nddddddddd\n" + head(2), head(1) + "aaaaaaaaa\nbbbbbbbbb\n"}},
		{30, []string{head(1) + "ddddddddd\n" + head(2) + "eeeeeeeee\nfffffffff\n", head(1) + "aaaaaaaaa\nbbbbbbbbb\nccccccccc\n"}},
	} {
		for _, piece := range []int{1, 7, len(text)} {
			path := filepath.Join(t.TempDir(), "x.jsonl")
			r, err := createRotating(path, tc.size, 5, nil)
			if err != nil {
				t.Fatal(err)
			}
			for part := range slices.Chunk([]byte(text), piece) {
				r.Write(part)
			}
			if err := r.end(true); err != nil {
				t.Fatal(err)
			}
			for i, want := range tc.want {
				name := path
				if i > 0 {
					name = fmt.Sprintf("%s.%d", path, i)
				}
				if b, _ := os.ReadFile(name); string(b) != want {
					t.Errorf("size %d, pieces of %d: file %d: %q, want %q", tc.size, piece, i, b, want)
				}
			}
		}
	}
}

func TestRotatingFileFullDisk(t *testing.T) {
	dir := smallDisk(t)
	var messages strings.Builder
	r, err := createRotating(filepath.Join(dir, "x.jsonl"), 0, 5, &messages)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	r.now = func() time.Time { return now }
	line := strings.Repeat("x", 999) + "\n"
	for range 2000 {
		if _, err := r.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(time.Minute)
	r.Write([]byte(line))
	b, err := os.ReadFile(r.path)
	if err != nil || len(b)%1000 != 0 || len(b) < 900<<10 || strings.Count(string(b), line) != len(b)/1000 {
		t.Errorf("%d bytes, %v: incomplete lines", len(b), err)
	}
	os.Truncate(r.path, 0) // make space available
	r.written = 0
	r.Write([]byte("after\n"))
	if err := r.end(true); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(r.path); string(b) != "after\n" {
		t.Errorf("%d bytes after space was available", len(b))
	}
	if m := messages.String(); strings.Count(m, "\n") > 3 || !strings.Contains(m, "lines were dropped: no space left") {
		t.Error(m)
	}
}

// TestRotatingFullDiskHead checks that a head that does not fit is written, whole, when there is space, before any line.
func TestRotatingFullDiskHead(t *testing.T) {
	dir := smallDisk(t)
	filler := filepath.Join(dir, "filler")
	fill := func() {
		f, err := os.Create(filler)
		if err != nil {
			t.Fatal(err)
		}
		for b := make([]byte, 4096); ; {
			if _, err := f.Write(b); err != nil {
				break
			}
		}
		f.Close()
	}
	head := func(n int) string { return fmt.Sprintf(`{"type": "head", "object": "%05000d"}`, n) + "\n" }
	for _, first := range []bool{true, false} {
		var messages strings.Builder
		r, err := createRotating(filepath.Join(dir, "x.jsonl"), 0, 5, &messages)
		if err != nil {
			t.Fatal(err)
		}
		want := head(2)
		if !first {
			want = head(1) + "one\n" + want
			r.Write([]byte(head(1) + "one\n"))
		}
		fill()
		if first { // the page of the other file has space for a part
			fi, err := os.Stat(filler)
			if err != nil {
				t.Fatal(err)
			}
			os.Truncate(filler, fi.Size()-4096)
		}
		r.Write([]byte(head(2) + "lost\n"))
		os.Remove(filler)
		r.Write([]byte("two\n"))
		if err := r.end(true); err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(r.path); string(b) != want+"two\n" {
			t.Errorf("first %v: %d bytes: %.60q", first, len(b), b)
		}
		if m := messages.String(); !strings.Contains(m, "1 lines were dropped: no space left") {
			t.Error(m)
		}
		os.Remove(r.path)
	}
}

func TestRotatingFileOfNoRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.jsonl")
	r, err := createRotating(path, 100, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.end(false)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Error("file created by a run that did not start")
	}
}

// A file that somebody renames or removes is replaced by a new one, and a directory that is gone is a reason to drop
// lines, not to end the run.
func TestRotatingFileMoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "x.jsonl")
	var messages strings.Builder
	r, err := createRotating(path, 20, 2, &messages)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	r.now = func() time.Time { now = now.Add(time.Minute); return now }
	want := func(name, text string) {
		t.Helper()
		if b, err := os.ReadFile(name); string(b) != text {
			t.Errorf("%s: %q, %v; want %q", name, b, err, text)
		}
	}
	r.Write([]byte("one\n"))
	os.Rename(path, path+".moved")
	r.Write([]byte("two\n"))
	want(path+".moved", "one\n")
	want(path, "two\n")
	os.Remove(path)
	os.WriteFile(path, []byte("of another\n"), 0o600)
	r.Write([]byte("three\n"))
	want(path, "of another\nthree\n")
	r.Write([]byte("four\n"))
	want(path, "four\n")
	want(path+".1", "of another\nthree\n")
	os.RemoveAll(dir)
	if _, err := r.Write([]byte("lost\n")); err != nil {
		t.Error(err)
	}
	if _, err := r.Write([]byte(strings.Repeat("x", 30) + "\n")); err != nil {
		t.Error(err)
	}
	if m := messages.String(); !strings.Contains(m, "1 lines were dropped: no such file or directory") {
		t.Error(m)
	}
	os.Mkdir(dir, 0o755)
	r.Write([]byte("again\n"))
	want(path, "again\n")
	if err := r.end(true); err != nil {
		t.Error(err)
	}
}
