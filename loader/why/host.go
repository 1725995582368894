// SPDX-License-Identifier: Apache-2.0

package why

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"

	"btc/internal/kernelfs"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/internal/safefile"
)

// maxSource bounds what is read of a file of the kernel.
const maxSource = 64 << 20

// Site is an attach point, for facts about the host.
type Site struct {
	Kind string
	// Group and Name are the category and name of a tracepoint; Name is the function of a kernel probe.
	Group, Name string
	Path        string // of the file of a uprobe or usdt probe
	Semaphore   uint64 // its offset in the file; 0: none
	PIDs        []int  // of -p
	// Command is the program of -c. Of its process, Looked means that its mappings were looked at while it ran, and Mapped that
	// a traced process had mapped the file during the run.
	Command        string
	Looked, Mapped bool
	Other          string // another file of this name that it had mapped
	PID            int    // of the process of -c
	// Calls are the call sites of the function in the file; nil: not known.
	Calls *manifest.Calls
	// Traced are the only processes whose events count; nil: all. With Follow, those of processes that they start count as well.
	Traced []int
	Follow bool
}

// Facts collects what the host knows about why an attach point does not fire, and what it has ruled out.
func Facts(s *Site) (facts []Fact, ruled []string) {
	switch s.Kind {
	case probe.Kprobe, probe.Kretprobe:
		return kernelFacts(s, true)
	case probe.Fentry, probe.Fexit:
		return kernelFacts(s, false)
	case probe.Uprobe, probe.Uretprobe:
		facts, ruled = fileFacts(s)
		if len(facts) == 0 && s.Name != "" {
			return callers(s, ruled)
		}
		return facts, ruled
	case probe.USDT:
		return fileFacts(s)
	case probe.Tracepoint:
		if s.Group == "syscalls" {
			if s.Command != "" && is32(s.Command) {
				return []Fact{{Row: Compat, Name: s.Command}}, nil
			}
			for _, pid := range s.PIDs {
				if is32(fmt.Sprintf("/proc/%d/exe", pid)) {
					return []Fact{{Row: Compat, Name: fmt.Sprintf("process %d", pid)}}, nil
				}
			}
			if f := callFact(s.Name); f.Row != "" {
				return []Fact{f}, nil
			}
			ruled = append(ruled, "calls of 32-bit programs do not fire it")
		}
	}
	return nil, ruled
}

// otherCalls are system calls that glibc no longer makes where programs call the function of this name, each with what it makes
// instead; "-": programs call it in the vDSO.
const otherCalls = " open=openat stat=newfstatat lstat=newfstatat fork=clone select=pselect6 nanosleep=clock_nanosleep getdents=getdents64" +
	" getrlimit=prlimit64 setrlimit=prlimit64 exit=exit_group clock_gettime=- gettimeofday=- time=- getcpu=- "

// callFact returns what is known of a tracepoint of a system call: that programs make another one.
func callFact(event string) Fact {
	dir, name := "sys_enter", strings.TrimPrefix(event, "sys_enter_")
	if exit, ok := strings.CutPrefix(event, "sys_exit_"); ok {
		dir, name = "sys_exit", exit
	}
	_, other, _ := strings.Cut(otherCalls, " "+name+"=")
	switch other, _, _ = strings.Cut(other, " "); other {
	case "":
		return Fact{}
	case "-":
		return Fact{Row: NoCall, Name: name}
	}
	return Fact{Row: OtherCall, Name: name, Other: other, Dir: dir}
}

// first returns the first bytes of a small file of the kernel, without newline.
func first(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	var b [32]byte
	n, _ := f.Read(b[:])
	return strings.TrimSpace(string(b[:n]))
}

func kernelFacts(s *Site, kprobe bool) (facts []Fact, ruled []string) {
	if kprobe {
		for _, path := range []string{"/sys/kernel/debug/kprobes/enabled"} {
			switch first(path) {
			case "0":
				return []Fact{{Row: KprobesOff, Name: path}}, nil
			case "1":
				ruled = append(ruled, "kprobes are enabled")
			}
		}
	}
	switch first("/proc/sys/kernel/ftrace_enabled") {
	case "0":
		if !kprobe {
			return []Fact{{Row: FtraceOff}}, nil
		}
	case "1":
		if !kprobe {
			ruled = append(ruled, "function tracing is enabled")
		}
	}
	if s.Name == "" {
		return facts, ruled
	}
	if kprobe && blacklisted(s.Name) {
		return []Fact{{Row: Blacklisted, Name: s.Name}}, nil
	}
	if dir, err := kernelfs.Tracefs(); err == nil && notTraceable(dir+"/available_filter_functions", s.Name) {
		return []Fact{{Row: NotTraceable, Name: s.Name}}, nil
	}
	if others := otherSymbols(s.Name); len(others) > 0 {
		facts = append(facts, CopiesFact(others))
	}
	return facts, append(ruled, inlined(s.Name))
}

// callers returns what the debug information of a file shows of the calls of a function.
func callers(s *Site, ruled []string) ([]Fact, []string) {
	c := s.Calls
	switch {
	case c == nil:
		return nil, append(ruled, inlined(s.Name))
	case c.Inlined > 0:
		sites := fmt.Sprintf("%d of its %d call sites in the debug information of %s are", c.Inlined, c.Sites, s.Path)
		if c.Sites == 1 {
			sites = "its only call site in the debug information of " + s.Path + " is"
		}
		return []Fact{{Row: Inlined, Name: sites, Other: strings.Join(c.In, ", ")}}, ruled
	case c.Sites == 0:
		return nil, append(ruled, "the debug information of "+s.Path+" shows no call of it by name")
	}
	sites := fmt.Sprintf("none of its %d call sites in the debug information of %s is inlined", c.Sites, s.Path)
	if c.Sites == 1 {
		sites = "its only call site in the debug information of " + s.Path + " is not inlined"
	}
	return nil, append(ruled, sites)
}

func inlined(name string) string {
	return "this host does not show whether callers have inlined copies of " + name
}

// CopiesFact is the fact that a kernel function has copies.
func CopiesFact(symbols []string) Fact {
	return Fact{Row: OtherSymbols, Name: strings.Join(symbols[:min(len(symbols), 3)], ", ")}
}

// Known returns what is known of an attach point without a host: by the name of an event, and by debug information.
func Known(s *Site) []Fact {
	if s.Calls != nil && s.Calls.Inlined > 0 {
		facts, _ := callers(s, nil)
		return facts
	}
	if f := callFact(s.Name); s.Kind == probe.Tracepoint && s.Group == "syscalls" && f.Row != "" {
		return []Fact{f}
	}
	return nil
}

// eachLine calls f for the lines of a file of the kernel until it returns false.
func eachLine(path string, f func(line []byte) bool) {
	file, err := os.Open(path)
	if err != nil {
		return
	}
	defer file.Close()
	lines := bufio.NewScanner(io.LimitReader(file, maxSource))
	for lines.Scan() && f(lines.Bytes()) {
	}
}

// blacklisted reports whether the kernel forbids kprobes in a function.
func blacklisted(name string) (found bool) {
	eachLine("/sys/kernel/debug/kprobes/blacklist", func(line []byte) bool { // 0xffffffff81000000-0xffffffff81000010	name
		i := bytes.LastIndexByte(line, '\t')
		found = i >= 0 && string(line[i+1:]) == name
		return !found
	})
	return found
}

// notTraceable reports whether a list of functions that can be traced, one a line, does not have a function.
func notTraceable(list, name string) (absent bool) {
	eachLine(list, func(line []byte) bool { // name, or name [module]
		first, _, _ := bytes.Cut(line, []byte{' '})
		absent = string(first) != name
		return absent
	})
	return absent
}

// otherSymbols returns the symbols of copies of a kernel function that the compiler made.
func otherSymbols(name string) (all []string) {
	want := []byte(" " + name + ".")
	eachLine("/proc/kallsyms", func(line []byte) bool {
		if i := bytes.Index(line, want); i >= 0 {
			symbol, _, _ := strings.Cut(string(line[i+1:]), "\t")
			if IsCopy(symbol, name) && !slices.Contains(all, symbol) {
				all = append(all, symbol)
			}
		}
		return true
	})
	return all
}

// IsCopy reports whether a symbol is that of a copy of a function that the compiler made.
func IsCopy(symbol, name string) bool {
	rest, ok := strings.CutPrefix(symbol, name)
	return ok && (strings.HasPrefix(rest, ".isra.") || strings.HasPrefix(rest, ".constprop.") || strings.HasPrefix(rest, ".part."))
}

// is32 reports whether a file is a 32-bit ELF file.
func is32(path string) bool {
	f, err := safefile.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	class, _ := machineOf(f)
	return class == elf.ELFCLASS32
}

// machineOf returns the class and the architecture of an ELF file; 0: it is not one.
func machineOf(f io.ReaderAt) (elf.Class, elf.Machine) {
	var b [20]byte
	if _, err := f.ReadAt(b[:], 0); err != nil || string(b[:4]) != elf.ELFMAG {
		return 0, 0
	}
	return elf.Class(b[4]), elf.Machine(binary.NativeEndian.Uint16(b[18:]))
}

// machines are the architectures of programs that a machine runs.
var machines = map[string][]elf.Machine{
	"amd64": {elf.EM_X86_64, elf.EM_386}, "arm64": {elf.EM_AARCH64, elf.EM_ARM},
}

// File32 returns the path if the file is a 32-bit program or library.
func File32(path string) string {
	if path == "" || !is32(path) {
		return ""
	}
	return path
}

// Mapped returns which of the files processes have mapped: the given ones, nil for all but this one. It reads the mappings
// of each process once, until all files are found or stop is set.
func Mapped(paths []string, pids []int, stop *atomic.Bool) (found []string) {
	var files []*file
	for _, path := range paths {
		if f := fileOf(path); f != nil && f.foreign == "" {
			f.of = path
			files = append(files, f)
		}
	}
	if pids == nil {
		pids = processes()
	}
	self := os.Getpid()
	for _, pid := range pids {
		if len(found) == len(files) || stop.Load() {
			break
		}
		if pid == self {
			continue
		}
		eachMapping(pid, func(m mapped) bool {
			for _, f := range files {
				if f.of != "" && f.is(m) {
					found = append(found, f.of)
					f.of = ""
				}
			}
			return len(found) < len(files)
		})
	}
	return found
}

// MappedBy reports whether a process has mapped a file, or which other file of this name it has.
func MappedBy(path string, pid int) (same bool, other string) {
	f := fileOf(path)
	if f == nil || f.foreign != "" {
		return false, ""
	}
	m := mappingOf(pid, f)
	return m.same, m.other
}

// file is the file of an attach point.
type file struct {
	of, path string // as given, "" once Mapped has found it, and without symbolic links
	id       identity
	foreign  string // its architecture, if this machine does not run it
}

// identity is what identifies a file: its device as in /proc/PID/maps, and its inode. File systems such as btrfs and overlayfs have
// other devices there.
type identity struct {
	device string // "": unknown
	inode  uint64
}

// fileOf returns nil if nothing is known of the file.
func fileOf(path string) *file {
	if path == "" {
		return nil
	}
	opened, err := safefile.Open(path)
	if err != nil {
		return nil
	}
	defer opened.Close()
	f := &file{path: path}
	var real string
	if f.id, real = identify(opened); f.id.device == "" {
		return nil
	}
	if class, machine := machineOf(opened); class != 0 && machines[runtime.GOARCH] != nil && !slices.Contains(machines[runtime.GOARCH], machine) {
		f.foreign = strings.ToLower(strings.TrimPrefix(machine.String(), "EM_"))
	}
	if real != "" {
		f.path = real
	}
	return f
}

// is reports whether the file is that of a mapping.
func (f *file) is(m mapped) bool {
	return m.inode == f.id.inode && (m.path == f.path || m.fields[3] == f.id.device)
}

// mapped is a line of /proc/PID/maps with a file.
type mapped struct {
	fields  []string // address, permissions, offset, device and inode
	inode   uint64
	path    string
	deleted bool
}

// eachMapping calls f for the mappings of a process until it returns false.
func eachMapping(pid int, f func(m mapped) bool) {
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return
	}
	defer maps.Close()
	lines := bufio.NewScanner(io.LimitReader(maps, maxSource))
	for lines.Scan() {
		line := lines.Text()
		// address perms offset dev inode path
		at := strings.Index(line, "/")
		if at < 0 {
			continue
		}
		fields := strings.Fields(line[:at])
		if len(fields) < 5 {
			continue
		}
		m := mapped{fields: fields}
		m.inode, _ = strconv.ParseUint(fields[4], 10, 64)
		if m.path, m.deleted = strings.CutSuffix(line[at:], " (deleted)"); !f(m) {
			return
		}
	}
}

// maxProcesses bounds the processes that are looked at.
const maxProcesses = 1 << 16

// fileFacts looks for processes that have mapped the file of a probe.
func fileFacts(s *Site) (facts []Fact, ruled []string) {
	f := fileOf(s.Path)
	if f == nil {
		return nil, nil
	}
	if f.foreign != "" {
		return []Fact{{Row: OtherArch, Name: s.Path, Other: f.foreign}}, nil
	}
	self := os.Getpid()
	var gone, other, off, elsewhere Fact
	users, on := 0, 0
	perhaps := false // a process that may be one that a traced one has started has to do with the file
	for _, pid := range processes() {
		if pid == self {
			continue
		}
		traced := s.Traced == nil || slices.Contains(s.Traced, pid)
		switch m := mappingOf(pid, f); {
		case !traced && s.Follow:
			perhaps = perhaps || m != mapping{}
		case !traced:
			if m.same && elsewhere.PID == 0 {
				elsewhere = Fact{Row: InOther, Name: s.Path, PID: pid}
			}
		case m.same:
			users++
			switch value, ok := semaphore(pid, f, s.Semaphore); {
			case ok && value == 0 && off.PID == 0:
				off = Fact{Row: Semaphore, Name: s.Path, PID: pid}
			case ok && value != 0:
				on++
			}
		case m.deleted && gone.PID == 0:
			gone = Fact{Row: Replaced, Name: s.Path, PID: pid}
		case m.other != "" && other.PID == 0:
			other = Fact{Row: OtherFile, Name: s.Path, PID: pid, Other: m.other}
		}
	}
	switch {
	case off.PID != 0 && on == 0:
		return []Fact{off}, nil
	case users > 0:
		ruled = []string{fmt.Sprintf("%d of the processes that run now have mapped %s", users, s.Path)}
		if on > 0 {
			ruled = append(ruled, "its semaphore is on")
		}
		return nil, ruled
	case perhaps:
		return nil, nil
	case len(s.PIDs) > 0 && s.Command == "" && !running(s.PIDs[0]):
		return nil, []string{fmt.Sprintf("process %d has ended, and it is not known what it had mapped", s.PIDs[0])}
	case s.Mapped:
		return nil, []string{"a process had mapped " + s.Path + " during the run"}
	case s.Command != "" && !s.Looked:
		return nil, []string{"no process has mapped " + s.Path + " now, and it is not known whether the program of -c had"}
	case gone.PID != 0:
		return []Fact{gone}, nil
	case s.Other != "":
		return []Fact{{Row: OtherFile, Name: s.Path, PID: s.PID, Other: s.Other}}, nil
	case other.PID != 0:
		return []Fact{other}, nil
	case elsewhere.PID != 0:
		if elsewhere.Other = "the program of -c (" + s.Command + ")"; s.Command == "" {
			elsewhere.Other = fmt.Sprintf("process %d", s.PIDs[0])
		}
		return []Fact{elsewhere}, nil
	case s.Command != "":
		return []Fact{{Row: NotInCommand, Name: s.Path, Other: s.Command}}, nil
	case len(s.PIDs) > 0:
		return []Fact{{Row: NotInProcess, Name: s.Path, PID: s.PIDs[0]}}, nil
	}
	return []Fact{{Row: Unmapped, Name: s.Path}}, nil
}

// running reports whether a process has memory: it is there, and has not ended.
func running(pid int) (is bool) {
	eachMapping(pid, func(mapped) bool {
		is = true
		return false
	})
	return is
}

func processes() (all []int) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && len(all) < maxProcesses {
			all = append(all, pid)
		}
	}
	sort.Ints(all)
	return all
}

// mapping is how a process has mapped a file: the file itself, an earlier one of this path, or another one of this name.
type mapping struct {
	same, deleted bool
	other         string
}

func mappingOf(pid int, f *file) (out mapping) {
	base := "/" + filepath.Base(f.path)
	eachMapping(pid, func(m mapped) bool {
		switch {
		case f.is(m):
			out.same = true
			return false
		case m.path == f.path && m.deleted:
			out.deleted = true
		case strings.HasSuffix(m.path, base) && m.path != f.path && !m.deleted:
			out.other = m.path
		}
		return true
	})
	return out
}

// semaphore returns the semaphore of a probe in a process; false if it cannot be read.
func semaphore(pid int, f *file, offset uint64) (value uint16, ok bool) {
	if offset == 0 {
		return 0, false
	}
	eachMapping(pid, func(m mapped) bool {
		if len(m.fields[1]) < 2 || m.fields[1][1] != 'w' || !f.is(m) {
			return true
		}
		from, to, _ := strings.Cut(m.fields[0], "-")
		start, _ := strconv.ParseUint(from, 16, 64)
		end, _ := strconv.ParseUint(to, 16, 64)
		at, _ := strconv.ParseUint(m.fields[2], 16, 64)
		if offset < at || offset-at+2 > end-start {
			return true
		}
		mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
		if err != nil {
			return false
		}
		defer mem.Close()
		var b [2]byte
		_, err = mem.ReadAt(b[:], int64(start+offset-at))
		value, ok = binary.NativeEndian.Uint16(b[:]), err == nil
		return false
	})
	return value, ok
}

// Comm returns what the host knows of processes with the name that a script compares comm with: that one is a 32-bit program.
func Comm(name string, s *Site) Fact {
	if base := filepath.Base(s.Command); s.Command != "" && base[:min(len(base), 15)] == name && is32(s.Command) {
		return Fact{Row: CompatName, PID: s.PID}
	}
	for _, pid := range processes() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err == nil && strings.TrimSuffix(string(text), "\n") == name && is32(fmt.Sprintf("/proc/%d/exe", pid)) {
			return Fact{Row: CompatName, PID: pid}
		}
	}
	return Fact{}
}

// Process returns what the host knows of an ID that a script compares pid or, if thread is set, tid with: that it is one of the
// other kind, that a process of another PID namespace has it, or that there is none.
func Process(pid int64, thread bool) Fact {
	name := strconv.FormatInt(pid, 10)
	if pid <= 0 {
		return Fact{}
	}
	if text, err := os.ReadFile("/proc/" + name + "/status"); err == nil { // also of a thread
		switch of, threads := field(string(text), "Tgid:"), field(string(text), "Threads:"); {
		case !thread && of != name:
			p, _ := strconv.Atoi(of)
			return Fact{Row: ThreadID, Name: name, PID: p}
		case thread && of == name && threads != "1":
			return Fact{Row: MainThread, Name: name, Other: threads + " threads"}
		}
		return Fact{}
	}
	for _, p := range processes() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p))
		if err != nil {
			continue
		}
		if all := strings.Fields(field(string(text), "NSpid:")); len(all) > 1 && all[len(all)-1] == name {
			return Fact{Row: OtherPID, Name: name, PID: p}
		}
	}
	if thread {
		return Fact{Row: NoThread, Name: name}
	}
	return Fact{Row: NoProcess, Name: name}
}

// field returns a field of /proc/PID/status.
func field(status, name string) string {
	_, value, _ := strings.Cut(status, "\n"+name)
	value, _, _ = strings.Cut(value, "\n")
	return strings.TrimSpace(value)
}
