// SPDX-License-Identifier: Apache-2.0

package cost

import (
	"debug/elf"
	"path/filepath"
	"slices"
	"strings"

	"btc/internal/elffile"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/internal/safefile"
	"btc/loader/usdt"
	"btc/targets/kernel"
)

// Cheaper is a probe that can answer the same question as another one, at a lower cost of the probe itself.
type Cheaper struct {
	Probe string  `json:"probe"`
	NS    float64 `json:"probe_ns"`
	Note  string  `json:"note"` // what is different about its events
}

// cheaper lists the cheaper probes for a uprobe or uretprobe at a function: the tracepoint of the system call that a function of
// the C library makes, and the USDT probes inside the function if this machine has the file. It lists only those whose cost
// was measured and is lower.
func (e *estimator) cheaper(p *manifest.Program, t *kernel.Target) []Cheaper {
	a := &p.Attach
	if p.Kind != probe.Uprobe && p.Kind != probe.Uretprobe || e.out.ProbeNS == nil || a.Offset != 0 || a.Addr != 0 || strings.ContainsAny(a.Name, "*?[") {
		return nil
	}
	var all []Cheaper
	add := func(kind, attach, note string) {
		i := slices.IndexFunc(e.Probes, func(x Probe) bool { return x.Kind == kind && x.NS != nil && *x.NS < *e.out.ProbeNS })
		if i >= 0 {
			all = append(all, Cheaper{Probe: attach, NS: *e.Probes[i].NS, Note: note})
		}
	}
	if call := systemCall(a.Target, a.Name, t.Arch().Label); call != "" {
		event := "sys_enter_" + call
		if p.Kind == probe.Uretprobe {
			event = "sys_exit_" + call
		}
		if t.HasEvent("syscalls", event) {
			add(probe.Tracepoint, "tracepoint:syscalls:"+event, "its events include calls of other programs and those that do not go through this library")
		}
	}
	if p.Kind == probe.Uretprobe { // a USDT probe has no return value
		return all
	}
	for _, name := range probesInside(a.Target, a.Name) {
		add(probe.USDT, "usdt:"+a.Target+":"+name, "it is inside the function: it misses calls that return before it, and has arguments of its own")
	}
	return all
}

// sameName are functions of glibc (2.28 and later) that make the system call of their name on each architecture. The list is
// complete enough for what is often probed; a function that is not in it has no hint.
var sameName = strings.Fields("accept accept4 bind chdir close connect copy_file_range dup execve execveat fallocate fchdir fchmod fchown fcntl " +
	"fdatasync fsync ftruncate getsockopt inotify_add_watch ioctl kill linkat listen lseek madvise memfd_create mkdirat mmap mprotect mremap " +
	"msync munmap openat prctl preadv preadv2 pwritev pwritev2 read readlinkat readv recvfrom recvmmsg recvmsg renameat2 sendfile sendmmsg sendmsg " +
	"sendto setsockopt shutdown socket socketpair splice symlinkat tgkill truncate unlinkat wait4 waitid write writev")

// sameNameX86 make the system call of their name on x86_64; on architectures that lack it they make another one.
var sameNameX86 = strings.Fields("access chmod chown dup2 epoll_wait link mkdir poll readlink rename rmdir symlink unlink")

// otherName are functions of glibc that make a system call of another name on each architecture.
var otherName = map[string]string{
	"open": "openat", "open64": "openat", "openat64": "openat", "pread": "pread64", "pread64": "pread64", "pwrite": "pwrite64", "pwrite64": "pwrite64",
	"lseek64": "lseek", "mmap64": "mmap", "ftruncate64": "ftruncate", "send": "sendto", "recv": "recvfrom", "waitpid": "wait4", "_exit": "exit_group",
}

// systemCall returns the system call that a function of glibc makes; "" if none is known.
func systemCall(target, function, arch string) string {
	if base := filepath.Base(target); base != "libc" && base != "libc.so.6" && !(strings.HasPrefix(base, "libc-2.") && strings.HasSuffix(base, ".so")) {
		return ""
	}
	name := strings.TrimPrefix(strings.TrimPrefix(function, "__libc_"), "__")
	if slices.Contains(sameName, name) || arch == "x86_64" && slices.Contains(sameNameX86, name) {
		return name
	}
	return otherName[name]
}

// probesInside returns "provider:name" of the USDT probes whose locations are inside a function; none if this machine does not
// have the file.
func probesInside(target, function string) []string {
	path, ok := elffile.Find(target)
	if !ok {
		return nil
	}
	file, err := safefile.Open(path) // a script names it: it may be a FIFO
	if err != nil {
		return nil
	}
	defer file.Close()
	f, err := elf.NewFile(file)
	if err != nil {
		return nil
	}
	var start, end uint64
	if err := elffile.EachSymbol(f, func(s *elffile.Symbol) bool {
		if s.Defined() && s.Size > 0 && string(s.Name()) == function {
			start, end = s.Value, s.Value+s.Size
		}
		return end == 0
	}); err != nil || end == 0 {
		return nil
	}
	locations, _ := usdt.Read(f) // those before an invalid note are valid
	var names []string
	for _, l := range locations {
		if name := l.Provider + ":" + l.Name; l.Addr >= start && l.Addr < end && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
