// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"strconv"
	"strings"

	"btc/internal/spell"
)

// Field finds a member of a struct or union by name, also inside anonymous
// members. Typedefs of a struct are resolved.
func (typ *Type) Field(name string) (Field, bool) {
	if name == "" {
		return Field{}, false
	}
	if f, ok := typ.own(name); ok {
		return f, true
	}
	return typ.Resolve().otherMember(name)
}

// members calls see for every named member, including those of anonymous members, until see
// returns false; bit is counted from the start of typ. It returns false when see did.
func (typ *Type) members(see func(m Member, bit int, path []int) bool) bool {
	budget := visitBudget
	var walk func(typ *Type, base int, path []int) bool
	walk = func(typ *Type, base int, path []int) bool {
		for i, m := range typ.Members {
			if budget--; budget < 0 {
				return true
			}
			here := append(path, i)
			if m.Name != "" {
				if !see(m, base+m.BitOffset, here) {
					return false
				}
			} else if m.BitSize == 0 && !walk(m.Type(), base+m.BitOffset, here) {
				return false
			}
		}
		return true
	}
	return walk(typ, 0, nil)
}

// locate makes the Field of a member at bit offset bit. For a bitfield it computes the storage
// unit.
func locate(m Member, bit int, path []int) Field {
	f := Field{Name: m.Name, Type: m.Type(), Offset: bit / 8, Path: path}
	if m.BitSize > 0 {
		unit := max(1, f.Type.Size)
		f.Offset = bit / 8 / unit * unit
		f.BitOffset = bit - 8*f.Offset
		f.BitSize = m.BitSize
	}
	return f
}

// Access returns the CO-RE access string of the field, counted from a pointer to
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
	typ.Resolve().members(func(m Member, _ int, _ []int) bool {
		names = append(names, m.Name)
		return true
	})
	return names
}

// SuggestField returns the field that a misspelt name most probably means (also the new
// name of a renamed field, such as __state for state), or "".
func (typ *Type) SuggestField(name string) string { return spell.Nearest(name, typ.FieldNames()) }
