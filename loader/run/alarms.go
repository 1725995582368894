// SPDX-License-Identifier: Apache-2.0

package run

import (
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"btc/loader/attach"
	"btc/loader/filter"
)

// alarms watches descriptors other than the event buffer: the exit of the -p processes, and kernel
// buffers that fill up. It uses one sleeping thread and does not poll.
type alarms struct {
	epoll, quit int
	ended       sync.WaitGroup
}

// openAlarms starts watching. Each time a descriptor becomes readable, act is called from another
// goroutine.
func openAlarms(fds []int, act func(fd int)) (*alarms, error) {
	a := &alarms{epoll: -1, quit: -1}
	if err := a.open(fds); err != nil {
		a.closeFDs()
		return nil, err
	}
	a.ended.Go(func() {
		var events [16]unix.EpollEvent
		for {
			n, err := unix.EpollWait(a.epoll, events[:], -1)
			if err != nil && err != unix.EINTR {
				return
			}
			for _, e := range events[:max(n, 0)] {
				if int(e.Fd) == a.quit {
					return
				}
				act(int(e.Fd))
			}
		}
	})
	return a, nil
}

func (a *alarms) open(fds []int) (err error) {
	if a.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create", err)
	}
	if a.quit, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	for _, fd := range append([]int{a.quit}, fds...) {
		// Edge-triggered, because the descriptor of an exited process stays readable.
		e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)}
		if err := unix.EpollCtl(a.epoll, unix.EPOLL_CTL_ADD, fd, &e); err != nil {
			return os.NewSyscallError("epoll_ctl", err)
		}
	}
	return nil
}

// close stops watching. act is not called after close returns.
func (a *alarms) close() {
	if a == nil {
		return
	}
	unix.Write(a.quit, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	a.ended.Wait()
	a.closeFDs()
}

func (a *alarms) closeFDs() {
	for _, fd := range []int{a.epoll, a.quit} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// setAlarms ends the run when the -p processes exit, and reads the recorded process mappings before
// the kernel's buffer overflows.
func (s *session) setAlarms() {
	fds, ok := s.openTargets()
	if !ok {
		return
	}
	if s.symTable != nil {
		fds = append(fds, s.symTable.Watch.FDs()...)
	}
	s.hotplug = attach.NewHotplug(s.links, s.host.Online)
	fds = append(fds, s.hotplug.FDs()...)
	if len(fds) == 0 {
		return
	}
	var err error
	s.alarms, err = openAlarms(fds, func(fd int) {
		if !s.targetEnded(fd) {
			s.events.wake()
		}
	})
	if err != nil {
		s.closeAlarms()
	}
}

func (s *session) closeAlarms() {
	s.alarms.close()
	s.targets.close()
	s.hotplug.Close()
	s.alarms, s.hotplug = nil, nil
}

// targets are the running -p processes.
type targets struct {
	mu        sync.Mutex
	pids      map[int]int // keyed by descriptor
	unwatched bool        // the kernel returned no descriptors, so processes are polled
}

// openTargets opens a pidfd for each -p process; it becomes readable when the last thread exits
// (Linux 5.3). It returns false if the processes must be polled instead.
func (s *session) openTargets() (fds []int, ok bool) {
	s.targets.pids = map[int]int{}
	for _, pid := range s.opts.PIDs {
		fd, err := unix.PidfdOpen(pid, 0)
		if err == unix.ESRCH {
			s.filter.Ended(pid)
			continue
		}
		if err != nil { // forbidden by a seccomp filter
			s.targets.close()
			s.targets.unwatched = true
			return nil, false
		}
		s.targets.pids[fd] = pid
		fds = append(fds, fd)
	}
	if len(s.opts.PIDs) > 0 && len(fds) == 0 {
		s.endedFirst()
	}
	return fds, true
}

// targetEnded reports whether fd belongs to a -p process, which has then exited. The run ends with
// the last of them.
func (s *session) targetEnded(fd int) bool {
	t := &s.targets
	t.mu.Lock()
	pid, ok := t.pids[fd]
	if ok {
		delete(t.pids, fd)
		unix.Close(fd)
	}
	left := len(t.pids)
	t.mu.Unlock()
	if !ok {
		return false
	}
	s.filter.Ended(pid)
	if left == 0 {
		s.endedFirst()
	}
	return true
}

// endedFirst is called when the processes of -p or -c have exited. It ends the run. With
// FollowForks it waits until the processes that they started have exited as well.
func (s *session) endedFirst() {
	if !s.filter.Follows() {
		s.stop()
		return
	}
	go func() {
		for {
			pids := s.filter.Running()
			if len(pids) == 0 {
				s.stop()
				return
			}
			if s.interrupted() {
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

// targetsRun reports whether any -p process or followed process is still running.
func (s *session) targetsRun() bool {
	return slices.ContainsFunc(s.opts.PIDs, filter.Alive) || s.filter.Follows() && len(s.filter.Running()) > 0
}

func (t *targets) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for fd := range t.pids {
		unix.Close(fd)
	}
	t.pids = nil
}

// checkCgroups reports which of the run's cgroups have been removed, and ends the run when none is
// left.
func (s *session) checkCgroups() {
	gone, all := s.filter.Removed()
	var ended []string // not yet reported
	for _, dir := range gone {
		what, how := s.groupNames[dir], " ended"
		if what == "" {
			what, how = "cgroup "+dir, " was removed"
		}
		whole := true // all cgroups of the container or pod have been removed
		for other, name := range s.groupNames {
			whole = whole && (name != what || slices.Contains(gone, other))
		}
		if whole && !s.ended[what] {
			if s.ended == nil {
				s.ended = map[string]bool{}
			}
			s.ended[what], ended = true, append(ended, what+how)
		}
	}
	switch text := strings.Join(ended, ", "); {
	case s.stopped():
	case all:
		s.warn(text + ": nothing is left to trace")
		s.stop()
	case len(ended) > 0:
		s.warn(text + ": the run continues with the others")
	}
}
