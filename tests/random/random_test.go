// SPDX-License-Identifier: Apache-2.0

package random

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"btc/loader/kerneltypes"
)

var (
	count = flag.Int("statements", 200, "compare this many statements")
	seed  = flag.Uint64("seed", 1, "seed of the first batch; the next one's is larger by 1")
	batch = flag.Int("batch", 50, "statements in a script")
	bin   = flag.String("bin", "", "directory of btc and btrun (default: built)")
	file  = flag.String("file", "", "compare the statements of this file, one a line, instead of random ones")
	args  = flag.Bool("args", false, "with -file: the statements read the arguments of a uprobe")
)

// TestRandom compares random statements. It needs bpftrace.
func TestRandom(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	if _, err := os.Stat(kerneltypes.Path); err != nil {
		t.Skip("skipped: this kernel has no BTF")
	}
	if _, err := os.Stat("../../build/oracle/root/usr/bin/bpftrace"); err != nil {
		t.Skip("skipped: no bpftrace to compare with (tests/setup/oracle.sh makes it)")
	}
	c := newComparison(t)
	if *file != "" {
		data, err := os.ReadFile(*file)
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Split(strings.TrimSpace(string(data)), "\n")
		for part := range slices.Chunk(all, *batch) {
			c.compare(part, *args)
		}
		return
	}
	reported := time.Now()
	for s, left := *seed, *count; left > 0; s, left = s+1, left-*batch {
		// Every third batch runs in a uprobe, if there is a C compiler.
		g := &generator{r: rand.New(rand.NewPCG(s, 0)), args: s%3 == 0 && c.program != ""}
		statements := make([]string, min(*batch, left))
		for i := range statements {
			statements[i] = g.statement(i)
		}
		before := c.differences
		c.compare(statements, g.args)
		if c.differences > before {
			t.Logf("the seed of this batch is %d", s)
		}
		if time.Since(reported) > 30*time.Second && left > *batch {
			reported = time.Now()
			t.Logf("so far, with seeds up to %d: %s", s, c)
		}
	}
	t.Log(c)
}

// A way runs scripts. The result of run is the text that each statement prints, by its number; -1 is what comes before
// the first one. A statement whose line is in an error message is in refused.
type way struct {
	name string
	run  func(script string, args bool) (printed map[int]string, refused map[int]string, failure string)
}

type comparison struct {
	t                                 *testing.T
	dir, bin, oracle, program         string
	ways                              []way // the last one is the reference
	same, refused, known, differences int
}

func (c *comparison) String() string {
	return fmt.Sprintf("%d statements the same, %d of them refused; %d of known differences; %d differences", c.same, c.refused, c.known, c.differences)
}

func newComparison(t *testing.T) *comparison {
	c := &comparison{t: t, dir: t.TempDir(), bin: *bin}
	if c.bin == "" {
		c.bin = t.TempDir()
		cmd := exec.Command("go", "build", "-o", c.bin, "btc/cmd/btc", "btc/cmd/btrun")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	var err error
	if c.oracle, err = filepath.Abs("../setup/bpftrace-oracle"); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(c.dir, "prog.c")
	if err := os.WriteFile(source, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	prog := filepath.Join(c.dir, "prog")
	if out, err := exec.Command("gcc", "-g", "-O1", "-o", prog, source).CombinedOutput(); err == nil {
		c.program = prog
	} else {
		t.Logf("no statements with arguments of functions: %v %s", err, out)
	}
	command := func(args bool) []string {
		if args {
			return []string{"-c", c.program}
		}
		return nil
	}
	btc, btrun := filepath.Join(c.bin, "btc"), filepath.Join(c.bin, "btrun")
	c.ways = []way{
		{"btc compile, btrun", func(script string, args bool) (map[int]string, map[int]string, string) {
			object := filepath.Join(c.dir, "x.o")
			if _, refused, failure := c.exec(btc, "compile", script, "-o", object); len(refused) > 0 || failure != "" {
				return nil, refused, failure
			}
			return c.exec(btrun, slices.Concat([]string{"-q"}, command(args), []string{object, "--"}, parameters)...)
		}},
		{"btc run", func(script string, args bool) (map[int]string, map[int]string, string) {
			return c.exec(btc, slices.Concat([]string{"run", "-q"}, command(args), []string{script, "--"}, parameters)...)
		}},
		{"bpftrace", func(script string, args bool) (map[int]string, map[int]string, string) {
			return c.exec(c.oracle, slices.Concat([]string{"-q"}, command(args), []string{script, "--"}, parameters)...)
		}},
	}
	return c
}

// script writes the script of statements: each is in a line of its own, the first one's is firstLine.
func (c *comparison) script(statements map[int]string, args bool) string {
	var s strings.Builder
	s.WriteString(definitions)
	if args {
		fmt.Fprintf(&s, "uprobe:%s:f {\n", c.program)
	} else {
		s.WriteString("begin {\n")
	}
	s.WriteString(preparation)
	line := strings.Count(s.String(), "\n") + 1
	for _, i := range slices.Sorted(maps.Keys(statements)) {
		for ; line < firstLine+i; line++ {
			s.WriteByte('\n')
		}
		fmt.Fprintf(&s, "\t{ printf(\"#%d\\n\"); %s }\n", i, statements[i])
		line++
	}
	s.WriteString("\texit();\n}\n")
	path := filepath.Join(c.dir, "x.bt")
	if err := os.WriteFile(path, []byte(s.String()), 0o644); err != nil {
		c.t.Fatal(err)
	}
	return path
}

const firstLine = 20

var (
	errorLine = regexp.MustCompile(`(?m)^(?:\S*/)?x\.bt:(\d+)(?:-\d+)?(?::\S*)? (?:ERROR|error)(.*)`)
	marker    = regexp.MustCompile(`(?m)^#(\d+)\n`)
)

// exec runs a command and returns what each statement printed, and which of them it refused.
func (c *comparison) exec(name string, arg ...string) (printed, refused map[int]string, failure string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, arg...)
	cmd.Dir = c.dir
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	refused = map[int]string{}
	for _, m := range errorLine.FindAllStringSubmatch(stderr.String(), -1) {
		if line, _ := strconv.Atoi(m[1]); line >= firstLine {
			refused[line-firstLine] = strings.TrimSpace(m[2])
		}
	}
	if len(refused) > 0 {
		return nil, refused, ""
	}
	if err != nil {
		return nil, nil, fmt.Sprintf("%v: %s", err, stderr.String())
	}
	printed = map[int]string{}
	rest := stdout.String()
	at := marker.FindAllStringSubmatchIndex(rest, -1)
	for i, m := range at {
		end := len(rest)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		n, _ := strconv.Atoi(rest[m[2]:m[3]])
		printed[n] = strings.TrimRight(rest[m[1]:end], "\n")
	}
	return printed, nil, ""
}

// results runs statements in one way. What it refuses is left out and the others are run again; if that fails without
// saying where, halves of the statements are run.
func (c *comparison) results(w way, statements map[int]string, args bool) map[int]string {
	left, out := maps.Clone(statements), map[int]string{}
	for len(left) > 0 {
		printed, refused, failure := w.run(c.script(left, args), args)
		switch {
		case failure == "" && len(refused) == 0:
			maps.Copy(out, printed)
			return out
		case failure == "":
			n := len(left)
			for i, why := range refused {
				delete(left, i)
				out[i] = "refused: " + why
			}
			if len(left) < n {
				continue
			}
			failure = fmt.Sprint("refused: ", refused)
			fallthrough
		default:
			keys := slices.Sorted(maps.Keys(left))
			if len(keys) == 1 {
				out[keys[0]] = "failed: " + failure
				return out
			}
			for half := range slices.Chunk(keys, (len(keys)+1)/2) {
				part := map[int]string{}
				for _, i := range half {
					part[i] = left[i]
				}
				maps.Copy(out, c.results(w, part, args))
			}
			return out
		}
	}
	return out
}

// compare runs statements in all ways and reports those whose results differ.
func (c *comparison) compare(list []string, args bool) {
	statements := map[int]string{}
	for i, s := range list {
		statements[i] = s
	}
	all := c.all(statements, args)
	for i, s := range list {
		if equal(all, i) {
			c.same++
			if strings.HasPrefix(all[0][i], "refused") {
				c.refused++
			}
			continue
		}
		ours := len(c.ways) - 2
		if c.expected(s, all, i) {
			c.known++
			continue
		}
		alone := c.all(map[int]string{i: s}, args)
		neighbours := all[0][i] == alone[0][i] && all[ours][i] == alone[ours][i] // bpftrace prints something else next to other statements
		if equal(alone, i) && neighbours || c.expected(s, alone, i) {
			c.known++
			continue
		}
		if !equal(alone, i) {
			for w := range all {
				all[w][i] = alone[w][i]
			}
		}
		c.differences++
		text := s + "\n"
		for w, way := range c.ways {
			text += fmt.Sprintf("    %s:\n\t%s\n", way.name, strings.ReplaceAll(last(all[w][i], 600), "\n", "\n\t"))
		}
		c.t.Error(text)
	}
}

// expected reports whether the results of statement i differ in a known way.
func (c *comparison) expected(s string, all []map[int]string, i int) bool {
	ours, theirs := all[len(c.ways)-2][i], all[len(c.ways)-1][i]
	signs := strings.Contains(s, "$") && ours == theirs && unsigned(all[0][i]) == unsigned(ours)
	return signs || knownDifference(s, ours, theirs) != "" || all[0][i] == ours && slices.Equal(sortedLines(ours), sortedLines(theirs))
}

func (c *comparison) all(statements map[int]string, args bool) []map[int]string {
	var all []map[int]string
	for _, w := range c.ways {
		all = append(all, c.results(w, statements, args))
	}
	return all
}

// equal reports whether all ways agree on statement i. The texts of errors may differ.
func equal(all []map[int]string, i int) bool {
	for _, m := range all[1:] {
		a, b := all[0][i], m[i]
		if a != b && !(strings.HasPrefix(a, "refused") && strings.HasPrefix(b, "refused")) {
			return false
		}
	}
	return true
}

// differences are the known ones, see docs/language.md: regular expressions for the statement and for what bpftrace
// prints. If run is set, "btc run", which knows the parameters, prints the same as bpftrace.
var differences = []struct {
	statement, bpftrace string
	run                 bool
	why                 string
}{
	{"", `^failed: `, false, "an assertion of bpftrace fails, or the kernel refuses its program"},
	{"", `^refused: : @\w+ used as a map with(out)? an explicit key`, false, "a bug in bpftrace: a map that was read before"},
	{`sizeof`, `^refused.*(Unable to resolve comptime|expanded from)`, false, "functions of bpftrace's library in sizeof"},
	{`sizeof.*(\?|if ).*str(len|ncmp|str|contains)\(`, "", false, "functions of bpftrace's library in a ?: or if in sizeof"},
	{`(strstr|strcontains)\(.*(strstr|strcontains)\(`, `^refused: : expanded from`, false, "functions of bpftrace's library in their arguments"},
	{`\$[1-9#]`, `^refused.*(fold literals|will underflow|will overflow|expanded from)`, true, "parameters are known when the object is loaded"},
	{`sizeof.*\$[1-9#]|= \$[1-9#];.*sizeof`, "", true, "sizes of parameters"},
	{`(\$s\d) = [^;]*str\(\$[47].*sizeof.*\$s`, "", true, "sizes of parameters, through a variable"},
	{`for \(\$i`, `^refused: : 'arg(s|\d)' builtin is not allowed`, false, "arguments in a for over a range"},
	{`\((true|false)\) [-&*]`, `^refused`, false, "a literal in parentheses is taken for a cast of what follows"},
	{`\(enum \w+\)\$`, `^refused.*variant value`, true, "parameters are known when the object is loaded"},
	{`->(ab|sc|y|ai16) [=!]= args\.p->`, "", false, "arrays of bool, or of 3 or 6 bytes, may not equal themselves in bpftrace"},
	{`for \(\$i.*\bargs?\b`, `^refused: : expanded from`, false, "arguments in a for over a range"},
	{`\?:`, `^refused: : Type mismatch for \$z: trying to assign value of type 'none'`, false, "a variable of a block before ?: has no type in bpftrace"},
	{`\?.*, GREEN\]`, `, 5\]`, false, "a key after a ?: with a number loses its enum in bpftrace"},
	{`\$5`, "", true, "a parameter of 2^63 or more is a negative number"},
	{`\$[1-9] <<`, "", true, "the sign of a parameter's value"},
	{`(\?|if ).*\$[1-9#].*(<|>|/|%)|(<|>|/|%).*(\?|if ).*\$[1-9#]`, "", true, "the sign of a value that is one of a parameter's"},
	{`has_key\(|delete\(`, `^refused: : Type mismatch for @m\d+: this type has been locked`, false, "a bug in bpftrace: values from functions of its library"},
	{`@m\d+\[.*\] = -\(?\(uint(8|16|32)\)|@m\d+\[.*\] = ~\(?\(uint(8|16|32)\)`, `: \d{4,}$`, false, "bytes of other values above an unsigned number after - or ~"},
}

var negative = regexp.MustCompile(`-\d+`)

// unsigned returns a text with negative numbers as unsigned 64-bit ones, and without the spaces that pad them: the sign of
// a value that is computed from a parameter is fixed when a script is compiled.
func unsigned(text string) string {
	return negative.ReplaceAllStringFunc(strings.ReplaceAll(text, " ", ""), func(s string) string {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return s
		}
		return strconv.FormatUint(uint64(n), 10)
	})
}

func knownDifference(statement, run, bpftrace string) string {
	for _, d := range differences {
		same := run == bpftrace || strings.HasPrefix(run, "refused") && strings.HasPrefix(bpftrace, "refused")
		if regexp.MustCompile(d.statement).MatchString(statement) && regexp.MustCompile(d.bpftrace).MatchString(bpftrace) && (!d.run || same) {
			return d.why
		}
	}
	return ""
}

// sortedLines returns the lines of a text in order: bpftrace prints elements with equal values in the order of the hash.
func sortedLines(text string) []string { return slices.Sorted(strings.SplitSeq(text, "\n")) }

// last returns the last n bytes of a text.
func last(text string, n int) string { return text[max(0, len(text)-n):] }
