// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"btc/compile"
	"btc/internal/option"
	"btc/passes"
)

func passesCommand() *command {
	var stats bool
	return &command{
		name: "passes", operands: "[--stats SCRIPT.bt ...]", summary: "list the compiler's passes and their order constraints", files: []string{"bt"},
		about:   "btc compile --dump=PASS prints the intermediate code after a pass.",
		options: option.Table{{Name: "stats", To: &stats, Help: "compile the scripts with all passes and without each optional one, and report what each pass costs and saves"}},
		run: func(line *option.Line) int {
			switch args := line.All(); {
			case stats && len(args) == 0:
				return fail("no script to measure the passes with")
			case stats:
				return passStats(os.Stdout, args)
			case len(args) > 0:
				return fail("unexpected argument %q", args[0])
			}
			listPasses(os.Stdout)
			return 0
		},
	}
}

func listPasses(w io.Writer) {
	for _, p := range passes.Pipeline() {
		fmt.Fprintf(w, "%-20s %s\n", p.Name, p.Doc)
	}
	fmt.Fprintln(w, "\nOrder:")
	for _, o := range passes.Orders() {
		fmt.Fprintf(w, "%-20s before %-20s %s\n", o.First, o.Then, o.Reason)
	}
}

// skipOption returns the option that leaves out a pass, to find what it is worth.
func skipOption(to *string) option.Option {
	return option.Option{Name: "skip-pass", Value: "NAME", Hidden: true, To: func(name string) error {
		if !slices.Contains(passes.Optional(), name) {
			return fmt.Errorf("--skip-pass: expected one of %s, found %q", strings.Join(passes.Optional(), ", "), name)
		}
		*to = name
		return nil
	}}
}

// passStat is what is known of a pass after some scripts. Passes that run several times have one.
type passStat struct {
	took      time.Duration
	functions int // changed, summed over the pass's runs
	// Without the pass:
	scripts int // whose number of instructions differs
	insns   int // more instructions
	refused int // scripts that do not compile
}

// passStats compiles scripts for the default targets, without reading anything of the host, and prints a
// line for each pass.
func passStats(w io.Writer, paths []string) int {
	var targets targetFlags
	target, others, err := targets.open()
	if err != nil {
		return fail("%v", err)
	}
	stats := map[string]*passStat{}
	for _, p := range passes.Pipeline() {
		stats[p.Name] = &passStat{}
	}
	insns, took := 0, time.Duration(0)
	for _, path := range paths {
		text, err := readScript(path)
		if err != nil {
			return fail("%v", err)
		}
		in := compile.Input{Name: path, Text: text, Target: target, Others: others, Optional: true, Compiler: "btc " + version}
		in.Measure = func(pass string, d time.Duration, changed int) {
			took += d
			stats[pass].took += d
			stats[pass].functions += changed
		}
		out, diags := compile.Compile(in)
		if out == nil {
			return fail("%v", diags.Err())
		}
		all := numInsns(out)
		insns += all
		in.Measure = nil
		for _, in.SkipPass = range passes.Optional() {
			s := stats[in.SkipPass]
			without, _ := compile.Compile(in)
			if without == nil {
				s.refused++
				continue
			}
			if more := numInsns(without) - all; more != 0 {
				s.scripts++
				s.insns += more
			}
		}
	}
	fmt.Fprintf(w, "%d scripts, %d instructions, %d ms in all passes\n\n", len(paths), insns, took.Milliseconds())
	fmt.Fprintf(w, "%-39s   without the pass: scripts and instructions\n%-20s %8s %9s   %7s %7s %8s %8s\n", "", "pass", "ms", "functions", "scripts", "insns", "percent", "refused")
	seen := map[string]bool{}
	for _, p := range passes.Pipeline() {
		if seen[p.Name] {
			continue
		}
		seen[p.Name] = true
		s := stats[p.Name]
		fmt.Fprintf(w, "%-20s %8.1f %9d", p.Name, s.took.Seconds()*1000, s.functions)
		if p.Optional {
			fmt.Fprintf(w, "   %7d %+7d %+8.2f %8d", s.scripts, s.insns, 100*float64(s.insns)/float64(insns), s.refused)
		}
		fmt.Fprintln(w)
	}
	return 0
}

// numInsns returns the number of instructions of an object.
func numInsns(out *compile.Output) int {
	n := 0
	for _, f := range out.Funcs {
		n += f.NumInsns()
	}
	return n
}
