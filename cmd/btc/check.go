// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"btc/cmd/btc/forecast"
	frontdiag "btc/frontend/diag"
	"btc/internal/arch"
	"btc/internal/manifest"
	"btc/internal/option"
	"btc/loader/diag"
	"btc/loader/object"
	"btc/targets/kernel"
)

// checked is the result for one object and target, as `btc check --json` prints it.
type checked struct {
	Object string          `json:"object"`
	script manifest.Script // the source of the positions
	*forecast.Report
}

func checkCommand() *command {
	var c checker
	return &command{
		name: "check", operands: "FILE.o|FILE.bt ...", summary: "report whether objects would load on the kernels of targets", files: []string{"o", "bt"},
		about:  "No kernel is needed: what is known of each is in its target. A script is compiled first, for the targets; no file is written.",
		status: "0 if nothing fails, 2 if a target's kernel would refuse an object, 1 if a script has errors or the check was not possible.",
		examples: []example{
			{"btc check reads.o", "check against the built-in targets"},
			{"btc check --target debian12.target --target rhel9.target reads.o", "check against the kernels of your hosts"},
			{"btc check --sarif scripts/*.bt > btc.sarif", "what a code host shows at the lines of a change"},
		},
		options: option.Table{
			{Name: "target", Value: "FILE", Repeat: true, To: &c.targets, Help: `target file, architecture of an embedded target, or "host"; may be repeated. Default: the embedded targets that the object supports`},
			{Name: "json", To: &c.messages.json, Help: "print JSON objects, one per line: one per error or warning of a script, then one per object and target"},
			{Name: "sarif", To: &c.messages.sarif, Help: "print errors and warnings of scripts, and reasons for verdicts, as SARIF for code hosts"},
			{Name: "untrusted", To: &c.script.untrusted, Help: "do not trust the scripts: read no files, nothing of this machine, and use at most 10 s of CPU time and 1 GiB for each"},
			{Name: "verbose", Short: "v", To: &c.verbose, Help: "list every program"},
		},
		run: c.run,
	}
}

// checker holds the options of btc check.
type checker struct {
	targets  []string
	messages messageFormat
	script   scriptFlags
	verbose  bool
}

// run reports, for each object and target, whether the object would load there.
// Exit status: 0 when nothing fails, 1 on wrong use or input, 2 when a target
// would refuse an object.
func (k *checker) run(line *option.Line) int {
	objects := line.All()
	if len(objects) == 0 {
		return fail("nothing to check: expected FILE.o from btc compile, or FILE.bt")
	}
	if err := k.messages.check(); err != nil {
		return fail("%v", err)
	}
	targets, err := openTargets(k.targets)
	if err != nil {
		return fail("%v", err)
	}
	var all []checked
	var messages []frontdiag.Message
	status := 0
	for _, path := range objects {
		some, found, ok, err := k.check(path, targets)
		if err != nil {
			return fail("%v", err)
		}
		if !ok {
			status = 1 // the others are checked nevertheless
		}
		all, messages = append(all, some...), append(messages, found...)
	}
	out := bufio.NewWriter(os.Stdout)
	switch {
	case k.messages.sarif:
		err = k.messages.write(out, append(messages, reasons(all)...))
	case k.messages.json:
		if err = k.messages.write(out, messages); err == nil {
			err = checksJSON(out, all)
		}
	case len(all) > 0:
		err = checksText(out, all, k.verbose)
	}
	if flush := out.Flush(); err == nil {
		err = flush
	}
	if err != nil {
		return fail("%v", err)
	}
	for _, c := range all {
		if c.Verdict == forecast.Fails && status == 0 {
			status = 2
		}
	}
	return status
}

// check checks a script or object within its limits. It returns messages for programs, and whether a script has no errors.
func (k *checker) check(path string, targets []*kernel.Target) (all []checked, messages []frontdiag.Message, ok bool, err error) {
	defer k.script.limits().watch()()
	read := func() (*object.Object, error) { return object.Read(path) }
	if !strings.HasSuffix(path, ".o") {
		var compiled *object.Files
		if compiled, messages, err = k.compile(path); err != nil || compiled == nil {
			return nil, messages, false, err
		}
		read = compiled.Parse
	}
	all, err = checkObject(path, read, targets, k.targets, !k.script.untrusted)
	return all, messages, true, err
}

// compile compiles a script for the targets. Errors and warnings are printed for people, or returned for programs. The object is
// nil if the script has errors.
func (k *checker) compile(path string) (*object.Files, []frontdiag.Message, error) {
	s := &k.script
	s.targets.files = k.targets
	name, text, err := s.script([]string{path})
	if err != nil {
		return nil, nil, err
	}
	out, diags, err := s.build(name, text)
	if err != nil {
		return nil, nil, err
	}
	var messages []frontdiag.Message
	if k.messages.machine() {
		messages = frontdiag.Messages(diags, name, false)
	} else {
		s.render(name, out, diags)
	}
	if out == nil {
		return nil, messages, nil
	}
	return object.NewFiles(strings.TrimSuffix(path, filepath.Ext(path))+".o", out.Object, nil), messages, nil
}

// reasons returns what speaks against verdicts of ok as messages: an error if an object fails, a warning if it is not known.
func reasons(all []checked) []frontdiag.Message {
	var messages []frontdiag.Message
	for _, c := range all {
		for _, f := range c.Findings {
			text := strings.TrimPrefix(f.Text, diag.Head(&c.script, f.Pos))
			m := frontdiag.Message{File: c.Object, Line: f.Pos.Line, Severity: "warning", Text: fmt.Sprintf("%s on %s %s: %s", f.Verdict, c.Target, c.Arch, text)}
			if f.Pos.Line > 0 && strings.HasSuffix(c.Object, ".o") {
				m.File = c.script.File
			}
			if f.Verdict == forecast.Fails {
				m.Severity = "error"
			}
			messages = append(messages, m)
		}
	}
	return messages
}

// openTargets opens the files; without any, the embedded targets.
func openTargets(files []string) ([]*kernel.Target, error) {
	if len(files) == 0 {
		files = arch.Labels()
	}
	var all []*kernel.Target
	for _, name := range files {
		t, err := openTarget(name)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// checkObject checks one object. Embedded targets of architectures that the
// object does not support are skipped unless they were requested by name. hostFacts allows to look at this host, if that is a target.
func checkObject(path string, read func() (*object.Object, error), targets []*kernel.Target, names []string, hostFacts bool) ([]checked, error) {
	var all []checked
	explicit := len(names) > 0
	for i, t := range targets {
		o, err := read() // again for each, because relocation modifies it
		if err != nil {
			return nil, err
		}
		if !explicit && !serves(o, t) {
			continue
		}
		r, err := forecast.Check(o, t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for i := range r.Findings {
			f := &r.Findings[i]
			f.Text = diag.Head(&o.Manifest.Script, f.Pos) + f.Text
		}
		if explicit && names[i] == "host" && hostFacts {
			r.NoteHost(o.Manifest)
		}
		for i := range r.Notes {
			n := &r.Notes[i]
			n.Text = diag.Head(&o.Manifest.Script, n.Pos) + n.Text
		}
		all = append(all, checked{path, o.Manifest.Script, r})
	}
	return all, nil
}

func serves(o *object.Object, t *kernel.Target) bool {
	for _, a := range o.Manifest.Arches {
		if a == t.Arch().Label {
			return true
		}
	}
	return len(o.Manifest.Arches) == 0
}

func checksJSON(w io.Writer, all []checked) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, c := range all {
		if err := enc.Encode(c); err != nil {
			return err
		}
	}
	return nil
}

// checksText prints a table with a row for each object and target, and the
// findings after it.
func checksText(w io.Writer, all []checked, verbose bool) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "OBJECT\tTARGET\tARCH\tVERDICT\tPROGRAMS\tSITES\tINSTRUCTIONS")
	for _, c := range all {
		sites, insns := 0, 0
		for _, p := range c.Programs {
			sites, insns = sites+p.Sites, insns+p.Instructions
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t%d\n", c.Object, c.Target, c.Arch, c.Verdict, len(c.Programs),
			sites, insns)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, c := range all {
		if len(c.Findings)+len(c.Notes) == 0 && !verbose {
			continue
		}
		fmt.Fprintf(w, "\n%s on %s %s:\n", c.Object, c.Target, c.Arch)
		for _, f := range c.Findings {
			fmt.Fprintf(w, "  %s: %s\n", f.Verdict, f.Text)
		}
		for _, n := range c.Notes {
			fmt.Fprintf(w, "  note: %s\n", n.Text)
		}
		if verbose {
			for _, p := range c.Programs {
				fmt.Fprintf(w, "  program %s (%s): %s, attach sites: %d, instructions: %d\n", p.Name, p.Attach,
					p.Verdict, p.Sites, p.Instructions)
			}
		}
	}
	return nil
}
