// SPDX-License-Identifier: Apache-2.0

// Package xz decompresses files in the xz format (https://tukaani.org/xz/xz-file-format.txt) with the filter LZMA2, as
// .gnu_debugdata is.
//
// It takes the compressed bytes and returns at most as many as the caller permits. The input is hostile: its size, and that of
// the result, bound time and memory. The whole result is the dictionary. Checksums are not verified.
package xz

import (
	"encoding/binary"
	"errors"
)

// Errors of Decompress.
var (
	ErrFormat   = errors.New("not valid xz data, or compressed with a filter other than LZMA2")
	ErrTooLarge = errors.New("the decompressed data is too large")
)

// Sizes of checksums (xz format, 2.1.1.2), by the type in the header.
var checkSizes = [16]int{0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64}

const headerMagic = "\xfd7zXZ\x00"

// Decompress returns the content of the first stream of data.
func Decompress(data []byte, limit int) (out []byte, err error) {
	if len(data) < 12 || string(data[:6]) != headerMagic || data[6] != 0 || data[7] > 15 {
		return nil, ErrFormat
	}
	check := checkSizes[data[7]]
	d := &decoder{limit: limit, resets: 1024 + len(data)/1024}
	for rest := data[12:]; ; {
		if len(rest) < 8 {
			return nil, ErrFormat
		}
		if rest[0] == 0 { // the index follows
			return d.out, nil
		}
		size := 4 * (int(rest[0]) + 1) // of the block's header
		if size > len(rest) || !isLZMA2(rest[:size]) {
			return nil, ErrFormat
		}
		d.start, d.in = len(d.out), rest[size:]
		d.chunks()
		if d.err != nil {
			return nil, d.err
		}
		used := len(rest) - size - len(d.in)
		next := size + (used+3)&^3 + check
		if next > len(rest) {
			return nil, ErrFormat
		}
		rest = rest[next:]
	}
}

// isLZMA2 reports whether a block's header names this filter and no other.
func isLZMA2(head []byte) bool {
	flags, b := head[1], head[2:]
	if flags&0x3f != 0 {
		return false
	}
	for _, bit := range []byte{0x40, 0x80} { // compressed and uncompressed size
		if flags&bit != 0 {
			_, n := binary.Uvarint(b)
			if n <= 0 {
				return false
			}
			b = b[n:]
		}
	}
	return len(b) >= 3 && b[0] == 0x21 && b[1] == 1
}

// Numbers of the format (LZMA SDK, lzma-specification.txt).
const (
	states       = 12
	maxPosBits   = 4
	lenStates    = 4
	alignBits    = 4
	startPosEnd  = 4
	endPosEnd    = 14
	fullDistance = 1 << (endPosEnd / 2)
	minMatch     = 2
	probInit     = 1 << 10
	topValue     = 1 << 24
)

type prob = uint16

// lengths decodes the length of a match.
type lengths struct {
	choice, choice2 prob
	low, mid        [1 << maxPosBits][8]prob
	high            [256]prob
}

// decoder decodes LZMA2.
type decoder struct {
	in    []byte
	out   []byte
	start int // of the block in out
	limit int
	err   error
	// resets is how often all probabilities may yet be set: that takes as long as decoding KBs, and encoders do it for parts of
	// 64 KB.
	resets int

	dict        int // start in out of what matches may refer to
	rng, code   uint32
	lc, lp, pb  uint
	ready       bool // properties are known
	state       int
	rep         [4]uint32
	literals    []prob
	isMatch     [states][1 << maxPosBits]prob
	isRep       [states]prob
	isRepG0     [states]prob
	isRepG1     [states]prob
	isRepG2     [states]prob
	isRep0Long  [states][1 << maxPosBits]prob
	slots       [lenStates][64]prob
	positions   [fullDistance]prob
	align       [1 << alignBits]prob
	match, repl lengths
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// take returns the next n bytes of the input.
func (d *decoder) take(n int) []byte {
	if n > len(d.in) {
		d.fail(ErrFormat)
		d.in = nil
		return make([]byte, n)
	}
	b := d.in[:n]
	d.in = d.in[n:]
	return b
}

// chunks decodes the chunks of a block.
func (d *decoder) chunks() {
	d.dict, d.ready = -1, false
	for d.err == nil {
		control := d.take(1)[0]
		switch {
		case d.err != nil, control == 0:
			return
		case control == 1 || control >= 0xe0:
			d.dict = len(d.out)
		case d.dict < 0 || control > 2 && control < 0x80:
			d.fail(ErrFormat)
			return
		}
		if control < 0x80 { // not compressed
			n := int(binary.BigEndian.Uint16(d.take(2))) + 1
			if d.room(n) {
				d.out = append(d.out, d.take(n)...)
			}
			continue
		}
		head := d.take(4)
		n := int(control&0x1f)<<16 + int(binary.BigEndian.Uint16(head)) + 1
		packed := int(binary.BigEndian.Uint16(head[2:])) + 1
		if control >= 0xc0 {
			p := uint(d.take(1)[0])
			if d.lc, d.lp, d.pb = p%9, p/9%5, p/45; p >= 225 || d.lc+d.lp > 4 {
				d.fail(ErrFormat)
				return
			}
			d.ready = true
		}
		if control >= 0xa0 {
			if d.resets--; d.resets < 0 {
				d.fail(ErrFormat)
				return
			}
			d.reset()
		}
		if !d.ready || !d.room(n) || packed > len(d.in) {
			d.fail(ErrFormat)
			return
		}
		rest := d.in[packed:]
		d.in = d.in[:packed]
		d.chunk(len(d.out) + n)
		d.in = rest
	}
}

// room reports whether n more bytes are within the limit.
func (d *decoder) room(n int) bool {
	if n > d.limit-len(d.out) {
		d.fail(ErrTooLarge)
	}
	return d.err == nil
}

func fill(p []prob) {
	for i := range p {
		p[i] = probInit
	}
}

// reset sets all probabilities to one half.
func (d *decoder) reset() {
	d.state, d.rep = 0, [4]uint32{}
	d.literals = make([]prob, 0x300<<(d.lc+d.lp))
	fill(d.literals)
	for i := range states {
		fill(d.isMatch[i][:])
		fill(d.isRep0Long[i][:])
	}
	for _, p := range [][]prob{d.isRep[:], d.isRepG0[:], d.isRepG1[:], d.isRepG2[:], d.positions[:], d.align[:]} {
		fill(p)
	}
	for i := range d.slots {
		fill(d.slots[i][:])
	}
	for _, l := range []*lengths{&d.match, &d.repl} {
		l.choice, l.choice2 = probInit, probInit
		for i := range l.low {
			fill(l.low[i][:])
			fill(l.mid[i][:])
		}
		fill(l.high[:])
	}
}

// chunk decodes LZMA until out has end bytes.
func (d *decoder) chunk(end int) {
	head := d.take(5)
	d.rng, d.code = 1<<32-1, binary.BigEndian.Uint32(head[1:])
	for len(d.out) < end && d.err == nil {
		pos := uint(len(d.out)-d.start) & (1<<d.pb - 1)
		if d.bit(&d.isMatch[d.state][pos]) == 0 {
			d.literal()
			continue
		}
		var n int
		if d.bit(&d.isRep[d.state]) == 0 {
			d.rep[3], d.rep[2], d.rep[1] = d.rep[2], d.rep[1], d.rep[0]
			n = d.length(&d.match, pos)
			d.rep[0] = d.distance(n)
			d.next(7, 10)
		} else {
			if d.bit(&d.isRepG0[d.state]) == 0 {
				if d.bit(&d.isRep0Long[d.state][pos]) == 0 {
					d.next(9, 11)
					d.copy(1, end)
					continue
				}
			} else {
				i := 1
				if d.bit(&d.isRepG1[d.state]) != 0 {
					i = 2 + int(d.bit(&d.isRepG2[d.state]))
				}
				dist := d.rep[i]
				copy(d.rep[1:i+1], d.rep[:i])
				d.rep[0] = dist
			}
			n = d.length(&d.repl, pos)
			d.next(8, 11)
		}
		d.copy(n+minMatch, end)
	}
}

// next sets the state after a match: one after literals, or the other.
func (d *decoder) next(literal, other int) {
	if d.state >= 7 {
		literal = other
	}
	d.state = literal
}

// copy repeats n bytes at the distance.
func (d *decoder) copy(n, end int) {
	at := len(d.out) - int(d.rep[0]) - 1
	if at < d.dict || n > end-len(d.out) {
		d.fail(ErrFormat)
		return
	}
	for range n {
		d.out = append(d.out, d.out[at])
		at++
	}
}

func (d *decoder) literal() {
	prev := byte(0)
	if len(d.out) > d.dict {
		prev = d.out[len(d.out)-1]
	}
	pos := uint(len(d.out)-d.start) & (1<<d.lp - 1)
	probs := d.literals[0x300*(pos<<d.lc+uint(prev)>>(8-d.lc)):]
	symbol := uint32(1)
	if d.state >= 7 {
		at := len(d.out) - int(d.rep[0]) - 1
		if at < d.dict {
			d.fail(ErrFormat)
			return
		}
		for match := uint32(d.out[at]); symbol < 0x100; {
			bit := match >> 7 & 1
			match <<= 1
			got := d.bit(&probs[(1+bit)<<8+symbol])
			if symbol = symbol<<1 | got; got != bit {
				break
			}
		}
	}
	for symbol < 0x100 {
		symbol = symbol<<1 | d.bit(&probs[symbol])
	}
	d.out = append(d.out, byte(symbol))
	switch {
	case d.state < 4:
		d.state = 0
	case d.state < 10:
		d.state -= 3
	default:
		d.state -= 6
	}
}

// distance returns the distance of a match of a length, less 1.
func (d *decoder) distance(n int) uint32 {
	slot := d.tree(d.slots[min(n, lenStates-1)][:], 6)
	if slot < startPosEnd {
		return slot
	}
	bits := uint(slot>>1 - 1)
	dist := (2 | slot&1) << bits
	if slot < endPosEnd {
		return dist + d.reverse(d.positions[dist-slot:], bits)
	}
	for direct, i := uint32(0), bits-alignBits; ; i-- {
		if i == 0 {
			dist += direct << alignBits
			break
		}
		d.rng >>= 1
		bit := uint32(1)
		if d.code < d.rng {
			bit = 0
		} else {
			d.code -= d.rng
		}
		direct = direct<<1 | bit
		d.normalize()
	}
	return dist + d.reverse(d.align[:], alignBits)
}

// length returns the length of a match, less minMatch.
func (d *decoder) length(l *lengths, pos uint) int {
	if d.bit(&l.choice) == 0 {
		return int(d.tree(l.low[pos][:], 3))
	}
	if d.bit(&l.choice2) == 0 {
		return 8 + int(d.tree(l.mid[pos][:], 3))
	}
	return 16 + int(d.tree(l.high[:], 8))
}

// tree decodes a number of some bits, the highest first.
func (d *decoder) tree(probs []prob, bits uint) uint32 {
	m := uint32(1)
	for range bits {
		m = m<<1 | d.bit(&probs[m])
	}
	return m - 1<<bits
}

// reverse decodes a number of some bits, the lowest first.
func (d *decoder) reverse(probs []prob, bits uint) (n uint32) {
	m := uint32(1)
	for i := range bits {
		bit := d.bit(&probs[m])
		m = m<<1 | bit
		n |= bit << i
	}
	return n
}

func (d *decoder) bit(p *prob) uint32 {
	bound := d.rng >> 11 * uint32(*p)
	bit := uint32(0)
	if d.code < bound {
		d.rng = bound
		*p += (1<<11 - *p) >> 5
	} else {
		d.rng -= bound
		d.code -= bound
		*p -= *p >> 5
		bit = 1
	}
	d.normalize()
	return bit
}

func (d *decoder) normalize() {
	if d.rng < topValue {
		d.rng <<= 8
		d.code = d.code<<8 | uint32(d.take(1)[0])
	}
}
