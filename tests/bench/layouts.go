// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"btc/loader/rewrite"
)

// layouts measures the alternatives that docs/layouts.md discusses, the layouts that btc uses and
// others that it could use, each as a small separate program on one tracepoint. The compiler is not
// involved.
func (b *bench) layouts() error {
	a := axis{Name: "layouts", Title: "Layouts that were compared", Sides: [2]string{"chosen", "the other"}}
	list := contests()
	more, remove, err := filterContests()
	if err == nil {
		defer remove()
		list = append(list, more...)
	} else {
		a.note("filters: %v", err)
	}
	return b.weigh(a, list)
}

// weigh measures contests and adds the results to an axis.
func (b *bench) weigh(a axis, list []contest) error {
	var empty []float64
	for _, c := range list {
		if !b.matches(c.name) {
			continue
		}
		f, err := c.measure(b.rounds, batches, batchCalls)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if f.Missing != "" {
			a.note("%s: %s", c.name, f.Missing)
			continue
		}
		r := above(c.name, f.Cost, f.Noise)
		r.Note = joined(r.Note, f.counts())
		a.add(r)
		empty = append(empty, f.Empty...)
	}
	a.note("cost of an event above that of an empty program, which takes %s ns; both sides and empty programs run for the same events, %d copies of each (one of those with a ring buffer or many keys)", summarize(empty), trialCopies)
	if a.Name == "layouts" {
		a.note("the cost of a record depends on whether its reader is woken on the same CPU or on the other one")
	}
	b.result.put(a)
	return nil
}

// trialCopies is the number of copies of a program that run for each event, each with its own maps.
const trialCopies = 4

// A contest compares two programs that do the same thing.
type contest struct {
	name  string
	sides [2]trial // the chosen layout first
	old   bool     // also measured on older kernels, which implement it differently
}

// trial is a program and its maps.
type trial struct {
	maps     []ebpf.MapSpec
	code     func(m trialMaps) asm.Instructions // ends by falling through to the exit or with a jump to "out"
	after    asm.Instructions                   // other functions
	function *btf.Func                          // BTF of the program's function, if there are others
	reads    bool                               // a reader empties the ring buffer m[0]
	alone    bool                               // no copies
	filter   func(m trialMaps) rewrite.Filter   // code to insert before the program; nil if none
}

type trialMaps []*ebpf.Map

// contestFigures are the measurements of a contest; costs are above that of an empty program.
type contestFigures struct {
	Name            string
	Missing         string // why this kernel cannot run it
	Cost            [2][]float64
	Empty, Noise    []float64
	Insns, Verified [2]int // Verified is 0 if the kernel does not report it (before 5.16)
}

// counts describes the sizes of the two programs in the kernel.
func (f contestFigures) counts() string {
	s := fmt.Sprintf("%d instructions against %d", f.Insns[0], f.Insns[1])
	if f.Verified[0] != 0 {
		s += fmt.Sprintf(", verified %d against %d", f.Verified[0], f.Verified[1])
	}
	return s
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// measure runs both sides and empty programs for the same events, in rounds of batches.
func (c contest) measure(rounds, batches, events int) (contestFigures, error) {
	f := contestFigures{Name: c.name}
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return f, fmt.Errorf("BPF statistics: %v", err)
	}
	defer stats.Close()
	bind()
	for round := range rounds {
		if err := c.round(&f, round, batches, events); err != nil || f.Missing != "" {
			return f, err
		}
	}
	return f, nil
}

// round loads all programs again, because their memory location affects their cost.
func (c contest) round(f *contestFigures, round, batches, events int) error {
	var groups [4][]program // the two sides, and two groups of empty programs
	var running []*attached
	defer func() {
		for _, r := range running {
			r.stop()
		}
	}()
	add := func(k int, t trial) error {
		r, err := t.attach()
		if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) {
			f.Missing = "this kernel does not take it"
			return nil
		}
		if err != nil {
			return err
		}
		running = append(running, r)
		groups[k] = append(groups[k], r.program)
		if k < len(f.Insns) {
			f.Insns[k], f.Verified[k] = r.program.insns, r.program.verified
		}
		return nil
	}
	n := trialCopies
	if c.sides[0].reads || c.sides[0].alone {
		n = 1
	}
	none := trial{code: func(trialMaps) asm.Instructions { return nil }}
	// An empty program runs before each of the others, and the sides take turns in being the first of
	// two, because the second profits from what the first leaves in the caches.
	for i := range n {
		first := (i + round) % 2
		for j, k := range []int{2, first, 3, 1 - first} {
			var err error
			if j%2 == 0 {
				err = add(k, none)
			} else {
				err = add(k, c.sides[k])
			}
			if err != nil || f.Missing != "" {
				return err
			}
		}
	}
	calls(500)
	var costs [2][]float64
	var empties, noises []float64
	for tries := 0; len(empties) < batches; tries++ {
		if tries > 10*batches {
			return errors.New("another process makes the same system call")
		}
		mean, ok, err := meanRuns(groups[:], events)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		empty := (mean[2] + mean[3]) / 2
		for k := range costs {
			costs[k] = append(costs[k], mean[k]-empty)
		}
		empties = append(empties, empty)
		noises = append(noises, mean[2]-mean[3])
	}
	for k := range costs {
		f.Cost[k] = append(f.Cost[k], summarize(costs[k]).Median)
	}
	f.Empty = append(f.Empty, summarize(empties).Median)
	f.Noise = append(f.Noise, math.Abs(summarize(noises).Median))
	return nil
}

// meanRuns generates events and returns the mean run time of a program for each group; ok is false if
// another process generated events, too.
func meanRuns(groups [][]program, events int) (mean []float64, ok bool, err error) {
	before := make([]counters, len(groups))
	for i, g := range groups {
		if before[i], err = runs(g); err != nil {
			return nil, false, err
		}
	}
	calls(events)
	for i, g := range groups {
		after, err := runs(g)
		if err != nil {
			return nil, false, err
		}
		if after.count-before[i].count != uint64(events*len(g)) {
			return nil, false, nil
		}
		mean = append(mean, float64(after.ns-before[i].ns)/float64(events*len(g)))
	}
	return mean, true, nil
}

// attached is a program that runs for each event, with its resources.
type attached struct {
	program program
	closers []func()
}

func (a *attached) stop() {
	for i := len(a.closers) - 1; i >= 0; i-- {
		a.closers[i]()
	}
}

// attach creates the maps, loads the program and attaches it.
func (t trial) attach() (_ *attached, err error) {
	a := &attached{}
	defer func() {
		if err != nil {
			a.stop()
		}
	}()
	var maps trialMaps
	for i := range t.maps {
		m, err := ebpf.NewMap(&t.maps[i])
		if err != nil {
			return nil, err
		}
		a.closers = append(a.closers, func() { m.Close() })
		maps = append(maps, m)
	}
	first := asm.Mov.Reg(asm.R6, asm.R1)
	if t.function != nil {
		first = btf.WithFuncMetadata(first.WithSymbol("layout"), t.function)
	}
	code := append(asm.Instructions{first}, t.code(maps)...)
	code = append(append(code, asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), asm.Return()), t.after...)
	if t.filter != nil {
		f := t.filter(maps)
		code = f.Program(code)
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "layout", Type: ebpf.TracePoint, License: "GPL", Instructions: code})
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, func() { p.Close() })
	info, err := p.Info()
	if err != nil {
		return nil, err
	}
	size, err := info.TranslatedSize()
	if err != nil {
		return nil, err
	}
	verified, _ := info.VerifiedInstructions()
	a.program = program{Program: p, insns: size / 8, verified: int(verified)}
	at, err := link.Tracepoint("syscalls", "sys_enter_getpgid", p, nil)
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, func() { at.Close() })
	if t.reads {
		stop, err := emptied(maps[0])
		if err != nil {
			return nil, err
		}
		a.closers = append(a.closers, stop)
	}
	return a, nil
}

// calls makes n system calls with different arguments.
func calls(n int) {
	for i := range n {
		unix.RawSyscall(unix.SYS_GETPGID, uintptr(1<<22+i&0xfff), 0, 0)
	}
}
