// SPDX-License-Identifier: Apache-2.0

package option

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// table returns a table with each kind of option. The values that they set are appended to got.
func table(got *[]string) Table {
	note := func(name string) func(string) error {
		return func(v string) error {
			if v == "bad" {
				return fmt.Errorf("%s is bad", name)
			}
			*got = append(*got, name+"="+v)
			return nil
		}
	}
	var mode string
	return Table{
		{Name: "pid", Short: "p", Aliases: "process proc", Value: "PID", To: note("pid")},
		{Name: "quiet", Short: "q", To: note("quiet"), Group: "Group one"},
		{Name: "verbose", Short: "v", To: note("verbose"), Help: strings.Repeat("words of help ", 12) + "end"},
		{Name: "list", Short: "l", Value: "PATTERN", Optional: true, Alone: true, With: "verbose", To: note("list"), Group: "Group two"},
		{Name: "mode", Value: "MODE", Choices: []Choice{{"a", "first"}, {"b", "second"}, {"in=DIR", ""}}, To: &mode},
		{Short: "I", Value: "DIR", To: note("I")},
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		line, set, operands, after, err string
	}{
		{line: "x -p 5 y", set: "pid=5", operands: "x y"},
		{line: "-p5 -p=6 --pid 7 --pid=8 --process=9 --proc 1", set: "pid=5 pid=6 pid=7 pid=8 pid=9 pid=1"},
		{line: "-qvp5 -", set: "quiet= verbose= pid=5", operands: "-"},
		{line: "-lv a --list=b", set: "list= verbose= list=b", operands: "a"},
		{line: "--list a", set: "list=", operands: "a"},
		{line: "-Ia -I b", set: "I=a I=b"},
		{line: "x -- -q --pid", operands: "x", after: "-q --pid"},
		{line: "--pid= x", set: "pid=", operands: "x"},
		{line: "--pid", err: "option --pid needs a value"},
		{line: "-qp", set: "quiet=", err: "option -p needs a value"},
		{line: "--quiet=no", err: "option --quiet does not accept a value"},
		{line: "-q=1", set: "quiet=", err: "option -q does not accept a value"},
		{line: "--quite", err: "unknown option --quite; did you mean --quiet?"},
		{line: "-verbose", set: "verbose=", err: "unknown option -e in -verbose"},
		{line: "--nonsense", err: "unknown option --nonsense"},
		{line: "-x", err: "unknown option -x"},
		{line: "-list", set: "list=", err: "unknown option -i in -list"},
		{line: "-mode", err: "unknown option -mode; did you mean --mode?"},
		{line: "--pid bad", err: "pid is bad"},
		{line: "--mode c", err: `--mode: "c" is not one of a, b, in=DIR`},
		{line: "--mode in=/x"},
		{line: "--mode=in=/x=y"},
		{line: "--mode in", err: `--mode: "in" is not one of a, b, in=DIR`},
		{line: "--mode b=/x", err: `--mode: "b=/x" is not one of a, b, in=DIR`},
		{line: "-l -q", set: "list= quiet=", err: "--list cannot be combined with --quiet"},
		{line: "-q -l -- x", set: "quiet= list=", after: "x", err: "--list cannot be combined with --quiet"},
	} {
		var got []string
		line, err := table(&got).Parse(strings.Fields(c.line))
		if fmt.Sprint(err) != c.err && (err != nil || c.err != "") {
			t.Errorf("%s: error = %v, want %q", c.line, err, c.err)
		}
		if have := strings.Join(got, " "); have != c.set {
			t.Errorf("%s: set %q, want %q", c.line, have, c.set)
		}
		if have := strings.Join(line.Operands, " "); err == nil && have != c.operands {
			t.Errorf("%s: operands %q, want %q", c.line, have, c.operands)
		}
		if !slices.Equal(line.After, strings.Fields(c.after)) && len(line.After)+len(c.after) > 0 {
			t.Errorf("%s: after %q, want %q", c.line, line.After, c.after)
		}
	}
}

func TestSet(t *testing.T) {
	var on bool
	var list []string
	tab := Table{{Name: "on", To: &on}, {Name: "add", Value: "X", Choices: Choices("a", "b"), To: &list}}
	if _, err := tab.Parse([]string{"--on", "--add=a", "--add", "b"}); err != nil || !on || !slices.Equal(list, []string{"a", "b"}) {
		t.Errorf("on = %v, list = %q, error = %v", on, list, err)
	}
	if _, err := tab.Parse([]string{"--add=c"}); err == nil {
		t.Error("no error for a value that is not a choice")
	}
}

func TestHelp(t *testing.T) {
	const want = `  -p, --pid PID

Group one:
  -q, --quiet
  -v, --verbose           words of help words of help words of help words of help words of help
                          words of help words of help words of help words of help words of help
                          words of help words of help end

Group two:
  -l, --list[=PATTERN]
      --mode MODE
        a                 first
        b                 second
  -I DIR
`
	if have := table(new([]string)).Help(); have != want {
		t.Errorf("got:\n%s", have)
	}
}
