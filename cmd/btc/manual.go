// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"btc/internal/option"
	"btc/loader/options"
)

// completionCommand prints the completions of both programs for a shell.
func completionCommand(root *command) *command {
	var program string
	return &command{
		name: "completion", operands: "bash|zsh|fish", summary: "print completions for a shell",
		examples: []example{
			{"btc completion bash > /usr/share/bash-completion/completions/btc", "install the completions of btc for bash"},
			{"btc completion --program btrun zsh > /usr/share/zsh/site-functions/_btrun", "install those of btrun for zsh"},
		},
		options: option.Table{
			{Name: "program", Value: "NAME", Choices: option.Choices("btc", "btrun", "bpftrace"), To: &program,
				Help: "program to complete: btc, btrun, or bpftrace for a link to btc; default: btc"},
		},
		run: func(line *option.Line) int {
			words := line.All()
			if len(words) != 1 {
				return fail("expected a shell: bash, zsh or fish")
			}
			if program == "" {
				program = "btc"
			}
			if err := writeCompletion(os.Stdout, root, program, words[0]); err != nil {
				return fail("%v", err)
			}
			return 0
		},
	}
}

// loader returns btrun as a command, for its manual and completions.
func loader() *command {
	return &command{
		name: "btrun", operands: "OBJECT.o|TOOL|- [PARAMETER ...] [-- --NAME=VALUE ...]", summary: "attach an object made by btc compile, and report",
		about: "With - the object is read from standard input: cat x.o | btrun -. An object from before December 2026 " +
			"has its manifest in a second file: x.json next to x.o, or cat x.o x.json | btrun -. Options can precede or " +
			"follow the object. If the host has a policy, /etc/btrun/policy.json, it limits every run.",
		options: new(options.Values).Table(), files: []string{"o"}, status: runStatus,
		examples: []example{
			{"btrun reads.o dd", "attach reads.o with dd as $1, until Ctrl-C"},
			{"btrun -c 'make' reads.o make -- --slow=100", "trace until the command ends, with an option of the script"},
			{"btrun --help reads.o", "list the parameters and options of the script"},
			{"btrun --inspect reads.o", "list what the object may do, without running it"},
			{"btrun --container web --timeout 30s reads.o", "trace one container for 30 seconds"},
			{"btrun --every 15s -f prometheus -o reads.prom reads.o", "write the maps as metrics every 15 seconds"},
		},
	}
}

// programs maps the names that can be completed to commands.
func programCommand(root *command, name string) *command {
	switch name {
	case "btrun":
		return loader()
	case "bpftrace":
		c := runCommand()
		c.name, c.summary = name, "trace with a script (a link to btc)"
		return c
	}
	return root
}

// writeCompletion writes the completions of a program. Those of btc call btc itself, as the
// library's do. The two others have no commands: btc completes for them.
func writeCompletion(w io.Writer, root *command, program, shell string) error {
	cc := programCommand(root, program).cobra()
	var b strings.Builder
	var err error
	switch shell {
	case "bash":
		err = cc.GenBashCompletionV2(&b, true)
	case "zsh":
		err = cc.GenZshCompletion(&b)
	case "fish":
		err = cc.GenFishCompletion(&b, true)
	default:
		return fmt.Errorf("no completions for %q: expected bash, zsh or fish", shell)
	}
	if err != nil {
		return err
	}
	text := b.String()
	if program == "btrun" { // btrun has no code for this, so btc completes for it
		text = strings.NewReplacer(
			`requestComp="${words[0]} __complete ${args[*]}"`, `requestComp="btc __complete-btrun ${args[*]}"`,
			`requestComp="${words[1]} __complete ${words[2,-1]}"`, `requestComp="btc __complete-btrun ${words[2,-1]}"`,
			"$args[1] __complete", "btc __complete-btrun",
		).Replace(text)
		if !strings.Contains(text, "__complete-btrun") {
			panic("BUG: the library's completion of " + shell + " has an unexpected form")
		}
	}
	_, err = io.WriteString(w, text)
	return err
}

// completeWord is the first argument when completions of btrun call btc.
const completeWord = "__complete-btrun"

// manCommand writes the manual pages of both programs.
func manCommand(root *command) *command {
	var dir string
	return &command{
		name: "man", operands: "[PAGE]", summary: "print or write the manual pages of btc and btrun",
		about: "The name of a page is that of its file: btc, btc-compile, btc-target-show, btrun.",
		examples: []example{
			{"btc man btc-compile | man -l -", "read a page"},
			{"btc man --output-dir man", "write all pages to files"},
		},
		options: option.Table{{Name: "output-dir", Value: "DIR", To: &dir, Help: "write all pages to this directory, which is made if it does not exist"}},
		run: func(line *option.Line) int {
			pages := manPages(root)
			words := line.All()
			switch {
			case dir != "" && len(words) > 0:
				return fail("unexpected argument %q: --output-dir writes all pages", words[0])
			case dir != "":
				if err := os.MkdirAll(dir, 0o755); err != nil {
					return fail("%v", err)
				}
				for _, p := range pages {
					if err := writeFiles(newFile{filepath.Join(dir, p.file()), []byte(p.roff())}); err != nil {
						return fail("%v", err)
					}
				}
				return 0
			case len(words) > 1:
				return fail("unexpected argument %q: one page at a time", words[1])
			}
			name := strings.Join(append(words, "btc")[:1], "")
			for _, p := range pages {
				if p.title() == name {
					fmt.Print(p.roff())
					return 0
				}
			}
			return fail("no page %q; btc help lists the commands", name)
		},
	}
}

// variable is an environment variable.
type variable struct {
	name, what string
	pages      []string // manual pages of the programs that read it
}

// environment lists the environment variables that the programs read, for the manual pages and the reference page.
var environment = []variable{
	{"BPFTRACE_...", "a setting of the script's config block, such as BPFTRACE_MAX_STRLEN=64; it takes precedence over the block. " +
		"btrun reads those that act at run time",
		[]string{"btc-compile", "btc-run", "btrun"}},
	{"BPFTRACE_BTF", "the default of --btf, if the file exists", []string{"btc-run", "btrun"}},
	{"BPFTRACE_COLOR", "the default of --color", []string{"btc-compile", "btc-run", "btrun"}},
	{"NO_COLOR, TERM=dumb", "no colors, and with TERM=dumb no view in place, unless --color always",
		[]string{"btc-compile", "btc-run", "btrun"}},
	{"BTRUN_PATH", "directories of tools, after /usr/share/btc/tools: absolute paths, separated by colons; ignored under sudo, pkexec and a policy",
		[]string{"btrun"}},
	{"XDG_CACHE_HOME", "where the types of the running kernel are kept, in btc/", []string{"btc-run"}},
	{"NOTIFY_SOCKET", "the service manager's socket, which is notified when all probes are attached and when the run ends",
		[]string{"btrun"}},
	{"PATH", "where programs named without a directory in uprobe and usdt probes are looked for",
		[]string{"btc-compile", "btc-run", "btrun"}},
}

// runStatus is the exit status of a run.
const runStatus = "that of the script's exit(), otherwise 0; 1 if the object cannot be run, 130 after a second Ctrl-C, " +
	"and 141 if nobody reads the output any more."

// manPage is the manual page of a command; path is "btc target show".
type manPage struct {
	path string
	c    *command
}

// manPages returns the pages of btc, of its commands, and of btrun.
func manPages(root *command) []manPage {
	var all []manPage
	var add func(path string, c *command)
	add = func(path string, c *command) {
		all = append(all, manPage{path, c})
		for _, s := range c.sub {
			add(path+" "+s.name, s)
		}
	}
	add(root.name, root)
	add("btrun", loader())
	return all
}

func (p manPage) title() string   { return strings.ReplaceAll(p.path, " ", "-") }
func (p manPage) section() string { return map[bool]string{true: "8", false: "1"}[p.path == "btrun"] }
func (p manPage) file() string    { return p.title() + "." + p.section() }

// roff returns the page in the man macros of troff.
func (p manPage) roff() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(`.TH "%s" "%s" "" "btc %s" "btc"`, strings.ToUpper(p.title()), p.section(), roffText(version))
	line(".SH NAME\n%s \\- %s", roffText(p.title()), roffText(p.c.summary))
	line(".SH SYNOPSIS\n.B %s", roffText(p.path))
	if rest := strings.TrimPrefix(p.c.usage(), p.c.name); rest != "" {
		line("%s", roffText(strings.TrimSpace(rest)))
	}
	if p.c.about != "" {
		line(".SH DESCRIPTION\n%s", roffText(p.c.about))
	}
	if len(p.c.sub) > 0 {
		line(".SH COMMANDS")
		for _, s := range p.c.sub {
			line(".TP\n.BR %s (1)\n%s", roffText(manPage{path: p.path + " " + s.name}.title()), roffText(s.summary))
		}
	}
	group := "\x00"
	for i := range p.c.options {
		o := &p.c.options[i]
		if o.Hidden {
			continue
		}
		if i == 0 {
			line(".SH OPTIONS")
		}
		if o.Group != "" && o.Group != group {
			group = o.Group
			line(".SS %s", roffText(group))
		}
		help := sentence(o.Help)
		if !strings.HasSuffix(help, ":") {
			help += "."
		}
		line(".TP\n.B %s\n%s", roffText(o.Form()), roffText(help))
		for _, c := range o.Choices {
			if c.Help != "" {
				line(".RS\n.TP\n.B %s\n%s\n.RE", roffText(c.Name), roffText(c.Help))
			}
		}
	}
	if p.c.status != "" {
		line(".SH EXIT STATUS\n%s", roffText(sentence(p.c.status)))
	}
	first := true
	for _, v := range environment {
		if !slices.Contains(v.pages, p.title()) {
			continue
		}
		if first {
			line(".SH ENVIRONMENT")
			first = false
		}
		line(".TP\n.B %s\n%s", roffText(v.name), roffText(sentence(v.what)+"."))
	}
	for i, e := range p.c.examples {
		if i == 0 {
			line(".SH EXAMPLES")
		}
		line(".TP\n.B %s\n%s", roffText(e.line), roffText(sentence(e.what)+"."))
	}
	line(".SH SEE ALSO")
	others := slices.DeleteFunc([]string{"btc(1)", "btrun(8)", "bpftrace(8)"}, func(other string) bool {
		return other == p.title()+"("+p.section()+")"
	})
	line("%s", roffText(strings.Join(others, ", ")))
	return b.String()
}

// roffText escapes text that would be read as requests.
func roffText(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
