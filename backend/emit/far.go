// SPDX-License-Identifier: Apache-2.0

package emit

import (
	"math"
	"slices"

	"btc/backend/mach"
	"btc/ir"
)

// reach is how far a jump is planned to go, in slots: the range of the 16-bit offset
// (kernels before 6.6 have no longer jump), less room for code that is still to be
// inserted.
const reach = math.MaxInt16 - 1000

// layOut assigns each block its start and the form of its terminator, and returns the size in
// slots. Where jumps would be too long, cold blocks move closer to their predecessors, and jumps
// that are still too long go through islands: blocks on the way that only jump on.
//
// Distances are measured as the kernel sees them at the end: its verifier replaces some
// instructions by several, and refuses a program whose jumps no longer reach ("cannot be
// patched due to 16-bit range").
func (e *encoder) layOut() int {
	e.patched = true
	if e.measure() > reach {
		e.bringCold()
		e.splitLong()
		islands := map[*mach.Block][]*mach.Block{} // by destination
		for e.measure(); e.addIslands(islands); {
			e.measure()
		}
	}
	e.patched = false
	clear(e.sizes)
	return e.measure()
}

// patchedSize bounds the slots that the verifier makes of one instruction: it inlines calls
// such as map_lookup_elem (map_gen_lookup, up to 9) and bpf_loop (inline_bpf_loop, 22), and
// adds tests before divisions (up to 5).
func patchedSize(code []mach.Raw) int {
	const call, loop, division, loopID = 10, 24, 6, 181
	n := len(code)
	switch op := code[0].Code; {
	case op == callOp && code[0].Src == 0 && code[0].Imm == loopID:
		n += loop
	case op == callOp && code[0].Src == 0:
		n += call
	case op&0x07 == 0x04 || op&0x07 == 0x07: // 32 and 64-bit arithmetic
		if kind := op & 0xf0; kind == 0x30 || kind == 0x90 {
			n += division
		}
	}
	return n
}

// callOp is the opcode of a call.
const callOp = 0x85

// bringCold places cold blocks after each stretch of code that leads to them instead of
// last: thousands of edges to blocks at the end would need as many islands.
func (e *encoder) bringCold() {
	const stretch = reach / 4
	index := make(map[*mach.Block]int, len(e.f.Blocks))
	for n, b := range e.f.Blocks {
		index[b] = n
	}
	var out, cold []*mach.Block
	size := 0
	seen := make([]bool, len(e.f.Blocks))
	follow := func(b *mach.Block) {
		for work := []*mach.Block{b}; len(work) > 0; {
			b := work[len(work)-1]
			work = work[:len(work)-1]
			size += e.sizeOf(b) + 1
			for _, s := range b.Term.Succs {
				if s.To.Cold && !seen[index[s.To]] {
					seen[index[s.To]] = true
					cold, work = append(cold, s.To), append(work, s.To)
				}
			}
		}
	}
	flush := func() {
		slices.SortFunc(cold, func(x, y *mach.Block) int { return index[x] - index[y] })
		out = append(out, cold...)
		cold, size = nil, 0
	}
	for _, b := range e.f.Blocks {
		if b.Cold {
			continue
		}
		out = append(out, b)
		if follow(b); size > stretch {
			flush()
		}
	}
	flush()
	e.f.Blocks = out
}

func (e *encoder) blockSize(b *mach.Block) int {
	n := 0
	for k := range b.Insns {
		code := b.Insns[k].Encode()
		if e.patched && len(code) > 0 {
			n += patchedSize(code)
		} else {
			n += len(code)
		}
	}
	if b.Term.Kind == mach.Exit {
		n++
	}
	return n
}

// measure sets forms and start for the blocks as they are.
func (e *encoder) measure() int {
	blocks := e.f.Blocks
	e.forms = make([]jumpForm, len(blocks))
	clear(e.start)
	at := 0
	for n, b := range blocks {
		var next *mach.Block
		if n+1 < len(blocks) {
			next = blocks[n+1]
		}
		e.forms[n] = formOf(b, next)
		e.start[b] = at
		at += e.sizeOf(b) + e.forms[n].size()
	}
	return at
}

// sizeOf is a cached blockSize, because measure runs often if there are islands.
func (e *encoder) sizeOf(b *mach.Block) int {
	n, ok := e.sizes[b]
	if !ok {
		n = e.blockSize(b)
		e.sizes[b] = n
	}
	return n
}

// splitLong cuts long blocks into pieces, so that islands can be placed.
func (e *encoder) splitLong() {
	const piece = reach / 32 // instructions, which may all be calls
	var out []*mach.Block
	for _, b := range e.f.Blocks {
		out = append(out, b)
		for len(b.Insns) > piece {
			rest := &mach.Block{}
			rest.Insns, rest.Term, rest.Cold = b.Insns[piece:], b.Term, b.Cold
			b.Insns = b.Insns[:piece]
			b.Term = mach.Term{Kind: mach.Jump, Succs: []mach.Edge{{To: rest}}, Pos: rest.Insns[0].Pos}
			delete(e.sizes, b)
			b = rest
			out = append(out, b)
		}
	}
	e.f.Blocks = out
}

// addIslands fixes the jumps that were too long at the last measure, and reports whether
// there were any. The inserted code shifts the rest a little, for which reach leaves room,
// and the next measure shows the result.
func (e *encoder) addIslands(islands map[*mach.Block][]*mach.Block) bool {
	mended := false
	before := map[*mach.Block][]*mach.Block{} // new islands, by the block that they come before
	for n, b := range e.f.Blocks {
		at := e.start[b] + e.sizeOf(b) + e.forms[n].size()
		for k := range b.Term.Succs {
			to := b.Term.Succs[k].To
			if to != e.forms[n].branch && to != e.forms[n].jump || abs(e.start[to]-at) < math.MaxInt16-2 {
				continue
			}
			b.Term.Succs[k].To = e.island(at, to, islands, before, b.Term.Pos)
			mended = true
		}
	}
	var out []*mach.Block
	for _, b := range e.f.Blocks {
		out = append(append(out, before[b]...), b)
	}
	e.f.Blocks = out
	return mended
}

// island finds or makes the island within reach of at that is nearest to to.
func (e *encoder) island(at int, to *mach.Block, islands, before map[*mach.Block][]*mach.Block,
	pos ir.Pos) *mach.Block {
	goal := e.start[to]
	nearer := func(x int) bool { return abs(x-at) < reach && abs(goal-x) < abs(goal-at)-reach/2 }
	for _, i := range islands[to] {
		if nearer(e.start[i]) {
			return i
		}
	}
	var best *mach.Block
	for _, b := range e.f.Blocks[1:] {
		if x := e.start[b]; nearer(x) && (best == nil || abs(goal-x) < abs(goal-e.start[best])) {
			best = b
		}
	}
	if best == nil {
		panic("BUG: no position for a jump's island in " + e.f.Name)
	}
	i := &mach.Block{}
	i.Term = mach.Term{Kind: mach.Jump, Succs: []mach.Edge{{To: to}}, Pos: pos}
	islands[to] = append(islands[to], i)
	before[best] = append(before[best], i)
	e.start[i] = e.start[best]
	return i
}

func abs(n int) int { return max(n, -n) }
