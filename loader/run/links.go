// SPDX-License-Identifier: Apache-2.0

package run

import (
	"io"
	"sync"

	"btc/loader/attach"
	"btc/loader/run/budget"
)

// links is what a run has attached.
type links struct {
	all     []io.Closer // in the order of attachment; nil once detached
	sites   int         // attach sites
	points  []*Point
	watched map[uint64][]int // links of watchpoints by address
	freeing sync.WaitGroup   // links still being freed after detach
}

// Point is what became of an attach point of the script, or of several that share one program.
type Point struct {
	Probe   string   // as in the script
	Sites   int      // attached
	Refused []string // functions that the kernel refuses
	Err     error    // why it is not attached, or nil
}

// add adds links of one plan, and returns their range.
func (l *links) add(made []io.Closer) budget.Range {
	from := len(l.all)
	l.all = append(l.all, made...)
	return budget.Range{from, len(l.all)}
}

// watch records that links belong to a watchpoint at an address.
func (l *links) watch(addr uint64, r budget.Range) {
	if l.watched == nil {
		l.watched = map[uint64][]int{}
	}
	for i := r[0]; i < r[1]; i++ {
		l.watched[addr] = append(l.watched[addr], i)
	}
}

// unwatch removes the watchpoints at an address.
func (l *links) unwatch(addr uint64) {
	for _, i := range l.watched[addr] {
		if i < len(l.all) { // nothing has been detached yet
			l.all[i].Close()
			l.all[i] = closed{}
		}
	}
	delete(l.watched, addr)
}

// closed replaces a link that was closed before the end of the run.
type closed struct{}

func (closed) Close() error { return nil }

// detachSome detaches a part of the links. The kernel frees them in the background.
func (l *links) detachSome(ranges []budget.Range) {
	var some []io.Closer
	for _, r := range ranges {
		for i := r[0]; i < min(r[1], len(l.all)); i++ { // there are none once the run has ended
			some = append(some, l.all[i])
			l.all[i] = closed{}
		}
	}
	l.freeing.Go(attach.Detach(some))
}

// detach detaches all programs. The kernel may take long to free them; that happens in the
// background, while the end programs run and the maps are printed.
func (l *links) detach() {
	l.freeing.Go(attach.Detach(l.all))
	l.all = nil
}

// free waits until everything that was detached is freed.
func (l *links) free() { l.freeing.Wait() }
