// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"btc/internal/kernelfs"
	"btc/loader/host"
	"btc/loader/resolve"
)

func attachTracepoint(_ *resolve.Plan, m *resolve.Match, prog *ebpf.Program, _ Options,
	h *host.Host) (io.Closer, error) {
	l, err := linkTracepoint(m.Group, m.Name, prog, h.Online[0])
	if errors.Is(err, unix.EINVAL) {
		return nil, fmt.Errorf("not a tracepoint of the kernel, but a dynamic event (kprobe_events, uprobe_events, synthetic_events): %w",
			err)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// eventLink is a program that is linked to the perf event of a tracepoint or uprobe. The library's own type requires
// a mounted tracefs, and reads the file of a uprobe.
type eventLink struct {
	*link.RawLink
	event int
}

// PerfEvent implements link.PerfEvent.
func (l *eventLink) PerfEvent() (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(l.event), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "perf-event"), nil
}

func (l *eventLink) Close() error {
	return errors.Join(l.RawLink.Close(), unix.Close(l.event))
}

// linkTracepoint opens the perf event of a tracepoint and attaches prog to it: by a link (5.15), or by the ioctl on
// older kernels.
func linkTracepoint(group, name string, prog *ebpf.Program, cpu int) (io.Closer, error) {
	id, err := kernelfs.TracepointID(group, name)
	if err != nil {
		return nil, err
	}
	// One event, on an online CPU, is enough: programs of a tracepoint run on all CPUs.
	attr := &unix.PerfEventAttr{
		Type: unix.PERF_TYPE_TRACEPOINT, Size: unix.PERF_ATTR_SIZE_VER5, Config: uint64(id),
		Sample_type: unix.PERF_SAMPLE_RAW, Sample: 1, Wakeup: 1,
	}
	return linkEvent(attr, -1, cpu, prog)
}

// linkEvent opens the perf event of a tracepoint or uprobe and attaches prog to it.
func linkEvent(attr *unix.PerfEventAttr, pid, cpu int, prog *ebpf.Program) (io.Closer, error) {
	fd, err := unix.PerfEventOpen(attr, pid, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, whyNoEvent(attr, err)
	}
	l, err := link.AttachRawLink(link.RawLinkOptions{Target: fd, Program: prog, Attach: ebpf.AttachPerfEvent})
	if err == nil {
		return &eventLink{l, fd}, nil
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, prog.FD()); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("attaching to a perf event: %w", err)
	}
	return fds{fd}, nil
}

func attachRawTracepoint(_ *resolve.Plan, m *resolve.Match, prog *ebpf.Program, o Options,
	h *host.Host) (io.Closer, error) {
	if prog.Type() == ebpf.Tracing {
		return attachTracing(nil, m, prog, o, h)
	}
	return linkRaw(m.Name, prog)
}

// linkRaw links a program to a raw tracepoint.
func linkRaw(name string, prog *ebpf.Program) (io.Closer, error) {
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: name, Program: prog})
	if err != nil {
		return nil, err
	}
	return l, nil
}
