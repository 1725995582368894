// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// source is a file of unit tests with all forms that the extraction reads.
const source = `
#define IGNORED "("
/* test("no") */
TEST(Suite, plain)
{
  test("begin { $x = " // joined
       "1; }");
  test("begin { $x }", Error{ R"(
stdin:1:9-11: ERROR: oh
)" });
  test("kprobe:f { func }", NoFeatures::Enable, Error{});
  test(unknown + "x");
}
TEST_F(WithBTF, loops)
{
  std::string pre = "begin { ";
  std::vector<std::string> ops = { "+", "-" };
  for (const auto &op : ops) {
    test(pre + "1 " + op + " 2 }");
  }
  auto result = test(*bpftrace, R"X(end { "\n" })X");
}
`

// TestExtract checks which programs are extracted, with which verdicts.
func TestExtract(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "type_checker.cpp"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	x, err := extract(dir, factFile{name: "type_checker", calls: map[string]factRule{"test": refusedTag}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"plain  begin { $x = 1; } false",
		"plain  begin { $x } true",
		"loops WithBTF begin { 1 + 2 } false",
		"loops WithBTF begin { 1 - 2 } false",
		`loops WithBTF end { "\n" } false`,
	}
	var got []string
	for _, f := range x.facts {
		got = append(got, fmt.Sprintf("%s %s %s %v", f.test, f.fixture, f.text, f.refused))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("facts:\n%q\nwant\n%q", got, want)
	}
	if x.unread != 1 || x.skipped != 1 {
		t.Errorf("unread = %d, skipped = %d, want 1 and 1", x.unread, x.skipped)
	}
}

// TestDefinitions checks how runtime tests are parsed and which of them are run.
func TestDefinitions(t *testing.T) {
	defs, err := parseDefinitions("call", `# comment
NAME one
PROG i:ms:1 { printf("a:b {%d}\n", 1);
     exit(); }
EXPECT a
       b
TIMEOUT 2

NAME two
PROG struct s { int x; }; begin, uprobe:/bin/sh:f /pid == 1/ { print(1); }
EXPECT_NONE 2
`)
	if err != nil || len(defs) != 2 {
		t.Fatalf("parseDefinitions() = %v, %v, want two definitions", defs, err)
	}
	one, two := defs[0], defs[1]
	if one.prog != "i:ms:1 { printf(\"a:b {%d}\\n\", 1);\nexit(); }" || one.expects[0].text != "a\nb" || one.timeout != 2 {
		t.Errorf("defs[0] = %+v", one)
	}
	if !one.selfContained() || two.selfContained() {
		t.Errorf("selfContained() = %v, %v, want true, false", one.selfContained(), two.selfContained())
	}
}

// TestExpectations checks how outputs are compared with expectations.
func TestExpectations(t *testing.T) {
	tests := []struct {
		e      expect
		output string
		met    bool
	}{
		{expect{"", "a.c"}, "x\n  a.c \n", true},
		{expect{"", "a.c"}, "abc\n", false},
		{expect{"NONE", "a"}, "b\n", true},
		{expect{"REGEX", `^\d+$`}, "x\n12\n", true},
		{expect{"REGEX_NONE", `\d`}, "x1\n", false},
		{expect{"REGEX", `(?=x)`}, "x\n", false},
	}
	for _, tt := range tests {
		if err := tt.e.met("", tt.output, -1); (err == nil) != tt.met {
			t.Errorf("%+v.met(%q) = %v", tt.e, tt.output, err)
		}
	}
}

// TestWatch checks that the message is found no matter how the output is split into writes, and that
// the cost of a write does not grow with the length of the output so far.
func TestWatch(t *testing.T) {
	w := &watch{attached: make(chan struct{})}
	for range 50_000 {
		w.Write([]byte("kprobe:a\n"))
	}
	for _, piece := range []string{"some Attached 1 probe\nAtta", "ched 2 pro"} {
		w.Write([]byte(piece))
	}
	select {
	case <-w.attached:
		t.Error("attached before the end of the line")
	default:
	}
	w.Write([]byte("bes\nx"))
	<-w.attached
	if unread := len(w.String()) - w.seen; unread != len("x") {
		t.Errorf("%d bytes are searched again", unread)
	}
}
