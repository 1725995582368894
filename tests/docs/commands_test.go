// SPDX-License-Identifier: Apache-2.0

// Package docs checks the documents against the programs: it runs their commands, and generates their
// tables and dumps again to compare them.
package docs

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"btc/tests/stripped"
)

var update = flag.Bool("update", false, "rewrite the generated parts of the documents")

// command is a line of a document that begins with "$ ", together with the output shown below it.
type command struct {
	file  string
	text  string
	shown []string
}

// notRun are the commands that the test does not run, with the reasons.
var notRun = map[string]string{
	"tests/kernels/getkernels.sh":  "downloads kernels",
	"tests/kernels/gettracefs.sh":  "boots the downloaded kernels",
	"tests/kernels/maketargets.sh": "needs the downloaded kernels",
}

// TestCommands runs every command line in README.md and the pages of docs. The commands of a file run
// in order in one scratch directory. They must print the shown output; numbers other than the codes of
// messages may differ, and rows of histograms are not compared.
func TestCommands(t *testing.T) {
	total, seen := 0, map[string]bool{}
	for _, file := range documents(t) {
		all := commandsOf(t, file)
		if len(all) == 0 {
			continue
		}
		total += len(all)
		for _, c := range all {
			for prefix := range notRun {
				seen[prefix] = seen[prefix] || strings.HasPrefix(c.text, prefix)
			}
		}
		t.Run(strings.TrimPrefix(file, "../../"), func(t *testing.T) {
			for _, c := range all {
				if tool, _, _ := strings.Cut(c.text, " "); tool == "minisign" || tool == "ssh-keygen" {
					if _, err := exec.LookPath(tool); err != nil {
						t.Skip("skipped: no " + tool)
					}
				}
			}
			dir := scratch(t)
			for _, c := range all {
				t.Run(c.text, func(t *testing.T) { c.run(t, dir) })
			}
			ignored(t, dir)
		})
	}
	for prefix := range notRun {
		if !seen[prefix] {
			t.Errorf("%q is not in any document", prefix)
		}
	}
	if total < 5 {
		t.Errorf("only %d commands found: check the form of the blocks", total)
	}
}

// commandsOf returns the commands in the indented blocks of a document.
func commandsOf(t *testing.T, file string) []command {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []command
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		code, indented := strings.CutPrefix(line, "    ")
		text, isCommand := strings.CutPrefix(strings.TrimLeft(code, " "), "$ ") // in a list, blocks are indented further
		switch {
		case indented && isCommand:
			all = append(all, command{file: file, text: text})
		case indented && len(all) > 0:
			last := &all[len(all)-1]
			last.shown = append(last.shown, code)
		case line != "" && len(all) > 0: // end of the block
			all = append(all, command{})
		}
	}
	var commands []command
	for _, c := range all {
		if c.text != "" {
			commands = append(commands, c)
		}
	}
	return commands
}

// documents lists README.md and the pages of docs.
func documents(t *testing.T) []string {
	t.Helper()
	files := []string{"../../README.md"}
	err := filepath.WalkDir("../../docs", func(path string, d fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// scratch returns a directory with the contents that the documents assume: bin/, examples/ and docs/.
func scratch(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(programs, filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	// Commands only read the documents, but may change the examples.
	docs, err := filepath.Abs("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(docs, filepath.Join(dir, "docs")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// ignored checks that a clone in which the commands were run has no files that git does not know.
func ignored(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := e.Name()
		if name == "docs" || name == "examples" { // the clone's own
			continue
		}
		if e.IsDir() || name == "bin" {
			name += "/"
		}
		cmd := exec.Command("git", "-C", "../..", "check-ignore", "--no-index", "--quiet", name)
		var status *exec.ExitError
		if err := cmd.Run(); errors.As(err, &status) && status.ExitCode() == 1 {
			t.Errorf("the commands leave %s in a clone: a row in .gitignore", name)
		}
	}
	for _, file := range added(t, "examples", filepath.Join(dir, "examples")) {
		t.Errorf("the commands leave examples/%s in a clone", file)
	}
}

// added returns the files in a copy of a directory of the tree that the tree does not have.
func added(t *testing.T, of, dir string) (names []string) {
	t.Helper()
	original := os.DirFS("../../" + of)
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if _, err := fs.Stat(original, path); err != nil {
				names = append(names, path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func (c command) run(t *testing.T, dir string) {
	for prefix, reason := range notRun {
		if strings.HasPrefix(c.text, prefix) {
			t.Skip("skipped: ", prefix, " ", reason)
		}
	}
	text, root := strings.CutPrefix(c.text, "sudo ")
	if root && os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	cmd := exec.Command("sh", "-c", text)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "LC_ALL=C")
	cmd.WaitDelay = 5 * time.Second
	timer := time.AfterFunc(3*time.Minute, func() { cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	if wantsError := strings.Contains(strings.Join(c.shown, "\n"), ": error"); (err != nil) != wantsError {
		t.Fatalf("%s: $ %s: %v\n%s", c.file, c.text, err, out)
	}
	have := normal(string(out))
	for _, line := range c.shown {
		line = strings.TrimSpace(line)
		if line == "" || line == "..." || strings.HasSuffix(line, "|") {
			continue
		}
		if want := normal(line); !bytes.Contains([]byte(have), []byte(want)) {
			t.Errorf("%s: $ %s: %q not found in the output\n%s", c.file, c.text, line, out)
		}
	}
}

// numbers also matches the positions and codes of the compiler's messages, which are not replaced.
var numbers = regexp.MustCompile(`\b[0-9]+:[0-9]+: (error|warning)\b|\b[EW]0[0-9]{3}\b|[0-9]+`)

// normal makes the output of two runs comparable: it replaces each number by 0 and each sequence of
// spaces by one space.
func normal(s string) string {
	return numbers.ReplaceAllStringFunc(strings.Join(strings.Fields(s), " "), func(n string) string {
		if strings.Trim(n, "0123456789") != "" {
			return n
		}
		return "0"
	})
}

// programs is the world-readable directory of both programs, stripped as in the Makefile. TestMain
// creates and removes it.
var programs string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(withPrograms(m))
}

func withPrograms(m *testing.M) int {
	dir, err := os.MkdirTemp("", "btc-docs")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		err = stripped.Build(dir, "./cmd/btc", "./cmd/btrun")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	programs = dir
	return m.Run()
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// TestLinks checks that the files that documents link to exist.
func TestLinks(t *testing.T) {
	for _, file := range documents(t) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(data), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}
