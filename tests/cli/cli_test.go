// SPDX-License-Identifier: Apache-2.0

// Package cli tests the command lines of the two programs: each wrong use must give one clear message
// with a position, exit with status 1, and leave nothing behind.
//
// The cases are testdata/*.txtar, in the language of testscript. There are some additional commands:
//
//	holds NAME...             checks that the working directory has exactly these files, including hidden ones
//	until FILE COUNT REGEXP   waits until COUNT lines of the file match
//	signal SIGNAL             sends a signal to the only background process
package cli

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"btc/loader/kerneltypes"
)

var update = flag.Bool("update", false, "rewrite the expected outputs in the cases")

func TestCommandLines(t *testing.T) {
	bin := build(t)
	// Programs that are started inherit ignored signals, as those of nohup(1), but not caught ones.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	defer signal.Stop(caught)
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
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"holds": holds, "until": until, "signal": send},
	})
}

// build builds both programs in a world-readable directory.
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

// holds checks the contents of the working directory.
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

// until waits for lines of a file.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: until FILE COUNT REGEXP")
	}
	count, err := strconv.Atoi(args[1])
	ts.Check(err)
	want, err := regexp.Compile("(?m)" + args[2])
	ts.Check(err)
	var text []byte
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		text, _ = os.ReadFile(ts.MkAbs(args[0])) // it may not exist yet
		if len(want.FindAll(text, -1)) >= count {
			return
		}
	}
	ts.Fatalf("%s: want %d lines that match %s:\n%s", args[0], count, want, text)
}

var signals = map[string]os.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "USR1": syscall.SIGUSR1,
}

// send sends a signal. It is not an error if the process has just exited.
func send(ts *testscript.TestScript, neg bool, args []string) {
	all := ts.BackgroundCmds()
	if neg || len(args) != 1 || signals[args[0]] == nil || len(all) != 1 {
		ts.Fatalf("usage: signal SIGNAL, with one background process")
	}
	if err := all[0].Process.Signal(signals[args[0]]); !errors.Is(err, os.ErrProcessDone) {
		ts.Check(err)
	}
}
