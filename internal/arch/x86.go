// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"debug/elf"
	"strings"
)

func x86() *Arch {
	// struct pt_regs of arch/x86/include/asm/ptrace.h: fixed by the entry code and by user
	// space ABI. cs and ss are in anonymous unions since 6.9.
	a := &Arch{
		Name: "x86_64", GOARCH: "amd64", Label: "x86_64", Machine: elf.EM_X86_64, Default: true,
		Macros:     []string{"__x86_64__", "__x86_64", "__amd64__"},
		RegsStruct: "pt_regs", RegsSize: 168, Marker: "di", FP: "bp",
		Regs: []Reg{
			{"r15", "r15", 0}, {"r14", "r14", 8}, {"r13", "r13", 16}, {"r12", "r12", 24},
			{"bp", "bp", 32}, {"bx", "bx", 40}, {"r11", "r11", 48}, {"r10", "r10", 56},
			{"r9", "r9", 64}, {"r8", "r8", 72}, {"ax", "ax", 80}, {"cx", "cx", 88},
			{"dx", "dx", 96}, {"si", "si", 104}, {"di", "di", 112},
			{"orig_rax", "orig_ax", 120}, {"ip", "ip", 128}, {"pc", "ip", 128},
			{"cs", "cs", 136}, {"flags", "flags", 144}, {"sp", "sp", 152}, {"ss", "ss", 160},
		},
		UserMask: 3, UserMode: 3, // the requested privilege level, 3 for user space
		PastProbe: 1, // IP is after the probe, however it was placed
		StackArg:  8, // above the return address
		ResultArg: true,
		AsmRegs:   map[string]uint16{"rip": 128},

		SyscallPrefix: "__x64_sys_",
		// TS_COMPAT has had its number since before 5.10.
		SyscallRegs: &SyscallRegs{Args: [6]int16{112, 104, 96, 56, 72, 64}, Nr: 120, NrSize: 8, Field: "status", Bit: 1 << 1},
		syscalls:    x86Syscalls,
		eventNames: map[string]string{
			"stat": "newstat", "fstat": "newfstat", "lstat": "newlstat", "uname": "newuname", "sendfile": "sendfile64",
			"umount2": "umount", "_sysctl": "sysctl",
		},
	}
	a.pick("di si dx cx r8 r9", "ax", "ip", "sp", "cs")
	for _, row := range []struct {
		offset uint16
		names  string
	}{
		{0, "r15 r15d r15w r15b"}, {8, "r14 r14d r14w r14b"}, {16, "r13 r13d r13w r13b"}, {24, "r12 r12d r12w r12b"},
		{32, "rbp ebp bp bpl"}, {40, "rbx ebx bx bl"}, {48, "r11 r11d r11w r11b"}, {56, "r10 r10d r10w r10b"},
		{64, "r9 r9d r9w r9b"}, {72, "r8 r8d r8w r8b"}, {80, "rax eax ax al"}, {88, "rcx ecx cx cl"},
		{96, "rdx edx dx dl"}, {104, "rsi esi si sil"}, {112, "rdi edi di dil"}, {152, "rsp esp sp spl"},
	} {
		for name := range strings.FieldsSeq(row.names) {
			a.AsmRegs[name] = row.offset
		}
	}
	return a
}

const x86Syscalls = "" +
	"0 read write open close stat fstat lstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn ioctl " +
	"pread64 pwrite64 readv writev access pipe select sched_yield mremap msync mincore madvise shmget shmat shmctl dup dup2 pause " +
	"nanosleep getitimer alarm setitimer getpid sendfile socket connect accept sendto recvfrom sendmsg recvmsg shutdown bind listen " +
	"getsockname getpeername socketpair setsockopt getsockopt clone fork vfork execve exit wait4 kill uname semget semop semctl shmdt " +
	"msgget msgsnd msgrcv msgctl fcntl flock fsync fdatasync truncate ftruncate getdents getcwd chdir fchdir rename mkdir rmdir creat " +
	"link unlink symlink readlink chmod fchmod chown fchown lchown umask gettimeofday getrlimit getrusage sysinfo times ptrace getuid " +
	"syslog getgid setuid setgid geteuid getegid setpgid getppid getpgrp setsid setreuid setregid getgroups setgroups setresuid " +
	"getresuid setresgid getresgid getpgid setfsuid setfsgid getsid capget capset rt_sigpending rt_sigtimedwait rt_sigqueueinfo " +
	"rt_sigsuspend sigaltstack utime mknod uselib personality ustat statfs fstatfs sysfs getpriority setpriority sched_setparam " +
	"sched_getparam sched_setscheduler sched_getscheduler sched_get_priority_max sched_get_priority_min sched_rr_get_interval mlock " +
	"munlock mlockall munlockall vhangup modify_ldt pivot_root _sysctl prctl arch_prctl adjtimex setrlimit chroot sync acct " +
	"settimeofday mount umount2 swapon swapoff reboot sethostname setdomainname iopl ioperm create_module init_module delete_module " +
	"get_kernel_syms query_module quotactl nfsservctl getpmsg putpmsg afs_syscall tuxcall security gettid readahead setxattr lsetxattr " +
	"fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr tkill time futex " +
	"sched_setaffinity sched_getaffinity set_thread_area io_setup io_destroy io_getevents io_submit io_cancel get_thread_area " +
	"lookup_dcookie epoll_create epoll_ctl_old epoll_wait_old remap_file_pages getdents64 set_tid_address restart_syscall semtimedop " +
	"fadvise64 timer_create timer_settime timer_gettime timer_getoverrun timer_delete clock_settime clock_gettime clock_getres " +
	"clock_nanosleep exit_group epoll_wait epoll_ctl tgkill utimes vserver mbind set_mempolicy get_mempolicy mq_open mq_unlink " +
	"mq_timedsend mq_timedreceive mq_notify mq_getsetattr kexec_load waitid add_key request_key keyctl ioprio_set ioprio_get " +
	"inotify_init inotify_add_watch inotify_rm_watch migrate_pages openat mkdirat mknodat fchownat futimesat newfstatat unlinkat " +
	"renameat linkat symlinkat readlinkat fchmodat faccessat pselect6 ppoll unshare set_robust_list get_robust_list splice tee " +
	"sync_file_range vmsplice move_pages utimensat epoll_pwait signalfd timerfd_create eventfd fallocate timerfd_settime " +
	"timerfd_gettime accept4 signalfd4 eventfd2 epoll_create1 dup3 pipe2 inotify_init1 preadv pwritev rt_tgsigqueueinfo perf_event_open " +
	"recvmmsg fanotify_init fanotify_mark prlimit64 name_to_handle_at open_by_handle_at clock_adjtime syncfs sendmmsg setns getcpu " +
	"process_vm_readv process_vm_writev kcmp finit_module sched_setattr sched_getattr renameat2 seccomp getrandom memfd_create " +
	"kexec_file_load bpf execveat userfaultfd membarrier mlock2 copy_file_range preadv2 pwritev2 pkey_mprotect pkey_alloc pkey_free " +
	"statx io_pgetevents rseq uretprobe uprobe 424 pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree " +
	"move_mount fsopen fsconfig fsmount fspick pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 process_madvise " +
	"epoll_pwait2 mount_setattr quotactl_fd landlock_create_ruleset landlock_add_rule landlock_restrict_self memfd_secret " +
	"process_mrelease futex_waitv set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake futex_wait futex_requeue " +
	"statmount listmount lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal setxattrat getxattrat listxattrat removexattrat " +
	"open_tree_attr file_getattr file_setattr listns rseq_slice_yield"
