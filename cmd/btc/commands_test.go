// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary btc itself for the command lines of TestCommands.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"btc": main})
}

// TestCommands runs the command lines in testdata/*.txtar, in the language of testscript, and compares all that
// they print. They read nothing of the host, and start nothing but shell scripts of their own. tests/cli has those
// that need btrun or root.
//
//	masked FILE REGEXP...   replaces what matches in a file, such as the time of a run, by "..."
func TestCommands(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *updateReference,
		Setup: func(env *testscript.Env) error {
			env.Setenv("NO_COLOR", "1")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"masked": masked},
	})
}

func masked(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: masked FILE REGEXP...")
	}
	text := ts.ReadFile(args[0])
	for _, p := range args[1:] {
		text = pattern("(?m)"+p)().ReplaceAllString(text, "...")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
}
