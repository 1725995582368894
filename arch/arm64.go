package arch

import (
	"debug/elf"
	"strconv"
)

func arm64() *Arch {
	// struct user_pt_regs of arch/arm64/include/uapi/asm/ptrace.h, with which the kernel's
	// struct pt_regs begins.
	a := &Arch{
		Name: "aarch64", GOARCH: "arm64", Label: "arm64", Machine: elf.EM_AARCH64, Default: true,
		Macros:     []string{"__aarch64__"},
		RegsStruct: "user_pt_regs", RegsSize: 272, Marker: "pstate",
		UserMask: 0xf, UserMode: 0, // PSR_MODE_MASK, PSR_MODE_EL0t
		BigArg: true, WholeArg: true, // AAPCS64
		TagBits:     8, // TBI and MTE
		InsnSize:    4,
		FentrySince: [2]int{6, 4}, // HAVE_DYNAMIC_FTRACE_WITH_DIRECT_CALLS
		AsmRegs:     map[string]uint16{"sp": 248, "lr": 240},

		SyscallPrefix: "__arm64_sys_",
		// TIF_32BIT has had its number since before 5.10.
		SyscallRegs: &SyscallRegs{Args: [6]int16{272, 8, 16, 24, 32, 40}, Nr: 280, NrSize: 4, Field: "flags", Bit: 1 << 22},
		syscalls:    arm64Syscalls,
		eventNames: map[string]string{
			"fstat": "newfstat", "uname": "newuname", "sendfile": "sendfile64", "umount2": "umount",
			"fadvise64": "fadvise64_64", "personality": "arm64_personality",
		},
	}
	for i := range 31 {
		n := strconv.Itoa(i)
		a.Regs = append(a.Regs, Reg{"r" + n, "regs[" + n + "]", 8 * i})
		a.AsmRegs["x"+n], a.AsmRegs["w"+n] = uint16(8*i), uint16(8*i)
	}
	a.Regs = append(a.Regs, Reg{"sp", "sp", 248}, Reg{"pc", "pc", 256}, Reg{"pstate", "pstate", 264})
	a.pick("r0 r1 r2 r3 r4 r5 r6 r7", "r0", "pc", "sp", "pstate")
	return a
}

const arm64Syscalls = "" +
	"0 io_setup io_destroy io_submit io_cancel io_getevents setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr " +
	"llistxattr flistxattr removexattr lremovexattr fremovexattr getcwd lookup_dcookie eventfd2 epoll_create1 epoll_ctl epoll_pwait dup " +
	"dup3 fcntl inotify_init1 inotify_add_watch inotify_rm_watch ioctl ioprio_set ioprio_get flock mknodat mkdirat unlinkat symlinkat " +
	"linkat renameat umount2 mount pivot_root nfsservctl statfs fstatfs truncate ftruncate fallocate faccessat chdir fchdir chroot " +
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
