// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/rewrite"
)

// Gate is the map of rewrite.Gate, which the objects of a run share that replace each other.
type Gate struct {
	words *ebpf.Map
	bytes *ebpf.Memory
	cpus  int
	// preemptible: a task can be interrupted between two programs of a tracepoint of system calls.
	preemptible bool
	// The attach points of the object that counts; of the one that Of was called for last; and, since Switch, of the one
	// that counted before.
	now, next, before map[string]gateSlot
}

// gateSlot is the slot of an attach point.
type gateSlot struct {
	slot      int
	unordered bool // the order of its programs is not known
	tasks     bool // tasksOldFirst
}

// NewGate creates the map, open for generation 0, on a host with this many possible CPUs. preemptible says that a task can be
// interrupted between two programs of a tracepoint of system calls: they are preemptible since Linux 6.13, and only each program
// is not (__BPF_DECLARE_TRACE_SYSCALL of include/trace/bpf_probe.h).
func NewGate(cpus int, preemptible bool) (*Gate, error) {
	g := &Gate{cpus: cpus, preemptible: preemptible}
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "btc_gate", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(rewrite.GateLine * (1 + rewrite.GateTasks + cpus)), MaxEntries: 1,
		Flags: unix.BPF_F_MMAPABLE,
	})
	if err == nil {
		g.words = m
		g.bytes, err = m.Memory()
	}
	if err != nil {
		return nil, fmt.Errorf("the map of --reload: %w", err)
	}
	return g, nil
}

// Of returns the gate of the programs of each clause of an object. Programs with the same attach point, in two objects,
// have the same slot; in one object they have different ones as long as there are enough. The object is the first one,
// or one that may replace the one that counts.
func (g *Gate) Of(m *manifest.Manifest, generation byte) map[string]rewrite.Gate {
	all, seen := map[string]rewrite.Gate{}, map[string]int{}
	var used [rewrite.GateLine]bool
	for _, s := range g.now {
		used[s.slot] = true
	}
	g.next = map[string]gateSlot{}
	for i := range m.Programs {
		p := &m.Programs[i]
		key := p.Attach.Attaches(p.Kind)
		seen[key]++
		key += " " + strconv.Itoa(seen[key])
		order := orderOf(p.Kind)
		if order == oldFirst && g.preemptible && ofSystemCalls(p) {
			order = tasksOldFirst
		}
		gate := rewrite.Gate{Map: g.words.FD(), CPUs: g.cpus, Generation: generation, Direct: order == apart}
		if gate.Direct {
			all[p.Name] = gate
			continue
		}
		s, ok := g.now[key]
		if !ok {
			if s = (gateSlot{slices.Index(used[:], false), order == unknown, order == tasksOldFirst}); s.slot < 0 {
				s.slot = len(g.next) % rewrite.GateLine
			}
			used[s.slot] = true
		}
		g.next[key] = s
		gate.Slot, gate.NewFirst, gate.ByTask = s.slot, order == tasksNewFirst, order == tasksNewFirst || s.tasks
		all[p.Name] = gate
	}
	if g.now == nil {
		g.now = g.next
	}
	return all
}

// order is the order in which the programs of an event run.
type order int

const (
	unknown       order = iota
	oldFirst            // in which they were attached
	tasksOldFirst       // the same, in a task that can be interrupted in between
	tasksNewFirst       // the opposite one, also in such a task
	apart               // each has its own events
)

// orderOf returns the order for a kind of probes. Programs of a tracepoint are in an array that grows at its end
// (bpf_prog_array_copy), and so are the functions of a raw one (func_add of kernel/tracepoint.c). The consumers of a
// uprobe are in a list that grows at its head (consumer_add of kernel/events/uprobes.c). Timers and counters have a perf
// event for each program.
func orderOf(kind string) order {
	switch kind {
	case probe.Tracepoint, probe.RawTracepoint:
		return oldFirst
	case probe.Uprobe, probe.Uretprobe, probe.USDT:
		return tasksNewFirst
	case probe.Profile, probe.Interval, probe.Hardware:
		return apart
	}
	return unknown
}

// ofSystemCalls reports whether a tracepoint or raw tracepoint is one of system calls.
func ofSystemCalls(p *manifest.Program) bool {
	text := p.Attach.Attaches(p.Kind)
	return strings.Contains(text, ":syscalls:") || strings.HasSuffix(text, ":sys_enter") || strings.HasSuffix(text, ":sys_exit")
}

// Switch makes another generation count, from one event to the next: one byte changes.
func (g *Gate) Switch(to byte) error {
	g.before, g.now = g.now, g.next
	_, err := g.bytes.WriteAt([]byte{to}, 0)
	return err
}

// interrupted is how long a task may be interrupted between two programs of an event. RCU does not wait for these.
const interrupted = 50 * time.Millisecond

// Settle sets the copies of all CPUs, and of tasks where the old program runs first: without it, nothing would set them. It must
// be called when no event of before the switch is being handled any more. It returns how many events may have been counted by neither generation, because the order of their programs is not known.
func (g *Gate) Settle(to byte) (missed int) {
	const first = rewrite.GateLine * (1 + rewrite.GateTasks)
	var unordered [rewrite.GateLine]bool
	for key, s := range g.now {
		if _, both := g.before[key]; both && s.unordered {
			unordered[s.slot] = true
		}
	}
	lines := make([]byte, rewrite.GateLine*g.cpus)
	g.bytes.ReadAt(lines, first) // it has this size
	for i := range lines {
		if lines[i] == to && unordered[i%rewrite.GateLine] {
			missed++
		}
	}
	g.fill(to, first, g.cpus)
	waited := false
	for _, s := range g.now {
		if !s.tasks {
			continue
		}
		if !waited {
			time.Sleep(interrupted)
			waited = true
		}
		for task := range rewrite.GateTasks {
			g.bytes.WriteAt([]byte{to}, int64(rewrite.GateLine*(1+task)+s.slot))
		}
	}
	return missed
}

// SettleTasks sets the copies of all tasks. It must be called when the programs of before the switch are detached.
func (g *Gate) SettleTasks(to byte) { g.fill(to, rewrite.GateLine, rewrite.GateTasks) }

func (g *Gate) fill(to byte, from int64, lines int) {
	b := make([]byte, rewrite.GateLine*lines)
	for i := range b {
		b[i] = to
	}
	g.bytes.WriteAt(b, from)
}

// Close frees the map; nil has none.
func (g *Gate) Close() {
	if g != nil {
		g.words.Close()
	}
}
