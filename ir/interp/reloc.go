// SPDX-License-Identifier: Apache-2.0

package interp

import (
	"slices"
	"strconv"
	"strings"

	"btc/ir"
	"btc/targets/kernel"
)

// fieldAt is the location of a member found by a CO-RE path.
type fieldAt struct {
	off             int // bytes, of the storage unit for a bitfield
	typ             *kernel.Type
	bitOff, bitSize int
}

func (p fieldAt) size() int { return p.typ.Resolve().Size }

func (p fieldAt) signed() bool {
	t := p.typ.Resolve()
	return (t.Kind == kernel.Int || t.Kind == kernel.Enum) && t.Signed
}

// read extracts the member's value from its storage unit.
func (p fieldAt) read(unit []byte) int64 {
	n := int64(getUint(unit))
	bits := 8 * len(unit)
	if p.bitSize > 0 {
		n >>= p.bitOff
		bits = p.bitSize
	}
	if bits >= 64 || bits == 0 {
		return n
	}
	n <<= 64 - bits
	if p.signed() {
		return n >> (64 - bits)
	}
	return int64(uint64(n) >> (64 - bits))
}

// find follows a member path in the target's types.
func (fr *frame) find(ref ir.CORERef) (fieldAt, bool) {
	if fr.Module.Target == nil {
		fr.trap("a relocation needs a target")
	}
	t, ok := fr.Module.Target.ParseType(ref.Type)
	if !ok {
		return fieldAt{}, false
	}
	at := fieldAt{typ: t}
	for _, step := range strings.Split(ref.Path, ".") {
		name, indexes, _ := strings.Cut(step, "[")
		f, ok := at.typ.Resolve().Field(name)
		if !ok {
			return fieldAt{}, false
		}
		at = fieldAt{at.off + f.Offset, f.Type, f.BitOffset, f.BitSize}
		for _, s := range strings.FieldsFunc(indexes, func(r rune) bool { return r == '[' || r == ']' }) {
			i, err := strconv.Atoi(s)
			if err != nil || at.typ.Resolve().Kind != kernel.Array {
				return fieldAt{}, false
			}
			at.typ = at.typ.Resolve().Elem()
			at.off += i * at.size()
		}
	}
	return at, true
}

// has reports whether the target's kernel has the member path; find also knows members that
// only other kernels have.
func (fr *frame) has(ref ir.CORERef) bool {
	t, ok := fr.Module.Target.ParseType(ref.Type)
	for _, step := range strings.Split(ref.Path, ".") {
		name, _, _ := strings.Cut(step, "[")
		if !ok || !t.Resolve().Has(name) {
			return false
		}
		f, _ := t.Resolve().Field(name)
		for t = f.Type; t.Resolve().Kind == kernel.Array; {
			t = t.Resolve().Elem()
		}
	}
	return true
}

// relocate computes a relocation against the target as a loader would.
func (fr *frame) relocate(kind ir.COREKind, ref ir.CORERef) int64 {
	if label, isTest := ir.ArchTest(ref); isTest {
		return truth(fr.arch.Label == label)
	}
	if name, ok := ir.HelperTest(ref); ok {
		return truth(!slices.Contains(fr.in.Lacks, name))
	}
	switch kind {
	case ir.TypeExists, ir.TypeSize:
		if fr.Module.Target == nil {
			fr.trap("a relocation needs a target")
		}
		t, ok := fr.Module.Target.ParseType(ref.Type)
		if kind == ir.TypeExists || !ok {
			return truth(ok)
		}
		return int64(t.Resolve().Size)
	case ir.EnumvalExists, ir.EnumvalValue:
		return fr.enumerator(kind, ref)
	}
	at, ok := fr.find(ref)
	if kind == ir.FieldExists {
		return truth(ok && fr.has(ref))
	}
	if !ok {
		fr.trap("relocation of %s, which the target does not have", ref)
	}
	switch kind {
	case ir.FieldByteOffset:
		return int64(at.off)
	case ir.FieldByteSize:
		return int64(at.size())
	case ir.FieldSigned:
		return truth(at.signed())
	case ir.FieldLShift:
		if at.bitSize > 0 {
			return int64(64 - at.bitOff - at.bitSize)
		}
		return int64(64 - 8*at.size())
	case ir.FieldRShift:
		if at.bitSize > 0 {
			return int64(64 - at.bitSize)
		}
		return int64(64 - 8*at.size())
	}
	fr.trap("relocation kind %d", kind)
	return 0
}

func (fr *frame) enumerator(kind ir.COREKind, ref ir.CORERef) int64 {
	if fr.Module.Target == nil {
		fr.trap("a relocation needs a target")
	}
	t, ok := fr.Module.Target.ParseType(ref.Type)
	if ok {
		for _, e := range t.Resolve().Enumerators {
			if e.Name == ref.Path {
				if kind == ir.EnumvalExists {
					return 1
				}
				return e.Value
			}
		}
	}
	if kind == ir.EnumvalValue {
		fr.trap("relocation of %s, which the target does not have", ref)
	}
	return 0
}
