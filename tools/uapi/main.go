// SPDX-License-Identifier: Apache-2.0

// Command uapi writes the table of C constants that scripts may name without any installed header:
// address families, errors, signals, open flags and so on.
//
// It asks a C compiler for the macros of the headers below and for the values of
// those whose names match. Kernel-internal constants that scripts use and no user
// header has are listed by hand.
//
//	go run ./tools/uapi -o frontend/cdef x86_64=cc "aarch64=aarch64-linux-gnu-gcc -Idir"
//
// where dir holds "linux", a link to /usr/include/linux, if the cross compiler's
// own copy of the kernel's headers is an older one.
//
// The result are constants_common.txt, with what is the same for all architectures, and
// constants_ARCH.txt with the rest of each: one "NAME value" a line, sorted. They
// are committed: a build of btc runs nothing of this.
package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var headers = []string{
	"limits.h", "errno.h", "signal.h", "fcntl.h", "dirent.h", "poll.h", "sched.h", "stdint.h", "unistd.h",
	"sys/socket.h", "sys/stat.h", "sys/mman.h", "sys/epoll.h", "sys/wait.h", "sys/resource.h", "sys/ptrace.h",
	"sys/mount.h", "sys/file.h", "sys/syscall.h", "sys/un.h", "netinet/in.h", "netinet/tcp.h", "net/if.h",
	"linux/if_ether.h", "linux/icmp.h", "linux/icmpv6.h", "linux/ipv6.h", "linux/futex.h", "linux/capability.h",
	"linux/sched.h", "linux/prctl.h", "linux/seccomp.h", "linux/limits.h", "linux/netlink.h", "linux/rtnetlink.h",
	"linux/bpf.h", "linux/if_arp.h", "linux/audit.h", "linux/magic.h", "sys/ioctl.h", "linux/fs.h", "linux/sockios.h", "linux/loop.h", "linux/blktrace_api.h", "linux/fiemap.h",
	"time.h", "sys/inotify.h", "sys/fanotify.h", "sys/xattr.h", "sys/ipc.h", "sys/shm.h", "sys/sem.h", "sys/msg.h", "sys/eventfd.h",
	"sys/timerfd.h", "sys/signalfd.h", "sys/random.h", "sys/uio.h", "sys/reboot.h", "elf.h", "linux/stat.h", "linux/falloc.h", "linux/aio_abi.h",
	"linux/mempolicy.h", "linux/memfd.h", "linux/membarrier.h", "linux/userfaultfd.h", "linux/perf_event.h", "linux/io_uring.h", "linux/ioprio.h",
	"linux/kvm.h", "linux/vfio.h", "linux/if_packet.h", "linux/if_tun.h", "linux/netfilter.h", "linux/netfilter_ipv4.h",
	"linux/netfilter/nf_conntrack_common.h", "linux/netfilter/nf_tables.h", "linux/neighbour.h", "linux/pkt_sched.h", "linux/pkt_cls.h", "linux/vm_sockets.h",
	"linux/nvme_ioctl.h", "linux/ethtool.h", "linux/input.h", "linux/dma-buf.h", "linux/fuse.h", "linux/nfs.h", "linux/nfs4.h", "linux/landlock.h", "linux/kcmp.h",
	"scsi/scsi.h", "scsi/sg.h",
}

var names = regexp.MustCompile(
	`^(AF|PF|SOCK|SOL|SO|MSG|SHUT|IPPROTO|IP|IPV6|INADDR|IN|TCP|TCPF|ETH|ICMP|ICMPV6|ARPHRD|IFF|` +
		`SIG|SA|O|F|FD|AT|S|DT|SEEK|LOCK|MAP|PROT|MADV|MREMAP|EPOLL|POLL|CLONE|SCHED|W|P|RLIMIT|PTRACE|MS|MNT|FUTEX|CAP|PR|SECCOMP|` +
		`NETLINK|RTM|BPF|RENAME|FS|LOOP|` +
		`CLOCK|TIMER|IPC|SHM|SEM|XATTR|EFD|TFD|SFD|GRND|RWF|LINUX_REBOOT|STATX|FALLOC|IOCB|MPOL|MFD|UFFDIO|UFFD|PERF|IORING|IOSQE|IOPRIO|KVM|VFIO|PACKET|TUN|` +
		`NF|NFPROTO|IPS|NUD|NTF|TC|VMADDR|NVME|EM|ET|PT|SHT|FAN|FUSE|NFS|NFS4|NFS3ERR|NFSERR|LANDLOCK|KCMP|DMA|SCSI|SG|SAM|DID|EV|ETHTOOL|` +
		`INT|UINT|LONG|ULONG|LLONG|ULLONG|SHRT|USHRT|CHAR|UCHAR|SCHAR|INT8|INT16|INT32|INT64|UINT8|UINT16|UINT32|UINT64|SIZE|SSIZE)_[A-Z0-9_]+$` +
		`|^(__NR|SYS)_[a-z0-9_]+$|^(SIG[A-Z0-9]+|E[A-Z0-9]+|POLL[A-Z]+|EPOLL[A-Z]+|W(NOHANG|UNTRACED|STOPPED|EXITED|CONTINUED|NOWAIT)|PATH_MAX|NAME_MAX|IFNAMSIZ|ARG_MAX|UIO_MAXIOV|SOMAXCONN|UNIX_PATH_MAX|NSIG|PIPE_BUF|` +
		`TC(GETS|SETS|SETSW|SETSF|SBRK|XONC|FLSH)|TIOC[A-Z]+|FIO[A-Z]+|SIOC[A-Z0-9]+|BLK[A-Z0-9]+|FI[A-Z]+|[A-Z0-9_]+_(SUPER_)?MAGIC)$`,
)

// internal are constants of the kernel's own headers.
var internal = []string{
	// include/linux/sched.h: the values that have not changed since 4.14.
	"TASK_RUNNING=0x0", "TASK_INTERRUPTIBLE=0x1", "TASK_UNINTERRUPTIBLE=0x2", "__TASK_STOPPED=0x4", "__TASK_TRACED=0x8",
	"EXIT_DEAD=0x10", "EXIT_ZOMBIE=0x20", "TASK_PARKED=0x40", "TASK_DEAD=0x80", "TASK_WAKEKILL=0x100", "TASK_WAKING=0x200",
	"TASK_NOLOAD=0x400", "TASK_NEW=0x800",
	"TASK_KILLABLE=0x102", "TASK_STOPPED=0x104", "TASK_IDLE=0x402", "TASK_NORMAL=0x3", "TASK_COMM_LEN=16",
	"TASK_REPORT=0x7f", "PF_EXITING=0x4", "PF_KTHREAD=0x200000",
	// include/linux/errno.h
	"ERESTARTSYS=512", "ERESTARTNOINTR=513", "ERESTARTNOHAND=514", "ENOIOCTLCMD=515", "ERESTART_RESTARTBLOCK=516",
	"EPROBE_DEFER=517", "EOPENSTALE=518", "ENOTSUPP=524", "EIOCBQUEUED=529",
	"MAX_ERRNO=4095",
	// Pointers in the headers, numbers in a script.
	"SIG_DFL=0", "SIG_IGN=1", "SIG_HOLD=2", "SIG_ERR=0xffffffffffffffff", "MAP_FAILED=0xffffffffffffffff",
	// include/linux/fs.h
	"FMODE_READ=0x1", "FMODE_WRITE=0x2", "SB_RDONLY=0x1", "SB_NOSUID=0x2", "SB_NODEV=0x4", "SB_NOEXEC=0x8", "SB_SYNCHRONOUS=0x10",
	// include/linux/mm.h: the flags of areas that have had their values since 2.6.
	"VM_NONE=0", "VM_READ=0x1", "VM_WRITE=0x2", "VM_EXEC=0x4", "VM_SHARED=0x8", "VM_MAYREAD=0x10", "VM_MAYWRITE=0x20", "VM_MAYEXEC=0x40",
	"VM_MAYSHARE=0x80", "VM_GROWSDOWN=0x100", "VM_PFNMAP=0x400", "VM_LOCKED=0x2000", "VM_IO=0x4000", "VM_SEQ_READ=0x8000", "VM_RAND_READ=0x10000",
	"VM_DONTCOPY=0x20000", "VM_DONTEXPAND=0x40000", "VM_ACCOUNT=0x100000", "VM_HUGETLB=0x400000", "VM_DONTDUMP=0x4000000",
	// include/linux/pid.h and time64.h
	"NSEC_PER_SEC=1000000000", "NSEC_PER_MSEC=1000000", "NSEC_PER_USEC=1000", "USEC_PER_SEC=1000000", "MSEC_PER_SEC=1000",
}

// compiler is the C compiler to ask.
var compiler string

func main() {
	out := flag.String("o", ".", "directory to write to")
	flag.Parse()
	if err := run(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "uapi:", err)
		os.Exit(1)
	}
}

// run asks the compilers, each "ARCH=COMMAND" whose target is the architecture.
func run(dir string, compilers []string) error {
	tables := map[string][]string{}
	for _, c := range compilers {
		arch, command, ok := strings.Cut(c, "=")
		if !ok {
			return fmt.Errorf("%q is not ARCH=COMPILER", c)
		}
		compiler = command
		lines, err := table()
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		tables[arch] = lines
	}
	if len(tables) < 2 {
		return errors.New("expected a compiler for each architecture: ARCH=COMPILER")
	}
	common := takeCommon(tables)
	tables["common"] = common
	for name, lines := range tables {
		path := filepath.Join(dir, "constants_"+name+".txt")
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// takeCommon removes the lines that all tables have from the tables, and returns them.
func takeCommon(tables map[string][]string) []string {
	in := map[string]int{}
	for _, lines := range tables {
		for _, line := range lines {
			in[line]++
		}
	}
	shared := func(line string) bool { return in[line] == len(tables) }
	var common []string
	for arch, lines := range tables {
		if common == nil {
			common = slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !shared(line) })
		}
		tables[arch] = slices.DeleteFunc(lines, shared)
	}
	return common
}

// table returns the lines of the compiler's table.
func table() ([]string, error) {
	source := "#define _GNU_SOURCE\n"
	for _, h := range headers {
		source += "#include <" + h + ">\n"
	}
	macros, err := cc(source, "-E", "-dM", "-")
	if err != nil {
		return nil, err
	}
	values := map[string]uint64{}
	if err := evaluate(source, candidates(macros), values); err != nil {
		return nil, err
	}
	for _, def := range internal {
		name, text, _ := strings.Cut(def, "=")
		n, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			return nil, err
		}
		values[name] = n
	}
	var lines []string
	for name, v := range values {
		lines = append(lines, fmt.Sprintf("%s %d\n", name, int64(v)))
	}
	slices.Sort(lines)
	return lines, nil
}

// candidates returns the object-like macros whose names match.
func candidates(macros []byte) []string {
	var all []string
	for line := range strings.Lines(string(macros)) {
		f := strings.Fields(line)
		if len(f) >= 3 && f[0] == "#define" && names.MatchString(f[1]) {
			all = append(all, f[1])
		}
	}
	slices.Sort(all)
	return all
}

// evaluate makes the compiler compute the values of macros that are integer constants.
func evaluate(source string, macros []string, values map[string]uint64) error {
	dir, err := os.MkdirTemp("", "uapi")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	macros = constants(source, macros)
	var b strings.Builder
	b.WriteString(source + "const unsigned long long btc_values[] = {\n")
	for _, m := range macros {
		fmt.Fprintf(&b, "(unsigned long long)(%s),\n", m)
	}
	b.WriteString("};\n")
	object := filepath.Join(dir, "values.o")
	if _, err := cc(b.String(), "-w", "-x", "c", "-c", "-o", object, "-"); err != nil {
		return err
	}
	// Nothing is run: the program is another architecture's.
	f, err := elf.Open(object)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := f.Section(".rodata").Data()
	if err != nil {
		return err
	}
	for i, m := range macros {
		values[m] = f.ByteOrder.Uint64(data[8*i:])
	}
	return nil
}

// constants drops the macros that are not integer constant expressions: it compiles all of them,
// drops those with errors, and tries again.
func constants(source string, macros []string) []string {
	line := regexp.MustCompile(`btc_([A-Za-z0-9_]+)`)
	for {
		var b strings.Builder
		b.WriteString(source)
		for _, m := range macros {
			fmt.Fprintf(&b, "#line 1 \"btc_%s\"\nenum { btc_%s = !!((%s) | 0) };\n", m, m, m) // no pointers
		}
		cmd := command("-w", "-fsyntax-only", "-fmax-errors=0", "-x", "c", "-")
		cmd.Stdin = strings.NewReader(b.String())
		text, err := cmd.CombinedOutput()
		if err == nil {
			return macros
		}
		bad := map[string]bool{}
		for _, m := range line.FindAllSubmatch(text, -1) {
			bad[string(m[1])] = true
		}
		if len(bad) == 0 {
			fmt.Fprintf(os.Stderr, "uapi: %s\n", text)
			return nil
		}
		macros = slices.DeleteFunc(macros, func(m string) bool { return bad[m] })
	}
}

// command returns the compiler's, which may come with options of its own.
func command(args ...string) *exec.Cmd {
	words := append(strings.Fields(compiler), args...)
	return exec.Command(words[0], words[1:]...)
}

func cc(source string, args ...string) ([]byte, error) {
	cmd := command(args...)
	cmd.Stdin = strings.NewReader(source)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("cc: %w\n%s", err, stderr.Bytes())
	}
	return out, nil
}
