// SPDX-License-Identifier: Apache-2.0

// Package run runs the end-to-end cases of tests/kernels/testdata on the kernel of this machine, as far
// as it supports them.
//
//	go test ./tests/run                     as root
//	go test ./tests/run -case strings
//	go test ./tests/run -all                also the cases that trace every process
//	go test ./tests/run -oracle             the same cases with bpftrace
package run

import (
	"flag"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"btc/tests/kernels/suite"
)

var (
	only   = flag.String("case", "", "run only cases that match this regular expression")
	oracle = flag.Bool("oracle", false, "run the reference bpftrace (tests/setup/oracle.sh makes it) instead of btrun")
	all    = flag.Bool("all", os.Getenv("BTC_TEST_ALL") != "", "run also the cases that trace every process of this machine (default: $BTC_TEST_ALL is set)")
)

func TestRun(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip("skipped: ", err)
	}
	if _, err := os.Stat("../../build/oracle/version"); *oracle && err != nil {
		t.Skip("skipped: no reference bpftrace (tests/setup/oracle.sh makes it): ", err)
	}
	suite.New(t, regexp.MustCompile(*only), *oracle).Native(t, *all)
}
