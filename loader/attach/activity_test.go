// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"time"

	"golang.org/x/sys/unix"
)

// getpriority makes a system call that hardly any other process makes.
func getpriority() { unix.Getpriority(unix.PRIO_PROCESS, 0) }

// deadline returns a function that reports whether the test has waited long enough.
func deadline() func() bool {
	end := time.Now().Add(time.Minute)
	return func() bool { return time.Now().After(end) }
}

// spin keeps the CPU busy for a moment, for events that occur only on busy CPUs.
func spin() {
	for end := time.Now().Add(5 * time.Millisecond); time.Now().Before(end); {
	}
}
