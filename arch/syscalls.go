package arch

import (
	"strconv"
	"strings"
)

// SyscallNames lists the names of the system calls by number, "" where there is none; it
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

// SyscallNumbers has the numbers of the system calls, by their own names and by those of
// their tracepoints.
func (a *Arch) SyscallNumbers() map[string]int {
	numbers := a.SyscallEvents()
	for nr, name := range a.SyscallNames() {
		if name != "" {
			numbers[name] = nr
		}
	}
	return numbers
}

// SyscallEvents has the numbers of the system calls by the names of their tracepoints,
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
	elsewhere := false
	for _, other := range rows() {
		_, has := other.SyscallEvents()[name]
		if has && other == a {
			return false
		}
		elsewhere = elsewhere || has
	}
	return elsewhere
}
