// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"btc/internal/merge"
	"btc/internal/option"
)

func mergeCommand() *command {
	var report mergedReport
	return &command{
		name: "merge", operands: "FILE.jsonl ...", summary: "combine the runs of one object on many hosts", files: []string{"jsonl", "json"},
		about: "Each FILE is the output of btrun -f json2; - is standard input. The report is what one host running " +
			"everything would print: counts, sums, averages, extremes, histograms and time series are exact.",
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
			runs, err := mergeFiles(files, report.by == "host")
			if err == nil {
				err = report.to(func(w io.Writer) error { return report.write(w, runs, nil, "", 0) })
			}
			if err != nil {
				return fail("%v", err)
			}
			return 0
		},
	}
}

// mergeFiles merges files on all CPUs.
func mergeFiles(files []string, byHost bool) (*merge.Runs, error) {
	all := make([]*merge.Runs, min(len(files), runtime.NumCPU()))
	next := make(chan string)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	for i := range all {
		all[i] = &merge.Runs{ByHost: byHost}
		wg.Go(func() {
			for name := range next {
				if err := mergeFile(all[i], name); err != nil {
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
				}
			}
		})
	}
	for _, f := range files {
		next <- f
	}
	close(next)
	wg.Wait()
	if first != nil {
		return nil, first
	}
	for _, r := range all[1:] {
		if err := all[0].Add(r); err != nil {
			return nil, err
		}
	}
	return all[0], nil
}

func mergeFile(r *merge.Runs, name string) error {
	in := io.Reader(os.Stdin)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	host := strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	cut, err := r.Read(host, in)
	if cut {
		fmt.Fprintf(os.Stderr, "btc: warning: %s ends within a line: only the complete lines are used\n", name)
	}
	return err
}
