// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/term"

	"btc/fleet/replay"
	"btc/internal/aggregate"
	"btc/internal/blocks"
	"btc/internal/color"
	"btc/internal/option"
	"btc/internal/safefile"
	"btc/loader/format"
	"btc/loader/options"
	"btc/loader/output"
)

// replayOptions are the options of btc replay.
type replayOptions struct {
	form, file, mapName string
	color               string
	from, to            replay.Moment
	buckets             aggregate.Range
}

// setBuckets returns the setter of the bounds of metrics.
func setBuckets(to *aggregate.Range) func(string) error {
	return func(text string) (err error) {
		if *to, err = aggregate.ParseRange(text); err != nil {
			return fmt.Errorf("--buckets: %w", err)
		}
		return nil
	}
}

func replayCommand() *command {
	r := new(replayOptions)
	moment := func(name string, to *replay.Moment) func(string) error {
		return func(text string) (err error) {
			if *to, err = replay.ParseMoment(text); err != nil {
				return fmt.Errorf("--%s: %w", name, err)
			}
			return nil
		}
	}
	colorOfMaps := color.Option(&r.color)
	colorOfMaps.Help = "color heat maps: always, never, or auto (unless NO_COLOR is set); default: $BPFTRACE_COLOR, or auto"
	return &command{
		name: "replay", operands: "FILE.jsonl", summary: "print the output of a recorded run again", files: []string{"jsonl", "json", "gz", "zst"},
		about: "FILE is what btrun --record or btrun -f json2 wrote; - is standard input. The output is what the run printed, " +
			"or would have printed in another format, and its messages are on standard error. Nothing of this machine is " +
			"part of it: names, stacks, times and the output of commands are those of the recording. Files compressed " +
			"with gzip or zstd are read, and written if the name of -o ends in .gz or .zst.",
		examples: []example{
			{"btc replay run.jsonl", "print what the run printed"},
			{"btc replay -f otlp run.jsonl.gz", "print it as metrics and logs for OpenTelemetry"},
			{"btc replay -o flame.svg run.jsonl", "draw a flame graph of the stacks in a map"},
			{"btc replay -o run.pftrace run.jsonl", "write a timeline for ui.perfetto.dev"},
			{"btc replay --from 90s --to 2m run.jsonl", "print half a minute of the run"},
		},
		options: option.Table{
			{Name: "format", Short: "f", Value: "FORMAT", To: &r.form, Choices: option.Choices(append(output.Names(), svg, replay.Timeline)...),
				Help: "format of the output: " + output.Usage() + ", svg (a flame graph), or perfetto (a timeline for Perfetto); default: that of the name of -o (.svg, .html for the page of btc report, .pb.gz, .folded, .pftrace, .jsonl), else that of the run, or text if it was json2 or pprof"},
			{Name: "map", Value: "NAME", To: &r.mapName, Help: "with the formats svg, folded and pprof: the map to show, if several have a stack in their keys"},
			{Name: "output", Short: "o", Value: "FILE", To: &r.file, Help: "write the output to FILE"},
			{Name: "buckets", Value: "RANGE", To: setBuckets(&r.buckets), Help: "with the formats of metrics: " + options.BucketsHelp + ", or those of the run"},
			{Name: "from", Value: "TIME", To: moment("from", &r.from),
				Help: "leave out what was before TIME: a time since the start of the run, such as 90s, or one such as 2026-11-21T14:24:09Z"},
			{Name: "to", Value: "TIME", To: moment("to", &r.to), Help: "leave out what was after TIME"},
			colorOfMaps,
		},
		run: func(line *option.Line) int {
			files := line.All()
			if len(files) != 1 {
				return fail("expected one file of btrun --record or btrun -f json2, or - for standard input; found %d", len(files))
			}
			if err := r.replay(files[0]); err != nil {
				return fail("%s", oneLine(err.Error()))
			}
			return 0
		},
	}
}

// replay replays a file.
func (r *replayOptions) replay(name string) error {
	if r.file == "-" {
		r.file = ""
	}
	if r.file != "" && isInput(name, r.file) {
		return fmt.Errorf("-o: %s is the recording", r.file)
	}
	if r.form == "" && isPage(r.file) {
		if r.mapName != "" {
			return errors.New("--map: a page has all maps")
		}
		return (&htmlReport{file: r.file, from: r.from, to: r.to}).write(name)
	}
	in, err := openRecording(name)
	if err != nil {
		return err
	}
	defer in.Close()
	if form := profileForm(r.form, r.file); form != "" {
		return r.profile(name, in, form)
	}
	opts := replay.Options{Format: r.format(), Map: r.mapName, Buckets: r.buckets, From: r.from, To: r.to, Out: os.Stdout, Err: onTerminal(os.Stderr)}
	var out io.WriteCloser
	opts.Open = func(o *replay.Options) error {
		switch {
		case r.buckets.String() != "" && !o.Format.Metrics:
			return fmt.Errorf("--buckets needs a metrics format: -f %s", strings.Join(output.MetricNames(), ", "))
		case r.file != "":
			c, err := createCompressed(r.file)
			if err != nil {
				return err
			}
			o.Out, out = c, c
		case isTerminal(os.Stdout) && o.Format.Binary:
			return fmt.Errorf("-f %s is binary: write it to a file, with -o FILE, or to a pipe", o.Format.Name)
		case isTerminal(os.Stdout) && o.Format.JSON:
			o.Out = format.TerminalJSON(os.Stdout)
		default:
			if o.Escape = isTerminal(os.Stdout); o.Escape && blocks.Possible(os.Getenv) {
				o.Terminal = &replay.Terminal{Columns: 80, Color: color.Wanted(r.color, true, os.Getenv)}
				if columns, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && columns > 0 {
					o.Terminal.Columns = columns
				}
			}
		}
		return nil
	}
	cut, err := replay.Run(name, in, opts)
	if out != nil {
		err = errors.Join(err, out.Close())
	}
	if cut {
		fmt.Fprintf(os.Stderr, "btc: warning: %s ends within a line: only the complete lines are used\n", name)
	}
	return err
}

// format returns the format of the output, nil if it is that of the run.
func (r *replayOptions) format() *output.Format {
	name := strings.TrimSuffix(strings.TrimSuffix(r.file, ".gz"), ".zst")
	if r.form == replay.Timeline || r.form == "" && (strings.HasSuffix(name, ".pftrace") || strings.HasSuffix(name, ".perfetto-trace")) {
		return replay.NewTimeline()
	}
	form := r.form
	if form == "" && strings.HasSuffix(name, ".jsonl") {
		form = output.Lossless
	}
	return output.Find(form)
}

// isInput reports whether a file is the one to read, which may be standard input.
func isInput(name, file string) bool {
	if name != "-" {
		return sameFile(name, file)
	}
	in, err := os.Stdin.Stat()
	if err != nil || !in.Mode().IsRegular() {
		return false
	}
	out, err := os.Stat(file)
	return err == nil && os.SameFile(in, out)
}

// profile writes the profile of the last snapshot, or the end, of a recording.
func (r *replayOptions) profile(name string, in io.Reader, form string) error {
	if r.from.Given {
		return errors.New("--from: a profile (svg, folded, pprof) has what the map had at its end, whenever that was counted; --to selects an earlier end")
	}
	p, err := readProfile(name, in, replay.Options{Map: r.mapName, To: r.to, Err: onTerminal(os.Stderr)})
	if p == nil {
		return err
	}
	return errors.Join(writeProfile(r.file, form, p), err) // what precedes an error is shown
}

// recording is a file that may be compressed.
type recording struct {
	io.Reader
	closers []func()
}

func (r *recording) Close() error {
	for _, f := range r.closers {
		f()
	}
	return nil
}

// maxWindow bounds the memory of a file compressed with zstd.
const maxWindow = 128 << 20

// openRecording opens a file, and decompresses it as its first bytes say; - is standard input.
func openRecording(name string) (*recording, error) {
	f := os.Stdin
	r := &recording{}
	if name != "-" {
		var err error
		if f, err = os.Open(name); err != nil {
			return nil, err
		}
		r.closers = append(r.closers, func() { f.Close() })
	}
	b := bufio.NewReaderSize(f, 64<<10)
	r.Reader = b
	magic, _ := b.Peek(4) // a file may be shorter
	var err error
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		r.Reader, err = gzip.NewReader(b)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		var z *zstd.Decoder
		if z, err = zstd.NewReader(b, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1)); err == nil {
			r.Reader, r.closers = z, append(r.closers, z.Close)
		}
	}
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("%s: the compressed data are cut off or damaged: %w", name, err)
	}
	if r.Reader != io.Reader(b) {
		r.Reader = decompressor{r.Reader}
	}
	return r, nil
}

// decompressor says of an error that the compressed data have it.
type decompressor struct{ io.Reader }

func (d decompressor) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	var file *os.PathError
	switch {
	case err == nil || err == io.EOF || errors.As(err, &file):
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the compressed data are cut off: what is missing was not written, or not copied")
	default:
		err = fmt.Errorf("the compressed data are damaged: %w", err)
	}
	return n, err
}

// compressed is a file that is compressed if its name says so.
type compressed struct {
	io.Writer
	close []func() error // in order
}

func (c *compressed) Close() (err error) {
	for _, f := range c.close {
		err = errors.Join(err, f())
	}
	return err
}

// createCompressed creates a file, which is compressed with gzip or zstd if its name ends in .gz or .zst.
func createCompressed(name string) (*compressed, error) {
	f, err := safefile.Create(name, os.O_TRUNC, 0o666)
	if err != nil {
		return nil, err
	}
	c, err := compress(name, f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c.close = append(c.close, f.Close)
	return c, nil
}

// compress compresses what is written to out as the name of a file says.
func compress(name string, out io.Writer) (*compressed, error) {
	switch {
	case strings.HasSuffix(name, ".gz"):
		z := gzip.NewWriter(out)
		return &compressed{z, []func() error{z.Close}}, nil
	case strings.HasSuffix(name, ".zst"):
		z, err := zstd.NewWriter(out)
		return &compressed{z, []func() error{z.Close}}, err
	}
	return &compressed{Writer: out}, nil
}
