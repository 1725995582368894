// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"sort"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"btc/internal/manifest"
	"btc/internal/probe"
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
	atomic            map[int]bool // clauses whose programs can come between each other on a CPU
	tests             []SampleOf
	clauses           map[int]*Covered
}

// Covered is how far a clause is counted.
type Covered struct {
	Programs int // that are counted
	Missed   int // that are not: there is no room for a counter, or the kernel refuses the program with them
	// Tested is how far the predicate is counted: the least of all programs.
	Tested rewrite.Tested
	// Uncounted are the branches that are not counted in all programs.
	Uncounted map[int]bool
	some      bool
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

// Logarithms of the size of the counters of a CPU, and of the largest value of an array in early kernels (KMALLOC_MAX_SIZE).
const (
	coverShift    = 14
	maxValueShift = 22
)

// maxSamples is the number of different values that are kept.
const maxSamples = 1024

func newCoverage(o *object.Object, h *host.Host, plans []resolve.Plan, cpus int) (*Coverage, error) {
	c := &Coverage{index: map[rewrite.Counter]int{}, clauses: map[int]*Covered{}, atomic: map[int]bool{}}
	for i := range plans {
		for _, p := range append([]resolve.Plan{plans[i]}, plans[i].Joined...) {
			c.atomic[p.Prog.Clause] = c.atomic[p.Prog.Clause] || !excludes(&p)
		}
	}
	shift, n := coverShift, bits.Len(uint(cpus-1))
	shift = min(shift, maxValueShift-n)
	var err error
	c.counters, err = ebpf.NewMap(&ebpf.MapSpec{Name: "why_counters", Type: ebpf.Array, KeySize: 4, ValueSize: 1 << (shift + n), MaxEntries: 1})
	if err == nil {
		c.samples, err = ebpf.NewMap(&ebpf.MapSpec{Name: "why_samples", Type: ebpf.Hash, KeySize: rewrite.SampleKey, ValueSize: 8, MaxEntries: maxSamples})
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("the counters of --why: %w", err)
	}
	c.cover = rewrite.Cover{
		Map: c.counters.FD(), Shift: shift, CPUs: 1 << n, Samples: c.samples.FD(), Namespace: h.PIDNS, Index: c.indexOf, Sample: c.sampleOf,
		Symbols: map[string]string{},
	}
	for i := range o.Manifest.Maps {
		m := &o.Manifest.Maps[i]
		c.cover.Symbols[m.Name] = o.Manifest.MapSymbol(m.Name)
	}
	return c, nil
}

// excludes reports whether the kernel runs no two programs of this kind at the same time on a CPU (bpf_prog_active), also if they
// interrupt each other: those of tracepoints, kprobes and perf events, but not of raw tracepoints.
func excludes(p *resolve.Plan) bool {
	switch p.Prog.Kind {
	case probe.Tracepoint:
		return p.Strategy != resolve.Raw && p.Strategy != resolve.SharedRaw
	case probe.Kprobe, probe.Kretprobe, probe.Profile, probe.Interval, probe.Hardware, probe.Software:
		return true
	}
	return false
}

func (c *Coverage) indexOf(x rewrite.Counter) (int, bool) {
	if at, ok := c.index[x]; ok {
		return at, true
	}
	at := c.words
	if rewrite.CoverHead+8*(at+x.Kind.Words()) > 1<<c.cover.Shift {
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
		x = &Covered{Uncounted: map[int]bool{}}
		c.clauses[clause] = x
	}
	return x
}

// Clause returns how far a clause is counted.
func (c *Coverage) Clause(n int) Covered { return *c.of(n) }

// add returns a program with counters, and the number of instructions before the first one; the program unchanged and -1 if
// it cannot be counted. own is the number of instructions of the object.
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
		return insns, -1
	}
	out, head, counted, err := c.cover.Program(insns, mp, clause, len(insns)-own, extra, filtered, c.atomic[mp.Clause])
	if err != nil {
		return insns, -1
	}
	x := c.of(mp.Clause)
	if !x.some {
		x.Tested, x.some = counted.Tested, true
	} else if x.Tested != counted.Tested {
		x.Tested = rewrite.Unknown
	}
	for _, branch := range counted.Uncounted {
		x.Uncounted[branch] = true
	}
	return out, head
}

// maxRecord is more than the frame of the loader's own record of a system call.
const maxRecord = 64

// Counts returns the counters: the sums over all CPUs, of the last result and address of reads those of some CPU.
func (c *Coverage) Counts() (map[rewrite.Counter][]uint64, error) {
	all, err := c.counters.LookupBytes(uint32(0))
	if err != nil {
		return nil, fmt.Errorf("the counters of --why: %w", err)
	}
	out := map[rewrite.Counter][]uint64{}
	for x, at := range c.index {
		words := make([]uint64, x.Kind.Words())
		for cpu := range c.cover.CPUs {
			for i := range words {
				w := binary.NativeEndian.Uint64(all[cpu<<c.cover.Shift+rewrite.CoverHead+8*(at+i):])
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
	for x, words := range out { // a run is in one counter only
		if fired := out[rewrite.Counter{Kind: rewrite.Fired, Clause: x.Clause}]; fired != nil && (x.Kind == rewrite.False || x.Kind == rewrite.Early) {
			fired[0] += words[0]
		}
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
