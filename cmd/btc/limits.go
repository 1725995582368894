// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"runtime/metrics"
	"time"
)

// limits bound the resources of one compilation, or check. They protect whoever compiles untrusted scripts from resource use
// that the checks of the language do not prevent.
type limits struct {
	time   time.Duration // CPU time; blockedFactor times as much wall clock time
	memory uint64        // bytes of the heap
}

// blockedFactor is for compilations that wait, for example for a file of a server that does not respond.
const blockedFactor = 10

var (
	usual  = limits{5 * time.Minute, 8 << 30} // ordinary scripts take milliseconds and megabytes
	strict = limits{10 * time.Second, 1 << 30}
)

// heapObjects is the metric of the heap's live and dead objects, in bytes.
const heapObjects = "/memory/classes/heap/objects:bytes"

// limits returns the limits for a script or object.
func (s *scriptFlags) limits() limits {
	if s.untrusted {
		return strict
	}
	return usual
}

// watch ends the program, before it writes anything, when a limit is exceeded; stop ends the watch.
func (l limits) watch() (stop func()) {
	done := make(chan struct{})
	go func() {
		begin, used := time.Now(), cpuTime()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		sample := []metrics.Sample{{Name: heapObjects}}
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			metrics.Read(sample)
			switch {
			case cpuTime()-used > l.time:
				l.end("takes more than %v of CPU time", l.time)
			case time.Since(begin) > blockedFactor*l.time:
				l.end("takes more than %v", blockedFactor*l.time)
			case sample[0].Value.Uint64() > l.memory:
				l.end("takes more than %d MiB of memory", l.memory>>20)
			}
		}
	}()
	return func() { close(done) }
}

func (l limits) end(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "btc: this script "+format+", which is the limit\n", args...)
	os.Exit(1)
}
