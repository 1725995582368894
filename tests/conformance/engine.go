// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// engine is bpftrace's own runner of its runtime tests, the Python program in tests/runtime/engine of
// the checkout.
type engine struct {
	python   string
	driver   string // testdata/engine.py
	dir      string // working directory: testprogs, testlibs, runtime
	slowness int    // factor for all time limits
}

// result is the result of one test according to the engine.
type result struct {
	verdict string // OK, FAILED, TIMEOUT or SKIP
	detail  string // the rest of its output
}

// run runs the tests keys with program in place of bpftrace, several files at a time.
func (e *engine) run(program string, keys []string, parallel int) (map[string]result, error) {
	files := map[string][]string{}
	for _, key := range keys {
		file, _, _ := strings.Cut(key, "/")
		files[file] = append(files[file], key)
	}
	results := map[string]result{}
	var mu sync.Mutex
	var first error
	slots := make(chan bool, parallel)
	var all sync.WaitGroup
	for _, file := range slices.Sorted(maps.Keys(files)) {
		slots <- true
		all.Add(1)
		go func() {
			defer func() { <-slots; all.Done() }()
			some, err := e.file(program, file, files[file])
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(results, some)
			if first == nil {
				first = err
			}
		}()
	}
	all.Wait()
	return results, first
}

// file runs tests of one file in one process of the engine.
func (e *engine) file(program, file string, keys []string) (map[string]result, error) {
	allow, err := os.CreateTemp("", "engine")
	if err != nil {
		return nil, err
	}
	defer os.Remove(allow.Name())
	for _, key := range keys {
		fmt.Fprintln(allow, strings.Replace(key, "/", ".", 1))
	}
	if err := allow.Close(); err != nil {
		return nil, err
	}
	cmd := exec.Command(e.python, "-u", e.driver, "runtime/engine", fmt.Sprint(e.slowness), "--filter", "^"+regexp.QuoteMeta(file)+`\.`, "--allowlist_file", allow.Name())
	cmd.Dir = e.dir
	cmd.Env = append(os.Environ(), "BPFTRACE_RUNTIME_TEST_EXECUTABLE="+program, "RUNTIME_TEST_COLOR=no", "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if !strings.Contains(string(out), "test cases ran.") {
		return nil, fmt.Errorf("engine on %s: %v\n%s", file, err, out)
	}
	return verdicts(string(out)), nil
}

var verdictLine = regexp.MustCompile(`^\[\s+(OK|FAILED|TIMEOUT|SKIP)\s+\] ([^.\s]+)\.(.*?)(?: \(\d+ ms\))?$`)

// verdicts parses the engine's output up to its summary: one line per test, followed by the details of
// a failure.
func verdicts(output string) map[string]result {
	results := map[string]result{}
	key := ""
	for line := range strings.Lines(output) {
		text := strings.TrimRight(line, "\n")
		if m := verdictLine.FindStringSubmatch(text); m != nil {
			key = m[2] + "/" + m[3]
			results[key] = result{verdict: m[1]}
			continue
		}
		switch {
		case strings.HasPrefix(text, "[==========]") && len(results) > 0: // the rest is a summary
			return results
		case strings.HasPrefix(text, "[ "), strings.HasPrefix(text, "[-"):
			key = ""
		case key != "":
			r := results[key]
			r.detail += line
			results[key] = r
		}
	}
	return results
}

// notOK returns the tests of keys that did not pass, in order.
func notOK(keys []string, results map[string]result) []string {
	var out []string
	for _, key := range keys {
		if results[key].verdict != "OK" {
			out = append(out, key)
		}
	}
	return out
}

// findPython returns the interpreter that runs the engine.
func findPython() (string, error) {
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", exec.ErrNotFound
}
