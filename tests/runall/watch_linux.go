// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// watched returns the arguments of go test that run each package's tests below "runall -watch D": the tests end if they
// print nothing for the duration D. The total time is not limited: a busy machine is slower.
func watched(stall time.Duration) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return []string{"-timeout", "0", "-exec", fmt.Sprintf("'%s' -watch %v --", self, stall)}, nil
}

// gone is how long a program has for its traceback after SIGQUIT.
const gone = 10 * time.Second

// watch runs a program until it ends, or prints nothing for the duration stall, and returns its exit status. It leaves
// no process behind, also if the program is killed: emulated machines, for example, would take the CPU from the next run.
func watch(args []string, stall time.Duration) int {
	// Processes whose parents end become children of this one.
	unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	defer endChildren()
	cmd := exec.Command(args[0], args[1:]...)
	out := &printing{to: os.Stdout}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, out
	cmd.WaitDelay = gone // a child of the tests may keep the pipe
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "runall:", err)
		return 2
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
	orphans := make(chan os.Signal, 1)
	signal.Notify(orphans, unix.SIGCHLD)
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(min(stall/4, time.Second))
	defer tick.Stop()
	for last, since := int64(-1), time.Now(); ; {
		select {
		case err := <-done:
			var exit *exec.ExitError
			switch {
			case errors.As(err, &exit) && exit.ExitCode() >= 0:
				return exit.ExitCode()
			case err != nil && !errors.Is(err, exec.ErrWaitDelay):
				fmt.Fprintln(os.Stderr, "runall:", err)
				return 2
			}
			return 0
		case <-orphans: // tests look for processes that are left: one that has ended must not remain as a zombie
			for _, pid := range children() {
				if pid != cmd.Process.Pid {
					unix.Wait4(pid, nil, unix.WNOHANG, nil)
				}
			}
		case s := <-signals:
			cmd.Process.Signal(s)
			since = time.Now().Add(gone - stall)
		case <-tick.C:
			if n := out.n.Load(); n != last {
				last, since = n, time.Now()
			}
			if time.Since(since) < stall {
				continue
			}
			fmt.Fprintf(out, "panic: no output for %v\n", stall)
			cmd.Process.Signal(unix.SIGQUIT)
			select {
			case <-done:
			case <-time.After(gone):
				cmd.Process.Kill()
				<-done
			}
			return 2
		}
	}
}

// printing counts the bytes that it passes on.
type printing struct {
	to *os.File
	n  atomic.Int64
}

func (p *printing) Write(b []byte) (int, error) {
	p.n.Add(int64(len(b)))
	return p.to.Write(b)
}

// endChildren kills all descendants: those whose parent is this process, until there are none.
func endChildren() {
	for range 1000 {
		some := false
		for _, pid := range children() {
			unix.Kill(pid, unix.SIGKILL)
			some = true
		}
		for {
			if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
		if !some {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// children returns the direct children of this process, also those that have ended and not been waited for.
func children() (all []int) {
	self := strconv.Itoa(os.Getpid())
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
		f := strings.Fields(rest) // state, parent
		if len(f) < 2 || f[1] != self {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			all = append(all, pid)
		}
	}
	return all
}
