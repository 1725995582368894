package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"btc/loader/output"
	"btc/loader/permit"
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
	capture string // file to write
	modes   []string
	inspect bool
	run     run.Options
}

// option is one that the command line may hold: with a value, or a mere switch.
type option struct {
	value  func(*options, string) error
	toggle func(*options)
}

// optionTable has a row for each option.
var optionTable = map[string]option{
	"-p":                    {value: setPID},
	"-c":                    {value: setCommand},
	"-o":                    {value: func(o *options, v string) error { o.output = v; return nil }},
	"-f":                    {value: setFormat},
	"-B":                    {value: setBuffer},
	"--btf":                 {value: func(o *options, v string) error { o.run.BTF = v; return nil }},
	"--list":                {value: func(o *options, v string) error { o.list = v; return nil }},
	"--traceable-functions": {value: func(o *options, v string) error { o.run.Functions = v; return nil }},
	"--capture":             {value: setCapture},
	"-q":                    {toggle: func(o *options) { o.run.Quiet = true }},
	"-v":                    {toggle: func(o *options) { o.run.Verbose = true }},
	"-h":                    {toggle: func(o *options) { o.help = true }},
	"-V":                    {toggle: func(o *options) { o.version = true }},
	"--help":                {toggle: func(o *options) { o.help = true }},
	"--version":             {toggle: func(o *options) { o.version = true }},
	"--raw":                 {toggle: func(o *options) { o.raw = true }},
	"--unsafe":              {toggle: func(o *options) { o.run.Allow.All = true }},
	"--allow":               {value: func(o *options, v string) error { return o.run.Allow.Allow(v) }},
	"--inspect":             {toggle: func(o *options) { o.inspect = true }},
	"--max-memory":          {value: setMaxMemory},
	"--no-warnings":         {toggle: func(o *options) { o.run.NoWarnings = true }},
	"--dry-run":             {toggle: func(o *options) { o.run.DryRun = true }},
	"--mode":                {value: setMode},
	"--test":                {toggle: func(o *options) { o.modes = append(o.modes, "test") }},
	"--bench":               {toggle: func(o *options) { o.modes = append(o.modes, "bench") }},
}

// longNames are the long forms of options with a value.
var longNames = map[string]string{"--pid": "-p", "--cmd": "-c", "-l": "--list", "--output": "-o", "--format": "-f", "--quiet": "-q", "--verbose": "-v"}

func setPID(o *options, v string) error {
	const most = 1 << 22 // PID_MAX_LIMIT
	n, err := strconv.ParseUint(v, 10, 64)
	switch { // the errors are the reference's words
	case errors.Is(err, strconv.ErrRange) || err == nil && (n == 0 || n > most):
		//lint:ignore ST1005 the reference's words
		return fmt.Errorf("Pid out of range: %s", v)
	case err != nil && v != "" && v[0] >= '0' && v[0] <= '9':
		//lint:ignore ST1005 the reference's words
		return fmt.Errorf("Failed to parse pid: invalid trailing bytes: %s", v)
	case err != nil:
		//lint:ignore ST1005 the reference's words
		return fmt.Errorf("Failed to parse pid: invalid integer: %s", v)
	}
	o.run.PID = int(n)
	return nil
}

func setMaxMemory(o *options, v string) error {
	n, err := permit.ParseSize(v)
	if err != nil {
		return fmt.Errorf("--max-memory: %w", err)
	}
	o.run.MaxMemory = n
	return nil
}

func setCapture(o *options, v string) error {
	if v == "" {
		return fmt.Errorf("--capture: the file's name is empty")
	}
	o.capture = v
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
	if o.run.Format = output.Find(v); o.run.Format != nil {
		return nil
	}
	//lint:ignore ST1005 the reference's words
	return fmt.Errorf("Invalid output format %q\nValid formats: '%s'", v, strings.Join(output.Names(), "', '"))
}

func setMode(o *options, v string) error {
	switch v {
	case "test", "bench":
		o.modes = append(o.modes, v)
		return nil
	}
	return fmt.Errorf("--mode: %q is none of test, bench", v)
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
	o := &options{run: run.Options{DropPrivileges: true, Format: &output.Text, Buffer: "line", Named: map[string]string{}, MaxMemory: permit.DefaultMemory()}}
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
	for _, mode := range o.modes {
		if o.run.Mode != "" && o.run.Mode != mode {
			return fmt.Errorf("--%s conflicts with --%s: a run is for one of them", mode, o.run.Mode)
		}
		o.run.Mode = mode
	}
	if o.capture != "" && (o.object != "" || o.list != "") {
		return fmt.Errorf("--capture writes %s and does nothing else: leave out %s", o.capture, o.object+o.list)
	}
	if o.run.Mode != "" && (o.run.PID != 0 || o.run.Command != "") {
		return fmt.Errorf("--%s attaches nothing: there is no process for -p or -c to choose", o.run.Mode)
	}
	return nil
}
