// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"btc/loader/metrics"
	"btc/loader/options"
	"btc/loader/output"
	"btc/loader/permit"
	"btc/loader/policy"
	"btc/loader/render"
	"btc/loader/run"
)

// arguments is the parsed command line.
type arguments struct {
	options.Values
	object   string
	patterns []string // patterns of --list
	run      run.Options
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
		return o, fmt.Errorf(
			"unexpected argument %q: --capture only writes %s",
			operands[0],
			o.Capture,
		)
	case len(operands) > 0:
		o.object, operands = operands[0], operands[1:]
	}
	if file := os.Getenv("BPFTRACE_BTF"); o.BTF == "" && file != "" {
		if _, err := os.Stat(file); err == nil { // like bpftrace, continue without a missing file
			o.BTF = file
		}
	}
	o.run = run.Options{
		PIDs: o.PIDs, Cgroups: o.Cgroups, FollowForks: o.Follow,
		Containers: o.Containers, Pods: o.Pods, Command: o.Command, BTF: o.BTF, Functions: o.Functions,
		Buffer: o.Buffer, Format: &output.Text,
		Quiet: o.Quiet, Verbose: o.Verbose,
		NoWarnings: o.NoWarn, Getenv: os.Getenv, OwnProcess: true, DryRun: o.DryRun, DropPrivileges: true,
		Params: operands, Named: map[string]string{}, MaxMemory: permit.DefaultMemory(),
	}
	if o.Format != "" {
		o.run.Format = output.Find(o.Format)
	}
	if o.Remote {
		if o.object != streamed || o.Output != "" {
			return o, errors.New(
				"--remote reads the object from standard input and writes to standard output: btrun --remote -",
			)
		}
		o.run.Format = output.Find(output.Lossless)
	}
	if o.Wait {
		o.run.Wait = context.Background() // a signal still terminates the process: nothing has been started
	}
	o.run.Timeout, o.run.MaxEvents = o.Timeout, o.MaxEvents
	o.run.Top, o.run.Order, o.run.Summary, o.run.Names = o.Top, o.Sort, o.Summary, o.Names
	if o.Top > 0 && o.Sort == "" {
		o.run.Order = render.Descending
	}
	o.run.Allow.All = o.Unsafe
	for _, name := range o.Allow {
		if err := o.run.Allow.Allow(name); err != nil {
			return o, err
		}
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
	if o.run.Format.Metrics && o.run.Mode != "" {
		return o, fmt.Errorf("-f %s writes metrics: it cannot be combined with --%s", o.run.Format.Name, o.run.Mode)
	}
	o.run.Every, o.run.MaxSeries, o.run.Object = o.Every, o.MaxSeries, metrics.ObjectName(o.object)
	if o.Rotate != "" {
		size, err := permit.ParseSize(o.Rotate)
		if err != nil || size < minRotate || size > 1<<60 {
			return o, fmt.Errorf("--rotate: %q is not a size of at least 64K, such as 100M", o.Rotate)
		}
		o.rotate = int64(size)
		if o.run.Format.Document {
			return o, fmt.Errorf(
				"--rotate needs a format of lines: -f %s replaces its file each time",
				o.run.Format.Name,
			)
		}
	}
	if o.MaxSeries != 0 && !o.run.Format.Metrics {
		return o, fmt.Errorf("--max-series needs a metrics format: -f %s", strings.Join(output.MetricNames(), ", "))
	}
	o.scriptArgs(line.After)
	return o, nil
}

// bound reads the policy of the host, and applies it to the options that are not part of a run.
func (o *arguments) bound() (err error) {
	if o.run.Policy, err = policy.Host(); err != nil {
		return err
	}
	for _, path := range []string{o.Output, o.Capture} {
		if err := o.run.Policy.Output(path); err != nil {
			return err
		}
	}
	if o.MaxMemory == "" {
		return nil
	}
	return o.run.Policy.Memory(o.run.MaxMemory)
}

// scriptArgs parses the arguments after "--": --name=value and --name are for getopt, everything
// else is a positional parameter.
func (o *arguments) scriptArgs(args []string) {
	for _, a := range args {
		name, isNamed := strings.CutPrefix(a, "--")
		if !isNamed {
			o.run.Params = append(o.run.Params, a)
			continue
		}
		name, value, given := strings.Cut(name, "=")
		if !given {
			value = "true"
		}
		o.run.Named[name] = value
	}
}
