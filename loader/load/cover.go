// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"btc/internal/manifest"
	"btc/loader/bpfmap"
	"btc/loader/host"
	"btc/loader/object"
	"btc/loader/resolve"
	"btc/loader/rewrite"
)

// Coverage are the counters of the programs of a run (rewrite.Cover).
type Coverage struct {
	cover             rewrite.Cover
	counters, samples *ebpf.Map
	index             map[rewrite.Counter]int
	words             int
	cpus              int // possible ones
	tests             []SampleOf
	clauses           map[int]*Covered
}

// Covered is how far a clause is counted.
type Covered struct {
	Programs int // that are counted
	Missed   int // that are not: there is no room for a counter, or the kernel refuses the program with them
	// Tested is how far the predicate is counted: the least of all programs.
	Tested rewrite.Tested
	some   bool
}

// SampleOf identifies the values of a test.
type SampleOf struct {
	Clause int
	Test   manifest.Span
}

// Sample is a value of a test that was false, and how often it was seen.
type Sample struct {
	SampleOf
	Value [rewrite.SampleText]byte
	N     uint64
}

// coverSize is the size of the counters of a CPU.
const coverSize = rewrite.CoverHead + 8*rewrite.CoverWords

// maxSamples is the number of different values that are kept.
const maxSamples = 1024

func newCoverage(o *object.Object, h *host.Host, cpus int) (*Coverage, error) {
	c := &Coverage{cpus: cpus, index: map[rewrite.Counter]int{}, clauses: map[int]*Covered{}}
	var err error
	c.counters, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "why_counters", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: coverSize, MaxEntries: 1,
	})
	if err == nil {
		c.samples, err = ebpf.NewMap(&ebpf.MapSpec{Name: "why_samples", Type: ebpf.Hash, KeySize: rewrite.SampleKey, ValueSize: 8, MaxEntries: maxSamples})
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("the counters of --why: %w", err)
	}
	c.cover = rewrite.Cover{
		Map: c.counters.FD(), Samples: c.samples.FD(), Namespace: h.PIDNS, Index: c.indexOf, Sample: c.sampleOf, Symbols: map[string]string{},
	}
	for i := range o.Manifest.Maps {
		m := &o.Manifest.Maps[i]
		c.cover.Symbols[m.Name] = o.Manifest.MapSymbol(m.Name)
	}
	return c, nil
}

func (c *Coverage) indexOf(x rewrite.Counter) (int, bool) {
	if at, ok := c.index[x]; ok {
		return at, true
	}
	at := c.words
	if at+x.Kind.Words() > rewrite.CoverWords {
		return 0, false
	}
	c.words += x.Kind.Words()
	c.index[x] = at
	return at, true
}

func (c *Coverage) sampleOf(clause int, t *manifest.Test) int {
	of := SampleOf{clause, t.Span}
	if i := slices.Index(c.tests, of); i >= 0 {
		return i
	}
	c.tests = append(c.tests, of)
	return len(c.tests) - 1
}

// of returns the state of a clause.
func (c *Coverage) of(clause int) *Covered {
	x := c.clauses[clause]
	if x == nil {
		x = &Covered{}
		c.clauses[clause] = x
	}
	return x
}

// Clause returns how far a clause is counted.
func (c *Coverage) Clause(n int) Covered { return *c.of(n) }

// add returns a program with counters, and the number of instructions before the first one; the program unchanged if it
// cannot be counted. own is the number of instructions of the object.
func (c *Coverage) add(m *manifest.Manifest, plan *resolve.Plan, how resolve.Strategy, insns asm.Instructions, own int, filtered, joined bool) (asm.Instructions, int) {
	mp, extra := plan.Prog, 0
	switch {
	case how == resolve.SharedRaw:
		extra = maxRecord
	case how == resolve.Multi && mp.UsesID:
		extra = 8
	}
	var clause *manifest.Clause
	if i := slices.IndexFunc(m.Clauses, func(x manifest.Clause) bool { return x.Number == mp.Clause }); i >= 0 {
		clause = &m.Clauses[i]
	}
	if joined && mp.Code != nil && mp.Code.Frame+extra+maxRecord > resolve.JoinFrame {
		return insns, 0
	}
	out, head, tested, err := c.cover.Program(insns, mp, clause, len(insns)-own, extra, filtered)
	if err != nil {
		return insns, 0
	}
	if x := c.of(mp.Clause); !x.some {
		x.Tested, x.some = tested, true
	} else if x.Tested != tested {
		x.Tested = rewrite.Unknown
	}
	return out, head
}

// maxRecord is more than the frame of the loader's own record of a system call.
const maxRecord = 64

// Counts returns the counters: the sums over all CPUs, of the last result and address of reads those of some CPU.
func (c *Coverage) Counts() (map[rewrite.Counter][]uint64, error) {
	m := bpfmap.Map{FD: c.counters.FD(), KeySize: 4, ValueSize: coverSize, MaxEntries: 1, PerCPU: true, CPUs: c.cpus}
	value, ok, err := m.Lookup(make([]byte, 4))
	if err != nil || !ok {
		return nil, fmt.Errorf("the counters of --why: %w", err)
	}
	all := value.Values
	out := map[rewrite.Counter][]uint64{}
	for x, at := range c.index {
		words := make([]uint64, x.Kind.Words())
		for _, value := range all {
			for i := range words {
				w := binary.NativeEndian.Uint64(value[rewrite.CoverHead+8*(at+i):])
				switch {
				case x.Kind != rewrite.ReadFailed || i == 0:
					words[i] += w
				case w != 0:
					words[i] = w
				}
			}
		}
		out[x] = words
	}
	return out, nil
}

// Samples returns the values of tests that were false, the commonest first.
func (c *Coverage) Samples() []Sample {
	m := bpfmap.Map{FD: c.samples.FD(), KeySize: rewrite.SampleKey, ValueSize: 8, MaxEntries: maxSamples}
	var out []Sample
	all, _ := m.All()
	for _, e := range all {
		if i := int(binary.NativeEndian.Uint64(e.Key)); i < len(c.tests) {
			s := Sample{SampleOf: c.tests[i], N: binary.NativeEndian.Uint64(e.Values[0])}
			copy(s.Value[:], e.Key[8:])
			out = append(out, s)
		}
	}
	// sort.Slice, because each type of slices.SortFunc adds 9 KB to btrun.
	sort.Slice(out, func(i, j int) bool {
		a, b := &out[i], &out[j]
		return a.N > b.N || a.N == b.N && bytes.Compare(a.Value[:], b.Value[:]) < 0
	})
	return out
}

func (c *Coverage) close() {
	if c != nil {
		c.counters.Close()
		c.samples.Close()
	}
}
