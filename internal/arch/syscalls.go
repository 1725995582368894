// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"strconv"
	"strings"
)

// SyscallNames lists the names of the system calls by number, "" if there is none; it
// is empty for a nil row. Numbers never change their meaning.
func (a *Arch) SyscallNames() []string {
	if a == nil {
		return nil
	}
	var names []string
	at := 0
	for word := range strings.FieldsSeq(a.syscalls) {
		if n, err := strconv.Atoi(word); err == nil {
			at = n
			continue
		}
		for len(names) <= at {
			names = append(names, "")
		}
		names[at] = word
		at++
	}
	return names
}

// SyscallNumbers returns the numbers of the system calls, by their own names and by those of their tracepoints.
func (a *Arch) SyscallNumbers() map[string]int {
	numbers := a.SyscallEvents()
	for nr, name := range a.SyscallNames() {
		if name != "" {
			numbers[name] = nr
		}
	}
	return numbers
}

// SyscallEvents returns the numbers of the system calls by the names of their tracepoints,
// without "sys_enter_" or "sys_exit_".
func (a *Arch) SyscallEvents() map[string]int {
	numbers := map[string]int{}
	for nr, name := range a.SyscallNames() {
		if event, ok := a.eventNames[name]; ok {
			name = event
		}
		if name != "" {
			numbers[name] = nr
		}
	}
	return numbers
}

// ForeignSyscall reports whether a tracepoint is that of a system call that other
// architectures have and this one lacks: sys_enter_open on arm64. It is false for a nil
// row.
func (a *Arch) ForeignSyscall(event string) bool {
	name, ok := strings.CutPrefix(event, "sys_enter_")
	if !ok {
		name, ok = strings.CutPrefix(event, "sys_exit_")
	}
	if a == nil || !ok {
		return false
	}
	onOther := false
	for _, other := range rows() {
		_, has := other.SyscallEvents()[name]
		if has && other == a {
			return false
		}
		onOther = onOther || has
	}
	return onOther
}

// genericSyscalls is the table of architectures without their own (include/uapi/asm-generic/unistd.h).
const genericSyscalls = "" +
	"0 io_setup io_destroy io_submit io_cancel io_getevents setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr " +
	"llistxattr flistxattr removexattr lremovexattr fremovexattr getcwd lookup_dcookie eventfd2 epoll_create1 epoll_ctl epoll_pwait dup " +
	"dup3 fcntl inotify_init1 inotify_add_watch inotify_rm_watch ioctl ioprio_set ioprio_get flock mknodat mkdirat unlinkat symlinkat " +
	"linkat 39 umount2 mount pivot_root nfsservctl statfs fstatfs truncate ftruncate fallocate faccessat chdir fchdir chroot " +
	"fchmod fchmodat fchownat fchown openat close vhangup pipe2 quotactl getdents64 lseek read write readv writev pread64 pwrite64 " +
	"preadv pwritev sendfile pselect6 ppoll signalfd4 vmsplice splice tee readlinkat newfstatat fstat sync fsync fdatasync " +
	"sync_file_range timerfd_create timerfd_settime timerfd_gettime utimensat acct capget capset personality exit exit_group waitid " +
	"set_tid_address unshare futex set_robust_list get_robust_list nanosleep getitimer setitimer kexec_load init_module delete_module " +
	"timer_create timer_gettime timer_getoverrun timer_settime timer_delete clock_settime clock_gettime clock_getres clock_nanosleep " +
	"syslog ptrace sched_setparam sched_setscheduler sched_getscheduler sched_getparam sched_setaffinity sched_getaffinity sched_yield " +
	"sched_get_priority_max sched_get_priority_min sched_rr_get_interval restart_syscall kill tkill tgkill sigaltstack rt_sigsuspend " +
	"rt_sigaction rt_sigprocmask rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigreturn setpriority getpriority reboot setregid " +
	"setgid setreuid setuid setresuid getresuid setresgid getresgid setfsuid setfsgid times setpgid getpgid getsid setsid getgroups " +
	"setgroups uname sethostname setdomainname getrlimit setrlimit getrusage umask prctl getcpu gettimeofday settimeofday adjtimex " +
	"getpid getppid getuid geteuid getgid getegid gettid sysinfo mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr " +
	"msgget msgctl msgrcv msgsnd semget semctl semtimedop semop shmget shmctl shmat shmdt socket socketpair bind listen accept connect " +
	"getsockname getpeername sendto recvfrom setsockopt getsockopt shutdown sendmsg recvmsg readahead brk munmap mremap add_key " +
	"request_key keyctl clone execve mmap fadvise64 swapon swapoff mprotect msync mlock munlock mlockall munlockall mincore madvise " +
	"remap_file_pages mbind get_mempolicy set_mempolicy migrate_pages move_pages rt_tgsigqueueinfo perf_event_open accept4 recvmmsg " +
	"arch_specific_syscall 260 wait4 prlimit64 fanotify_init fanotify_mark name_to_handle_at open_by_handle_at clock_adjtime syncfs " +
	"setns sendmmsg process_vm_readv process_vm_writev kcmp finit_module sched_setattr sched_getattr renameat2 seccomp getrandom " +
	"memfd_create bpf execveat userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2 pkey_mprotect pkey_alloc pkey_free statx " +
	"io_pgetevents rseq kexec_file_load 424 pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount " +
	"fsopen fsconfig fsmount fspick pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 process_madvise epoll_pwait2 " +
	"mount_setattr quotactl_fd landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_secret process_mrelease " +
	"futex_waitv set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake futex_wait futex_requeue statmount listmount " +
	"lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal setxattrat getxattrat listxattrat removexattrat open_tree_attr " +
	"file_getattr file_setattr listns rseq_slice_yield"
