// Command uapi writes the table of C constants that scripts may name without
// any header being there: address families, errors, signals, open flags and
// their like.
//
// It asks the C compiler of the machine it runs on for the macros of the
// headers below and for the values of those whose names match. Kernel-internal
// constants that scripts use and no user header has are listed by hand.
//
//	go run ./tools/uapi -o frontend/cdef/constants_x86_64.txt
//
// The result is one "NAME value" a line, sorted. The table is committed: a
// build of btc runs nothing of this.
package main

import (
	"bytes"
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
	"sys/mount.h", "sys/file.h", "sys/un.h", "netinet/in.h", "netinet/tcp.h", "net/if.h",
	"linux/if_ether.h", "linux/icmp.h", "linux/icmpv6.h", "linux/ipv6.h", "linux/futex.h", "linux/capability.h",
	"linux/sched.h", "linux/prctl.h", "linux/seccomp.h", "linux/limits.h", "linux/netlink.h", "linux/rtnetlink.h",
	"linux/bpf.h", "linux/if_arp.h", "linux/audit.h",
}

var names = regexp.MustCompile(`^(AF|PF|SOCK|SOL|SO|MSG|SHUT|IPPROTO|IP|IPV6|INADDR|IN|TCP|TCPF|ETH|ICMP|ICMPV6|ARPHRD|IFF|` +
	`SIG|SA|O|F|FD|AT|S|DT|SEEK|LOCK|MAP|PROT|MADV|MREMAP|EPOLL|POLL|CLONE|SCHED|W|P|RLIMIT|PTRACE|MS|MNT|FUTEX|CAP|PR|SECCOMP|` +
	`NETLINK|RTM|BPF|RENAME|FS|INT|UINT|LONG|ULONG|LLONG|ULLONG|SHRT|USHRT|CHAR|UCHAR|SCHAR|INT8|INT16|INT32|INT64|UINT8|UINT16|UINT32|UINT64|SIZE|SSIZE)_[A-Z0-9_]+$` +
	`|^(SIG[A-Z0-9]+|E[A-Z0-9]+|POLL[A-Z]+|EPOLL[A-Z]+|W(NOHANG|UNTRACED|STOPPED|EXITED|CONTINUED|NOWAIT)|PATH_MAX|NAME_MAX|IFNAMSIZ|ARG_MAX|UIO_MAXIOV|SOMAXCONN|UNIX_PATH_MAX|NSIG)$`)

// internal are constants of the kernel's own headers.
var internal = []string{
	// include/linux/sched.h: the values that have not changed since 4.14.
	"TASK_RUNNING=0x0", "TASK_INTERRUPTIBLE=0x1", "TASK_UNINTERRUPTIBLE=0x2", "__TASK_STOPPED=0x4", "__TASK_TRACED=0x8",
	"EXIT_DEAD=0x10", "EXIT_ZOMBIE=0x20", "TASK_PARKED=0x40", "TASK_DEAD=0x80", "TASK_WAKEKILL=0x100", "TASK_WAKING=0x200",
	"TASK_NOLOAD=0x400", "TASK_NEW=0x800",
	"TASK_KILLABLE=0x102", "TASK_STOPPED=0x104", "TASK_IDLE=0x402", "TASK_NORMAL=0x3", "TASK_COMM_LEN=16",
	"PF_EXITING=0x4", "PF_KTHREAD=0x200000",
	// include/linux/errno.h
	"ERESTARTSYS=512", "ERESTARTNOINTR=513", "ERESTARTNOHAND=514", "ENOIOCTLCMD=515", "ERESTART_RESTARTBLOCK=516",
	"EPROBE_DEFER=517", "EOPENSTALE=518", "ENOTSUPP=524", "EIOCBQUEUED=529",
	"MAX_ERRNO=4095",
	// include/linux/fs.h
	"FMODE_READ=0x1", "FMODE_WRITE=0x2",
	// include/linux/pid.h and time64.h
	"NSEC_PER_SEC=1000000000", "NSEC_PER_MSEC=1000000", "NSEC_PER_USEC=1000", "USEC_PER_SEC=1000000", "MSEC_PER_SEC=1000",
}

func main() {
	out := flag.String("o", "", "file to write")
	flag.Parse()
	table, err := table()
	if err == nil && *out != "" {
		err = os.WriteFile(*out, table, 0o644)
	} else if err == nil {
		_, err = os.Stdout.Write(table)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "uapi:", err)
		os.Exit(1)
	}
}

// table is the text of the table.
func table() ([]byte, error) {
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
	return []byte(strings.Join(lines, "")), nil
}

// candidates are the object-like macros whose names match.
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

// evaluate has the compiler compute the macros that are integer constants.
func evaluate(source string, macros []string, values map[string]uint64) error {
	dir, err := os.MkdirTemp("", "uapi")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	macros = constants(source, macros)
	var b strings.Builder
	b.WriteString(source + "#include <stdio.h>\nint main(void) {\n")
	for _, m := range macros {
		fmt.Fprintf(&b, "printf(\"%s %%llu\\n\", (unsigned long long)(%s));\n", m, m)
	}
	b.WriteString("return 0; }\n")
	prog := filepath.Join(dir, "prog")
	if _, err := cc(b.String(), "-w", "-x", "c", "-o", prog, "-"); err != nil {
		return err
	}
	text, err := exec.Command(prog).Output()
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		name, v, _ := strings.Cut(strings.TrimSpace(line), " ")
		if values[name], err = strconv.ParseUint(v, 10, 64); err != nil {
			return err
		}
	}
	return nil
}

// constants drops the macros that the compiler refuses as an integer constant
// expression: it asks for all, drops those it complains of, and asks again.
func constants(source string, macros []string) []string {
	line := regexp.MustCompile(`btc_([A-Za-z0-9_]+)`)
	for {
		var b strings.Builder
		b.WriteString(source)
		for _, m := range macros {
			fmt.Fprintf(&b, "enum { btc_%s = !!(%s) };\n", m, m)
		}
		cmd := exec.Command("cc", "-w", "-fsyntax-only", "-fmax-errors=0", "-x", "c", "-")
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

func cc(source string, args ...string) ([]byte, error) {
	cmd := exec.Command("cc", args...)
	cmd.Stdin = strings.NewReader(source)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("cc: %w\n%s", err, stderr.Bytes())
	}
	return out, nil
}
