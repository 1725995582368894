// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"btc/cmd/btc/cost"
	"btc/internal/kernelfs"
	"btc/internal/probe"
)

// pinned is memory that the garbage collector must not free while programs read it.
type pinned struct{ all [][]byte }

func (p *pinned) text(b []byte) uint64 {
	mem, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		panic(err)
	}
	copy(mem, b)
	p.all = append(p.all, mem)
	return uint64(uintptr(unsafe.Pointer(&mem[0])))
}

func (p *pinned) done() {
	for _, mem := range p.all {
		unix.Munmap(mem)
	}
}

// nothing returns an empty program.
func nothing(typ ebpf.ProgramType) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: typ, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
}

// target is a user program that calls an ordinary function and one with a USDT probe. It prints the ns
// per call for each: the fastest of many batches.
const target = `
#include <stdio.h>
#include <time.h>
__attribute__((noinline)) int entry(int i) { __asm__ volatile(""); return i + 1; }
__attribute__((noinline)) int marked(int i) { __asm__ volatile(".globl marker\n.type marker,@function\nmarker: nop\n.size marker, .-marker"); return i + 1; }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
#define FASTEST(call) ({ \
	double least = 1e18; \
	for (int b = 0; b < 50; b++) { \
		double begin = now(); \
		for (int i = 0; i < 100; i++) s += call(i); \
		double took = (now() - begin) / 100; \
		if (took < least) least = took; \
	} \
	least; })
int main(void) {
	volatile int s = 0;
	double a = FASTEST(entry), b = FASTEST(marked);
	printf("%f %f\n", a, b);
	return 0;
}`

// trapCosts measures the additional cost of an event to which an empty program is attached.
func (m *meter) trapCosts(t *cost.Table) error {
	measured := map[string]float64{}
	tracepoint, err := syscallCost(func() (*ebpf.Program, func() error, error) {
		return attachTracepoint("sys_enter_getpgid")
	})
	if err != nil {
		return err
	}
	measured[probe.Tracepoint] = tracepoint
	if raw, err := syscallCost(attachRaw); err == nil {
		measured[probe.RawTracepoint] = raw
	}
	if err := userCosts(measured); err != nil {
		fmt.Fprintf(os.Stderr, "costs: uprobes: %v\n", err)
	}
	for _, kind := range kinds() {
		p := cost.Probe{Kind: kind}
		if ns, ok := measured[kind]; ok {
			p.NS = &ns
		}
		switch {
		case p.NS != nil:
		case kind == probe.Profile || kind == probe.Interval || kind == probe.Software || kind == probe.Hardware:
			p.Note = "not measured: the interrupt of a perf event"
		case kind == probe.Iter:
			p.Note = "none: it runs once for each object"
		default:
			p.Note = "not measured: the machine of the table has no such probes"
		}
		t.Probes = append(t.Probes, p)
	}
	return nil
}

// statistics measures the overhead of enabled statistics per run.
func (m *meter) statistics(t *cost.Table) error {
	on, err := syscallCost(func() (*ebpf.Program, func() error, error) { return attachTracepoint("sys_enter_getpgid") })
	if err != nil {
		return err
	}
	for _, p := range t.Probes {
		if p.Kind == probe.Tracepoint {
			t.Statistics = round(max(on-*p.NS, 0))
		}
	}
	return nil
}

func attachTracepoint(name string) (*ebpf.Program, func() error, error) {
	prog, err := nothing(ebpf.TracePoint)
	if err != nil {
		return nil, nil, err
	}
	id, err := kernelfs.TracepointID("syscalls", name)
	if err != nil {
		return nil, nil, err
	}
	attr := &unix.PerfEventAttr{
		Type: unix.PERF_TYPE_TRACEPOINT, Size: unix.PERF_ATTR_SIZE_VER5, Config: uint64(id),
		Sample_type: unix.PERF_SAMPLE_RAW, Sample: 1, Wakeup: 1,
	}
	fd, err := unix.PerfEventOpen(attr, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, nil, fmt.Errorf("perf_event_open: %w", err)
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, prog.FD()); err != nil {
		return nil, nil, fmt.Errorf("attaching to a tracepoint: %w", err)
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		return nil, nil, fmt.Errorf("enabling a tracepoint: %w", err)
	}
	return prog, func() error { return unix.Close(fd) }, nil
}

func attachRaw() (*ebpf.Program, func() error, error) {
	prog, err := nothing(ebpf.RawTracepoint)
	if err != nil {
		return nil, nil, err
	}
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sys_enter", Program: prog})
	if err != nil {
		return nil, nil, err
	}
	return prog, l.Close, nil
}

// syscallCost returns the additional cost of a system call while a program is attached, in ns, measured
// as the fastest of many short batches to avoid interruptions. Another program stays attached to
// another event throughout, so that the system call's slow path is not attributed to the probe.
func syscallCost(attach func() (*ebpf.Program, func() error, error)) (float64, error) {
	const calls, tries = 1000, 30
	fastest := func() float64 {
		least := math.MaxFloat64
		for range tries {
			begun := time.Now()
			for range calls {
				unix.RawSyscall(unix.SYS_GETPGID, 1<<22, 0, 0)
			}
			least = min(least, float64(time.Since(begun).Nanoseconds())/calls)
		}
		return least
	}
	other, shutOther, err := attachTracepoint("sys_enter_chroot")
	if err != nil {
		return 0, err
	}
	defer other.Close()
	defer shutOther()
	without, with := math.MaxFloat64, math.MaxFloat64
	for range batches {
		without = min(without, fastest())
		prog, shut, err := attach()
		if err != nil {
			return 0, err
		}
		with = min(with, fastest())
		shut()
		prog.Close()
	}
	return round(max(with-without, 0)), nil
}

// userCosts measures probes in user programs.
func userCosts(measured map[string]float64) error {
	dir, err := os.MkdirTemp("", "costs")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	src, bin := filepath.Join(dir, "x.c"), filepath.Join(dir, "x")
	if err := os.WriteFile(src, []byte(target), 0o644); err != nil {
		return err
	}
	if out, err := exec.Command("gcc", "-O1", "-fcf-protection=none", "-o", bin, src).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	exe, err := link.OpenExecutable(bin)
	if err != nil {
		return err
	}
	call := func() (entry, marker float64, err error) {
		out, err := exec.Command(bin).Output()
		if err != nil {
			return 0, 0, err
		}
		f := bytes.Fields(out)
		if len(f) != 2 {
			return 0, 0, errors.New("want two numbers")
		}
		entry, _ = strconv.ParseFloat(string(f[0]), 64)
		marker, _ = strconv.ParseFloat(string(f[1]), 64)
		return entry, marker, nil
	}
	for kind, attach := range map[string]func(*ebpf.Program) (link.Link, error){
		probe.Uprobe:    func(p *ebpf.Program) (link.Link, error) { return exe.Uprobe("entry", p, nil) },
		probe.Uretprobe: func(p *ebpf.Program) (link.Link, error) { return exe.Uretprobe("entry", p, nil) },
		probe.USDT:      func(p *ebpf.Program) (link.Link, error) { return exe.Uprobe("marker", p, nil) },
	} {
		without, with := math.MaxFloat64, math.MaxFloat64
		for range 10 {
			entry, marker, err := call()
			if err != nil {
				return err
			}
			prog, err := nothing(ebpf.Kprobe)
			if err != nil {
				return err
			}
			l, err := attach(prog)
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			e, mk, err := call()
			l.Close()
			prog.Close()
			if err != nil {
				return err
			}
			if kind == probe.USDT {
				e, entry = mk, marker
			}
			without, with = min(without, entry), min(with, e)
		}
		measured[kind] = round(with - without)
	}
	return nil
}
