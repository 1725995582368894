// SPDX-License-Identifier: Apache-2.0

package object

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"

	"btc/internal/manifest"
)

func manifestOf(data []byte) []byte {
	sum := sha256.Sum256(data)
	return fmt.Appendf(nil,
		"{\"schema\": %q, \"arches\": [\"x86_64\"], \"script\": {\"source\": \"}\\\"{ \x7fELF\"}, \"object\": {\"sha256\": %q, \"size\": %d}}\n",
		manifest.Schema, hex.EncodeToString(sum[:]), len(data))
}

// TestSplitStream checks that both orders are split at the same position, and that the rest remains in
// the stream.
func TestSplitStream(t *testing.T) {
	elfData := minimalELF()
	text := manifestOf(elfData)
	for name, stream := range map[string][]byte{
		"object first":   bytes.Join([][]byte{elfData, text}, nil),
		"spaces between": bytes.Join([][]byte{[]byte("\n "), elfData, []byte("\n\n"), text}, nil),
	} {
		f, err := readStream(bufio.NewReader(bytes.NewReader(stream)))
		if err != nil || !bytes.Equal(f.Data, elfData) || !bytes.Equal(f.Manifest, bytes.TrimSpace(text)) {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

// TestReadStream reads the output of btc, in both orders, and nothing after it.
func TestReadStream(t *testing.T) {
	files, err := ReadFiles("testdata/count.o")
	if err != nil {
		t.Fatal(err)
	}
	data, text := files.Data, files.Manifest
	for _, stream := range [][]byte{bytes.Join([][]byte{data, text}, nil), bytes.Join([][]byte{text, data}, nil)} {
		r := bufio.NewReader(io.MultiReader(bytes.NewReader(bytes.TrimSpace(stream)), strings.NewReader("rest")))
		o, err := parseStream(r)
		if err != nil || o.Path != StreamName || len(o.Manifest.Programs) != len(o.Spec.Programs) {
			t.Errorf("got %+v, %v", o, err)
		}
		if rest, _ := io.ReadAll(r); string(rest) != "rest" {
			t.Errorf("left in the stream: %q", rest)
		}
	}
}

// parseStream reads and checks an object.
func parseStream(r *bufio.Reader) (*Object, error) {
	files, err := ReadStream(r)
	if err != nil {
		return nil, err
	}
	return files.Parse()
}

// minimalELF returns an ELF file that consists of a header and one section header.
func minimalELF() []byte {
	b := make([]byte, 128)
	copy(b, "\x7fELF\x02\x01\x01")
	b[40], b[52], b[58], b[60] = 64, 64, 64, 1
	return b
}

func TestHostileStreams(t *testing.T) {
	elfData := minimalELF()
	with := func(at int, value ...byte) []byte {
		b := bytes.Clone(elfData)
		copy(b[at:], value)
		return b
	}
	huge := fmt.Appendf(nil, `{"schema": %q, "arches": ["x86_64"], "object": {"sha256": "%064d", "size": %d}}`,
		manifest.Schema, 0, MaxBytes+1)
	for _, c := range []struct{ name, stream, want string }{
		{"empty", "", "it ends before anything is read: send an object, as in"},
		{"text", "hello", "neither an object nor a manifest: it begins with 'h'"},
		{"object alone", string(elfData), "it ends after an object without a manifest:"},
		{"cut object", string(elfData[:100]), "it ends within the object"},
		{"cut header", string(elfData[:30]), "it ends within the object"},
		{"32 bit", string(with(4, 1)), "not a BPF object"},
		{"sections far away", string(with(40, 0, 0, 0, 0, 1)), "an object of more than"},
		{"sections at the end of memory", string(with(40, 255, 255, 255, 255, 255, 255, 255, 255)), "an object of more than"},
		{"no sections", string(with(40, 0, 0)) + "{}", "an object of more than"},
		{"two objects", string(elfData) + string(elfData), "expected the manifest after an object without one"},
		{"cut manifest", `{"schema": "btc/1", "x": "}`, "it ends within the manifest"},
		{"manifest alone", string(manifestOf(elfData)), "it ends after the manifest:"},
		{"object cut after manifest", string(manifestOf(elfData)) + string(elfData[:100]), "it ends within the object"},
		{"other size", string(huge) + string(elfData), "it names 67108865 bytes"},
		{"endless manifest", `{"x": "` + strings.Repeat("x", manifest.MaxBytes), "a manifest of more than"},
		{"deep manifest", strings.Repeat("[", 10), "neither an object"},
		{"another object", string(manifestOf([]byte("x"))) + string(elfData), "it names 1 bytes, this one has 128"},
	} {
		_, err := parseStream(bufio.NewReader(strings.NewReader(c.stream)))
		if err == nil || !strings.HasPrefix(err.Error(), "standard input: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error = %v, want %q", c.name, err, c.want)
		}
	}
}

// FuzzStream checks that no stream makes the reader panic, or read more than the sizes in the stream.
func FuzzStream(f *testing.F) {
	files, err := ReadFiles("testdata/count.o")
	if err != nil {
		f.Fatal(err)
	}
	data, text := files.Data, files.Manifest
	f.Add(bytes.Join([][]byte{data, text}, nil))
	f.Add(bytes.Join([][]byte{text, data}, nil))
	f.Add(bytes.Join([][]byte{minimalELF(), text}, nil))
	f.Fuzz(func(t *testing.T, stream []byte) {
		o, err := parseStream(bufio.NewReader(bytes.NewReader(stream)))
		if err == nil && (o.Manifest == nil || o.Spec == nil) {
			t.Error("object and error at the same time")
		}
	})
}
