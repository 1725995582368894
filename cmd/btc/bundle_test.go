// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"btc/internal/arch"
	"btc/internal/bundle"
	"btc/internal/manifest"
)

// TestHostileNames checks that completions of a bundle omit parameters whose names a shell would expand.
func TestHostileNames(t *testing.T) {
	dir := t.TempDir()
	m := new(manifest.Manifest)
	names := []string{"depth", "x$(touch $DIR/made)", "y`touch $DIR/made`", "z;touch $DIR/made;", "q' touch", "two touch", "l\ntouch", "", "min.size-a_1"}
	for _, name := range names {
		m.Params = append(m.Params, manifest.Param{Name: name, Help: "help $(touch $DIR/made) `touch $DIR/made` 'touch"})
	}
	for _, shell := range bundle.Shells {
		text := bundleCompletion(shell, "reads", m)
		if !strings.Contains(text, "--depth=") || !strings.Contains(text, "--min.size-a_1=") {
			t.Errorf("%s: a parameter is missing:\n%s", shell, text)
		}
		for _, name := range names[1:7] {
			if strings.Contains(text, name) {
				t.Errorf("%s: has %q:\n%s", shell, name, text)
			}
		}
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		script := text
		if shell == "bash" {
			script += "\nCOMP_WORDS=(reads -- --)\nCOMP_CWORD=2\n_reads 2>/dev/null\necho ${COMPREPLY[@]}"
		}
		cmd := exec.Command(shell, "-c", script)
		cmd.Env = append(os.Environ(), "DIR="+dir)
		out, err := cmd.CombinedOutput()
		if shell == "bash" && (err != nil || string(out) != "--depth= --min.size-a_1=\n") {
			t.Errorf("bash: %v, %q", err, out)
		}
		if _, err := os.Stat(filepath.Join(dir, "made")); err == nil {
			t.Errorf("%s: a name or help ran a command", shell)
		}
	}
}

// TestLargeFiles checks that files that are too large are errors, and are not cut.
func TestLargeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "btrun")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, maxLoader+1); err != nil {
		t.Fatal(err)
	}
	if _, err := loaderFile(path, arch.ByName("x86_64")); err == nil || !strings.HasSuffix(err.Error(), "btrun: larger than 67108864 bytes") {
		t.Errorf("a loader: %v", err)
	}
	for _, c := range []struct{ text, says string }{{"12", ""}, {"123", ""}, {"1234", "x: larger than 3 bytes"}} {
		text, err := readAll(strings.NewReader(c.text), "x", 3)
		if c.says == "" && (err != nil || string(text) != c.text) || c.says != "" && (err == nil || err.Error() != c.says) {
			t.Errorf("%s: %q, %v", c.text, text, err)
		}
	}
}
