// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"btc/compile"
	"btc/passes"
	"btc/report/stages"
)

// dumpStages are the stages of --dump besides the passes.
var dumpStages = []string{"all", "ast", "input", "isel", "regalloc", "asm", "object", "manifest", "html"}

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
		if word == "html" && list != "html" || word != "html" && s.dump["html"] || word == "html" && len(s.dump) > 0 {
			return errors.New("--dump: html has all stages: it is alone")
		}
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

// passDoc returns what a pass does.
func passDoc(stage string) string {
	switch stage {
	case "input":
		return "intermediate code as the script says it"
	case "isel":
		return "BPF instructions with virtual registers"
	case "regalloc":
		return "with the registers of BPF"
	}
	for _, p := range passes.Pipeline() {
		if p.Name == stage {
			return p.Doc
		}
	}
	return ""
}

// writeStages writes the page of a compilation, with what the kernel made of the object if it is loaded now; for an untrusted
// script, with nothing of this machine.
func (s *scriptFlags) writeStages(w io.Writer, page *stages.Stages, out *compile.Output) error {
	if f, ok := w.(*os.File); ok && isTerminal(f) {
		return errors.New("--dump=html writes a page for a browser: write it to a file, with > FILE.html")
	}
	n := 0
	var names []string
	for _, f := range out.Funcs {
		n += len(f.Insns) / 8
		names = append(names, out.Module.Symbol(f.Name))
	}
	page.Facts = []stages.Fact{{Name: "object", Value: fmt.Sprintf("%d bytes", len(out.Object))}, {Name: "functions", Value: fmt.Sprint(len(out.Funcs))}, {Name: "instructions", Value: fmt.Sprint(n)}, {Name: "compiler", Value: "btc " + version}}
	if s.untrusted {
		page.Kernel = &stages.Kernel{Absent: "--untrusted shows nothing of this machine."}
	} else {
		page.Kernel = loadedPrograms(names)
	}
	return page.Write(w)
}
