// SPDX-License-Identifier: Apache-2.0

// Package cli holds the two programs to what their command lines promise: each
// wrong use gives one clear message with its place and exit status 1, and leaves
// nothing behind.
//
// The cases are testdata/*.txtar, in the language of testscript. Beside its own
// commands there is `holds NAME...`: the working directory has these files and
// no others, hidden ones included.
package cli

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"btc/loader/kerneltypes"
)

var update = flag.Bool("update", false, "rewrite the expected outputs in the cases")

func TestCommandLines(t *testing.T) {
	bin := build(t)
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv("BIN", bin)
			env.Setenv("TMPDIR", env.WorkDir+"/.tmp")
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Geteuid() == 0, nil
			case "btf":
				_, err := os.Stat(kerneltypes.Path)
				return err == nil, nil
			}
			return false, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"holds": holds},
	})
}

// build makes both programs in a directory that everyone may use.
func build(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	for dir := bin; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "build", "-o", bin, "btc/cmd/btc", "btc/cmd/btrun")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// holds checks what is in the working directory.
func holds(ts *testscript.TestScript, neg bool, want []string) {
	entries, err := os.ReadDir(ts.MkAbs("."))
	ts.Check(err)
	var have []string
	for _, e := range entries {
		if e.Name() != ".tmp" {
			have = append(have, e.Name())
		}
	}
	slices.Sort(want)
	if slices.Equal(have, want) == neg {
		ts.Fatalf("the directory holds %s, not %s", strings.Join(have, " "), strings.Join(want, " "))
	}
}
