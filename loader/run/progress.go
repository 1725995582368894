// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"btc/loader/attach"
)

// progress reports slow steps before a run begins.
type progress struct {
	mu      sync.Mutex
	phase   string
	total   int
	made    atomic.Int64
	done    chan struct{}
	stopped sync.WaitGroup
}

// Timing of progress reports: short steps are not reported.
const (
	patience       = time.Second
	progressPeriod = 200 * time.Millisecond
)

// start begins to report progress to show, which is not called after stop.
func (p *progress) start(show func(text string)) {
	if show == nil {
		return
	}
	p.done = make(chan struct{})
	p.stopped.Go(func() {
		begin := time.Now()
		wait := patience
		for {
			select {
			case <-p.done:
				if wait != patience {
					show("")
				}
				return
			case <-time.After(wait):
			}
			wait = progressPeriod
			if text := p.text(); text != "" {
				show(fmt.Sprintf("%s (%d s)", text, int(time.Since(begin).Seconds())))
			}
		}
	})
}

func (p *progress) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.phase == "":
		return ""
	case p.made.Load() == 0:
		return fmt.Sprintf("%s %d probes", p.phase, p.total)
	}
	return fmt.Sprintf("%s %d of %d probes", p.phase, p.made.Load(), p.total)
}

// count starts a step over all probes, and returns the counter of those that are done.
func (p *progress) count(phase string, e *attach.Expansion) *atomic.Int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phase != phase {
		p.phase = phase
		p.total, _ = e.Count()
	}
	return &p.made
}

func (p *progress) stop() {
	if p.done != nil {
		close(p.done)
		p.stopped.Wait()
		p.done = nil
	}
}

// howToEnd describes what ends the run.
func (s *session) howToEnd() string {
	text := "Ctrl-C ends the run"
	switch {
	case s.opts.Timeout > 0:
		text = fmt.Sprintf("ends after %v; Ctrl-C ends the run earlier", s.opts.Timeout)
	case s.opts.FollowForks:
		text = "ends with the last process that is followed; Ctrl-C ends the run earlier"
	case s.child != nil:
		text = "ends with the command; Ctrl-C ends the run earlier"
	case len(s.opts.PIDs) == 1:
		text = "ends with the process; Ctrl-C ends the run earlier"
	case len(s.opts.PIDs) > 1:
		text = "ends with the last of the processes; Ctrl-C ends the run earlier"
	case len(s.opts.Cgroups) > 0:
		text = "ends when the cgroup is removed; Ctrl-C ends the run earlier"
	}
	if s.manifest.Config.PrintMapsOnExit && len(s.maps.scripts()) > 0 {
		text += " and prints the maps"
	}
	return text
}
