// SPDX-License-Identifier: Apache-2.0

package run

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"btc/loader/attach"
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

// monitor watches everything but events: the targets, the kernel's records of mappings, and CPUs that come online.
type monitor struct {
	targets *targets
	alarms  *alarms         // nil: the targets are polled ten times a second
	hotplug *attach.Hotplug // nil: no probe is per CPU
	next    time.Time       // when check looks again
}

// start ends the run when the -p processes exit, and calls wake before a buffer of the kernel overflows (the descriptors
// in buffers), and when a CPU comes online.
func (m *monitor) start(l *links, online, buffers []int, wake func()) {
	fds, ok := m.targets.open()
	if !ok {
		return
	}
	m.hotplug = attach.NewHotplug(l.all, online)
	fds = append(append(fds, buffers...), m.hotplug.FDs()...)
	if len(fds) == 0 {
		return
	}
	var err error
	m.alarms, err = openAlarms(fds, func(fd int) {
		if !m.targets.ended(fd) {
			wake()
		}
	})
	if err != nil {
		m.close()
	}
}

// hotplugInterval is how often the run checks for CPUs that came online or went offline, and for
// removed cgroups.
const hotplugInterval = time.Second

// check follows CPUs and cgroups.
func (m *monitor) check(now time.Time) error {
	if !now.After(m.next) {
		return nil
	}
	m.next = now.Add(hotplugInterval)
	m.targets.checkCgroups()
	return m.hotplug.Check()
}

func (m *monitor) close() {
	m.alarms.close()
	m.targets.close()
	m.hotplug.Close()
	m.alarms, m.hotplug = nil, nil
}
