package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"btc/loader/run"
)

// options are the command line.
type options struct {
	object  string
	output  string
	help    bool
	version bool
	raw     bool
	list    string // pattern
	run     run.Options
}

// option is one that the command line may hold: with a value, or a mere switch.
type option struct {
	value  func(*options, string) error
	toggle func(*options)
}

// optionTable has a row for each option.
var optionTable = map[string]option{
	"-p":        {value: setPID},
	"-c":        {value: setCommand},
	"-o":        {value: func(o *options, v string) error { o.output = v; return nil }},
	"-f":        {value: setFormat},
	"-B":        {value: setBuffer},
	"--list":    {value: func(o *options, v string) error { o.list = v; return nil }},
	"-q":        {toggle: func(o *options) { o.run.Quiet = true }},
	"-v":        {toggle: func(o *options) { o.run.Verbose = true }},
	"-h":        {toggle: func(o *options) { o.help = true }},
	"-V":        {toggle: func(o *options) { o.version = true }},
	"--help":    {toggle: func(o *options) { o.help = true }},
	"--version": {toggle: func(o *options) { o.version = true }},
	"--raw":     {toggle: func(o *options) { o.raw = true }},
	"--unsafe":  {toggle: func(o *options) { o.run.Unsafe = true }},
	"--dry-run": {toggle: func(o *options) { o.run.DryRun = true }},
}

// longNames are the long forms of options with a value.
var longNames = map[string]string{"--pid": "-p", "--cmd": "-c", "-l": "--list", "--output": "-o", "--format": "-f", "--quiet": "-q", "--verbose": "-v"}

func setPID(o *options, v string) error {
	n, err := strconv.ParseUint(v, 10, 31)
	if err != nil || n == 0 {
		return fmt.Errorf("-p: %q is no process ID", v)
	}
	o.run.PID = int(n)
	return nil
}

func setCommand(o *options, v string) error {
	if strings.TrimSpace(v) == "" {
		return fmt.Errorf("-c: the command is empty")
	}
	o.run.Command = v
	return nil
}

func setFormat(o *options, v string) error {
	if slices.Contains(run.Formats, v) {
		o.run.Format = v
		return nil
	}
	//lint:ignore ST1005 the reference's words
	return fmt.Errorf("Invalid output format %q\nValid formats: '%s'", v, strings.Join(run.Formats, "', '"))
}

func setBuffer(o *options, v string) error {
	switch v {
	case "line", "full", "none":
		o.run.Buffer = v
		return nil
	}
	return fmt.Errorf("-B: %q is none of line, full, none", v)
}

// parseArgs reads the command line. Options may stand before and after the
// object; what begins with "-" and is meant for the script stands behind "--".
func parseArgs(args []string) (*options, error) {
	o := &options{run: run.Options{Buffer: "line", Named: map[string]string{}}}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			o.scriptArgs(args)
			return o, o.check()
		case len(arg) > 1 && arg[0] == '-':
			rest, err := o.option(arg, args)
			if err != nil {
				return nil, err
			}
			args = rest
		case o.object == "":
			o.object = arg
		default:
			o.run.Params = append(o.run.Params, arg)
		}
	}
	return o, o.check()
}

// option applies one option and gives the arguments after it. Values stand in
// the next argument, after "=", or right behind a one-letter option.
func (o *options) option(arg string, rest []string) ([]string, error) {
	name, value, given := arg, "", false
	if strings.HasPrefix(arg, "--") {
		name, value, given = strings.Cut(arg, "=")
	} else if len(arg) > 2 {
		name, value, given = arg[:2], strings.TrimPrefix(arg[2:], "="), true
	}
	if short, ok := longNames[name]; ok {
		name = short
	}
	opt, ok := optionTable[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("unknown option %s (arguments of the script that begin with - go behind --)", arg)
	case opt.toggle != nil && given:
		return nil, fmt.Errorf("option %s takes no value", name)
	case opt.toggle != nil:
		opt.toggle(o)
		return rest, nil
	case !given && len(rest) == 0:
		return nil, fmt.Errorf("option %s needs a value", name)
	case !given:
		value, rest = rest[0], rest[1:]
	}
	return rest, opt.value(o, value)
}

// scriptArgs takes what stands behind "--": --name=value and --name for getopt,
// all else as positional parameters.
func (o *options) scriptArgs(args []string) {
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

func (o *options) check() error {
	if o.run.PID != 0 && o.run.Command != "" {
		//lint:ignore ST1005 the reference's words
		return fmt.Errorf("Cannot use both -c and -p.")
	}
	return nil
}
