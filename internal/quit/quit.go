// SPDX-License-Identifier: Apache-2.0

// Package quit ends a program on SIGQUIT with one line. Without it, the Go runtime prints the stacks of all
// goroutines; it still does if the environment has a GOTRACEBACK, such as GOTRACEBACK=crash.
package quit

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// Status is the exit status: that of a process killed by SIGQUIT, as a shell reports it.
const Status = 128 + int(syscall.SIGQUIT)

var (
	caught = make(chan os.Signal, 1)
	before atomic.Pointer[func()]
)

// Catch makes SIGQUIT end the program, called name in the message, at once.
func Catch(name string) {
	if signal.Ignored(syscall.SIGQUIT) || os.Getenv("GOTRACEBACK") != "" {
		return
	}
	signal.Notify(caught, syscall.SIGQUIT)
	go func() {
		<-caught
		if f := before.Load(); f != nil {
			(*f)()
		}
		os.Stderr.WriteString(name + ": quit\n")
		os.Exit(Status)
	}()
}

// Before makes f run before the program ends.
func Before(f func()) { before.Store(&f) }

// Release lets the program handle SIGQUIT in another way.
func Release() { signal.Stop(caught) }
