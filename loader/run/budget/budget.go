// SPDX-License-Identifier: Apache-2.0

// Package budget limits the CPU time of the programs of a run. It reads their run time from the kernel's statistics in
// windows, decides which probes must be detached, and reports what each has used. It never detaches or prints anything
// itself: the run does (Actions).
package budget

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/host"
	"btc/loader/output"
	"btc/loader/policy"
)

// defaultWindow is the period over which the cost of the programs is averaged. A probe is detached
// after overWindows consecutive windows over budget.
const (
	defaultWindow = 10 * time.Second
	overWindows   = 2
)

// Budget compares the run time of the attached programs, from the kernel's statistics, with a share
// of one CPU. Programs that the loader runs itself (begin, end, self, iter) do not count. A nil
// Budget has no limit.
type Budget struct {
	limit  float64
	stats  io.Closer // keeps the statistics on; nil: they are on system-wide
	window time.Duration
	timer  *time.Timer // calls Actions.Wake; nil: nothing is measured
	act    Actions

	began time.Time // start of the window
	last  float64   // CPU share of all programs in the previous window
	over  int       // consecutive windows over budget

	mu     sync.Mutex // guards the data of probes, which metrics read
	start  time.Time
	probes []*costed
}

// Actions are what a budget makes its run do.
type Actions struct {
	Wake   func()                     // call Check; from any goroutine
	Detach func(links []Range)        // detach a probe
	Report func([]*output.Detachment) // report detached probes, the most expensive one first
	End    func(why string)           // warn, and end the run
}

// Range is a range of the run's links: from the first number up to the second.
type Range [2]int

// costed is an attach point of the script.
type costed struct {
	prog     *manifest.Program
	programs []program
	links    []Range
	seen     uint64 // run time of its programs up to the start of the window, in ns
	share    [2]float64
	used     uint64    // ns since the start
	detached time.Time // zero: still attached
}

// program is an *ebpf.Program.
type program interface {
	Stats() (*ebpf.ProgramStats, error)
}

// statsSetting is the sysctl that enables the statistics system-wide (Linux 5.1).
const statsSetting = "/proc/sys/kernel/bpf_stats_enabled"

// statsAreOn reports whether the statistics are enabled system-wide.
func statsAreOn() bool {
	b, err := os.ReadFile(statsSetting)
	return err == nil && strings.TrimSpace(string(b)) == "1"
}

// Open enables the kernel's statistics until Close. The budget is a share of one CPU; window 0 is the default.
func Open(limit float64, window time.Duration) (*Budget, error) {
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME) // 5.8
	if err != nil && !statsAreOn() {
		return nil, fmt.Errorf("the budget of %s cannot be enforced: the kernel's statistics of BPF programs are off, and enabling them failed: %w (%s); sysctl kernel.bpf_stats_enabled=1 enables them system-wide",
			policy.FormatBudget(limit), err, host.Reason("CAP_SYS_ADMIN"))
	}
	b := &Budget{limit: limit, window: window}
	if b.window == 0 {
		b.window = defaultWindow
	}
	if err == nil {
		b.stats = stats
	}
	return b, nil
}

// Close disables the statistics.
func (b *Budget) Close() {
	if b == nil {
		return
	}
	if b.timer != nil {
		b.timer.Stop()
	}
	if b.stats != nil {
		b.stats.Close()
	}
}

// Add adds the programs of an attach point, which have these links. An attach point may be added in several parts.
func (b *Budget) Add(prog *manifest.Program, programs []*ebpf.Program, links Range) {
	if b == nil || links[0] == links[1] || prog.Kind == probe.Iter {
		return
	}
	i := slices.IndexFunc(b.probes, func(c *costed) bool { return c.prog == prog })
	if i < 0 {
		i = len(b.probes)
		b.probes = append(b.probes, &costed{prog: prog})
	}
	c := b.probes[i]
	c.links = append(c.links, links)
	for _, p := range programs {
		if p != nil && !slices.Contains(c.programs, program(p)) {
			c.programs = append(c.programs, p)
		}
	}
}

// Start starts the first window.
func (b *Budget) Start(act Actions) {
	if b == nil || len(b.probes) == 0 {
		return
	}
	b.act = act
	for _, c := range b.probes {
		c.seen, _ = c.runTime()
	}
	b.mu.Lock()
	b.start = time.Now()
	b.mu.Unlock()
	b.began = b.start
	b.timer = time.AfterFunc(b.window, act.Wake)
}

// runTime returns the total run time of the programs so far, in ns.
func (c *costed) runTime() (sum uint64, err error) {
	for _, p := range c.programs {
		stats, err := p.Stats()
		if err != nil {
			return 0, err
		}
		sum += uint64(stats.Runtime)
	}
	return sum, nil
}

// Check ends the current window if it is over, and detaches probes that exceed the budget.
func (b *Budget) Check(now time.Time) {
	if b == nil || b.timer == nil || now.Sub(b.began) < b.window {
		return
	}
	took := now.Sub(b.began)
	total, err := b.measure(took)
	if err == nil && b.stats == nil && !statsAreOn() {
		err = fmt.Errorf("%s is no longer 1", statsSetting)
	}
	if err != nil {
		b.timer = nil
		b.act.End(fmt.Sprintf("WARNING: the cost of the programs can no longer be measured, so the run ends: %v", err))
		return
	}
	b.over++
	if total <= b.limit {
		b.over = 0
	}
	if b.over >= overWindows {
		b.over = 0
		b.detachOver(now, total)
	}
	b.last, b.began = total, now
	b.timer.Reset(b.window)
}

// measure updates the cost of each probe for the window, and returns the CPU share of all of them.
func (b *Budget) measure(took time.Duration) (total float64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.probes {
		if !c.detached.IsZero() {
			continue
		}
		now, err := c.runTime()
		if err != nil {
			return 0, err
		}
		used := now - c.seen
		c.seen, c.used = now, c.used+used
		c.share[0], c.share[1] = c.share[1], float64(used)/float64(took)
		total += c.share[1]
	}
	return total, nil
}

// detachOver detaches the most expensive probes until the others fit the budget. If only timers
// remain, the run ends.
func (b *Budget) detachOver(now time.Time, total float64) {
	var live []*costed
	for _, c := range b.probes {
		if c.detached.IsZero() {
			live = append(live, c)
		}
	}
	sort.SliceStable(live, func(i, j int) bool { return live[i].share[1] > live[j].share[1] })
	var detached []*output.Detachment
	rest := total
	for len(live) > 0 && rest > b.limit {
		c := live[0]
		live = live[1:]
		rest -= c.share[1]
		b.act.Detach(c.links)
		b.mu.Lock()
		c.detached = time.Now()
		b.mu.Unlock()
		d := b.detachment(c, now)
		d.Share, d.All = c.share, [2]float64{b.last, total}
		detached = append(detached, &d)
	}
	b.act.Report(detached)
	if !slices.ContainsFunc(live, func(c *costed) bool { return c.prog.Kind != probe.Interval }) {
		b.act.End("WARNING: only timers are still attached, so the run ends")
	}
}

// detachment describes a detached probe.
func (b *Budget) detachment(c *costed, now time.Time) output.Detachment {
	return output.Detachment{
		Probe: c.prog.Attach.Attaches(c.prog.Kind), Pos: c.prog.Pos, Budget: b.limit,
		From: b.start, To: c.detached, Run: now.Sub(b.start), Share: c.share,
	}
}

// Detachments lists the detached probes; nil without a budget. Any goroutine may call it.
func (b *Budget) Detachments() []output.Detachment {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []output.Detachment
	for _, c := range b.probes {
		if !c.detached.IsZero() {
			all = append(all, b.detachment(c, time.Now()))
		}
	}
	return all
}

// Costs returns the run time of each attach point up to the end of the last window; nil without a
// budget. Attach points with the same text are combined. Any goroutine may call it.
func (b *Budget) Costs() []output.Cost {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []output.Cost
	for _, c := range b.probes {
		x := output.Cost{
			Probe:    c.prog.Attach.Attaches(c.prog.Kind),
			Attached: c.detached.IsZero(),
			Used:     time.Duration(c.used),
		}
		x.Covered = c.detached.Sub(b.start)
		if x.Attached {
			x.Covered = time.Since(b.start)
		}
		i := slices.IndexFunc(all, func(y output.Cost) bool { return y.Probe == x.Probe })
		if i < 0 {
			all = append(all, x)
			continue
		}
		all[i].Attached = all[i].Attached && x.Attached
		all[i].Covered, all[i].Used = min(all[i].Covered, x.Covered), all[i].Used+x.Used
	}
	return all
}
