// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"btc/btrace"
	"btc/internal/bundle"
	"btc/internal/manifest"
	"btc/internal/signature"
	"btc/loader/options"
	"btc/loader/output"
	"btc/loader/permit"
	"btc/loader/policy"
)

// arguments is the parsed command line.
type arguments struct {
	options.Values
	line     []string // what was parsed, without the words of --parameters
	object   string
	after    []string         // arguments after "--", until the object is read
	bundle   *bundle.Contents // the object, instead of the file
	patterns []string         // patterns of --list
	format   *output.Format
	grants   permit.Grants   // --allow and --unsafe
	policy   *policy.Policy  // of this host; nil: none
	keys     []signature.Key // of --verify; nil: it is not given
	input    *bufio.Reader   // stream of the object "-"
	rotate   int64           // maximum size of the -o file, in bytes; 0: unlimited
}

// minRotate is the minimum size for --rotate, in bytes.
const minRotate = 64 << 10

// parseArgs reads the command line, followed by the words in the file of --parameters. Options can be before and after
// the object; arguments for the script that begin with "-" follow "--". If the executable carries an object, all
// operands are parameters.
func parseArgs(args []string, carried *bundle.Contents) (*arguments, error) {
	o, err := parseLine(args, carried)
	if err == nil {
		err = o.asService()
	}
	if err == nil && o.Parameters != "" {
		var more []string
		if more, err = fileParameters(o.Parameters); err == nil {
			o, err = parseLine(append(slices.Clip(args), more...), carried)
		}
	}
	o.line = args
	return o, err
}

func parseLine(args []string, carried *bundle.Contents) (*arguments, error) {
	o := &arguments{Values: options.Values{Report: options.Report{Buffer: "line"}}}
	if carried == nil && len(args) > 0 && args[0] == "-e" {
		return o, errors.New("-e: btrun runs objects: btc -e PROGRAM compiles and runs, btc compile -e PROGRAM -o FILE.o makes an object")
	}
	line, err := o.Table().Parse(args)
	if err == nil {
		err = o.Check()
	}
	if err != nil {
		return o, err
	}
	operands := line.Operands
	o.patterns = o.Patterns
	switch {
	case o.List:
		o.patterns = append(o.patterns, operands...)
	case o.Capture != "" && len(operands) > 0:
		return o, fmt.Errorf("unexpected argument %q: --capture only writes %s", operands[0], o.Capture)
	case carried != nil:
		o.bundle, o.object = carried, ownName()+".o"
	case len(operands) > 0:
		o.object, operands = operands[0], operands[1:]
	}
	if file := os.Getenv("BPFTRACE_BTF"); o.BTF == "" && file != "" {
		if _, err := os.Stat(file); err == nil { // like bpftrace, continue without a missing file
			o.BTF = file
		}
	}
	o.format = output.Formats[0]
	if o.Format != "" {
		o.format = output.Find(o.Format)
	}
	if o.Remote {
		if o.object != streamed || o.Output != "" || o.Record != "" {
			return o, errors.New("--remote reads the object from standard input and writes to standard output: btrun --remote -")
		}
		o.format = output.Find(output.Lossless)
	}
	switch o.JSON2 {
	case "1":
		o.format = output.Find(output.Version1)
	case "2":
		o.format = output.Find(output.Lossless)
	}
	if o.Reload && o.object == streamed {
		return o, errors.New("--reload reads the object again: name a file instead of -")
	}
	o.grants.All = o.Unsafe
	for _, name := range o.Allow {
		if err := o.grants.Allow(string(name)); err != nil {
			return o, err
		}
	}
	o.Args, o.Params, o.Getenv, o.Process = operands, map[string]string{}, os.Getenv, &options.Process{DropPrivileges: true}
	o.Format = o.format.Name
	if len(o.Modes) > 0 {
		o.Mode = o.Modes[0]
	}
	if o.Memory != "" {
		if o.MaxMemory, err = permit.ParseSize(o.Memory); err != nil {
			return o, fmt.Errorf("--max-memory: %w", err)
		}
	}
	if o.Share != "" {
		if o.Budget, err = policy.ParseBudget(o.Share); err != nil {
			return o, fmt.Errorf("--budget: %w", err)
		}
	}
	if (o.format.Metrics || o.format.Profile) && o.Mode != "" {
		return o, fmt.Errorf("-f %s writes maps: it cannot be combined with --%s", o.format.Name, o.Mode)
	}
	if o.format.Profile && o.Every != 0 && (o.Output == "" || !isReplaced(o.Output)) {
		return o, fmt.Errorf("--every needs -o FILE with -f %s: each profile contains the ones before, and replaces them in the file", o.format.Name)
	}
	if o.Rotate != "" {
		size, err := permit.ParseSize(o.Rotate)
		if err != nil || size < minRotate || size > 1<<60 {
			return o, fmt.Errorf("--rotate: %q is not a size of at least 64K, such as 100M", o.Rotate)
		}
		o.rotate = int64(size)
		if o.format.Document {
			return o, fmt.Errorf("--rotate needs a format of lines: -f %s replaces its file each time", o.format.Name)
		}
	}
	if o.MaxSeries != 0 && !o.format.Metrics {
		return o, fmt.Errorf("--max-series needs a metrics format: -f %s", strings.Join(output.MetricNames(), ", "))
	}
	if o.Buckets != "" && !o.format.Metrics {
		return o, fmt.Errorf("--buckets needs a metrics format: -f %s", strings.Join(output.MetricNames(), ", "))
	}
	o.after = line.After
	return o, nil
}

// bound reads the policy of the host, and applies it to the options that are not part of a run.
func (o *arguments) bound() (err error) {
	if o.policy, err = policy.Host(); err != nil {
		return err
	}
	for _, path := range []string{o.Output, o.Record, o.Capture} {
		if err := o.policy.Output(path); err != nil {
			return err
		}
	}
	if o.Reload {
		if err := o.policy.Results(o.Results); err != nil {
			return err
		}
	}
	if o.Memory != "" {
		if err := o.policy.Memory(o.MaxMemory); err != nil {
			return err
		}
	}
	return o.readKeys()
}

// scriptArgs adds the arguments after "--": values for getopt, whose types the script declares, and positional parameters.
func (o *arguments) scriptArgs(params []btrace.Param) {
	valued := map[string]bool{}
	for _, p := range params {
		valued[p.Name] = p.Type != "bool"
	}
	positional, named := manifest.SplitParams(o.after, func(name string) bool { return valued[name] })
	o.Args, o.Params, o.after = append(slices.Clip(o.Args), positional...), named, nil
}
