// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"btc/frontend/diag"
	"btc/internal/manifest"
)

// bpftraceVersion is the release of bpftrace that btc follows, in the form in which bpftrace prints its own.
const bpftraceVersion = "v" + manifest.Language

// bpftrace returns the command for a link to btc with that name: btc run without the word "run".
// It reports bpftrace's version.
func bpftrace(root *command, args []string) int {
	program := programCommand(root, "bpftrace")
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, program.help(program.name))
		return 1
	}
	if args[0] == "-V" || args[0] == "--version" {
		fmt.Printf("bpftrace %s\n", bpftraceVersion)
		return 0
	}
	return execute(program, args)
}

// listProgram prints the probes of a program given as source text.
func (l *lister) listProgram(target, text string) int {
	return l.print(target, func() error { return l.script(diag.Stdin, text) })
}
