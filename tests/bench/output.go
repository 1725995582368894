// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// perCall is the number of lines printed per system call of the workload.
const perCall = 4

// rates are tried in this order, in lines per second.
var rates = []float64{0.02e6, 0.05e6, 0.1e6, 0.2e6, 0.4e6, 0.6e6, 0.8e6, 1e6, 1.2e6, 1.4e6, 1.6e6, 1.8e6, 2e6, 2.4e6, 2.8e6, 3.2e6, 4e6, 5e6}

// output determines the highest rate at which no printed line is lost, and the CPU time that the tool's
// process uses per line. The workload is pinned to one CPU, the reader is not; lines are written to a
// file.
func (b *bench) output() error {
	a := axis{Name: "output", Title: "Printed lines"}
	script := filepath.Join(b.root, "tests/bench/output/print.bt")
	length := 500 * time.Millisecond
	var highest, cpu [2][]float64
	err := b.alternate(b.rounds, func(k int, t tool) error {
		best := 0.0
		for _, rate := range rates {
			r, err := b.printed(t, script, rate, length)
			if err != nil {
				return err
			}
			if rate == rates[0] {
				cpu[k] = append(cpu[k], r.cpuNs/r.lines)
			}
			if r.lost || r.rate < best {
				break
			}
			best = r.rate
		}
		highest[k] = append(highest[k], best/1e6)
		return nil
	})
	if err != nil {
		return err
	}
	a.add(paired("lines a second without loss", "million", highest[0], highest[1]))
	a.Rows[0].Note = largerIsBetter + "; the goal is 2"
	a.add(paired("CPU time of the process for each line", "ns", cpu[0], cpu[1]))
	if a.Rows[0].Ratio > 0 {
		a.mean("lines a second (inverse ratio)", 1/a.Rows[0].Ratio, 0.5)
	}
	a.mean("CPU time for each line", a.Rows[1].Ratio, 0.4)
	b.result.put(a)
	return nil
}

type printed struct {
	rate  float64 // lines per second that the workload achieved
	lines float64
	cpuNs float64
	lost  bool
}

// printed generates lines at a rate for some time.
func (b *bench) printed(t tool, script string, rate float64, length time.Duration) (printed, error) {
	var r printed
	out := filepath.Join(b.dir, "printed")
	os.Remove(out)
	command, err := t.prepare(script, out)
	if err != nil {
		return r, err
	}
	tr, err := start(command())
	if err != nil {
		// The line that reports the attachment may be in the file.
		return r, err
	}
	bind()
	cpuBefore, _, err := tr.usage()
	if err != nil {
		return r, err
	}
	calls, took := paced(rate/perCall, length)
	// The reader empties the buffer. The time that this takes counts only as CPU time.
	want := calls * perCall
	for last := time.Now(); time.Since(last) < 300*time.Millisecond; time.Sleep(20 * time.Millisecond) {
	}
	cpuAfter, _, err := tr.usage()
	if err != nil {
		return r, err
	}
	if _, _, err := tr.stop(); err != nil {
		return r, err
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return r, err
	}
	got := bytes.Count(text, []byte(" end\n"))
	r.lines = float64(got)
	r.rate = float64(want) / took.Seconds()
	r.cpuNs = float64(cpuAfter - cpuBefore)
	r.lost = got != want
	if got == 0 {
		return r, fmt.Errorf("no output: %s", strings.TrimSpace(string(text)))
	}
	return r, nil
}

// paced makes calls at a rate and returns their number and the time they took.
func paced(rate float64, length time.Duration) (int, time.Duration) {
	var old, one unix.CPUSet
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.SchedGetaffinity(0, &old) == nil {
		one.Set(0)
		unix.SchedSetaffinity(0, &one)
		defer unix.SchedSetaffinity(0, &old)
	}
	start := time.Now()
	n := 0
	for {
		elapsed := time.Since(start)
		if elapsed >= length {
			return n, elapsed
		}
		for due := int(elapsed.Seconds()*rate) + 1; n < due; n++ {
			unix.RawSyscall(unix.SYS_GETPGID, uintptr(1<<22+n&0xfff), 0, 0)
			if n&0xfff == 0xfff && time.Since(start) >= length {
				break
			}
		}
	}
}
