// SPDX-License-Identifier: Apache-2.0

package btrace

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"btc/internal/manifest"
	"btc/loader/format"
)

// TestValues checks the Go value of each kind of value of the script, and that it does not refer to the event's memory.
func TestValues(t *testing.T) {
	words := func(all ...uint64) []byte {
		var b []byte
		for _, w := range all {
			b = binary.NativeEndian.AppendUint64(b, w)
		}
		return b
	}
	of := func(kind string, size int) *manifest.Layout { return &manifest.Layout{Kind: kind, Size: size} }
	signed := func(size int) *manifest.Layout { return &manifest.Layout{Kind: "int", Size: size, Signed: true} }
	pair := &manifest.Layout{Kind: "tuple", Size: 16, Fields: []manifest.Field{{Layout: *signed(8)}, {Off: 8, Layout: *of("string", 8)}}}
	record := &manifest.Layout{Kind: "record", Size: 16, Fields: []manifest.Field{{Name: "n", Layout: *of("int", 8)}, {Name: "flag", Off: 8, BitOff: 3, BitSize: 2, Layout: *of("int", 1)}}}
	enum := &manifest.Layout{Kind: "enum", Size: 4, Signed: true, Enum: map[string]string{"-1": "NONE", "2": "TWO"}}
	env := &format.Env{
		Stack: func(l *manifest.Layout, id uint64, tgid uint32) []format.Frame {
			if tgid != 0 {
				return []format.Frame{{Address: id, Sym: "m\n", Offset: 3}, {Address: 6}, {Address: format.UnwindFailure}}
			}
			return []format.Frame{{Address: id, Sym: "f", Offset: 1, File: "ext4", BuildID: "ab", FileOffset: 9}, {Address: 7, Sym: "g", Source: "x.c", Line: 7, Inlined: true}}
		},
		Ksym:  func(addr uint64) string { return "vfs_read+4" },
		Usym:  func(addr uint64, pid uint32) string { return "main" },
		User:  func(id uint64) string { return "root" },
		Clock: func(ns uint64, clock int) time.Time { return time.Unix(int64(clock), int64(ns)) },
	}
	d := decoder{env: env, frames: func(l *manifest.Layout, id uint64) []uint64 { return []uint64{id, 7} }}
	for _, c := range []struct {
		l    *manifest.Layout
		b    []byte
		want Value
	}{
		{of("int", 8), words(1 << 63), uint64(1 << 63)}, {signed(8), words(1<<64 - 5), int64(-5)}, {signed(1), []byte{0x80}, int64(-128)}, {of("int", 2), []byte{1, 2}, uint64(0x201)},
		{of("bool", 1), []byte{0}, false}, {of("bool", 1), []byte{1}, true}, {of("ptr", 8), words(0xffff), Pointer(0xffff)},
		{enum, []byte{2, 0, 0, 0}, Enum{"TWO", 2}}, {enum, []byte{255, 255, 255, 255}, Enum{"NONE", -1}}, {enum, []byte{3, 0, 0, 0}, Enum{"", 3}},
		{of("string", 8), []byte("abc\x00defg"), "abc"}, {of("mac", 6), []byte{1, 2, 3, 4, 5, 6}, MAC{1, 2, 3, 4, 5, 6}}, {of("none", 0), nil, nil},
		{pair, append(words(1<<64-1), "two\x00\x00\x00\x00\x00"...), Tuple{int64(-1), "two"}},
		{record, append(words(9), 0b11000, 0, 0, 0, 0, 0, 0, 0), Record{{"n", uint64(9)}, {"flag", uint64(3)}}},
		{&manifest.Layout{Kind: "array", Size: 6, Count: 3, Elem: of("int", 2)}, []byte{1, 0, 2, 0, 3, 0}, []Value{uint64(1), uint64(2), uint64(3)}},
		{of("ksym", 8), words(0x10), Symbol{Address: 0x10, Name: "vfs_read+4"}}, {of("usym", 16), words(0x20, 77), Symbol{Address: 0x20, Name: "main", PID: 77}},
		{of("kstack", 8), words(5), Stack{Addresses: []uint64{5, 7}, Frames: []Frame{{Text: "f+1", Address: 5, Function: "f", Offset: 1, Module: "ext4", BuildID: "ab", ModuleOffset: 9}, {Text: "g (inlined) (x.c:7)", Address: 7, Function: "g", File: "x.c", Line: 7, Inlined: true}}}},
		{of("ustack", 16), words(5, 88), Stack{Addresses: []uint64{5, 7}, Frames: []Frame{{Text: "m\n+3", Address: 5, Function: "m\n", Offset: 3}, {Text: "0x6", Address: 6}, {Text: "<unwind failure>"}}, PID: 88}},
		{of("username", 8), words(0), User{0, "root"}}, {&manifest.Layout{Kind: "timestamp", Size: 16, Clock: 2, Format: "%s"}, words(5, 0), Timestamp{time.Unix(2, 5), "2"}},
		{of("int", 8), []byte{1, 2}, nil}, // too short
	} {
		b := append([]byte(nil), c.b...)
		got := d.value(format.Value{Layout: c.l, Bytes: b})
		clear(b)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s of %d bytes (-want +got):\n%s", c.l.Kind, c.l.Size, diff)
		}
	}
}

// TestStrings checks the printed forms, which are those of btrun.
func TestStrings(t *testing.T) {
	for _, c := range []struct {
		v    interface{ String() string }
		want string
	}{
		{Pointer(255), "0xff"}, {Addr("::1"), "::1"}, {Enum{"RED", 1}, "RED"}, {Enum{"", -7}, "-7"}, {Stack{Frames: []Frame{{Text: "a"}, {Text: "b"}}}, "a\nb"},
		{Symbol{Name: "f+1"}, "f+1"}, {MAC{0xab, 1, 2, 3, 4, 0xff}, "AB:01:02:03:04:FF"}, {Timestamp{Text: "12:00"}, "12:00"}, {User{0, "root"}, "root"},
		{Cgroup{Path: "unified:/a"}, "unified:/a"}, {Cgroup{Path: "unified:/a", Label: "web"}, "unified:/a (web)"},
		{Number{1<<64 - 1, true}, "-1"}, {Number{1<<64 - 1, false}, "18446744073709551615"},
	} {
		if got := c.v.String(); got != c.want {
			t.Errorf("%T: %q, want %q", c.v, got, c.want)
		}
	}
	r := Record{{"a", 1}, {"b", "x"}}
	if r.Get("b") != "x" || r.Get("a") != 1 || r.Get("c") != nil {
		t.Error("wrong members")
	}
	if n := (Number{1<<64 - 1, true}); n.Int64() != -1 || n.Uint64() != 1<<64-1 || n.Float64() != -1 {
		t.Errorf("%v", n)
	}
	if n := (Number{1 << 63, false}); n.Float64() != 1<<63 {
		t.Errorf("%v", n)
	}
}

// TestScanLimits checks conversions at the ends of the ranges of integers.
func TestScanLimits(t *testing.T) {
	var i8 int8
	var u8 uint8
	var i64 int64
	var u64 uint64
	var e Enum
	var text string
	for _, c := range []struct {
		v   Value
		dst any
		ok  bool
	}{
		{int64(127), &i8, true}, {int64(-128), &i8, true}, {int64(128), &i8, false}, {uint64(127), &i8, true}, {uint64(128), &i8, false},
		{uint64(255), &u8, true}, {uint64(256), &u8, false}, {int64(0), &u8, true}, {int64(-1), &u8, false},
		{uint64(1<<63 - 1), &i64, true}, {uint64(1 << 63), &i64, false}, {int64(1<<63 - 1), &u64, true}, {int64(-1), &u64, false},
		{Enum{"RED", 3}, &u8, true}, {Enum{"RED", 300}, &u8, false}, {Enum{"RED", 3}, &e, true}, {Enum{"RED", 3}, &text, true},
		{Number{5, false}, &u8, true}, {Number{1<<64 - 5, true}, &i8, true}, {Number{1<<64 - 5, false}, &i8, false},
		{nil, &u8, true}, {true, &u8, false}, {"a", (*string)(nil), false}, {int64(1), &text, false},
	} {
		if err := ScanValue(c.v, c.dst); (err == nil) != c.ok {
			t.Errorf("%T %v to %T: %v", c.v, c.v, c.dst, err)
		}
	}
	if err := Scan([]Value{int64(1), int64(2)}, nil, &i64); err != nil || i64 != 2 {
		t.Errorf("a value that is discarded: %v, %d", err, i64)
	}
}

// TestTop checks the order of the largest entries, whatever order they are in.
func TestTop(t *testing.T) {
	signed := func(n int64) Number { return Number{uint64(n), true} }
	for _, c := range []struct {
		name   string
		values []Value
		want   []int // indices of the entries
	}{
		{"count", []Value{Count(2), Count(9), Count(4)}, []int{1, 2}},
		{"signed sum", []Value{Sum{signed(-5)}, Sum{signed(1)}, Sum{signed(-9)}}, []int{1, 0}},
		{"unsigned sum", []Value{Sum{Number{Bits: 1 << 63}}, Sum{Number{Bits: 1}}, Sum{Number{}}}, []int{0, 1}},
		{"min as unsigned", []Value{Min{signed(1)}, Min{signed(-1)}}, []int{1, 0}},
		{"avg", []Value{Avg{10, signed(50)}, Avg{1, signed(9)}}, []int{1, 0}},
		{"stats", []Value{Stats{1, signed(-9)}, Stats{2, signed(4)}}, []int{1, 0}},
		{"hist", []Value{&Hist{Counts: []uint64{5}}, &Hist{Counts: []uint64{0, 1, 7}}, &Hist{}}, []int{1, 0}},
		{"integers", []Value{int64(-1), int64(3), int64(0)}, []int{1, 2}},
		{"equal", []Value{uint64(1), uint64(1), uint64(1)}, []int{2, 1}},
		{"strings", []Value{"c", "a", "b"}, []int{2, 1}},
		{"series", []Value{Series{Points: []Point{{Value: signed(9)}, {Value: signed(1)}}}, Series{Points: []Point{{Value: signed(2)}}}}, []int{1, 0}},
	} {
		s := &Snapshot{}
		for i, v := range c.values {
			s.Entries = append(s.Entries, Entry{[]Value{i}, v})
		}
		var got []int
		for _, e := range s.Top(2) {
			got = append(got, e.Key[0].(int))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if n := len(s.Top(100)); n != len(c.values) || len(s.Top(-1)) != 0 || s.Entries[0].Key[0] != 0 {
			t.Errorf("%s: %d entries, or the snapshot changed", c.name, n)
		}
	}
}
