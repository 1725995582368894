// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"btc/compile"
	"btc/frontend/diag"
	"btc/internal/manifest"
	"btc/internal/option"
	"btc/internal/quit"
	"btc/loader/options"
)

// runner holds the options of btc run: those of the script, and those of btrun, which are passed on.
type runner struct {
	script   scriptFlags
	btrun    options.Values
	forward  []string // arguments for btrun
	list     bool
	patterns []string // patterns of --list=PATTERN
	info     bool
	version  bool
	format   bool     // --fmt: print the script in canonical form
	codegen  bool     // --mode codegen: compile, and do no more
	ignored  []string // options that have no effect
}

func runCommand() *command {
	r := new(runner)
	r.script.targets.native = true
	return &command{
		name: "run", operands: "FILE.bt | FILE.o | -e PROGRAM [PARAMETER ...] [-- --NAME=VALUE ...]", summary: "compile a script and trace immediately (root)", files: []string{"bt", "o"},
		about:   "It accepts the command line of bpftrace. The word run can be omitted, and a link to btc that is called bpftrace behaves the same.",
		options: r.options(), run: r.run, status: runStatus,
		examples: []example{
			{"btc run reads.bt dd", "trace with dd as $1, until Ctrl-C"},
			{"btc run -c 'make' -e 'tracepoint:syscalls:sys_enter_openat { @[comm] = count(); }'", "trace until the command ends"},
			{"btc run -l 'tracepoint:sched:*'", "list what can be attached to on this host"},
		},
	}
}

// options returns the rows of the script's options, those of btrun, and those that only bpftrace has.
func (r *runner) options() option.Table {
	table := slices.DeleteFunc(r.script.table(), func(o option.Option) bool { return o.Name == "color" }) // btrun's row
	table[0].Group = "Script"
	for i := range table {
		if table[i].Name == "no-warnings" {
			table[i] = option.Option{Name: "no-warnings", Help: "suppress all warnings", To: func(string) error {
				r.script.noWarnings = true
				r.forward = append(r.forward, "--no-warnings")
				return nil
			}}
		}
	}
	for _, o := range r.btrun.Table() {
		switch o.Name {
		case "mode":
			o.Choices = option.Choices("test", "bench", "format", "codegen")
			o.Help += "; format: as --fmt; codegen: only compile"
			pass := r.passOn(o)
			o.To = func(value string) error {
				switch {
				case !slices.Contains(o.Words(), value):
					return fmt.Errorf("--mode: %q is not one of %s", value, strings.Join(o.Words(), ", "))
				case value == "format":
					r.format = true
				case value == "codegen":
					r.codegen = true
				default:
					return pass(value)
				}
				return nil
			}
		case "no-warnings", "capture":
			continue
		case "help": // the library's
			continue
		case "version":
			o.To = &r.version
		case "list":
			o.To = func(pattern string) error {
				r.list = true
				if pattern != "" {
					r.patterns = append(r.patterns, pattern)
				}
				return nil
			}
			o.With += " program debuginfo binary target info"
			o.Help += ". With a script or -e, its probes are listed"
		case "color":
			pass := r.passOn(o)
			o.To = func(value string) error {
				r.script.color = value
				return pass(value)
			}
		default:
			o.To = r.passOn(o)
		}
		table = append(table, o)
	}
	return append(
		append(table, option.Option{Name: "info", To: &r.info, Help: "print what btc and this kernel support"}),
		r.bpftraceOnly()...)
}

// passOn keeps the value of an option of btrun and passes the option on.
func (r *runner) passOn(o option.Option) func(string) error {
	return func(value string) error {
		if err := o.Set(value); err != nil {
			return err
		}
		word := "--" + o.Name
		if o.Value != "" && (value != "" || !o.Optional) {
			word += "=" + value
		}
		r.forward = append(r.forward, word)
		return nil
	}
}

// bpftraceOnly returns the options of bpftrace that btc accepts but ignores, and those for which it has another
// command.
func (r *runner) bpftraceOnly() option.Table {
	ignored := func(name string) func(string) error {
		return func(string) error {
			r.ignored = append(r.ignored, "--"+name)
			return nil
		}
	}
	refused := func(name, hint string) func(string) error {
		return func(string) error { return fmt.Errorf("--%s: %s", name, hint) }
	}
	return option.Table{
		{
			Name:   "usdt-file-activation",
			Hidden: true,
			To:     func(string) error { return nil }, // probes are always enabled in every process of the file
			Help:   "accepted for compatibility: usdt probes are always enabled in all processes of a file",
		},
		{Name: "no-feature", Value: "FEATURES", Repeat: true, Hidden: true, To: r.noFeature},
		{Name: "verify-llvm-ir", Hidden: true, To: ignored("verify-llvm-ir")},
		{Name: "dwarf-pid", Value: "PID", Repeat: true, Hidden: true, To: ignored("dwarf-pid")},
		{Name: "aot", Value: "FILE", Hidden: true, To: refused("aot", "use btc compile SCRIPT -o FILE.o, and btrun FILE.o on the host")},
		{Name: "emit-elf", Value: "FILE", Hidden: true, To: refused("emit-elf", "use btc compile SCRIPT -o FILE.o")},
		{Name: "emit-llvm", Value: "FILE", Hidden: true, To: refused("emit-llvm", "btc does not use LLVM; use --dump to print its own stages")},
		{Name: "fmt", Alone: true, With: "program no-warnings quiet", To: &r.format, Group: "Instead of tracing", Help: "print the script in canonical form, as btc fmt does"},
	}
}

// optionalFeatures are the values of bpftrace's option --no-feature.
var optionalFeatures = []string{"kprobe_multi", "kprobe_session", "uprobe_multi"}

func (r *runner) noFeature(list string) error {
	for _, f := range strings.Split(list, ",") {
		if !slices.Contains(optionalFeatures, f) {
			return fmt.Errorf("--no-feature: %q is not one of %s", f, strings.Join(optionalFeatures, ", "))
		}
	}
	r.ignored = append(r.ignored, "--no-feature")
	return nil
}

// run compiles to a temporary directory and traces at once.
func (r *runner) run(line *option.Line) int {
	s := &r.script
	switch {
	case r.version:
		return printVersion(&option.Line{}, false)
	case r.info:
		return printInfo()
	case r.list:
		return r.listProbes(line.All())
	case r.format:
		return r.formatScript(line.Operands)
	}
	if err := r.btrun.Check(); err != nil {
		return fail("%v", err)
	}
	if runtime.GOOS != "linux" {
		return fail("btc run needs Linux: compile here with btc compile -o FILE.o, and trace with btrun FILE.o on a Linux host")
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
	if !s.isExpr && len(line.Operands) > 0 && strings.HasSuffix(line.Operands[0], ".o") {
		if s.targets.given() || len(s.dump) > 0 || r.codegen {
			return fail("--target, --arch, --dump and --mode codegen are for scripts: %s is compiled", line.Operands[0])
		}
		return trace(slices.Concat(r.forward, line.Operands, []string{"--"}, line.After))
	}
	name, text, err := s.script(line.Operands)
	if err != nil {
		return fail("%v", err)
	}
	params := line.Operands
	if !s.isExpr {
		params = params[1:]
	}
	for _, o := range r.ignored {
		if !s.noWarnings {
			fmt.Fprintf(os.Stderr, "WARNING: %s has no effect in btc\n", o)
		}
	}
	s.params, s.words = params, line.After
	s.fixAll = true
	s.warnUnread(text)
	out, diags, err := s.build(name, text)
	if err != nil {
		return fail("%v", err)
	}
	out, diags = s.withHost(name, text, out, diags, r.btrun.Quiet)
	if status := s.render(name, out, withoutHostNotes(diags)); out == nil || status != 0 || r.codegen {
		return status
	}
	out = s.forHost(out, name, text)
	dir, err := os.MkdirTemp("", "btc")
	if err != nil {
		return fail("%v", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "script.o")
	if err := writeFiles(newFile{path, out.Object}); err != nil {
		return fail("%v", err)
	}
	args := slices.Clone(r.forward)
	if s.verifier {
		args = append(args, "--verbose")
	}
	// Whoever runs a script has its source, so the files named in it may be written.
	if m, err := manifest.Parse(out.Manifest); err == nil {
		for _, p := range writtenFiles(m) {
			args = append(args, "--allow", p)
		}
	}
	// Parameters that begin with "-" came after "--", and are passed to btrun after "--".
	args = append(append(args, path), params...)
	return trace(append(append(args, "--"), line.After...))
}

// withoutHostNotes drops messages that matter only if the object runs on another host later: names that the embedded
// target lacks are looked up on this host.
func withoutHostNotes(diags *diag.List) *diag.List {
	kept := &diag.List{}
	for _, d := range diags.Sorted() {
		if d.Code != diag.NotInTarget {
			kept.Append(d)
		}
	}
	return kept
}

// formatScript implements --fmt.
func (r *runner) formatScript(operands []string) int {
	name, text, err := r.script.script(operands)
	if err != nil {
		return fail("%v", err)
	}
	if extra := r.script.extra(operands); extra != "" {
		return fail("unexpected argument %q: --fmt prints one script", extra)
	}
	if err := formatText(name, text, false); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// listProbes implements -l: btrun lists the probes of this host; btc list lists types, the probes
// of scripts, and the functions of a program with their parameters.
func (r *runner) listProbes(operands []string) int {
	l := lister{verbose: r.btrun.Verbose, host: true, files: r.script.files}
	patterns := append(slices.Clone(r.patterns), operands...)
	if r.script.isExpr {
		return l.listProgram(hostOrDefault, r.script.expr)
	}
	if ours := slices.ContainsFunc(patterns, func(p string) bool {
		kind, _, _ := strings.Cut(p, ":")
		return filepath.Ext(p) == ".bt" || strings.HasPrefix(p, "struct ") || strings.HasPrefix(p, "union ") || strings.HasPrefix(p, "enum ") ||
			l.verbose && kindOfFunctions(kind)
	}); ours || runtime.GOOS != "linux" {
		return l.listAll(hostOrDefault, patterns)
	}
	args := slices.Clone(r.forward)
	if len(patterns) == 0 {
		patterns = []string{"*"}
	}
	return trace(append(append(args, "--list"), patterns...))
}

// forHost compiles again for this kernel when the object copies kernel types whole, whose
// members have no relocations; if this kernel cannot be captured, out is returned unchanged.
func (s *scriptFlags) forHost(out *compile.Output, name, text string) *compile.Output {
	m, err := manifest.Parse(out.Manifest)
	if err != nil || s.targets.given() || s.untrusted || !m.CopiesWhole() {
		return out
	}
	own := *s
	own.noWarnings = true
	own.targets.files = []string{"host"}
	again, diags, err := own.build(name, text)
	if err != nil || own.render(name, again, diags) != 0 {
		return out
	}
	return again
}

// trace runs the btrun next to this program and returns its status. A signal to end the tracing ends btrun, which
// prints the maps; btc waits for that and then cleans up.
func trace(args []string) int {
	self, err := os.Executable()
	if err != nil {
		return fail("%v", err)
	}
	btrun := filepath.Join(filepath.Dir(self), "btrun")
	cmd := exec.Command(btrun, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 4)
	quit.Release()
	// They stay caught until the process exits: a copy of the signal that ended the run, as from
	// timeout(1), must not kill it before that.
	signal.Notify(signals, passedOn...)
	if err := cmd.Start(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fail("btc run needs btrun in the same directory: %s does not exist", btrun)
		}
		return fail("cannot run btrun: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			cmd.Process.Signal(sig)
		case <-ended:
			if code := cmd.ProcessState.ExitCode(); code >= 0 {
				return code
			}
			return fail("btrun: %v", cmd.ProcessState)
		}
	}
}
