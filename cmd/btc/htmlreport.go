// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"btc/fleet/replay"
	"btc/internal/option"
	"btc/report/page"
)

// htmlReport holds the options of btc report.
type htmlReport struct {
	file, base string
	live       bool
	socket     string
	from, to   replay.Moment
}

func reportCommand() *command {
	r := new(htmlReport)
	moment := func(name string, to *replay.Moment) func(string) error {
		return func(text string) (err error) {
			if *to, err = replay.ParseMoment(text); err != nil {
				return fmt.Errorf("--%s: %w", name, err)
			}
			return nil
		}
	}
	return &command{
		name: "report", operands: "FILE.jsonl | --live FILE.bt | --live FILE.o [-- ARGUMENT ...]", summary: "make a page for a browser of a recorded run", files: []string{"jsonl", "json", "gz", "zst", "bt", "o"},
		about: "FILE is what btrun --record, btrun -f json2, btc merge -f json2 or btc fan -f json2 wrote, which may be " +
			"compressed with gzip or zstd; - is standard input. The page is one file that loads nothing: it shows flame " +
			"graphs, histograms, tables and the lines that the script printed, over time, with the script and what was lost. With " +
			"--live, it runs a script or an object as btc run does, with the arguments after --, and shows the run while it goes on, " +
			"at an address of this machine with a secret in it.",
		examples: []example{
			{"btc report run.jsonl -o run.html", "make a page of a run"},
			{"btc report --diff before.jsonl after.jsonl -o after.html", "compare a run with an earlier one"},
			{"btc report --live opens.bt -- --every 500ms", "show a run while it goes on (root)"},
			{"btc report web.jsonl -o web.html", "show the hosts of btc merge --by host -f json2 side by side"},
		},
		options: option.Table{
			{Name: "output", Short: "o", Value: "FILE", To: &r.file, Help: "write the page to FILE; default: the name of the recording with .html; - is standard output"},
			{Name: "diff", Value: "BASE", To: &r.base, Help: "compare with the recording BASE, of the same script"},
			{Name: "live", To: &r.live, Help: "run FILE, and serve its page until Ctrl-C; -o also writes it at the end"},
			{Name: "socket", Value: "PATH", To: &r.socket, Help: "with --live: serve on a Unix socket that only this user can open, instead of a port of 127.0.0.1"},
			{Name: "from", Value: "TIME", To: moment("from", &r.from),
				Help: "leave out what was before TIME: a time since the start of the run, such as 90s, or one such as 2026-11-21T14:24:09Z"},
			{Name: "to", Value: "TIME", To: moment("to", &r.to), Help: "leave out what was after TIME"},
		},
		run: func(line *option.Line) int {
			if r.live {
				return r.show(line.Operands, line.After)
			}
			if r.socket != "" {
				return fail("--socket is for --live")
			}
			files := line.All()
			if len(files) != 1 {
				return fail("expected one file of btrun --record or btrun -f json2, or - for standard input; found %d", len(files))
			}
			if err := r.write(files[0]); err != nil {
				return fail("%s", oneLine(err.Error()))
			}
			return 0
		},
	}
}

// write writes the page of a recording.
func (r *htmlReport) write(name string) error {
	file := r.file
	if file == "" {
		file = pageName(name)
	}
	if file != "-" && (isInput(name, file) || r.base != "" && isInput(r.base, file)) {
		return fmt.Errorf("-o: %s is the recording", file)
	}
	if name == "-" && r.base == "-" {
		return errors.New("--diff: standard input is the other recording")
	}
	opts := replay.Options{From: r.from, To: r.to}
	if err := notRecording(name); err != nil {
		return err
	}
	d, failed := readPage(name, opts)
	if d == nil {
		return failed
	}
	if (r.from.Given || r.to.Given) && len(d.Maps) == 0 && d.Events == nil {
		fmt.Fprintf(os.Stderr, "btc: warning: %s has nothing in this part of the run\n", name)
	}
	var base *page.Data
	if r.base != "" {
		var err error
		if base, err = readPage(r.base, replay.Options{}); err != nil {
			return err
		}
		if !shareMap(d, base) {
			fmt.Fprintf(os.Stderr, "btc: warning: --diff: %s has none of the maps of %s: nothing is compared\n", r.base, name)
		}
	}
	r.file = file
	return errors.Join(r.writePage(d, base), failed) // what precedes an error in the recording is shown
}

// notRecording returns an error for a file that is made before a run, or after it.
func notRecording(name string) error {
	kind := map[string]string{".bt": "a script", ".o": "an object"}[filepath.Ext(name)]
	i, err := os.Stat(name)
	switch {
	case name == "-" || err != nil: // opening it says why
		return nil
	case i.IsDir():
		return fmt.Errorf("%s is a directory: expected a recording of btrun --record", name)
	case kind != "":
		return fmt.Errorf("%s is %s, not a recording: btc report --live %s runs it and shows its page; btrun --record FILE records a run", name, kind, name)
	case filepath.Ext(name) == ".html":
		return fmt.Errorf("%s is a page: expected the recording that it was made of", name)
	case i.Mode().IsRegular() && i.Size() == 0:
		return fmt.Errorf("%s is empty: expected a recording of btrun --record", name)
	}
	return nil
}

// writePage writes a page.
func (r *htmlReport) writePage(d, base *page.Data) error {
	var text bytes.Buffer
	if err := page.Write(&text, d, base); err != nil {
		return err
	}
	if r.file == "-" {
		_, err := os.Stdout.Write(text.Bytes())
		return err
	}
	f, err := createCompressed(r.file)
	if err != nil {
		return err
	}
	_, err = f.Write(text.Bytes())
	return errors.Join(err, f.Close())
}

// shareMap reports whether two pages have a map that the page compares: of the same name, shape and number of keys.
func shareMap(a, b *page.Data) bool {
	return slices.ContainsFunc(a.Maps, func(m *page.Map) bool {
		return slices.ContainsFunc(b.Maps, func(o *page.Map) bool { return o.Name == m.Name && o.Shape == m.Shape && len(o.Keys) == len(m.Keys) })
	})
}

// pageName returns the name of the page of a recording; "-" for standard output.
func pageName(name string) string {
	if name == "-" {
		return "-"
	}
	for _, end := range []string{".gz", ".zst", ".jsonl", ".json"} {
		name = strings.TrimSuffix(name, end)
	}
	return name + ".html"
}

// readPage returns what a page shows of a recording; with an error, what precedes it, or nil.
func readPage(name string, opts replay.Options) (*page.Data, error) {
	in, err := openRecording(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	d, cut, err := replay.Page(filepath.Base(name), in, opts)
	if cut {
		fmt.Fprintf(os.Stderr, "btc: warning: %s ends within a line: only the complete lines are used\n", name)
	}
	return d, err
}
