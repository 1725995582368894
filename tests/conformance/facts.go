// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"btc/frontend/diag"
)

// fact is one program together with the verdict of bpftrace's unit test on it.
type fact struct {
	file, test string
	line       int
	fixture    string // class of the test, "" if it has none
	text       string // the program
	refused    bool
	said       string // the known part of the error message
}

// key returns a name of the fact that does not change when others are added or moved.
func (f fact) key() string {
	sum := sha256.Sum256([]byte(f.text))
	return fmt.Sprintf("%s/%s/%x", f.file, f.test, sum[:4])
}

// factFile describes how the test functions of one file state facts.
type factFile struct {
	name string
	// calls maps each test function to its rule.
	calls map[string]factRule
	// syntaxOnly is set if accepted means accepted by the parser.
	syntaxOnly bool
	// wrap makes a program of the argument of the test function.
	wrap func(text string) string
	// later are errors that bpftrace finds in passes that the tests of this file do not run. In all
	// files, that includes a script without probes.
	later map[diag.Code]bool
}

// factRule interprets the arguments after the program: whether it is rejected, and with which message.
type factRule func(args []value) (refused bool, said string)

func accepts([]value) (bool, string) { return false, "" }

// refuses is the rule of functions with the expected message as their argument.
func refuses(args []value) (bool, string) {
	for _, a := range args {
		if a.isString() {
			return true, a.text
		}
	}
	return true, ""
}

// refusedBy takes the message from argument n; if it is empty or missing, the program is accepted.
func refusedBy(n int) factRule {
	return func(args []value) (bool, string) {
		if n >= len(args) || args[n].isString() && args[n].text == "" {
			return false, ""
		}
		return true, args[n].text
	}
}

// refusedTag looks for an argument Error{ message }.
func refusedTag(args []value) (bool, string) {
	for _, a := range args {
		if a.kind != valueTagged || a.text != "Error" {
			continue
		}
		if len(a.list) > 0 {
			return true, a.list[0].text
		}
		return true, ""
	}
	return false, ""
}

// refusedUnless looks for a bool among the arguments: false means rejected.
func refusedUnless(args []value) (bool, string) {
	said, refused := "", false
	for _, a := range args {
		if a.isString() {
			said = a.text
		}
		if n, ok := a.number(); ok {
			refused = n == 0
			break
		}
	}
	return refused, said
}

// refusedIf looks for a number among the arguments: anything but zero means rejected.
func refusedIf(args []value) (bool, string) {
	if len(args) > 0 {
		if n, ok := args[0].number(); ok {
			return n != 0, ""
		}
	}
	return false, ""
}

// factFiles are the files with tests that state whether programs compile.
var factFiles = []factFile{
	{name: "parser", syntaxOnly: true, calls: map[string]factRule{"test": accepts, "test_parse_failure": refuses, "test_macro_parse_failure": refuses}},
	{name: "type_checker", later: codes(diag.BadConfigKey), calls: map[string]factRule{"test": refusedTag}},
	{name: "type_resolver", later: codes(diag.BadConfigKey), calls: map[string]factRule{"test": refusedTag}},
	{name: "pre_type_check", later: codes(diag.BadConfigKey, diag.UnknownFunction), calls: map[string]factRule{"test": refusedBy(0), "test_error": refuses}},
	{name: "fold_literals", wrap: inBegin, later: codes(diag.UndefinedVar, diag.TypeMismatch, diag.NotConstant, diag.OutOfBounds), calls: map[string]factRule{"test": refusedBy(1), "test_error": refuses, "test_warning": accepts, "test_not": accepts, "test_comptime_if": accepts}},
	{name: "macro_expansion", later: codes(diag.BadConfigKey, diag.NoValue, diag.UnknownFunction, diag.UnknownName, diag.UnknownType), calls: map[string]factRule{"test": refusedBy(1), "test_error": refuses, "test_warning": accepts}},
	{name: "builtins", later: codes(diag.NoArgs), calls: map[string]factRule{"test": refusedBy(1), "test_error": refuses}},
	{name: "attachpoint_passes", calls: map[string]factRule{"test": refusedBy(0), "test_error": refuses, "test_uprobe_lang": accepts}},
	{name: "config_analyser", calls: map[string]factRule{"test": refusedUnless, "test_for_warning": accepts}},
	{name: "named_param", calls: map[string]factRule{"test": refusedBy(1), "test_error": refuses}},
	{name: "unstable_feature", calls: map[string]factRule{"test": refusedBy(0), "test_error": refuses}},
	{name: "control_flow_analyser", calls: map[string]factRule{"test": refusedIf}},
	{name: "resource_analyser", calls: map[string]factRule{"test": refusedUnless}},
	{name: "deprecated", calls: map[string]factRule{"test": refuses}},
}

func codes(list ...diag.Code) map[diag.Code]bool {
	set := map[diag.Code]bool{}
	for _, c := range list {
		set[c] = true
	}
	return set
}

// inBegin makes a program of an expression or of statements.
func inBegin(text string) string {
	if strings.HasSuffix(text, "}") || strings.HasSuffix(text, ";") {
		return "begin { " + text + " exit(); }"
	}
	return "begin { " + text + "; exit(); }"
}

// extraction is the result of reading one file.
type extraction struct {
	facts   []fact
	unread  int // calls with a program that could not be evaluated
	skipped int // facts about a kernel without features, not compared
}

// extract reads the facts of one file.
func extract(dir string, f factFile) (extraction, error) {
	src, err := os.ReadFile(filepath.Join(dir, f.name+".cpp"))
	if err != nil {
		return extraction{}, err
	}
	toks, err := tokenize(string(src))
	if err != nil {
		return extraction{}, fmt.Errorf("%s.cpp: %w", f.name, err)
	}
	toks = append(toks, token{}, token{})
	x := &extractor{file: f, seen: map[string]bool{}}
	x.eval = evaluator{toks: toks, vars: map[string]value{}, calls: map[string]bool{}, found: x.call}
	for name := range f.calls {
		x.eval.calls[name] = true
	}
	for i := 0; i+2 < len(toks); i++ {
		if toks[i].is("TEST") || toks[i].is("TEST_F") {
			i = x.test(i)
		}
	}
	return x.out, nil
}

type extractor struct {
	file    factFile
	eval    evaluator
	current fact // file, test and fixture
	seen    map[string]bool
	out     extraction
}

// test reads TEST(suite, name) { ... } and returns the index of its end.
func (x *extractor) test(i int) int {
	toks := x.eval.toks
	open := x.eval.match(i + 1)
	if open+1 >= len(toks) || !toks[open+1].is("{") || open < i+4 {
		return i + 1
	}
	x.current = fact{file: x.file.name, test: toks[open-1].text}
	if toks[i].is("TEST_F") {
		x.current.fixture = toks[i+2].text
	}
	end := x.eval.match(open + 1)
	x.eval.vars = map[string]value{}
	x.eval.block(open+2, end)
	return end
}

// call records the fact of one call. The object under test may be passed before the program.
func (x *extractor) call(c call) {
	args := c.args
	for len(args) > 0 && !args[0].isString() && len(args) > 1 && args[1].isString() && namesObject(args[0]) {
		args = args[1:]
	}
	if len(args) == 0 || !args[0].isString() {
		x.out.unread++
		return
	}
	f := x.current
	f.line = c.line
	f.text = strings.TrimLeft(args[0].text, "\n")
	if x.file.wrap != nil {
		f.text = x.file.wrap(f.text)
	}
	f.refused, f.said = x.file.calls[c.name](args[1:])
	if f.refused && withoutFeatures(x.file.name, args[1:]) {
		x.out.skipped++ // rejected because of a missing kernel feature, which in btc is up to the loader
		return
	}
	if x.seen[f.key()] {
		return
	}
	x.seen[f.key()] = true
	x.out.facts = append(x.out.facts, f)
}

// withoutFeatures reports whether a test mocks a kernel without features.
func withoutFeatures(file string, args []value) bool {
	for i, a := range args {
		n, isNumber := a.number()
		if a.of == "NoFeatures" || file == "builtins" && i == 0 && isNumber && n == 0 {
			return true
		}
	}
	return false
}

// namesObject reports whether the argument is the object under test rather than a program.
func namesObject(v value) bool {
	return v.kind == valueUnknown || v.kind == valueName && strings.Contains(v.text, "bpftrace")
}
