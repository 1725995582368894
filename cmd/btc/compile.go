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
	target     string
	dump       string
	check      bool
	noWarnings bool
}

func (s *scriptFlags) add(fs *flag.FlagSet) {
	fs.StringVar(&s.expr, "e", "", "the `PROGRAM` itself instead of a file")
	fs.StringVar(&s.target, "target", "", "target `FILE` to compile for, or \"host\"; default: the embedded one")
	fs.StringVar(&s.dump, "dump", "", "print `STAGES` (comma-separated: ast, input, a pass's name, asm, manifest, all) to standard output")
	fs.BoolVar(&s.check, "check", false, "check the intermediate code against the kernel's rules after each pass")
	fs.BoolVar(&s.noWarnings, "no-warnings", false, "print errors only")
}

// newFlags is a flag set that reports misuse on stderr and leaves exiting to us.
func newFlags(name, args string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.Usage = func() {
		fmt.Fprintf(fs.Output(), "usage: btc %s %s\n", name, args)
		fs.PrintDefaults()
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
		return flagStatus(err)
	}
	name, text, err := s.script(operands)
	if err != nil {
		return fail("%v", err)
	}
	if len(operands) > 1 {
		return fail("one script at a time: %q is one too many", operands[1])
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
	result, status := s.compile(name, text)
	if result == nil {
		return status
	}
	if err := writeBoth(path, result); err != nil {
		return fail("%v", err)
	}
	return 0
}

// flagStatus is the exit status for a flag error: asking for help is none.
func flagStatus(err error) int {
	if err == flag.ErrHelp {
		return 0
	}
	return 1
}

// script is the text to compile and its name in messages.
func (s *scriptFlags) script(operands []string) (name, text string, err error) {
	if s.expr != "" {
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

// compile runs the compiler and prints its messages. The output is nil when the
// script has errors; the status is then the exit status.
func (s *scriptFlags) compile(name, text string) (*driver.Output, int) {
	t, err := openTarget(s.target)
	if err != nil {
		return nil, fail("%v", err)
	}
	in := driver.Input{Name: name, Text: text, Target: t, Verify: s.check, Compiler: "btc " + version}
	if s.dump != "" {
		in.Dump = dumper(s.dump)
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

// dumper prints the chosen stages.
func dumper(list string) func(stage, text string) {
	want := map[string]bool{}
	for _, s := range strings.Split(list, ",") {
		want[s] = true
	}
	return func(stage, text string) {
		if want["all"] || want[stage] {
			fmt.Printf("==== %s ====\n%s\n", stage, strings.TrimRight(text, "\n"))
		}
	}
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
	return target.Open(name)
}

// writeBoth writes object and manifest, or neither: both are complete under
// temporary names before the first takes its place.
func writeBoth(path string, out *driver.Output) error {
	files := []struct {
		path string
		data []byte
	}{
		{path, out.Object},
		{strings.TrimSuffix(path, ".o") + ".json", out.Manifest},
	}
	var temps []string
	defer func() {
		for _, t := range temps {
			os.Remove(t)
		}
	}()
	for _, f := range files {
		t, err := writeTemp(f.path, f.data)
		if err != nil {
			return fmt.Errorf("cannot write %s: %w", f.path, cause(err))
		}
		temps = append(temps, t)
	}
	for i, f := range files {
		if err := os.Rename(temps[i], f.path); err != nil {
			return fmt.Errorf("cannot write %s: %w", f.path, cause(err))
		}
	}
	return nil
}

// cause is what went wrong without the path of a temporary file.
func cause(err error) error {
	var p *os.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return p.Err
	case errors.As(err, &l):
		return l.Err
	}
	return err
}

func writeTemp(path string, data []byte) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

func isTerminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
