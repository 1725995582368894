// SPDX-License-Identifier: Apache-2.0

package load

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"btc/internal/manifest"
	"btc/loader/diag"
	"btc/loader/object"
	"btc/loader/rewrite"
)

// Loops are the loops of an object that take from the budget of their run (rewrite.Budget); nil: there are none.
type Loops struct {
	// Of has the position of each loop: of its program, a loop with the line that calls it.
	Of     []manifest.Loss
	budget *ebpf.Map
	states int            // bytes before the counters
	number map[string]int // of programs
}

// newLoops makes the map with the budget; it returns nil if no program has a loop to count.
func newLoops(o *object.Object, cpus int) (*Loops, error) {
	l, needed := &Loops{number: map[string]int{}}, false
	for i := range o.Manifest.Programs {
		mp := &o.Manifest.Programs[i]
		spec := o.Spec.Programs[mp.Name]
		b, err := rewrite.FindLoops(spec.Instructions, o.Spec.Maps)
		if err != nil {
			return nil, unbounded(o.Manifest, mp, err)
		}
		timed := spec.AttachType == ebpf.AttachTraceIter && b.IsTimed()
		needed = needed || !b.None(false) || timed
		l.number[mp.Name] = len(l.number)
		add := func(at manifest.Loss) {
			if l.index(at) < 0 {
				l.Of = append(l.Of, at)
			}
		}
		for i := range b.Loops {
			add(lossOf(o.Manifest, mp, b.Loops[i].Line))
		}
		for i := range b.Calls {
			add(lossOf(o.Manifest, mp, b.Calls[i].Line))
		}
		if timed {
			add(walkOf(mp))
		}
	}
	if !needed {
		return nil, nil
	}
	l.states = 1 << (rewrite.LoopStateShift + bits.Len(uint(cpus-1)))
	var err error
	l.budget, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "loops", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(l.states + 8*len(l.Of)), MaxEntries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("the budget of the loops: %w", err)
	}
	return l, nil
}

// index finds the loop at a position, or returns -1. Programs for several attach points have the same loops, and those
// of several clauses may be joined.
func (l *Loops) index(at manifest.Loss) int {
	return slices.IndexFunc(l.Of, func(x manifest.Loss) bool { return *x.Pos == *at.Pos && x.Kind == at.Kind })
}

// Iterator is the kind of a stopped iterator among the loops.
const Iterator = "iterator"

func walkOf(mp *manifest.Program) manifest.Loss { return manifest.Loss{Kind: Iterator, Pos: &mp.Pos} }

func unbounded(m *manifest.Manifest, mp *manifest.Program, err error) error {
	return &diag.Error{Script: &m.Script, Pos: mp.Pos, Text: fmt.Sprintf("not allowed: the object %v", err),
		Hint: "allow it with --allow long-loops, or everything with --unsafe", Cause: err}
}

// lossOf returns the position of a loop. The line information of the object has where it begins; the manifest's
// messages about it also have its end and the macros that it is in.
func lossOf(m *manifest.Manifest, mp *manifest.Program, line *btf.Line) manifest.Loss {
	pos := mp.Pos
	if line == nil {
		return manifest.Loss{Pos: &pos}
	}
	at := manifest.Pos{Line: int(line.LineNumber()), Col: max(int(line.LineColumn()), 1)}
	for i := range m.Errors {
		if e := &m.Errors[i]; e.Pos.Line == at.Line && e.Pos.Col == at.Col {
			return manifest.Loss{Pos: &e.Pos, Chain: e.Chain}
		}
	}
	return manifest.Loss{Pos: &at}
}

// close closes the map.
func (l *Loops) close() {
	if l != nil {
		l.budget.Close()
	}
}

// Stopped returns for each loop how many runs it has been stopped in.
func (l *Loops) Stopped() ([]uint64, error) {
	value := make([]byte, l.states+8*len(l.Of))
	if err := l.budget.Lookup(uint32(0), value); err != nil {
		return nil, err
	}
	out := make([]uint64, len(l.Of))
	for i := range out {
		out[i] = binary.NativeEndian.Uint64(value[l.states+8*i:])
	}
	return out, nil
}

// count returns a program whose loops are counted, and how many slots were inserted after the first skip instructions.
func (l *Loops) count(o *object.Object, mp *manifest.Program, spec *ebpf.ProgramSpec,
	skip int) (*ebpf.ProgramSpec, int, error) {
	found, err := rewrite.FindLoops(spec.Instructions, o.Spec.Maps)
	timed := err == nil && spec.AttachType == ebpf.AttachTraceIter && found.IsTimed()
	if err == nil && found.None(l != nil) && !timed {
		return spec, 0, nil
	}
	if err == nil && l == nil {
		err = errHidden
	}
	var out asm.Instructions
	slots := 0
	if err == nil {
		for i := range found.Loops {
			found.Loops[i].Counter = max(l.index(lossOf(o.Manifest, mp, found.Loops[i].Line)), 0)
		}
		for i := range found.Calls {
			found.Calls[i].Counter = max(l.index(lossOf(o.Manifest, mp, found.Calls[i].Line)), 0)
		}
		b := rewrite.Budget{Map: l.budget.FD(), CPUs: l.states >> rewrite.LoopStateShift, Counters: l.states,
			Program: l.number[mp.Name], Iterator: spec.AttachType == ebpf.AttachTraceIter, Timed: timed,
			Counter: max(l.index(walkOf(mp)), 0)}
		out, slots, err = b.BoundLoops(spec.Instructions, found, skip)
	}
	if err != nil {
		return nil, 0, unbounded(o.Manifest, mp, err)
	}
	spec = spec.Copy()
	spec.Instructions = out
	return spec, slots, nil
}

// errHidden is for a manifest that has the loader change the number of iterations of a loop.
var errHidden = errors.New("has a loop whose length is changed when it is loaded")
