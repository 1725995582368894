// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"btc/fleet/symbolize"
	"btc/internal/option"
	"btc/loader/diag"
)

// symbolizeOptions are the options of btc symbolize.
type symbolizeOptions struct {
	debug []string
	file  string
}

func symbolizeCommand() *command {
	r := new(symbolizeOptions)
	return &command{
		name: "symbolize", operands: "FILE.jsonl", summary: "add names and lines to the stacks of a recorded run", files: []string{"jsonl", "json", "gz", "zst"},
		about: "FILE is what btrun --record or btrun -f json2 wrote; - is standard input. Functions are found by the build ids in the " +
			"recording, in the symbol tables and the debug information of files below the directories of --debug: programs, " +
			"libraries, their debug files, vmlinux and modules. Functions that were inlined become frames of their own. The result is a " +
			"recording for btc replay. Names that the recording has stay as they are.",
		examples: []example{
			{"btc symbolize run.jsonl --debug /usr/lib/debug --debug build -o named.jsonl", "add what these directories know of the programs"},
			{"btc symbolize run.jsonl.gz --debug debug | btc replay -o run.pb.gz -", "make a profile with inlined functions and lines"},
		},
		options: option.Table{
			{Name: "debug", Value: "DIR", Repeat: true, To: &r.debug,
				Help: "search DIR, in the layout of /usr/lib/debug or of debuginfod's cache or in any other, or the file DIR; may be repeated"},
			{Name: "output", Short: "o", Value: "FILE", To: &r.file, Help: "write the recording to FILE, compressed if its name ends in .gz or .zst; default: standard output"},
		},
		run: func(line *option.Line) int {
			files := line.All()
			if len(files) != 1 {
				return fail("expected one file of btrun --record or btrun -f json2, or - for standard input; found %d", len(files))
			}
			if len(r.debug) == 0 {
				return fail("--debug DIR: nowhere to search for debug information")
			}
			if err := r.symbolize(files[0]); err != nil {
				return fail("%s", oneLine(err.Error()))
			}
			return 0
		},
	}
}

func (r *symbolizeOptions) symbolize(name string) error {
	if r.file == "-" {
		r.file = ""
	}
	if r.file != "" && isInput(name, r.file) {
		return fmt.Errorf("-o: %s is the recording", r.file)
	}
	warn := func(text string) { fmt.Fprintf(onTerminal(os.Stderr), "btc: warning: %s\n", diag.Printable(text)) }
	files, err := symbolize.NewFiles(r.debug, warn)
	if err != nil {
		return fmt.Errorf("--debug: %w", err)
	}
	defer files.Close()
	in, err := openRecording(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out := &compressed{Writer: os.Stdout}
	if r.file != "" {
		if out, err = createCompressed(r.file); err != nil {
			return err
		}
	}
	counts, cut, err := symbolize.Run(name, in, io.Writer(out), files)
	err = errors.Join(err, out.Close())
	if cut {
		warn(name + " ends within a line: only the complete lines are used")
	}
	if missing := files.Missing(); len(missing) > 0 {
		slices.Sort(missing)
		const shown = 8
		more := ""
		if len(missing) > shown {
			more = fmt.Sprintf(" and %d others", len(missing)-shown)
		}
		warn("no file with the build id of " + strings.Join(missing[:min(len(missing), shown)], ", ") + more)
	}
	if unnamed := counts.Frames - counts.Named; unnamed > 0 {
		warn(fmt.Sprintf("%d of %d frames have no name (%d have no build id)", unnamed, counts.Frames, counts.Unknown))
	}
	return err
}
