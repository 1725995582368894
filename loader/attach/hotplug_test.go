// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"io"
	"maps"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHotplug checks that events follow the CPUs: a CPU that comes online gets an event, and one that
// was offline gets a new one.
func TestHotplug(t *testing.T) {
	opened := map[int]int{}
	var refuse error
	open := func(cpu int) (int, error) {
		if refuse != nil {
			return -1, refuse
		}
		opened[cpu]++
		return unix.Eventfd(0, unix.EFD_CLOEXEC)
	}
	all, err := openPerCPU([]int{0, 1}, false, open)
	if err != nil {
		t.Fatal(err)
	}
	p := all.(*perCPU)
	check := func(what string, online, lost []int, want map[int]int) {
		t.Helper()
		if err := p.follow(online, lost); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if cpus := slices.Sorted(maps.Keys(p.fds)); !slices.Equal(cpus, online) || !maps.Equal(opened, want) {
			t.Errorf("%s: events on %v, opened %v, want %v", what, cpus, opened, want)
		}
	}
	check("nothing new", []int{0, 1}, nil, map[int]int{0: 1, 1: 1})
	check("CPU 1 away", []int{0}, nil, map[int]int{0: 1, 1: 1})
	check("CPU 1 back, 2 new", []int{0, 1, 2}, nil, map[int]int{0: 1, 1: 2, 2: 1})
	check("CPU 2 away and back", []int{0, 1, 2}, []int{2}, map[int]int{0: 1, 1: 2, 2: 2})
	refuse = unix.ENODEV
	if err := p.follow([]int{0, 1, 2, 3}, nil); err != nil {
		t.Errorf("CPU offline again: error = %v", err)
	}
	refuse = unix.EMFILE
	if err := p.follow([]int{0, 1, 2, 3}, nil); !errors.Is(err, unix.EMFILE) {
		t.Errorf("open fails: error = %v", err)
	}
	refuse = nil
	p.Close()
	if err := p.follow([]int{0}, nil); err != nil || len(p.fds) != 0 {
		t.Error("events left after Close")
	}
	one, err := openPerCPU([]int{0, 1}, true, open)
	if err != nil {
		t.Fatal(err)
	}
	p, opened = one.(*perCPU), map[int]int{}
	p.follow([]int{1}, nil)
	if len(p.fds) != 1 || opened[1] != 1 {
		t.Errorf("first CPU offline: events on %v", p.fds)
	}
	if EachCPU([]io.Closer{fds{}, p}) || !EachCPU([]io.Closer{p, &perCPU{}}) {
		t.Error("wrong links have an event on each CPU")
	}
	h := NewHotplug([]io.Closer{fds{}, p}, []int{0})
	defer h.Close()
	if h == nil || len(h.links) != 1 || NewHotplug([]io.Closer{fds{}}, nil) != nil {
		t.Error("wrong links are updated")
	}
	if err := h.Check(); err != nil || len(h.online) == 0 {
		t.Error(err)
	}
}

func TestOfflineCPU(t *testing.T) {
	for text, want := range map[string]int{
		"offline@/devices/system/cpu/cpu12\x00ACTION=offline\x00": 12, "offline@/devices/system/cpu/cpu0": 0,
		"online@/devices/system/cpu/cpu1\x00": -1, "offline@/devices/system/memory/memory1": -1, "": -1, "offline@/devices/system/cpu/cpu": -1,
	} {
		if cpu, ok := offlineCPU([]byte(text)); ok != (want >= 0) || ok && cpu != want {
			t.Errorf("%q: CPU %d, %v", text, cpu, ok)
		}
	}
}
