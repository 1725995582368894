package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// unseen is a cost in ns that cannot be told from none: the empty programs
// themselves differ by as much from round to round. What costs less counts as so
// much in ratios.
const unseen = 4

const (
	batchCalls = 2000 // events of a batch
	batches    = 15   // of one run; their median is the run's figure
)

// events measures what an event costs: run_time_ns / run_cnt of the kernel's
// BPF statistics, less what an empty program costs by them
// (that is the clock itself).
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
	cost := map[string][2][]float64{}
	empty := filepath.Join(b.root, "tests/bench/events/empty.bt")
	for _, script := range append([]string{empty}, scripts...) {
		name := strings.TrimSuffix(filepath.Base(script), ".bt")
		if name != "empty" && !b.matches(name) || cost[name][0] != nil {
			continue
		}
		var c [2][]float64
		err := b.alternate(b.rounds, func(k int, t tool) error {
			ns, err := b.eventCost(t, script)
			c[k] = append(c[k], ns)
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		cost[name] = c
		if name == "empty" {
			a.note("an empty program reads %s ns (btc) and %s ns (bpftrace)", summarize(c[0]), summarize(c[1]))
			continue
		}
		above := [2][]float64{}
		// An empty program is the same two instructions of either: what it reads is the clock.
		clock := summarize(append(slices.Clone(cost["empty"][0]), cost["empty"][1]...)).Median
		for k := range c {
			base := clock * float64(programsOf(script))
			for _, ns := range c[k] {
				above[k] = append(above[k], ns-base)
			}
		}
		r := paired(name, "ns", seen(above[0]), seen(above[1]))
		r.Btc, r.Ref = summarize(above[0]), summarize(above[1])
		if r.Btc.Median < unseen && r.Ref.Median < unseen {
			r.Ratio, r.Spread, r.Note = 0, [2]float64{}, "both below what the clock tells apart: no ratio"
		}
		a.add(r)
	}
	a.mean("cost of an event, geometric mean", geometric(a.Rows), 0.5)
	a.mean("the largest ratio", largest(a.Rows), 0.9)
	b.result.put(a)
	return nil
}

// seen raises costs to the least that can be seen.
func seen(costs []float64) []float64 {
	out := make([]float64, len(costs))
	for i, c := range costs {
		out[i] = max(c, unseen)
	}
	return out
}

// programsOf is how many programs of a script run for one event of the workload.
func programsOf(script string) int {
	text, _ := os.ReadFile(script)
	return strings.Count("\n"+string(text), "\ntracepoint:")
}

// eventCost is the cost of one turn of the workload in all programs of a script.
func (b *bench) eventCost(t tool, script string) (float64, error) {
	command, err := t.prepare(script, "")
	if err != nil {
		return 0, err
	}
	tr, err := start(command())
	if err != nil {
		return 0, err
	}
	list, err := tr.programs()
	if err != nil {
		tr.stop()
		return 0, err
	}
	defer closeAll(list)
	turn()
	work(500) // caches, first insertions
	prints := strings.HasPrefix(filepath.Base(script), "printf")
	var all []float64
	for tries := 0; len(all) < batches; tries++ {
		n := batchCalls
		if prints {
			n /= 4 // the reader keeps up
		}
		before, err := runs(list)
		if err != nil {
			return 0, err
		}
		work(n)
		after, err := runs(list)
		if err != nil {
			return 0, err
		}
		if got := after.count - before.count; got != uint64(n*programsOf(script)) {
			if tries > 10*batches {
				tr.stop()
				return 0, fmt.Errorf("%d runs instead of %d", got, n*programsOf(script))
			}
			continue // another process made the same system call
		}
		all = append(all, float64(after.ns-before.ns)/float64(n))
		if prints {
			time.Sleep(10 * time.Millisecond)
		}
	}
	_, text, _ := tr.stop() // bpftrace may die of the signal
	if strings.Contains(strings.ToLower(text), "lost ") {
		return 0, fmt.Errorf("events were lost")
	}
	return summarize(all).Median, nil
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

// The workload makes two system calls that nothing else on a machine makes:
// getpgid of changing numbers, and chdir to paths that do not exist.

var (
	shortPath = append([]byte("/nowhere/at/all"), 0)
	longPath  = append([]byte("/nowhere/"+strings.Repeat("long-name/", 19)+"end"), 0) // 202 bytes
)

// work makes n turns on a thread of its own name.
func work(n int) { deep(8, n) }

// deep gives a user stack some frames.
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

// turn settles the thread: its name and its CPU.
func turn() {
	runtime.LockOSThread()
	name := append([]byte("bench"), 0)
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)
}
