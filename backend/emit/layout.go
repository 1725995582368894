// SPDX-License-Identifier: Apache-2.0

package emit

import (
	"slices"

	"btc/backend/mach"
)

// tidy cleans up after register allocation: jump threading, tail merging, and removal of moves of
// a register to itself and of empty, duplicate and unreachable blocks.
func tidy(f *mach.Func) {
	for _, b := range f.Blocks {
		b.Insns = slices.DeleteFunc(b.Insns, func(i mach.Insn) bool {
			return i.Op == mach.Mov && !i.W && i.Args[0] == mach.RegOp(i.Dst)
		})
	}
	for {
		thread(f)
		dropUnreached(f)
		if mergeSame(f) {
			continue
		}
		if joinChains(f) || mergeTails(f) {
			continue
		}
		break
	}
	fallIntoExits(f)
}

// thread redirects jumps past empty blocks.
func thread(f *mach.Func) {
	for _, b := range f.Blocks {
		for n := range b.Term.Succs {
			e := &b.Term.Succs[n]
			for hops := 0; len(e.To.Insns) == 0 && e.To.Term.Kind == mach.Jump && hops < len(f.Blocks); hops++ {
				e.To = e.To.Term.Succs[0].To
			}
		}
		if t := &b.Term; t.Kind == mach.Br && t.Succs[0].To == t.Succs[1].To {
			*t = mach.Term{Kind: mach.Jump, Succs: t.Succs[:1], Pos: t.Pos}
		}
	}
}

func dropUnreached(f *mach.Func) {
	seen := map[*mach.Block]bool{f.Blocks[0]: true}
	work := []*mach.Block{f.Blocks[0]}
	for len(work) > 0 {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		for _, e := range b.Term.Succs {
			if !seen[e.To] {
				seen[e.To] = true
				work = append(work, e.To)
			}
		}
	}
	f.Blocks = slices.DeleteFunc(f.Blocks, func(b *mach.Block) bool { return !seen[b] })
}

// joinChains appends a block to its only predecessor when that has no other successor.
func joinChains(f *mach.Func) bool {
	count := map[*mach.Block]int{}
	for _, b := range f.Blocks {
		for _, e := range b.Term.Succs {
			count[e.To]++
		}
	}
	joined := false
	for _, b := range f.Blocks {
		for b.Term.Kind == mach.Jump {
			to := b.Term.Succs[0].To
			if to == b || to == f.Blocks[0] || count[to] != 1 || to.Cold != b.Cold {
				break
			}
			b.Insns = append(b.Insns, to.Insns...)
			b.Term = to.Term
			to.Insns = nil
			to.Term = mach.Term{Kind: mach.Jump, Succs: []mach.Edge{{To: b}}} // unreached now
			joined = true
		}
	}
	if joined {
		dropUnreached(f)
	}
	return joined
}

// mergeSame merges blocks that have the same code and the same successor, or that end the program.
// It keeps the last one that is not cold, because most of the others precede it. Calls are merged
// only in exit blocks: the kernel inlines a lookup whose map is the same on all paths.
func mergeSame(f *mach.Func) bool {
	type shape struct {
		kind   mach.TermKind
		to     *mach.Block
		len    int
		digest uint64
	}
	kept := map[shape][]*mach.Block{}
	instead := map[*mach.Block]*mach.Block{}
	for _, b := range slices.Backward(f.Blocks) { // the cold ones are last
		if b == f.Blocks[0] {
			continue
		}
		key := shape{kind: b.Term.Kind, len: len(b.Insns)}
		if key.kind != mach.Exit {
			key.to = b.Term.Succs[0].To
			if key.to == b || slices.ContainsFunc(b.Insns, func(i mach.Insn) bool { return i.Op.IsCall() }) {
				continue
			}
		}
		key.digest = digest(b.Insns)
		peers := kept[key]
		n := slices.IndexFunc(peers,
			func(p *mach.Block) bool { return sameTerm(&p.Term, &b.Term) && allAlike(p.Insns, b.Insns) })
		switch {
		case n < 0:
			kept[key] = append(peers, b)
		case peers[n].Cold && !b.Cold:
			instead[peers[n]], peers[n] = b, b
		default:
			instead[b] = peers[n]
		}
	}
	if len(instead) == 0 {
		return false
	}
	for _, b := range f.Blocks {
		for n := range b.Term.Succs {
			for same := instead[b.Term.Succs[n].To]; same != nil; same = instead[same] {
				b.Term.Succs[n].To = same
			}
		}
	}
	return true
}

// sameTerm reports whether two terminators of the same kind, in machine form, are equal.
func sameTerm(x, y *mach.Term) bool {
	return x.Cond == y.Cond && x.W == y.W && slices.Equal(x.Args, y.Args) &&
		slices.EqualFunc(x.Succs, y.Succs, func(a, b mach.Edge) bool { return a.To == b.To })
}

// worthJump is the number of equal instructions from which on a jump to the end of another
// block pays on a hot path.
const worthJump = 3

// mergeTails is tail merging for cold blocks: a cold block that ends like another jumps to the end
// of that one. Blocks that count losses differ only in the counter's address. No call is shared:
// the kernel inlines a lookup whose map is the same on all paths.
func mergeTails(f *mach.Func) bool {
	type end struct {
		to   *mach.Block // nil for exit
		last string
	}
	hosts := map[end]*mach.Block{}
	tails := map[*mach.Block]*mach.Block{} // by the block that they were cut off
	merged := false
	for _, b := range f.Blocks {
		if len(b.Insns) == 0 || b.Term.Kind == mach.Br {
			continue
		}
		key := end{last: b.Insns[len(b.Insns)-1].String()}
		if b.Term.Kind == mach.Jump {
			key.to = b.Term.Succs[0].To
		}
		host := hosts[key]
		if host == nil {
			hosts[key] = b
			continue
		}
		n := sameEnd(b, host)
		if n == 0 || !b.Cold && (n < worthJump || b.Term.Kind != mach.Exit) {
			continue
		}
		tail := host
		if cut := len(host.Insns) - n; cut > 0 {
			tail = &mach.Block{Cold: host.Cold, Insns: slices.Clone(host.Insns[cut:]), Term: host.Term}
			host.Insns = host.Insns[:cut]
			host.Term = mach.Term{Kind: mach.Jump, Succs: []mach.Edge{{To: tail}}, Pos: tail.Insns[0].Pos}
			tails[host], hosts[key] = tail, tail
		}
		b.Insns = b.Insns[:len(b.Insns)-n]
		b.Term = mach.Term{Kind: mach.Jump, Succs: []mach.Edge{{To: tail}}, Pos: b.Term.Pos}
		merged = true
	}
	if merged {
		placeTails(f, tails)
	}
	return merged
}

// placeTails puts the tail cut off a block after it.
func placeTails(f *mach.Func, tails map[*mach.Block]*mach.Block) {
	blocks := f.Blocks
	f.Blocks = nil
	for _, b := range blocks {
		for ; b != nil; b = tails[b] {
			f.Blocks = append(f.Blocks, b)
		}
	}
	ids := 0
	for _, b := range blocks {
		ids = max(ids, b.ID+1)
	}
	for _, b := range f.Blocks {
		if _, cut := tails[b]; cut && tails[b].ID == 0 {
			tails[b].ID = ids
			ids++
		}
	}
}

// sameEnd returns how many equal instructions two blocks end with, after their last calls.
func sameEnd(x, y *mach.Block) int {
	n := 0
	for n < len(x.Insns) && n < len(y.Insns) {
		i, j := &x.Insns[len(x.Insns)-1-n], &y.Insns[len(y.Insns)-1-n]
		if i.Op.IsCall() || !alike(i, j) {
			break
		}
		n++
	}
	return n
}

// fallIntoExits removes the end of a block if it is equal to the exit block that follows.
func fallIntoExits(f *mach.Func) {
	for n, b := range f.Blocks[:len(f.Blocks)-1] {
		next := f.Blocks[n+1]
		cut := len(b.Insns) - len(next.Insns)
		if b.Term.Kind == mach.Exit && next.Term.Kind == mach.Exit && cut >= 0 && allAlike(b.Insns[cut:], next.Insns) {
			b.Insns = b.Insns[:cut]
			b.Term = mach.Term{Kind: mach.Jump, Succs: []mach.Edge{{To: next}}, Pos: b.Term.Pos}
		}
	}
}

// digest returns a hash that is equal for instructions that are alike.
func digest(insns []mach.Insn) uint64 {
	h := uint64(0)
	for n := range insns {
		i := &insns[n]
		h = (h ^ uint64(i.Op) ^ uint64(i.Dst)<<8 ^ uint64(i.Off)<<16 ^ uint64(i.Imm)) * 0x9e3779b97f4a7c15
		for _, a := range i.Args {
			h = (h ^ uint64(a.Reg) ^ uint64(a.Imm)<<8) * 0x9e3779b97f4a7c15
		}
		h ^= h >> 29
	}
	return h
}

func allAlike(xs, ys []mach.Insn) bool {
	if len(xs) != len(ys) {
		return false
	}
	for n := range xs {
		if !alike(&xs[n], &ys[n]) {
			return false
		}
	}
	return true
}

// alike reports whether two instructions in machine form encode alike.
func alike(x, y *mach.Insn) bool {
	return x.Op == y.Op && x.W == y.W && x.Cond == y.Cond && x.Size == y.Size && x.Dst == y.Dst && x.Off == y.Off &&
		x.Imm == y.Imm && x.Sym == y.Sym && x.CORE == y.CORE && x.Kind == y.Kind && x.Relocated == y.Relocated && x.Result == y.Result &&
		slices.Equal(x.Args, y.Args)
}

// jumpForm is how a block's terminator is encoded, given the block that follows it.
type jumpForm struct {
	branch *mach.Block // target of the conditional jump, or nil if there is none
	invert bool        // the condition is inverted
	jump   *mach.Block // target of the unconditional jump, nil when the block falls through
}

func formOf(b, next *mach.Block) jumpForm {
	switch t := &b.Term; t.Kind {
	case mach.Jump:
		if t.Succs[0].To == next {
			return jumpForm{}
		}
		return jumpForm{jump: t.Succs[0].To}
	case mach.Br:
		yes, no := t.Succs[0].To, t.Succs[1].To
		if no == next {
			return jumpForm{branch: yes}
		}
		if yes == next {
			return jumpForm{branch: no, invert: true}
		}
		return jumpForm{branch: yes, jump: no}
	}
	return jumpForm{}
}

func (j jumpForm) size() int {
	n := 0
	if j.branch != nil {
		n++
	}
	if j.jump != nil {
		n++
	}
	return n
}
