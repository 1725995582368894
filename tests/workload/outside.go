// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setupOutside generates load that a filter must exclude, until it is killed. It prints a line when it
// has started.
func setupOutside(args []string, _ *report) (func() error, error) {
	flags := flag.NewFlagSet("outside", flag.ContinueOnError)
	cgroups := flags.String("make", "", "make these cgroups, separated by commas, in which it does not run itself")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	for dir := range strings.SplitSeq(*cgroups, ",") {
		if err := os.MkdirAll(dir, 0o755); dir != "" && err != nil {
			return nil, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	null, err := unix.Open("/dev/null", unix.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	return func() error {
		fmt.Println("ready")
		for i := 0; ; i++ {
			var b [8]byte
			if err := raw(unix.SYS_WRITE, uintptr(null), uintptr(unsafe.Pointer(&b[0])), 8); err != nil {
				return err
			}
			if i%20 == 0 {
				pid, err := syscall.ForkExec(self, []string{self, "-report", os.DevNull, "true"}, &syscall.ProcAttr{})
				if err != nil {
					return err
				}
				var status syscall.WaitStatus
				if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
					return err
				}
			}
			time.Sleep(2 * time.Millisecond)
		}
	}, nil
}

// join moves this process into a cgroup.
func join(cgroup string) error {
	return os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
}
