// SPDX-License-Identifier: Apache-2.0

// Bpftrace replaces bpftrace in bpftrace's own runtime tests. It understands the options that they use,
// compiles with btc's driver and traces with btrun's command line, in one process, so that the tests
// find the process name and ID that they expect. Its messages have bpftrace's form ("ERROR: ...").
//
// Two programs are in the same directory: "btc", and "loader/bpftrace", which is btrun and lists
// probes.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"btc/frontend/diag"
	"btc/internal/manifest"
)

// call is a parsed command line.
type call struct {
	program  string // -e
	given    bool
	list     bool
	verbose  bool
	silent   bool // no warnings
	failures bool // -k
	pid      string
	debug    []string // directories of --debuginfo
	loader   []string // options passed on to btrun
	operands []string
	dirs     []string // -I
	include  []string // --include
	filter   *regexp.Regexp
	named    []string // after "--", or a --name=value that is not one of our options
}

// values are the options with a value, grouped by what is done with it.
var values = map[string]func(*call, string){
	"-e":                    func(c *call, v string) { c.program, c.given = v, true },
	"-f":                    func(c *call, v string) { c.loader = append(c.loader, "-f", v) },
	"-o":                    func(c *call, v string) { c.loader = append(c.loader, "-o", v) },
	"-B":                    func(c *call, v string) { c.loader = append(c.loader, "-B", v) },
	"-c":                    func(c *call, v string) { c.loader = append(c.loader, "-c", v) },
	"-p":                    func(c *call, v string) { c.pid = v; c.loader = append(c.loader, "-p", v) },
	"--debuginfo":           func(c *call, v string) { c.debug = append(c.debug, v) },
	"--no-feature":          func(*call, string) {},
	"--probe-filter":        (*call).setFilter,
	"--mode":                func(c *call, v string) { c.loader = append(c.loader, "--mode", v) },
	"--aot":                 func(*call, string) { unknown("--aot") },
	"-d":                    func(*call, string) { unknown("-d") },
	"-I":                    func(c *call, v string) { c.dirs = append(c.dirs, v) },
	"--include":             func(c *call, v string) { c.include = append(c.include, v) },
	"--dwarf-pid":           func(*call, string) { unknown("--dwarf-pid") },
	"--traceable-functions": func(c *call, v string) { c.loader = append(c.loader, "--traceable-functions", v) },
}

var toggles = map[string]func(*call){
	"-l":                     func(c *call) { c.list = true },
	"-v":                     func(c *call) { c.verbose = true },
	"-q":                     func(c *call) { c.loader = append(c.loader, "-q") },
	"-k":                     func(c *call) { c.failures = true },
	"--unsafe":               func(c *call) { c.loader = append(c.loader, "--unsafe") },
	"--dry-run":              func(c *call) { c.loader = append(c.loader, "--dry-run") },
	"--verify-llvm-ir":       func(*call) {},
	"--usdt-file-activation": func(*call) {},
	"--no-warnings":          func(c *call) { c.silent = true; c.loader = append(c.loader, "--no-warnings") },
	"--info":                 func(*call) { info() },
	"-h":                     func(*call) { help() },
	"-V":                     func(*call) { version() },
}

var long = map[string]string{"--pid": "-p", "--cmd": "-c", "--list": "-l", "--output": "-o", "--help": "-h", "--version": "-V"}

const usage = `USAGE:
    bpftrace [options] filename
    bpftrace [options] - <stdin input>
    bpftrace [options] -e 'program'
`

// help prints the text of -h. The options are described in bpftrace's own help.
func help() {
	fmt.Print(usage)
	os.Exit(0)
}

// version prints bpftrace's version, which the tests look for, not btc's.
func version() {
	fmt.Println("bpftrace v" + manifest.Language)
	os.Exit(0)
}

// unknown ends the run of a test that uses an option which btc does not have.
func unknown(option string) {
	fmt.Printf("the adapter has no option %s\n%s", option, usage)
	os.Exit(1)
}

// Begin and end programs run on the thread that triggers them: the main thread, as in btrun.
func init() { runtime.LockOSThread() }

func main() {
	c := &call{}
	c.parse(os.Args[1:])
	self, err := os.Executable()
	check(err)
	dir := filepath.Dir(self)
	if c.list {
		c.becomeList(dir)
	}
	name, text := diag.Stdin, c.program
	if !c.given {
		if len(c.operands) == 0 {
			unknown("to run without a program")
		}
		name, c.operands = c.operands[0], c.operands[1:]
		b, err := readScript(name)
		var cause syscall.Errno
		if errors.As(err, &cause) {
			text := cause.Error()
			err = fmt.Errorf("failed to open file '%s': %s", name, strings.ToUpper(text[:1])+text[1:])
		}
		check(err)
		text = string(b)
	}
	os.Exit(c.trace(name, text))
}

func (c *call) setFilter(text string) {
	var err error
	if c.filter, err = regexp.Compile(text); err != nil {
		fmt.Fprintf(os.Stderr, "ERROR: Invalid --probe-filter regex '%s': %v\n", text, err)
		os.Exit(1)
	}
}

// options returns the values for getopt().
func (c *call) options() map[string]string {
	all := map[string]string{}
	for _, arg := range c.named {
		name, value, given := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if !given {
			value = "true"
		}
		all[name] = value
	}
	return all
}

func readScript(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(name)
}

// becomeList implements -l: btrun lists the probes of this host that match, btc adds their types.
func (c *call) becomeList(dir string) {
	pattern := strings.Join(c.operands, " ")
	if c.given {
		c.listProgram(dir)
	}
	if c.verbose || strings.HasPrefix(pattern, "struct ") || filepath.Ext(pattern) == ".bt" {
		args := []string{"btc", "list", "-v", pattern}
		for _, d := range c.debug {
			args = append(args, "--debuginfo", d)
		}
		check(syscall.Exec(filepath.Join(dir, "btc"), args, os.Environ()))
	}
	if pattern == "" {
		pattern = "*"
	}
	args := []string{"bpftrace", "--list", pattern}
	if c.pid != "" {
		args = append(args, "-p", c.pid)
	}
	check(syscall.Exec(filepath.Join(dir, "loader", "bpftrace"), args, os.Environ()))
}

// listProgram lists the probes of a program. btc knows its attach points; btrun expands those of user
// space.
func (c *call) listProgram(dir string) {
	script := filepath.Join(dir, "objects", strconv.Itoa(os.Getpid())+".bt")
	check(os.MkdirAll(filepath.Dir(script), 0o755))
	check(os.WriteFile(script, []byte(c.program), 0o600))
	points, err := exec.Command(filepath.Join(dir, "btc"), "list", "--target", "host", script).Output()
	check(err)
	for point := range strings.Lines(string(points)) {
		point = strings.TrimSpace(point)
		if kind, _, _ := strings.Cut(point, ":"); kind != "uprobe" && kind != "uretprobe" && kind != "usdt" {
			fmt.Println(point)
			continue
		}
		args := []string{"--list", point}
		if c.pid != "" {
			args = append(args, "-p", c.pid)
		}
		found, err := exec.Command(filepath.Join(dir, "loader", "bpftrace"), args...).CombinedOutput()
		fmt.Printf("%s", found)
		check(err)
	}
	os.Exit(0)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "ERROR:", err)
		os.Exit(1)
	}
}

// parse reads options as getopt_long does: short options may be combined, and options may follow
// operands.
func (c *call) parse(args []string) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			for _, a := range args {
				c.operand(a)
			}
			return
		case strings.HasPrefix(arg, "--"):
			args = c.long(arg, args)
		case len(arg) > 1 && arg[0] == '-':
			args = c.short(arg[1:], args)
		default:
			c.operands = append(c.operands, arg)
		}
	}
}

func (c *call) operand(arg string) {
	if strings.HasPrefix(arg, "--") {
		c.named = append(c.named, arg)
		return
	}
	c.operands = append(c.operands, arg)
}

func (c *call) long(arg string, rest []string) []string {
	name, value, joined := strings.Cut(arg, "=")
	if s, ok := long[name]; ok {
		name = s
	}
	if f, ok := values[name]; ok {
		if !joined && len(rest) > 0 {
			value, rest = rest[0], rest[1:]
		}
		f(c, value)
	} else if f, ok := toggles[name]; ok {
		f(c)
	} else {
		unknown(name)
	}
	return rest
}

func (c *call) short(letters string, rest []string) []string {
	for i := range len(letters) {
		name := "-" + letters[i:i+1]
		if f, ok := values[name]; ok {
			value := letters[i+1:]
			if value == "" && len(rest) > 0 {
				value, rest = rest[0], rest[1:]
			}
			f(c, value)
			return rest
		}
		f, ok := toggles[name]
		if !ok {
			unknown(name)
		}
		f(c)
	}
	return rest
}
