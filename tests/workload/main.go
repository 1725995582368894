// SPDX-License-Identifier: Apache-2.0

// Workload generates activity that a test can count, such as writes of a given size or opened files. It
// first reports its pid, and at the end the exact counts, as "key value" lines.
//
//	workload [-comm NAME] [-report FILE] [-delay D | -wait-stdin] [-linger D] [-cgroup DIR] KIND [flags of KIND]
//	workload write -n 100 -size 64
//
// All activity is on the main thread (tid = pid), in raw system calls. The thread has the name given by
// -comm only during the activity, so a script that filters by this name sees neither the Go runtime nor
// the preparation nor the report.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	_ "btc/internal/quit" // has the entry point of tools/ldflags, with which tests build this program
)

// A kind is one kind of activity. setup parses the flags and prepares; the function that it returns
// runs while the thread has the active name.
type kind struct {
	name, help string
	setup      func(args []string, r *report) (activity func() error, err error)
}

func kinds() []kind {
	return []kind{
		{"open", "open and close files, some of which do not exist", setupOpen},
		{"write", "write to a file", setupWrite},
		{"read", "read from /dev/zero", setupRead},
		{"sleep", "sleep with nanosleep", setupSleep},
		{"tcp", "send over a TCP connection to itself", setupTCP},
		{"backlog", "open TCP connections to a listener whose queue is full", setupBacklog},
		{"unix", "send over a pair of UNIX domain sockets", setupUnix},
		{"shm", "make and remove a System V shared memory segment", setupShm},
		{"spawn", "start child processes that exit at once", setupSpawn},
		{"fault", "touch fresh pages of memory", setupFault},
		{"watch", "write to memory at a given address", setupWatch},
		{"burn", "use the CPU", setupBurn},
		{"pingpong", "wake and be woken by a second thread", setupPingpong},
		{"hostile", "threads and files with names that hurt terminals, deep stacks, short lives", setupHostile},
		{"outside", "write and start processes until it is killed", setupOutside},
		{"true", "nothing", func([]string, *report) (func() error, error) { return func() error { return nil }, nil }},
	}
}

// report collects the lines of the report. It is written in two parts, before and after the activity.
type report struct {
	buf bytes.Buffer
	out io.Writer
}

func (r *report) add(key string, value any) { fmt.Fprintf(&r.buf, "%s %v\n", key, value) }

func (r *report) flush() error {
	_, err := r.buf.WriteTo(r.out)
	return err
}

func init() {
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "workload:", err)
		os.Exit(1)
	}
}

func run() error {
	comm := flag.String("comm", "worker", "name of the thread while it is active (at most 15 bytes)")
	file := flag.String("report", os.Getenv("WORKLOAD_REPORT"), "file for the report (default $WORKLOAD_REPORT, or standard output)")
	delay := flag.Duration("delay", 0, "wait so long before the activity")
	linger := flag.Duration("linger", 0, "stay so long after the activity")
	wait := flag.Bool("wait-stdin", false, "wait for a line or the end of standard input before the activity")
	cgroup := flag.String("cgroup", "", "directory of a cgroup to move to before the activity")
	flag.Usage = usage
	flag.Parse()
	k, err := find(flag.Arg(0))
	if err != nil {
		return err
	}
	r := &report{out: os.Stdout}
	if *file != "" {
		f, err := os.OpenFile(*file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		r.out = f
	}
	r.add("pid", os.Getpid())
	if err := r.flush(); err != nil {
		return err
	}
	activity, err := k.setup(flag.Args()[1:], r)
	if err != nil {
		return fmt.Errorf("%s: %w", k.name, err)
	}
	if *cgroup != "" {
		if err := join(*cgroup); err != nil {
			return err
		}
	}
	time.Sleep(*delay)
	if *wait {
		os.Stdin.Read(make([]byte, 1))
	}
	err = active(*comm, activity)
	if err != nil {
		return fmt.Errorf("%s: %w", k.name, err)
	}
	time.Sleep(*linger)
	return r.flush()
}

func find(name string) (kind, error) {
	for _, k := range kinds() {
		if k.name == name {
			return k, nil
		}
	}
	return kind{}, fmt.Errorf("unknown kind %q (workload -h lists them)", name)
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: workload [flags] KIND [flags of KIND]\nkinds:")
	for _, k := range kinds() {
		fmt.Fprintf(os.Stderr, "  %-10s%s\n", k.name, k.help)
	}
	flag.PrintDefaults()
}

// active runs f while the thread is called name.
func active(name string, f func() error) error {
	if err := holdPreemption(); err != nil {
		return err
	}
	if err := setThreadName(name); err != nil {
		return err
	}
	err := f()
	return errors.Join(err, setThreadName("workload-done"))
}

// holdPreemption permanently blocks the Go scheduler's preemption signal on this thread, because it
// would interrupt sleeps.
func holdPreemption() error {
	set := uint64(1) << (unix.SIGURG - 1)
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, uintptr(unsafe.Pointer(&set)), 0, 8, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

func setThreadName(name string) error {
	var b [16]byte
	copy(b[:15], name)
	return raw(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&b[0])), 0)
}

// raw makes a system call without notifying the Go scheduler, which would otherwise pass the CPU to
// other threads or start new ones.
func raw(number, a, b, c uintptr) error {
	_, _, e := unix.RawSyscall(number, a, b, c)
	if e != 0 {
		return e
	}
	return nil
}
