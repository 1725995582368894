// SPDX-License-Identifier: Apache-2.0

package format

import (
	"encoding/binary"
	"strings"
	"testing"

	"btc/internal/manifest"
)

// TestTerminal checks that no control character is written to a terminal.
func TestTerminal(t *testing.T) {
	var text strings.Builder
	w := Terminal(&text)
	if n, err := w.Write([]byte("a\x1b[2J\x9b1m\u009b\x7f\ttab\nü\r")); n != 19 || err != nil {
		t.Errorf("Write = %d, %v", n, err)
	}
	if want := `a\x1b[2J\x9b1m\xc2\x9b\x7f` + "\ttab\nü" + `\x0d`; text.String() != want {
		t.Errorf("output %q, want %q", text.String(), want)
	}
	text.Reset()
	w = TerminalJSON(&text)
	for _, b := range []byte("\"ü\u009b\x7f\u00a0\"\n") { // even if a character is split between writes
		w.Write([]byte{b})
	}
	if want := "\"ü\\u009b\\u007f\u00a0\"\n"; text.String() != want {
		t.Errorf("output %q, want %q", text.String(), want)
	}
}

// TestNamesAreCleaned checks that control characters in names from an object, a file or a process are
// escaped in values, and newlines also in maps.
func TestNamesAreCleaned(t *testing.T) {
	bad := func(uint64) string { return "n\x1b[1m" }
	env := &Env{Escape: true, Probe: bad, User: bad, Ksym: bad, Stack: func(*manifest.Layout, uint64, uint32) []Frame { return []Frame{{Sym: "a\x1b"}} }}
	number := binary.NativeEndian.AppendUint64(nil, 1)
	for kind, want := range map[string]string{"probe": `n\x1b[1m`, "username": `n\x1b[1m`, "ksym": `n\x1b[1m`, "kstack": "\n        a\\x1b+0\n"} {
		if got := env.OneLine().Append(nil, Value{Layout: &manifest.Layout{Kind: kind, Size: 8}, Bytes: number}); string(got) != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
	enum := &manifest.Layout{Kind: "enum", Size: 8, Enum: map[string]string{"1": "E\x1b"}}
	record := &manifest.Layout{Kind: "record", Size: 8, Fields: []manifest.Field{{Name: "f\x1b", Layout: *enum}}}
	if got := string(env.Append(nil, Value{Layout: record, Bytes: number})); got != `{ .f\x1b = E\x1b }` {
		t.Errorf("record: %q", got)
	}
	comm := Value{Layout: &manifest.Layout{Kind: "string", Size: 8}, Bytes: []byte("a\n@x: 1\x00")}
	if got := string(env.OneLine().Append(nil, comm)); got != `a\x0a@x: 1` {
		t.Errorf("string in a map: %q", got)
	}
	if got := string(env.Append(nil, comm)); got != "a\n@x: 1" {
		t.Errorf("string: %q", got)
	}
	if got := string((&Env{}).OneLine().Append(nil, comm)); got != "a\n@x: 1" {
		t.Errorf("not on a terminal: %q", got)
	}
}
