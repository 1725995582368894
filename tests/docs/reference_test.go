// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"btc/compile"
	"btc/frontend/check"
	"btc/frontend/diag"
	"btc/frontend/expand"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/targets/kernel"
	"btc/tests/docs/generated"
)

// entry explains one builtin, function, macro or kind of probe. The entries are in
// testdata/reference/*.txt in this form:
//
//	== NAME
//	usage: FORM                one or more, separated by ", "; default: the name
//	explanation, any number of lines
//	in: KINDS                  the probes in which it may be used, if the checker's table does not list them
//	kernel: WORDS              what it needs in addition to Linux 5.10 and the features in the manifest
//	run: OPTIONS               options of btrun, and parameters after the object
//	compile only: WHY          the example is not run
//	arch: NAME                 the example is only run on this architecture
//	-- SCRIPT                  the example
//	> LINE                     a line of its output; ">" alone: the output depends on the machine
type entry struct {
	name, usage, text, in, kernel, run, only, arch, script string
	prints                                                 []string
}

// entries parses a file in testdata/reference.
func entries(t *testing.T, file string) map[string]*entry {
	t.Helper()
	data, err := os.ReadFile("testdata/reference/" + file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*entry{}
	var e *entry
	more := &struct{ s *string }{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		if name, ok := strings.CutPrefix(line, "== "); ok {
			if all[name] != nil {
				t.Errorf("%s: duplicate entry %s", file, name)
			}
			e = &entry{name: name, usage: name}
			all[name] = e
			more.s = &e.text
			continue
		}
		known := false
		for key, field := range map[string]*string{
			"usage: ": &e.usage, "in: ": &e.in, "kernel: ": &e.kernel, "run: ": &e.run, "compile only: ": &e.only, "arch: ": &e.arch, "-- ": &e.script,
		} {
			if rest, ok := strings.CutPrefix(line, key); ok {
				*field, known = rest, true
				more.s = field
				if field == &e.usage {
					more.s = &e.text
				}
			}
		}
		if shown, ok := strings.CutPrefix(line, ">"); ok {
			if shown = strings.TrimPrefix(shown, " "); shown != "" {
				e.prints = append(e.prints, shown)
			}
			continue
		}
		if !known {
			*more.s = strings.TrimSpace(*more.s + " " + line)
		}
	}
	return all
}

// section returns the section of a page for an entry.
func (e *entry) section(t *testing.T, title string, about ...string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", title)
	if e.usage != e.name {
		b.WriteString(generated.Wrap("`"+strings.Join(forms(e.usage), "`, `")+"`") + "\n")
	}
	b.WriteString(generated.Wrap(e.text) + "\n    " + e.script + "\n")
	if len(e.prints) > 0 {
		b.WriteString("\n")
		if e.run != "" {
			fmt.Fprintf(&b, "prints, run with `%s`:\n\n", e.run)
		} else {
			b.WriteString("prints:\n\n")
		}
		b.WriteString(generated.Indent(strings.Join(e.prints, "\n")))
	}
	for _, line := range append(about, "Kernel: "+e.needs(t)) {
		if line != "" {
			b.WriteString("\n" + generated.Wrap(line))
		}
	}
	return b.String() + "\n"
}

// forms splits a usage at the commas outside of parentheses.
func forms(usage string) []string {
	var all []string
	depth, from := 0, 0
	for i, c := range usage {
		switch c {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case ',':
			if depth == 0 {
				all = append(all, usage[from:i])
				from = i + 2
			}
		}
	}
	return append(all, usage[from:])
}

// needs compiles the example and describes what it requires of the kernel.
func (e *entry) needs(t *testing.T) string {
	t.Helper()
	tgt, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	out, diags := compile.Compile(compile.Input{Name: "x.bt", Text: e.script, Target: tgt, Verify: true})
	if out == nil {
		var b strings.Builder
		diag.Render(&b, diags, diag.RenderOptions{})
		t.Errorf("%s: example does not compile:\n%s", e.name, &b)
		return ""
	}
	m, err := manifest.Parse(out.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	since := kernel.Version{Major: 5, Minor: 10}
	for _, n := range m.Needs {
		if h := kernel.HelperByName(n.Feature); h == nil {
			t.Errorf("%s needs %s, which is not in the table of helpers", e.name, n.Feature)
		} else if h.Since.Major > since.Major || h.Since.Major == since.Major && h.Since.Minor > since.Minor {
			since = h.Since
		}
	}
	text := fmt.Sprintf("Linux %d.%d", since.Major, since.Minor)
	if e.kernel != "" {
		text += "; " + e.kernel
	}
	return text + "."
}

// TestReference compares the pages of docs/reference with the tables of the checker, the standard
// macros and the kinds of probes: there must be an entry for each row, with an example that compiles.
func TestReference(t *testing.T) {
	builtins, functions, macros, probes := entries(t, "builtins.txt"), entries(t, "functions.txt"), entries(t, "macros.txt"), entries(t, "probes.txt")
	pages := map[string]map[string]string{"builtins": {}, "functions": {}, "probes": {}}
	take := func(from map[string]*entry, name string) *entry {
		e := from[name]
		if e == nil {
			t.Errorf("no entry for %s in testdata/reference", name)
			e = &entry{name: name, script: "begin { exit(); }"}
		}
		delete(from, name)
		return e
	}
	groups := map[string]*strings.Builder{}
	all := check.Functions()
	slices.SortStableFunc(all, func(a, b check.FunctionInfo) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range all {
		if !f.Supported && f.Name != "args" { // args is a builtin that is handled separately
			continue
		}
		from, group := functions, f.Group
		if group == "builtin" || f.Name == "args" {
			from, group = builtins, "builtin"
		}
		e := take(from, f.Name)
		where := "Probes: all."
		switch {
		case e.in != "":
			where = "Probes: " + strings.ReplaceAll(e.in, " ", ", ") + "."
		case group == "meta":
			where = ""
		case f.In != nil:
			where = "Probes: " + strings.Join(f.In, ", ") + "."
		}
		if groups[group] == nil {
			groups[group] = &strings.Builder{}
		}
		title := f.Name
		if title == "arg" {
			title = "arg0, arg1, ..."
		}
		groups[group].WriteString(e.section(t, title, where))
	}
	for group, text := range groups {
		page := "functions"
		if group == "builtin" {
			page = "builtins"
		}
		pages[page][group] = text.String()
	}
	var b strings.Builder
	for _, m := range expand.Standard() {
		e := take(macros, m.Signature)
		e.text = m.Doc
		b.WriteString(e.section(t, m.Signature))
	}
	pages["functions"]["macros"] = b.String()
	b.Reset()
	for _, k := range probe.Types() {
		short := ""
		if len(k.Aliases) > 0 {
			short = "Short: `" + strings.Join(k.Aliases, "`, `") + "`."
		}
		var has []string
		for _, c := range []struct {
			is   bool
			what string
		}{{k.Args, "`args`"}, {k.ArgN, "`arg0`, `arg1`, ..."}, {k.Retval && k.Kind != probe.Fentry, "`retval`"}} {
			if c.is {
				has = append(has, c.what)
			}
		}
		values := ""
		if len(has) > 0 {
			values = "Values: " + strings.Join(has, ", ") + "."
		}
		b.WriteString(take(probes, k.Kind).section(t, k.Kind, short, values))
	}
	pages["probes"]["kinds"] = b.String()
	for _, left := range []map[string]*entry{builtins, functions, macros, probes} {
		for name := range left {
			t.Errorf("entry for %s in testdata/reference, but it is in no table", name)
		}
	}
	for page, parts := range pages {
		generated.Check(t, "../../docs/reference/"+page+".md", parts, *update)
	}
}

// TestReferenceExamples runs the examples and checks the output shown on the pages.
func TestReferenceExamples(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	for _, file := range []string{"builtins", "functions", "macros", "probes"} {
		all := entries(t, file+".txt")
		names := make([]string, 0, len(all))
		for name := range all {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			e := all[name]
			if e.only != "" {
				continue
			}
			t.Run(file+"/"+name, func(t *testing.T) { e.runs(t) })
		}
	}
}

// absent are the messages on kernels that lack a kind of probe.
var absent = []string{"this kernel has no kprobes", "the kernel does not permit f", "this machine has no counter", "No matches for usdt"}

func (e *entry) runs(t *testing.T) {
	if e.arch != "" && e.arch != map[string]string{"amd64": "x86_64"}[runtime.GOARCH] {
		t.Skip("skipped: the example is for ", e.arch)
	}
	dir := t.TempDir()
	if out, err := exec.Command(programs+"/btc", "compile", "-e", e.script, "-o", filepath.Join(dir, "x.o")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	options, params := e.run, ""
	if i := strings.Index(e.run, "-- "); i >= 0 && (i == 0 || e.run[i-1] == ' ') {
		options, params = e.run[:i], e.run[i:]
	}
	cmd := exec.Command("sh", "-c", fmt.Sprintf("exec %s/btrun %s x.o %s", programs, options, params))
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second
	timer := time.AfterFunc(3*time.Minute, func() { cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	if err != nil {
		for _, words := range absent {
			if strings.Contains(string(out), words) {
				t.Skip("skipped: this kernel: ", words)
			}
		}
		t.Fatalf("%v\n%s\n%s", err, e.script, out)
	}
	have := normal(string(out))
	for _, line := range e.prints {
		if strings.HasSuffix(line, "|") {
			continue
		}
		if !strings.Contains(have, normal(line)) {
			t.Errorf("%s\n%q not found in the output:\n%s", e.script, line, out)
		}
	}
}
