// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

const (
	batchCalls = 2000 // events per batch
	batches    = 15   // batches per run; their median is the result of the run
	// This many copies of a cheap script's clause are loaded at once, each with its own maps, so
	// that their mean does not depend on the memory location of a single program.
	copies = 8
	// floor is the smallest cost of an event used in a ratio, in ns, however precisely it was measured:
	// three or four CPU cycles.
	floor = 1
)

// events measures the cost of an event: run_time_ns / run_cnt of the kernel's BPF statistics, less the
// same quotient for empty programs on the same event, which is the cost of the clock. The empty
// programs are interleaved with the measured ones, in the same process and the same batches.
func (b *bench) events() error {
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return fmt.Errorf("BPF statistics: %v", err)
	}
	defer stats.Close()
	scripts, err := filepath.Glob(filepath.Join(b.root, "tests/bench/events/*.bt"))
	if err != nil {
		return err
	}
	a := axis{Name: "events", Title: "Cost of an event above an empty program's"}
	var empty [2][]float64
	for _, script := range scripts {
		if !b.matches(scriptName(script)) {
			continue
		}
		d, err := b.mixture(script)
		if err != nil {
			return err
		}
		var cost [2][]float64
		var noise []float64
		rounds := b.rounds
		if d.copies > 1 {
			rounds = max((rounds+1)/2, 3) // several copies per round need fewer rounds
		}
		err = b.alternate(rounds, func(k int, t tool) error {
			r, err := b.eventCost(t, d)
			cost[k] = append(cost[k], r.above)
			empty[k] = append(empty[k], r.empty)
			noise = append(noise, r.noise)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", scriptName(script), err)
		}
		a.add(above(scriptName(script), cost, noise))
	}
	a.note("an empty program takes %s ns (btc) and %s ns (bpftrace)", summarize(empty[0]), summarize(empty[1]))
	a.note("%d copies of a cheap script run for each event, each with its own maps and next to an empty program, all in one process; a round's figure is the median of %d batches of %d events, each the mean of the copies less that of the empty programs",
		copies, batches, batchCalls)
	a.note("the resolution of a row is the largest difference between two groups of its empty programs in any round, and at least %d ns; a cost below it (even a negative one) counts as the resolution in the ratio and the mean, so that ratio is an upper bound; if neither cost is above the resolution, the row has no ratio and is not part of the mean", floor)
	a.mean("cost of an event, geometric mean", geometric(a.Rows), 0.5)
	a.mean("the largest ratio", largest(a.Rows), 0.9)
	b.result.put(a)
	return nil
}

// above returns the measured costs less those of an empty program. A cost that cannot be distinguished
// from that of an empty program is replaced by the largest value that it may have, so that noise never
// improves a ratio.
func above(name string, cost [2][]float64, noise []float64) row {
	least := max(floor, summarize(noise).Max)
	r := paired(name, "ns", raised(cost[0], least), raised(cost[1], least))
	r.Btc, r.Ref = summarize(cost[0]), summarize(cost[1])
	r.Ratio = max(r.Btc.Median, least) / max(r.Ref.Median, least)
	switch mine, other := r.Btc.Median <= least, r.Ref.Median <= least; {
	case mine && other:
		r.Ratio, r.Spread = 0, [2]float64{}
		r.Note = fmt.Sprintf("both not distinguishable from an empty program, resolution %s ns", number(least))
	case mine:
		r.Note = fmt.Sprintf("at most: the cost counts as the resolution, %s ns", number(least))
	case other:
		r.Note = fmt.Sprintf("at least: the other's cost counts as the resolution, %s ns", number(least))
	}
	return r
}

// raised replaces costs below least by least.
func raised(costs []float64, least float64) []float64 {
	out := make([]float64, len(costs))
	for i, c := range costs {
		out[i] = max(c, least)
	}
	return out
}

// mixture is a script made of the clauses of another one, possibly several copies, interleaved with
// empty clauses on the same event.
type mixture struct {
	script  string
	clauses int // clauses of the script; all of them run once per event of the workload
	copies  int
	empties int
	prints  bool
}

var mapName = regexp.MustCompile(`@\w*`)

// mixture returns the mixture for a script of tests/bench/events, which has one clause per line.
func (b *bench) mixture(script string) (mixture, error) {
	var d mixture
	text, err := os.ReadFile(script)
	if err != nil {
		return d, err
	}
	var clauses []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "tracepoint:") {
			clauses = append(clauses, line)
		}
	}
	name := scriptName(script)
	d = mixture{clauses: len(clauses), copies: copies, empties: copies, prints: strings.HasPrefix(name, "printf")}
	if d.prints || d.clauses != 1 || strings.HasSuffix(name, "stack") {
		d.copies, d.empties = 1, 2 // copies would lose records, or evict each other's elements
	}
	point, _, _ := strings.Cut(clauses[0], " ")
	none := point + " { }\n"
	var out strings.Builder
	for i := range d.copies {
		body := mapName.ReplaceAllString(strings.Join(clauses, ""), fmt.Sprintf("${0}_%d", i))
		// Each order is followed by its reverse: the first program on an event bears extra costs, which
		// are thus divided between both kinds.
		if i%2 == 0 {
			out.WriteString(none + body)
		} else {
			out.WriteString(body + none)
		}
	}
	for range d.empties - d.copies {
		out.WriteString(none)
	}
	d.script = filepath.Join(b.dir, name+".bt")
	return d, os.WriteFile(d.script, []byte(out.String()), 0o644)
}

// eventFigures are the measurements of one run of a mixture.
type eventFigures struct {
	above float64 // cost of the script's clauses, without that of the clock
	empty float64 // cost reported for an empty program
	noise float64 // difference between the two groups of empty programs
}

// eventCost runs a mixture and returns its measurements.
func (b *bench) eventCost(t tool, d mixture) (eventFigures, error) {
	var f eventFigures
	command, err := t.prepare(d.script, "")
	if err != nil {
		return f, err
	}
	tr, err := start(command())
	if err != nil {
		return f, err
	}
	stopped := false
	defer func() {
		if !stopped {
			tr.stop()
		}
	}()
	list, err := tr.programs()
	if err != nil {
		return f, err
	}
	defer closeAll(list)
	groups, err := d.groups(list)
	if err != nil {
		return f, err
	}
	bind()
	work(500) // warm up caches, insert the first elements
	n := batchCalls
	if d.prints {
		n /= 4 // so that the reader keeps up
	}
	var costs, empties, noises []float64
	for tries := 0; len(costs) < batches; tries++ {
		var before, after [len(groups)]counters
		for i, g := range groups {
			if before[i], err = runs(g); err != nil {
				return f, err
			}
		}
		work(n)
		whole := true
		var mean [len(groups)]float64 // mean cost of a program
		for i, g := range groups {
			if after[i], err = runs(g); err != nil {
				return f, err
			}
			whole = whole && after[i].count-before[i].count == uint64(n*len(g))
			mean[i] = float64(after[i].ns-before[i].ns) / float64(n*len(g))
		}
		if !whole {
			if tries > 10*batches {
				return f, fmt.Errorf("%d runs, want %d", after[0].count-before[0].count, n*len(groups[0]))
			}
			continue // another process made the same system call, too
		}
		empty := (mean[1] + mean[2]) / 2
		costs = append(costs, (mean[0]-empty)*float64(d.clauses))
		empties = append(empties, empty)
		noises = append(noises, mean[1]-mean[2])
		if d.prints {
			time.Sleep(10 * time.Millisecond)
		}
	}
	stopped = true
	_, text, _ := tr.stop() // bpftrace may be killed by the signal
	if strings.Contains(strings.ToLower(text), "lost ") {
		return f, fmt.Errorf("events were lost")
	}
	return eventFigures{summarize(costs).Median, summarize(empties).Median, math.Abs(summarize(noises).Median)}, nil
}

// groups splits the programs of a mixture into the measured ones and two groups of empty ones. Empty
// programs are recognized as the shortest.
func (d mixture) groups(list []program) ([3][]program, error) {
	var groups [3][]program
	least := math.MaxInt
	for _, p := range list {
		least = min(least, p.insns)
	}
	n := 0
	for _, p := range list {
		if p.insns > least {
			groups[0] = append(groups[0], p)
			continue
		}
		// Alternating pairs, because every other one follows a measured program.
		k := 1 + n/2%2
		if d.empties == 2 {
			k = 1 + n
		}
		groups[min(k, 2)] = append(groups[min(k, 2)], p)
		n++
	}
	if len(groups[0]) != d.copies*d.clauses || n != d.empties {
		return groups, fmt.Errorf("%d programs and %d empty ones, want %d and %d", len(groups[0]), n, d.copies*d.clauses, d.empties)
	}
	return groups, nil
}

// counters of the kernel's BPF statistics.
type counters struct{ count, ns uint64 }

func runs(list []program) (counters, error) {
	var c counters
	for _, p := range list {
		s, err := p.Stats()
		if err != nil {
			return c, err
		}
		c.count += s.RunCount
		c.ns += uint64(s.Runtime)
	}
	return c, nil
}

// The workload makes two system calls that nothing else makes: getpgid with different numbers, and
// chdir to nonexistent paths.

var (
	shortPath = append([]byte("/nowhere/at/all"), 0)
	longPath  = append([]byte("/nowhere/"+strings.Repeat("long-name/", 19)+"end"), 0) // 202 bytes
)

// work runs n iterations below some stack frames.
func work(n int) { deep(8, n) }

// deep recurses, so that user stacks have some frames.
//
//go:noinline
func deep(level, n int) {
	if level > 0 {
		deep(level-1, n)
		return
	}
	for i := range n {
		unix.RawSyscall(unix.SYS_GETPGID, uintptr(1<<22+i&0xfff), 0, 0)
	}
	for range n {
		unix.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(&shortPath[0])), 0, 0)
	}
	for range n {
		unix.RawSyscall(unix.SYS_CHROOT, uintptr(unsafe.Pointer(&longPath[0])), 0, 0)
	}
}

// bind names the thread and pins it to a CPU.
func bind() {
	runtime.LockOSThread()
	name := append([]byte("bench"), 0)
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)
}
