// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"btc/fleet/merge"
	"btc/internal/option"
)

func mergeCommand() *command {
	var report mergedReport
	return &command{
		name: "merge", operands: "FILE.jsonl ...", summary: "combine the runs of one object on many hosts", files: []string{"jsonl", "json"},
		about: "Each FILE is the output of btrun -f json2; - is standard input. The report is what one host running " +
			"everything would print: counts, sums, averages, extremes, histograms and time series are exact. A file that " +
			"cannot be read, or contradicts most of the others, is named and left out.",
		status: "0 if all files are in the report, 2 if some are not, 1 if none is or the command line is wrong.",
		examples: []example{
			{"btc merge web1.jsonl web2.jsonl", "print one report of two runs"},
			{"btc merge --by host --top 10 *.jsonl", "print the ten largest elements of each map, by host"},
		},
		options: report.table(),
		run: func(line *option.Line) int {
			files := line.All()
			if len(files) == 0 {
				return fail("no input: give files written by btrun -f json2, or - for standard input")
			}
			runs, bad := mergeFiles(files, report.by == "host")
			for _, err := range bad {
				fmt.Fprintf(onTerminal(os.Stderr), "btc: %s\n", oneLine(err.Error()))
			}
			if len(bad) == len(files) {
				return 1
			}
			if err := report.to(func(w io.Writer) error { return report.write(w, runs, nil, "", 0) }); err != nil {
				return fail("%v", err)
			}
			if len(bad) > 0 {
				return someFilesFailed(len(files)-len(bad), len(files))
			}
			return 0
		},
	}
}

// mergeFiles merges files on all CPUs. Its errors are about files that are not part of the result.
func mergeFiles(files []string, byHost bool) (*merge.Runs, []error) {
	set := &merge.Set{ByHost: byHost}
	bad := make([]error, len(files))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(len(files), runtime.NumCPU()) {
		wg.Go(func() {
			for i := range next {
				bad[i] = mergeFile(set, i, files[i])
			}
		})
	}
	for i := range files {
		next <- i
	}
	close(next)
	wg.Wait()
	runs, refused := set.Runs()
	for _, x := range refused {
		bad[x.Index] = x.Err
	}
	return runs, slices.DeleteFunc(bad, func(err error) bool { return err == nil })
}

func mergeFile(set *merge.Set, index int, name string) error {
	if strings.HasSuffix(name, ".o") {
		return fmt.Errorf("%s is an object: run it on each host with btrun -f json2 -o FILE.jsonl, and merge these files", name)
	}
	in, err := openRecording(name)
	if err != nil {
		return err
	}
	defer in.Close()
	base := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(name), ".gz"), ".zst")
	host := strings.TrimSuffix(base, filepath.Ext(base))
	cut, err := set.Read(index, host, in)
	if err != nil {
		hint := ""
		if errors.Is(err, merge.ErrNotJSON2) {
			hint = ": write it with btrun -f json2 -o FILE.jsonl, or btrun --record FILE.jsonl"
		}
		err = errors.New(name + strings.TrimPrefix(err.Error(), host) + hint)
	}
	if cut {
		fmt.Fprintf(os.Stderr, "btc: warning: %s ends within a line: only the complete lines are used\n", name)
	}
	return err
}

// someFilesFailed says that only n of all files were merged, and returns the exit status.
func someFilesFailed(n, all int) int {
	fmt.Fprintf(os.Stderr, "btc: %d of %d files in the report\n", n, all)
	return someHostsFailed
}
