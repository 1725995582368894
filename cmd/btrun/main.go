// SPDX-License-Identifier: Apache-2.0

//go:debug updatemaxprocs=0

// Btrun runs objects compiled by btc: it attaches their programs on this host and prints the script's output.
package main

import (
	"fmt"
	"os"
	"runtime"

	"btc/cmd/btrun/command"
	"btc/internal/quit"
)

// version is set by the linker.
var version = "devel"

// The begin and end programs run on the calling thread: the main one, so that their tid equals their pid.
func init() { runtime.LockOSThread() }

func main() {
	quit.Catch("btrun")
	carried, err := command.Bundle()
	if err != nil {
		fmt.Fprintf(os.Stderr, "btrun: %v\n", err)
		os.Exit(1)
	}
	os.Exit(command.Run(os.Args[1:], command.Streams{Out: os.Stdout, Err: os.Stderr, Version: version, Bundle: carried}))
}
