// SPDX-License-Identifier: Apache-2.0

package format

import (
	"encoding/binary"
	"encoding/json"
	"testing"

	"btc/internal/manifest"
)

func words(v ...int64) []byte {
	var b []byte
	for _, x := range v {
		b = binary.NativeEndian.AppendUint64(b, uint64(x))
	}
	return b
}

func intValue(v int64, signed bool) Value {
	return Value{Layout: &manifest.Layout{Kind: "int", Size: 8, Signed: signed}, Bytes: words(v)}
}

func stringValue(text string, size int) Value {
	b := make([]byte, size)
	copy(b, text)
	return Value{Layout: &manifest.Layout{Kind: "string", Size: size}, Bytes: b}
}

func bufferValue(text string) Value {
	b := binary.NativeEndian.AppendUint32(nil, uint32(len(text)))
	return Value{Layout: &manifest.Layout{Kind: "buffer", Size: 4 + len(text)}, Bytes: append(b, text...)}
}

func pair(a, b Value) Value {
	l := &manifest.Layout{Kind: "tuple", Size: len(a.Bytes) + len(b.Bytes), Fields: []manifest.Field{
		{Off: 0, Layout: *a.Layout}, {Off: len(a.Bytes), Layout: *b.Layout}}}
	return Value{Layout: l, Bytes: append(append([]byte(nil), a.Bytes...), b.Bytes...)}
}

func TestJSON(t *testing.T) {
	env := &Env{Trailer: "..", Ksym: func(uint64) string { return "vfs_read" }}
	enum := Value{Layout: &manifest.Layout{Kind: "enum", Size: 8, Enum: map[string]string{"3": "C"}}, Bytes: words(3)}
	ksym := Value{Layout: &manifest.Layout{Kind: "ksym", Size: 8}, Bytes: words(64)}
	record := Value{Layout: &manifest.Layout{Kind: "record", Size: 8, Fields: []manifest.Field{{Name: "a", Layout: *intValue(1, true).Layout}}}, Bytes: words(7)}
	for _, tc := range []struct {
		v          Value
		plain, all string
	}{
		{intValue(-5, true), "-5", "-5"},
		{intValue(-1, false), `"18446744073709551615"`, "18446744073709551615"},
		{intValue(1<<53, true), "9007199254740992", "9007199254740992"},
		{intValue(1<<53+1, true), `"9007199254740993"`, "9007199254740993"},
		{intValue(-1<<63, true), "-9223372036854775808", "-9223372036854775808"},
		{stringValue("a\"\\\n\r\t\x01é", 16), `"a\"\\\n\r\t\u0001é"`, `"a\"\\\n\r\t\u0001é"`},
		{stringValue("a\xffb", 8), "\"a\ufffdb\"", `{"base64": "Yf9i"}`},
		{stringValue("abcd", 4), `"abcd.."`, `{"text": "abcd", "truncated": true}`},
		{bufferValue("\xffa"), "[-1,97]", `{"base64": "/2E="}`},
		{pair(intValue(1, true), stringValue("x y", 8)), `[1,"x y"]`, `[1,"x y"]`},
		{record, `{"a": 7}`, `{"a": 7}`},
		{enum, "3", `{"value": 3, "text": "C"}`},
		{ksym, `"vfs_read"`, `{"address": 64, "text": "vfs_read"}`},
	} {
		for full, want := range map[bool]string{false: tc.plain, true: tc.all} {
			j := JSON{Env: env, Full: full}
			got := j.Append(nil, tc.v)
			if string(got) != want {
				t.Errorf("full %t: got %s, want %s", full, got, want)
			}
			if !json.Valid(got) {
				t.Errorf("invalid JSON: %s", got)
			}
		}
	}
}

// TestBitfields checks that bitfields are parts of an integer, and that their sign is ignored.
func TestBitfields(t *testing.T) {
	part := func(name string, off, size int, signed bool) manifest.Field {
		return manifest.Field{Name: name, BitOff: off, BitSize: size, Layout: manifest.Layout{Kind: "int", Size: 8, Signed: signed}}
	}
	l := &manifest.Layout{Kind: "record", Size: 8, Fields: []manifest.Field{part("a", 0, 1, false), part("b", 2, 2, false), part("c", 2, 2, true)}}
	if got := string((&Env{}).Append(nil, Value{Layout: l, Bytes: words(0x1e)})); got != "{ .a = 0, .b = 3, .c = 3 }" {
		t.Error(got)
	}
}

func TestJSONKeys(t *testing.T) {
	j := JSON{Env: &Env{}}
	inner := pair(intValue(2, true), intValue(3, true))
	key := pair(stringValue("a b", 8), inner)
	if got := string(j.KeyText(nil, key.Layout, key.Bytes, true)); got != "a b,(2,3)" {
		t.Errorf("got %q", got)
	}
}

func FuzzQuoted(f *testing.F) {
	f.Add([]byte("a\x00\x1b[2J\xc3\x28\xf0\x9f\x98\x80\""))
	f.Fuzz(func(t *testing.T, text []byte) {
		if q := AppendQuoted(nil, text); !json.Valid(q) {
			t.Errorf("invalid JSON: %q", q)
		}
	})
}

func TestClean(t *testing.T) {
	const hostile = "a\x1b[2J\x07\tb\n\u009b1m\x9bc\x7f\xffé"
	if got := string((&Env{}).Clean(nil, []byte(hostile))); got != hostile {
		t.Errorf("Clean without Escape = %q", got)
	}
	got := string((&Env{Escape: true}).Clean(nil, []byte(hostile)))
	if want := "a\\x1b[2J\\x07\tb\n\\xc2\\x9b1m\\x9bc\\x7f\xffé"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestGFP(t *testing.T) {
	for v, want := range map[uint64]string{
		0: "0", 0xcc0: "GFP_KERNEL", 0x440dc0: "GFP_KERNEL_ACCOUNT|__GFP_ZERO|__GFP_COMP",
		0x80000001: "GFP_DMA|0x80000000", 0x100cca: "GFP_HIGHUSER|0x8",
	} {
		if got := string(appendGFP(nil, v)); got != want {
			t.Errorf("%#x: got %s, want %s", v, got, want)
		}
	}
}
