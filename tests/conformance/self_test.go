// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"btc/compile"
	"btc/frontend/diag"
	"btc/tests/conformance/message"
)

var testProbe = regexp.MustCompile(`(?m)^test:(\S+)`)

// TestSelf runs bpftrace's tests in its own language (tests/self). Each test probe of each file must
// run and pass.
func TestSelf(t *testing.T) {
	dir := checkout(t)
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	files, err := filepath.Glob(filepath.Join(dir, "self/*.bt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %s/self: %v", dir, err)
	}
	r := newRunner(t, dir)
	total := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".bt")
		names := testProbe.FindAllStringSubmatch(string(text), -1)
		t.Run(name, func(t *testing.T) {
			out, diags := compile.Compile(compile.Input{Name: diag.Stdin, Text: string(text), Target: r.target, Compiler: "test", Verify: true})
			if out == nil {
				t.Fatal(message.Text(diags, false))
			}
			path := filepath.Join(r.dir, name)
			if err := write(path, out); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(r.btrun, "--test", "-f", "json", path+".o")
			cmd.Stderr = new(bytes.Buffer)
			said, err := cmd.Output()
			if err != nil {
				t.Errorf("%v\n%s%s", err, said, cmd.Stderr)
			}
			for _, n := range names {
				line := regexp.MustCompile(`"data": \{"` + regexp.QuoteMeta(n[1]) + `": \{"duration": [0-9]+, "passed": true`)
				if !line.Match(said) {
					t.Errorf("%s did not pass", n[1])
				}
			}
			total += len(names)
		})
	}
	t.Logf("%d tests of %d files", total, len(files))
}
