// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/dwarf"
	"fmt"
)

// entryRef is the location of a debugging information entry: its part and offset.
type entryRef struct {
	part *part
	off  dwarf.Offset
	lang int64 // DW_AT_language of its unit
}

// index finds entries by name.
type index struct {
	funcs    map[string]entryRef // by linkage name and by name; definitions only
	tags     map[string]entryRef // "struct x", "union x", "enum x": definitions only
	typedefs map[string]entryRef
	order    []string // names of functions, in file order
	err      error    // what ended the reading of a part
}

// lookup returns the index, which it builds at first use.
func (b *Binary) lookup() *index {
	if b.index != nil {
		return b.index
	}
	b.index = &index{funcs: map[string]entryRef{}, tags: map[string]entryRef{}, typedefs: map[string]entryRef{}}
	for _, p := range b.parts {
		b.index.add(p)
	}
	return b.index
}

// tagWords are the entries indexed by tag. A class is a struct.
var tagWords = map[dwarf.Tag]string{
	dwarf.TagStructType: "struct ", dwarf.TagClassType: "struct ", dwarf.TagUnionType: "union ", dwarf.TagEnumerationType: "enum ",
}

// add indexes the units of a part: their top level, and namespaces. Types inside functions are indexed too, unless
// another type has the name.
func (x *index) add(p *part) {
	r := p.data.Reader()
	lang := int64(0)
	for {
		e, err := p.next(r)
		if err != nil {
			x.err = err
		}
		if e == nil || err != nil {
			return // the rest cannot be parsed after an error
		}
		at := entryRef{p, e.Offset, lang}
		name, _ := e.Val(dwarf.AttrName).(string)
		declared, _ := e.Val(dwarf.AttrDeclaration).(bool)
		switch e.Tag {
		case dwarf.TagCompileUnit, dwarf.TagSkeletonUnit, dwarf.TagPartialUnit:
			lang, _ = e.Val(dwarf.AttrLanguage).(int64)
			continue
		case dwarf.TagNamespace, dwarf.TagModule, dwarf.TagLexDwarfBlock:
			continue
		case dwarf.TagSubprogram:
			if !declared {
				x.function(p, e, at)
			}
			continue
		case dwarf.TagStructType, dwarf.TagClassType, dwarf.TagUnionType, dwarf.TagEnumerationType:
			if !declared {
				first(x.tags, tagWords[e.Tag]+name, at)
			}
			if e.Tag != dwarf.TagEnumerationType {
				continue // nested types are found without the qualifying name
			}
		case dwarf.TagTypedef:
			first(x.typedefs, name, at)
		}
		p.skip(r, e)
	}
}

func first(m map[string]entryRef, name string, at entryRef) {
	if _, ok := m[name]; !ok && name != "" {
		m[name] = at
	}
}

// function indexes a function under its names. An out-of-line instance has them in its origin.
func (x *index) function(p *part, e *dwarf.Entry, at entryRef) {
	if inlined, _ := e.Val(dwarf.AttrInline).(int64); inlined != 0 && e.Val(dwarf.AttrLowpc) == nil {
		return // an abstract instance: only its concrete instances count
	}
	for depth := 0; e != nil && depth < 4; depth++ {
		for _, attr := range []dwarf.Attr{dwarf.AttrLinkageName, dwarf.AttrName} {
			name, _ := e.Val(attr).(string)
			if _, known := x.funcs[name]; !known && name != "" {
				x.funcs[name] = at
				x.order = append(x.order, name)
			}
		}
		e = p.origin(e)
	}
}

// origin returns the abstract or declared entry that this one completes, or nil if there is none.
func (p *part) origin(e *dwarf.Entry) *dwarf.Entry {
	for _, attr := range []dwarf.Attr{dwarf.AttrAbstractOrigin, dwarf.AttrSpecification} {
		if off, ok := e.Val(attr).(dwarf.Offset); ok {
			o, err := p.entry(off)
			if err == nil {
				return o
			}
		}
	}
	return nil
}

func (p *part) entry(off dwarf.Offset) (*dwarf.Entry, error) {
	r := p.data.Reader()
	r.Seek(off)
	e, err := p.next(r)
	if err == nil && e == nil {
		err = fmt.Errorf("no entry at %#x", off)
	}
	return e, err
}

// val returns an attribute of an entry or of one that it completes.
func (p *part) val(e *dwarf.Entry, attr dwarf.Attr) any {
	for depth := 0; e != nil && depth < 4; depth++ {
		if v := e.Val(attr); v != nil {
			return v
		}
		e = p.origin(e)
	}
	return nil
}

// children returns the direct children of an entry.
func (p *part) children(off dwarf.Offset) ([]*dwarf.Entry, error) {
	r := p.data.Reader()
	r.Seek(off)
	e, err := p.next(r)
	if err != nil || e == nil || !e.Children {
		return nil, err
	}
	var all []*dwarf.Entry
	for {
		c, err := p.next(r)
		if err != nil {
			return all, err
		}
		if c == nil || c.Tag == 0 {
			return all, nil
		}
		all = append(all, c)
		p.skip(r, c)
	}
}
