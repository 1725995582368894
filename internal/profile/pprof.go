// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"encoding/binary"
	"hash/crc32"
)

// encoder writes a message Profile of pprof's profile.proto, whose fields and messages have the numbers below.
type encoder struct {
	out     func([]byte)
	strings map[string]int
	table   []string
}

// text returns the index of a string in the table of strings.
func (e *encoder) text(s string) int {
	i, ok := e.strings[s]
	if !ok {
		i = len(e.table)
		e.strings[s] = i
		e.table = append(e.table, s)
	}
	return i
}

// numbers appends fields with numbers: pairs of the field and its value. 0 is the default and is not written.
func numbers(dst []byte, pairs ...int) []byte {
	for i := 1; i < len(pairs); i += 2 {
		if pairs[i] != 0 {
			dst = binary.AppendUvarint(append(dst, byte(pairs[i-1]<<3)), uint64(pairs[i]))
		}
	}
	return dst
}

// field appends a field with a string, a message or packed numbers.
func field(dst []byte, number int, b []byte) []byte {
	return append(binary.AppendUvarint(append(dst, byte(number<<3|2)), uint64(len(b))), b...)
}

// message writes a field of the profile whose value is a message.
func (e *encoder) message(number int, b []byte) { e.out(field(nil, number, b)) }

// function writes a message Function.
func (e *encoder) function(id int, name, file string) {
	e.message(5, numbers(nil, 1, id, 2, e.text(name), 3, e.text(name), 4, e.text(file)))
}

// Pprof passes the profile to write as a gzip file with a message of pprof's profile.proto. The data is not compressed:
// the profile of a run is small, and a compressor is not.
func (p *Profile) Pprof(write func([]byte)) {
	z := gzip{write: write}
	write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255})
	e := &encoder{out: z.add, strings: map[string]int{}}
	e.text("") // the first must be empty
	last := ""
	for _, t := range p.Types {
		last = t.Name
		e.message(1, numbers(nil, 1, e.text(t.Name), 2, e.text(t.Unit)))
	}
	// With a function in a mapping, pprof does not look for functions itself.
	named := make([]int, len(p.Mappings))
	ends := make([]uint64, len(p.Mappings)) // of the addresses
	functions := map[string]int{}           // IDs, by name and file
	for i := range p.Frames {
		f := &p.Frames[i]
		name := f.Name
		if m := f.Mapping - 1; m < 0 {
			name = p.Show(f)
		} else {
			ends[m] = max(ends[m], f.Address|4095+1)
			if name != "" {
				named[m] = 1
			}
		}
		b := numbers(nil, 1, i+1, 2, f.Mapping, 3, int(f.Address))
		if name != "" {
			key := name + "\x00" + f.File
			id := functions[key]
			if id == 0 {
				id = len(functions) + 1
				functions[key] = id
				e.function(id, name, f.File)
			}
			b = field(b, 4, numbers(nil, 1, id, 2, f.Line))
		}
		e.message(4, b)
	}
	none := len(p.Frames) + 1 // the location and the function of samples without frames
	e.function(none, NoStack, "")
	e.message(4, field(numbers(nil, 1, none), 4, numbers(nil, 1, none)))
	for i := range p.Samples {
		s := &p.Samples[i]
		var ids, values []byte
		for j := len(s.Frames) - 1; j >= 0; j-- {
			ids = binary.AppendUvarint(ids, uint64(s.Frames[j]+1))
		}
		if len(ids) == 0 {
			ids = binary.AppendUvarint(ids, uint64(none))
		}
		for _, v := range s.Values {
			values = binary.AppendUvarint(values, uint64(v))
		}
		b := field(field(nil, 1, ids), 2, values)
		for j, label := range s.Labels {
			if label != "" {
				b = field(b, 3, numbers(nil, 1, e.text(p.Labels[j]), 2, e.text(label)))
			}
		}
		e.message(2, b)
	}
	for i, m := range p.Mappings {
		e.message(3, numbers(nil, 1, i+1, 3, int(ends[i]), 5, e.text(m.File), 6, e.text(m.BuildID), 7, named[i]))
	}
	if p.Period > 0 {
		e.message(11, numbers(nil, 1, e.text("cpu"), 2, e.text("nanoseconds")))
	}
	e.out(numbers(nil, 9, int(p.Start), 10, int(p.Duration), 12, int(p.Period), 13, e.text(p.Comment), 14, e.text(last)))
	for _, s := range e.table {
		e.message(6, []byte(s))
	}
	z.store(z.block, 1)
	write(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, z.crc), z.size))
}

// gzip writes a gzip file with blocks that are stored, not compressed (RFC 1951, 3.2.4; RFC 1952).
type gzip struct {
	write func([]byte)
	block []byte
	crc   uint32
	size  uint32
}

const maxStored = 1<<16 - 1 // bytes of a stored block

func (z *gzip) add(b []byte) {
	z.crc = crc32.Update(z.crc, crc32.IEEETable, b)
	z.size += uint32(len(b))
	z.block = append(z.block, b...)
	for len(z.block) > maxStored {
		z.store(z.block[:maxStored], 0)
		z.block = append(z.block[:0], z.block[maxStored:]...)
	}
}

// store writes a block; last is 1 for the last one.
func (z *gzip) store(b []byte, last byte) {
	n := uint16(len(b))
	head := binary.LittleEndian.AppendUint16([]byte{last}, n)
	z.write(binary.LittleEndian.AppendUint16(head, ^n))
	z.write(b)
}
