// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// hostileNames are names of threads and files that contain escape sequences or newlines, are invalid
// UTF-8, or look like formats or JSON.
var hostileNames = []string{
	"\x1b[2J\x1b[1;1H", "\x1b]0;title\x07", "\xff\xfe\x80\x9b31m", "a b\tc\nd", "\r\x08\x7f", "%s%n%d%p", `"quo\te`, "\xc3\xa9\xe6\xbc\xa2", "\xc2\x9b31m\xe6", "@[x]: 1",
}

func setupHostile(args []string, r *report) (func() error, error) {
	flags := flag.NewFlagSet("hostile", flag.ContinueOnError)
	threads := flags.Int("threads", 100, "threads that are alive at once")
	depth := flags.Int("depth", 200, "calls below each other")
	spawn := flags.Int("spawn", 20, "children that exit at once")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	debug.SetMaxThreads(*threads + 1000)
	return func() error {
		var made atomic.Int64
		var ready, done sync.WaitGroup
		leave := make(chan struct{})
		for i := range *threads {
			ready.Add(1)
			done.Add(1)
			go func() {
				defer done.Done()
				runtime.LockOSThread() // never unlocked: the thread exits with this goroutine
				name := hostileNames[i%len(hostileNames)]
				if setThreadName(name) == nil {
					made.Add(1)
				}
				deep(*depth)
				path := []byte("/nowhere/" + name + "\x00")
				unix.Open(string(path[:len(path)-1]), unix.O_RDONLY, 0)
				ready.Done()
				<-leave
			}()
		}
		ready.Wait()
		var failed error
		for range *spawn {
			pid, err := syscall.ForkExec(self, []string{self, "-report", os.DevNull, "true"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
			if err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			var status syscall.WaitStatus
			syscall.Wait4(pid, &status, 0, nil)
		}
		close(leave)
		done.Wait()
		r.add("threads", made.Load())
		return failed
	}, nil
}

// deep makes a system call below n nested calls of itself.
//
//go:noinline
func deep(n int) int {
	if n == 0 {
		unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
		return 0
	}
	return deep(n-1) + 1
}
