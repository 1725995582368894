// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"cmp"
	"slices"
	"strings"

	"btc/targets/targetfile"
)

// syscallSet collects system calls from their two tracepoints.
type syscallSet struct {
	numbers map[string]int
	byName  map[string]*targetfile.Syscall
	entered map[string]bool
	odd     []string // events with an unusual layout
}

func newSyscalls(numbers map[string]int) *syscallSet {
	return &syscallSet{numbers, map[string]*targetfile.Syscall{}, map[string]bool{}, nil}
}

// renamed lists system calls with two names: the kernel's name (SYSCALL_DEFINE), which tracepoints use, and the name
// in the table of numbers.
var renamed = [...][2]string{
	{"newstat", "stat"}, {"newfstat", "fstat"}, {"newlstat", "lstat"}, {"newuname", "uname"},
	{"sendfile64", "sendfile"}, {"umount", "umount2"},
}

func (s *syscallSet) number(name string) int {
	for _, r := range renamed {
		if r[0] == name {
			name = r[1]
		}
	}
	if nr, ok := s.numbers[name]; ok {
		return nr
	}
	return -1
}

// add adds one event of category syscalls.
func (s *syscallSet) add(event string, fields []targetfile.Field) {
	name, enter := strings.CutPrefix(event, "sys_enter_")
	if !enter {
		var exit bool
		if name, exit = strings.CutPrefix(event, "sys_exit_"); !exit {
			return
		}
	}
	call := s.byName[name]
	if call == nil {
		call = &targetfile.Syscall{Name: name, Nr: s.number(name)}
		s.byName[name] = call
	}
	if !enter {
		call.Exit = true
		return
	}
	for i, f := range fields {
		if i == 0 && f.Name == "__syscall_nr" {
			continue
		}
		if isCopy(f) {
			break
		}
		if f.Offset != 8+8*i {
			s.odd = append(s.odd, event)
		}
		call.Args = append(call.Args, targetfile.Arg{Name: f.Name, CType: f.CType})
	}
	s.entered[name] = true
}

// isCopy reports whether a field is the string at a pointer argument, which kernels from 6.19 on append to the
// record. BPF programs get the record without it.
func isCopy(f targetfile.Field) bool {
	return strings.HasPrefix(f.CType, "__data_loc ") && strings.HasPrefix(f.Name, "__") &&
		strings.HasSuffix(f.Name, "_val")
}

func (s *syscallSet) list() []targetfile.Syscall {
	var all []targetfile.Syscall
	for name, call := range s.byName {
		if s.entered[name] {
			all = append(all, *call)
		}
	}
	slices.SortFunc(all, func(a, b targetfile.Syscall) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
