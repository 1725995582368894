// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// latencyRates are the rates at which lines are timed, in lines per second.
var latencyRates = []int{10, 100, 900, 3000, 20_000, 100_000}

// latency measures the time from an event until its line reaches the reader of a pipe, the cost for
// both sides, and the loss in a burst if the reader is slow.
func (b *bench) latency() error {
	a := axis{Name: "latency", Title: "Time from an event to its line, and lines lost", Sides: b.sides()}
	script := filepath.Join(b.root, "tests/bench/output/stamp.bt")
	worst := [2]float64{}
	for _, rate := range latencyRates {
		var p50, p99, cpu, call [2][]float64
		err := b.alternate(b.rounds, func(k int, t tool) error {
			r, err := b.timed(t, script, rate)
			if err != nil {
				return err
			}
			p50[k], p99[k] = append(p50[k], r.p50), append(p99[k], r.p99)
			cpu[k], call[k] = append(cpu[k], r.cpuNs), append(call[k], r.callNs)
			return nil
		})
		if err != nil {
			return err
		}
		at := fmt.Sprintf("%d lines a second: ", rate)
		a.add(paired(at+"median", "ms", p50[0], p50[1]))
		a.add(paired(at+"99th percentile", "ms", p99[0], p99[1]))
		a.add(paired(at+"CPU time of the tracer for a line", "µs", cpu[0], cpu[1]))
		a.add(paired(at+"time of the traced call", "ns", call[0], call[1]))
		i := 0
		if rate >= 1000 {
			i = 1
		}
		worst[i] = max(worst[i], summarize(p50[0]).Median)
	}
	a.mean("worst median below 1,000 lines a second (ms)", worst[0], 2)
	a.mean("worst median at any rate (ms)", max(worst[0], worst[1]), 10)
	var lost [2][]float64
	err := b.alternate(b.rounds, func(k int, t tool) error {
		share, err := b.burst(t, script)
		lost[k] = append(lost[k], share)
		return err
	})
	if err != nil {
		return err
	}
	a.add(paired(fmt.Sprintf("lost from a burst of %d lines", burstLines), "%", lost[0], lost[1]))
	a.Rows[len(a.Rows)-1].Note = "from two CPUs, while the reader of the pipe pauses for a second"
	b.result.put(a)
	return nil
}

type timing struct{ p50, p99, cpuNs, callNs float64 }

// stamped starts a tracer that writes to a pipe and calls line to read each line, in order. wait waits
// for the tracer to exit and returns its error.
func stamped(command *exec.Cmd, line func(r *bufio.Reader) error) (t *tracer, wait func() error, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	command.Stdout, command.Stderr = w, w
	t = &tracer{cmd: command, started: time.Now()}
	if err := command.Start(); err != nil {
		r.Close()
		return nil, nil, err
	}
	in := bufio.NewReaderSize(r, 1<<20)
	for !strings.HasPrefix(t.said, "Attached ") {
		if t.said, err = in.ReadString('\n'); err != nil {
			r.Close()
			return nil, nil, fmt.Errorf("%v: %v", err, command.Wait())
		}
	}
	done := make(chan error, 1)
	go func() {
		defer r.Close()
		err := error(nil)
		for err == nil {
			err = line(in)
		}
		if err == io.EOF {
			err = nil
		}
		done <- err
	}()
	return t, func() error {
		command.Process.Signal(unix.SIGINT)
		timer := time.AfterFunc(patience, func() { command.Process.Kill() })
		defer timer.Stop()
		err := <-done
		if e := command.Wait(); err == nil {
			err = e
		}
		return err
	}, nil
}

// timed generates lines at a rate and measures the time until each arrives.
func (b *bench) timed(t tool, script string, rate int) (timing, error) {
	var r timing
	command, err := t.prepare(script, "")
	if err != nil {
		return r, err
	}
	var mu sync.Mutex
	var delays []float64
	tr, wait, err := stamped(command(), func(in *bufio.Reader) error {
		text, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		at, rest, _ := strings.Cut(text, " ")
		if sent, err := strconv.ParseInt(at, 10, 64); err == nil && strings.HasSuffix(rest, " stamp\n") {
			mu.Lock()
			delays = append(delays, float64(bootClock()-sent)/1e6)
			mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	length := time.Second
	if b.quick {
		length = 500 * time.Millisecond
	}
	length = max(length, time.Duration(10)*time.Second/time.Duration(rate)) // at least ten lines
	time.Sleep(300 * time.Millisecond)                                      // as after running for a while
	before, _, err := tr.usage()
	if err != nil {
		return r, err
	}
	calls, ns := steadily(rate, length)
	time.Sleep(200 * time.Millisecond)
	after, _, err := tr.usage()
	if err != nil {
		return r, err
	}
	if err := wait(); err != nil {
		return r, err
	}
	if len(delays) == 0 {
		return r, fmt.Errorf("none of %d lines arrived", calls)
	}
	slices.Sort(delays)
	quantile := func(q float64) float64 { return delays[int(q*float64(len(delays)-1))] }
	r.p50, r.p99 = quantile(0.5), quantile(0.99)
	r.cpuNs, r.callNs = float64(after-before)/float64(len(delays))/1e3, ns
	return r, nil
}

// steadily makes calls at a given rate from one CPU and sleeps between them if there is time. It
// returns the number of calls and their mean duration, without the slowest percent.
func steadily(rate int, length time.Duration) (calls int, ns float64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var took []float64
	start := time.Now()
	for {
		elapsed := time.Since(start)
		if elapsed >= length {
			break
		}
		for due := int(elapsed.Seconds()*float64(rate)) + 1; calls < due; calls++ {
			begin := time.Now()
			unix.RawSyscall(unix.SYS_GETPGID, uintptr(1<<22+calls&0xfff), 0, 0)
			took = append(took, float64(time.Since(begin)))
		}
		if rate < 10_000 {
			next := time.Duration(float64(calls) / float64(rate) * 1e9)
			ts := unix.NsecToTimespec(int64(next - time.Since(start)))
			unix.Nanosleep(&ts, nil)
		}
	}
	slices.Sort(took)
	sum := 0.0
	took = took[:max(len(took)*99/100, 1)]
	for _, v := range took {
		sum += v
	}
	return calls, sum / float64(len(took))
}

// bootClock reads the clock of nsecs.
func bootClock() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return ts.Nano()
}

const burstLines = 400_000

// burst generates lines at full speed from two CPUs while their reader pauses. It returns the
// percentage that did not arrive.
func (b *bench) burst(t tool, script string) (float64, error) {
	command, err := t.prepare(script, "")
	if err != nil {
		return 0, err
	}
	awake := make(chan struct{})
	got := 0
	_, wait, err := stamped(command(), func(in *bufio.Reader) error {
		<-awake
		text, err := in.ReadString('\n')
		if strings.HasSuffix(text, " stamp\n") {
			got++
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	var callers sync.WaitGroup
	for cpu := range 2 {
		callers.Go(func() {
			runtime.LockOSThread() // the thread, and with it its CPU affinity, ends with the goroutine
			var one unix.CPUSet
			one.Set(cpu)
			unix.SchedSetaffinity(0, &one)
			for i := range burstLines / 2 {
				unix.RawSyscall(unix.SYS_GETPGID, uintptr(1<<22+i&0xfff), 0, 0)
			}
		})
	}
	callers.Wait()
	time.Sleep(time.Second)
	close(awake)
	time.Sleep(2 * time.Second) // before the signal, the tracer may print what it has
	if err := wait(); err != nil {
		return 0, err
	}
	return math.Round(1e4*float64(burstLines-got)/burstLines) / 100, nil
}
