// SPDX-License-Identifier: Apache-2.0

package tty

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Progress reports slow steps before a run begins.
type Progress struct {
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

// Start begins to report progress to show, which is not called after Stop. A nil show reports nothing.
func (p *Progress) Start(show func(text string)) {
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

func (p *Progress) text() string {
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

// Step starts a step over a number of probes, and returns the counter of those that are done.
func (p *Progress) Step(phase string, total int) *atomic.Int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase, p.total = phase, total
	return &p.made
}

// Stop ends the reports. It may be called again.
func (p *Progress) Stop() {
	if p.done != nil {
		close(p.done)
		p.stopped.Wait()
		p.done = nil
	}
}
