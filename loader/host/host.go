// Package host finds out, before anything is loaded, what the running kernel
// can do and what the loader must tell the programs of it.
//
// It takes nothing and gives facts; each is looked up when first asked for.
package host

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"btc/loader/hostinfo"
)

// Host holds what does not change during a run.
type Host struct {
	Online   []int // CPUs online
	Possible int   // slots in a per-CPU value
	Start    uint64
	PIDNS    Namespace

	types   *btf.Cache
	offsets [4]time.Duration // wall clock minus clock, by number (see Clock)
}

// Namespace identifies a PID namespace; zero for the initial one.
type Namespace struct{ Dev, Ino uint64 }

// initPIDNS is the inode of the initial PID namespace (PROC_PID_INIT_INO),
// part of the kernel's ABI.
const initPIDNS = 0xEFFFFFFC

// Look asks the host. The error says what is missing in /proc or /sys.
func Look() (*Host, error) {
	h := &Host{types: btf.NewCache()}
	var err error
	if h.Online, err = hostinfo.OnlineCPUs(); err != nil {
		return nil, fmt.Errorf("list of CPUs: %w", err)
	}
	if h.Possible, err = hostinfo.PossibleCPUs(); err != nil {
		return nil, fmt.Errorf("list of CPUs: %w", err)
	}
	if h.PIDNS, err = pidNamespace(); err != nil {
		return nil, err
	}
	h.readClocks()
	return h, nil
}

func pidNamespace() (Namespace, error) {
	fi, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return Namespace{}, fmt.Errorf("PID namespace: %w", err)
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || st.Ino == initPIDNS {
		return Namespace{}, nil
	}
	return Namespace{st.Dev, st.Ino}, nil
}

// clockIDs are the clocks of nsecs(): boot, monotonic, tai; sw_tai is tai as
// user space computes it.
var clockIDs = [4]int32{unix.CLOCK_BOOTTIME, unix.CLOCK_MONOTONIC, unix.CLOCK_TAI, unix.CLOCK_TAI}

// Types are the types of the kernel and its modules, decoded when first asked for.
func (h *Host) Types() *btf.Cache { return h.types }

func (h *Host) readClocks() {
	for i, id := range clockIDs {
		now := time.Now()
		var ts unix.Timespec
		if unix.ClockGettime(id, &ts) != nil {
			continue
		}
		h.offsets[i] = time.Duration(now.UnixNano() - ts.Nano())
		if i == 0 {
			h.Start = uint64(ts.Nano())
		}
	}
}

// Wall is the wall-clock time at a clock's reading in ns, by the offset at start.
// Clock numbers: 0 boot, 1 monotonic, 2 tai, 3 sw_tai.
func (h *Host) Wall(ns uint64, clock int) time.Time {
	return time.Unix(0, int64(ns)+int64(h.offsets[clock&3]))
}

// KprobeMulti tells whether one link can probe many kernel functions (5.18 with
// CONFIG_FPROBE).
func (h *Host) KprobeMulti() bool { return features.HaveBPFLinkKprobeMulti() == nil }

// UprobeMulti tells whether one link can probe many user functions (6.6).
func (h *Host) UprobeMulti() bool { return features.HaveBPFLinkUprobeMulti() == nil }

// MemoryBytes is the machine's memory, 0 when unknown.
func (h *Host) MemoryBytes() uint64 {
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) != nil {
		return 0
	}
	return uint64(si.Totalram) * uint64(si.Unit)
}

// ErrNoBPF is why no program can be loaded at all, in words for the user.
type ErrNoBPF struct{ Text string }

func (e *ErrNoBPF) Error() string { return e.Text }

// CheckPrivileges tells early, in one message, what would make every load fail:
// missing capabilities or BPF switched off by kernel lockdown.
func CheckPrivileges() error {
	caps, err := effectiveCaps()
	if err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	admin := caps&(1<<unix.CAP_SYS_ADMIN) != 0
	for _, c := range []struct {
		bit  uint
		name string
	}{{unix.CAP_BPF, "CAP_BPF"}, {unix.CAP_PERFMON, "CAP_PERFMON"}} {
		if !admin && caps&(1<<c.bit) == 0 {
			return &ErrNoBPF{fmt.Sprintf("Missing %s capability: run as root", c.name)}
		}
	}
	if mode := Lockdown(); mode == "confidentiality" {
		return &ErrNoBPF{"kernel lockdown is in mode confidentiality: it forbids BPF programs to read kernel memory; boot with lockdown=integrity or none"}
	}
	return nil
}

// Lockdown is the kernel's lockdown mode: none, integrity, confidentiality, or
// "" where it cannot be read.
func Lockdown() string {
	b, err := os.ReadFile("/sys/kernel/security/lockdown")
	if err != nil {
		return ""
	}
	_, mode, ok := strings.Cut(string(b), "[")
	mode, _, closed := strings.Cut(mode, "]")
	if !ok || !closed {
		return ""
	}
	return mode
}

func effectiveCaps() (uint64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			return strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
		}
	}
	return 0, errors.New("no CapEff line in /proc/self/status")
}

// WhyNot is a guess in words why the kernel said EPERM to a privileged user.
func WhyNot() string {
	switch Lockdown() {
	case "confidentiality":
		return "kernel lockdown (confidentiality) forbids programs that read kernel memory"
	case "integrity":
		return "kernel lockdown (integrity) forbids some kinds of programs, such as those that write user memory or override functions"
	}
	return "the kernel's security policy (capabilities, lockdown, LSM, container seccomp) forbids it"
}
