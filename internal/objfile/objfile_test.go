// SPDX-License-Identifier: Apache-2.0

package objfile

import (
	"bytes"
	"debug/elf"
	"testing"
)

// object returns an ELF file with a string table as its only section.
func object() []byte {
	table := []byte("\x00.strtab\x00" + Section + "\x00")
	file := append(make([]byte, headerSize), table...)
	for len(file)%8 != 0 {
		file = append(file, 0)
	}
	at := len(file)
	file = append(file, make([]byte, 2*sectionSize)...)
	copy(file, "\x7fELF\x02\x01\x01")
	order.PutUint64(file[40:], uint64(at))
	order.PutUint16(file[16:], uint16(elf.ET_REL))
	order.PutUint32(file[20:], uint32(elf.EV_CURRENT))
	order.PutUint16(file[52:], headerSize)
	order.PutUint16(file[58:], sectionSize)
	order.PutUint16(file[60:], 2)
	order.PutUint16(file[62:], 1)
	h := file[at+sectionSize:]
	order.PutUint32(h, 1)
	order.PutUint32(h[4:], uint32(elf.SHT_STRTAB))
	order.PutUint64(h[24:], headerSize)
	order.PutUint64(h[32:], uint64(len(table)))
	order.PutUint64(h[48:], 1)
	return file
}

func TestJoin(t *testing.T) {
	o := object()
	for size := 1; size < 20; size++ {
		text := bytes.Repeat([]byte("m"), size)
		file, err := Join(o, text)
		if err != nil {
			t.Fatal(err)
		}
		gotObject, gotText, err := Split(file)
		if err != nil || !bytes.Equal(gotObject, o) || !bytes.Equal(gotText, text) {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if Size(file) != uint64(len(file)) {
			t.Errorf("size %d, want %d", Size(file), len(file))
		}
		f, err := elf.NewFile(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := f.Section(Section).Data(); err != nil || !bytes.Equal(got, text) {
			t.Errorf("the section has %q, %v", got, err)
		}
	}
	for name, c := range map[string]struct{ object, manifest []byte }{
		"no manifest":     {o, nil},
		"no ELF file":     {[]byte("text"), []byte("m")},
		"bytes at end":    {append(bytes.Clone(o), 0), []byte("m")},
		"no section name": {bytes.Replace(o, []byte(Section), bytes.ToUpper([]byte(Section)), 1), []byte("m")},
	} {
		if _, err := Join(c.object, c.manifest); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestSplitChanged changes each bit of a file, cuts it at each byte, and inserts and removes each byte.
func TestSplitChanged(t *testing.T) {
	file, err := Join(object(), []byte(`{"schema": "btc/1"}`+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, i int, changed []byte) {
		t.Helper()
		if _, _, err := Split(changed); err == nil {
			t.Errorf("%s %d is accepted", what, i)
		}
	}
	for i := range 8 * len(file) {
		changed := bytes.Clone(file)
		changed[i/8] ^= 1 << (i % 8)
		refused("changed bit", i, changed)
	}
	for i := range file {
		refused("end at byte", i, file[:i])
		refused("without byte", i, append(bytes.Clone(file[:i]), file[i+1:]...))
		refused("inserted byte", i, append(append(bytes.Clone(file[:i]), 0), file[i:]...))
	}
	refused("byte after the end", 0, append(bytes.Clone(file), 0))
	if _, _, err := Split(object()); err != ErrNone {
		t.Errorf("without the section: %v", err)
	}
}

// TestSplitSealed checks the conditions on the layout that hold for a file with a correct digest, too: whoever can write the
// digest must not be able to hide bytes, or have two files with the same object and manifest.
func TestSplitSealed(t *testing.T) {
	file, err := Join(object(), []byte(`{"schema": "btc/1"}`+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	at, n, _ := header(file)
	last := len(file) - sectionSize
	from, size := int(order.Uint64(file[last+24:])), int(order.Uint64(file[last+32:]))
	sealed := func(change func(b []byte) []byte) []byte {
		b := change(bytes.Clone(file))
		if at, _, ok := header(b); ok && at >= digestSize {
			copy(b[at-digestSize:], seal(b, at))
		}
		return b
	}
	if _, _, err := Split(sealed(func(b []byte) []byte { return b })); err != nil {
		t.Fatal(err)
	}
	for i := range sectionSize { // only the name could be another one, as that of another section
		if _, _, err := Split(sealed(func(b []byte) []byte { b[last+i] ^= 4; return b })); err == nil {
			t.Errorf("byte %d of the section's header can be another", i)
		}
	}
	for i := from + size; i < int(at)-digestSize; i++ {
		if _, _, err := Split(sealed(func(b []byte) []byte { b[i] = 1; return b })); err != ErrChanged {
			t.Errorf("padding at %d: error = %v", i, err)
		}
	}
	for name, change := range map[string]func(b []byte) []byte{
		"a gap before the digest": func(b []byte) []byte {
			b = append(append(append([]byte{}, b[:from+size]...), make([]byte, 8)...), b[from+size:]...)
			order.PutUint64(b[40:], at+8)
			return b
		},
		"a manifest that begins earlier": func(b []byte) []byte {
			order.PutUint64(b[last+24:], uint64(from-8))
			return b
		},
		"a manifest as long as the address space": func(b []byte) []byte {
			order.PutUint64(b[last+32:], ^uint64(0))
			return b
		},
		"a manifest in the section headers": func(b []byte) []byte {
			order.PutUint64(b[last+24:], at+8)
			return b
		},
		"its own name in the manifest": func([]byte) []byte {
			o := object()
			copy(o[bytes.Index(o, []byte(Section)):], bytes.ToUpper([]byte(Section)))
			text := []byte("\x00" + Section + "\x00")
			b := append(append(bytes.Clone(o[:from]), text...), make([]byte, -len(text)&7+digestSize)...)
			order.PutUint64(b[40:], uint64(len(b)))
			order.PutUint16(b[60:], 3)
			order.PutUint16(b[62:], 2)
			return append(append(b, o[from:]...), sectionHeader(1, uint64(from), uint64(len(text)))...)
		},
		"the section first": func(b []byte) []byte {
			one, two := bytes.Clone(b[last-sectionSize:last]), bytes.Clone(b[last:])
			copy(b[last-sectionSize:], two)
			copy(b[last:], one)
			order.PutUint16(b[62:], uint16(n-1))
			return b
		},
	} {
		if _, _, err := Split(sealed(change)); err != ErrChanged {
			t.Errorf("%s: error = %v", name, err)
		}
	}
}

// FuzzSplit checks that each file that Split accepts is the one that Join makes of its result.
func FuzzSplit(f *testing.F) {
	file, err := Join(object(), []byte(`{"schema": "btc/1"}`+"\n"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Add(object())
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, file []byte) {
		Linked(file)
		if at, n, ok := header(file); ok && at >= headerSize+digestSize && n > 0 {
			file = bytes.Clone(file)
			copy(file[at-digestSize:], seal(file, at)) // the fuzzer cannot compute it
		}
		object, manifest, err := Split(file)
		if err != nil {
			return
		}
		again, err := Join(object, manifest)
		if err != nil || !bytes.Equal(again, file) {
			t.Errorf("%v, %d bytes instead of %d", err, len(again), len(file))
		}
	})
}
