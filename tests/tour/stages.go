// SPDX-License-Identifier: Apache-2.0

// Package tour records all stages of compiling small scripts: those in testdata for compiler
// developers, and the one in docs/tour.md for readers who want to know how the compiler works. A change
// of the compiler shows here as a change of dumps that are small enough to read.
//
//	go test ./tests/tour            compare with the recorded stages
//	go test ./tests/tour -update    record them again
package tour

import (
	"fmt"
	"strings"

	"btc/compile"
	"btc/frontend/diag"
	"btc/passes"
	"btc/targets/kernel"
)

// stage is the dump of one stage of the compiler.
type stage struct{ name, text string }

// compileStages compiles a script and returns its stages, in order.
func compileStages(name, text string) ([]stage, *compile.Output, error) {
	t, err := kernel.Default("x86_64")
	if err != nil {
		return nil, nil, err
	}
	var all []stage
	out, diags := compile.Compile(compile.Input{Name: name, Text: text, Target: t, Verify: true, Compiler: "btc",
		Dump: func(s, text string) { all = append(all, stage{s, trim(text)}) }})
	var messages strings.Builder
	if err := diag.Render(&messages, diags, diag.RenderOptions{}); err != nil {
		return nil, nil, err
	}
	if messages.Len() > 0 {
		return nil, nil, fmt.Errorf("unexpected messages:\n%s", &messages)
	}
	return all, out, nil
}

// trim drops the parts that are the same for all scripts: the table of settings and the strings of the
// statements.
func trim(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		if !strings.HasPrefix(line, "meta (config") && !strings.HasPrefix(line, "stmt ") && !strings.HasPrefix(line, "module ") {
			b.WriteString(line)
		}
	}
	return strings.TrimLeft(b.String(), "\n")
}

// find returns the dump of the last stage called name.
func find(all []stage, name string) string {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].name == name {
			return all[i].text
		}
	}
	panic("BUG: no stage " + name)
}

// changes shows what each pass changed, as a diff of its input and output. Passes that changed nothing
// are left out.
func changes(all []stage) []stage {
	var changed []stage
	before := find(all, "input")
	i := 0
	for ; all[i].name != "input"; i++ {
	}
	for _, p := range passes.Pipeline() {
		i++
		if all[i].name != p.Name {
			panic("BUG: pass " + p.Name + " has no dump")
		}
		if after := all[i].text; after != before {
			changed = append(changed, stage{p.Name + ": " + p.Doc, compare(before, after)})
			before = after
		}
	}
	return changed
}

// last returns the dump of the last pass.
func last(all []stage) string {
	pipeline := passes.Pipeline()
	return find(all, pipeline[len(pipeline)-1].Name)
}

// compare lists the removed (-) and added (+) lines, with "..." for unchanged ones.
func compare(before, after string) string {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	common := commonTails(a, b)
	var out strings.Builder
	stayed := false
	line := func(mark, text string) {
		if stayed {
			out.WriteString("  ...\n")
			stayed = false
		}
		out.WriteString(strings.TrimRight(mark+text, " ") + "\n")
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			stayed = true
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || common[i+1][j] >= common[i][j+1]):
			line("- ", a[i])
			i++
		default:
			line("+ ", b[j])
			j++
		}
	}
	return out.String()
}

// commonTails returns the table of a longest common subsequence: entry i, j is its length for a[i:] and
// b[j:].
func commonTails(a, b []string) [][]int {
	table := make([][]int, len(a)+1)
	for i := range table {
		table[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				table[i][j] = table[i+1][j+1] + 1
			} else {
				table[i][j] = max(table[i+1][j], table[i][j+1])
			}
		}
	}
	return table
}
