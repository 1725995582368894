package target

import (
	"strconv"
	"strings"
)

// Field finds a member of a struct or union by name, also inside anonymous
// members. Typedefs to a struct are seen through.
func (typ *Type) Field(name string) (Field, bool) {
	if name == "" {
		return Field{}, false
	}
	return typ.Resolve().field(name, 0, nil)
}

// field looks for name in typ, which lies base bits into the searched struct.
func (typ *Type) field(name string, base int, path []int) (Field, bool) {
	if typ.Kind != Struct && typ.Kind != Union || len(path) > 16 {
		return Field{}, false
	}
	for i, m := range typ.Members {
		here := append(path[:len(path):len(path)], i)
		if m.Name == name {
			return place(m, base+m.BitOffset, here), true
		}
		if m.Name == "" && m.BitSize == 0 {
			if f, ok := m.Type().field(name, base+m.BitOffset, here); ok {
				return f, true
			}
		}
	}
	return Field{}, false
}

// place computes the storage of a member at bit offset bit.
func place(m Member, bit int, path []int) Field {
	f := Field{Name: m.Name, Type: m.Type(), Offset: bit / 8, Path: path}
	if m.BitSize > 0 {
		unit := max(1, f.Type.Size)
		f.Offset = bit / 8 / unit * unit
		f.BitOffset = bit - 8*f.Offset
		f.BitSize = m.BitSize
	}
	return f
}

// Access is the CO-RE access string of the field, counted from a pointer to
// the searched struct: "0:3:1".
func (f Field) Access() string {
	var b strings.Builder
	b.WriteByte('0')
	for _, i := range f.Path {
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(i))
	}
	return b.String()
}

// FieldNames lists the names that Field finds, in declaration order.
func (typ *Type) FieldNames() []string {
	var names []string
	var walk func(typ *Type, depth int)
	walk = func(typ *Type, depth int) {
		for _, m := range typ.Members {
			if m.Name != "" {
				names = append(names, m.Name)
			} else if depth < 16 {
				walk(m.Type(), depth+1)
			}
		}
	}
	walk(typ.Resolve(), 0)
	return names
}

// SuggestField answers the field that a misspelt name most probably means (also
// the new name of a renamed field, such as __state for state), or "".
func (typ *Type) SuggestField(name string) string { return Nearest(name, typ.FieldNames()) }
