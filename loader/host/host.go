// SPDX-License-Identifier: Apache-2.0

// Package host detects, before anything is loaded, what the running kernel supports and the host values that programs
// need.
//
// It has no inputs; each fact is looked up on demand.
package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"btc/internal/kernelfs"
	"btc/loader/kerneltypes"
)

// Host holds facts that do not change during a run.
type Host struct {
	Online   []int // CPUs online
	Possible int   // slots in a per-CPU value
	Start    uint64
	PIDNS    kernelfs.Namespace

	types   *btf.Cache
	clocks  sync.Mutex       // guards the fields below
	offsets [4]time.Duration // wall clock minus clock, by number (see Wall)
	read    time.Time        // when offsets were read
	wall    int64            // the wall clock at that time
}

// initPIDNS is the inode of the initial PID namespace (PROC_PID_INIT_INO),
// part of the kernel's ABI.
const initPIDNS = 0xEFFFFFFC

// Probe inspects the host. The error names what is missing in /proc or /sys.
func Probe() (*Host, error) {
	h := &Host{types: btf.NewCache()}
	var err error
	if h.Online, err = kernelfs.OnlineCPUs(); err != nil {
		return nil, notMounted(fmt.Errorf("cannot list CPUs: %w", err), "sysfs", "/sys")
	}
	if h.Possible, err = kernelfs.PossibleCPUs(); err != nil {
		return nil, notMounted(fmt.Errorf("cannot list CPUs: %w", err), "sysfs", "/sys")
	}
	if h.PIDNS, err = pidNamespace(); err != nil {
		return nil, err
	}
	h.readClocks()
	return h, nil
}

// notMounted adds a likely remedy to the error of a missing file.
func notMounted(err error, kind, dir string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: is %s not mounted? mount -t %s %s %s", err, dir, kind, kind, dir)
	}
	return err
}

func pidNamespace() (kernelfs.Namespace, error) {
	fi, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return kernelfs.Namespace{}, notMounted(fmt.Errorf("PID namespace: %w", err), "proc", "/proc")
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || st.Ino == initPIDNS {
		return kernelfs.Namespace{}, nil
	}
	return kernelfs.Namespace{Dev: st.Dev, Ino: st.Ino}, nil
}

// clockIDs are the clocks of nsecs(): boot, monotonic, tai; sw_tai is tai as
// user space computes it.
var clockIDs = [4]int32{unix.CLOCK_BOOTTIME, unix.CLOCK_MONOTONIC, unix.CLOCK_TAI, unix.CLOCK_TAI}

// Types returns the types of the kernel and its modules, decoded on first use.
func (h *Host) Types() *btf.Cache { return h.types }

// readClocks records the distance of the wall clock from the clocks of the programs.
func (h *Host) readClocks() {
	shift := h.namespaceOffsets()
	for i, id := range clockIDs {
		window := time.Duration(math.MaxInt64)
		for range 3 { // the thread may be preempted between two clocks
			var before, after unix.Timespec
			if unix.ClockGettime(id, &before) != nil {
				break
			}
			now := time.Now()
			if unix.ClockGettime(id, &after) != nil {
				break
			}
			if d := time.Duration(after.Nano() - before.Nano()); d < window {
				window = d
				kernel := before.Nano() + int64(d/2) - int64(shift[i])
				h.offsets[i], h.read, h.wall = time.Duration(now.UnixNano()-kernel), now, now.UnixNano()
				if i == 0 && h.Start == 0 {
					h.Start = uint64(kernel)
				}
			}
		}
	}
}

// namespaceOffsets returns the offset of each clock in this process's time namespace (Linux 5.6) from the clock that
// programs read.
func (h *Host) namespaceOffsets() (shift [4]time.Duration) {
	own, err1 := os.Readlink("/proc/self/ns/time")
	shown, err2 := os.Readlink("/proc/self/ns/time_for_children") // the namespace whose offsets the file contains
	b, err3 := os.ReadFile("/proc/self/timens_offsets")
	if err1 != nil || err2 != nil || err3 != nil || own != shown {
		return shift
	}
	return parseOffsets(string(b))
}

// parseOffsets parses lines with a clock's name or number, seconds and nanoseconds.
func parseOffsets(text string) (shift [4]time.Duration) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		sec, err1 := strconv.ParseInt(f[1], 10, 64)
		nsec, err2 := strconv.ParseInt(f[2], 10, 64)
		if err1 != nil || err2 != nil {
			continue
		}
		offset := time.Duration(sec)*time.Second + time.Duration(nsec)
		switch f[0] {
		case "boottime", "7":
			shift[0] = offset
		case "monotonic", "1":
			shift[1] = offset
		}
	}
	return shift
}

// clockStep is the minimum change of the wall clock relative to the others that counts as a clock adjustment.
const clockStep = time.Millisecond

// Wall converts a clock's reading in ns to wall-clock time, according to the current setting of the wall clock. Clock
// numbers: 0 boot, 1 monotonic, 2 tai, 3 sw_tai.
func (h *Host) Wall(ns uint64, clock int) time.Time {
	h.clocks.Lock()
	defer h.clocks.Unlock()
	now := time.Now()
	if step := time.Duration(now.UnixNano()-h.wall) - now.Sub(h.read); step.Abs() >= clockStep {
		h.readClocks()
	}
	return time.Unix(0, int64(ns)+int64(h.offsets[clock&3]))
}

// SoftTAI returns the offset of the clock TAI from the boot clock in ns: nsecs(sw_tai) adds it, and nsecs(tai) before
// 6.1.
func (h *Host) SoftTAI() uint64 { return uint64(h.offsets[0] - h.offsets[2]) }

// KprobeMulti reports whether one link can probe many kernel functions (5.18 with
// CONFIG_FPROBE).
func (h *Host) KprobeMulti() bool { return features.HaveBPFLinkKprobeMulti() == nil }

// KprobeSession reports whether such a link can run one program at the entry and at the return of its functions
// (6.10) without losing entries: before 6.14 struct fprobe has a rethook, a pool of two nodes for each CPU and
// function, and calls that find it empty are missed (fprobe_handler of kernel/trace/fprobe.c).
func (h *Host) KprobeSession() bool {
	if features.HaveBPFLinkKprobeSession() != nil {
		return false
	}
	blob, _, err := kerneltypes.Subset(kerneltypes.Path, []string{"fprobe"})
	if err != nil {
		return false
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(blob))
	if err != nil {
		return false
	}
	var fprobe *btf.Struct
	return spec.TypeByName("fprobe", &fprobe) == nil &&
		!slices.ContainsFunc(fprobe.Members, func(m btf.Member) bool { return m.Name == "rethook" })
}

// UprobeMulti reports whether one link can probe many user functions (6.6).
func (h *Host) UprobeMulti() bool { return features.HaveBPFLinkUprobeMulti() == nil }

// GuardsRawTracepoints reports whether the kernel prevents recursion of a raw tracepoint's program on a CPU
// (bpf_prog.active, Linux 6.1). Before, a program on the page fault tracepoint whose own reads fault would recurse
// endlessly. The kernel does not report this directly, so a helper of the same version is probed, which distributions
// backport together with it.
func (h *Host) GuardsRawTracepoints() bool {
	return features.HaveProgramHelper(ebpf.Kprobe, asm.FnUserRingbufDrain) == nil
}

// MemoryBytes returns the machine's memory in bytes, 0 if unknown.
func MemoryBytes() uint64 {
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) != nil {
		return 0
	}
	return uint64(si.Totalram) * uint64(si.Unit)
}
