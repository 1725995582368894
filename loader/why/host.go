// SPDX-License-Identifier: Apache-2.0

package why

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

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
	PIDs        []int  // of -p
}

// Facts collects what the host knows about why an attach point does not fire, and what it has ruled out.
func Facts(s *Site) (facts []Fact, ruled []string) {
	switch s.Kind {
	case probe.Kprobe, probe.Kretprobe:
		return kernelFacts(s, true)
	case probe.Fentry, probe.Fexit:
		return kernelFacts(s, false)
	case probe.Uprobe, probe.Uretprobe, probe.USDT:
		return fileFacts(s)
	case probe.Tracepoint:
		if s.Group == "syscalls" {
			for _, pid := range s.PIDs {
				if is32(fmt.Sprintf("/proc/%d/exe", pid)) {
					return []Fact{{Row: Compat, PID: pid}}, nil
				}
			}
			ruled = append(ruled, "calls of 32-bit programs do not fire it")
		}
	}
	return nil, ruled
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
	if others := otherSymbols(s.Name); len(others) > 0 {
		facts = append(facts, Fact{Row: OtherSymbols, Name: strings.Join(others[:min(len(others), 3)], ", ")})
	}
	return facts, append(ruled, "it is not known whether callers have inlined copies of "+s.Name)
}

// otherSymbols returns the symbols of copies of a kernel function that the compiler made.
func otherSymbols(name string) (all []string) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, maxSource))
	want := []byte(" " + name + ".")
	for lines.Scan() {
		i := bytes.Index(lines.Bytes(), want)
		if i < 0 {
			continue
		}
		symbol, _, _ := strings.Cut(string(lines.Bytes()[i+1:]), "\t")
		rest := symbol[len(name):]
		if strings.HasPrefix(rest, ".isra.") || strings.HasPrefix(rest, ".constprop.") || strings.HasPrefix(rest, ".part.") {
			if !slices.Contains(all, symbol) {
				all = append(all, symbol)
			}
		}
	}
	return all
}

// is32 reports whether a file is a 32-bit ELF file.
func is32(path string) bool {
	f, err := safefile.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var b [5]byte
	_, err = io.ReadFull(f, b[:])
	return err == nil && string(b[:4]) == "\x7fELF" && b[4] == 1
}

// maxProcesses bounds the processes that are looked at.
const maxProcesses = 1 << 16

// fileFacts looks for processes that have mapped the file of a probe.
func fileFacts(s *Site) (facts []Fact, ruled []string) {
	if s.Path == "" {
		return nil, nil
	}
	f, err := safefile.Open(s.Path)
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	var st unix.Stat_t
	if safefile.InMemory(f) || unix.Fstat(int(f.Fd()), &st) != nil { // a copy: its inode says nothing
		return nil, nil
	}
	path := s.Path
	if real, err := safefile.PathOf(f); err == nil {
		path = real
	}
	pids := s.PIDs
	if len(pids) == 0 {
		pids = processes()
	}
	self := os.Getpid()
	var gone, other Fact
	mapped := 0
	for _, pid := range pids {
		if pid == self {
			continue
		}
		switch m := mappingOf(pid, path, &st); {
		case m.same:
			mapped++
		case m.deleted && gone.PID == 0:
			gone = Fact{Row: Replaced, Name: s.Path, PID: pid}
		case m.other != "" && other.PID == 0:
			other = Fact{Row: OtherFile, Name: s.Path, PID: pid, Other: m.other}
		}
	}
	switch {
	case mapped > 0:
		return nil, []string{fmt.Sprintf("%d of the processes that run now have mapped %s", mapped, s.Path)}
	case gone.PID != 0:
		return []Fact{gone}, nil
	case other.PID != 0:
		return []Fact{other}, nil
	case len(s.PIDs) > 0:
		return []Fact{{Row: NotInProcess, Name: s.Path, PID: s.PIDs[0]}}, nil
	}
	return []Fact{{Row: Unmapped, Name: s.Path}}, nil
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

func mappingOf(pid int, path string, st *unix.Stat_t) (m mapping) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return m
	}
	defer f.Close()
	base := "/" + filepath.Base(path)
	lines := bufio.NewScanner(io.LimitReader(f, maxSource))
	for lines.Scan() {
		line := lines.Text()
		// address perms offset dev inode path
		at := strings.Index(line, "/")
		if at < 0 {
			continue
		}
		name := line[at:]
		fields := strings.Fields(line[:at])
		if len(fields) < 5 {
			continue
		}
		ino, _ := strconv.ParseUint(fields[4], 10, 64)
		file, deleted := strings.CutSuffix(name, " (deleted)")
		switch {
		case ino == st.Ino && (file == path || sameDevice(fields[3], st)):
			m.same = true
			return m
		case file == path && deleted:
			m.deleted = true
		case strings.HasSuffix(file, base) && file != path && !deleted:
			m.other = file
		}
	}
	return m
}

// sameDevice compares a device of /proc/PID/maps. File systems such as btrfs and overlayfs have other numbers there.
func sameDevice(text string, st *unix.Stat_t) bool {
	return text == fmt.Sprintf("%02x:%02x", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)))
}

// Process returns what the host knows of a process ID that a script compares with: that a process of another PID namespace
// has it, or that there is none.
func Process(pid int64) Fact {
	name := strconv.FormatInt(pid, 10)
	if pid <= 0 {
		return Fact{}
	}
	if _, err := os.Stat("/proc/" + name); err == nil {
		return Fact{}
	}
	for _, p := range processes() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if list, ok := strings.CutPrefix(line, "NSpid:"); ok {
				if all := strings.Fields(list); len(all) > 1 && all[len(all)-1] == name {
					return Fact{Row: OtherPID, Name: name, PID: p}
				}
				break
			}
		}
	}
	return Fact{Row: NoProcess, Name: name}
}
