// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// typed runs a command line of btc and returns what it writes and its status.
func typed(t *testing.T, args ...string) (out, errs string, status int) {
	t.Helper()
	stdout, stderr := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	read := func(to **os.File) <-chan string {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		*to = w
		text := make(chan string, 1)
		go func() {
			b, _ := io.ReadAll(r)
			text <- string(b)
		}()
		return text
	}
	o, e := read(&os.Stdout), read(&os.Stderr)
	status = dispatch(append([]string{"btc"}, args...))
	os.Stdout.Close()
	os.Stderr.Close()
	return <-o, <-e, status
}

// TestHelpOfEach checks that the three descriptions of each command agree and contain all of its
// options, and that a command rejects, by name, an unknown option and its own options without their
// value.
func TestHelpOfEach(t *testing.T) {
	for _, p := range manPages(rootCommand()) {
		words := strings.Fields(p.path)[1:]
		if p.path == "btrun" {
			continue
		}
		help, _, status := typed(t, append([]string{"help"}, words...)...)
		if status != 0 || !strings.HasPrefix(help, "usage: "+p.path) {
			t.Errorf("btc help %s: status %d, %q", strings.Join(words, " "), status, help)
		}
		for _, option := range []string{"-h", "--help"} {
			if got, _, status := typed(t, append(append([]string{}, words...), option)...); status != 0 || got != help {
				t.Errorf("%s %s: status %d, output differs from btc help:\n%s", p.path, option, status, got)
			}
		}
		if p.path == "btc" {
			continue
		}
		const wrong = "--no-such-option"
		_, said, status := typed(t, append(append([]string{}, words...), wrong)...)
		if status == 0 || !strings.Contains(said, "unknown option "+wrong) {
			t.Errorf("%s %s: status %d, %q", p.path, wrong, status, said)
		}
		for i := range p.c.options {
			o := &p.c.options[i]
			if !o.Hidden && !strings.Contains(help, o.Form()) {
				t.Errorf("%s: no %s in the help", p.path, o.Form())
			}
			if o.Value == "" || o.Optional {
				continue
			}
			_, said, status := typed(t, append(append([]string{}, words...), o.Spelling())...)
			if status == 0 || !strings.Contains(said, "option "+o.Spelling()+" needs a value") {
				t.Errorf("%s %s: status %d, %q", p.path, o.Spelling(), status, said)
			}
		}
	}
}

var shellWord = regexp.MustCompile(`'[^']*'|\S+`)

// TestHelpExamples parses the command lines that the help and the manual pages show.
func TestHelpExamples(t *testing.T) {
	shown := 0
	for _, p := range manPages(rootCommand()) {
		for _, e := range p.c.examples {
			shown++
			line, _, _ := strings.Cut(strings.TrimPrefix(e.line, "//go:generate "), " > ")
			line, _, _ = strings.Cut(line, " | ")
			var words []string
			for _, w := range shellWord.FindAllString(line, -1) {
				words = append(words, strings.Trim(w, "'"))
			}
			c, path := rootCommand(), strings.Fields(p.path)
			if p.path == "btrun" {
				c = loader()
			}
			if p.path == "btc" { // an example of another command
				continue
			}
			if len(words) < len(path) || !slices.Equal(words[:len(path)], path) {
				t.Errorf("%s shows %q", p.path, e.line)
				continue
			}
			cc, rest, err := c.cobra().Find(words[1:])
			if err == nil {
				err = cc.ParseFlags(rest)
			}
			if err != nil {
				t.Errorf("%s: %v", e.line, err)
			}
		}
	}
	if shown < 25 {
		t.Errorf("%d examples", shown)
	}
}
