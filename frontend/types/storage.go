// SPDX-License-Identifier: Apache-2.0

package types

// Storage is the representation of a value in program memory: a map's key or value, an element of a tuple, a field of
// an event (docs/layouts.md). Integers take 8 bytes there, regardless of their size in the language; arrays and structs
// keep their C layout.
type Storage struct {
	Size, Align int
	// Offsets are the offsets of a tuple's or record's fields.
	Offsets []int
}

// Store returns the storage form of t.
func (t *Type) Store() Storage {
	switch t.Kind {
	case Invalid, None, Func:
		return Storage{Size: 0, Align: 1}
	case String:
		return Storage{Size: t.Size, Align: 1}
	case Buffer: // u32 length, then the bytes
		return Storage{Size: 4 + t.Size, Align: 4}
	case Array:
		return Storage{Size: t.Size, Align: t.Elem.Align()}
	case Struct:
		return Storage{Size: t.Size, Align: t.Comp.Alignment()}
	case Tuple, Record:
		if t.store.Align == 0 { // not made by aggregate: no fields
			return storeFields(t.Fields)
		}
		return t.store
	case Ustack, Usym: // 8 bytes, u32 tgid, padding
		return Storage{Size: 16, Align: 8}
	case Inet: // u32 family, 16 bytes of address, padding
		return Storage{Size: 24, Align: 8}
	}
	return Storage{Size: 8, Align: 8}
}

func storeFields(fields []Field) Storage {
	s := Storage{Align: 8, Offsets: make([]int, len(fields))}
	for i, f := range fields {
		fs := f.Type.Store()
		s.Offsets[i] = roundUp(s.Size, fs.Align)
		s.Size = s.Offsets[i] + fs.Size
	}
	s.Size = max(8, roundUp(s.Size, 8))
	return s
}
