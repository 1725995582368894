// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// What the children of TestLimits compute and allocate.
var (
	spent int
	kept  [][]byte
)

// TestLimits checks that the limit of a compilation is CPU time, and that of waiting ten times as much. The test runs
// itself as the program that is ended.
func TestLimits(t *testing.T) {
	l := limits{200 * time.Millisecond, 1 << 30}
	switch os.Getenv("BTC_TEST_LIMITS") {
	case "compute":
		defer l.watch()()
		for i := 0; ; i++ {
			spent += i
		}
	case "wait": // longer than the CPU time
		stop := l.watch()
		time.Sleep(3 * l.time)
		stop()
		return
	case "hang":
		defer l.watch()()
		time.Sleep(time.Minute)
	case "allocate":
		l.memory = 64 << 20
		l.time = time.Minute
		defer l.watch()()
		for ; ; time.Sleep(time.Millisecond) {
			kept = append(kept, make([]byte, 1<<20))
		}
	}
	for do, want := range map[string]string{"compute": "takes more than 200ms of CPU time", "wait": "", "hang": "takes more than 2s,", "allocate": "takes more than 64 MiB of memory"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLimits$")
		cmd.Env = append(os.Environ(), "BTC_TEST_LIMITS="+do)
		out, err := cmd.CombinedOutput()
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v\n%s", do, err, out)
			}
		} else if err == nil || !strings.Contains(string(out), "btc: this script "+want) || strings.Contains(string(out), "goroutine") {
			t.Errorf("%s: %v\n%.300s", do, err, out)
		}
	}
}
