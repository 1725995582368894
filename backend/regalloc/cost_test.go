// SPDX-License-Identifier: Apache-2.0

package regalloc

import (
	"testing"

	"btc/backend/mach"
)

// cost is the number of instructions that allocation added to functions.
type cost struct {
	moves, loads, stores int
	inLoops              int // of those, weighted by loop depth
	hot                  int // of those, not in cold blocks
	saved                int // instructions outside cold blocks that use r6 to r9
	frame                int // bytes
	lines                int // sum of the line numbers of their positions
}

func (c *cost) add(f *mach.Func) {
	for _, b := range f.Blocks {
		for n := range b.Insns {
			i := &b.Insns[n]
			if i.Dst >= numCaller && i.Dst < numRegs && !b.Cold {
				c.saved++
			}
			switch {
			case i.From != nil:
				continue
			case i.Op == mach.Mov && i.Args[0] == mach.RegOp(i.Dst):
				continue // removed by backend/emit
			case i.Op == mach.Mov:
				c.moves++
			case i.Op == mach.Load:
				c.loads++
			default:
				c.stores++
			}
			c.inLoops += b.Depth
			c.lines += i.Pos.Line
			if !b.Cold {
				c.hot++
			}
		}
	}
	c.frame += f.FrameUsed
}

// number assigns increasing positions to instructions and terminators.
func number(f *mach.Func) {
	line := 0
	for _, b := range f.Blocks {
		for n := range b.Insns {
			line++
			b.Insns[n].Pos.Line = line
		}
		line++
		b.Term.Pos.Line = line
	}
}

// TestCost checks the number of instructions that allocation adds to random functions, by the number of
// live values. Improvements lower the numbers here; they must not rise without a reason.
func TestCost(t *testing.T) {
	for _, c := range []struct {
		name           string
		size, pressure int
		want           cost
	}{
		{"few values", 30, 2, cost{moves: 3060, loads: 1932, stores: 1057, inLoops: 5018, hot: 4606, saved: 1471, frame: 7640, lines: 174596}},
		{"some", 40, 8, cost{moves: 3597, loads: 3068, stores: 1519, inLoops: 5989, hot: 6485, saved: 2044, frame: 10568, lines: 299314}},
		{"many", 50, 16, cost{moves: 4433, loads: 4408, stores: 2165, inLoops: 7568, hot: 9331, saved: 2798, frame: 15080, lines: 480349}},
	} {
		var got cost
		for seed := range 100 {
			f := randomFunc(uint64(1000+seed), c.size, c.pressure)
			number(f)
			if Allocate(f, Options{}) == nil {
				got.add(f)
			}
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
