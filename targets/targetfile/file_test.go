// SPDX-License-Identifier: Apache-2.0

package targetfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sample is a small target with every kind of record.
func sample() *Data {
	d := &Data{
		Meta: Meta{Arch: "x86_64", Release: "6.12-test", Gaps: []string{"nothing of note"}},
		Types: []Type{
			{Kind: Int, Name: "int", Size: 4, Flags: Signed},
			{Kind: Float, Name: "double", Size: 8},
			{Kind: Array, Size: 16, Len: 4, Elem: MakeRef(0, 0)},
			{Kind: Struct, Name: "s", Size: 32, Members: []Member{
				{Name: "a", BitOffset: 0, Type: MakeRef(0, 0)},
				{Name: "bits", BitOffset: 35, BitSize: 3, Type: MakeRef(0, 0)},
				{Name: "", BitOffset: 64, Type: MakeRef(4, 0)},
				{Name: "next", BitOffset: 192, Type: MakeRef(3, 1)},
			}},
			{Kind: Union, Size: 16, Members: []Member{{Name: "x", Type: MakeRef(2, 0)}, {Name: "y", Type: MakeRef(5, 3)}}},
			{Kind: Pointer, Size: 8, Flags: User, Elem: MakeRef(-1, 0)},
			{Kind: Enum, Name: "e", Size: 8, Flags: Signed, Enumerators: []Enumerator{{"MIN", -1 << 63}, {"ONE", 1}, {"MAX", 1<<63 - 1}}},
			{Kind: Typedef, Name: "e_t", Size: 8, Elem: MakeRef(6, 0)},
			{Kind: Proto, Flags: Variadic, Elem: MakeRef(0, 0), Params: []Param{{"fmt", MakeRef(0, 1)}}},
			{Kind: Forward, Name: "hidden"},
			{Kind: Struct, Name: "s", Size: 4, Members: []Member{{Name: "other", Type: MakeRef(0, 0)}}},
		},
		Funcs: []Func{
			{Name: "bare", Traceable: true},
			{Name: "in_module", Module: "ext4", Traceable: true},
			{Name: "kf", Kfunc: true, Proto: &Type{Kind: Proto, Elem: MakeRef(0, 1), Params: []Param{{"p", MakeRef(3, 1)}}}},
			{Name: "printk", Proto: &Type{Kind: Proto, Flags: Variadic, Params: []Param{{"", MakeRef(0, 2)}}}},
		},
		Events: []Event{
			{Category: "cat", Name: "ev", Class: "trace_event_raw_ev", Fields: []Field{
				{"a", "int", 8, 4, true}, {"b", "__data_loc char[]", 12, 4, false}, {"c", "u64", 24, 8, false}}},
		},
		Syscalls: []Syscall{
			{Name: "exit", Nr: 60, Args: []Arg{{"error_code", "int"}}},
			{Name: "odd", Nr: -1, Args: []Arg{}, Exit: true},
		},
	}
	// Enough functions to fill several blocks.
	for i := range 3000 {
		d.Funcs = append(d.Funcs, Func{Name: fmt.Sprintf("zz_function_%04d", i), Traceable: true})
		d.Types = append(d.Types, Type{Kind: Typedef, Name: fmt.Sprintf("zz_type_%04d", i), Size: 4, Elem: MakeRef(0, 0)})
	}
	return d
}

// writers are both compression formats.
var writers = map[string]func(*Data) ([]byte, error){"deflate": Write, "zstd": WriteZstd}

func written(tb testing.TB, d *Data) []byte {
	tb.Helper()
	b, err := Write(d)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	for name, write := range writers {
		t.Run(name, func(t *testing.T) {
			d := sample()
			b, err := write(d)
			if err != nil {
				t.Fatal(err)
			}
			roundTrip(t, d, b)
		})
	}
}

func roundTrip(t *testing.T, d *Data, b []byte) {
	f, err := Open(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d.Meta, f.Meta); diff != "" {
		t.Error(diff)
	}
	if f.NumTypes() != len(d.Types) {
		t.Errorf("NumTypes = %d", f.NumTypes())
	}
	for i := range d.Types {
		got, err := f.Type(MakeRef(i, 2))
		if diff := cmp.Diff(d.Types[i], got); err != nil || diff != "" {
			t.Fatalf("type %d: %v\n%s", i, err, diff)
		}
	}
	for _, want := range d.Funcs {
		got, ok, err := f.Func(want.Name)
		if diff := cmp.Diff(want, got); !ok || err != nil || diff != "" {
			t.Fatalf("function %s: %v\n%s", want.Name, err, diff)
		}
	}
	for _, want := range d.Events {
		got, ok, err := f.Event(want.Category, want.Name)
		if diff := cmp.Diff(want, got); !ok || err != nil || diff != "" {
			t.Errorf("event: %v\n%s", err, diff)
		}
	}
	for _, want := range d.Syscalls {
		got, ok, err := f.Syscall(want.Name)
		if diff := cmp.Diff(want, got); !ok || err != nil || diff != "" {
			t.Errorf("system call: %v\n%s", err, diff)
		}
	}
}

func TestLookups(t *testing.T) {
	f, err := Open(written(t, sample()))
	if err != nil {
		t.Fatal(err)
	}
	if refs, err := f.Named(Struct, "s"); err != nil || !cmp.Equal(refs, []Ref{MakeRef(3, 0), MakeRef(10, 0)}) {
		t.Errorf("struct s = %v, %v", refs, err)
	}
	if refs, err := f.Named(Union, "s"); err != nil || refs != nil {
		t.Errorf("union s = %v, %v", refs, err)
	}
	if refs, err := f.EnumOf("ONE"); err != nil || !cmp.Equal(refs, []Ref{MakeRef(6, 0)}) {
		t.Errorf("ONE = %v, %v", refs, err)
	}
	for _, name := range []string{"", "a", "bar", "bare_", "zz_function_3000", "zzz", "zz_function_"} {
		if _, ok, err := f.Func(name); ok || err != nil {
			t.Errorf("function %q = %v, %v", name, ok, err)
		}
	}
	var names []string
	if err := f.Funcs("zz_function_29", func(fn Func) bool { names = append(names, fn.Name); return true }); err != nil {
		t.Error(err)
	}
	if len(names) != 100 || names[0] != "zz_function_2900" || names[99] != "zz_function_2999" {
		t.Errorf("functions by prefix = %v", names)
	}
	n := 0
	if err := f.TypeNames(Typedef, "", func(string) bool { n++; return n < 5 }); err != nil || n != 5 {
		t.Errorf("scan did not stop: %d functions, %v", n, err)
	}
	if _, err := f.Type(MakeRef(f.NumTypes(), 0)); err == nil {
		t.Error("no error for a type past the end")
	}
	if _, err := f.Type(0); err == nil {
		t.Error("found a record for void")
	}
}

func TestDeterministic(t *testing.T) {
	if !bytes.Equal(written(t, sample()), written(t, sample())) {
		t.Error("writing twice gives different bytes")
	}
}

// TestDictionary checks that names made of the same words are compressed with a dictionary by DEFLATE
// only, and are found again.
func TestDictionary(t *testing.T) {
	d := &Data{Meta: Meta{Arch: "x86_64"}}
	name := func(i int) string {
		h := sha256.Sum256(fmt.Append(nil, i))
		text := ""
		for _, b := range h[:5] {
			word := sha256.Sum256([]byte{b & 127})
			text += fmt.Sprintf("_%x", word[:4])
		}
		return text
	}
	for i := range 5000 {
		d.Funcs = append(d.Funcs, Func{Name: name(i), Traceable: true})
	}
	for codec, write := range writers {
		b, err := write(d)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(b)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := f.tables[tableFuncs].dictRaw > 0, f.codec == codecDeflate; got != want {
			t.Errorf("%s: has a dictionary: %v, want %v", codec, got, want)
		}
		for i := 0; i < 5000; i += 99 {
			if _, ok, err := f.Func(name(i)); !ok || err != nil {
				t.Fatalf("%s: function %s: %v, %v", codec, name(i), ok, err)
			}
		}
	}
}

func TestWriteRefusesDanglingReferences(t *testing.T) {
	d := sample()
	d.Types[2].Elem = MakeRef(len(d.Types), 0)
	if _, err := Write(d); err == nil {
		t.Error("no error for a dangling reference")
	}
}

// exercise does every lookup in a file. It must not panic, whatever the contents.
func exercise(f *File) (err error) {
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	for i := range min(f.NumTypes(), 64) {
		_, e := f.Type(MakeRef(i, 0))
		keep(e)
	}
	_, e := f.Type(MakeRef(f.NumTypes()-1, 0))
	keep(e)
	_, e = f.Named(Struct, "s")
	keep(e)
	_, e = f.EnumOf("ONE")
	keep(e)
	_, _, e = f.Func("printk")
	keep(e)
	_, _, e = f.Event("cat", "ev")
	keep(e)
	_, _, e = f.Syscall("exit")
	keep(e)
	keep(f.TypeNames(Typedef, "", func(string) bool { return true }))
	keep(f.Consts("", func(string) bool { return true }))
	keep(f.Funcs("", func(Func) bool { return true }))
	keep(f.Events("", func(string) bool { return true }))
	keep(f.Syscalls("", func(string) bool { return true }))
	return err
}

func TestTruncated(t *testing.T) {
	for name, write := range writers {
		good, err := write(sample())
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; n < len(good); n += 1 + n/40 {
			f, err := Open(good[:n])
			if err == nil {
				err = exercise(f)
			}
			if err == nil {
				t.Errorf("%s: no error for the first %d of %d bytes", name, n, len(good))
			}
		}
	}
}

// TestLyingTypeCount checks that a type table that claims two billion entries is rejected early.
func TestLyingTypeCount(t *testing.T) {
	f, err := Open(written(t, sample()))
	if err != nil {
		t.Fatal(err)
	}
	f.tables[tableTypes].entries = 1<<31 - 1
	if allocated := testing.AllocsPerRun(1, func() { _, err = f.Type(MakeRef(1<<29-2, 0)) }); err == nil || allocated > 1000 {
		t.Errorf("error = %v after %v allocations", err, allocated)
	}
}

// TestFlipped checks that a flipped bit is detected or harmless.
func TestFlipped(t *testing.T) {
	for name, write := range writers {
		good, err := write(sample())
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		all := 0
		for i := 0; i < len(good); i += 1 + i/60 {
			all++
			bad := bytes.Clone(good)
			bad[i] ^= 1 << (i % 8)
			f, err := Open(bad)
			if err == nil {
				err = exercise(f) // must not panic; the padding after the directory is not covered by a checksum
			}
			if err != nil {
				found++
			}
		}
		// exercise does not decompress every block of types.
		if found < all/2 {
			t.Errorf("%s: only %d of %d flipped bits detected", name, found, all)
		}
	}
}

// lie returns a file whose directory has a valid checksum but wrong contents.
func lie(codec, entries, off, packed, raw, dict int) []byte {
	var dir encoder
	dir.uint(codec)
	dir.string("x86_64")
	dir.string("lie")
	dir.uint(0)
	for range numTables {
		dir.uint(entries)
		dir.uint(off)
		dir.uint(packed)
		dir.uint(raw)
		dir.uint(dict)
		dir.uint(dict)
	}
	out := append([]byte(magic), Version)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(dir.b)))
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(dir.b, crc32.MakeTable(crc32.Castagnoli)))
	return append(append(out, dir.b...), make([]byte, 64)...)
}

func TestLyingDirectory(t *testing.T) {
	const huge = 1<<31 - 1
	for _, b := range [][]byte{
		lie(codecZstd, 5, headerSize, 10, huge, 0), lie(codecZstd, 5, huge, huge, 10, 0), lie(codecZstd, huge, 0, 1, 1, 0), lie(codecZstd, 5, headerSize, huge, 10, 0), lie(codecZstd, huge, headerSize, 0, 0, 0),
		lie(codecDeflate, 5, headerSize, 10, huge, 0), lie(codecDeflate, huge, headerSize, 10, maxChunk, 0), lie(codecDeflate, 5, headerSize+40, 10, 10, huge),
		lie(codecDeflate, 5, headerSize+40, 10, 10, 20), lie(2, 5, headerSize, 10, 10, 0),
	} {
		f, err := Open(b)
		if err != nil {
			continue
		}
		allocated := testing.AllocsPerRun(1, func() { err = exercise(f) })
		if err == nil {
			t.Error("no error for a wrong directory")
		}
		if allocated > 1e5 {
			t.Errorf("%v allocations for a wrong directory", allocated)
		}
	}
}

func TestOtherVersion(t *testing.T) {
	b := written(t, &Data{Meta: Meta{Arch: "x86_64"}})
	b[len(magic)] = Version + 1
	if _, err := Open(b); err == nil {
		t.Error("no error for another version")
	}
}

// FuzzOpen reads damaged files with a corrected checksum of the directory, so that the reader gets past
// the first check.
func FuzzOpen(f *testing.F) {
	f.Add(written(f, sample()))
	f.Add(written(f, &Data{}))
	f.Add(lie(codecZstd, 5, headerSize, 10, 1<<20, 0))
	f.Add(lie(codecDeflate, 5, headerSize, 10, 1<<20, 8))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > headerSize {
			if n := binary.LittleEndian.Uint32(b[len(magic)+1:]); int64(n) <= int64(len(b)-headerSize) {
				sum := crc32.Checksum(b[headerSize:headerSize+int(n)], crc32.MakeTable(crc32.Castagnoli))
				binary.LittleEndian.PutUint32(b[len(magic)+5:], sum)
			}
		}
		if file, err := Open(b); err == nil {
			_ = exercise(file)
		}
	})
}

// FuzzRecords decodes arbitrary records. FuzzOpen does not reach these because of the checksums of
// blocks.
func FuzzRecords(f *testing.F) {
	for _, t := range sample().Types[:11] {
		var e encoder
		e.typ(&t)
		f.Add(e.b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := &decoder{b: b}
		if typ := d.typ(); d.end() == nil {
			var e encoder
			e.typ(&typ)
			again := &decoder{b: e.b}
			if diff := cmp.Diff(typ, again.typ()); diff != "" {
				t.Error(diff)
			}
		}
		(&decoder{b: b}).function("f")
		(&decoder{b: b}).event()
		(&decoder{b: b}).syscall("s")
	})
}
