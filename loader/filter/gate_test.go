// SPDX-License-Identifier: Apache-2.0

//go:build linux

package filter

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/rewrite"
)

// gateCPUs is the number of CPUs of the gates of tests.
const gateCPUs = 3

// openGate returns a gate that generation 0 has passed.
func openGate(t *testing.T) *Gate {
	t.Helper()
	g, err := NewGate(gateCPUs, true)
	if errors.Is(err, os.ErrPermission) {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// probes returns the manifest of an object with a program for each function, named like it.
func probes(kind string, functions ...string) *manifest.Manifest {
	m := &manifest.Manifest{}
	for _, f := range functions {
		p := manifest.Program{Name: f, Kind: kind}
		p.Attach.Substitute = []string{f}
		m.Programs = append(m.Programs, p)
	}
	return m
}

// TestGateSlots replaces objects again and again, sometimes by one that fails, and checks that programs of one object have
// different slots, and those of the same attach point in two objects the same.
func TestGateSlots(t *testing.T) {
	g := openGate(t)
	now := g.Of(probes(probe.Kprobe, "stays", "stays", "first"), 0)
	for i := range 200 {
		g.Of(probes(probe.Kprobe, "stays", fmt.Sprint("fails", i), fmt.Sprint("fails as well", i)), byte(i+1))
		next := g.Of(probes(probe.Kprobe, fmt.Sprint("new", i), "stays", "also new"), byte(i+1))
		if next["stays"].Slot != now["stays"].Slot && i > 0 {
			t.Fatalf("reload %d: slots %d and %d for one attach point", i, now["stays"].Slot, next["stays"].Slot)
		}
		used := map[int]string{}
		for _, gates := range []map[string]rewrite.Gate{now, next} {
			for name, gate := range gates {
				if other := used[gate.Slot]; other != "" && other != name {
					t.Fatalf("reload %d: %s and %s share the slot %d", i, name, other, gate.Slot)
				}
				used[gate.Slot] = name
			}
		}
		if err := g.Switch(byte(i + 1)); err != nil {
			t.Fatal(err)
		}
		g.Settle(byte(i + 1))
		now = next
	}
}

// TestGateOfSystemCalls checks that tracepoints of system calls, between whose programs a task can be interrupted, have copies by
// task, which are set after the switch, and those of uprobes are not.
func TestGateOfSystemCalls(t *testing.T) {
	g := openGate(t)
	object := func() *manifest.Manifest {
		m := probes(probe.RawTracepoint, "sys_enter", "sched_switch")
		m.Programs = append(m.Programs, probes(probe.Uprobe, "f").Programs...)
		p := manifest.Program{Name: "write", Kind: probe.Tracepoint}
		p.Attach.Substitute = []string{"syscalls", "sys_enter_write"}
		m.Programs = append(m.Programs, p)
		return m
	}
	g.Of(object(), 0)
	gates := g.Of(object(), 1)
	if err := g.Switch(1); err != nil {
		t.Fatal(err)
	}
	g.Settle(1)
	for name, want := range map[string][2]bool{"sys_enter": {true, true}, "sched_switch": {false, false}, "write": {true, true}, "f": {true, false}} {
		var b [1]byte
		g.bytes.ReadAt(b[:], int64(rewrite.GateLine*rewrite.GateTasks+gates[name].Slot))
		if got := [2]bool{gates[name].ByTask, b[0] == 1}; got != want || gates[name].NewFirst != (name == "f") {
			t.Errorf("%s: by task, set after the switch: %v, want %v", name, got, want)
		}
	}
}

// TestGateMissed checks how many events may have been counted by neither object: one for each CPU on which a program of an
// unknown order, which both objects have, has met the switch.
func TestGateMissed(t *testing.T) {
	g := openGate(t)
	object, generation := map[string]rewrite.Gate{}, byte(0)
	reload := func(kind string) (missed int) {
		t.Helper()
		object = g.Of(probes(kind, "f", "g"), generation+1)
		generation++
		if err := g.Switch(generation); err != nil {
			t.Fatal(err)
		}
		for cpu := range gateCPUs - 1 { // the last one has had no event
			if _, err := g.bytes.WriteAt([]byte{generation}, int64(rewrite.GateLine*(1+rewrite.GateTasks+cpu)+object["f"].Slot)); err != nil {
				t.Fatal(err)
			}
		}
		return g.Settle(generation)
	}
	g.Of(probes(probe.Tracepoint, "f", "g"), generation)
	for i, c := range []struct {
		kind string
		want int
	}{
		{probe.Tracepoint, 0}, {probe.Kprobe, 0}, {probe.Kprobe, gateCPUs - 1}, {probe.Fexit, 0}, {probe.Fexit, gateCPUs - 1},
		{probe.Interval, 0}, {probe.Interval, 0}, {probe.Tracepoint, 0}, {probe.Uprobe, 0}, {probe.Uprobe, 0},
	} {
		if got := reload(c.kind); got != c.want {
			t.Errorf("reload %d, to %s: %d events may be missed, want %d", i, c.kind, got, c.want)
		}
		for _, gate := range object {
			if direct := c.kind == probe.Interval; gate.Direct != direct {
				t.Errorf("%s: Direct is %t", c.kind, gate.Direct)
			}
		}
	}
}
