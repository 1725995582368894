// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"

	"btc/cmd/btc/gengo"
	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/diag"
	"btc/frontend/expand"
	"btc/frontend/parse"
	"btc/internal/manifest"
	"btc/internal/option"
)

// genCommand writes source code for programs that run objects with package btrace.
func genCommand() *command {
	return &command{
		name:     "gen",
		operands: "LANGUAGE ...",
		summary:  "write source code for a program that runs a script",
		sub:      []*command{genGoCommand()},
	}
}

// genGo are the options of btc gen go.
type genGo struct {
	scriptFlags
	pkg, name, library string
}

func genGoCommand() *command {
	g := genGo{library: "btc/btrace"}
	return &command{
		name: "go", operands: "FILE.bt [-- PARAMETERS]", summary: "write a Go file with the compiled script and its types", files: []string{"bt"},
		about: "Writes FILE_btc.go and FILE_btc.o into the current directory: a function that loads the " +
			"script, a struct of its parameters, and its maps and events with their types. " +
			"Signatures that btc sign writes next to the object are part of the program that is built then.",
		examples: []example{
			{"btc gen go --package main reads.bt", "write reads_btc.go and reads_btc.o"},
			{"//go:generate btc gen go reads.bt", "the same, in Go source"},
		},
		options: append(option.Table{
			{Name: "package", Value: "NAME", To: &g.pkg, Help: "package of the source; default: $GOPACKAGE, which go generate sets"},
			{Name: "name", Value: "NAME", To: &g.name, Help: "prefix of the names of functions and types; default: the script's name"},
			{Name: "library", Value: "PATH", To: &g.library, Help: "import path of the library; default: package btrace of this btc"},
		}, g.table()...),
		run: g.run,
	}
}

func (g *genGo) run(line *option.Line) int {
	g.words = line.After
	name, text, err := g.script(line.Operands)
	if err != nil {
		return fail("%v", err)
	}
	if extra := g.extra(line.Operands); extra != "" {
		return fail("unexpected argument %q: one script at a time; parameters follow --", extra)
	}
	stem := strings.TrimSuffix(filepath.Base(name), ".bt")
	if g.name == "" {
		if name == diag.Stdin {
			return fail("give a prefix for the names: --name NAME")
		}
		g.name = stem
	} else if name == diag.Stdin {
		stem = g.name
	}
	if g.pkg == "" {
		if g.pkg = os.Getenv("GOPACKAGE"); g.pkg == "" {
			return fail("give the package name: --package NAME, or run btc with go generate")
		}
	}
	prefix := gengo.Name(g.name)
	if prefix == "" {
		return fail("--name: %q has no letter", g.name)
	}
	out, status := g.compile(name, text)
	if out == nil {
		return status
	}
	m, err := manifest.Parse(out.Manifest)
	if err != nil {
		return fail("%v", err)
	}
	object := stem + "_btc.o"
	source, err := gengo.Source(m, gengo.Options{
		Package: g.pkg, Library: g.library, Name: prefix, Object: object, Script: filepath.Base(name), Names: argumentNames(name, text),
	})
	if err != nil {
		return fail("--package: %v", err)
	}
	return g.writeObject(newFile{object, out.Object}, newFile{stem + "_btc.go", source})
}

// argumentNames returns a function that names the arguments of the printf() or print() at a position of a script as check names the
// parts of keys. Calls in macros and imported files have no names.
func argumentNames(name, text string) func(manifest.Pos) []string {
	script := parse.Script(diag.NewSource(name, text), &diag.List{}, expand.Values(check.IsValue))
	names := map[[2]int][]string{}
	ast.Inspect(script, func(n ast.Node) bool {
		call, ok := n.(*ast.Call)
		if !ok || call.Func.Text != "printf" && call.Func.Text != "print" {
			return true
		}
		args := call.Args
		if call.Func.Text == "printf" {
			args = args[min(1, len(args)):]
		}
		var all []string
		for _, a := range args {
			all = append(all, check.NameOf(a))
		}
		at := call.Span().Pos()
		names[[2]int{at.Line, at.Col}] = all
		return true
	})
	return func(p manifest.Pos) []string { return names[[2]int{p.Line, p.Col}] }
}
