// SPDX-License-Identifier: Apache-2.0

// Package command implements the command line of btrun. It takes the arguments and the streams to
// use, and returns the exit status. btrun is built on it, and so is the program that replaces
// bpftrace in bpftrace's own tests.
package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"btc/internal/color"
	"btc/internal/manifest"
	"btc/loader/attach"
	"btc/loader/format"
	"btc/loader/host"
	"btc/loader/options"
	"btc/loader/policy"
	"btc/loader/report"
	"btc/loader/run"
)

// Streams are the input and the outputs of a run.
type Streams struct {
	In       *os.File // for the object "-"; nil: os.Stdin
	Out, Err io.Writer
	Version  string
	// Attached is called when all probes are attached, before any event is handled. It may be nil.
	Attached func()
}

const usageHead = `usage: btrun [options] OBJECT.o|- [parameter ...] [-- --name=value ...]

Runs an object made by btc compile, with the manifest OBJECT.json next to it. With - it reads
both from standard input: cat x.o x.json | btrun -
`

// usage returns the help text.
func usage() string { return usageHead + new(options.Values).Table().Help() }

// Run runs btrun; it returns the exit status.
func Run(args []string, s Streams) (exit int) {
	stdout, stderr := s.Out, s.Err
	o, err := parseArgs(args)
	stderr = shown(o, stderr) // errors quote files
	if err == nil && (o.List || o.Capture != "" || !o.Version && !o.Help) {
		err = o.bound()
	}
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "btrun: %v\n", err)
		return 1
	case o.Version:
		fmt.Fprintf(stdout, "btrun %s\n", s.Version)
		return 0
	case o.List:
		return list(o, stdout, stderr)
	case o.Capture != "":
		return captureKernel(o, stderr)
	case o.object == "" && o.Help:
		fmt.Fprint(stdout, usage())
		return 0
	case o.object == "":
		fmt.Fprint(stderr, usage())
		return 1
	case strings.HasSuffix(o.object, ".bt"):
		script := printable(o.object)
		fmt.Fprintf(
			stderr,
			"btrun: %s is a script, not an object: compile it with btc compile %s -o FILE.o, and run btrun FILE.o\n",
			script,
			script,
		)
		return 1
	}
	if o.object == streamed {
		if err := o.takeInput(s); err != nil {
			fmt.Fprintf(stderr, "btrun: %v\n", err)
			return 1
		}
	}
	if o.Remote {
		remote := newRemoteOutput(stdout)
		defer remote.close()
		stdout = remote
	}
	switch {
	case o.Help:
		return help(o, shown(o, stdout), stderr)
	case o.Inspect:
		return inspect(o, shown(o, stdout), stderr)
	}
	o.run.Attached = s.Attached
	if run.IsTerminal(s.Err) && !o.run.Quiet && !o.run.Format.JSON {
		o.onTerminal(s.Err)
	}
	status, err := trace(o, stdout, stderr)
	if o.Remote {
		defer func() { writeEnd(stdout, exit, err) }()
	}
	if errors.Is(err, run.ErrNoProbes) {
		if !o.run.Quiet && !o.Remote {
			fmt.Fprintln(stdout, err)
		}
		return 1
	}
	var placed *report.Error
	switch {
	case errors.As(err, &placed) && placed.Error() == err.Error() &&
		color.Wanted(o.Color, run.IsTerminal(s.Err), os.Getenv):
		fmt.Fprintln(s.Err, placed.Painted("error", printable))
	case errors.As(err, &placed): // starts with the script's name
		fmt.Fprintln(stderr, printable(err.Error()))
	case err != nil:
		fmt.Fprintf(stderr, "btrun: %s\n", printable(err.Error()))
	}
	return status
}

// onTerminal makes a run print how to end it, and report slow steps.
func (o *arguments) onTerminal(w io.Writer) {
	dim, plain := "\x1b[2m", "\x1b[0m"
	if !color.Wanted(o.Color, true, os.Getenv) {
		dim, plain = "", ""
	}
	if dim != "" {
		o.run.PaintWarning = func(f *report.Error) { fmt.Fprintln(w, f.Painted("warning", printable)) }
	}
	o.run.Hint = func(text string) { fmt.Fprintln(w, dim+text+plain) }
	if os.Getenv("TERM") != "dumb" {
		o.run.Progress = func(text string) { fmt.Fprintf(w, "\r\x1b[K%s", text) }
	}
}

// shown returns a writer for output that contains names from an object.
func shown(o *arguments, w io.Writer) io.Writer {
	if o.Raw || !run.IsTerminal(w) {
		return w
	}
	return format.Terminal(w)
}

// printable makes names from a hostile object safe to print on a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, text)
}

// list prints the attach points of this host that match the patterns.
func list(o *arguments, stdout, stderr io.Writer) int {
	h, err := host.Look()
	if err != nil {
		fmt.Fprintf(stderr, "btrun: %v\n", err)
		return 1
	}
	if err := o.run.Policy.Apply(&policy.Limits{Allow: &o.run.Allow, Files: []string{o.run.Functions}}); err != nil {
		fmt.Fprintf(stderr, "btrun: %v\n", err)
		return 1
	}
	out := bufio.NewWriter(stdout) // kernels have some 50,000 functions
	defer out.Flush()
	hidden := 0
	for _, pattern := range strings.Split(strings.Join(o.patterns, ","), ",") {
		points, err := attach.List(
			h,
			strings.TrimSpace(pattern),
			attach.Options{PIDs: o.run.PIDs, Functions: o.run.Functions},
		)
		if err != nil {
			fmt.Fprintf(stderr, "btrun: %s\n", printable(err.Error()))
			return 1
		}
		for _, p := range points {
			if !o.run.Policy.Listed(p) {
				hidden++
				continue
			}
			fmt.Fprintln(out, printable(p))
			if !o.run.Verbose {
				continue
			}
			for _, arg := range attach.Arguments(h, p) {
				fmt.Fprintln(out, "    "+printable(arg))
			}
		}
	}
	if hidden > 0 && !o.run.NoWarnings {
		out.Flush()
		fmt.Fprintf(
			stderr,
			"btrun: %d attach points are not listed: %s does not permit them\n",
			hidden,
			o.run.Policy.ProbesAt(),
		)
	}
	return 0
}

func trace(o *arguments, stdout, stderr io.Writer) (status int, err error) {
	obj, err := o.readObject()
	if err != nil {
		return 1, err
	}
	o.run.Out, o.run.Err = stdout, stderr // must be a format.Terminal if the output is one
	if o.run.Format.JSON && !o.Raw && run.IsTerminal(stdout) {
		o.run.Out = format.TerminalJSON(stdout)
	}
	if o.Output == "" {
		o.run.Escape = !o.Raw && run.IsTerminal(stdout)
		o.run.Live = o.Top > 0 && o.Every > 0 && !o.run.Format.JSON && run.IsTerminal(stdout) &&
			os.Getenv("TERM") != "dumb"
		return runObject(o, obj, func() {})
	}
	out, err := openOutput(o, stderr)
	if err != nil {
		return 1, err
	}
	o.run.Out = out
	status, err = runObject(o, obj, func() { out.end(false) })
	if e := out.end(err == nil); err == nil && e != nil {
		status, err = 1, e
	}
	return status, err
}

// openOutput opens the -o file in the way that suits the run.
func openOutput(o *arguments, stderr io.Writer) (outputs, error) {
	switch {
	case o.run.Format.Document && isReplaced(o.Output):
		o.run.MakesFiles = true
		return createDocument(o.Output)
	case o.rotate != 0 || o.run.Every != 0 && isReplaced(o.Output) && !o.run.Format.Document:
		o.run.MakesFiles = o.rotate != 0
		keep := o.Keep
		if keep == 0 {
			keep = defaultKeep
		}
		return createRotating(o.Output, o.rotate, keep, stderr)
	}
	return createOutput(o.Output)
}

// defaultKeep is the default of --keep.
const defaultKeep = 5

// outputs is a -o file. end closes it; ran reports whether the run was completed.
type outputs interface {
	io.Writer
	end(ran bool) error
}

// help lists an object's parameters with their defaults.
func help(o *arguments, stdout, stderr io.Writer) int {
	m, err := o.readManifest()
	if err != nil {
		fmt.Fprintf(stderr, "btrun: %v\n", err)
		return 1
	}
	fmt.Fprintf(
		stdout,
		"%s: compiled from %s for Linux %s, %s\n",
		o.object,
		m.Script.File,
		m.Target,
		strings.Join(m.Arches, " and "),
	)
	fmt.Fprintf(stdout, "\nProbes:\n")
	for i := range m.Programs {
		fmt.Fprintf(stdout, "  %s\n", m.Programs[i].Attach.Attaches(m.Programs[i].Kind))
	}
	var positional, named []*manifest.Param
	seen := map[string]bool{"$#": true}
	for i := range m.Params {
		p := &m.Params[i]
		if seen[p.Name] {
			continue
		}
		seen[p.Name] = true
		if strings.HasPrefix(p.Name, "$") {
			positional = append(positional, p)
		} else {
			named = append(named, p)
		}
	}
	for _, n := range attachParams(m) {
		if name := "$" + strconv.Itoa(n); !seen[name] {
			positional = append(positional, &manifest.Param{Name: name, Type: "part of an attach point"})
		}
	}
	sort.SliceStable(positional, func(i, j int) bool { return positional[i].Name < positional[j].Name })
	printParams(stdout, "Parameters", "", positional)
	printParams(stdout, "Options (after --)", "--", named)
	if len(positional)+len(named) == 0 {
		fmt.Fprintf(stdout, "\nThe script has no parameters.\n")
	}
	return 0
}

// attachParams returns the numbers of the parameters that occur in attach points.
func attachParams(m *manifest.Manifest) []int {
	found := map[int]bool{}
	for i := range m.Programs {
		for _, part := range m.Programs[i].Attach.Fill {
			for _, word := range strings.Split(part, "$")[1:] {
				if n, err := strconv.Atoi(word[:len(word)-len(strings.TrimLeft(word, "0123456789"))]); err == nil {
					found[n] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func printParams(w io.Writer, title, prefix string, params []*manifest.Param) {
	if len(params) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s:\n", title)
	for _, p := range params {
		line := fmt.Sprintf("  %s%s  %s", prefix, p.Name, p.Type)
		if p.Default != "" {
			line += ", default " + p.Default
		}
		if p.Help != "" {
			line += ": " + p.Help
		}
		fmt.Fprintln(w, line)
	}
}
