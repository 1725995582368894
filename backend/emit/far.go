package emit

import (
	"math"
	"slices"

	"btc/backend/mach"
	"btc/ir"
)

// reach is how far a jump is planned to go, in slots: the 16-bit offset's range
// (kernels before 6.6 have no longer jump), less room for what is still to be
// inserted between.
const reach = math.MaxInt16 - 1000

// place finds where each block starts and how it ends, and gives the size in
// slots. Jumps that would go too far go over islands: blocks on the way that
// only jump on.
func (e *encoder) place() int {
	size := e.measure()
	if size <= reach {
		return size
	}
	e.splitLong()
	islands := map[*mach.Block][]*mach.Block{} // by where they lead
	for size = e.measure(); e.addIslands(islands); {
		size = e.measure()
	}
	return size
}

func blockSize(b *mach.Block) int {
	n := 0
	for k := range b.Insns {
		n += len(b.Insns[k].Encode())
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
	e.start = make(map[*mach.Block]int, len(blocks))
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

// sizeOf is blockSize, remembered: islands make measure run often.
func (e *encoder) sizeOf(b *mach.Block) int {
	n, ok := e.sizes[b]
	if !ok {
		n = blockSize(b)
		e.sizes[b] = n
	}
	return n
}

// splitLong cuts long blocks into pieces, so that islands find a place.
func (e *encoder) splitLong() {
	const piece = reach / 8
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

// addIslands mends the jumps of the first block that has one too long, and
// reports whether there was one.
func (e *encoder) addIslands(islands map[*mach.Block][]*mach.Block) bool {
	for n, b := range e.f.Blocks {
		at := e.start[b] + e.sizeOf(b) + e.forms[n].size()
		for k := range b.Term.Succs {
			to := b.Term.Succs[k].To
			if to != e.forms[n].branch && to != e.forms[n].jump || abs(e.start[to]-at) < math.MaxInt16-2 {
				continue
			}
			b.Term.Succs[k].To = e.island(at, to, islands, b.Term.Pos)
			return true
		}
	}
	return false
}

// island finds or makes the island in reach of at that is nearest to to.
func (e *encoder) island(at int, to *mach.Block, islands map[*mach.Block][]*mach.Block, pos ir.Pos) *mach.Block {
	goal := e.start[to]
	nearer := func(x int) bool { return abs(x-at) < reach && abs(goal-x) < abs(goal-at)-reach/2 }
	for _, i := range islands[to] {
		if nearer(e.start[i]) {
			return i
		}
	}
	best := -1
	for n, b := range e.f.Blocks {
		if x := e.start[b]; n > 0 && nearer(x) && (best < 0 || abs(goal-x) < abs(goal-e.start[e.f.Blocks[best]])) {
			best = n
		}
	}
	if best < 0 {
		panic("BUG: no place for a jump's island in " + e.f.Name)
	}
	i := &mach.Block{}
	i.Term = mach.Term{Kind: mach.Jump, Succs: []mach.Edge{{To: to}}, Pos: pos}
	islands[to] = append(islands[to], i)
	e.f.Blocks = slices.Insert(e.f.Blocks, best, i)
	return i
}

func abs(n int) int { return max(n, -n) }
