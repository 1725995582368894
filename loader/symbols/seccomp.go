// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"btc/internal/arch"
)

// allowedSyscalls are the system calls that the Go runtime and serve use. Others fail with EPERM.
var allowedSyscalls = []uint32{
	unix.SYS_READ, unix.SYS_PREAD64, unix.SYS_WRITE, unix.SYS_RECVMSG, unix.SYS_SENDMSG, unix.SYS_CLOSE,
	unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_MINCORE,
	unix.SYS_FUTEX, unix.SYS_CLONE, unix.SYS_CLONE3, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_SCHED_YIELD,
	unix.SYS_SCHED_GETAFFINITY, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME,
	unix.SYS_RESTART_SYSCALL,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
	unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_TGKILL, unix.SYS_GETRANDOM,
	unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
}

// Values of linux/seccomp.h and offsets in struct seccomp_data.
const (
	seccompFilter = 1
	seccompTSync  = 1
	seccompAllow  = 0x7fff0000
	seccompErrno  = 0x00050000
	seccompNumber = 0
	seccompArch   = 4
)

// restrictSyscalls limits all threads to allowedSyscalls.
func restrictSyscalls() error {
	here := arch.Host()
	if here == nil {
		return unix.ENOSYS
	}
	load := func(off uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
	}
	ret := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	const equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	n := uint8(len(allowedSyscalls))
	prog := []unix.SockFilter{
		load(seccompArch),
		{Code: equal, K: here.AuditArch(), Jf: n + 1}, // system calls of another architecture are refused
		load(seccompNumber),
	}
	for i, nr := range allowedSyscalls {
		prog = append(prog, unix.SockFilter{Code: equal, K: nr, Jt: n - uint8(i)})
	}
	prog = append(prog, ret(seccompErrno|uint32(unix.EPERM)), ret(seccompAllow))
	p := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, seccompFilter, seccompTSync, uintptr(unsafe.Pointer(&p)))
	if errno != 0 {
		return errno
	}
	return nil
}
