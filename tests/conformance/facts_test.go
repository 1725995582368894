// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"btc/compile"
	"btc/frontend/check"
	"btc/frontend/diag"
	"btc/frontend/expand"
	"btc/frontend/parse"
	"btc/targets/kernel"
)

var (
	update = flag.Bool("update", false, "rewrite the lists of testdata")
	only   = flag.String("case", "", "run only cases whose key matches this regular expression")
	detail = flag.String("detail", "", "write every case that does not agree, with its program and our messages, to this `FILE`")
)

const factsList = "testdata/unit-disagreements.txt"

const factsHead = `# Programs of bpftrace's unit tests on which btc does not agree: key, what
# bpftrace does, reason. A reason that begins with = was given by hand and stays;
# the others are what btc says (go test -run UnitFacts -update). The list shrinks.
`

// tally counts the facts of one file.
type tally struct{ agreed, all, unread, skipped int }

// TestUnitFacts compiles the programs in bpftrace's unit tests and compares which ones are accepted and
// rejected.
func TestUnitFacts(t *testing.T) {
	dir := checkout(t)
	mocked, err := mockTarget()
	if err != nil {
		t.Fatal(err)
	}
	mock, err := mockBTFTarget(dir, t.TempDir())
	if err != nil {
		t.Skip("skipped: cannot make the kernel types of the tests: ", err)
	}
	pattern := regexp.MustCompile(*only)
	var now []listed
	var report strings.Builder
	var total tally
	ran := map[string]bool{}
	for _, f := range factFiles {
		x, err := extract(dir, f)
		if err != nil {
			t.Fatal(err)
		}
		n := tally{unread: x.unread, skipped: x.skipped}
		for _, c := range x.facts {
			if !pattern.MatchString(c.key()) {
				continue
			}
			ran[c.key()] = true
			tgt := mocked
			if strings.Contains(strings.ToLower(c.fixture), "btf") {
				tgt = mock
			}
			n.all++
			v := compareInTime(c, f, tgt)
			if v.panicked {
				t.Errorf("%s: panic on %q:\n%s", c.key(), c.text, v.messages)
			}
			if v.reason == "" {
				n.agreed++
				continue
			}
			now = append(now, listed{c.key(), wants(c), v.reason})
			fmt.Fprintf(&report, "=== %s line %d want %s: %s\n%s\n--- ours\n%s--- theirs\n%s\n", c.key(), c.line, wants(c), v.reason, c.text, v.messages, strings.TrimSpace(c.said))
		}
		t.Logf("%-22s %4d of %4d agree (%5.1f %%), %d not read, %d about a kernel without features", f.name, n.agreed, n.all, percent(n.agreed, n.all), n.unread, n.skipped)
		total = tally{total.agreed + n.agreed, total.all + n.all, total.unread + n.unread, total.skipped + n.skipped}
	}
	t.Logf("%-22s %4d of %4d agree (%5.1f %%), %d not read, %d about a kernel without features\n%s", "all", total.agreed, total.all, percent(total.agreed, total.all), total.unread, total.skipped, ranking(now))
	writeDetail(t, report.String())
	compare(t, factsList, factsHead, now, func(key string) bool { return *only == "" || ran[key] }, *update)
}

func writeDetail(t *testing.T, text string) {
	if *detail == "" {
		return
	}
	if err := os.WriteFile(*detail, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }

func wants(f fact) string {
	if f.refused {
		return "refused"
	}
	return "accepted"
}

// verdict is the result of comparing a fact; reason is empty if btc agrees.
type verdict struct {
	reason, messages string
	panicked         bool
}

// patience is the time limit for compiling one program; after that, it counts as hanging.
const patience = time.Minute

func compareInTime(c fact, f factFile, tgt *kernel.Target) verdict {
	done := make(chan verdict, 1)
	go func() { done <- compareFact(c, f, tgt) }()
	select {
	case v := <-done:
		return v
	case <-time.After(patience):
		return verdict{reason: "hangs", panicked: true, messages: fmt.Sprintf("no answer in %v\n", patience)}
	}
}

// compareFact compiles a program and compares. A program that bpftrace rejects counts as different if btc
// rejects it only because it lacks the feature.
func compareFact(c fact, f factFile, tgt *kernel.Target) (v verdict) {
	defer func() {
		if p := recover(); p != nil {
			v = verdict{reason: fmt.Sprintf("panic: %v", p), messages: string(debug.Stack()), panicked: true}
		}
	}()
	_, diags := compile.Compile(compile.Input{Name: diag.Stdin, Text: c.text, Target: tgt, Compiler: "test", Verify: true})
	var b strings.Builder
	if err := diag.Render(&b, diags, diag.RenderOptions{}); err != nil {
		return verdict{reason: err.Error()}
	}
	v.messages = b.String()
	if f.syntaxOnly && !c.refused {
		diags = &diag.List{}
		parse.Script(diag.NewSource(diag.Stdin, c.text), diags, expand.Values(check.IsValue))
	}
	unsupported, other := firstErrors(diags, f.later)
	switch {
	case c.refused && other == "" && unsupported != "":
		v.reason = unsupported
	case c.refused && other == "":
		v.reason = "accepted, should be: " + theirs(c.said)
	case !c.refused && unsupported != "":
		v.reason = unsupported
	case !c.refused && other != "":
		v.reason = other
	}
	return v
}

// firstErrors returns the first error about an unsupported feature and the first other error, without the
// errors in later.
func firstErrors(l *diag.List, later map[diag.Code]bool) (unsupported, other string) {
	for _, d := range l.Sorted() {
		switch text := string(d.Code) + " " + general(d.Message); {
		case d.Severity() != diag.Error || later[d.Code] || d.Code == diag.NoProbes:
		case d.Code == diag.NotSupported:
			if unsupported == "" {
				unsupported = text
			}
		case other == "":
			other = text
		}
	}
	return unsupported, other
}

var generalisations = []struct {
	re   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`"[^"]*"`), `"..."`},
	{regexp.MustCompile(`[@$][A-Za-z_][A-Za-z0-9_]*`), "$$x"},
	{regexp.MustCompile(`\b(u?int(8|16|32|64)|string\[\d+\]|string|bool)\b`), "T"},
	{regexp.MustCompile(`\b\d+\b`), "N"},
}

// general replaces the names and numbers in a message.
func general(s string) string {
	for _, g := range generalisations {
		s = g.re.ReplaceAllString(s, g.with)
	}
	return s
}

// theirs returns the first message of bpftrace, in general form.
func theirs(said string) string {
	said = strings.TrimLeft(said, "\n")
	if i := strings.Index(said, "ERROR: "); i >= 0 {
		said = said[i+len("ERROR: "):]
	}
	said, _, _ = strings.Cut(said, "\n")
	if said == "" {
		return "(no text)"
	}
	return general(said)
}
