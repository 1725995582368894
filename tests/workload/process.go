// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func setupSleep(args []string, r *report) (func() error, error) {
	flags := flag.NewFlagSet("sleep", flag.ContinueOnError)
	n := flags.Int("n", 1, "number of sleeps")
	each := flags.Duration("for", time.Millisecond, "length of a sleep")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	return func() error {
		for range *n {
			t := unix.NsecToTimespec(each.Nanoseconds())
			if err := raw(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0); err != nil {
				return err
			}
		}
		r.add("sleeps", *n)
		r.add("nanoseconds", each.Nanoseconds())
		return nil
	}, nil
}

func setupSpawn(args []string, r *report) (func() error, error) {
	flags := flag.NewFlagSet("spawn", flag.ContinueOnError)
	n := flags.Int("n", 1, "number of children")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return func() error {
		for range *n {
			pid, err := syscall.ForkExec(self, []string{self, "-report", os.DevNull, "true"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
			if err != nil {
				return err
			}
			r.add("child", pid)
			var status syscall.WaitStatus
			if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
				return err
			}
			if status.ExitStatus() != 0 {
				return fmt.Errorf("child exited with status %d", status.ExitStatus())
			}
		}
		r.add("children", *n)
		r.add("program", self)
		return nil
	}, nil
}

func setupFault(args []string, r *report) (func() error, error) {
	flags := flag.NewFlagSet("fault", flag.ContinueOnError)
	n := flags.Int("n", 1, "number of pages")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	page := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, *n*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	if err := unix.Madvise(mem, unix.MADV_NOHUGEPAGE); err != nil {
		return nil, err
	}
	return func() error {
		for i := range *n {
			mem[i*page] = 1
		}
		r.add("pages", *n)
		r.add("address", uintptr(unsafe.Pointer(&mem[0])))
		return nil
	}, nil
}

func setupBurn(args []string, r *report) (func() error, error) {
	flags := flag.NewFlagSet("burn", flag.ContinueOnError)
	d := flags.Duration("for", 100*time.Millisecond, "how long")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	return func() error {
		r.add("rounds", burnCPU(*d))
		return nil
	}, nil
}

// burnCPU computes for a given time. Its name shows up in user stacks.
//
//go:noinline
func burnCPU(d time.Duration) uint64 {
	rounds, x := uint64(0), uint64(1)
	for end := time.Now().Add(d); time.Now().Before(end); rounds++ {
		for range 1000 {
			x = x*6364136223846793005 + 1442695040888963407
		}
	}
	return rounds + x>>63
}

// setupPingpong starts a second thread, called "partner", that replies to each byte.
func setupPingpong(args []string, r *report) (func() error, error) {
	flags := flag.NewFlagSet("pingpong", flag.ContinueOnError)
	n := flags.Int("n", 1, "number of rounds")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	var ping, pong [2]int
	if err := unix.Pipe(ping[:]); err != nil {
		return nil, err
	}
	if err := unix.Pipe(pong[:]); err != nil {
		return nil, err
	}
	// Both threads wait in system calls that are invisible to Go's scheduler. Each needs its own P and
	// has it before the first byte is sent.
	runtime.GOMAXPROCS(max(4, runtime.NumCPU()))
	partner, known := make(chan int), make(chan bool)
	go func() {
		runtime.LockOSThread()
		if err := setThreadName("partner"); err != nil {
			panic(err)
		}
		partner <- unix.Gettid()
		<-known
		for passByte(unix.SYS_READ, ping[0]) == nil && passByte(unix.SYS_WRITE, pong[1]) == nil {
		}
	}()
	r.add("partner", <-partner)
	close(known)
	return func() error {
		for range *n {
			if err := passByte(unix.SYS_WRITE, ping[1]); err != nil {
				return err
			}
			if err := passByte(unix.SYS_READ, pong[0]); err != nil {
				return err
			}
		}
		r.add("rounds", *n)
		return nil
	}, nil
}

// passByte reads or writes one byte of a pipe; end of file is an error.
func passByte(number uintptr, fd int) error {
	var b [1]byte
	n, _, e := unix.RawSyscall(number, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), 1)
	switch {
	case e != 0:
		return e
	case n == 0:
		return os.ErrClosed
	}
	return nil
}
