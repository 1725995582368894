// SPDX-License-Identifier: Apache-2.0

// Command work causes the events that the tests in tests/loaders count: calls of lseek(2), all of which
// fail, with offsets from 0 to 11 in rotation, and as many calls of step, on one CPU.
package main

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	runtime.LockOSThread()
	var first unix.CPUSet
	first.Set(0)
	unix.SchedSetaffinity(0, &first)
	const calls = 4800
	for i := range calls {
		if i == calls-1 {
			time.Sleep(500 * time.Millisecond) // lets the reader of events sleep, so that it has to be woken
		}
		if i%400 == 0 {
			time.Sleep(5 * time.Millisecond) // the kernel's buffer cannot hold all events at the same time
		}
		unix.Seek(-1, int64(i%12), 0)
		step(i % 12)
		if i < 12 {
			unix.Openat(unix.AT_FDCWD, "/proc/version/absent", unix.O_CLOEXEC|unix.O_NOCTTY, 0)
		}
	}
}

// step is traced by uprobes; noinline keeps its calls.
//
//go:noinline
func step(n int) { runtime.KeepAlive(n) }
