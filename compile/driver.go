// SPDX-License-Identifier: Apache-2.0

// Package compile compiles a script to an object and a manifest. It calls the stages of the compiler, one package
// each, in order. The commands of btc and the tests share it. It is not a public interface: its types are those of the
// compiler's stages, and other programs run btc.
package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"btc/backend/emit"
	"btc/backend/mach"
	backendmanifest "btc/backend/manifest"
	"btc/backend/obj"
	"btc/frontend/ast"
	"btc/frontend/cdef"
	"btc/frontend/check"
	"btc/frontend/debuginfo"
	"btc/frontend/diag"
	"btc/frontend/expand"
	"btc/frontend/parse"
	"btc/internal/manifest"
	"btc/internal/objfile"
	"btc/internal/probe"
	"btc/ir"
	"btc/passes"
	"btc/targets/kernel"
)

// Input is the input of the compiler.
type Input struct {
	Name   string // shown in messages: a path, or "stdin" for -e
	Text   string
	Target *kernel.Target
	// Others are further targets that the object must support. Optional: an architecture
	// among them that it cannot support is skipped with a warning.
	Others   []*kernel.Target
	Optional bool
	// Verify runs the IR rule check after each pass.
	Verify bool
	// Dump, if set, is called with the printed form of each stage, in order. Names are "ast", "input", the names of
	// the passes, "asm", "object" and "manifest".
	Dump func(stage, text string)
	// Positions says that Dump gets the positions in machine code, too, as IR has them.
	Positions bool
	// SeriesClock names a map of the script that tseries reads the time from, for
	// tests; "" for the clock.
	SeriesClock string
	// Dirs are the directories that #include searches; Include are headers that are read before the script's own
	// text.
	Dirs, Include []string
	// Files finds the debug information of programs, for uprobes that use names from it; nil: no
	// debug information is read.
	Files *debuginfo.Finder
	// Confined restricts imports and headers to Dirs; the caller must not set Files and Environ.
	Confined bool
	// Params are the values of $1, $2, ... and Options those of getopt(). They become defaults for the loader, except
	// where the code needs them; FixAll compiles all of Params into the code.
	Params  []string
	Options map[string]string
	FixAll  bool
	// Words are further Params and Options as a command line has them: words, --name=value, and --name value if the
	// option is not a bool.
	Words []string
	// NoUnwind leaves out the code that unwinds user stacks by tables: ustack and dw_ustack follow frame pointers.
	NoUnwind bool
	// HelperErrors generates code that reports each failing helper.
	HelperErrors bool
	// Environ are environment variables, whose settings (BPFTRACE_MAX_STRLEN=64) override those of the script.
	Environ []string
	// ProbeFilter, if not nil, drops the probes whose attach point it does not match, except begin and end.
	ProbeFilter *regexp.Regexp
	// For is the program whose map format the object uses, one of Formats; "" for btrun's own.
	For string
	// Suffix ends the names of the object's own symbols, after an underscore: letters, digits and
	// underscores. "": the hash of the script, so that objects of several scripts can be linked.
	Suffix string
	// MapPrefix begins the symbols of the script's maps: @x is MapPrefix_x, and @ is MapPrefix. "": they keep
	// their names.
	MapPrefix string
	// PlainNames leaves the names without a suffix, for tests that compare them.
	PlainNames bool
	// SkipPass names an optional pass that does not run (passes.Optional), and Measure is called after each pass
	// (passes.Options), to find what a pass is worth.
	SkipPass string
	Measure  func(pass string, took time.Duration, changed int)
	// Compiler is the compiler's name and version for the manifest.
	Compiler string

	fixed *fixed
}

// Output is a compiled script.
type Output struct {
	Object   []byte     // the ELF file, with the manifest in its last section
	Manifest []byte     // the same manifest, as a file of its own
	Module   *ir.Module // without the blocks of its functions
	Funcs    []*emit.Func
}

// Compile compiles a script. The list holds its errors and warnings; the output is nil if there are errors.
func Compile(in Input) (*Output, *diag.List) {
	diags := &diag.List{}
	src := diag.NewSource(in.Name, in.Text)
	in.splitWords(src)
	in.fixed = in.newFixed()
	m := frontend(in, src, diags)
	if m == nil {
		return nil, diags
	}
	out, err := lower(in, m, 0)
	if err != nil {
		out = retryWithSmallerFrame(in, src, err)
	}
	if out == nil {
		report(err, src, diags)
		return nil, diags
	}
	return out, diags
}

// machineError is an error from code generation, such as a frame that is too large.
type machineError struct{ error }

func (e machineError) Unwrap() error { return e.error }

// retryWithSmallerFrame compiles again with a smaller frame for memory objects, if spilled values do not fit in the
// rest of the stack frame. Objects that no longer fit move to scratch, which costs a few instructions at each use. It
// returns nil if that does not help.
func retryWithSmallerFrame(in Input, src *diag.Source, err error) *Output {
	var machine machineError
	if !errors.As(err, &machine) {
		return nil
	}
	for _, frame := range []int{160, 64} {
		quiet := in
		quiet.Dump, quiet.Measure = nil, nil
		m := frontend(quiet, src, &diag.List{})
		if m == nil {
			return nil
		}
		if out, err := lower(in, m, frame); err == nil {
			return out
		}
	}
	return nil
}

// frontend compiles source to IR; nil when the script has errors.
func frontend(in Input, src *diag.Source, diags *diag.List) *ir.Module {
	script := parse.Script(src, diags, expand.Values(check.IsValue))
	if script == nil || slices.ContainsFunc(diags.Sorted(), isSyntax) {
		return nil
	}
	in.dump("ast", func() string {
		var b strings.Builder
		if err := ast.Fprint(&b, script); err != nil {
			return err.Error()
		}
		return b.String()
	})
	script = withEnvironment(script, in.Environ)
	later := in.startOthers(script)
	defer later.end()
	info := in.check(script, in.Target, diags)
	if diags.HasErrors() {
		return nil
	}
	return in.supportAll(later, info, src, diags)
}

// check expands and checks a script for a target. Parameters are left to the loader unless the code needs their
// values.
func (in Input) check(script *ast.Script, t *kernel.Target, diags *diag.List) *check.Info {
	for {
		own := &diag.List{}
		info := in.checkOnce(script, t, own)
		if !in.fix(info) {
			diags.Merge(own)
			return info
		}
	}
}

func (in Input) checkOnce(script *ast.Script, t *kernel.Target, diags *diag.List) *check.Info {
	c := cdef.Predefined(t)
	c.Dirs, c.Include = in.Dirs, in.Include
	script = expand.Script(script, diags, expand.Options{
		Builtin: check.IsBuiltin, IsValue: expand.Values(check.IsValue), C: c, Values: in.fixed.values, Named: in.fixed.named, Count: in.fixed.count,
		Confined: in.Confined,
	})
	info := check.Check(script, t, in.Files, diags)
	if err := t.Err(); err != nil {
		diags.Add(diag.BadTarget, diag.Span{}, "the target file is damaged: %v", err)
	}
	info.SeriesClock, info.HelperErrors, info.NoUnwind, info.For = in.SeriesClock, in.HelperErrors, in.NoUnwind, in.For
	if in.ProbeFilter != nil {
		info.Programs = slices.DeleteFunc(info.Programs, func(p *check.Program) bool {
			return p.Point.Kind != probe.Begin && p.Point.Kind != probe.End && !in.ProbeFilter.MatchString(p.Point.Text)
		})
	}
	return info
}

// isSyntax reports whether an error is a syntax error of the parser. Errors in attach points alone do not prevent
// checking the rest of the script.
func isSyntax(d *diag.Diagnostic) bool {
	return d.Severity() == diag.Error && d.Code != diag.BadProbeType && d.Code != diag.BadAttachPoint
}

// Formats are the programs for which there are map formats.
var Formats = passes.Formats

// lower compiles IR to bytes; frame is that of passes.Options.
func lower(in Input, m *ir.Module, frame int) (*Output, error) {
	opt := passes.Options{Frame: frame, Skip: in.SkipPass, Measure: in.Measure}
	if in.Verify {
		opt.Verify = ir.VerifyStage
	}
	if in.Dump != nil {
		opt.Dump = func(pass string, m *ir.Module) { in.Dump(pass, m.String()) }
	}
	if err := passes.Run(m, opt); err != nil {
		return nil, err
	}
	funcs, err := emit.Module(m, emit.Options{Check: in.Verify, Dump: machineDump(in.Dump), Positions: in.Positions, Free: true})
	if err != nil {
		return nil, machineError{err}
	}
	in.dump("asm", func() string { return assembly(funcs) })
	m.Suffix, m.MapPrefix = in.suffix(m), in.MapPrefix
	if err := checkSymbols(m); err != nil {
		return nil, err
	}
	in.setParams(m)
	object, err := obj.Write(m, funcs)
	if err != nil {
		return nil, err
	}
	if d, found := backendmanifest.TooLarge(m); found {
		return nil, d
	}
	doc, err := backendmanifest.Marshal(in.calls(in.given(backendmanifest.Build(m, funcs, object, in.Compiler))))
	var invalid *manifest.FormatError
	if errors.As(err, &invalid) && invalid.Size {
		return nil, tooLarge(m, invalid)
	}
	if err != nil {
		panic(fmt.Sprintf("BUG: the manifest is not valid: %v", err))
	}
	file, err := objfile.Join(object, doc)
	if err != nil {
		panic("BUG: the object has no room for its manifest: " + err.Error())
	}
	in.dump("object", func() string { return sections(file) })
	in.dump("manifest", func() string { return string(doc) })
	return &Output{Object: file, Manifest: doc, Module: m, Funcs: funcs}, nil
}

// calls adds the call sites of functions of uprobes to a manifest, which btrun --why names where they are inlined.
func (in Input) calls(m *manifest.Manifest) *manifest.Manifest {
	if in.Files == nil || in.For != "" {
		return m
	}
	for i := range m.Programs {
		p := &m.Programs[i]
		a := &p.Attach
		if p.Kind != probe.Uprobe && p.Kind != probe.Uretprobe || a.Name == "" || a.Lang != "" || len(a.Substitute) > 0 || probe.IsPattern(a.Target+a.Name) {
			continue
		}
		if x, id, ok := in.Files.Calls(a.Target, a.Name); ok {
			a.Calls = &manifest.Calls{Binary: id, Sites: x.Sites, Inlined: x.Inlined, In: x.In}
		}
	}
	return m
}

// tooLarge reports the position of a construct that does not fit in a manifest.
func tooLarge(m *ir.Module, f *manifest.FormatError) error {
	d := ir.Diag{Pos: ir.NoPos, Text: "the script is too large for an object: " + f.Path + ": " + f.Text}
	var i int
	if n, _ := fmt.Sscanf(f.Path, "events[%d]", &i); n == 1 && i < len(m.Events) {
		d.Pos = m.Events[i].Pos
	} else if n, _ := fmt.Sscanf(f.Path, "maps[%d]", &i); n == 1 && i < len(m.Maps) {
		d.Pos = m.Maps[i].Pos
	}
	if d.Pos != ir.NoPos {
		part := f.Path[strings.LastIndexByte(f.Path, '.')+1:]
		d.Text = "the result is too large for an object: " + part + ": " + f.Text
	}
	return d
}

// checkSymbols reports a map of the script whose symbol is also one of the object's own, which a suffix or
// prefix that the user chose can cause.
func checkSymbols(m *ir.Module) error {
	own := map[string]bool{}
	for _, f := range m.Funcs {
		own[m.Symbol(f.Name)] = true
	}
	for _, g := range m.Globals {
		own[m.Symbol(g.Name)] = true
	}
	for _, x := range m.Maps {
		if x.Shape == ir.ShapeIntern || x.Shape == ir.ShapeStack {
			own[m.MapSymbol(x)] = true
		}
	}
	for _, x := range m.Maps {
		if s := m.MapSymbol(x); x.Shape != ir.ShapeIntern && x.Shape != ir.ShapeStack && own[s] {
			return ir.Diag{
				Pos:  x.Pos,
				Text: fmt.Sprintf("the symbol of %s, %s, is also that of something else in the object", x.Name, s),
				Hint: "choose another name with --suffix or --map-prefix",
			}
		}
	}
	return nil
}

// suffix returns the suffix of the names of the object's own symbols.
func (in Input) suffix(m *ir.Module) string {
	switch {
	case in.Suffix != "":
		return "_" + in.Suffix
	case in.PlainNames, in.For == passes.ForGadget: // a gadget's runtime finds some symbols by their names
		return ""
	}
	sum := sha256.Sum256([]byte(m.File + "\x00" + m.Source))
	return "_" + hex.EncodeToString(sum[:3])
}

func (in Input) dump(stage string, text func() string) {
	if in.Dump != nil {
		in.Dump(stage, text())
	}
}

// machineDump passes on the backend's dumps of machine code, by function.
func machineDump(dump func(stage, text string)) func(stage, fn, text string) {
	if dump == nil {
		return nil
	}
	return func(stage, _, text string) {
		if stage != "asm" { // assembly below prints more
			dump(stage, text)
		}
	}
}

// assembly prints the code in the syntax of the kernel's log, with the script's positions
// and the linker's relocations.
func assembly(funcs []*emit.Func) string {
	var b strings.Builder
	for _, f := range funcs {
		symbols, comments := map[int]string{}, map[int]string{}
		for _, r := range f.Relocs {
			symbols[r.Insn] = r.Sym
		}
		for _, l := range f.Lines {
			comments[l.Insn] = l.Pos.String()
		}
		for _, c := range f.CORE {
			comments[c.Insn] = strings.TrimSpace(comments[c.Insn] + " " + c.Ref.String())
		}
		text, err := mach.Disassemble(f.Insns, func(slot int) (string, string) { return symbols[slot], comments[slot] })
		if err != nil {
			panic("BUG: " + err.Error())
		}
		fmt.Fprintf(&b, "%s:\n%s\n", f.Name, text)
	}
	return b.String()
}

// report converts an error of a later stage into a diagnostic at its position in the
// script.
func report(err error, src *diag.Source, diags *diag.List) {
	var all ir.Diags
	var one ir.Diag
	switch {
	case errors.As(err, &all):
	case errors.As(err, &one):
		all = ir.Diags{one}
	default:
		all = ir.Diags{{Pos: ir.NoPos, Text: err.Error()}}
	}
	for _, d := range all {
		x := diags.Add(diag.CannotCompile, spanOf(src, d.Pos), "%s", d.Text)
		if d.Hint != "" {
			x.Hint("%s", d.Hint)
		}
	}
}

// spanOf returns the span of a position, one byte long.
func spanOf(src *diag.Source, p ir.Pos) diag.Span {
	if p.Line < 1 || p.Line > src.LineCount() {
		return diag.Span{}
	}
	start := min(src.LineStart(p.Line)+max(p.Col, 1)-1, len(src.Text))
	return src.Span(start, min(start+1, len(src.Text)))
}

// objectName makes a C identifier from a script's file name.
func objectName(path string) string {
	name := path[strings.LastIndexByte(path, '/')+1:]
	name = strings.TrimSuffix(name, ".bt")
	out := []byte(name)
	for i, c := range out {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' && i > 0) {
			out[i] = '_'
		}
	}
	if len(out) == 0 {
		return "script"
	}
	return string(out)
}
