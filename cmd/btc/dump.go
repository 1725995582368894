package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"btc/passes"
)

// dumpStages are the stages that --dump knows beside the passes.
var dumpStages = []string{"all", "ast", "input", "isel", "regalloc", "asm", "object", "manifest"}

// dumper prints the chosen stages to standard output.
func dumper(list string) (func(stage, text string), error) {
	known := slices.Clone(dumpStages)
	for _, p := range passes.Pipeline() {
		known = append(known, p.Name)
	}
	want := map[string]bool{}
	for _, s := range strings.Split(list, ",") {
		if !slices.Contains(known, s) {
			return nil, fmt.Errorf("--dump: there is no stage %q; `btc passes` lists the passes, and there are %s", s, strings.Join(dumpStages, ", "))
		}
		want[s] = true
	}
	return dumpTo(os.Stdout, want), nil
}

// dumpTo prints the wanted stages. Of the passes in "all", those that change
// nothing leave a line only.
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
