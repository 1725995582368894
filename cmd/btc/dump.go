// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"btc/passes"
)

// dumpStages are the stages of --dump besides the passes.
var dumpStages = []string{"all", "ast", "input", "isel", "regalloc", "asm", "object", "manifest"}

// dumpAs maps the stage names of bpftrace's -d to those of btc.
var dumpAs = map[string][]string{
	"parse": {"ast"}, "types": {"ast"}, "codegen": {"input"}, "codegen-opt": {"regalloc"}, "dis": {"asm"}, "libbpf": {"object"}, "verifier": {},
}

func bpftraceStages() []string { return slices.Sorted(maps.Keys(dumpAs)) }

// addDump adds the stages of a list to those to print.
func (s *scriptFlags) addDump(list string) error {
	known := slices.Clone(dumpStages)
	for _, p := range passes.Pipeline() {
		known = append(known, p.Name)
	}
	if s.dump == nil {
		s.dump = map[string]bool{}
	}
	for _, word := range strings.Split(list, ",") {
		s.verifier = s.verifier || word == "verifier"
		for _, stage := range append(dumpAs[word], word) {
			switch {
			case slices.Contains(known, stage):
				s.dump[stage] = true
			case dumpAs[word] == nil:
				return fmt.Errorf("--dump: unknown stage %q; `btc passes` lists the passes, and there are %s", stage,
					strings.Join(dumpStages, ", "))
			}
		}
	}
	return nil
}

// dumpTo prints the wanted stages. With "all", passes that change nothing print only one line.
func dumpTo(w io.Writer, want map[string]bool) func(stage, text string) {
	last := ""
	return func(stage, text string) {
		text = strings.TrimRight(text, "\n")
		changed := text != last
		last = text
		switch {
		case want[stage] || want["all"] && changed:
			fmt.Fprintf(w, "==== %s ====\n%s\n", stage, text)
		case want["all"]:
			fmt.Fprintf(w, "==== %s: no change ====\n", stage)
		}
	}
}
