// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"btc/cmd/btc/export"
	"btc/internal/option"
	"btc/loader/object"
)

// exportCommand writes configurations of other programs that run objects.
func exportCommand() *command {
	return &command{
		name:     "export",
		operands: "PROGRAM ...",
		summary:  "write the configuration with which another program runs an object",
		sub:      []*command{exportEBPFExporter()},
	}
}

func exportEBPFExporter() *command {
	return &command{
		name: "ebpf_exporter", operands: "FILE.o", summary: "write the YAML file with which ebpf_exporter serves an object's counters", files: []string{"o"},
		about: "ebpf_exporter reads NAME.yaml and NAME.bpf.o of one directory. Counts and sums become counters; what it\n" +
			"cannot show is named on the error output. docs/loaders.md says more.",
		run: func(line *option.Line) int {
			operands := line.All()
			if len(operands) != 1 {
				return fail("give one object: FILE.o of `btc compile`")
			}
			o, err := object.Read(operands[0])
			if err != nil {
				return fail("%v", err)
			}
			text, left, err := export.EBPFExporter(o.Manifest)
			for _, l := range left {
				fmt.Fprintf(os.Stderr, "btc: left out: %s\n", l)
			}
			if err != nil {
				return fail("%s: %v", operands[0], err)
			}
			fmt.Print(text)
			return 0
		},
	}
}
