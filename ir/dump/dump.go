// Package dump renders modules for people: the control flow of functions as text, and one
// HTML page with the stages of a compilation side by side.
//
// It takes modules (Recorder.Add has the signature of passes.Options.Dump) and returns
// text. The page is one self-contained file.
package dump

import (
	"fmt"
	"html/template"
	"io"
	"regexp"
	"strings"

	_ "embed"

	"btc/ir"
)

// CFG writes the control flow of f, one line per block in reverse postorder:
//
//	b0            -> b1 b4
//	b1   loop 1   -> b1 b4     if v9     idom b0
//
// Unreachable blocks come last.
func CFG(w io.Writer, f *ir.Func) {
	d := ir.Dominators(f)
	loops := ir.Loops(f, d)
	fmt.Fprintf(w, "@%s: %d blocks, %d loops", f.Name, len(f.Blocks), len(loops.Loops))
	if loops.Irreducible {
		fmt.Fprint(w, ", irreducible")
	}
	fmt.Fprintln(w)
	for _, b := range d.Order {
		fmt.Fprintln(w, strings.TrimRight(blockLine(b, d, loops), " "))
	}
	for _, b := range f.Blocks {
		if !d.Reachable(b) {
			fmt.Fprintf(w, "  b%-4d unreachable\n", b.ID)
		}
	}
}

func blockLine(b *ir.Block, d *ir.DomTree, loops *ir.LoopNest) string {
	var notes, to []string
	if l := loops.Of(b); l != nil {
		notes = append(notes, fmt.Sprintf("loop %d", l.Depth))
		if l.Header == b {
			notes[0] += " head"
		}
	}
	if b.Cold {
		notes = append(notes, "cold")
	}
	for _, e := range b.Term.Succs {
		to = append(to, e.String())
	}
	end := "ret"
	switch b.Term.Kind {
	case ir.Jump:
		end = "-> " + to[0]
	case ir.Br:
		end = "-> " + strings.Join(to, " else ") + " if " + b.Term.Arg.String()
	}
	dom := ""
	if p := d.Idom(b); p != nil {
		dom = fmt.Sprintf("idom b%d", p.ID)
	}
	return fmt.Sprintf("  b%-4d %3d values  %-14s %-36s %s", b.ID, len(b.Values), strings.Join(notes, " "), end, dom)
}

// Recorder keeps the printed module of each stage.
type Recorder struct {
	Title  string
	stages []stage
}

type stage struct {
	Names []string // stages with equal output share a column
	Text  string
	CFG   string
}

// Add records the module after a pass.
func (r *Recorder) Add(pass string, m *ir.Module) {
	var cfg strings.Builder
	for _, f := range m.Funcs {
		CFG(&cfg, f)
	}
	r.AddText(pass, m.String(), cfg.String())
}

// AddText records a stage that is not a module: the script, allocated code. cfg
// may be empty.
func (r *Recorder) AddText(name, text, cfg string) {
	if n := len(r.stages); n > 0 && r.stages[n-1].Text == text {
		r.stages[n-1].Names = append(r.stages[n-1].Names, name)
		return
	}
	r.stages = append(r.stages, stage{[]string{name}, text, cfg})
}

//go:embed page.html
var pageText string

// HTML writes the page, one column per stage. Stages that changed nothing are named over
// the column before. A click on a value, block or slot highlights it in every column; a
// click on a position highlights the code generated from that position in the script.
func (r *Recorder) HTML(w io.Writer) error {
	page, err := template.New("page").Parse(pageText)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	type column struct {
		Title, Folded string
		Code          template.HTML
		CFG           string
	}
	var columns []column
	for _, s := range r.stages {
		columns = append(columns, column{s.Names[0], strings.Join(s.Names[1:], ", "), mark(s.Text), s.CFG})
	}
	return page.Execute(w, struct {
		Title   string
		Columns []column
	}{r.Title, columns})
}

// names finds what can be highlighted: values, blocks, slots, positions.
var names = regexp.MustCompile(`\b[vbs][0-9]+\b|![0-9]+:[0-9]+(#[0-9]+)?`)

// mark wraps each name in a span with a class for it.
func mark(text string) template.HTML {
	var sb strings.Builder
	last := 0
	for _, m := range names.FindAllStringIndex(text, -1) {
		sb.WriteString(template.HTMLEscapeString(text[last:m[0]]))
		name := text[m[0]:m[1]]
		fmt.Fprintf(&sb, `<i data-n="%s">%s</i>`, name, name)
		last = m[1]
	}
	sb.WriteString(template.HTMLEscapeString(text[last:]))
	return template.HTML(sb.String())
}
