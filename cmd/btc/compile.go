package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"

	"btc/compile"
	"btc/frontend/debuginfo"
	"btc/frontend/diag"
)

// scriptFlags are the options that say what to compile, and for which target.
type scriptFlags struct {
	expr       string
	isExpr     bool // -e was given
	targets    targetFlags
	dump       string
	check      bool
	files      debuginfo.Finder
	noWarnings bool
	filter     *regexp.Regexp // --probe-filter
	dirs       []string
	include    []string
	params     []string          // what stands behind "--"
	options    map[string]string // --name=value there
	fixAll     bool              // the code is made for these parameters only

	helperErrors bool // -k
	untrusted    bool
}

func (s *scriptFlags) add(fs *flag.FlagSet) {
	fs.Func("e", "the `PROGRAM` itself instead of a file", func(text string) error {
		s.expr, s.isExpr = text, true
		return nil
	})
	s.targets.add(fs)
	fs.StringVar(&s.dump, "dump", "", "print `STAGES` (comma-separated: ast, input, a pass's name, asm, object, manifest, all) to standard output")
	fs.BoolVar(&s.check, "check", false, "check the intermediate code against the kernel's rules after each pass")
	fs.Func("I", "`DIR` with headers that the script includes (repeatable)", func(dir string) error {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fmt.Errorf("%s is no folder", dir)
		}
		s.dirs = append(s.dirs, dir)
		return nil
	})
	fs.Func("include", "`FILE` to include before the script's first line (repeatable)", func(path string) error {
		s.include = append(s.include, path)
		return nil
	})
	addFiles(fs, &s.files)
	fs.Func("probe-filter", "compile only the probes whose attach point the regular expression `REGEX` matches, and begin and end", func(text string) (err error) {
		if s.filter, err = regexp.Compile(text); err != nil {
			return fmt.Errorf("Invalid --probe-filter regex '%s': %w", text, err) //lint:ignore ST1005 bpftrace's words
		}
		return nil
	})
	fs.BoolVar(&s.helperErrors, "k", false, "make code that reports each failure of a kernel function: reads of bad addresses, lookups of missing keys")
	fs.BoolVar(&s.untrusted, "untrusted", false, "the script may be anyone's: read no files but those below the directories of -I, nothing of this machine, and keep to 10 s and 1 GiB")
	fs.BoolVar(&s.noWarnings, "no-warnings", false, "print errors only")
}

// addFiles adds the options that say where debug information of programs is.
func addFiles(fs *flag.FlagSet, files *debuginfo.Finder) {
	fs.Func("debuginfo", "look for separate debug files of programs in `DIR`, too; may be repeated", func(dir string) error {
		files.Dirs = append(files.Dirs, dir)
		return nil
	})
	fs.Func("binary", "`NAME=FILE`: take the debug information of FILE for the program or library NAME of attach points; may be repeated", func(v string) error {
		name, file, ok := strings.Cut(v, "=")
		if !ok || name == "" || file == "" {
			return fmt.Errorf("want NAME=FILE")
		}
		if files.Files == nil {
			files.Files = map[string]string{}
		}
		files.Files[name] = file
		return nil
	})
}

// newFlags is a flag set that prints nothing by itself: flagStatus does.
func newFlags(name, args string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {
		fs.SetOutput(os.Stdout)
		fmt.Printf("usage: btc %s %s\n", name, args)
		fs.PrintDefaults()
		fs.SetOutput(io.Discard)
	}
	return fs
}

// parseInterleaved parses flags that may be before and after operands, as
// in `btc compile x.bt -o x.o`; what follows "--" is left alone.
func parseInterleaved(fs *flag.FlagSet, args []string) ([]string, error) {
	var operands []string
	args = splitJoined(args)
	for len(args) > 0 {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		rest := fs.Args()
		if used := len(args) - len(rest); used > 0 && args[used-1] == "--" {
			return append(operands, rest...), nil
		}
		if len(rest) == 0 {
			break
		}
		operands = append(operands, rest[0])
		args = rest[1:]
	}
	return operands, nil
}

// cutParams splits the arguments at "--": parameters of the script are behind it.
func cutParams(args []string) (own, params []string) {
	for i, arg := range args {
		if arg == "--" {
			return args[:i], args[i+1:]
		}
	}
	return args, nil
}

// scriptParams takes the script's parameters: --name=value for getopt(), all else
// in order as $1, $2, ...
func (s *scriptFlags) scriptParams(args []string) {
	s.options = map[string]string{}
	for _, arg := range args {
		name, isNamed := strings.CutPrefix(arg, "--")
		if !isNamed {
			s.params = append(s.params, arg)
			continue
		}
		name, value, given := strings.Cut(name, "=")
		if !given {
			value = "true"
		}
		s.options[name] = value
	}
}

// splitJoined writes "-IDIR" as "-I DIR", up to "--".
func splitJoined(args []string) []string {
	var out []string
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		if dir, ok := strings.CutPrefix(arg, "-I"); ok && dir != "" && dir[0] != '=' {
			out = append(out, "-I")
			arg = dir
		}
		out = append(out, arg)
	}
	return out
}

// longScript is the length of a script of some two hundred clauses.
const longScript = 16 << 10

func runCompile(args []string) int {
	var s scriptFlags
	fs := newFlags("compile", "FILE.bt | -e PROGRAM [-o FILE.o] [options] [-- PARAMETERS]")
	s.add(fs)
	out := fs.String("o", "", "object `FILE` to write; the manifest goes beside it with .json. Default: the script's name with .o")
	args, params := cutParams(args)
	s.scriptParams(params)
	operands, err := parseInterleaved(fs, args)
	if err != nil {
		return flagStatus(fs, err)
	}
	name, text, err := s.script(operands)
	if err != nil {
		return fail("%v", err)
	}
	if extra := s.extra(operands); extra != "" {
		return fail("one script at a time: %q is one too many", extra)
	}
	path := *out
	if path == "" {
		if name == diag.Stdin {
			return fail("say where to write with -o FILE.o")
		}
		path = strings.TrimSuffix(filepath.Base(name), ".bt") + ".o"
	}
	if !strings.HasSuffix(path, ".o") {
		return fail("-o %s: the name of an object ends in .o", path)
	}
	for _, written := range outputNames(path) {
		if sameFile(written, name) {
			return fail("-o %s would overwrite the script %s", path, name)
		}
	}
	if len(text) > longScript && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(150) // here the memory counts
	}
	result, status := s.compile(name, text)
	if result == nil {
		return status
	}
	if err := writeBoth(path, result); err != nil {
		return fail("%v", err)
	}
	return 0
}

// flagStatus reports a flag error and gives the exit status: asking for help is
// no error.
func flagStatus(fs *flag.FlagSet, err error) int {
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	return fail("%v; `btc %s -h` lists the options", err, fs.Name())
}

// script is the text to compile and its name in messages.
func (s *scriptFlags) script(operands []string) (name, text string, err error) {
	if s.isExpr {
		return diag.Stdin, s.expr, nil
	}
	if len(operands) == 0 {
		return "", "", fmt.Errorf("no script: give a FILE.bt, - for standard input, or -e PROGRAM")
	}
	if operands[0] == "-" {
		text, err := readPipe(os.Stdin)
		return diag.Stdin, text, err
	}
	text, err = readScript(operands[0])
	return operands[0], text, err
}

// extra is the first operand that is not the script; "" when there is none.
func (s *scriptFlags) extra(operands []string) string {
	if !s.isExpr {
		operands = operands[1:]
	}
	return strings.Join(operands[:min(len(operands), 1)], "")
}

// compile runs the compiler and prints its messages. The output is nil when the
// script has errors; the status is then the exit status.
func (s *scriptFlags) compile(name, text string) (*compile.Output, int) {
	if s.untrusted && s.targets.host() {
		return nil, fail("--untrusted reads nothing of this machine: leave out --target=host")
	}
	limits := usual
	if s.untrusted {
		limits = strict
	}
	defer limits.watch()()
	t, others, err := s.targets.open()
	if err != nil {
		return nil, fail("%v", err)
	}
	in := compile.Input{Name: name, Text: text, Target: t, Others: others, Optional: !s.targets.given(), Verify: s.check, Dirs: s.dirs, Include: s.include, Params: s.params, Options: s.options, FixAll: s.fixAll, HelperErrors: s.helperErrors, Files: &s.files, ProbeFilter: s.filter, Environ: os.Environ(), Compiler: "btc " + version}
	if s.untrusted {
		in.Confined, in.Files, in.Environ = true, nil, nil
	}
	if s.dump != "" {
		if in.Dump, err = dumper(s.dump); err != nil {
			return nil, fail("%v", err)
		}
	}
	out, diags := compile.Compile(in)
	opt := diag.RenderOptions{Color: isTerminal(os.Stderr), NoWarnings: s.noWarnings, MaxErrors: 50}
	if err := diag.Render(os.Stderr, diags, opt); err != nil {
		return nil, 1
	}
	if out == nil {
		return nil, 1
	}
	return out, 0
}

func isTerminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
