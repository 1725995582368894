// SPDX-License-Identifier: Apache-2.0

package run

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
	"btc/loader/attach"
	"btc/loader/host"
	"btc/loader/output"
	"btc/loader/policy"
	"btc/loader/resolve"
)

// budgetWindow is the period over which the cost of the programs is averaged. A probe is detached
// after overWindows consecutive windows over budget.
const (
	budgetWindow = 10 * time.Second
	overWindows  = 2
)

// budget compares the run time of the attached programs, from the kernel's statistics, with
// Options.Budget. Programs that the loader runs itself (begin, end, self, iter) do not count.
type budget struct {
	stats  io.Closer // keeps the statistics on; nil: they are on system-wide
	window time.Duration
	timer  *time.Timer // wakes the event reader

	began time.Time // start of the window
	last  float64   // CPU share of all programs in the previous window
	over  int       // consecutive windows over budget

	mu     sync.Mutex // guards the data of probes, which metrics read
	start  time.Time
	probes []*costed
}

// costed is an attach point of the script.
type costed struct {
	prog     *manifest.Program
	programs []*ebpf.Program
	links    [][2]int // ranges of session.links
	seen     uint64   // run time of its programs up to the start of the window, in ns
	share    [2]float64
	used     uint64    // ns since the start
	detached time.Time // zero: still attached
}

// statsSetting is the sysctl that enables the statistics system-wide (Linux 5.1).
const statsSetting = "/proc/sys/kernel/bpf_stats_enabled"

// statsAreOn reports whether the statistics are enabled system-wide.
func statsAreOn() bool {
	b, err := os.ReadFile(statsSetting)
	return err == nil && strings.TrimSpace(string(b)) == "1"
}

// openBudget enables the kernel's statistics for the duration of the run.
func (s *session) openBudget() error {
	if s.opts.Budget == 0 || s.opts.Mode != "" {
		return nil
	}
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME) // 5.8
	if err != nil && !statsAreOn() {
		return fmt.Errorf("the budget of %s cannot be enforced: the kernel's statistics of BPF programs are off, and enabling them failed: %w (%s); sysctl kernel.bpf_stats_enabled=1 enables them system-wide",
			policy.FormatBudget(s.opts.Budget), err, host.WhyNot("CAP_SYS_ADMIN"))
	}
	s.budget = &budget{window: s.opts.budgetWindow}
	if s.budget.window == 0 {
		s.budget.window = budgetWindow
	}
	if err == nil {
		s.budget.stats = stats
	}
	return nil
}

// close disables the statistics.
func (b *budget) close() {
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

// addToBudget adds the programs of a plan to the budget. Their links start at session.links[from].
func (s *session) addToBudget(plan *resolve.Plan, progs attach.Programs, from int) {
	b := s.budget
	if b == nil || from == len(s.links) || plan.Prog.Kind == probe.Iter {
		return
	}
	i := slices.IndexFunc(b.probes, func(c *costed) bool { return c.prog == plan.Prog })
	if i < 0 {
		i = len(b.probes)
		b.probes = append(b.probes, &costed{prog: plan.Prog})
	}
	c := b.probes[i]
	c.links = append(c.links, [2]int{from, len(s.links)})
	for _, p := range progs.Of {
		if p != nil && !slices.Contains(c.programs, p) {
			c.programs = append(c.programs, p)
		}
	}
}

// startBudget starts the first window.
func (s *session) startBudget() {
	b := s.budget
	if b == nil || len(b.probes) == 0 {
		return
	}
	for _, c := range b.probes {
		c.seen, _ = c.runTime()
	}
	b.mu.Lock()
	b.start = time.Now()
	b.mu.Unlock()
	b.began = b.start
	b.timer = time.AfterFunc(b.window, s.events.wake)
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

// checkBudget ends the current window if it is over, and detaches probes that exceed the budget.
func (s *session) checkBudget(now time.Time) {
	b := s.budget
	if b == nil || b.timer == nil || now.Sub(b.began) < b.window {
		return
	}
	took := now.Sub(b.began)
	total, err := b.measure(took)
	if err != nil || b.stats == nil && !statsAreOn() {
		if err == nil {
			err = fmt.Errorf("%s is no longer 1", statsSetting)
		}
		s.logLine(fmt.Sprintf("WARNING: the cost of the programs can no longer be measured, so the run ends: %v", err))
		b.timer = nil
		s.stop()
		return
	}
	b.over++
	if total <= s.opts.Budget {
		b.over = 0
	}
	if b.over >= overWindows {
		b.over = 0
		s.detachOver(now, total)
	}
	b.last, b.began = total, now
	b.timer.Reset(b.window)
}

// measure updates the cost of each probe for the window, and returns the CPU share of all of them.
func (b *budget) measure(took time.Duration) (total float64, err error) {
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
func (s *session) detachOver(now time.Time, total float64) {
	b := s.budget
	var live []*costed
	for _, c := range b.probes {
		if c.detached.IsZero() {
			live = append(live, c)
		}
	}
	sort.SliceStable(live, func(i, j int) bool { return live[i].share[1] > live[j].share[1] })
	rest := total
	for len(live) > 0 && rest > s.opts.Budget {
		c := live[0]
		live = live[1:]
		rest -= c.share[1]
		s.detachProbe(c)
		b.mu.Lock()
		c.detached = time.Now()
		b.mu.Unlock()
		d := b.detachment(c, now)
		d.Budget, d.Share, d.All = s.opts.Budget, c.share, [2]float64{b.last, total}
		s.front.sink.Detached(&d)
	}
	s.front.Out.Idle()
	if !slices.ContainsFunc(live, func(c *costed) bool { return c.prog.Kind != probe.Interval }) {
		s.logLine("WARNING: only timers are still attached, so the run ends")
		s.stop()
	}
}

// detachProbe detaches the programs of an attach point. The kernel frees them in the background.
func (s *session) detachProbe(c *costed) {
	var links []io.Closer
	for _, r := range c.links {
		for i := r[0]; i < r[1] && i < len(s.links); i++ { // empty once the run has ended
			links = append(links, s.links[i])
			s.links[i] = ended{}
		}
	}
	s.freeing.Go(attach.Detach(links))
}

// detachment describes a detached probe.
func (b *budget) detachment(c *costed, now time.Time) output.Detachment {
	return output.Detachment{
		Probe: c.prog.Attach.Attaches(c.prog.Kind), Pos: c.prog.Pos,
		From: b.start, To: c.detached, Run: now.Sub(b.start), Share: c.share,
	}
}

// detachments lists the detached probes; nil without a budget.
func (s *session) detachments() []output.Detachment {
	b := s.budget
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []output.Detachment
	for _, c := range b.probes {
		if !c.detached.IsZero() {
			d := b.detachment(c, time.Now())
			d.Budget = s.opts.Budget
			all = append(all, d)
		}
	}
	return all
}

// costs returns the run time of each attach point up to the end of the last window; nil without a
// budget. Attach points with the same text are combined.
func (s *session) costs() []output.Cost {
	b := s.budget
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
