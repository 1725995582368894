// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"btc/btrace"
	"btc/loader/options"
	"btc/loader/output"
	"btc/loader/permit"
	"btc/loader/policy"
)

// arguments is the parsed command line.
type arguments struct {
	options.Values
	object   string
	patterns []string // patterns of --list
	format   *output.Format
	grants   permit.Grants  // --allow and --unsafe
	policy   *policy.Policy // of this host; nil: none
	run      btrace.Options
	report   btrace.Report
	input    *bufio.Reader // stream of the object "-"
	rotate   int64         // maximum size of the -o file, in bytes; 0: unlimited
}

// minRotate is the minimum size for --rotate, in bytes.
const minRotate = 64 << 10

// parseArgs reads the command line. Options can be before and after the object; arguments for
// the script that begin with "-" follow "--".
func parseArgs(args []string) (*arguments, error) {
	o := &arguments{Values: options.Values{Buffer: "line"}}
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
		if o.object != streamed || o.Output != "" {
			return o, errors.New("--remote reads the object from standard input and writes to standard output: btrun --remote -")
		}
		o.format = output.Find(output.Lossless)
	}
	o.grants.All = o.Unsafe
	for _, name := range o.Allow {
		if err := o.grants.Allow(name); err != nil {
			return o, err
		}
	}
	o.run = btrace.Options{
		Args: operands, Params: map[string]string{}, Getenv: os.Getenv, BTF: o.BTF, Functions: o.Functions,
		PIDs: o.PIDs, FollowForks: o.Follow, Command: o.Command,
		Cgroups: o.Cgroups, Containers: o.Containers, Pods: o.Pods, Wait: o.Wait,
		Allow: o.Allow, Unsafe: o.Unsafe, Timeout: o.Timeout, MaxEvents: o.MaxEvents,
		DryRun: o.DryRun, NoWarnings: o.NoWarn, Process: &btrace.Process{DropPrivileges: true},
	}
	o.report = btrace.Report{
		Format: o.format.Name, Buffer: o.Buffer, Every: o.Every, Top: o.Top, Sort: o.Sort, Summary: o.Summary,
		Names: o.Names, MaxSeries: o.MaxSeries, Quiet: o.Quiet, Verbose: o.Verbose, Raw: o.Raw,
	}
	if len(o.Modes) > 0 {
		o.run.Mode = o.Modes[0]
	}
	if o.MaxMemory != "" {
		if o.run.MaxMemory, err = permit.ParseSize(o.MaxMemory); err != nil {
			return o, fmt.Errorf("--max-memory: %w", err)
		}
	}
	if o.Budget != "" {
		if o.run.Budget, err = policy.ParseBudget(o.Budget); err != nil {
			return o, fmt.Errorf("--budget: %w", err)
		}
	}
	if o.format.Metrics && o.run.Mode != "" {
		return o, fmt.Errorf("-f %s writes metrics: it cannot be combined with --%s", o.format.Name, o.run.Mode)
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
	o.scriptArgs(line.After)
	return o, nil
}

// bound reads the policy of the host, and applies it to the options that are not part of a run.
func (o *arguments) bound() (err error) {
	if o.policy, err = policy.Host(); err != nil {
		return err
	}
	for _, path := range []string{o.Output, o.Capture} {
		if err := o.policy.Output(path); err != nil {
			return err
		}
	}
	if o.MaxMemory == "" {
		return nil
	}
	return o.policy.Memory(o.run.MaxMemory)
}

// scriptArgs parses the arguments after "--": --name=value and --name are for getopt, everything
// else is a positional parameter.
func (o *arguments) scriptArgs(args []string) {
	for _, a := range args {
		name, isNamed := strings.CutPrefix(a, "--")
		if !isNamed {
			o.run.Args = append(o.run.Args, a)
			continue
		}
		name, value, given := strings.Cut(name, "=")
		if !given {
			value = "true"
		}
		o.run.Params[name] = value
	}
}
