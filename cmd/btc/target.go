// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"

	"btc/internal/option"
	"btc/targets/capture"
)

func targetCommand() *command {
	var captured, imported string
	return &command{
		name: "target", operands: "COMMAND ...", summary: "show, compare and make target files",
		about: "A target describes a kernel: its types, tracepoints, system calls and functions. btc compiles for targets and " +
			"checks objects against them, and never reads the host. Targets of three architectures are built in.",
		sub: []*command{
			{name: "show", operands: "[FILE]", summary: "describe a target file", files: []string{"target"}, run: targetShow},
			targetDiffCommand(),
			{
				name:     "capture",
				operands: "-o FILE",
				summary:  "make a target file of this host's kernel",
				examples: []example{{"btc target capture -o host.target", "describe this host's kernel (root)"}},
				options:  option.Table{outputTarget(&captured)},
				run:      func(line *option.Line) int { return targetCapture(line, captured) },
			},
			{
				name:     "import",
				operands: "RAW -o FILE",
				summary:  "make a target file from the output of btrun --capture on another host",
				examples: []example{{"btc target import host.tar -o host.target", "host.tar is from btrun --capture host.tar"}},
				options:  option.Table{outputTarget(&imported)},
				run:      func(line *option.Line) int { return targetImport(line, imported) },
			},
		},
	}
}

// outputTarget returns the option that names the target file to write.
func outputTarget(to *string) option.Option {
	return option.Option{Name: "output", Short: "o", Value: "FILE", To: to, Help: "target file to write"}
}

func targetShow(line *option.Line) int {
	args := line.All()
	if len(args) > 1 {
		return fail("unexpected argument %q: one target at a time", args[1])
	}
	name := strings.Join(args, "")
	t, err := openTarget(name)
	if err != nil {
		return fail("%v", err)
	}
	fmt.Printf("kernel:       %s\narchitecture: %s\n", t.Release(), t.Arch().Label)
	fmt.Printf("tracepoints:  %d\nsystem calls: %d\nfunctions:    %d\n", len(t.Tracepoints("*", "*")),
		len(t.Syscalls("*")), len(t.Funcs("*")))
	for _, g := range t.Gaps() {
		fmt.Printf("missing:      %s\n", g)
	}
	if err := t.Err(); err != nil {
		return fail("the target file is damaged: %v", err)
	}
	return 0
}

func targetCapture(line *option.Line, out string) int {
	if args := line.All(); len(args) > 0 {
		return fail("unexpected argument %q", args[0])
	}
	if out == "" {
		return fail("missing output file: use -o FILE")
	}
	b, err := capture.HostFile()
	if err != nil {
		return fail("cannot capture this host: %v", err)
	}
	return written(newFile{out, b})
}

// targetImport makes a target file from the output of btrun --capture.
func targetImport(line *option.Line, out string) int {
	operands := line.All()
	switch {
	case len(operands) == 0:
		return fail("expected the file that btrun --capture wrote")
	case len(operands) > 1:
		return fail("unexpected argument %q: one file at a time", operands[1])
	case out == "":
		return fail("missing output file: use -o FILE")
	}
	raw := operands[0]
	f, err := os.Open(raw)
	if err != nil {
		return fail("%v", err)
	}
	defer f.Close()
	b, err := capture.Import(f)
	if err != nil {
		return fail("%s: %v", raw, err)
	}
	return written(newFile{out, b})
}

// written writes a file and returns the exit status.
func written(f newFile) int {
	if err := writeFiles(f); err != nil {
		return fail("%v", err)
	}
	return 0
}
