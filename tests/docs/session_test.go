// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"html"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// The picture of a terminal at the beginning of README.md.
const (
	sessionFile    = "../../docs/session.svg"
	sessionColumns = 100
	sessionCell    = 8.4 // width of a character
	sessionLine    = 19
	sessionTop     = 48 // of the first line
)

// terminalLine is a line on the terminal: a command, the rest of one that is too long, or output.
type terminalLine struct {
	text    string
	command bool
	first   bool // it has the prompt
}

// terminalLines returns the commands of README.md's session and their output, as a terminal of sessionColumns wraps them.
func terminalLines(t *testing.T) (lines []terminalLine) {
	t.Helper()
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(data), "\n## A session\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("README.md has no session")
	}
	wrap := func(text string, command bool) {
		for first := true; first || text != ""; first = false {
			part := text
			if utf8.RuneCountInString(text) > sessionColumns {
				part = string([]rune(text)[:sessionColumns])
			}
			lines = append(lines, terminalLine{part, command, command && first})
			text = text[len(part):]
		}
	}
	output := false // of the last command may follow
	empty := 0      // lines, which belong to the output only if more of it follows
	for line := range strings.Lines(section) {
		line = strings.TrimRight(line, "\n")
		code, indented := strings.CutPrefix(line, "    ")
		command, isCommand := strings.CutPrefix(code, "$ ")
		command, isRoot := strings.CutPrefix(command, "sudo ")
		switch {
		case indented && isCommand:
			if strings.HasPrefix(command, "bin/btc compile") && len(lines) > 0 {
				return lines // the next subject
			}
			empty, output = 0, true
			prompt := "$ "
			if isRoot {
				prompt = "# "
			}
			if len(lines) > 0 {
				lines = append(lines, terminalLine{})
			}
			wrap(prompt+strings.ReplaceAll(command, "bin/", ""), true)
		case indented && output:
			for ; empty > 0; empty-- {
				lines = append(lines, terminalLine{})
			}
			wrap(code, false)
		case line == "" && len(lines) > 0:
			empty++
		default: // prose
			output = output && indented
		}
	}
	return lines
}

// sessionPicture draws lines as a terminal in SVG.
func sessionPicture(lines []terminalLine) string {
	width := float64(sessionColumns)*sessionCell + 40
	height := sessionTop + sessionLine*len(lines) + 10
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]g %[2]d" width="%[1]g" height="%[2]d" role="img" aria-label="A terminal: btc compiles a script, btrun prints a histogram of the sizes of reads, and btc check says that the object loads on two kernels">
<!-- generated from README.md by go test ./tests/docs -run SessionPicture -update -->
<rect width="%[1]g" height="%[2]d" rx="8" fill="#1b1f27"/>
<circle cx="20" cy="18" r="6" fill="#ff5f56"/><circle cx="40" cy="18" r="6" fill="#ffbd2e"/><circle cx="60" cy="18" r="6" fill="#27c93f"/>
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14" fill="#d7dae0">
`, width, height)
	for i, l := range lines {
		if l.text == "" {
			continue
		}
		text := strings.ReplaceAll(html.EscapeString(l.text), " ", "\u00a0") // which no renderer joins
		switch {
		case l.first:
			text = `<tspan fill="#27c93f">` + text[:1] + `</tspan><tspan fill="#ffffff">` + text[1:] + `</tspan>`
		case l.command:
			text = `<tspan fill="#ffffff">` + text + `</tspan>`
		case strings.Contains(text, "|@"):
			before, bar, _ := strings.Cut(text, "|")
			text = before + `|<tspan fill="#4fb6ff">` + strings.TrimSuffix(bar, "|") + `</tspan>|`
		}
		// The length keeps columns aligned in any font.
		fmt.Fprintf(&b, `<text x="20" y="%d" textLength="%.1f">%s</text>`+"\n", sessionTop+sessionLine*i, float64(utf8.RuneCountInString(l.text))*sessionCell, text)
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

// TestSessionPicture checks that the picture shows the session of README.md, whose commands TestCommands runs.
func TestSessionPicture(t *testing.T) {
	lines := terminalLines(t)
	if len(lines) < 12 || !lines[0].first || !strings.HasPrefix(lines[0].text, "$ btc compile -e ") {
		t.Fatalf("session of %d lines: %v", len(lines), lines)
	}
	want := sessionPicture(lines)
	if *update {
		if err := os.WriteFile(sessionFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(sessionFile)
	if err != nil || string(have) != want {
		t.Errorf("%s is not README.md's session: run go test ./tests/docs -run SessionPicture -update (%v)", sessionFile, err)
	}
}
