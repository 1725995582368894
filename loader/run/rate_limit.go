// SPDX-License-Identifier: Apache-2.0

package run

import (
	"sort"
	"time"
)

// rateLimits is a rate limiter for messages, which programs can send without bound: the first few
// of each kind are shown, then a count at growing intervals (exponential backoff).
type rateLimits struct {
	seen map[int]*rateLimit
}

type rateLimit struct {
	shown   int
	skipped uint64 // since the last report
	backoff
}

// backoff decides when a repeated message is reported again: after a second at first, then after
// twice as long each time, up to backoffMost. It starts over after a quiet period.
type backoff struct {
	next  time.Time // zero: report at once
	pause time.Duration
}

const (
	backoffFirst = time.Second
	backoffMost  = 64 * time.Second
)

func (b *backoff) due(now time.Time) bool { return !now.Before(b.next) }

// reported records that a report was made.
func (b *backoff) reported(now time.Time) {
	if now.Sub(b.next) > backoffMost {
		b.pause = 0
	}
	b.pause = min(max(2*b.pause, backoffFirst), backoffMost)
	b.next = now.Add(b.pause)
}

const shownAtOnce = 5 // messages of one kind that are shown immediately

// admit reports whether message number i is shown.
func (f *rateLimits) admit(i int, now time.Time) bool {
	x := f.seen[i]
	if x == nil {
		if f.seen == nil {
			f.seen = map[int]*rateLimit{}
		}
		x = &rateLimit{}
		x.reported(now)
		f.seen[i] = x
	}
	if x.shown < shownAtOnce {
		x.shown++
		return true
	}
	x.skipped++
	return false
}

// due calls report with each kind of suppressed message and its count, at most as often as its
// backoff allows. If final is set it does so at once.
func (f *rateLimits) due(now time.Time, final bool, report func(i int, n uint64)) {
	var numbers []int
	for i := range f.seen {
		numbers = append(numbers, i)
	}
	sort.Ints(numbers)
	for _, i := range numbers {
		x := f.seen[i]
		if x.skipped == 0 || !final && !x.backoff.due(now) {
			continue
		}
		report(i, x.skipped)
		x.skipped = 0
		x.reported(now)
	}
}
