// SPDX-License-Identifier: Apache-2.0

package run

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"btc/loader/attach"
)

// alarms waits for descriptors besides the events: the process of -p that ends, buffers
// of the kernel that fill. It costs a thread that sleeps, and no look at them in between.
type alarms struct {
	epoll, quit int
	ended       sync.WaitGroup
}

// openAlarms calls act, from another goroutine, when one of the descriptors is readable:
// once per edge.
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
		// Edge-triggered: a process that has ended stays readable.
		e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)}
		if err := unix.EpollCtl(a.epoll, unix.EPOLL_CTL_ADD, fd, &e); err != nil {
			return os.NewSyscallError("epoll_ctl", err)
		}
	}
	return nil
}

// close ends the waiting; act is not called any more when it returns.
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

// setAlarms makes the end of the process of -p end the run, and lets the watch's records of
// process mappings be read before they are lost.
func (s *session) setAlarms() {
	var fds []int
	if s.opts.PID != 0 {
		// Readable when its last thread has ended (5.3).
		fd, err := unix.PidfdOpen(s.opts.PID, 0)
		if err == unix.ESRCH {
			s.stop()
			return
		}
		if err != nil { // a filter of system calls
			return
		}
		s.target = os.NewFile(uintptr(fd), "pidfd")
		fds = append(fds, fd)
	}
	if s.symTable != nil {
		fds = append(fds, s.symTable.Watch.FDs()...)
	}
	s.hotplug = attach.NewHotplug(s.links, s.host.Online)
	fds = append(fds, s.hotplug.FDs()...)
	if len(fds) == 0 {
		return
	}
	pidfd := -1
	if s.opts.PID != 0 {
		pidfd = fds[0]
	}
	var err error
	s.alarms, err = openAlarms(fds, func(fd int) {
		if fd == pidfd {
			s.stop()
		} else {
			s.events.wake()
		}
	})
	if err != nil {
		s.closeAlarms()
	}
}

func (s *session) closeAlarms() {
	s.alarms.close()
	s.target.Close()
	s.hotplug.Close()
	s.alarms, s.target, s.hotplug = nil, nil, nil
}
