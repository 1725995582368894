// SPDX-License-Identifier: Apache-2.0

// Package filter limits a run to processes and cgroups. The kernel makes the decision, in a
// prologue of each program (rewrite.Filter). This package finds the named processes and cgroups,
// and creates the maps that the prologues read. It attaches only the program that follows forks,
// and changes no process or cgroup.
package filter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"btc/internal/safefile"
	"btc/loader/cgroup"
	"btc/loader/rewrite"
)

// Options select the tasks whose events count: tasks of the processes, if there are any, that are
// also in one of the cgroups, if there are any.
type Options struct {
	PIDs []int
	// Follow adds the processes that the selected processes start, and those started by the child
	// that is passed to Filter.Follow.
	Follow bool
	// Cgroups are cgroups of version 2, including all cgroups below them, each given as a path or
	// an ID (see cgroup.Open).
	Cgroups []string
}

// MaxCgroups is the maximum number of cgroups in a filter: each costs a helper call per event.
const MaxCgroups = 128

// Filter limits a run. The zero value accepts every task.
type Filter struct {
	pids    []int
	follow  bool
	cgroups []*cgroup.Dir

	held      *ebpf.Map // BPF_MAP_TYPE_CGROUP_ARRAY of cgroups; nil: no cgroups
	processes *ebpf.Map // one byte per process; nil: at most one process is selected
	bytes     *ebpf.Memory

	tracker *ebpf.Program // follows forks; nil: forks are not followed
	link    io.Closer
}

// New finds the processes and cgroups. It does not create maps.
func New(o Options) (*Filter, error) {
	f := &Filter{follow: o.Follow}
	for _, pid := range o.PIDs {
		if err := checkProcess(pid); err != nil {
			return nil, err
		}
		if !slices.Contains(f.pids, pid) {
			f.pids = append(f.pids, pid)
		}
	}
	if len(o.Cgroups) > MaxCgroups {
		return nil, fmt.Errorf("too many cgroups: %d (max %d): name a cgroup that contains them", len(o.Cgroups),
			MaxCgroups)
	}
	for _, text := range o.Cgroups {
		d, err := cgroup.Open(text)
		if err != nil {
			f.Close()
			return nil, err
		}
		f.cgroups = append(f.cgroups, d)
	}
	return f, nil
}

// checkProcess returns an error if pid is not a running process, or is the ID of a thread.
func checkProcess(pid int) error {
	if !Alive(pid) {
		return fmt.Errorf("there is no process %d", pid)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil { // the process has exited in the meantime, or is hidden from us
		return nil
	}
	for line := range strings.Lines(string(status)) {
		text, ok := strings.CutPrefix(line, "Tgid:")
		if process, err := strconv.Atoi(strings.TrimSpace(text)); ok && err == nil && process != pid {
			return fmt.Errorf("%d is a thread of process %d: use -p %d", pid, process, process)
		}
	}
	return nil
}

// Alive reports whether a process is running. A zombie counts as running only if other threads than
// the first one are left.
func Alive(pid int) bool {
	if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return false
	}
	dir := fmt.Sprintf("/proc/%d", pid)
	stat, err := os.ReadFile(dir + "/stat") // "12 (name) Z ..."
	if i := bytes.LastIndexByte(stat, ')'); err != nil || i+2 >= len(stat) || stat[i+2] != 'Z' && stat[i+2] != 'X' {
		return true
	}
	threads, err := safefile.Entries(dir + "/task")
	return err == nil && len(threads) > 1
}

// Make creates the maps.
func (f *Filter) Make() error {
	if len(f.cgroups) > 0 {
		if err := f.holdCgroups(); err != nil {
			return err
		}
	}
	if f.follow {
		most, err := maxNumber()
		if err != nil {
			return err
		}
		return f.makeProcesses(most)
	}
	if len(f.pids) > 1 {
		return f.makeProcesses(slices.Max(f.pids) + 1)
	}
	return nil
}

func (f *Filter) holdCgroups() (err error) {
	f.held, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "btc_cgroups", Type: ebpf.CGroupArray, KeySize: 4, ValueSize: 4, MaxEntries: uint32(len(f.cgroups)),
	})
	if err != nil {
		return fmt.Errorf("the map of --cgroup: %w", err)
	}
	for i, d := range f.cgroups {
		if err := f.held.Put(uint32(i), uint32(d.FD())); err != nil {
			if d.Removed() {
				return fmt.Errorf("cgroup %s was removed", d.Text)
			}
			return fmt.Errorf("cgroup %s: %w", d.Text, err)
		}
	}
	return nil
}

// makeProcesses creates the map with one byte per process, for process IDs below a limit.
func (f *Filter) makeProcesses(limit int) error {
	page := os.Getpagesize()
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "btc_processes", Type: ebpf.Array, KeySize: 4, ValueSize: uint32((limit + page - 1) / page * page),
		MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE,
	})
	if err == nil {
		f.processes = m
		f.bytes, err = m.Memory()
	}
	if err != nil {
		return fmt.Errorf("the map of processes: %w", err)
	}
	for _, pid := range f.pids {
		if err := f.set(pid, 1); err != nil {
			return err
		}
	}
	return nil
}

// set sets the byte of a process.
func (f *Filter) set(pid int, to byte) error {
	_, err := f.bytes.WriteAt([]byte{to}, int64(pid))
	return err
}

// Prologue returns the filter that programs begin with.
func (f *Filter) Prologue() rewrite.Filter {
	var out rewrite.Filter
	switch {
	case f.processes != nil:
		out.Processes, out.ProcessBytes = f.processes.FD(), int(f.processes.ValueSize())
	case len(f.pids) == 1:
		out.PID = f.pids[0]
	}
	if f.held != nil {
		out.Cgroups, out.NumCgroups = f.held.FD(), len(f.cgroups)
	}
	return out
}

// Ended removes a process from the filter, because its ID may be reused.
func (f *Filter) Ended(pid int) {
	if f.bytes != nil && !f.follow {
		f.set(pid, 0)
	}
}

// Removed returns the cgroups that no longer exist, by the names passed to New; all reports whether
// none is left. A nil Filter has none.
func (f *Filter) Removed() (gone []string, all bool) {
	if f == nil {
		return nil, false
	}
	for _, d := range f.cgroups {
		if d.Removed() {
			gone = append(gone, d.Text)
		}
	}
	return gone, len(gone) > 0 && len(gone) == len(f.cgroups)
}

// Close frees the maps; nil has none.
func (f *Filter) Close() {
	if f == nil {
		return
	}
	for _, d := range f.cgroups {
		d.Close()
	}
	if f.link != nil {
		f.link.Close()
	}
	f.tracker.Close()
	f.held.Close()
	f.processes.Close()
}
