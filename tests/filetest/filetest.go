// SPDX-License-Identifier: Apache-2.0

// Package filetest runs the file tests of passes.
//
// A file test is a txtar archive with one small case. Its comment describes the case in prose, and
// lists in one line the passes to run:
//
//	Adding zero is removed.
//
//	pass fold
//	-- in --
//	func @p prog (kind kprobe) {
//	b0(v0:ctx):
//	  ...
//	}
//	-- out --
//	(the IR after the pass)
//	-- inputs --
//	run p ctx+112=4
//
// Sections:
//
//	in      the IR before the pass (docs/ir.md)
//	out     the IR after the pass, exactly as printed by ir.Print
//	error   instead of out: the errors of the pass, one Diag per line
//	inputs  the inputs for running the programs, in the form of interp.ParseInputs.
//	        The IR before and after the pass must behave the same in the
//	        interpreter. Every case with programs should have this section.
//	state   the observable state after running the inputs, for the reader; if
//	        present, it must be correct
//
// The IR before and after must pass ir.Verify, and must not change when it is printed and parsed again.
// The target is the default one of x86_64; a line `target none` runs without a target, `target arm64`
// with that of arm64. A line `serve x86_64 arm64` lists the architectures that the object supports.
//
// `go test -run ... -update` rewrites out, error and state of the cases that fail, and adds a missing
// out.
package filetest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"btc/internal/arch"
	"btc/ir"
	"btc/ir/interp"
	"btc/targets/kernel"
)

// Pass is a pass that a case can run. A nil Pass in a table is a mistake.
type Pass func(*ir.Module) []ir.Diag

var update = flag.Bool("update", false, "rewrite the expected parts of file tests")

// Run runs each *.txtar file of dir as a subtest. It fails if there are none, or if a case names a pass
// that is not in passes.
func Run(t *testing.T, dir string, passes map[string]Pass) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no file tests in %s: %v", dir, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			archive := txtar.Parse(data)
			c, err := read(archive, passes)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.run()
			if err != nil {
				t.Fatal(err)
			}
			c.compare(t, file, archive, got)
		})
	}
}

// testCase is a parsed archive.
type testCase struct {
	passes []Pass
	before *ir.Module
	inputs []interp.Input
	want   map[string]string // contents of the sections out, error and state
}

func read(archive *txtar.Archive, passes map[string]Pass) (*testCase, error) {
	c := &testCase{want: map[string]string{}}
	machine, serve := "x86_64", []string(nil)
	for _, line := range strings.Split(string(archive.Comment), "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) > 1 && words[0] == "pass":
			for _, name := range words[1:] {
				p := passes[name]
				if p == nil {
					return nil, fmt.Errorf("no pass %q", name)
				}
				c.passes = append(c.passes, p)
			}
		case len(words) == 2 && words[0] == "target":
			machine = words[1]
		case len(words) > 1 && words[0] == "serve":
			serve = words[1:]
		}
	}
	if len(c.passes) == 0 {
		return nil, fmt.Errorf("no line \"pass NAME\" in the comment")
	}
	for _, f := range archive.Files {
		var err error
		switch f.Name {
		case "in":
			if c.before, err = ir.Parse(string(f.Data)); err != nil {
				return nil, fmt.Errorf("in: %w", err)
			}
		case "inputs":
			if c.inputs, err = interp.ParseInputs(string(f.Data)); err != nil {
				return nil, err
			}
		case "out", "error", "state":
			c.want[f.Name] = string(f.Data)
		default:
			return nil, fmt.Errorf("unknown section %q", f.Name)
		}
	}
	if c.before == nil {
		return nil, fmt.Errorf("missing section \"in\"")
	}
	if machine != "none" {
		var err error
		if c.before.Target, err = kernel.Default(machine); err != nil {
			return nil, err
		}
	}
	for _, name := range serve {
		a := arch.ByName(name)
		if a == nil {
			return nil, fmt.Errorf("unknown architecture %q", name)
		}
		c.before.Arches = append(c.before.Arches, a)
	}
	return c, nil
}

// run returns the correct contents of the sections. Its error cannot be fixed with -update.
func (c *testCase) run() (map[string]string, error) {
	if err := ir.Verify(c.before); err != nil {
		return nil, fmt.Errorf("in: %w", err)
	}
	after := c.before.Clone()
	for _, pass := range c.passes {
		if diags := pass(after); len(diags) > 0 {
			var sb strings.Builder
			for _, d := range diags {
				fmt.Fprintln(&sb, d.Error())
			}
			return map[string]string{"error": sb.String()}, nil
		}
	}
	text := after.String()
	if err := ir.Verify(after); err != nil {
		return nil, fmt.Errorf("after the pass: %w\n%s", err, text)
	}
	if err := roundTrip(text); err != nil {
		return nil, err
	}
	got := map[string]string{"out": text}
	if len(c.inputs) == 0 {
		return got, nil
	}
	if err := interp.Equivalent(c.before, after, c.inputs); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, text)
	}
	_, state, err := interp.RunAll(after, c.inputs)
	if err != nil {
		return nil, err
	}
	got["state"] = strings.Join(state, "\n") + "\n"
	return got, nil
}

func roundTrip(text string) error {
	m, err := ir.Parse(text)
	if err != nil {
		return fmt.Errorf("printed IR does not parse: %w\n%s", err, text)
	}
	if again := m.String(); again != text {
		return fmt.Errorf("IR changed by parsing and printing it again (-first +second):\n%s", cmp.Diff(text, again))
	}
	return nil
}

// compare checks the existing sections. A missing state is allowed; a missing out or error is not.
func (c *testCase) compare(t *testing.T, file string, archive *txtar.Archive, got map[string]string) {
	t.Helper()
	bad := false
	for _, name := range []string{"out", "error", "state"} {
		want, there := c.want[name]
		is, made := got[name]
		if !there && (name == "state" || !made) || normal(want) == normal(is) && there == made {
			continue
		}
		bad = true
		if !*update {
			t.Errorf("%s (-want +got):\n%s\nrun with -update to accept", name, cmp.Diff(normal(want), normal(is)))
		}
	}
	if bad && *update {
		rewrite(t, file, archive, got)
	}
}

// normal removes blank lines at the start and the end.
func normal(s string) string { return strings.TrimSpace(s) }

func rewrite(t *testing.T, file string, archive *txtar.Archive, got map[string]string) {
	t.Helper()
	var files []txtar.File
	seen := map[string]bool{}
	for _, f := range archive.Files {
		seen[f.Name] = true
		switch is, made := got[f.Name]; {
		case f.Name != "out" && f.Name != "error" && f.Name != "state":
			files = append(files, f)
		case made:
			files = append(files, txtar.File{Name: f.Name, Data: []byte(strings.TrimSpace(is) + "\n")})
		}
	}
	for _, name := range []string{"out", "error"} {
		if is, made := got[name]; made && !seen[name] {
			files = append(files, txtar.File{Name: name, Data: []byte(strings.TrimSpace(is) + "\n")})
		}
	}
	data := txtar.Format(&txtar.Archive{Comment: archive.Comment, Files: files})
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
