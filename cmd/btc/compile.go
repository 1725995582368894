package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"btc/cmd/btc/driver"
	"btc/frontend/diag"
	"btc/ir/target"
)

// scriptFlags are the options that say what to compile, and for which target.
type scriptFlags struct {
	expr       string
	isExpr     bool // -e was given
	target     string
	dump       string
	check      bool
	noWarnings bool
}

func (s *scriptFlags) add(fs *flag.FlagSet) {
	fs.Func("e", "the `PROGRAM` itself instead of a file", func(text string) error {
		s.expr, s.isExpr = text, true
		return nil
	})
	fs.StringVar(&s.target, "target", "", "target `FILE` to compile for, or \"host\"; default: the embedded one")
	fs.StringVar(&s.dump, "dump", "", "print `STAGES` (comma-separated: ast, input, a pass's name, asm, object, manifest, all) to standard output")
	fs.BoolVar(&s.check, "check", false, "check the intermediate code against the kernel's rules after each pass")
	fs.BoolVar(&s.noWarnings, "no-warnings", false, "print errors only")
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

// parseInterleaved parses flags that may stand before and after operands, as
// in `btc compile x.bt -o x.o`; what follows "--" is left alone.
func parseInterleaved(fs *flag.FlagSet, args []string) ([]string, error) {
	var operands []string
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

func runCompile(args []string) int {
	var s scriptFlags
	fs := newFlags("compile", "FILE.bt | -e PROGRAM [-o FILE.o] [options]")
	s.add(fs)
	out := fs.String("o", "", "object `FILE` to write; the manifest goes beside it with .json. Default: the script's name with .o")
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
		b, err := io.ReadAll(os.Stdin)
		return diag.Stdin, string(b), err
	}
	b, err := os.ReadFile(operands[0])
	if err != nil {
		return "", "", fmt.Errorf("cannot read the script: %w", err)
	}
	return operands[0], string(b), nil
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
func (s *scriptFlags) compile(name, text string) (*driver.Output, int) {
	t, err := openTarget(s.target)
	if err != nil {
		return nil, fail("%v", err)
	}
	in := driver.Input{Name: name, Text: text, Target: t, Verify: s.check, Compiler: "btc " + version}
	if s.dump != "" {
		if in.Dump, err = dumper(s.dump); err != nil {
			return nil, fail("%v", err)
		}
	}
	out, diags := driver.Compile(in)
	opt := diag.RenderOptions{Color: isTerminal(os.Stderr), NoWarnings: s.noWarnings, MaxErrors: 50}
	if err := diag.Render(os.Stderr, diags, opt); err != nil {
		return nil, 1
	}
	if out == nil {
		return nil, 1
	}
	return out, 0
}

// openTarget is the target to compile for: the embedded one, a file, or this host.
func openTarget(name string) (*target.Target, error) {
	switch name {
	case "":
		return target.Default("x86_64")
	case "host":
		b, err := captureHost()
		if err != nil {
			return nil, fmt.Errorf("cannot capture this host: %w", err)
		}
		return target.New(b)
	}
	t, err := target.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the target: %w", err)
	}
	return t, nil
}

func isTerminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
