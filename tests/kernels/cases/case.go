// SPDX-License-Identifier: Apache-2.0

// Package cases reads the end-to-end test cases and judges what a run of one printed.
//
// A case is a txtar archive, one file under tests/kernels/testdata. The same
// cases run on every kernel, on this machine's own kernel and with bpftrace
// bpftrace. To add one, add a file:
//
//	What the case proves, in a line or two.
//	needs: kprobe                 features of the host, see driver.Features
//	run: workload write -n 3      command that the tool starts and waits for (-c)
//	where: sum(@) == calls        a relation that must hold, see Judge
//	-- script.bt --
//	kprobe:vfs_write /comm == "worker"/ { @ = count(); }
//	-- stdout --
//	...
//	@: {{int}}
//
// Keys of the head (each may be absent; needs, skip, where repeat):
//
//	script: PATH     the script, relative to the repository, instead of script.bt
//	args: A B        parameters of the script, after the object
//	compile: A B     further arguments of btc compile; a section NAME.h is a header
//	                 beside the script
//	tool: A B        options of the tool, such as --unsafe
//	run: COMMAND     started by the tool itself with -c; the run ends with it
//	before: COMMAND  started before the tool, once it has printed a line; killed after it
//	after: COMMAND   started once the tool is attached, by a shell where it needs one;
//	                 then the tool gets SIGINT
//	                 (neither: the script ends by itself)
//	needs: F G       features without which the case is skipped
//	skip: K REASON   not on kernel K (5.10, 6.1, 6.12, sid, 6.1-arm64, sid-arm64, 6.12-riscv64, sid-riscv64, host) or not with bpftrace (oracle)
//	scope: all       it traces every process of the machine: by default not run on the host
//	core: yes        also run on architectures that objects do not serve by default
//	                 (riscv64), where -slow runs all cases: one for each thing that an
//	                 architecture changes
//	exit: N          expected exit status, default 0
//	timeout: D       limit for the run, default 30s
//	where: A OP B    integers to compare: captures, keys of the workload's report,
//	                 literals, or sum(TITLE)
//
// Sections: "stdout" and "stderr" hold the whole expected text, "stdout counts"
// and "stderr counts" hold lines "N PATTERN" or "N+ PATTERN": how many lines
// match, at any place. Without a section for stderr, errors and panics on it
// fail the case. Patterns are explained at Pattern.
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

// Oracle is the name that stands for bpftrace bpftrace in a "skip:" line.
const Oracle = "oracle"

// Case is one test case.
type Case struct {
	Name   string // file name without its extension
	About  string // what it proves
	Path   string // script, relative to the repository, or "" for Script alone
	Script string // text of the script
	Args   []string
	Tool   []string // options
	// Compile are further arguments of btc compile, Headers files beside the script.
	Compile []string
	Headers map[string]string
	Run     string // command for -c
	Before  string // command that runs all the time
	After   string // command to start after attaching
	Needs   []string
	Skip    map[string]string // kernel or Oracle -> reason
	All     bool              // traces processes that are not its own
	Core    bool              // see "core:"
	Exit    int
	Limit   time.Duration
	Where   []relation
	Stdout  output
	Stderr  output
}

// output is what one stream must hold.
type output struct {
	given  bool // a section was there
	whole  []string
	exact  bool // whole was given
	counts []count
}

// Load reads every case of the directory dir, in the order of their names.
// Scripts named by path are read below root, the top of the repository.
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

// Parse reads one case from the text of its archive.
func Parse(name string, text []byte) (*Case, error) {
	a := txtar.Parse(text)
	c := &Case{Name: name, Skip: map[string]string{}, Limit: 30 * time.Second}
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
		return errors.New("needs either a section script.bt or a line \"script: PATH\"")
	case c.Run != "" && c.After != "":
		return errors.New("has both \"run:\" and \"after:\" lines")
	case !c.Stdout.given && !c.Stderr.given && len(c.Where) == 0:
		return errors.New("expects nothing: it could not fail")
	case c.About == "":
		return errors.New("does not say what it proves")
	}
	return nil
}

// keys are the lines of the head that are not prose.
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
			return fmt.Errorf("skip: %s gives no reason", v)
		}
		c.Skip[kernel] = reason
		return nil
	},
	"scope": func(c *Case, v string) error {
		if v != "all" {
			return fmt.Errorf("scope: %s is not known", v)
		}
		c.All = true
		return nil
	},
	"core": func(c *Case, v string) error {
		if v != "yes" {
			return fmt.Errorf("core: %s is not known", v)
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

// keyForm tells a misspelt key from prose.
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
		return fmt.Errorf("unknown")
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
