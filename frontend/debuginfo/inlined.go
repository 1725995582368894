// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"slices"
	"strings"

	"btc/internal/elffile"
)

// Calls are the call sites of a function, as far as the debug information has them.
type Calls struct {
	// Sites counts all, Inlined those at which the compiler has put the code of the function itself.
	Sites, Inlined int
	In             []string // the functions with such code, sorted; at most maxCallers
}

// maxCallers is the number of callers that are named.
const maxCallers = 3

// maxInlineInfo is the size of the debug information that is searched for calls, in bytes of .debug_info: a second of work.
const maxInlineInfo = 16 << 20

// tagGNUCallSite is a call site before DWARF 5.
const tagGNUCallSite = dwarf.Tag(0x4109)

// Calls returns the call sites of a function of the file that an attach point names, and the build id of the file; ok is false
// if that is not known, or the debug information is large.
func (f *Finder) Calls(name, function string) (calls Calls, id string, ok bool) {
	if f.first != nil {
		f.wait()
		return f.first.Calls(name, function)
	}
	if !f.small(name) {
		return Calls{}, "", false
	}
	b, err := f.Open(name)
	if err != nil || !strings.HasPrefix(b.ID, "build-id:") {
		return Calls{}, "", false
	}
	calls, ok = b.calls(function)
	return calls, b.ID, ok
}

// small reports whether the file that an attach point names has debug information of at most maxInlineInfo bytes.
func (f *Finder) small(name string) bool {
	path, ok := f.Files[name]
	if !ok {
		if path, ok = elffile.Find(name); !ok {
			return false
		}
	}
	file, err := openELF(path)
	if err != nil {
		return false
	}
	defer file.Close()
	debug := file
	if !hasDebug(file.File) {
		if debug, err = f.separate(path, file); err != nil {
			return false
		}
		defer debug.Close()
	}
	return slices.ContainsFunc(debug.Sections, func(s *elf.Section) bool {
		return (s.Name == ".debug_info" || s.Name == ".zdebug_info") && s.Size <= maxInlineInfo && s.FileSize <= maxInlineInfo
	})
}

// calls finds the call sites of a function in all functions that have code.
func (b *Binary) calls(function string) (calls Calls, ok bool) {
	defer func() {
		if recover() != nil { // debug/dwarf may panic on damaged input
			calls, ok = Calls{}, false
		}
	}()
	if _, ok := b.lookup().funcs[function]; !ok {
		return Calls{}, false
	}
	for _, p := range b.parts {
		if !p.calls(function, &calls) {
			return Calls{}, false
		}
	}
	slices.Sort(calls.In)
	calls.In = calls.In[:min(len(calls.In), maxCallers)]
	return calls, true
}

func (p *part) calls(function string, calls *Calls) bool {
	is := map[dwarf.Offset]bool{} // entries of functions: whether they are that function
	named := func(e *dwarf.Entry, attr dwarf.Attr) bool {
		off, ok := e.Val(attr).(dwarf.Offset)
		if !ok {
			return false
		}
		same, known := is[off]
		if !known {
			if of, err := p.entry(off); err == nil {
				same = p.val(of, dwarf.AttrLinkageName) == function || p.val(of, dwarf.AttrName) == function
			}
			is[off] = same
		}
		return same
	}
	type scope struct {
		caller string // "": none, or one without code
		in     dwarf.Offset
	}
	var open []scope
	seen := map[string]bool{} // a call may have several copies: of an unrolled loop
	r := p.data.Reader()
	for {
		e, err := p.next(r)
		if err != nil {
			return false
		}
		if e == nil {
			return true
		}
		if e.Tag == 0 {
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
			continue
		}
		at := scope{}
		if len(open) > 0 {
			at = open[len(open)-1]
		}
		switch e.Tag {
		case dwarf.TagCompileUnit, dwarf.TagPartialUnit, dwarf.TagSkeletonUnit, dwarf.TagTypeUnit:
			open, at = nil, scope{}
		case dwarf.TagSubprogram:
			at = scope{in: e.Offset}
			if e.Val(dwarf.AttrLowpc) != nil || e.Val(dwarf.AttrRanges) != nil {
				if at.caller, _ = p.val(e, dwarf.AttrName).(string); at.caller == "" {
					at.caller = "?"
				}
			}
		case dwarf.TagInlinedSubroutine:
			if at.caller != "" && named(e, dwarf.AttrAbstractOrigin) {
				key := fmt.Sprint(at.in, e.Val(dwarf.AttrCallFile), e.Val(dwarf.AttrCallLine), e.Val(dwarf.AttrCallColumn))
				if !seen[key] {
					seen[key] = true
					calls.Sites++
					calls.Inlined++
					if !slices.Contains(calls.In, at.caller) {
						calls.In = append(calls.In, at.caller)
					}
				}
			}
			at.in = e.Offset
		case dwarf.TagCallSite:
			if at.caller != "" && named(e, dwarf.AttrCallOrigin) {
				calls.Sites++
			}
		case tagGNUCallSite:
			if at.caller != "" && named(e, dwarf.AttrAbstractOrigin) {
				calls.Sites++
			}
		}
		if e.Children {
			open = append(open, at)
		}
	}
}
