// SPDX-License-Identifier: Apache-2.0

// Package stages writes what the compiler makes of a script as one HTML file that needs nothing else: the script, its intermediate
// code after each pass with what the pass changed, its BPF instructions, and what the kernel made of them.
//
// It takes the stages that compile.Input.Dump gets, with positions, and writes the file. The same input gives the same bytes.
package stages

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"btc/internal/profile"
	"btc/report/document"
)

//go:embed stages.css
var style string

//go:embed stages.js
var script string

// JavaScript returns the script of the file.
var JavaScript = sync.OnceValue(func() string { return document.JavaScript(script) })

// Stages collects the stages of a compilation.
type Stages struct {
	File, Source string
	Facts        []Fact // about the result
	Kernel       *Kernel
	Doc          func(stage string) string // what a pass does

	all []stage
}

// Fact is a name with a value, for the head of the file.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Kernel is what the kernel made of the object.
type Kernel struct {
	Absent   string    // why there is nothing; "": there is
	Programs []Program // in any order
}

// Program is a loaded program.
type Program struct {
	Name  string
	Facts string // such as the time that it ran
	Lines []Line
}

// Line is a line of code, of a line and a column of the script; 0: of none.
type Line struct {
	Text      string
	Line, Col int
}

// stage is a stage as Dump got it.
type stage struct {
	name  string
	lines []Line
}

// Add adds the text of a stage. Machine code comes function by function. A stage that precedes those that are known begins a new
// compilation: the compiler tries again if a frame was too large.
func (s *Stages) Add(name, text string) {
	if name == "input" || name == "ast" {
		for i := range s.all {
			if s.all[i].name == name {
				s.all = s.all[:i]
				break
			}
		}
	}
	var lines []Line
	switch name {
	case "object", "manifest", "ast":
		return
	case "asm":
		lines = assembly(text)
	default:
		lines = code(text)
	}
	if n := len(s.all); n > 0 && (name == "isel" || name == "regalloc") {
		for i := range s.all {
			if s.all[i].name == name {
				s.all[i].lines = append(s.all[i].lines, lines...)
				return
			}
		}
	}
	s.all = append(s.all, stage{name, lines})
}

var positioned = regexp.MustCompile(`^(.*?)\s*!(\d+):(\d+)(?:#-?\d+)?(?: \{)?$`)

// code returns the lines of intermediate or machine code, which end with their position.
func code(text string) []Line {
	var lines []Line
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "stmt "), strings.HasPrefix(line, "module "), strings.HasPrefix(line, "meta "): // as the script has them, or the same in each stage
			continue
		}
		if m := positioned.FindStringSubmatch(line); m != nil {
			lines = append(lines, Line{m[1], number(m[2]), number(m[3])})
		} else {
			lines = append(lines, Line{Text: line})
		}
	}
	return lines
}

func number(text string) int {
	n, _ := strconv.Atoi(text) // the pattern has digits only
	return n
}

var commented = regexp.MustCompile(`^(\s*\d+: .*?) ; (\d+):(\d+)( .*)?$`)

// assembly returns the lines of the final code, which has the position of an instruction where it differs from that of the one before.
func assembly(text string) []Line {
	var lines []Line
	at := Line{}
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		if m := commented.FindStringSubmatch(line); m != nil {
			line = m[1]
			if m[4] != "" {
				line += " ;" + m[4]
			}
			at.Line, at.Col = number(m[2]), number(m[3])
		}
		if strings.HasSuffix(line, ":") && !strings.HasPrefix(line, " ") { // the next function
			at = Line{}
		}
		lines = append(lines, Line{line, at.Line, at.Col})
	}
	return lines
}

// data is what the script of the file reads. A line that several stages have is in it once.
type data struct {
	File   string      `json:"file"`
	Source string      `json:"source"`
	Facts  []Fact      `json:"facts"`
	Lines  []string    `json:"lines"`
	At     [][]int     `json:"at"` // of each line: line and column, or empty
	Stages []stageData `json:"stages"`
	BPF    []int       `json:"bpf"`
	Kernel []int       `json:"kernel"`
	Loaded []Fact      `json:"loaded"`
	Absent string      `json:"absent,omitempty"`

	// Columns of the script, as "line:column", which are others in its printable form.
	Moved map[string]int `json:"moved,omitempty"`
}

// stageData is a stage: its lines, by number.
type stageData struct {
	Name  string `json:"name"`
	Doc   string `json:"doc,omitempty"`
	Lines []int  `json:"lines"`
}

// Write writes the file.
func (s *Stages) Write(w io.Writer) error {
	d := data{File: profile.Printable(s.File), Source: printable(s.Source), Facts: append([]Fact{}, s.Facts...), Lines: []string{}, At: [][]int{}, Stages: []stageData{}, BPF: []int{}, Kernel: []int{}, Loaded: []Fact{}}
	known := map[Line]int{}
	source := strings.Split(s.Source, "\n")
	numbers := func(lines []Line) []int {
		out := make([]int, len(lines))
		for i, l := range lines {
			n, ok := known[l]
			if !ok {
				n = len(d.Lines)
				known[l] = n
				at := []int{}
				if l.Line > 0 {
					at = []int{l.Line, l.Col}
					if col := printableColumn(source, l.Line, l.Col); col != l.Col {
						if d.Moved == nil {
							d.Moved = map[string]int{}
						}
						d.Moved[fmt.Sprintf("%d:%d", l.Line, l.Col)] = col
					}
				}
				d.Lines, d.At = append(d.Lines, profile.Printable(l.Text)), append(d.At, at)
			}
			out[i] = n
		}
		return out
	}
	for _, x := range s.all {
		if x.name == "asm" {
			d.BPF = numbers(x.lines)
			continue
		}
		doc := ""
		if s.Doc != nil {
			doc = s.Doc(x.name)
		}
		d.Stages = append(d.Stages, stageData{x.name, doc, numbers(x.lines)})
	}
	if k := s.Kernel; k != nil {
		d.Absent = profile.Printable(k.Absent)
		for _, p := range k.Programs {
			d.Loaded = append(d.Loaded, Fact{profile.Printable(p.Name), profile.Printable(p.Facts)})
			d.Kernel = append(d.Kernel, numbers([]Line{{Text: p.Name + ":"}})...)
			d.Kernel = append(d.Kernel, numbers(p.Lines)...)
		}
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	element := document.Plain("data", text)
	if len(text) > 64<<10 {
		if element, err = document.Packed("data", text); err != nil {
			return err
		}
	}
	doc := document.Document{Title: title(s.File), Style: style, Script: JavaScript(), Without: "This file shows itself with a script of its own. Without it, btc compile --dump=all prints the stages as text.", Main: "stages", Head: []document.Element{element}}
	return doc.Write(w)
}

func title(file string) string {
	return "Stages of " + profile.Printable(file[strings.LastIndexByte(file, '/')+1:])
}

// printableColumn returns where a column of a line is in the printable form of the line. Columns count bytes from 1.
func printableColumn(source []string, line, col int) int {
	if line > len(source) || col < 1 || col-1 > len(source[line-1]) {
		return col
	}
	return len(printable(source[line-1][:col-1])) + 1
}

// printable is profile.Printable with lines and tabs.
func printable(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		words := strings.Split(line, "\t")
		for j, w := range words {
			words[j] = profile.Printable(w)
		}
		lines[i] = strings.Join(words, "\t")
	}
	return strings.Join(lines, "\n")
}
