// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"

	"btc/internal/manifest"
)

// Lengths that Grow chooses from: around the limits of the manifest, and far beyond.
var (
	elements = []int{16, 64, 256, 512, 1000, 4096, 32768, 65536, 400_000}
	lengths  = []int{256, 4096, 65535, 65536, 1 << 20, 7 << 20}
	bricks   = []string{"a", "\t", "\n", "%c", "%4096s", "$1", "\x00", "\x1b", `\`, "ü", ":", "/*", "1"}
)

// Grow makes one to three lists, tables or strings of m, which the caller owns, much longer, up to about limit bytes
// in the file altogether. Names and numbers that must be unique stay so.
func Grow(m *manifest.Manifest, limit int, r *rand.Rand) {
	left := limit
	for range 1 + r.IntN(3) {
		var all []field
		collect(reflect.ValueOf(m).Elem(), "", &all)
		var some []field
		for _, f := range all {
			if k := f.value.Kind(); k == reflect.Slice && f.value.Len() > 0 || k == reflect.String || k == reflect.Map {
				some = append(some, f)
			}
		}
		if f := choose(some, r); f.value.IsValid() {
			left -= grow(f.value, left, r)
		}
		if left < limit/2 { // collecting millions of fields again takes long
			return
		}
	}
}

// grow makes v longer and returns by about how many bytes.
func grow(v reflect.Value, limit int, r *rand.Rand) int {
	switch v.Kind() {
	case reflect.String:
		n := min(lengths[r.IntN(len(lengths))], max(limit, 0))
		brick := bricks[r.IntN(len(bricks))]
		v.SetString(v.String() + strings.Repeat(brick, n/len(brick)))
		return 3 * n
	case reflect.Map:
		n := min(elements[r.IntN(len(elements))], limit/300)
		name := strings.Repeat("n", r.IntN(257))
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		for i := range n {
			v.SetMapIndex(reflect.ValueOf(strconv.Itoa(i)), reflect.ValueOf(name))
		}
		return n * 300
	}
	one := v.Index(r.IntN(v.Len()))
	n := min(elements[r.IntN(len(elements))], limit/max(1, size(one)))
	if n <= v.Len() {
		return 0
	}
	all := reflect.MakeSlice(v.Type(), v.Len(), n)
	reflect.Copy(all, v)
	for i := v.Len(); i < n; i++ {
		c := one
		if c.Kind() == reflect.Struct {
			c = clone(one)
			unique(c, i)
		}
		all = reflect.Append(all, c)
	}
	v.Set(all)
	return n * size(one)
}

// unique changes the names and the number of a copy.
func unique(v reflect.Value, i int) {
	for _, name := range []string{"Name", "Symbol"} {
		if f := v.FieldByName(name); f.IsValid() && f.Kind() == reflect.String && f.String() != "" {
			f.SetString(f.String() + strconv.Itoa(i))
		}
	}
	if f := v.FieldByName("ID"); f.IsValid() {
		f.SetInt(int64(i))
	}
}

// size returns about how many bytes v takes in the file.
func size(v reflect.Value) int {
	n := 2
	switch v.Kind() {
	case reflect.String:
		n += 2 * v.Len()
	case reflect.Pointer:
		if !v.IsNil() {
			n += size(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			n += size(v.Index(i))
		}
	case reflect.Map:
		n += 300 * v.Len()
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() {
				n += len(v.Type().Field(i).Name) + 5 + size(f)
			}
		}
	default:
		n += 6
	}
	return n
}

// GrowObject returns an ELF file (64-bit, little-endian) like data with a table that is repeated many times, or with
// a name of up to limit bytes to which many symbols, sections or members refer.
func GrowObject(data []byte, limit int, r *rand.Rand) []byte {
	const header = 64
	le := binary.LittleEndian
	out := append([]byte{}, data...)
	n := int(le.Uint16(out[60:]))
	headers := append([]byte{}, out[le.Uint64(out[40:]):][:n*header]...)
	type section struct{ h, content []byte }
	var all []section
	for i := range n {
		h := headers[i*header:][:header]
		s := section{h: h}
		if le.Uint32(h[4:]) != 8 { // SHT_NOBITS
			s.content = data[le.Uint64(h[24:]):][:le.Uint64(h[32:])]
		}
		all = append(all, s)
	}
	// put appends the content of section i to the file.
	put := func(i int, content []byte) {
		le.PutUint64(all[i].h[24:], uint64(len(out)))
		le.PutUint64(all[i].h[32:], uint64(len(content)))
		out = append(out, content...)
	}
	long := append([]byte(strings.Repeat("a", limit/4)), 0)
	symbols, names := -1, int(le.Uint16(out[62:]))
	var btf []int
	for i, s := range all {
		switch {
		case le.Uint32(s.h[4:]) == 2: // SHT_SYMTAB
			symbols = i
		case len(s.content) > 4 && le.Uint16(s.content) == 0xeb9f: // BTF_MAGIC
			btf = append(btf, i)
		}
	}
	switch kind := r.IntN(5); {
	case kind == 0 && symbols >= 0: // many symbols with one long name
		table := int(le.Uint32(all[symbols].h[40:]))
		at := len(all[table].content)
		put(table, append(append([]byte{}, all[table].content...), long...))
		content := append([]byte{}, all[symbols].content...)
		one := append([]byte{}, content[len(content)-24:]...)
		le.PutUint32(one, uint32(at))
		for range 1 + r.IntN(limit/2/24) {
			content = append(content, one...)
		}
		put(symbols, content)
	case kind == 1: // many sections with one long name
		at := len(all[names].content)
		put(names, append(append([]byte{}, all[names].content...), long...))
		one := append([]byte{}, all[r.IntN(n)].h...)
		if r.IntN(2) == 0 {
			le.PutUint32(one, uint32(at))
		}
		for n < 60000 && r.IntN(5000) > 0 {
			headers = append(headers, one...)
			n++
		}
	case kind == 2 && len(btf) > 0: // many types, members or relocations with one long name
		i := btf[r.IntN(len(btf))]
		c := append([]byte{}, all[i].content...)
		if from := int(le.Uint32(c[4:])); le.Uint32(c[16:])+le.Uint32(c[20:])+uint32(from) == uint32(len(c)) { // strings are last
			at := le.Uint32(c[20:])
			c = append(c, long...)
			le.PutUint32(c[20:], at+uint32(len(long)))
			types := c[from+int(le.Uint32(c[8:])):][:le.Uint32(c[12:])]
			for k := 0; k+4 <= len(types); k += 4 {
				if v := le.Uint32(types[k:]); v > 0 && v < at && r.IntN(3) == 0 {
					le.PutUint32(types[k:], at)
				}
			}
		}
		put(i, c)
	default: // the content of a section, many times
		i := r.IntN(n)
		c := all[i].content
		if len(c) == 0 {
			break
		}
		put(i, []byte(strings.Repeat(string(c), 1+r.IntN(max(1, limit/len(c))))))
	}
	le.PutUint64(out[40:], uint64(len(out)))
	le.PutUint16(out[60:], uint16(n))
	return append(out, headers...)
}
