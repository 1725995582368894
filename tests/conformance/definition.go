// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// definition is one runtime test of bpftrace.
type definition struct {
	file, name string
	prog       string // the program; empty if a command line is tested
	expects    []expect
	env        []string
	timeout    int // seconds
	status     int // exit status
	willFail   bool
	timestamp  int64 // LOCALIZE_TIMESTAMPS; -1 if not given
	// needs are the directives that ask for more than a program, by name: BEFORE, AFTER, SETUP,
	// CLEANUP, REQUIRES and the like. Of a repeated directive, it has the last.
	needs map[string]string
	// befores are the commands to start first; all commands in requires must succeed.
	befores, requires []string
}

// expect is one expectation; mode is the name of the directive without EXPECT.
type expect struct{ mode, text string }

func (d definition) key() string { return d.file + "/" + d.name }

// definitions reads all files of tests/runtime.
func definitions(tests string) ([]definition, error) {
	paths, err := filepath.Glob(filepath.Join(tests, "runtime", "*"))
	if err != nil {
		return nil, err
	}
	var all []definition
	seen := map[string]int{}
	for _, path := range paths {
		st, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if st.IsDir() || strings.HasPrefix(filepath.Base(path), ".") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		defs, err := parseDefinitions(filepath.Base(path), string(text))
		if err != nil {
			return nil, err
		}
		for _, d := range defs {
			if seen[d.key()]++; seen[d.key()] > 1 { // two tests of the same name
				d.name = fmt.Sprintf("%s#%d", d.name, seen[d.key()])
			}
			all = append(all, d)
		}
	}
	return all, nil
}

// parseDefinitions parses one file. A blank line ends a definition; lines that begin with # are
// comments.
func parseDefinitions(file, text string) ([]definition, error) {
	var all []definition
	var block []string
	flush := func() error {
		if len(block) == 0 {
			return nil
		}
		d, err := parseDefinition(file, block)
		all, block = append(all, d), nil
		return err
	}
	for _, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "#"):
		case line == "":
			if err := flush(); err != nil {
				return nil, err
			}
		default:
			block = append(block, line)
		}
	}
	return all, flush()
}

// continues are the directives that may continue on lines that begin with spaces.
var continues = map[string]bool{"PROG": true, "EXPECT": true, "EXPECT_REGEX": true}

func parseDefinition(file string, lines []string) (definition, error) {
	d := definition{file: file, timeout: 5, timestamp: -1, needs: map[string]string{}}
	last := ""
	for _, line := range lines {
		indent := len(last) + 1
		if continues[last] && strings.TrimSpace(line[:min(indent, len(line))]) == "" {
			d.goOn(last, line[min(indent, len(line)):])
			continue
		}
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		last = name
		if err := d.directive(name, strings.TrimSpace(value)); err != nil {
			return d, fmt.Errorf("%s: %s: %w", file, d.name, err)
		}
	}
	return d, nil
}

// goOn appends a continuation line to the directive before it.
func (d *definition) goOn(name, line string) {
	if name == "PROG" {
		d.prog += "\n" + line
		return
	}
	d.expects[len(d.expects)-1].text += "\n" + line
}

func (d *definition) directive(name, value string) (err error) {
	if mode, ok := strings.CutPrefix(name, "EXPECT"); ok {
		d.expects = append(d.expects, expect{strings.TrimPrefix(mode, "_"), value})
		return nil
	}
	switch name {
	case "NAME":
		d.name = value
	case "PROG":
		d.prog = value
	case "ENV":
		d.env = strings.Fields(value)
	case "TIMEOUT":
		d.timeout, err = strconv.Atoi(value)
	case "RETURN_CODE":
		d.status, err = strconv.Atoi(value)
	case "WILL_FAIL":
		d.willFail = true
	case "LOCALIZE_TIMESTAMPS":
		d.timestamp, err = strconv.ParseInt(value, 10, 64)
	case "RUN", "BEFORE", "AFTER", "SETUP", "CLEANUP", "REQUIRES", "REQUIRES_FEATURE", "MIN_KERNEL", "MAX_KERNEL", "ARCH", "NEW_PIDNS", "SKIP_IF_ENV_HAS":
		d.needs[name] = value
		switch name {
		case "BEFORE":
			d.befores = append(d.befores, value)
		case "REQUIRES":
			d.requires = append(d.requires, value)
		}
	default:
		err = fmt.Errorf("unknown directive %s", name)
	}
	return err
}

// selfContained reports whether a test is a program that needs no other program and has only timers and
// the program's own events as probes.
func (d definition) selfContained() bool {
	for _, n := range []string{"RUN", "BEFORE", "NEW_PIDNS"} {
		if _, ok := d.needs[n]; ok {
			return false
		}
	}
	if d.prog == "" || strings.Contains(d.prog+d.needs["AFTER"], "testprogs/") || strings.Contains(d.prog, "testlibs/") {
		return false
	}
	for _, p := range providers(d.prog) {
		if !ownProviders[strings.ToLower(p)] {
			return false
		}
	}
	return true
}

var ownProviders = map[string]bool{"begin": true, "end": true, "interval": true, "i": true, "self": true}

var (
	noise    = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|(?m:^\s*#.*$)`)
	topLevel = regexp.MustCompile(`^\s*(?:struct|union|enum|config|macro|fn|let|import)\b`)
)

// providers returns the probe types of a program, found in the text before each block at the top level.
func providers(prog string) []string {
	prog = noise.ReplaceAllStringFunc(prog, func(s string) string {
		if s[0] == '"' {
			return `""`
		}
		return ""
	})
	var out []string
	depth, head := 0, 0
	for i := 0; i < len(prog); i++ {
		switch prog[i] {
		case '{':
			if depth++; depth == 1 {
				out = append(out, providersOf(prog[head:i])...)
			}
		case '}':
			if depth--; depth == 0 {
				head = i + 1
			}
		case ';':
			if depth == 0 {
				head = i + 1
			}
		}
	}
	return out
}

func providersOf(head string) []string {
	if topLevel.MatchString(head) {
		return nil
	}
	head, _, _ = strings.Cut(head, "/")
	var out []string
	for _, point := range strings.Split(head, ",") {
		if point = strings.TrimSpace(point); point != "" {
			provider, _, _ := strings.Cut(point, ":")
			out = append(out, provider)
		}
	}
	return out
}

// variable returns the value of a variable in the test's environment, or "".
func (d *definition) variable(name string) string {
	for _, v := range d.env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}
