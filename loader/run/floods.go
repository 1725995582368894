package run

import (
	"slices"
	"time"
)

// floods limits messages that programs may send without end: of each the first
// ones are shown, then a number every second.
type floods struct {
	seen map[int]*flood
}

type flood struct {
	shown   int
	skipped uint64 // since the last report
	next    time.Time
}

const (
	floodShown    = 5 // messages of one kind that are shown as they come
	floodInterval = time.Second
)

// admit tells whether message number i is to be shown.
func (f *floods) admit(i int, now time.Time) bool {
	x := f.seen[i]
	if x == nil {
		if f.seen == nil {
			f.seen = map[int]*flood{}
		}
		x = &flood{next: now.Add(floodInterval)}
		f.seen[i] = x
	}
	if x.shown < floodShown {
		x.shown++
		return true
	}
	x.skipped++
	return false
}

// due calls report with the messages that were skipped and how often, at most
// once a second for each; final does so at once.
func (f *floods) due(now time.Time, final bool, report func(i int, n uint64)) {
	var numbers []int
	for i := range f.seen {
		numbers = append(numbers, i)
	}
	slices.Sort(numbers)
	for _, i := range numbers {
		x := f.seen[i]
		if x.skipped == 0 || !final && now.Before(x.next) {
			continue
		}
		report(i, x.skipped)
		x.skipped, x.next = 0, now.Add(floodInterval)
	}
}
