// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"btc/internal/manifest"
	"btc/loader/diag"
	"btc/loader/rewrite"
)

// rightShift is the kind of relocation of the final shift when an integer is read: BPF_CORE_FIELD_RSHIFT_U64 (enum
// bpf_core_relo_kind).
const rightShift = 5

// byteSize is BPF_CORE_FIELD_BYTE_SIZE, the only relocation besides the offset for 64-bit integers, which are read
// into a cleared word, and for elements of arrays.
const byteSize = 1

// Signs adjusts the shifts of integers that are narrower in the kernel's types than in local, the object's types, to
// the integer's sign in the kernel, because relocation changes only the distance of a shift. For equal widths the
// script's type is used. The types are those of vmlinux, then of modules. The error is a *diag.Error.
func Signs(m *manifest.Manifest, program string, insns asm.Instructions, local *btf.Spec, types ...*btf.Spec) error {
	for i := range m.Fields {
		use := &m.Fields[i]
		if use.Program != program || use.Kind != rightShift && use.Kind != byteSize {
			continue
		}
		was, here := fieldOf([]*btf.Spec{local}, use), fieldOf(types, use)
		switch {
		case !was.ok || !here.ok || here.bits >= was.bits:
			continue
		case use.Kind == byteSize && was.bits == 64 && here.signed: // no sign is extended
		case use.Kind == byteSize && strings.HasSuffix(use.Path, "]") && was.signed != here.signed:
		case use.Kind == byteSize || was.signed == here.signed || use.Compared ||
			was.signed && rewrite.UnsignedShift(insns, use.Insn):
			continue
		}
		return &diag.Error{
			Script: &m.Script,
			Pos:    use.Pos,
			Text: fmt.Sprintf("%s is a %s integer of %d bits on this kernel, and the script was compiled for %s %d bits",
				use, sign(here.signed), here.bits, sign(was.signed), was.bits),
			Hint: "compile the script against this kernel: btc compile --target host",
		}
	}
	return nil
}

func sign(signed bool) string {
	if signed {
		return "signed"
	}
	return "unsigned"
}

// intField is an integer member of a struct.
type intField struct {
	ok     bool
	signed bool
	bits   int
}

// fieldOf finds the member that a use names in the first of the specs that has
// its type.
func fieldOf(specs []*btf.Spec, use *manifest.FieldUse) intField {
	_, name, _ := strings.Cut(use.Type, " ")
	for _, spec := range specs {
		if spec == nil {
			continue
		}
		types, err := spec.AnyTypesByName(name)
		if err != nil {
			continue
		}
		for _, t := range types {
			if f := memberAt(t, use.Path); f.ok {
				return f
			}
		}
	}
	return intField{}
}

// memberAt follows a path such as "__sk_common.skc_rcv_saddr" or "rlim[7].rlim_cur".
func memberAt(t btf.Type, path string) intField {
	var f intField
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
	bits := 0
	for _, part := range parts {
		if _, err := strconv.Atoi(part); err == nil {
			a, ok := btf.UnderlyingType(t).(*btf.Array)
			if !ok {
				return f
			}
			t, bits = a.Type, 0
			continue
		}
		m := memberOf(btf.UnderlyingType(t), part, 8)
		if m == nil {
			return f
		}
		t, bits = m.Type, int(m.BitfieldSize)
	}
	switch u := btf.UnderlyingType(t).(type) {
	case *btf.Int:
		f = intField{true, u.Encoding == btf.Signed, int(u.Size) * 8}
	case *btf.Enum:
		f = intField{true, u.Signed, int(u.Size) * 8}
	}
	if bits != 0 {
		f.bits = bits
	}
	return f
}

// memberOf finds a member, also in the unnamed structs and unions inside.
func memberOf(t btf.Type, name string, depth int) *btf.Member {
	var all []btf.Member
	switch t := t.(type) {
	case *btf.Struct:
		all = t.Members
	case *btf.Union:
		all = t.Members
	}
	if i := slices.IndexFunc(all, func(m btf.Member) bool { return m.Name == name }); i >= 0 {
		return &all[i]
	}
	for i := range all {
		if all[i].Name == "" && depth > 0 {
			if m := memberOf(btf.UnderlyingType(all[i].Type), name, depth-1); m != nil {
				return m
			}
		}
	}
	return nil
}
