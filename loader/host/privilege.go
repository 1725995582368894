// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNoBPF is the error if no program can be loaded at all; Text is a message for the user.
type ErrNoBPF struct{ Text string }

func (e *ErrNoBPF) Error() string { return e.Text }

// capabilities are the capabilities that tracing may need (include/uapi/linux/capability.h).
var capabilities = []struct {
	name string
	bit  uint
}{
	{"CAP_BPF", unix.CAP_BPF}, {"CAP_PERFMON", unix.CAP_PERFMON}, {"CAP_SYS_ADMIN", unix.CAP_SYS_ADMIN},
	{"CAP_SYSLOG", unix.CAP_SYSLOG}, {"CAP_DAC_READ_SEARCH", unix.CAP_DAC_READ_SEARCH}, {"CAP_SYS_PTRACE", unix.CAP_SYS_PTRACE},
}

// Missing returns the named capabilities that this process lacks. CAP_SYS_ADMIN includes CAP_BPF
// and CAP_PERFMON (5.8).
func Missing(names ...string) []string {
	caps, err := effectiveCaps()
	if err != nil {
		return nil // the kernel will report it
	}
	return missing(caps, names)
}

func missing(caps uint64, names []string) []string {
	admin := caps&(1<<unix.CAP_SYS_ADMIN) != 0
	var out []string
	for _, c := range capabilities {
		has := caps&(1<<c.bit) != 0 || admin && (c.bit == unix.CAP_BPF || c.bit == unix.CAP_PERFMON)
		if slices.Contains(names, c.name) && !has {
			out = append(out, c.name)
		}
	}
	return out
}

// CheckPrivileges reports in one early message what would make every load fail: missing
// capabilities, a kernel without bpf(2), or BPF disabled by lockdown.
func CheckPrivileges() error {
	if m := Missing("CAP_BPF", "CAP_PERFMON"); len(m) > 0 {
		noun := "capability"
		if len(m) > 1 {
			noun = "capabilities"
		}
		return &ErrNoBPF{
			fmt.Sprintf("Missing %s %s: run as root, or grant the program: setcap cap_bpf,cap_perfmon=ep",
				strings.Join(m, " and "), noun),
		}
	}
	if mode := Lockdown(); mode == "confidentiality" {
		return &ErrNoBPF{
			"kernel lockdown is in mode confidentiality: it forbids BPF programs to read kernel memory; boot with lockdown=integrity or none",
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_BPF, ^uintptr(0), 0, 0); errno == unix.ENOSYS {
		if HasSeccomp() {
			return &ErrNoBPF{"this process has no bpf(2) (ENOSYS): " + mayFilter}
		}
		return &ErrNoBPF{"this kernel has no BPF (CONFIG_BPF_SYSCALL)"}
	}
	return nil
}

// Lockdown returns the kernel's lockdown mode: none, integrity, confidentiality, or
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
	hex, err := statusLine("CapEff:")
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(hex, 16, 64)
}

// statusLine returns the value of a line of /proc/self/status.
func statusLine(name string) (string, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", errors.New("no " + name + " line in /proc/self/status")
}

// Reason describes the probable cause of EPERM or EACCES: missing ones of the named capabilities, or a policy.
func Reason(names ...string) string {
	if m := Missing(names...); len(m) > 0 {
		return "it needs " + strings.Join(m, " and ")
	}
	switch Lockdown() {
	case "confidentiality":
		return "kernel lockdown (confidentiality) forbids programs that read kernel memory"
	case "integrity":
		return "kernel lockdown (integrity) forbids some kinds of programs, such as those that write user memory or override functions"
	}
	if HasSeccomp() {
		return mayFilter
	}
	return "the kernel's security policy (capabilities, lockdown, LSM, container seccomp) forbids it"
}

const mayFilter = "a seccomp filter, such as the default one of containers, may forbid it: permit bpf and perf_event_open"

// Hint describes the probable cause of an error of a system call for BPF or perf events, "" if it is not about the host;
// names are the capabilities that the call needs.
func Hint(err error, names ...string) string {
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return Reason(names...)
	case errors.Is(err, unix.ENOSYS) && HasSeccomp():
		return mayFilter
	case errors.Is(err, unix.ENOMEM):
		return "the memory limit of its cgroup (memory.max, MemoryMax= of a unit) counts maps and programs, too"
	}
	return ""
}

// HasSeccomp reports whether a filter of system calls is in force, which processes inherit.
func HasSeccomp() bool {
	mode, err := statusLine("Seccomp:")
	return err == nil && mode == "2" // SECCOMP_MODE_FILTER
}
