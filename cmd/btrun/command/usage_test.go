// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"strings"
	"testing"
)

// TestUsage checks where the usage goes, and the messages for objects that are none.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args           string
		status         int
		stdout, stderr string
	}{
		{"", 1, "", usage()},
		{"--help", 0, usage(), ""},
		{"--version", 0, "btrun v1\n", ""},
		{"x.bt", 1, "", "btrun: x.bt is a script, not an object: compile it with btc compile x.bt -o FILE.o, and run btrun FILE.o\n"},
		{"--budget 5 x.o", 1, "", "btrun: --budget: \"5\" is not a share of one CPU such as 1% or 0.5%\n"},
		{"--max-memory x x.o", 1, "", "btrun: --max-memory: "},
		{"--rotate 63K -o x x.o", 1, "", "btrun: --rotate: \"63K\" is not a size of at least 64K, such as 100M\n"},
	} {
		var stdout, stderr bytes.Buffer
		status := Run(strings.Fields(c.args), Streams{Out: &stdout, Err: &stderr, Version: "v1"})
		if status != c.status || stdout.String() != c.stdout || !strings.HasPrefix(stderr.String(), c.stderr) || c.stderr == "" && stderr.Len() > 0 {
			t.Errorf("btrun %s: status %d, output %q, errors %q", c.args, status, stdout.String(), stderr.String())
		}
	}
}

// TestLimitsOfARun checks that the limits on the command line reach the run.
func TestLimitsOfARun(t *testing.T) {
	o, err := parseArgs(strings.Fields("--budget 0.5% --max-memory 3M --rotate 64K -o x x.o"), nil)
	if err != nil || o.Budget != 0.005 || o.MaxMemory != 3<<20 || o.rotate != 64<<10 {
		t.Errorf("%v: budget %v, memory %d, files of %d bytes", err, o.Budget, o.MaxMemory, o.rotate)
	}
	if o, err = parseArgs([]string{"x.o"}, nil); err != nil || o.Budget != 0 || o.MaxMemory != 0 || o.rotate != 0 {
		t.Errorf("%v: budget %v, memory %d, files of %d bytes", err, o.Budget, o.MaxMemory, o.rotate)
	}
}
