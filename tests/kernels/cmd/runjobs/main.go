// SPDX-License-Identifier: Apache-2.0

// Runjobs runs jobs of package driver. It reads them as JSON from the file named by its argument and
// writes records to standard output. The test suites start it in a guest or, in its own mount
// namespace, on the host.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"btc/tests/kernels/driver"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "runjobs:", err)
		os.Exit(1)
	}
}

func run() error {
	args, work := os.Args[1:], driver.RunAll
	if len(args) == 2 && args[0] == "-dry" {
		args, work = args[1:], driver.Dry
	}
	if len(args) != 1 {
		return fmt.Errorf("usage: runjobs [-dry] FILE")
	}
	b, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var jobs []driver.Job
	if err := json.Unmarshal(b, &jobs); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	// Containers often lack tracefs. The features report whether mounting it worked.
	const tracefs = "/sys/kernel/tracing"
	if _, err := os.Stat(filepath.Join(tracefs, "events")); err != nil {
		_ = unix.Mount("tracefs", tracefs, "tracefs", 0, "")
	}
	return work(jobs, os.Stdout)
}
