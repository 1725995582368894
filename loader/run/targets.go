// SPDX-License-Identifier: Apache-2.0

package run

import (
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"btc/loader/filter"
)

// targets are the processes and cgroups that a run is limited to. It ends with the last of them.
type targets struct {
	pids   []int // of -p
	filter *filter.Filter
	groups groups
	end    *ending
	warn   func(text string)

	mu        sync.Mutex
	running   map[int]int     // -p processes by descriptor
	unwatched bool            // the kernel returned no descriptors, so processes are polled
	reported  map[string]bool // containers and pods whose end was reported
}

// open opens a pidfd for each -p process; it becomes readable when the last thread exits
// (Linux 5.3). It returns false if the processes must be polled instead.
func (t *targets) open() (fds []int, ok bool) {
	t.running = map[int]int{}
	for _, pid := range t.pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err == unix.ESRCH {
			t.filter.Ended(pid)
			continue
		}
		if err != nil { // forbidden by a seccomp filter
			t.close()
			t.unwatched = true
			return nil, false
		}
		t.running[fd] = pid
		fds = append(fds, fd)
	}
	if len(t.pids) > 0 && len(fds) == 0 {
		t.endedFirst()
	}
	return fds, true
}

// ended reports whether fd belongs to a -p process, which has then exited. The run ends with
// the last of them.
func (t *targets) ended(fd int) bool {
	t.mu.Lock()
	pid, ok := t.running[fd]
	if ok {
		delete(t.running, fd)
		unix.Close(fd)
	}
	left := len(t.running)
	t.mu.Unlock()
	if !ok {
		return false
	}
	t.filter.Ended(pid)
	if left == 0 {
		t.endedFirst()
	}
	return true
}

// endedFirst is called when the processes of -p or -c have exited. It ends the run. With
// FollowForks it waits until the processes that they started have exited as well.
func (t *targets) endedFirst() {
	if !t.filter.Follows() {
		t.end.stop()
		return
	}
	go func() {
		for {
			pids := t.filter.Running()
			if len(pids) == 0 {
				t.end.stop()
				return
			}
			if t.end.interrupted() {
				return
			}
			awaitProcess(pids[0], watchSleep)
		}
	}()
}

// awaitProcess waits for a process to exit, up to the given timeout.
func awaitProcess(pid int, most time.Duration) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil { // already exited, or forbidden by a seccomp filter
		time.Sleep(shortSleep)
		return
	}
	defer unix.Close(fd)
	unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(most.Milliseconds()))
}

// anyRuns reports whether any -p process or followed process is still running.
func (t *targets) anyRuns() bool {
	return slices.ContainsFunc(t.pids, filter.Alive) || t.filter.Follows() && len(t.filter.Running()) > 0
}

func (t *targets) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for fd := range t.running {
		unix.Close(fd)
	}
	t.running = nil
}

// checkCgroups reports which of the run's cgroups have been removed, and ends the run when none is
// left.
func (t *targets) checkCgroups() {
	gone, all := t.filter.Removed()
	var ended []string // not yet reported
	for _, dir := range gone {
		what, how := t.groups.names[dir], " ended"
		if what == "" {
			what, how = "cgroup "+dir, " was removed"
		}
		whole := true // all cgroups of the container or pod have been removed
		for other, name := range t.groups.names {
			whole = whole && (name != what || slices.Contains(gone, other))
		}
		if whole && !t.reported[what] {
			if t.reported == nil {
				t.reported = map[string]bool{}
			}
			t.reported[what], ended = true, append(ended, what+how)
		}
	}
	switch text := strings.Join(ended, ", "); {
	case t.end.stopped():
	case all:
		t.warn(text + ": nothing is left to trace")
		t.end.stop()
	case len(ended) > 0:
		t.warn(text + ": the run continues with the others")
	}
}
