// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"io"
	"os"
	"slices"
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

// budgetWindow is the time over which the programs' cost is averaged. What is over the budget in
// overWindows of them in a row is detached.
const (
	budgetWindow = 10 * time.Second
	overWindows  = 2
)

// budget holds the time that the attached programs take, by the kernel's own statistics, against
// Options.Budget. A program that the loader runs (begin, end, self, iter) has no part in it.
type budget struct {
	stats  io.Closer // keeps the statistics on; nil: they are on for the whole machine
	window time.Duration
	timer  *time.Timer // wakes the reader of the events

	began time.Time // of the window
	last  float64   // share of the window before, of all programs
	over  int       // windows in a row

	mu     sync.Mutex // of what probes hold: metrics show it
	start  time.Time
	probes []*costed
}

// costed is an attach point of the script.
type costed struct {
	prog     *manifest.Program
	programs []*ebpf.Program
	links    [][2]int // in session.links
	seen     uint64   // time that its programs took until the window began, in ns
	share    [2]float64
	used     uint64    // ns since the start
	detached time.Time // zero: not
}

// statsSetting is where the statistics are switched on for the whole machine (5.1).
const statsSetting = "/proc/sys/kernel/bpf_stats_enabled"

// statsAreOn reports whether they are.
func statsAreOn() bool {
	b, err := os.ReadFile(statsSetting)
	return err == nil && strings.TrimSpace(string(b)) == "1"
}

// openBudget switches the kernel's statistics on for as long as the run takes.
func (s *session) openBudget() error {
	if s.opts.Budget == 0 || s.opts.Mode != "" {
		return nil
	}
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME) // 5.8
	if err != nil && !statsAreOn() {
		return fmt.Errorf(
			"the budget of %s cannot be held: the kernel's statistics of BPF programs are off, and switching them on failed: %w (%s); sysctl kernel.bpf_stats_enabled=1 switches them on for everybody",
			policy.FormatBudget(s.opts.Budget),
			err,
			host.WhyNot("CAP_SYS_ADMIN"),
		)
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

// close switches the statistics off.
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

// addToBudget has the budget watch the programs of a plan, whose links begin at an index.
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

// startBudget begins the first window.
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

// runTime is what the programs took so far, in ns.
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

// checkBudget ends a window when it is time to, and detaches what is over the budget.
func (s *session) checkBudget(now time.Time) {
	b := s.budget
	if b == nil || b.timer == nil || now.Sub(b.began) < b.window {
		return
	}
	took := now.Sub(b.began)
	total, err := b.measure(took)
	if err != nil || b.stats == nil && !statsAreOn() {
		if err == nil {
			err = fmt.Errorf("%s is not 1 any more", statsSetting)
		}
		s.tell(fmt.Sprintf("WARNING: what the programs cost cannot be seen any more, so the run ends: %v", err))
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

// measure reads what each probe took in a window, and returns the share of all.
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

// detachOver detaches the most expensive probes until the others are within the budget. Where
// none remains but timers, the run ends.
func (s *session) detachOver(now time.Time, total float64) {
	b := s.budget
	var live []*costed
	for _, c := range b.probes {
		if c.detached.IsZero() {
			live = append(live, c)
		}
	}
	slices.SortStableFunc(live, func(x, y *costed) int {
		switch {
		case x.share[1] > y.share[1]:
			return -1
		case x.share[1] < y.share[1]:
			return 1
		}
		return 0
	})
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
		s.tell("WARNING: no probe but timers is attached any more, so the run ends")
		s.stop()
	}
}

// detachProbe ends the programs of an attach point. The kernel frees them in the background.
func (s *session) detachProbe(c *costed) {
	var links []io.Closer
	for _, r := range c.links {
		for i := r[0]; i < r[1] && i < len(s.links); i++ { // none is left once the run has ended
			links = append(links, s.links[i])
			s.links[i] = ended{}
		}
	}
	s.freeing.Go(attach.Detach(links))
}

// detachment describes a probe that was detached.
func (b *budget) detachment(c *costed, now time.Time) output.Detachment {
	return output.Detachment{
		Probe: c.prog.Attach.Attaches(c.prog.Kind), Pos: c.prog.Pos,
		From: b.start, To: c.detached, Run: now.Sub(b.start), Share: c.share,
	}
}

// detachments lists the probes that were detached; nil without a budget.
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

// costs are what the attach points took until the last window ended; nil without a budget. Those of
// equal text are one.
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
