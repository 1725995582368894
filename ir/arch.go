// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"fmt"
	"strconv"
	"strings"

	"btc/internal/arch"
)

// One object supports several architectures: what differs between them is decided on the
// host by a relocation that each loader resolves, the existence of a member of struct
// pt_regs (arch.Arch.Marker), and the kernel drops the dead side.

// archFlavor is the prefix of the type names in architecture tests; the architecture's name
// follows. Loaders ignore "___" and what follows it in a type name (a libbpf flavor); btrun
// recognizes the test by it.
const archFlavor = "struct pt_regs___"

// OnArch returns a relocated constant, true on the architecture.
func (b *Builder) OnArch(a *arch.Arch) *Value {
	return b.ICmp(NE, b.CORE(FieldExists, CORERef{Type: archFlavor + a.Name, Path: a.Marker}), Const(0))
}

// ArchTest returns the label of the architecture that a relocation asks for.
func ArchTest(ref CORERef) (label string, ok bool) {
	name, ok := strings.CutPrefix(ref.Type, archFlavor)
	if a := arch.ByName(name); ok && a != nil {
		return a.Label, true
	}
	return "", false
}

// FewTrips is the trip count up to which a loop of unknown length stays in place: with so few
// iterations it runs to its end on every kernel.
const FewTrips = 64

// helperFlavor is the prefix of the type names in helper tests; the helper's name follows. See
// archFlavor.
const helperFlavor = "enum bpf_func_id___"

// HasHelper returns a relocated constant, true where the kernel has a helper. Code that the
// kernel drops may call helpers that it does not know; btrun removes the dead side, with
// the subprograms that only it uses.
func (b *Builder) HasHelper(name string) *Value {
	return b.ICmp(NE, b.CORE(EnumvalExists, CORERef{Type: helperFlavor + name, Path: "BPF_FUNC_" + name}), Const(0))
}

// HelperTest returns the helper that a relocation asks for.
func HelperTest(ref CORERef) (name string, ok bool) {
	if name, ok = strings.CutPrefix(ref.Type, helperFlavor); !ok {
		return "", false
	}
	return name, true
}

// PerArch returns a constant with a value for each architecture; if all are equal it is an
// ordinary constant.
func (b *Builder) PerArch(arches []*arch.Arch, value func(*arch.Arch) int64) *Value {
	var words []string
	same := true
	for _, a := range arches {
		same = same && value(a) == value(arches[0])
		words = append(words, fmt.Sprintf("%s=%d", a.Name, value(a)))
	}
	if same {
		return Const(value(arches[0]))
	}
	v := b.Emit(OpPerArch, TI64)
	v.Sym = strings.Join(words, " ")
	return v
}

// KernelAddr emits a test whether p is an address in the kernel's half of the address space.
func (b *Builder) KernelAddr(arches []*arch.Arch, p *Value) *Value {
	tags := b.PerArch(arches, func(a *arch.Arch) int64 { return a.TagBits })
	return b.ICmp(SLT, b.Shl(b.Cast(TI64, p), tags), Const(0))
}

// perArchRange returns the range of the constants of all architectures in sym.
func perArchRange(sym string) Range {
	r, found := FullRange, false
	for word := range strings.FieldsSeq(sym) {
		_, text, _ := strings.Cut(word, "=")
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil:
			return FullRange
		case found:
			r = r.Join(RangeOf(n))
		default:
			r, found = RangeOf(n), true
		}
	}
	return r
}

// PerArchValue returns the constant of an architecture from the symbol of a perarch op.
func PerArchValue(sym string, a *arch.Arch) (int64, bool) {
	for word := range strings.FieldsSeq(sym) {
		if name, text, ok := strings.Cut(word, "="); ok && name == a.Name {
			n, err := strconv.ParseInt(text, 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
