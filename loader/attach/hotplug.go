// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"btc/internal/kernelfs"
)

// perCPU is an event on each CPU, or on the first one. An event ends when its CPU goes offline: a CPU that comes
// online needs a new one.
type perCPU struct {
	open  func(cpu int) (fd int, err error)
	first bool // one event, on the first CPU

	mu     sync.Mutex
	fds    map[int]int // by CPU
	closed bool
}

// openPerCPU opens the events of the CPUs that are online.
func openPerCPU(online []int, first bool, open func(cpu int) (int, error)) (io.Closer, error) {
	p := &perCPU{open: open, first: first, fds: map[int]int{}}
	if err := p.follow(online, nil); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// follow opens missing events and closes those of CPUs that went offline; lost are CPUs that did so but may be back.
func (p *perCPU) follow(online, lost []int) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	if p.first {
		online = online[:min(1, len(online))]
	}
	for cpu, fd := range p.fds {
		if slices.Contains(lost, cpu) || !slices.Contains(online, cpu) {
			unix.Close(fd)
			delete(p.fds, cpu)
		}
	}
	for _, cpu := range online {
		if _, ok := p.fds[cpu]; ok {
			continue
		}
		fd, e := p.open(cpu)
		switch {
		case e == nil:
			p.fds[cpu] = fd
		case errors.Is(e, unix.ENODEV) && !p.first: // went offline
		case err == nil:
			err = e
		}
	}
	return err
}

// Close closes the events.
func (p *perCPU) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, fd := range p.fds {
		unix.Close(fd)
	}
	p.fds, p.closed = nil, true
	return nil
}

// Hotplug makes the events of links follow CPU hotplug.
type Hotplug struct {
	links  []*perCPU
	online []int
	sock   int // the kernel's messages about devices; -1: none
}

// NewHotplug returns a Hotplug for links of this package; nil if none of them has an event on each CPU. online are
// the CPUs for which the events were opened.
func NewHotplug(links []io.Closer, online []int) *Hotplug {
	h := &Hotplug{online: online, sock: -1}
	for _, l := range links {
		if p, ok := l.(*perCPU); ok {
			h.links = append(h.links, p)
		}
	}
	if len(h.links) == 0 {
		return nil
	}
	// Without the messages, a CPU that is offline only between two checks would go unnoticed.
	kind := unix.SOCK_RAW | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	if sock, err := unix.Socket(unix.AF_NETLINK, kind, unix.NETLINK_KOBJECT_UEVENT); err == nil {
		// Not unix.Bind, which links the code for all address families.
		addr := unix.RawSockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}
		at := uintptr(unsafe.Pointer(&addr))
		if _, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(sock), at, unix.SizeofSockaddrNetlink); errno == 0 {
			h.sock = sock
		} else {
			unix.Close(sock)
		}
	}
	return h
}

// FDs returns the descriptors that become readable when a CPU goes online or offline.
func (h *Hotplug) FDs() []int {
	if h == nil || h.sock < 0 {
		return nil
	}
	return []int{h.sock}
}

// EachCPU reports whether one of these links has an event on each CPU, not only on the first one.
func EachCPU(links []io.Closer) bool {
	return slices.ContainsFunc(links, func(l io.Closer) bool {
		p, ok := l.(*perCPU)
		return ok && !p.first
	})
}

// Check updates the events. It returns an error if a CPU is left without one.
func (h *Hotplug) Check() error {
	if h == nil {
		return nil
	}
	lost := h.lost()
	online, err := kernelfs.OnlineCPUs()
	if err != nil || len(lost) == 0 && slices.Equal(online, h.online) {
		return nil
	}
	h.online = online
	for _, l := range h.links {
		if e := l.follow(online, lost); e != nil && err == nil {
			err = fmt.Errorf("no events on a CPU that came online: %w", e)
		}
	}
	return err
}

// lost reads the pending messages and returns the CPUs that went offline.
func (h *Hotplug) lost() (cpus []int) {
	if h.sock < 0 {
		return nil
	}
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(h.sock, buf)
		// ENOBUFS: messages were lost because the socket's buffer was full (netlink(7)); the next one is read.
		if err == unix.ENOBUFS || err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return cpus
		}
		if cpu, ok := offlineCPU(buf[:n]); ok {
			cpus = append(cpus, cpu)
		}
	}
}

// offlineCPU reads a message "offline@/devices/system/cpu/cpu1", NUL, more.
func offlineCPU(message []byte) (cpu int, ok bool) {
	head, _, _ := bytes.Cut(message, []byte{0})
	number, ok := bytes.CutPrefix(head, []byte("offline@/devices/system/cpu/cpu"))
	cpu, err := strconv.Atoi(string(number))
	return cpu, ok && err == nil
}

// Close stops watching; it does not close the links.
func (h *Hotplug) Close() {
	if h != nil && h.sock >= 0 {
		unix.Close(h.sock)
		h.sock = -1
	}
}
