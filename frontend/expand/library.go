// SPDX-License-Identifier: Apache-2.0

package expand

import (
	"embed"
	"slices"
	"strings"
	"sync"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/parse"
)

//go:embed stdlib/*.bt
var stdlib embed.FS

const stdlibDir = "stdlib"

// library holds the standard macros. A macro is parsed once per process, when a script first calls it, and never
// modified.
type library struct {
	mu   sync.Mutex
	defs map[string][]*standard
}

// standard is a macro of the library, parsed or not yet.
type standard struct {
	path, text string // the file, with spaces in place of everything before and after the macro
	params     int
	m          *macro
}

// standards is the library.
var standards = sync.OnceValue(newLibrary)

const macroWord = "macro "

// newLibrary finds where each macro begins: from a line that begins with the keyword to the
// next such line.
func newLibrary() *library {
	lib := &library{defs: map[string][]*standard{}}
	for path, text := range librarySources() {
		for start := nextMacro(text, 0); start < len(text); {
			end := nextMacro(text, start+len(macroWord))
			name, params, _ := strings.Cut(text[start+len(macroWord):end], "(")
			params, _, _ = strings.Cut(params, ")")
			def := &standard{
				path:   path,
				text:   text,
				params: len(strings.FieldsFunc(params, func(r rune) bool { return r == ',' })),
			}
			def.text = strings.Repeat("\n", strings.Count(text[:start], "\n")) + text[start:end]
			lib.defs[name] = append(lib.defs[name], def)
			start = end
		}
	}
	return lib
}

// nextMacro returns the offset of the first macro at or after from; the end of the file if there is none.
func nextMacro(text string, from int) int {
	if from == 0 && strings.HasPrefix(text, macroWord) {
		return 0
	}
	if i := strings.Index(text[from:], "\n"+macroWord); i >= 0 {
		return from + i + 1
	}
	return len(text)
}

// librarySources returns the files of the library by path.
func librarySources() map[string]string {
	entries, err := stdlib.ReadDir(stdlibDir)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	texts := map[string]string{}
	for _, e := range entries {
		path := stdlibDir + "/" + e.Name()
		b, err := stdlib.ReadFile(path)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		texts[path] = string(b)
	}
	return texts
}

// takes reports whether a macro of the library has the name and number of parameters.
func (lib *library) takes(name string, args int) bool {
	return slices.ContainsFunc(lib.defs[name], func(s *standard) bool { return s.params == args })
}

// Values returns a function that reports names that are values, not types: builtins that are written without
// parentheses, by the given function, and macros of the library without parameters.
func Values(isBuiltin func(name string) bool) func(name string) bool {
	return func(name string) bool { return isBuiltin(name) || standards().takes(name, 0) }
}

// macros returns the definitions of a name.
func (lib *library) macros(name string, isValue func(name string) bool) []*macro {
	defs := lib.defs[name]
	if len(defs) == 0 {
		return nil
	}
	lib.mu.Lock()
	defer lib.mu.Unlock()
	var all []*macro
	for _, s := range defs {
		if s.m == nil {
			s.m = s.parse(isValue)
		}
		all = append(all, s.m)
	}
	return all
}

func (s *standard) parse(isValue func(name string) bool) *macro {
	l := new(diag.List)
	src := diag.NewSource(s.path, s.text)
	src.Library = true
	script := parse.Script(src, l, isValue)
	if script == nil || len(script.Items) != 1 {
		panic("BUG: a macro of " + s.path + " does not parse: " + l.Err().Error())
	}
	return newMacro(script.Items[0].(*ast.Macro), true)
}

// StandardMacro describes a macro of the library.
type StandardMacro struct {
	// Signature is the macro's name and parameters.
	Signature string
	// Doc is the comment above its definition, on one line.
	Doc string
}

// Standard lists the standard macros in order of their signatures, without those that are for tests only, which begin
// with two underscores.
func Standard() []StandardMacro {
	var all []StandardMacro
	for _, text := range librarySources() {
		var doc []string
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if comment, ok := strings.CutPrefix(line, "// "); ok {
				doc = append(doc, comment)
				continue
			}
			if signature, ok := strings.CutPrefix(line, "macro "); ok && !strings.HasPrefix(signature, "__") {
				all = append(all, StandardMacro{signature, strings.Join(doc, " ")})
			}
			doc = nil
		}
	}
	slices.SortFunc(all, func(a, b StandardMacro) int { return strings.Compare(a.Signature, b.Signature) })
	return all
}
