package expand

import (
	"embed"
	"slices"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/parse"
)

//go:embed stdlib/*.bt
var stdlib embed.FS

const stdlibFolder = "stdlib"

// library is the standard macros. A file is parsed when a script first uses a
// name in it.
type library struct {
	l      *diag.List
	files  map[string]string // name of a macro: path of its file
	parsed map[string]bool   // files
	all    map[string][]*macro
}

func newLibrary(l *diag.List) *library {
	lib := &library{l: l, files: map[string]string{}, parsed: map[string]bool{}, all: map[string][]*macro{}}
	for path, text := range stdlibTexts() {
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(line, "macro "); ok {
				name, _, _ := strings.Cut(rest, "(")
				lib.files[name] = path
			}
		}
	}
	return lib
}

// stdlibTexts are the files of the library by path.
func stdlibTexts() map[string]string {
	entries, err := stdlib.ReadDir(stdlibFolder)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	texts := map[string]string{}
	for _, e := range entries {
		path := stdlibFolder + "/" + e.Name()
		b, err := stdlib.ReadFile(path)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		texts[path] = string(b)
	}
	return texts
}

// macros are the definitions of a name.
func (lib *library) macros(name string) []*macro {
	path, ok := lib.files[name]
	if !ok {
		return nil
	}
	if !lib.parsed[path] {
		lib.parsed[path] = true
		lib.parse(path)
	}
	return lib.all[name]
}

func (lib *library) parse(path string) {
	script := parse.Script(diag.NewSource(path, stdlibTexts()[path]), lib.l)
	if script == nil {
		panic("BUG: " + path + " does not parse: " + lib.l.Err().Error())
	}
	for _, item := range script.Items {
		def := item.(*ast.Macro)
		lib.all[def.Name.Text] = append(lib.all[def.Name.Text], newMacro(def, true))
	}
}

// StandardMacro describes a macro of the library.
type StandardMacro struct {
	// Signature is the macro's name and parameters.
	Signature string
	// Doc is the comment above its definition, on one line.
	Doc string
}

// Standard lists the standard macros in order of their signatures.
func Standard() []StandardMacro {
	var all []StandardMacro
	for _, text := range stdlibTexts() {
		var doc []string
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if comment, ok := strings.CutPrefix(line, "// "); ok {
				doc = append(doc, comment)
				continue
			}
			if signature, ok := strings.CutPrefix(line, "macro "); ok {
				all = append(all, StandardMacro{signature, strings.Join(doc, " ")})
			}
			doc = nil
		}
	}
	slices.SortFunc(all, func(a, b StandardMacro) int { return strings.Compare(a.Signature, b.Signature) })
	return all
}
