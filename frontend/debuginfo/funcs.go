// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/dwarf"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"btc/frontend/types"
	"btc/internal/arch"
)

// Func is a function with its parameters.
type Func struct {
	Name   string
	Params []Param
	Result *types.Type // None if the function returns nothing
}

// Param is a parameter. Arg is its number among the arguments in registers, as in argN; -1 if it is not in one
// integer register at entry.
type Param struct {
	Name string
	Type *types.Type
	Arg  int
	C    string // the type in C: "const char*"
}

// DW_AT_language of Go, whose functions take their arguments in other registers than C's.
const langGo = 0x16

// Func finds a function by the name in the symbol table, a linkage name in C++
// and Rust.
func (b *Binary) Func(name string) (fn *Func, err error) {
	defer func() {
		if p := recover(); p != nil {
			fn, err = nil, fmt.Errorf("%s: the debug information is damaged: %v", b.Path, p)
		}
	}()
	at, ok := b.lookup().funcs[name]
	if !ok && b.index.err != nil {
		return nil, fmt.Errorf("no function %[2]s in the debug information of %[1]s, which is damaged: %[3]w", b.Path, name, b.index.err)
	}
	if !ok {
		return nil, fmt.Errorf("no function %[2]s in the debug information of %[1]s", b.Path, name)
	}
	if at.lang == langGo {
		return nil, fmt.Errorf("%s is written in Go, which passes arguments in other registers", name)
	}
	e, err := at.part.entry(at.off)
	if err != nil {
		return nil, err
	}
	fn = &Func{Name: name, Result: b.typeOf(at.part, e, 0)}
	kids, err := b.params(at.part, e)
	if err != nil {
		return nil, err
	}
	for _, k := range kids {
		pname, _ := at.part.val(k, dwarf.AttrName).(string)
		fn.Params = append(fn.Params, Param{Name: pname, Type: b.typeOf(at.part, k, 0), C: at.part.spell(k, 0)})
	}
	if b.left <= 0 {
		return nil, fmt.Errorf("%s: the debug information is damaged: %w", b.Path, errRepeats)
	}
	b.assign(fn)
	return fn, nil
}

// params returns the entries of the parameters; an instance without any has those of its origin.
func (b *Binary) params(p *part, e *dwarf.Entry) ([]*dwarf.Entry, error) {
	for depth := 0; e != nil && depth < 4; depth++ {
		kids, err := p.children(e.Offset)
		if err != nil {
			return nil, err
		}
		kids = slices.DeleteFunc(kids, func(k *dwarf.Entry) bool { return k.Tag != dwarf.TagFormalParameter })
		if len(kids) > 0 {
			return kids, nil
		}
		e = p.origin(e)
	}
	return nil, nil
}

// assign determines the register of each parameter. A composite of at most 16 bytes takes one register for each 8
// bytes that hold an integer; for larger ones and for results see arch.Arch.
func (b *Binary) assign(fn *Func) {
	a := arch.ByMachine(b.Machine)
	if a == nil {
		a = &arch.Arch{} // the argument registers are not known
	}
	next, all := 0, len(a.Args)
	if a.ResultArg && fn.Result.Kind == types.Struct && fn.Result.Size > 16 {
		next = 1
	}
	for i := range fn.Params {
		p := &fn.Params[i]
		p.Arg = -1
		n := 1
		switch t := p.Type; {
		case t.Kind == types.Float:
			continue
		case t.Kind == types.Struct || t.Kind == types.Array: // includes __int128
			n = integerWords(a, t)
			if n > 0 && next+n <= all {
				next += n
			}
			continue
		}
		if next+n <= all {
			p.Arg = next
			next += n
		}
	}
}

// integerWords returns the number of integer registers that a composite value occupies.
func integerWords(a *arch.Arch, t *types.Type) int {
	if t.Size > 16 || t.Size == 0 {
		if a.BigArg && t.Size > 16 {
			return 1
		}
		return 0
	}
	var integer [2]bool
	classify(t, 0, &integer, 0)
	n := 0
	for _, is := range integer {
		if is {
			n++
		}
	}
	if a.WholeArg && n > 0 {
		n = (t.Size + 7) / 8
	}
	return n
}

// classify marks the 8-byte words that are not purely floating point.
func classify(t *types.Type, off int, integer *[2]bool, depth int) {
	switch {
	case depth > 16:
	case t.Kind == types.Struct:
		for _, m := range t.Comp.Members() {
			classify(m.Type, off+m.Off, integer, depth+1)
		}
	case t.Kind == types.Array:
		for i := range min(t.Len, 16) {
			classify(t.Elem, off+i*t.Elem.Size, integer, depth+1)
		}
	case t.Kind != types.Float && off < 16 && off >= 0:
		integer[off/8] = true
	}
}

// Functions returns the names of the functions for which fits is true, in file order.
func (b *Binary) Functions(fits func(string) bool) []string {
	var out []string
	for _, name := range b.lookup().order {
		if fits(name) && b.defined(name) {
			out = append(out, name)
		}
	}
	return out
}

func (b *Binary) defined(name string) bool {
	return b.known[name]
}

// Line finds the addresses of a source line: the lowest in each function that has code for it (with inlining and
// templates there are several). file is a path or its last elements; col 0 means any. If the line has no code, the
// error names the next line that has.
func (b *Binary) Line(file string, line, col int) (addrs []uint64, err error) {
	defer func() {
		if p := recover(); p != nil {
			addrs, err = nil, fmt.Errorf("%s: the line table is damaged: %v", b.Path, p)
		}
	}()
	lowest := map[string]uint64{}
	next, known := 0, false
	budget := minBudget
	main := &part{left: &budget}
	budget += readFactor * len(b.raw.info)
	seen, left := map[int64]bool{}, 2*len(b.raw.line) // several units may have one table, but tables do not overlap
	units := b.main.Reader()
	for _, u := range b.raw.units {
		if u.first >= u.end {
			continue
		}
		units.Seek(u.first)
		cu, err := main.next(units)
		if err != nil || cu == nil {
			break
		}
		at, ok := cu.Val(dwarf.AttrStmtList).(int64)
		dir, _ := cu.Val(dwarf.AttrCompDir).(string)
		if !ok || at < 0 || at > int64(len(b.raw.line)) || seen[at] || len(dir) > maxPath {
			continue
		}
		seen[at] = true
		size, err := checkLines(b.raw.line[at:], b.raw.order)
		if left -= size; err == nil && left < 0 {
			err = errRepeats
		}
		if err != nil {
			return nil, fmt.Errorf("%s: the line table is damaged: %w", b.Path, err)
		}
		lines, err := b.main.LineReader(cu)
		if err != nil || lines == nil {
			continue
		}
		var e dwarf.LineEntry
		fits := map[*dwarf.LineFile]bool{}
		for lines.Next(&e) == nil {
			if e.File == nil || e.EndSequence {
				continue
			}
			is, tested := fits[e.File]
			if !tested {
				is = endsInPath(e.File.Name, file)
				fits[e.File] = is
			}
			if !is {
				continue
			}
			known = true
			if e.Line > line && (next == 0 || e.Line < next) {
				next = e.Line
			}
			if e.Line != line || !e.IsStmt || col != 0 && e.Column != col || e.Address == 0 {
				continue
			}
			fn := b.at(e.Address)
			if have, ok := lowest[fn]; !ok || e.Address < have {
				lowest[fn] = e.Address
			}
		}
	}
	for _, addr := range lowest {
		addrs = append(addrs, addr)
	}
	slices.Sort(addrs)
	switch {
	case len(addrs) > 0:
		return addrs, nil
	case !known:
		return nil, fmt.Errorf("%s has no code from a source file %s", b.Path, file)
	case next > 0:
		return nil, fmt.Errorf("%s has no code for line %d of %s; the next line with code is %d", b.Path, line, file,
			next)
	}
	return nil, fmt.Errorf("%s has no code for line %d of %s", b.Path, line, file)
}

// endsInPath reports whether path ends in whole elements of end: "a/b.c" is the end of "/x/a/b.c", not of "/x/aa/b.c".
func endsInPath(path, end string) bool {
	path, end = filepath.Clean(path), filepath.Clean(end)
	return path == end || strings.HasSuffix(path, "/"+end)
}
