// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"btc/compile"
	"btc/frontend/diag"
	"btc/targets/kernel"
	"btc/tests/conformance/message"
)

// runner runs runtime tests.
type runner struct {
	tests  string // directory tests/ of the checkout; the working directory of each run
	dir    string // for objects
	btrun  string // the loader, under the name that the tests expect
	target *kernel.Target
}

// outcome is the result of one test.
type outcome struct {
	failure error      // nil if as expected
	refused *diag.List // not nil if the script did not compile
	output  string
}

// run compiles and runs the program of a test, and compares its output.
func (r *runner) run(d definition) (o outcome) {
	defer func() {
		if p := recover(); p != nil {
			o.failure = fmt.Errorf("panic: %v", p)
		}
	}()
	out, diags := compile.Compile(compile.Input{Name: diag.Stdin, Text: d.prog, Target: r.target, Compiler: "test", SeriesClock: d.variable("BPFTRACE_DUMMY_TS_MAP")})
	said := message.Text(diags, false)
	if out == nil {
		o := outcome{refused: diags, output: said}
		o.failure = r.check(d, o.output, 1, false)
		return o
	}
	path := filepath.Join(r.dir, strings.ReplaceAll(d.key(), "/", "."))
	if err := write(path, out); err != nil {
		return outcome{failure: err}
	}
	run, err := r.trace(d, path+".o")
	if err != nil {
		return outcome{failure: err, output: run.text}
	}
	o.output = run.text
	if !d.exact() {
		o.output = said + run.text
	}
	o.failure = r.check(d, o.output, run.status, run.stopped)
	return o
}

func write(path string, out *compile.Output) error {
	if err := os.WriteFile(path+".o", out.Object, 0o600); err != nil {
		return err
	}
	return os.WriteFile(path+".json", out.Manifest, 0o600)
}

// exact reports whether the whole output is compared.
func (d definition) exact() bool {
	return len(d.expects) > 0 && (d.expects[0].mode == "FILE" || d.expects[0].mode == "JSON")
}

// check compares the output and the exit status with the expectations.
func (r *runner) check(d definition, output string, status int, stopped bool) error {
	for _, e := range d.expects {
		if err := e.met(r.tests, output, d.timestamp); err != nil {
			return err
		}
	}
	switch {
	case stopped:
	case d.willFail && status == 0:
		return fmt.Errorf("exit status 0, want a failure")
	case !d.willFail && status != d.status:
		return fmt.Errorf("exit status %d, want %d", status, d.status)
	}
	return nil
}

// trace runs the loader on an object until it exits or reaches the time limit of the test.
func (r *runner) trace(d definition, object string) (ended, error) {
	args := []string{object}
	if d.json() {
		args = []string{"-q", "-f", "json", object}
	}
	cmd := exec.Command(r.btrun, args...)
	cmd.Dir = r.tests
	return follow(cmd, d)
}
