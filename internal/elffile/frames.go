// SPDX-License-Identifier: Apache-2.0

package elffile

import (
	"debug/elf"
	"encoding/binary"
	"sort"
)

// frame is an entry of .eh_frame: the code of a function, or of a part of one.
type frame struct {
	from, to uint64 // virtual addresses
	at       uint64 // offset of the entry in the section
}

// Limits of .eh_frame.
const (
	maxFrames     = 1 << 21
	maxFrameBytes = 64 << 20 // bytes that are read
	maxFrameDepth = 16       // of DW_CFA_remember_state
	maxFrameSteps = 1 << 14  // instructions of one entry that are executed
	maxFrameText  = 16       // bytes of an augmentation or a number: the common part is read again for each entry
)

// frames is the section .eh_frame, as the Linux Standard Base defines it. It is hostile input: what is not understood
// is skipped. The section .debug_frame is not read: it is in files that have symbols, and strip removes both.
type frames struct {
	file *elf.File
	data []byte
	addr uint64 // of data
	all  []frame
}

func framesOf(f *elf.File) *frames {
	x := &frames{file: f}
	sec := f.Section(".eh_frame")
	if sec == nil || sec.Type == elf.SHT_NOBITS || sec.Flags&elf.SHF_COMPRESSED != 0 || sec.FileSize > maxFrameBytes {
		return x
	}
	data, err := sec.Data()
	if err != nil {
		return x
	}
	x.data, x.addr = data, sec.Addr
	x.index()
	return x
}

// index reads the addresses of all entries.
func (x *frames) index() {
	f, data := x.file, x.data
	for at := uint64(0); at+8 <= uint64(len(data)) && len(x.all) < maxFrames; {
		length := uint64(f.ByteOrder.Uint32(data[at:]))
		if length < 4 || length > uint64(len(data))-at-4 { // a terminator, or an entry of 4 GiB
			break
		}
		if f.ByteOrder.Uint32(data[at+4:]) != 0 {
			if c, r := x.entry(at); r != nil && !c.signal && c.to > c.from {
				x.all = append(x.all, c.frame)
			}
		}
		at += 4 + length
	}
	sort.Slice(x.all, func(i, j int) bool {
		a, b := x.all[i], x.all[j]
		return a.from < b.from || a.from == b.from && a.to < b.to
	})
}

// around returns the frame that contains an address; nil: there is none.
func (x *frames) around(addr uint64) *frame {
	i := sort.Search(len(x.all), func(i int) bool { return x.all[i].from > addr })
	if i == 0 || x.all[i-1].to <= addr {
		return nil
	}
	return &x.all[i-1]
}

// description is an entry with the part that it shares with others.
type description struct {
	frame
	signal     bool // the frame of a signal: its code may begin before the function
	codeFactor uint64
	dataFactor int64
	returns    uint64 // column of the return address
	initial    *dwarf // instructions of the common part
}

// entry reads the entry at an offset. It returns its instructions; nil if it is not understood.
func (x *frames) entry(at uint64) (d description, rules *dwarf) {
	r := x.reader(at)
	if r == nil {
		return d, nil
	}
	start := at + 4
	back := uint64(r.fixed(4))
	if back > start {
		return d, nil
	}
	c := x.reader(start - back)
	if c == nil || c.fixed(4) != 0 {
		return d, nil
	}
	version := c.fixed(1)
	words := c.text()
	if version != 1 && version != 3 || words != "" && words[0] != 'z' {
		return d, nil
	}
	d.codeFactor, d.dataFactor = c.uleb(), c.sleb()
	if d.returns = c.fixed(1); version == 3 {
		c.at--
		d.returns = c.uleb()
	}
	coding := uint64(0)
	if words != "" {
		size := c.uleb()
		rest := c.sub(size)
		for _, w := range words[1:] {
			switch w {
			case 'R':
				coding = rest.fixed(1)
			case 'P':
				rest.pointer(rest.fixed(1))
			case 'L':
				rest.fixed(1)
			case 'S':
				d.signal = true
			case 'B', 'G': // arm64: keys and tags of the return address
			default:
				return d, nil
			}
		}
		if rest.bad {
			return d, nil
		}
	}
	d.initial = c
	d.at = at
	d.from = r.pointer(coding)
	d.to = d.from + r.pointer(coding&0xf)
	if words != "" {
		r.sub(r.uleb())
	}
	if r.bad || c.bad {
		return d, nil
	}
	return d, r
}

// dwarf reads the values of an entry; past its end they are 0 and bad is set.
type dwarf struct {
	order binary.ByteOrder
	data  []byte
	at    int
	addr  uint64 // of data
	word  int    // bytes of an address
	bad   bool
}

// reader returns the content of the entry at an offset, after its length.
func (x *frames) reader(at uint64) *dwarf {
	if at+4 > uint64(len(x.data)) || at+4 < at {
		return nil
	}
	n := uint64(x.file.ByteOrder.Uint32(x.data[at:]))
	if n > uint64(len(x.data))-at-4 {
		return nil
	}
	d := &dwarf{order: x.file.ByteOrder, data: x.data[at+4:][:n], addr: x.addr + at + 4, word: 8}
	if x.file.Class == elf.ELFCLASS32 {
		d.word = 4
	}
	return d
}

func (d *dwarf) fixed(n int) uint64 {
	if n > len(d.data)-d.at {
		d.at, d.bad = len(d.data), true
		return 0
	}
	b := d.data[d.at:][:n]
	d.at += n
	switch n {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(d.order.Uint16(b))
	case 4:
		return uint64(d.order.Uint32(b))
	}
	return d.order.Uint64(b)
}

func (d *dwarf) uleb() (v uint64) {
	for shift := 0; ; shift += 7 {
		b := d.fixed(1)
		v |= b & 0x7f << shift
		if b < 0x80 {
			return v
		}
		if shift > 7*maxFrameText {
			d.bad = true
			return v
		}
	}
}

func (d *dwarf) sleb() int64 {
	from := d.at
	v := d.uleb()
	if bits := 7 * (d.at - from); bits < 64 && !d.bad && d.data[d.at-1]&0x40 != 0 {
		v |= ^uint64(0) << bits
	}
	return int64(v)
}

// text reads a string up to its NUL.
func (d *dwarf) text() string {
	from := d.at
	for d.fixed(1) != 0 {
		if d.at-from > maxFrameText {
			d.bad = true
			break
		}
	}
	return string(d.data[from:max(d.at-1, from)])
}

// sub splits off n bytes.
func (d *dwarf) sub(n uint64) *dwarf {
	out := *d
	if n > uint64(len(d.data)-d.at) {
		d.at, d.bad, out.bad = len(d.data), true, true
		return &out
	}
	out.data = d.data[:d.at+int(n)]
	d.at += int(n)
	return &out
}

// pointer reads a value in a coding of DW_EH_PE.
func (d *dwarf) pointer(coding uint64) uint64 {
	here := d.addr + uint64(d.at)
	var v uint64
	switch coding & 0xf {
	case 0:
		v = d.fixed(d.word)
	case 2:
		v = d.fixed(2)
	case 3:
		v = d.fixed(4)
	case 4, 12:
		v = d.fixed(8)
	case 10:
		v = uint64(int64(int16(d.fixed(2))))
	case 11:
		v = uint64(int64(int32(d.fixed(4))))
	default:
		d.bad = true
	}
	switch coding & 0x70 {
	case 0:
	case 0x10: // relative to its own address
		v += here
	default:
		d.bad = d.bad || coding&0x70 != 0x30 // the relative ones of personalities need not be resolved
	}
	if d.word == 4 {
		v = uint64(uint32(v))
	}
	return v
}

// How a frame saves the return address.
const (
	unsaved = iota // it is in its register
	saved          // on the stack, at an offset from the frame
	nowhere        // there is none, or elsewhere
)

// row is what is known of the frame at an instruction.
type row struct {
	register uint64 // the address of the frame is register + offset
	offset   int64
	known    bool
	state    int   // of the return address
	at       int64 // its offset from the frame, if saved
}

// entered reports whether the code at an address runs with the return address where a call leaves it, according to
// the frame that contains the address.
func (x *frames) entered(f *frame, addr uint64) bool {
	d, rules := x.entry(f.at)
	if rules == nil {
		return false
	}
	r, ok := row{}, false
	if r, ok = d.run(d.initial, row{}, row{}, ^uint64(0)); ok {
		r, ok = d.run(rules, r, r, addr)
	}
	if !ok || !r.known {
		return false
	}
	switch x.file.Machine {
	case elf.EM_X86_64: // rsp + 8
		return r.register == 7 && r.offset == 8 && r.state == saved && r.at == -8
	case elf.EM_386: // esp + 4
		return r.register == 4 && r.offset == 4 && r.state == saved && r.at == -4
	case elf.EM_AARCH64, elf.EM_RISCV:
		return r.state == unsaved
	}
	return false
}

// run executes instructions up to an address. first is the row to which DW_CFA_restore returns.
func (d *description) run(in *dwarf, r, first row, until uint64) (row, bool) {
	at := d.from
	var stack []row
	save := func(column uint64, state int, off int64) {
		if column == d.returns {
			r.state, r.at = state, off
		}
	}
	advance := func(n uint64) bool {
		at += n * d.codeFactor
		return at <= until
	}
	for steps := 0; in.at < len(in.data) && !in.bad; steps++ {
		if steps == maxFrameSteps {
			return r, false
		}
		op := in.fixed(1)
		low := op & 0x3f
		more := true
		switch op >> 6 {
		case 1:
			more = advance(low)
		case 2:
			save(low, saved, int64(in.uleb())*d.dataFactor)
		case 3:
			save(low, first.state, first.at)
		default:
			switch op {
			case 0x00: // nop
			case 0x02, 0x03, 0x04: // advance_loc1, 2, 4
				more = advance(in.fixed(1 << (op - 2)))
			case 0x05: // offset_extended
				save(in.uleb(), saved, int64(in.uleb())*d.dataFactor)
			case 0x06: // restore_extended
				save(in.uleb(), first.state, first.at)
			case 0x07: // undefined
				save(in.uleb(), nowhere, 0)
			case 0x08: // same_value
				save(in.uleb(), unsaved, 0)
			case 0x09: // register
				save(in.uleb(), nowhere, 0)
				in.uleb()
			case 0x0a: // remember_state
				if len(stack) == maxFrameDepth {
					return r, false
				}
				stack = append(stack, r)
			case 0x0b: // restore_state
				if len(stack) == 0 {
					return r, false
				}
				r, stack = stack[len(stack)-1], stack[:len(stack)-1]
			case 0x0c: // def_cfa
				r.register, r.offset, r.known = in.uleb(), int64(in.uleb()), true
			case 0x0d: // def_cfa_register
				r.register = in.uleb()
			case 0x0e: // def_cfa_offset
				r.offset = int64(in.uleb())
			case 0x0f: // def_cfa_expression
				r.known = false
				in.sub(in.uleb())
			case 0x10, 0x16: // expression, val_expression
				save(in.uleb(), nowhere, 0)
				in.sub(in.uleb())
			case 0x11: // offset_extended_sf
				save(in.uleb(), saved, in.sleb()*d.dataFactor)
			case 0x12: // def_cfa_sf
				r.register, r.offset, r.known = in.uleb(), in.sleb()*d.dataFactor, true
			case 0x13: // def_cfa_offset_sf
				r.offset = in.sleb() * d.dataFactor
			case 0x14, 0x15: // val_offset, val_offset_sf
				save(in.uleb(), nowhere, 0)
				in.uleb()
			case 0x2d: // arm64: the return address is signed
			case 0x2e: // GNU_args_size
				in.uleb()
			default:
				return r, false
			}
		}
		if !more {
			return r, true
		}
	}
	return r, !in.bad
}
