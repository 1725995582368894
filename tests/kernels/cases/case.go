// SPDX-License-Identifier: Apache-2.0

// Package cases reads the end-to-end test cases and checks the output of a run against them.
//
// A case is a txtar archive, one file under tests/kernels/testdata. The same cases run on every guest
// kernel, on the kernel of this machine, and with bpftrace. To add a case, add a file:
//
//	What the case tests, in a line or two.
//	needs: kprobe                 features that the host must have, see driver.Features
//	run: workload write -n 3      command that the tool starts and waits for (-c)
//	where: sum(@) == calls        a relation that must hold, see Check
//	-- script.bt --
//	kprobe:vfs_write /comm == "worker"/ { @ = count(); }
//	-- stdout --
//	...
//	@: {{int}}
//
// Keys of the head (all optional; needs, skip and where may be repeated):
//
//	script: PATH     the script, relative to the repository, instead of script.bt
//	args: A B        positional parameters of the script, after the object
//	compile: A B     more arguments of btc compile; a section NAME.h is a header
//	                 next to the script
//	tool: A B        options of the tool, such as --unsafe
//	run: COMMAND     started by the tool with -c; the run ends when it exits
//	before: COMMAND  started before the tool, which waits for its first line; killed at the end
//	after: COMMAND   started once the tool is attached, through a shell if it needs one;
//	                 when it exits, the tool gets SIGINT
//	                 (without run and after, the script ends by itself)
//	needs: F G       the case is skipped if a feature is missing
//	skip: K REASON   skipped on kernel K (5.10, 6.1, 6.12, sid, 6.1-arm64, sid-arm64,
//	                 6.12-riscv64, sid-riscv64, host) or with bpftrace (K = oracle)
//	scope: all       traces every process of the machine: not run on the host by default
//	core: yes        also run on architectures that objects do not support by default
//	                 (riscv64); there -slow runs all cases. One case for each thing that
//	                 differs between architectures
//	exit: N          expected exit status, default 0
//	timeout: D       time limit of the run, default 1m
//	where: A OP B    integers to compare: captures, keys of the workload's report,
//	                 literals, or sum(TITLE)
//
// Sections: "stdout" and "stderr" hold the whole expected output. "stdout counts" and "stderr counts"
// hold lines "N PATTERN" or "N+ PATTERN": how many lines of the output match PATTERN. If there is no
// section for stderr, errors and panics on it fail the case. See Pattern for the patterns.
package cases

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// Oracle is the name of bpftrace in a "skip:" line.
const Oracle = "oracle"

// Case is one test case.
type Case struct {
	Name   string // file name without its extension
	About  string // what it tests
	Path   string // script, relative to the repository; "" means Script
	Script string // source of the script
	Args   []string
	Tool   []string // options
	// Compile holds more arguments of btc compile, Headers the files next to the script.
	Compile []string
	Headers map[string]string
	Run     string // command for -c
	Before  string // command that runs during the whole run
	After   string // command to start after attaching
	Needs   []string
	Skip    map[string]string // kernel or Oracle -> reason
	All     bool              // traces processes that it did not start
	Core    bool              // see "core:"
	Exit    int
	Limit   time.Duration
	Where   []relation
	Stdout  output
	Stderr  output
}

// output is the expectation for one stream.
type output struct {
	given  bool // there was a section for it
	whole  []string
	exact  bool // there was a section with the whole output
	counts []count
}

// Load reads every case of the directory dir, ordered by name. Script paths are relative to root, the
// top of the repository.
func Load(dir, root string) ([]*Case, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no cases in %s", dir)
	}
	var all []*Case
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		c, err := Parse(strings.TrimSuffix(filepath.Base(f), ".txtar"), b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		if c.Path != "" {
			text, err := os.ReadFile(filepath.Join(root, c.Path))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f, err)
			}
			c.Script = string(text)
		}
		all = append(all, c)
	}
	return all, nil
}

// Parse reads one case from the contents of its archive.
func Parse(name string, text []byte) (*Case, error) {
	a := txtar.Parse(text)
	c := &Case{Name: name, Skip: map[string]string{}, Limit: time.Minute}
	for line := range strings.Lines(string(a.Comment)) {
		if err := c.head(strings.TrimSpace(line)); err != nil {
			return nil, err
		}
	}
	for _, f := range a.Files {
		if err := c.section(f.Name, string(f.Data)); err != nil {
			return nil, fmt.Errorf("section %s: %w", f.Name, err)
		}
	}
	return c, c.complete()
}

func (c *Case) complete() error {
	switch {
	case (c.Script == "") == (c.Path == ""):
		return errors.New("want exactly one of a section script.bt and a line \"script: PATH\"")
	case c.Run != "" && c.After != "":
		return errors.New("\"run:\" and \"after:\" exclude each other")
	case !c.Stdout.given && !c.Stderr.given && len(c.Where) == 0:
		return errors.New("no expectation: the case cannot fail")
	case c.About == "":
		return errors.New("no description of what the case tests")
	}
	return nil
}

// keys are the keys of the head; other lines are prose.
var keys = map[string]func(c *Case, value string) error{
	"script":  func(c *Case, v string) error { c.Path = v; return nil },
	"args":    func(c *Case, v string) error { c.Args = strings.Fields(v); return nil },
	"compile": func(c *Case, v string) error { c.Compile = strings.Fields(v); return nil },
	"tool":    func(c *Case, v string) error { c.Tool = strings.Fields(v); return nil },
	"run":     func(c *Case, v string) error { c.Run = v; return nil },
	"before":  func(c *Case, v string) error { c.Before = v; return nil },
	"after":   func(c *Case, v string) error { c.After = v; return nil },
	"needs":   func(c *Case, v string) error { c.Needs = append(c.Needs, strings.Fields(v)...); return nil },
	"skip": func(c *Case, v string) error {
		kernel, reason, _ := strings.Cut(v, " ")
		if reason == "" {
			return fmt.Errorf("skip: no reason given for %s", v)
		}
		c.Skip[kernel] = reason
		return nil
	},
	"scope": func(c *Case, v string) error {
		if v != "all" {
			return fmt.Errorf("scope: unknown value %q", v)
		}
		c.All = true
		return nil
	},
	"core": func(c *Case, v string) error {
		if v != "yes" {
			return fmt.Errorf("core: unknown value %q", v)
		}
		c.Core = true
		return nil
	},
	"exit":    func(c *Case, v string) (err error) { c.Exit, err = strconv.Atoi(v); return err },
	"timeout": func(c *Case, v string) (err error) { c.Limit, err = time.ParseDuration(v); return err },
	"where": func(c *Case, v string) error {
		r, err := parseRelation(v)
		c.Where = append(c.Where, r)
		return err
	},
}

// keyForm matches a line that looks like a key, so that a misspelled key is an error.
var keyForm = regexp.MustCompile(`^[a-z]+$`)

func (c *Case) head(line string) error {
	key, value, ok := strings.Cut(line, ":")
	if set := keys[key]; ok && set != nil {
		return set(c, strings.TrimSpace(value))
	}
	if ok && keyForm.MatchString(key) {
		return fmt.Errorf("unknown key %q", key)
	}
	c.About = strings.TrimSpace(c.About + " " + line)
	return nil
}

func (c *Case) section(name, text string) error {
	if strings.HasSuffix(name, ".h") && filepath.IsLocal(name) {
		if c.Headers == nil {
			c.Headers = map[string]string{}
		}
		c.Headers[name] = text
		return nil
	}
	stream, form, _ := strings.Cut(name, " ")
	var o *output
	switch stream {
	case "script.bt":
		c.Script = text
		return nil
	case "stdout":
		o = &c.Stdout
	case "stderr":
		o = &c.Stderr
	default:
		return errors.New("unknown section")
	}
	o.given = true
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	switch form {
	case "":
		o.whole, o.exact = lines, true
		for _, l := range lines {
			if _, err := Pattern(l); err != nil {
				return err
			}
		}
		return nil
	case "counts":
		for _, l := range lines {
			n, err := parseCount(l)
			if err != nil {
				return err
			}
			o.counts = append(o.counts, n)
		}
		return nil
	}
	return fmt.Errorf("unknown form %q", form)
}
