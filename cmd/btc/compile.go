// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"btc/compile"
	"btc/frontend/debuginfo"
	"btc/frontend/diag"
	"btc/internal/color"
	"btc/internal/manifest"
	"btc/internal/option"
	"btc/internal/safefile"
	"btc/internal/signature"
	"btc/loader/object"
	"btc/report/stages"
)

// scriptFlags holds the options for what to compile, and for which target.
type scriptFlags struct {
	expr       string
	isExpr     bool // -e was given
	targets    targetFlags
	dump       map[string]bool // stages to print
	verifier   bool            // --dump requests the kernel's log
	check      bool
	files      debuginfo.Finder
	noWarnings bool
	color      string
	filter     *regexp.Regexp // --probe-filter
	dirs       []string
	include    []string
	params     []string // operands after the script
	words      []string // arguments after "--"
	fixAll     bool     // compile the parameters into the code

	messages     messageFormat // --json, --sarif
	format       string        // --for
	suffix       string        // --suffix
	mapPrefix    string        // --map-prefix
	helperErrors bool          // -k
	noUnwind     bool          // --no-unwind
	untrusted    bool
	skipPass     string
}

// table returns the options for what to compile and how.
func (s *scriptFlags) table() option.Table {
	table := option.Table{
		{Name: "program", Short: "e", Value: "PROGRAM", To: s.setProgram, Help: "the script itself instead of a file"},
	}
	table = append(table, s.targets.options()...)
	table = append(table, option.Table{
		{Name: "include-dir", Short: "I", Value: "DIR", Repeat: true, To: s.addDir, Help: "directory with headers that the script includes; may be repeated"},
		{Name: "include", Value: "FILE", Repeat: true, To: &s.include, Help: "file to include before the script's first line; may be repeated"},
	}...)
	table = append(table, fileOptions(&s.files)...)
	return append(table, option.Table{
		{Name: "probe-filter", Value: "REGEX", To: s.setFilter, Help: "compile only the probes whose attach point the regular expression matches, and begin and end"},
		{Name: "warnings", Short: "k", To: s.setHelperErrors, Help: "generate code that reports each failing kernel function, such as reads of invalid addresses and lookups of missing keys"},
		{Name: "no-unwind", To: &s.noUnwind, Help: "leave out the code that finds user stacks by unwind tables, about 20 KB, which needs btrun: ustack and dw_ustack follow frame pointers"},
		{Name: "untrusted", To: &s.untrusted, Help: "do not trust the script: read no files except below the directories of -I, nothing of this machine, and use at most 10 s of CPU time and 1 GiB"},
		{Name: "no-warnings", To: &s.noWarnings, Help: "print errors only"},
		color.Option(&s.color),
		{Name: "check", To: &s.check, Help: "check the intermediate code against the kernel's rules after each pass"},
		skipOption(&s.skipPass),
		{
			Name:    "dump",
			Short:   "d",
			Aliases: "debug",
			Value:   "STAGES",
			Repeat:  true,
			To:      s.addDump,
			Help: "print stages, separated by commas, to standard output: " + strings.Join(dumpStages, ", ") +
				", a pass of btc passes, and bpftrace's names " + strings.Join(bpftraceStages(), ", "),
		},
	}...)
}

func (s *scriptFlags) setProgram(text string) error {
	s.expr, s.isExpr = text, true
	return nil
}

func (s *scriptFlags) addDir(dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("-I: %s is not a directory", dir)
	}
	s.dirs = append(s.dirs, dir)
	return nil
}

func (s *scriptFlags) setHelperErrors(string) error {
	if s.helperErrors {
		return errors.New("-kk has been deprecated: a single -k warns of errors in map lookups and probe reads")
	}
	s.helperErrors = true
	return nil
}

func (s *scriptFlags) setFilter(text string) (err error) {
	if s.filter, err = regexp.Compile(text); err != nil {
		return fmt.Errorf("Invalid --probe-filter regex '%s': %w", text, err) //lint:ignore ST1005 bpftrace's words
	}
	return nil
}

// fileOptions returns the options for finding debug information of programs.
func fileOptions(files *debuginfo.Finder) option.Table {
	return option.Table{
		{
			Name:   "debuginfo",
			Value:  "DIR",
			Repeat: true,
			Help:   "also search this directory, or several separated by colons, for separate debug files of programs; may be repeated",
			To: func(v string) error {
				files.Dirs = append(files.Dirs, filepath.SplitList(v)...)
				return nil
			},
		},
		{
			Name:   "binary",
			Value:  "NAME=FILE",
			Repeat: true,
			Help:   "use the debug information of FILE for the program or library NAME in attach points; may be repeated",
			To: func(v string) error {
				name, file, ok := strings.Cut(v, "=")
				if !ok || name == "" || file == "" {
					return fmt.Errorf("--binary: expected NAME=FILE, found %q", v)
				}
				if files.Files == nil {
					files.Files = map[string]string{}
				}
				files.Files[name] = file
				return nil
			},
		},
	}
}

// longScript is the length of a script of some two hundred clauses.
const longScript = 16 << 10

func compileCommand() *command {
	var s scriptFlags
	var out, manifest string
	var noManifest bool
	return &command{
		name: "compile", operands: "FILE.bt | -e PROGRAM [-- PARAMETERS]", summary: "compile a script to an object", files: []string{"bt"},
		about: "The object is one file, which contains its manifest: copy it to the host and run it with btrun. Until version " +
			"1.0, the manifest is also written to a file of its own, for programs that read it. Nothing is written if the " +
			"script has an error.",
		examples: []example{
			{"btc compile reads.bt", "write reads.o, and a copy of its manifest to reads.json"},
			{"btc compile -e 'kprobe:vfs_read { @[comm] = count(); }' -o reads.o", "compile a one-line script"},
			{"btc compile --target debian12.target --target rhel9.target reads.bt", "require that the object runs on both kernels"},
			{"btc compile --dump=html reads.bt > reads.html", "write a page for a browser that shows what each pass changes"},
			{"btc compile stacks.bt -- 5", "give $1 to the compiler, for a script that needs it there, as in kstack($1)"},
		},
		options: append(option.Table{{Name: "output", Short: "o", Value: "FILE", To: &out,
			Help: "object to write, a name that ends in .o; default: the script's name with .o"},
			{Name: "manifest", Value: "FILE", To: &manifest, Help: "file for the copy of the manifest; default: the object's name with .json"},
			{Name: "no-manifest", To: &noManifest, Help: "write no copy of the manifest: only the object, which contains it"},
			{Name: "for", Value: "PROGRAM", To: &s.format, Choices: formats(),
				Help: "lay out maps as another program reads them: ebpf_exporter or gadget (Inspektor Gadget)"},
			{Name: "suffix", Value: "NAME", To: s.setSuffix,
				Help: "suffix of the object's own symbols, as in events_NAME, instead of a hash of the script"},
			{Name: "map-prefix", Value: "NAME", To: s.setMapPrefix,
				Help: "prefix of the symbols of the script's maps: @x is NAME_x, and @ is NAME"},
			{Name: "json", To: &s.messages.json, Help: "print errors and warnings to standard output, as JSON objects, one per line"},
			{Name: "sarif", To: &s.messages.sarif, Help: "print errors and warnings to standard output, as SARIF for code hosts"},
		}, s.table()...),
		run: func(line *option.Line) int {
			if err := s.messages.check(); err != nil {
				return fail("%v", err)
			}
			if s.messages.machine() && len(s.dump) > 0 {
				return fail("--dump and --json or --sarif exclude each other: both print to standard output")
			}
			if noManifest && manifest != "" {
				return fail("--manifest and --no-manifest exclude each other")
			}
			return s.compileTo(out, manifest, !noManifest, line)
		},
	}
}

func (s *scriptFlags) setSuffix(name string) error {
	if !validSuffix().MatchString(name) {
		return fmt.Errorf("--suffix: %q is not 1 to 24 letters, digits and underscores", name)
	}
	s.suffix = name
	return nil
}

func (s *scriptFlags) setMapPrefix(name string) error {
	if !validPrefix().MatchString(name) {
		return fmt.Errorf("--map-prefix: %q is not 1 to 24 letters, digits and underscores, a letter first", name)
	}
	s.mapPrefix = name
	return nil
}

var validPrefix = pattern(`^[A-Za-z][A-Za-z0-9_]{0,23}$`)

var validSuffix = pattern(`^[A-Za-z0-9_]{1,24}$`)

// formats returns the programs whose map formats are supported.
func formats() []option.Choice {
	var all []option.Choice
	for _, f := range compile.Formats {
		all = append(all, option.Choice{Name: f})
	}
	return all
}

// compileTo compiles to an object at path; "" is the script's name with .o. If copied is set, it writes a copy of the
// manifest; "" is the object's name with .json.
func (s *scriptFlags) compileTo(path, manifest string, copied bool, line *option.Line) int {
	// The compiler exits before much garbage accumulates: collecting at the default rate would take half the time.
	// The first collection is at 16 MB.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
	if s.verifier {
		return fail("--dump: the verifier runs when the object is loaded: use btc run")
	}
	if (s.suffix != "" || s.mapPrefix != "") && s.format == "gadget" {
		return fail("--suffix and --map-prefix cannot be combined with --for gadget: " +
			"Inspektor Gadget finds symbols by their names")
	}
	s.words = line.After
	operands := line.Operands
	name, text, err := s.script(operands)
	if err != nil {
		return fail("%v", err)
	}
	if extra := s.extra(operands); extra != "" {
		return fail("unexpected argument %q: one script at a time; parameters follow --", extra)
	}
	if path == "" {
		if name == diag.Stdin {
			return fail("missing output file: use -o FILE.o")
		}
		path = strings.TrimSuffix(filepath.Base(name), ".bt") + ".o"
	}
	if !strings.HasSuffix(path, ".o") {
		return fail("-o %s: the name of an object ends in .o", path)
	}
	if manifest != "" && sameFile(manifest, name) {
		return fail("--manifest %s would overwrite the script", manifest)
	}
	if manifest == path || sameFile(manifest, path) {
		return fail("--manifest %s is also the object", manifest)
	}
	beside := object.ManifestPath(path)
	if manifest == "" && copied {
		manifest = beside
	}
	if sameFile(path, name) || sameFile(manifest, name) {
		return fail("-o %s would overwrite the script %s", path, name)
	}
	if len(text) > longScript && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(150) // limit memory use
	}
	result, status := s.compile(name, text)
	if result == nil {
		return status
	}
	files := []newFile{{path, result.Object}}
	if manifest != "" {
		files = append(files, newFile{manifest, result.Manifest})
	}
	if manifest != beside {
		// btrun refuses an object next to another one's manifest.
		if old, err := os.ReadFile(beside); err == nil && !bytes.Equal(old, result.Manifest) {
			return fail("%s is not the manifest of the new %s, so btrun would refuse it: remove %[1]s first", beside, path)
		}
	}
	return s.writeObject(files...)
}

// writeObject writes an object, the first of files, and others with it. It warns of signatures of the object that was there before:
// btrun refuses the new one because of them where a signature is demanded.
func (s *scriptFlags) writeObject(files ...newFile) int {
	path := files[0].path
	var stale []string
	for _, ext := range signature.Extensions {
		if _, err := os.Lstat(path + ext); err == nil {
			stale = append(stale, path+ext)
		}
	}
	if len(stale) > 0 {
		if old, err := safefile.Read(path, object.MaxBytes); err != nil || bytes.Equal(old, files[0].data) {
			stale = nil
		}
	}
	if err := writeFiles(files...); err != nil {
		return fail("%v", err)
	}
	for _, name := range stale {
		if !s.noWarnings {
			fmt.Fprintf(os.Stderr, "btc: warning: %s is a signature of the object that was there before: sign %s again\n", name, path)
		}
	}
	return 0
}

// script returns the script to compile and its name in messages.
func (s *scriptFlags) script(operands []string) (name, text string, err error) {
	if s.isExpr {
		return diag.Stdin, s.expr, nil
	}
	if len(operands) == 0 {
		return "", "", fmt.Errorf("no script: expected FILE.bt, - for standard input, or -e PROGRAM")
	}
	if operands[0] == "-" {
		text, err := readPipe(os.Stdin)
		return diag.Stdin, text, err
	}
	text, err = readScript(operands[0])
	return operands[0], text, err
}

// extra returns the first operand that is not the script; "" if there is none.
func (s *scriptFlags) extra(operands []string) string {
	if !s.isExpr {
		operands = operands[1:]
	}
	return strings.Join(operands[:min(len(operands), 1)], "")
}

// compile runs the compiler and prints its messages. The output is nil when the
// script has errors; the status is then the exit status.
func (s *scriptFlags) compile(name, text string) (*compile.Output, int) {
	out, diags, err := s.build(name, text)
	if err != nil {
		return nil, fail("%v", err)
	}
	return out, s.render(name, out, diags)
}

// render prints the messages of a script's compilation and returns the exit status.
func (s *scriptFlags) render(name string, out *compile.Output, diags *diag.List) int {
	if s.messages.machine() {
		if err := s.messages.write(os.Stdout, diag.Messages(diags, name, s.noWarnings)); err != nil || out == nil {
			return 1
		}
		return 0
	}
	opt := diag.RenderOptions{
		Color:      color.Wanted(s.color, isTerminal(os.Stderr), os.Getenv),
		NoWarnings: s.noWarnings,
		MaxErrors:  50,
	}
	if err := diag.Render(os.Stderr, diags, opt); err != nil || out == nil {
		return 1
	}
	return 0
}

// warnUnread warns about parameters that a script does not read. What it imports, and $# are taken to read all.
func (s *scriptFlags) warnUnread(text string) {
	positional, _ := manifest.SplitParams(s.words, func(string) bool { return true })
	positional = slices.Concat(s.params, positional)
	if s.noWarnings || len(positional) == 0 || strings.Contains(text, "$#") || strings.Contains(text, "import") || strings.Contains(text, "#include") {
		return
	}
	last := 0
	for _, found := range regexp.MustCompile(`\$([0-9]+)`).FindAllStringSubmatch(text, -1) {
		if n, err := strconv.Atoi(found[1]); err == nil {
			last = max(last, n)
		}
	}
	if unread := positional[min(last, len(positional)):]; len(unread) > 0 {
		fmt.Fprintf(os.Stderr, "WARNING: %s\n", manifest.NotRead(unread))
	}
}

// build runs the compiler. The output is nil when the script has errors.
func (s *scriptFlags) build(name, text string) (*compile.Output, *diag.List, error) {
	if s.untrusted && s.targets.host() {
		return nil, nil, errors.New("--untrusted reads nothing of this machine: omit --target=host")
	}
	defer s.limits().watch()()
	t, others, err := s.targets.open()
	if err != nil {
		return nil, nil, err
	}
	in := compile.Input{
		Name:         name,
		Text:         text,
		Target:       t,
		Others:       others,
		Optional:     !s.targets.given(),
		Verify:       s.check,
		Dirs:         s.dirs,
		Include:      s.include,
		Params:       s.params,
		Words:        s.words,
		FixAll:       s.fixAll,
		HelperErrors: s.helperErrors,
		NoUnwind:     s.noUnwind,
		Files:        &s.files,
		ProbeFilter:  s.filter,
		Environ:      os.Environ(),
		For:          s.format,
		Suffix:       s.suffix,
		MapPrefix:    s.mapPrefix,
		SkipPass:     s.skipPass,
		Compiler:     "btc " + version,
	}
	if s.untrusted {
		in.Confined, in.Files, in.Environ = true, nil, nil
	}
	var page *stages.Stages
	switch {
	case s.dump["html"]:
		page = &stages.Stages{File: name, Source: text, Doc: passDoc}
		in.Dump, in.Positions = page.Add, true
	case len(s.dump) > 0:
		in.Dump = dumpTo(os.Stdout, s.dump)
	}
	out, diags := compile.Compile(in)
	if page != nil && out != nil {
		if err := s.writeStages(os.Stdout, page, out); err != nil {
			return nil, nil, err
		}
	}
	return out, diags, nil
}
