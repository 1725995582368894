// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"slices"
	"time"
)

// pieces divides the elements of the map of ranges. A freed piece is not used again for a while, because a program that
// has read where it is may still search it.
type pieces struct {
	free  []piece // ascending, never adjacent
	freed []freed // oldest first
}

// piece is a part of the elements.
type piece struct{ first, count uint32 }

type freed struct {
	piece
	at time.Time
}

// reuseAfter is how long a program may run that has read something: it is interrupted for less, and the few that can be
// preempted are given the same time.
const reuseAfter = time.Second

func newPieces(total uint32) pieces { return pieces{free: []piece{{0, total}}} }

// take returns a piece of count elements.
func (p *pieces) take(count uint32, now time.Time) (piece, bool) {
	p.settle(now)
	if count == 0 {
		return piece{}, true
	}
	for i := range p.free {
		f := &p.free[i]
		if f.count < count {
			continue
		}
		out := piece{f.first, count}
		f.first, f.count = f.first+count, f.count-count
		if f.count == 0 {
			p.free = slices.Delete(p.free, i, i+1)
		}
		return out, true
	}
	return piece{}, false
}

// release frees a piece.
func (p *pieces) release(x piece, now time.Time) {
	if x.count > 0 {
		p.freed = append(p.freed, freed{x, now})
	}
}

// settle makes old freed pieces usable.
func (p *pieces) settle(now time.Time) {
	n := 0
	for n < len(p.freed) && now.Sub(p.freed[n].at) >= reuseAfter {
		p.insert(p.freed[n].piece)
		n++
	}
	p.freed = slices.Delete(p.freed, 0, n)
}

func (p *pieces) insert(x piece) {
	i, _ := slices.BinarySearchFunc(p.free, x.first, func(f piece, first uint32) int { return int(f.first) - int(first) })
	p.free = slices.Insert(p.free, i, x)
	if i+1 < len(p.free) && x.first+x.count == p.free[i+1].first {
		p.free[i].count += p.free[i+1].count
		p.free = slices.Delete(p.free, i+1, i+2)
	}
	if i > 0 && p.free[i-1].first+p.free[i-1].count == x.first {
		p.free[i-1].count += p.free[i].count
		p.free = slices.Delete(p.free, i, i+1)
	}
}
