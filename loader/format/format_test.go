// SPDX-License-Identifier: Apache-2.0

package format

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"btc/internal/manifest"
)

func u64(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }

func num(v uint64, signed bool) Value {
	return Value{Layout: &manifest.Layout{Kind: "int", Size: 8, Signed: signed}, Bytes: u64(v)}
}

func str(s string, size int) Value {
	return Value{Layout: &manifest.Layout{Kind: "string", Size: size}, Bytes: append([]byte(s), make([]byte, max(size-len(s), 0))...)}
}

func tuple(vals ...Value) Value {
	l := &manifest.Layout{Kind: "tuple"}
	var b []byte
	for _, v := range vals {
		l.Fields = append(l.Fields, manifest.Field{Off: len(b), Layout: *v.Layout})
		b = append(b, v.Bytes...)
	}
	l.Size = len(b)
	return Value{Layout: l, Bytes: b}
}

func value(kind string, size int, b []byte) Value {
	return Value{Layout: &manifest.Layout{Kind: kind, Size: size}, Bytes: b}
}

func neg(v int64) uint64 { return uint64(v) }

func TestValues(t *testing.T) {
	inet := func(family uint32, addr ...byte) Value {
		b := binary.NativeEndian.AppendUint32(nil, family)
		return value("inet", 24, append(append(b, addr...), make([]byte, 24-4-len(addr))...))
	}
	enum := Value{Layout: &manifest.Layout{Kind: "enum", Size: 8, Enum: map[string]string{"1": "ONE"}}}
	enumOf := func(v uint64) Value { e := enum; e.Bytes = u64(v); return e }
	record := Value{Layout: &manifest.Layout{Kind: "record", Size: 16, Fields: []manifest.Field{
		{Name: "a", Off: 0, Layout: *num(0, false).Layout}, {Name: "b", Off: 8, Layout: manifest.Layout{Kind: "string", Size: 8}}}},
		Bytes: append(u64(1), "hello\x00\x00\x00"...)}
	array := Value{Layout: &manifest.Layout{Kind: "array", Size: 3, Count: 3, Elem: &manifest.Layout{Kind: "int", Size: 1, Signed: true}}, Bytes: []byte{1, 2, 255}}
	for _, tc := range []struct {
		v    Value
		want string
	}{
		{num(neg(-5), true), "-5"},
		{num(neg(-5), false), "18446744073709551611"},
		{Value{Layout: &manifest.Layout{Kind: "int", Size: 2, Signed: true}, Bytes: []byte{0xff, 0xff}}, "-1"},
		{value("bool", 8, u64(1)), "true"},
		{value("bool", 8, u64(0)), "false"},
		{value("ptr", 8, u64(0xffff888012345678)), "0xffff888012345678"},
		{value("ptr", 8, u64(0)), "0x0"},
		{str("hello", 16), "hello"},
		{str("full", 4), "full.."},
		{Value{Layout: &manifest.Layout{Kind: "string", Size: 64}, Bytes: []byte("abc"), Var: true}, "abc"},
		{Value{Layout: &manifest.Layout{Kind: "string", Size: 5}, Bytes: []byte("abcd\x00"), Var: true}, "abcd.."},
		{value("buffer", 12, append([]byte{6, 0, 0, 0}, "ok_\x00\xff!xx"...)), `ok_\x00\xff!x`[:12]},
		{value("buffer", 8, []byte{255, 255, 255, 255, 'a', 'b', 'c', 'd'}), "abcd"},
		{enumOf(1), "ONE"},
		{enumOf(100), "100"},
		{tuple(num(1, false), str("hello", 8), tuple(num(2, false), num(3, false))), "(1, hello, (2, 3))"},
		{array, "[1,2,-1]"},
		{record, "{ .a = 1, .b = hello }"},
		{Value{Layout: &manifest.Layout{Kind: "record"}}, "{}"},
		{value("none", 0, nil), "null"},
		{inet(2, 127, 0, 0, 1), "127.0.0.1"},
		{inet(10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1), "::1"},
		{inet(10), "::"},
		{inet(10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1), "::10.0.0.1"},
		{inet(10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 10, 0, 0, 1), "::fffe:a00:1"},
		{inet(10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 10, 0, 0, 1), "::1:0:a00:1"},
		{inet(10, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1), "1::a00:1"},
		{inet(10, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1), "1::ffff:a00:1"},
		{inet(10, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), "1:2::"},
		{inet(10, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10), "2001:db8::10"},
		{inet(10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1), "::ffff:10.0.0.1"},
		{inet(10, 0xfe, 0x80, 0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0), "fe80:1:0:1:1:1:1:0"},
		{value("mac", 8, []byte{0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0, 0}), "12:34:56:78:9A:BC"},
		{value("ksym", 8, u64(0x10)), "0x10"},
	} {
		e := &Env{Trailer: ".."}
		if got := string(e.Append(nil, tc.v)); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.v.Layout.Kind, got, tc.want)
		}
	}
}

// TestPrintf compares with the output of bpftrace 0.27.1 for the same calls.
func TestPrintf(t *testing.T) {
	ab := value("buffer", 12, append([]byte{6, 0, 0, 0}, "Hello\x00xx"...))
	for _, tc := range []struct {
		format string
		args   []Value
		want   string
	}{
		{"[%05d|%#08x|%-05d]", []Value{num(neg(-5), true), num(31, false), num(7, false)}, "[000-5|00000x1f|70000]"},
		{"%+5d|%#o|%p|%8p", []Value{num(7, true), num(8, false), num(255, false), num(16, false)}, "   +7|010|0xff|    0x10"},
		{"%-8s|%08s|%c|%5c", []Value{str("ab", 8), str("cd", 8), num(65, false), num(66, false)}, "ab      |000000cd|A|    B"},
		{"%+u|%x|%hhx|%s|%5s", []Value{num(5, true), num(neg(-1), true), num(neg(-1), true), num(neg(-5), true), value("bool", 8, u64(1))}, "5|ffffffff|ff|-5| true"},
		{"%.2s|%d|%*d|%#X|% d|%08lx|%+s", []Value{str("hello", 8), num(1, true), num(2, true), num(255, true), num(3, true), num(neg(-1), true), num(5, true)}, "hello|1|2|0XFF|3|ffffffffffffffff|+5"},
		{"%5s|%05s|%d%%|%z %l|", []Value{tuple(num(1, false), num(2, false)), tuple(num(3, false), num(4, false)), num(100, false)}, "    (1, 2)|0000(3, 4)|100%|%z %l|"},
		{"%d %lu", []Value{num(neg(-2), false), num(neg(-2), false)}, "-2 18446744073709551614"},
		{"%hhx %hx %x %jx", []Value{num(0x12345678abcdef, false), num(0x12345678abcdef, false), num(0x12345678abcdef, false), num(0x12345678abcdef, false)}, "ef cdef 78abcdef 12345678abcdef"},
		{"%rx|%rh|%r", []Value{ab, ab, ab}, `\x48\x65\x6c\x6c\x6f\x00|48 65 6c 6c 6f 00|Hello\x00`},
		{"%p", []Value{num(0, false)}, "0"},
		{"100%", nil, "100%"},
		{"%%d", nil, "%d"},
		{"%-15s %-5d -> %s\n", []Value{str("curl", 16), num(42, false), str("x", 4)}, "curl            42    -> x\n"},
		{"%d", []Value{str("a", 4)}, "!{invalid integer conversion: a}"},
		{"%d %d", []Value{num(1, false)}, "1 "},
	} {
		f := ParseFormat(tc.format)
		e := &Env{Trailer: ".."}
		if got := string(e.Printf(nil, f, tc.args)); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.format, got, tc.want)
		}
	}
}

func TestStrftime(t *testing.T) {
	at := time.Date(2026, 3, 1, 9, 5, 7, 123456789, time.FixedZone("CET", 3600))
	for _, tc := range []struct{ format, want string }{
		{"%H:%M:%S\n", "09:05:07\n"},
		{"%Y-%m-%d %F %T", "2026-03-01 2026-03-01 09:05:07"},
		{"%f %l %k", "123456 123 123456789"},
		{"%a %A %b %B %e %j %y", "Sun Sunday Mar March  1 060 26"},
		{"%I %p %u %w %U %W %V %G", "09 AM 7 0 09 08 09 2026"},
		{"%z %Z %% %s %C %R", "+0100 CET % 1772352307 20 09:05"},
		{"%c|%D|%Q|%", "Sun Mar  1 09:05:07 2026|03/01/26|%Q|%"},
	} {
		if got := string(Strftime(nil, tc.format, at)); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.format, got, tc.want)
		}
	}
}

// FuzzPrintf checks that any format with any bytes is printed without a panic.
func FuzzPrintf(f *testing.F) {
	f.Add("%5s %-08lx%%%rx", []byte("0123456789abcdef0123456789abcdef"))
	f.Fuzz(func(t *testing.T, format string, b []byte) {
		b = append(b, make([]byte, 64)...)
		var args []Value
		for _, kind := range []string{"int", "string", "buffer", "inet", "enum", "mac", "usym"} {
			args = append(args, value(kind, 24, b), value(kind, 8, b))
		}
		for i := range args {
			if args[i].Layout.Size < 20 && args[i].Layout.Kind == "inet" {
				args[i].Layout.Size = 20
			}
		}
		p := ParseFormat(format)
		(&Env{}).Printf(nil, p, args)
	})
}

// TestPrintfCut checks that the values of an event after MaxText bytes are omitted, and that the text says so.
func TestPrintfCut(t *testing.T) {
	const size = 1 << 20
	l := &manifest.Layout{Kind: "string", Size: size, Count: size}
	args := make([]Value, 100)
	for i := range args {
		args[i] = Value{Layout: l, Bytes: bytes.Repeat([]byte("a"), size)}
	}
	got := (&Env{}).Printf([]byte("before "), ParseFormat(strings.Repeat("%s", len(args))+"end"), args)
	if n := len(got); n > MaxText+size+100 || !bytes.HasSuffix(got, []byte(" [cut: more than 4 MiB]\n")) {
		t.Errorf("%d bytes that end in %q", n, got[max(n-30, 0):])
	}
	if got := (&Env{}).Printf(nil, ParseFormat("%s%send"), args[:2]); len(got) != 2*size+3 {
		t.Errorf("%d bytes of 2 MiB", len(got))
	}
}

func TestAppendStack(t *testing.T) {
	frames := []Frame{{Address: 0x1010, Sym: "f", File: "mod", Offset: 16}, {Address: 0x99, BuildID: "ab", FileOffset: 3}, {}}
	for mode, want := range map[string]string{
		"":           "\n        f+16\n        0x99\n        0\n",
		ModeBpftrace: "\n        f+16\n        0x99\n        0\n",
		ModePerf:     "\n\t1010 f+16 (mod)\n\t99 0x99 ([unknown])\n\t0 0x0 ([unknown])\n",
		ModeRaw:      "\n1010\n99\n0\n",
		ModeBuildID:  "\n1010\nab 0x03\n0\n",
	} {
		if got := string(AppendStack(nil, frames, mode)); got != want {
			t.Errorf("%s: got %q, want %q", mode, got, want)
		}
	}
	if got := string(AppendStack(nil, []Frame{{Address: UnwindFailure}, {Address: 1}}, "")); got != "\n        <unwind failure>\n" {
		t.Errorf("got %q", got)
	}
	if got := string(AppendStack(nil, nil, "")); got != "\n" {
		t.Errorf("empty stack: %q", got)
	}
}
