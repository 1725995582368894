// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// module writes a Go module with test files to a directory. packages maps the name of a package to the
// body of its test file.
func module(t *testing.T, packages map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module fake\n\ngo 1.24\n")
	for pkg, body := range packages {
		write(pkg+"/x_test.go", "package "+pkg+"\n\nimport (\"fmt\"; \"os\"; \"os/exec\"; \"strconv\"; \"syscall\"; \"testing\"; \"time\")\n\n"+
			"var _, _, _, _, _, _ = os.Exit, fmt.Print, exec.Command, strconv.Itoa, syscall.Kill, time.Sleep\n\n"+body)
	}
	return dir
}

// flaky fails the first time it is run.
const flaky = `
func TestFlaky(t *testing.T) {
	t.Run("good", func(t *testing.T) {})
	t.Run("some|times (a/b)", func(t *testing.T) {
		if _, err := os.Stat("ran"); err != nil {
			os.WriteFile("ran", nil, 0o666)
			t.Error("the first time")
		}
	})
}
`

// runAll returns the output and the files of the summary.
func runAll(t *testing.T, packages map[string]string) (passed bool, out string, summary map[string]string) {
	t.Helper()
	var b bytes.Buffer
	dir, files := module(t, packages), t.TempDir()
	passed, err := all(options{dir, files, time.Minute, &b}, []string{"./..."})
	if err != nil {
		t.Fatal(err)
	}
	summary = map[string]string{}
	for _, name := range []string{"details", "skipped", "failed", "counts"} {
		text, err := os.ReadFile(filepath.Join(files, name))
		if err != nil {
			t.Fatal(err)
		}
		summary[name] = string(text)
	}
	return passed, b.String(), summary
}

// TestMain makes the test program what package main is for go test -exec.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "-watch" {
		stall, err := time.ParseDuration(os.Args[2])
		if err != nil || os.Args[3] != "--" {
			panic(os.Args)
		}
		os.Exit(watch(os.Args[4:], stall))
	}
	os.Exit(m.Run())
}

// TestStall checks that tests that print something may take longer than the limit, that others are ended with a
// traceback, and that no process is left.
func TestStall(t *testing.T) {
	dir, files := module(t, map[string]string{
		"a": `func TestSlow(t *testing.T) {
	out, _ := exec.Command("sh", "-c", "sleep 0.1 & echo $!").Output() // an orphan
	for range 30 {
		time.Sleep(200 * time.Millisecond)
		fmt.Println("still")
	}
	if _, err := os.Stat("/proc/" + string(out[:len(out)-1])); err == nil {
		t.Error("a process that has ended is left")
	}
}`,
		"b": `func TestHang(t *testing.T) {
	c := exec.Command("sleep", "1234567")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.Start()
	os.WriteFile("pid", []byte(strconv.Itoa(c.Process.Pid)), 0o666)
	for {
		time.Sleep(time.Hour)
	}
}`,
	}), t.TempDir()
	var b bytes.Buffer
	passed, err := all(options{dir, files, 3 * time.Second, &b}, []string{"./..."})
	details, _ := os.ReadFile(filepath.Join(files, "failed"))
	if err != nil || passed || !strings.Contains(b.String(), "ok  \tfake/a\t") || !strings.Contains(string(details), "failed: fake/b\n") ||
		!strings.Contains(string(details), "no output for 3s") {
		t.Errorf("%v, %v\n%s\n%s", passed, err, &b, details)
	}
	pid, err := os.ReadFile(filepath.Join(dir, "b/pid"))
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile("/proc/" + string(pid) + "/cmdline"); strings.Contains(string(text), "1234567") {
		t.Errorf("process %s is left", pid)
	}
}

func TestAllPass(t *testing.T) {
	passed, out, sum := runAll(t, map[string]string{
		"a": "func TestA(t *testing.T) { t.Run(\"sub\", func(t *testing.T) {}) }",
		"b": `func TestB(t *testing.T) { t.Skip("skipped: no b") }`,
	})
	if !passed || !strings.Contains(out, "ok  \tfake/a\t") || sum["counts"] != "2 passed, 0 failed, 1 skipped\n" ||
		sum["skipped"] != "TestB: skipped: no b\n" || sum["failed"]+sum["details"] != "" {
		t.Errorf("%v\n%s\n%q", passed, out, sum)
	}
}

// TestPassesAlone checks that a test that passes alone does not fail the run, and is listed and counted
// separately.
func TestPassesAlone(t *testing.T) {
	passed, out, sum := runAll(t, map[string]string{"a": flaky, "b": "func TestB(t *testing.T) {}"})
	if !passed || sum["counts"] != "2 passed, 0 failed, 2 passed only when run alone, 0 skipped\n" ||
		!strings.Contains(out, "again, alone: fake/a TestFlaky\n") || !strings.Contains(out, "FAIL\tfake/a\t") {
		t.Errorf("%v\n%s\n%q", passed, out, sum)
	}
	if want := "passed only when run alone: fake/a TestFlaky\nfake/a TestFlaky/some|times_(a/b)\n    "; !strings.HasPrefix(sum["failed"], want) ||
		!strings.Contains(sum["failed"], ": the first time\n") {
		t.Errorf("%s", sum["failed"])
	}
}

// TestFlags checks that flags are passed to both runs.
func TestFlags(t *testing.T) {
	dir, files := module(t, map[string]string{"a": flaky, "b": flaky}), t.TempDir()
	var b bytes.Buffer
	passed, err := all(options{dir, files, time.Minute, &b}, []string{"-short", "./a"})
	if err != nil || !passed || strings.Contains(b.String(), "fake/b") {
		t.Errorf("%v, %v\n%s", passed, err, &b)
	}
}

// TestPattern checks that of a long test, only the failed subtests are run again.
func TestPattern(t *testing.T) {
	dir := module(t, map[string]string{"a": flaky})
	o := options{dir: dir, stall: time.Minute, out: io.Discard}
	rs, err := run(o, "./a")
	if err != nil {
		t.Fatal(err)
	}
	test := name{"fake/a", "TestFlaky"}
	rs[test].took = maxWhole + 1
	os.Remove(filepath.Join(dir, "a/ran"))
	if alone(o, nil, test, rs) {
		t.Error("passed, although the subtest fails again")
	}
	if !alone(o, nil, test, rs) {
		t.Error("failed, although the subtest passes")
	}
	rs.of(name{"fake/a", "TestFlaky/absent"}).verdict = "fail"
	if alone(o, nil, test, rs) {
		t.Error("passed, although a failed subtest was not run")
	}
}

func TestFailures(t *testing.T) {
	const bad = "func TestBad(t *testing.T) { for i := range 100 { t.Log(\"line\", i) }; t.Run(\"sub\", func(t *testing.T) { t.Error(\"\\x1b[1mwrong\") }) }\n"
	for _, c := range []struct {
		name     string
		packages map[string]string
		again    bool
		counts   string
		failed   []string
	}{
		{"fails again", map[string]string{"a": bad, "b": flaky}, true, "1 passed, 2 failed, 2 passed only when run alone, 0 skipped\n",
			[]string{"failed: fake/a TestBad/sub\n", ": [1mwrong\n", "passed only when run alone: fake/b TestFlaky\n"}},
		{"skipped then", map[string]string{"a": `func TestA(t *testing.T) {
	if _, err := os.Stat("ran"); err == nil {
		t.Skip("skipped: not the first time")
	}
	os.WriteFile("ran", nil, 0o666)
	t.Fail()
}`},
			true, "0 passed, 1 failed, 0 skipped\n", []string{"failed: fake/a TestA\n"}},
		{"too many", map[string]string{"a": flaky, "b": flaky, "c": flaky, "d": flaky}, false, "4 passed, 8 failed, 0 skipped\n",
			[]string{"failed: fake/d TestFlaky/some|times_(a/b)\n"}},
		{"does not build", map[string]string{"a": flaky, "b": "func TestB(t *testing.T) { nonsense() }"}, false,
			"1 passed, 2 failed, 1 packages broken, 0 skipped\n", []string{"failed: fake/b\n", "undefined: nonsense"}},
		{"panics", map[string]string{"a": "func TestA(t *testing.T) { panic(\"why\") }\nfunc TestB(t *testing.T) {}"}, false,
			"0 passed, 1 failed, 1 packages broken, 0 skipped\n", []string{"panic: why"}},
		{"exits", map[string]string{"a": "func TestA(t *testing.T) { os.Exit(3) }"}, false,
			"0 passed, 0 failed, 1 packages broken, 0 skipped\n", []string{"failed: fake/a\n"}},
		{"races", map[string]string{"a": "func TestA(t *testing.T) {\n\tif _, err := os.Stat(\"ran\"); err != nil {\n" +
			"\t\tos.WriteFile(\"ran\", nil, 0o666); os.Stderr.WriteString(\"WARNING: DATA RACE\\n\"); t.Fail()\n\t}\n}"},
			false, "0 passed, 1 failed, 1 packages broken, 0 skipped\n", []string{"failed: fake/a TestA\n"}},
		{"TestMain fails", map[string]string{"a": "func TestMain(m *testing.M) { m.Run(); os.Exit(1) }\nfunc TestA(t *testing.T) {}"}, false,
			"1 passed, 0 failed, 1 packages broken, 0 skipped\n", []string{"failed: fake/a\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			passed, out, sum := runAll(t, c.packages)
			if passed || sum["counts"] != c.counts || strings.Contains(out, "again, alone: ") != c.again {
				t.Errorf("%v\n%s\n%s", passed, out, sum["counts"])
			}
			for _, want := range c.failed {
				if !strings.Contains(sum["failed"], want) {
					t.Errorf("no %q in\n%s", want, sum["failed"])
				}
			}
			if n := strings.Count(sum["failed"], "\n"); n > 60 {
				t.Errorf("%d lines", n)
			}
		})
	}
}
