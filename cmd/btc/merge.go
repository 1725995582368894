// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"btc/internal/merge"
	"btc/internal/option"
	"btc/loader/output"
)

func mergeCommand() *command {
	var by, file string
	form := output.Text.Name
	return &command{
		name: "merge", operands: "FILE.jsonl ...", summary: "add up the runs of one object on many hosts", files: []string{"jsonl", "json"},
		about: "Each FILE is the output of btrun -f json2; - is standard input. The report is that of one host that\n" +
			"had run it all: counts, sums, averages, extremes, histograms and time series are exact.",
		options: option.Table{
			{
				Name:    "by",
				Value:   "WHAT",
				Choices: option.Choices("host"),
				To:      &by,
				Help:    "host: the host is the first part of each key",
			},
			{
				Name:    "format",
				Short:   "f",
				Value:   "FORMAT",
				Choices: option.Choices(output.Text.Name, output.Lossless),
				To:      &form,
				Help:    "text or json2, which can be merged again; default: text",
			},
			{Name: "output", Short: "o", Value: "FILE", To: &file, Help: "write the report to FILE"},
		},
		run: func(line *option.Line) int {
			files := line.All()
			if len(files) == 0 {
				return fail("no runs: name files that btrun -f json2 wrote, or - for standard input")
			}
			runs, err := mergeFiles(files, by == "host")
			if err != nil {
				return fail("%v", err)
			}
			return writeReport(runs, form, file)
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
		fmt.Fprintf(os.Stderr, "btc: warning: %s ends within a line: what is before it counts\n", name)
	}
	return err
}

// writeReport writes merged maps.
func writeReport(runs *merge.Runs, form, file string) int {
	names, left := runs.Names()
	for _, name := range left {
		fmt.Fprintf(
			os.Stderr,
			"btc: warning: %s is left out: values that are assigned do not add up; --by host shows each host's\n",
			name,
		)
	}
	write := func(w io.Writer) error {
		out := bufio.NewWriter(w)
		now := time.Now()
		for _, name := range names {
			var b []byte
			if form == output.Lossless {
				b = runs.AppendJSON(nil, name, now)
			} else {
				b = append(runs.AppendText(nil, name), '\n')
			}
			out.Write(b)
		}
		return out.Flush()
	}
	if file == "" {
		if err := write(os.Stdout); err != nil {
			return fail("%v", err)
		}
		return 0
	}
	f, err := os.Create(file)
	if err != nil {
		return fail("%v", err)
	}
	err = write(f)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fail("%v", err)
	}
	return 0
}
