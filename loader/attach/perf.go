// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/internal/safefile"
	"btc/loader/host"
	"btc/loader/resolve"
)

// fds closes several descriptors; closing a perf event detaches its program.
type fds []int

func (f fds) Close() error {
	for _, fd := range f {
		unix.Close(fd)
	}
	return nil
}

// openPerf opens a perf event and attaches prog to it, with the ioctl of kernels since 4.7 (perf links need 5.15).
func openPerf(attr *unix.PerfEventAttr, pid, cpu int, prog *ebpf.Program) (int, error) {
	attr.Bits |= unix.PerfBitDisabled
	fd, err := unix.PerfEventOpen(attr, pid, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return -1, whyNoEvent(attr, err)
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, prog.FD()); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("attaching to a perf event: %w", err)
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("enabling a perf event: %w", err)
	}
	return fd, nil
}

// whyNoEvent adds the likely reason to the kernel's error.
func whyNoEvent(attr *unix.PerfEventAttr, err error) error {
	const limit = "/proc/sys/kernel/perf_event_max_sample_rate"
	b, _ := os.ReadFile(limit) // 0 if it cannot be read
	most, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	// perf_event_open in kernel/events/core.c compares the frequency with the sysctl, and returns EINVAL for much else.
	if errors.Is(err, unix.EINVAL) && attr.Bits&unix.PerfBitFreq != 0 && most > 0 && attr.Sample > most {
		return fmt.Errorf("this kernel allows at most %d samples per second (sysctl kernel.perf_event_max_sample_rate, which the kernel lowers when sampling takes too long): perf_event_open: %w",
			most, err)
	}
	return fmt.Errorf("perf_event_open: %w", err)
}

// opener returns a function that opens an event for all processes on a CPU.
func opener(attr *unix.PerfEventAttr, prog *ebpf.Program) func(cpu int) (int, error) {
	return func(cpu int) (int, error) {
		a := *attr
		return openPerf(&a, -1, cpu, prog)
	}
}

// inheritThread is the bit of perf_event_attr that limits the heirs of an event to threads (5.13).
const inheritThread = 1 << 35

// openAll opens an event on each CPU, or with a PID for each of its threads, and for those that they start.
func openAll(attr *unix.PerfEventAttr, prog *ebpf.Program, o Options, h *host.Host) (io.Closer, error) {
	if o.pid == 0 {
		return openPerCPU(h.Online, false, opener(attr, prog))
	}
	var all fds
	tasks, err := safefile.Entries(fmt.Sprintf("/proc/%d/task", o.pid))
	if err != nil {
		return nil, err
	}
	for _, t := range tasks {
		tid, _ := strconv.Atoi(t.Name())
		a := *attr
		a.Bits |= unix.PerfBitInherit
		if attr.Bits&unix.PerfBitInherit == 0 {
			a.Bits |= inheritThread
		}
		fd, err := openPerf(&a, tid, -1, prog)
		// Kernels before 5.13 refuse the bit as a reserved one (perf_copy_attr). Without it the event also fires in child
		// processes, which the program leaves out.
		if errors.Is(err, unix.EINVAL) && a.Bits&inheritThread != 0 {
			a.Bits &^= inheritThread
			fd, err = openPerf(&a, tid, -1, prog)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: the thread has ended since the list was read
			all.Close()
			return nil, err
		}
		if err == nil {
			all = append(all, fd)
		}
	}
	return all, nil
}

// clock returns a cpu-clock event with a rate in hz or a period in time.
func clock(a *manifest.Attach) *unix.PerfEventAttr {
	attr := &unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_SOFTWARE,
		Size:   unix.PERF_ATTR_SIZE_VER5,
		Config: unix.PERF_COUNT_SW_CPU_CLOCK,
	}
	if ns, ok := probe.Nanoseconds(a.Unit, a.Count); ok {
		attr.Sample = ns
		return attr
	}
	attr.Sample = a.Count
	attr.Bits |= unix.PerfBitFreq
	return attr
}

func attachProfile(p *resolve.Plan, _ *resolve.Match, prog *ebpf.Program, o Options, h *host.Host) (io.Closer, error) {
	return openAll(clock(&p.Prog.Attach), prog, o, h)
}

// attachInterval attaches a timer that fires on the first CPU, regardless of -p.
func attachInterval(p *resolve.Plan, _ *resolve.Match, prog *ebpf.Program, _ Options, h *host.Host) (io.Closer, error) {
	return openPerCPU(h.Online, true, opener(clock(&p.Prog.Attach), prog))
}

// eventType returns the type of the perf events that probes of a kind count.
func eventType(kind string) uint32 {
	if kind == probe.Hardware {
		return unix.PERF_TYPE_HARDWARE
	}
	return unix.PERF_TYPE_SOFTWARE
}

func attachCounter(p *resolve.Plan, _ *resolve.Match, prog *ebpf.Program, o Options, h *host.Host) (io.Closer, error) {
	a := &p.Prog.Attach
	attr := &unix.PerfEventAttr{Type: eventType(p.Prog.Kind), Size: unix.PERF_ATTR_SIZE_VER5}
	e, ok := probe.FindEvent(p.Prog.Kind, resolve.EventName(a))
	if !ok {
		return nil, errors.New("unknown event")
	}
	attr.Config, attr.Sample = e.Config, e.Period
	if a.Count > 0 {
		attr.Sample = a.Count
	}
	l, err := openAll(attr, prog, o, h)
	if errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("this machine has no counter %s (virtual machines often have no counters): %w",
			resolve.EventName(a), err)
	}
	return l, err
}

// Breakpoint kinds of perf_event_open (linux/hw_breakpoint.h).
const (
	breakRead  = 1
	breakWrite = 2
	breakExec  = 4
)

// kernelHalf is the lowest address of the kernel, on all architectures.
const kernelHalf = 1 << 63

// attachWatchpoint watches a kernel address on all CPUs, a user address in one
// process: the one given with -p, or the child of -c and the processes that it starts.
func attachWatchpoint(p *resolve.Plan, _ *resolve.Match, prog *ebpf.Program, o Options,
	h *host.Host) (io.Closer, error) {
	a := &p.Prog.Attach
	attr := &unix.PerfEventAttr{Type: unix.PERF_TYPE_BREAKPOINT, Size: unix.PERF_ATTR_SIZE_VER5, Sample: 1}
	attr.Ext1, attr.Ext2 = a.Addr, uint64(a.Len)
	for _, k := range []struct {
		letter string
		bit    uint32
	}{{"r", breakRead}, {"w", breakWrite}, {"x", breakExec}} {
		if strings.Contains(a.Mode, k.letter) {
			attr.Bp_type |= k.bit
		}
	}
	if attr.Bp_type == breakExec {
		attr.Ext2 = 8 // the kernel requires sizeof(long) for execution
	}
	if a.Addr < kernelHalf && o.pid == 0 {
		if o.Follow && len(o.PIDs) > 0 {
			return nil, fmt.Errorf("--follow-forks with -p cannot watch the user address %#x: use -c, or -p alone",
				a.Addr)
		}
		if o.Child == 0 {
			return nil, fmt.Errorf("-p PID or -c COMMAND is needed to watch the user address %#x", a.Addr)
		}
		o.pid = o.Child
		attr.Bits |= unix.PerfBitInherit
	}
	l, err := openAll(attr, prog, o, h)
	if errors.Is(err, unix.EINVAL) {
		return nil, fmt.Errorf("the processor cannot watch %d bytes at %#x with mode %q: %w", a.Len, a.Addr, a.Mode,
			err)
	}
	return l, err
}
