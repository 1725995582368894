// SPDX-License-Identifier: Apache-2.0

package load

import (
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/resolve"
	"btc/loader/rewrite"
)

// TestCoverageCounts runs programs with counters: no run may be missing. Those with atomic instructions run in several threads,
// which preempt each other.
func TestCoverageCounts(t *testing.T) {
	o, h := loadable(t, ebpf.RawTracepoint, "count")
	for _, test := range []struct {
		name             string
		kind             string
		strategy         resolve.Strategy
		filtered, atomic bool
	}{
		{"tracepoint", probe.Tracepoint, resolve.Single, false, false},
		{"filtered", probe.Tracepoint, resolve.Single, true, false},
		{"raw", probe.Tracepoint, resolve.Raw, false, true},
		{"filtered raw", probe.Tracepoint, resolve.Raw, true, true},
		{"kprobe", probe.Kprobe, resolve.Multi, false, false},
		{"timer", probe.Profile, resolve.Single, false, false},
		{"fentry", probe.Fentry, resolve.PerMatch, false, true},
		{"uprobe", probe.Uprobe, resolve.Multi, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan := resolve.Plan{Strategy: test.strategy, Prog: &manifest.Program{Name: "count", Kind: test.kind, Clause: 3, Code: &manifest.Code{}}}
			c, err := newCoverage(o, h, []resolve.Plan{plan}, ebpf.MustPossibleCPU())
			if err != nil {
				t.Fatal(err)
			}
			defer c.close()
			spec := o.Spec.Programs["count"].Copy()
			insns, head := c.add(o.Manifest, &plan, test.strategy, spec.Instructions, len(spec.Instructions), test.filtered, false)
			if (head > 0) != test.filtered {
				t.Errorf("%d instructions before the first one", head)
			}
			atomics := 0
			for i := range insns {
				if insns[i].OpCode.Class() == asm.StXClass && insns[i].OpCode.Mode() == asm.AtomicMode {
					atomics++
				}
			}
			if (atomics > 0) != test.atomic {
				t.Errorf("%d atomic instructions: %v", atomics, insns)
			}
			spec.Instructions = insns
			prog, err := ebpf.NewProgram(spec)
			if err != nil {
				t.Fatalf("%+v", err)
			}
			defer prog.Close()
			threads, runs := 1, 500
			if test.atomic {
				threads = 4
			}
			var wait sync.WaitGroup
			for range threads {
				wait.Go(func() {
					for range runs {
						if _, err := prog.Run(&ebpf.RunOptions{}); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wait.Wait()
			counts, err := c.Counts()
			if err != nil {
				t.Fatal(err)
			}
			fired, reached := counts[rewrite.Counter{Kind: rewrite.Fired, Clause: 3}], counts[rewrite.Counter{Kind: rewrite.Reached, Clause: 3}]
			if fired == nil || fired[0] != uint64(threads*runs) || test.filtered && (reached == nil || reached[0] != uint64(threads*runs)) {
				t.Errorf("fired %v, reached %v, want %d", fired, reached, threads*runs)
			}
		})
	}
}

// TestCoverageOfClause checks that one program that others can interrupt makes the counters of its clause atomic.
func TestCoverageOfClause(t *testing.T) {
	o, h := loadable(t, ebpf.RawTracepoint, "count")
	plan := func(kind string, clause int) resolve.Plan {
		return resolve.Plan{Strategy: resolve.Single, Prog: &manifest.Program{Kind: kind, Clause: clause}}
	}
	joined := plan(probe.Kprobe, 2)
	joined.Joined = []resolve.Plan{plan(probe.Uprobe, 4)}
	c, err := newCoverage(o, h, []resolve.Plan{plan(probe.Fentry, 1), plan(probe.Kprobe, 1), joined, plan(probe.Tracepoint, 3)}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for clause, want := range map[int]bool{1: true, 2: false, 3: false, 4: true} {
		if c.atomic[clause] != want {
			t.Errorf("clause %d: atomic %v", clause, c.atomic[clause])
		}
	}
	// The counters of 1,024 CPUs have 4 KiB each.
	n := 0
	for ; n < 2000; n++ {
		if _, ok := c.indexOf(rewrite.Counter{Kind: rewrite.Fired, Clause: n}); !ok {
			break
		}
	}
	if want := (4096 - rewrite.CoverHead) / 8; n != want {
		t.Errorf("room for %d words, want %d", n, want)
	}
}
