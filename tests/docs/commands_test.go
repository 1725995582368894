// SPDX-License-Identifier: Apache-2.0

// Package docs holds what the documents say to what the programs do: commands
// are run, and tables and dumps are made anew and compared.
package docs

import (
	"bytes"
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
)

var update = flag.Bool("update", false, "rewrite the generated parts of the documents")

// command is a line of a document that begins with "$ ", with the output that
// is shown below it.
type command struct {
	file  string
	text  string
	shown []string
}

// notRun are the commands that the test does not run, with the reason.
var notRun = map[string]string{
	"tests/kernels/getkernels.sh":  "downloads kernels",
	"tests/kernels/gettracefs.sh":  "boots the downloaded kernels",
	"tests/kernels/maketargets.sh": "needs the downloaded kernels",
}

// TestCommands runs every command line of README.md and the pages of docs, each file's
// in order in one scratch directory. The shown output must appear: numbers other than codes of
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
			dir := scratch(t)
			for _, c := range all {
				t.Run(c.text, func(t *testing.T) { c.run(t, dir) })
			}
		})
	}
	for prefix := range notRun {
		if !seen[prefix] {
			t.Errorf("no document shows %q any more", prefix)
		}
	}
	if total < 5 {
		t.Errorf("the documents show %d commands: is the form of the blocks still right?", total)
	}
}

// commandsOf finds the commands in the indented blocks of a document.
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
		case line != "" && len(all) > 0: // the block is over
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

// scratch is a directory as the documents assume it: bin/, examples/ and docs/.
func scratch(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(programs, filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	// Commands read the documents and change, if anything, the examples.
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
			t.Errorf("%s: $ %s does not print %q\n%s", c.file, c.text, line, out)
		}
	}
}

// numbers matches the positions and codes of the compiler's messages too, which stay as they are.
var numbers = regexp.MustCompile(`\b[0-9]+:[0-9]+: (error|warning)\b|\b[EW]0[0-9]{3}\b|[0-9]+`)

// normal makes outputs of two runs comparable: numbers become 0, and each run of spaces one space.
func normal(s string) string {
	return numbers.ReplaceAllStringFunc(strings.Join(strings.Fields(s), " "), func(n string) string {
		if strings.Trim(n, "0123456789") != "" {
			return n
		}
		return "0"
	})
}

// programs is the directory with both programs, stripped as the Makefile does, which
// everyone may read. TestMain makes and removes it.
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
		cmd := exec.Command(
			"go", "build", "-trimpath", "-gcflags", "github.com/ianlancetaylor/demangle=-l", "-ldflags", "-s -w",
			"-o", dir, "btc/cmd/btc", "btc/cmd/btrun",
		)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		err = cmd.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	programs = dir
	return m.Run()
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

// TestLinks checks that what a document refers to in the project is there.
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
