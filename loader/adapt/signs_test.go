// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"cmp"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"btc/internal/manifest"
)

// field returns BTF in which struct s has an integer member x, and an array a of such integers.
func field(t *testing.T, size uint32, signed bool) *btf.Spec {
	i := &btf.Int{Name: "number", Size: size}
	if signed {
		i.Encoding = btf.Signed
	}
	b, err := btf.NewBuilder([]btf.Type{&btf.Struct{Name: "s", Size: 24, Members: []btf.Member{{Name: "x", Type: i}, {Name: "a", Type: &btf.Array{Index: i, Type: i, Nelems: 2}}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := b.Spec()
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestSigns(t *testing.T) {
	const signed, unsigned = true, false
	for _, c := range []struct {
		name        string
		was, here   uint32
		wasS, here2 bool
		use         manifest.FieldUse
		shift       asm.ALUOp // expected shift afterwards
		refused     bool
	}{
		{"same", 4, 4, signed, unsigned, manifest.FieldUse{Kind: rightShift}, asm.ArSh, false},
		{"wider on this kernel", 2, 4, signed, unsigned, manifest.FieldUse{Kind: rightShift}, asm.ArSh, false},
		{"narrower and unsigned on this kernel", 4, 2, signed, unsigned, manifest.FieldUse{Kind: rightShift}, asm.RSh, false},
		{"narrower and signed on this kernel", 4, 2, unsigned, signed, manifest.FieldUse{Kind: rightShift}, asm.ArSh, true},
		{"compared", 4, 2, unsigned, signed, manifest.FieldUse{Kind: rightShift, Compared: true}, asm.ArSh, false},
		{"64 bits, signed on this kernel", 8, 4, unsigned, signed, manifest.FieldUse{Kind: byteSize}, asm.ArSh, true},
		{"64 bits, unsigned on this kernel", 8, 4, signed, unsigned, manifest.FieldUse{Kind: byteSize}, asm.ArSh, false},
		{"another program", 4, 2, unsigned, signed, manifest.FieldUse{Kind: rightShift, Program: "q"}, asm.ArSh, false},
		{"32 bits, another sign", 4, 2, unsigned, signed, manifest.FieldUse{Kind: byteSize}, asm.ArSh, false},
		{"element, unsigned before", 4, 2, unsigned, signed, manifest.FieldUse{Kind: byteSize, Path: "a[1]"}, asm.ArSh, true},
		{"element, signed before", 4, 2, signed, unsigned, manifest.FieldUse{Kind: byteSize, Path: "a[1]"}, asm.ArSh, true},
		{"element, the same sign", 4, 2, signed, signed, manifest.FieldUse{Kind: byteSize, Path: "a[1]"}, asm.ArSh, false},
		{"element of no array", 4, 2, unsigned, signed, manifest.FieldUse{Kind: byteSize, Path: "x[1]"}, asm.ArSh, false},
		{"another relocation", 4, 2, unsigned, signed, manifest.FieldUse{Kind: 0}, asm.ArSh, false},
	} {
		insns := asm.Instructions{asm.ArSh.Imm(asm.R1, 48)}
		c.use.Type, c.use.Path = "struct s", cmp.Or(c.use.Path, "x")
		if c.use.Program == "" {
			c.use.Program = "p"
		}
		m := &manifest.Manifest{Fields: []manifest.FieldUse{c.use}}
		err := Signs(m, "p", insns, field(t, c.was, c.wasS), nil, field(t, c.here, c.here2))
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := insns[0].OpCode.ALUOp(); got != c.shift {
			t.Errorf("%s: shift = %v", c.name, got)
		}
	}
}
