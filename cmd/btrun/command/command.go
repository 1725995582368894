// SPDX-License-Identifier: Apache-2.0

// Package command implements the command line of btrun. It takes the arguments and the streams to
// use, and returns the exit status. btrun is built on it, and so is the program that replaces
// bpftrace in bpftrace's own tests.
package command

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"

	"btc/btrace"
	"btc/internal/blocks"
	"btc/internal/bundle"
	"btc/internal/color"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/internal/safefile"
	"btc/loader/diag"
	"btc/loader/format"
	"btc/loader/host"
	"btc/loader/options"
	"btc/loader/policy"
	"btc/loader/sites"
)

// Streams are the input and the outputs of a run.
type Streams struct {
	In       *os.File // for the object "-"; nil: os.Stdin
	Out, Err io.Writer
	Version  string
	Bundle   *bundle.Contents // the object to run, instead of one that the arguments name; nil: none
	// Attached is called when all probes are attached, before any event is handled. It may be nil.
	Attached func()
}

const usageHead = `usage: btrun [options] OBJECT.o|TOOL|- [parameter ...] [-- --name=value ...]

Runs an object made by btc compile. With - it reads it from standard input: cat x.o | btrun -
`

// usage returns the help text.
func usage() string { return usageHead + new(options.Values).Table().Help() }

// Run runs btrun; it returns the exit status.
func Run(args []string, s Streams) (exit int) {
	stdout, stderr := s.Out, s.Err
	if s.Bundle != nil && len(args) > 0 && (args[0] == "--completion" || strings.HasPrefix(args[0], "--completion=")) {
		return complete(s.Bundle, args, stdout, stderr)
	}
	o, err := parseArgs(args, s.Bundle)
	stderr = shown(o, stderr) // errors quote files
	if err == nil && (o.List || o.Capture != "" || !o.Version && (!o.Help || o.object != "")) {
		if err = o.bound(); err == nil {
			err = o.findTool()
		}
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
	case o.Tools:
		o.listTools(shown(o, stdout))
		return 0
	case o.Capture != "":
		return captureKernel(o, stderr)
	case o.Request != 0:
		if err := requestReload(o); err != nil {
			fmt.Fprintf(stderr, "btrun: %s\n", diag.Printable(err.Error()))
			return 1
		}
		return 0
	case o.object == "" && o.Help:
		fmt.Fprint(stdout, usage())
		return 0
	case o.object == "":
		fmt.Fprint(stderr, usage())
		return 1
	case strings.HasSuffix(o.object, ".bt"):
		script := diag.Printable(o.object)
		fmt.Fprintf(stderr,
			"btrun: %s is a script, not an object: compile it with btc compile %s -o FILE.o, and run btrun FILE.o\n",
			script, script)
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
		stdout, s.Out = remote, remote
	}
	switch {
	case o.Help:
		return help(o, shown(o, stdout), stderr)
	case o.Inspect:
		return inspect(o, shown(o, stdout), stderr)
	}
	if format.IsTerminal(s.Err) && !o.Quiet && !o.format.JSON {
		o.onTerminal(s.Err)
	}
	status, err := trace(o, s, stderr)
	if o.Remote {
		defer func() { writeEnd(stdout, exit, err) }()
	}
	if errors.Is(err, btrace.ErrNoProbes) {
		if !o.Quiet && !o.Remote {
			fmt.Fprintln(stdout, err)
		}
		return 1
	}
	var placed *diag.Error
	switch {
	case errors.As(err, &placed) && placed.Error() == err.Error() &&
		color.Wanted(o.When, format.IsTerminal(s.Err), os.Getenv):
		fmt.Fprintln(s.Err, placed.Painted("error"))
	case errors.As(err, &placed): // starts with the script's name
		fmt.Fprintln(stderr, diag.Printable(err.Error()))
	case err != nil:
		fmt.Fprintf(stderr, "btrun: %s\n", diag.Printable(err.Error()))
	}
	return status
}

// onTerminal makes a run print how to end it, and report slow steps.
func (o *arguments) onTerminal(w io.Writer) {
	r := &o.Report
	dim, plain := "\x1b[2m", "\x1b[0m"
	if r.Color = color.Wanted(o.When, true, os.Getenv); !r.Color {
		dim, plain = "", ""
	}
	r.Hint = func(text string) { fmt.Fprintln(w, dim+text+plain) }
	if os.Getenv("TERM") != "dumb" {
		r.Progress = func(text string) { fmt.Fprintf(w, "\r\x1b[K%s", text) }
	}
}

// shown returns a writer for output that contains names from an object.
func shown(o *arguments, w io.Writer) io.Writer {
	if o.Raw || !format.IsTerminal(w) {
		return w
	}
	return format.Terminal(w)
}

// list prints the attach points of this host that match the patterns.
func list(o *arguments, stdout, stderr io.Writer) int {
	h, err := host.Probe()
	if err != nil {
		fmt.Fprintf(stderr, "btrun: %v\n", err)
		return 1
	}
	if err := o.policy.Apply(&policy.Limits{Allow: &o.grants, Files: []string{o.Functions}}); err != nil {
		fmt.Fprintf(stderr, "btrun: %v\n", err)
		return 1
	}
	out := bufio.NewWriter(stdout) // kernels have some 50,000 functions
	defer out.Flush()
	hidden := 0
	for _, pattern := range strings.Split(strings.Join(o.patterns, ","), ",") {
		pattern = strings.TrimSpace(pattern)
		var points []string
		search := func() {
			points, err = sites.List(h, pattern, sites.Options{PIDs: o.PIDs, Functions: o.Functions})
		}
		if o.policy != nil && ofFiles(pattern, len(o.PIDs) > 0) {
			safefile.AsCaller(search)
		} else {
			search()
		}
		if err != nil {
			fmt.Fprintf(stderr, "btrun: %s\n", diag.Printable(err.Error()))
			return 1
		}
		for _, p := range points {
			if !o.policy.Listed(p) {
				hidden++
				continue
			}
			fmt.Fprintln(out, diag.Printable(p))
			if !o.Verbose {
				continue
			}
			for _, arg := range sites.Arguments(h, p) {
				fmt.Fprintln(out, "    "+diag.Printable(arg))
			}
		}
	}
	if hidden > 0 && !o.NoWarnings {
		out.Flush()
		fmt.Fprintf(stderr, "btrun: %d attach points are not listed: %s does not permit them\n", hidden,
			o.policy.ProbesAt())
	}
	return 0
}

// ofFiles reports whether listing a pattern opens files that it names, or those of a process.
func ofFiles(pattern string, ofProcess bool) bool {
	kind, _, _ := strings.Cut(pattern, ":")
	if t := probe.Find(kind); t != nil {
		return t.Space == probe.UserSpace
	}
	return ofProcess || strings.Contains(pattern, "/")
}

// trace runs the object; stderr is for messages about the -o file.
func trace(o *arguments, s Streams, stderr io.Writer) (status int, err error) {
	obj, err := o.openObject()
	if err != nil {
		return 1, err
	}
	o.scriptArgs(obj.Params())
	if err := o.keepsObject(); err != nil {
		return 1, err
	}
	r := &o.Report
	r.Out, r.Err = s.Out, s.Err
	var files []outputs
	end := func(ran bool) (err error) {
		for _, f := range files {
			err = errors.Join(err, f.end(ran))
		}
		return err
	}
	if o.Output != "" {
		out, err := openOutput(o, stderr)
		if err != nil {
			return 1, err
		}
		r.Out, files = out, append(files, out)
	} else {
		r.Live, r.Blocks = o.Top > 0 && os.Getenv("TERM") != "dumb", blocks.Possible(os.Getenv)
		r.ColorBlocks = color.Wanted(o.When, true, os.Getenv)
		if r.Live && o.object != streamed && o.Command == "" { // a command reads the terminal itself
			r.Keys = os.Stdin
		}
	}
	if o.Values.Record != "" {
		rec, err := openRecording(o, stderr)
		if err != nil {
			end(false)
			return 1, err
		}
		r.Record, files = rec, append(files, rec)
	}
	status, err = runObject(o, obj, func() { end(false) }, s.Attached)
	if e := end(err == nil); err == nil && e != nil {
		status, err = 1, e
	}
	return status, err
}

// keepsObject returns an error if an output would be written over the object.
func (o *arguments) keepsObject() error {
	object, err := os.Stat(o.object)
	if err != nil || o.bundle != nil || o.object == streamed {
		return nil
	}
	for _, x := range [...][2]string{{"-o", o.Output}, {"--record", o.Values.Record}} {
		if fi, err := os.Stat(x[1]); err == nil && os.SameFile(fi, object) {
			return errors.New(x[0] + ": " + x[1] + " is the object")
		}
	}
	return nil
}

// openRecording opens the file of --record. A regular file is rotated as that of -o is.
func openRecording(o *arguments, stderr io.Writer) (outputs, error) {
	if o.rotate == 0 {
		return createOutput(o.Values.Record)
	}
	o.Process.CreatesFiles = true
	return createRotating(o.Values.Record, o.rotate, cmp.Or(o.Keep, defaultKeep), stderr)
}

// openOutput opens the -o file in the way that suits the run.
func openOutput(o *arguments, stderr io.Writer) (outputs, error) {
	switch {
	case o.format.Document && isReplaced(o.Output):
		o.Process.CreatesFiles = true
		return createDocument(o.Output)
	case o.rotate != 0 || o.Every != 0 && isReplaced(o.Output) && !o.format.Document:
		o.Process.CreatesFiles = o.rotate != 0
		return createRotating(o.Output, o.rotate, cmp.Or(o.Keep, defaultKeep), stderr)
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
	if o.bundle != nil {
		bundleUsage(stdout, m)
		defer func() {
			fmt.Fprint(stdout, "\nOptions of the loader (before --):\n      --completion bash|zsh|fish\n                          print completions for a shell (the first argument)\n", new(options.Values).Table().Help())
		}()
	}
	fmt.Fprintf(stdout, "%s: compiled from %s for Linux %s, %s\n", o.object, m.Script.File, m.Target,
		strings.Join(m.Arches, " and "))
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
		for _, part := range m.Programs[i].Attach.Substitute {
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
		fmt.Fprintln(w, diag.Printable(strings.ReplaceAll(line, "\n", " ")))
	}
}
