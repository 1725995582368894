// SPDX-License-Identifier: Apache-2.0

package run

import (
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/loader/attach"
)

// keptCapabilities are those that a run may still need after it has attached, and under which
// conditions. All others are dropped then. docs/security.md has the same table.
var keptCapabilities = []struct {
	capability int
	needed     func(*session) bool
}{
	// Maps, iterators and end programs, if kernel.unprivileged_bpf_disabled is set.
	{unix.CAP_BPF, always},
	// Perf events of CPUs that come online.
	{unix.CAP_PERFMON, always},
	// Includes both of the above, for a process that has only this one; and events of CPUs that come online.
	{unix.CAP_SYS_ADMIN, func(s *session) bool {
		return !effective(unix.CAP_BPF) || !effective(unix.CAP_PERFMON) || attach.EachCPU(s.links.all) && eventsNeedAdmin()
	}},
	// Memory maps and root directories of processes that start later, and what --why looks for in processes. The names of nested
	// containers are in files below those root directories.
	{unix.CAP_SYS_PTRACE, func(s *session) bool { return readsUsers(s) || namesContainers(s.manifest, &s.opts) || looksForWhy(s) }},
	// Files of such processes, and files that cat() prints.
	{unix.CAP_DAC_READ_SEARCH, func(s *session) bool {
		return readsUsers(s) || namesContainers(s.manifest, &s.opts) || hasEvent(s.manifest, "cat") || looksForWhy(s)
	}},
	// Files that a process has mapped, if they were deleted or are in an overlay file system: /proc/PID/map_files.
	{unix.CAP_CHECKPOINT_RESTORE, func(s *session) bool { return s.walks.unwinder != nil }},
	// To run the parser of these files as nobody, with an empty bounding set.
	{unix.CAP_SETUID, readsUsers},
	{unix.CAP_SETGID, readsUsers},
	{unix.CAP_SETPCAP, readsUsers},
	// Symbols of kernel modules that are loaded later.
	{unix.CAP_SYSLOG, func(s *session) bool { return prints(s.manifest, "kstack", "ksym") }},
	// New output files in a directory that belongs to another user.
	{unix.CAP_DAC_OVERRIDE, func(s *session) bool { p, _ := s.opts.ownProcess(); return p.CreatesFiles }},
	// To kill a command that has changed its user.
	{unix.CAP_KILL, func(s *session) bool { return s.child != nil }},
}

func always(*session) bool { return true }

// looksForWhy reports whether --why looks for its causes in processes. A policy forbids reporting them.
func looksForWhy(s *session) bool { return s.opts.Why && s.opts.Policy == nil }

// readsUsers reports whether files of processes are read.
func readsUsers(s *session) bool { return namesUsers(s.manifest) || s.walks.unwinder != nil }

// namesUsers reports whether user-space addresses are symbolized.
func namesUsers(m *manifest.Manifest) bool { return prints(m, "ustack", "usym") }

// namesContainers reports whether cgroups are printed by name.
func namesContainers(m *manifest.Manifest, o *Options) bool {
	return prints(m, "cgroup_path") || (o.Names || o.Sink.Metrics || o.Record != nil) && hasCgroupKey(m)
}

// hasCgroupKey reports whether keys of a map have IDs of cgroups.
func hasCgroupKey(m *manifest.Manifest) bool {
	return slices.ContainsFunc(m.Maps, func(x manifest.Map) bool {
		return anyPart(x.Key, func(l *manifest.Layout) bool { return l.IDOf != "" })
	})
}

// hasEvent reports whether the script has an event of a kind.
func hasEvent(m *manifest.Manifest, kind string) bool {
	for i := range m.Events {
		if m.Events[i].Kind == kind {
			return true
		}
	}
	return false
}

// prints reports whether a map or an event of the script has a value of one of these kinds.
func prints(m *manifest.Manifest, kinds ...string) bool {
	ofKind := func(l *manifest.Layout) bool { return slices.Contains(kinds, l.Kind) }
	for i := range m.Maps {
		if x := &m.Maps[i]; anyPart(x.Key, ofKind) || anyPart(x.Value, ofKind) {
			return true
		}
	}
	for i := range m.Events {
		for j := range m.Events[i].Fields {
			if anyPart(&m.Events[i].Fields[j].Layout, ofKind) {
				return true
			}
		}
	}
	return false
}

// capabilities is the data argument of capset(2) and capget(2): the low and the high half.
type capabilities [2]unix.CapUserData

func (c *capabilities) has(n int) bool { return c[n/32].Effective>>(n%32)&1 != 0 }

// capabilityHeader is the header argument of capset(2). A system call on all threads needs an
// address that does not move.
var (
	capabilityHeader = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	keptInThreads    capabilities
)

// effective reports whether this process has a capability.
func effective(n int) bool {
	var have capabilities
	return unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &have[0]) == nil && have.has(n)
}

// eventsNeedAdmin reports whether perf events need CAP_SYS_ADMIN, as where kernel.perf_event_paranoid is 3 with Debian's
// patch of perf_event_open(2). It tries one without.
func eventsNeedAdmin() bool {
	var have capabilities
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.Capget(&header, &have[0]) != nil {
		return false
	}
	less := have
	less[0].Effective &^= 1 << unix.CAP_SYS_ADMIN
	if unix.Capset(&header, &less[0]) != nil {
		return false
	}
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY, Size: unix.PERF_ATTR_SIZE_VER0}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err == nil {
		unix.Close(fd)
	}
	unix.Capset(&header, &have[0])
	return err == unix.EACCES
}

// dropPrivileges drops, on all threads, the capabilities that the rest of the run does not need. If
// system() is permitted, its commands need the operator's capabilities, so all are kept, and so they are if
// other objects may be loaded. If they cannot be dropped (a program with cgo), the run continues unchanged.
func (s *session) dropPrivileges() {
	if p, _ := s.opts.ownProcess(); !p.DropPrivileges || hasEvent(s.manifest, "system") {
		return
	}
	var have capabilities
	if unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &have[0]) != nil {
		return
	}
	var kept capabilities
	for _, k := range keptCapabilities {
		if have.has(k.capability) && k.needed(s) {
			kept[k.capability/32].Effective |= 1 << (k.capability % 32)
			kept[k.capability/32].Permitted |= 1 << (k.capability % 32)
		}
	}
	// From here on no executed program gains capabilities. (Dropping the bounding set would be
	// redundant: it takes 40 system calls on all threads, which delays the first events.)
	syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	if s.opts.Reload { // the next object needs what this one needed
		return
	}
	keptInThreads = kept
	syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&capabilityHeader)),
		uintptr(unsafe.Pointer(&keptInThreads)), 0)
}
