// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"btc/internal/probe"
	"btc/loader/sites"
)

// listKernelTypes prints the structs, unions or enums of the running kernel whose names match a
// pattern, with their members as C declares them. It reports whether the kernel publishes types.
func listKernelTypes(out io.Writer, word, pattern string) bool {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return false
	}
	found := map[string]btf.Type{}
	for t, err := range spec.All() {
		if err != nil {
			return false
		}
		is := false
		switch t.(type) {
		case *btf.Struct:
			is = word == "struct"
		case *btf.Union:
			is = word == "union"
		case *btf.Enum:
			is = word == "enum"
		}
		name := t.TypeName()
		if is && name != "" && found[name] == nil && probe.Glob(pattern, name) {
			found[name] = t
		}
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(out, "vmlinux: %s %s {\n", word, name)
		end := typeBody(out, found[name], 1)
		fmt.Fprintf(out, "}%s;\n\n", end)
	}
	return true
}

// typeBody prints the members of a type, each on a line, and returns what follows the closing brace.
func typeBody(out io.Writer, t btf.Type, depth int) string {
	indent := strings.Repeat("\t", depth)
	switch t := t.(type) {
	case *btf.Enum:
		for _, v := range t.Values {
			if t.Signed {
				fmt.Fprintf(out, "%s%s = %d,\n", indent, v.Name, int64(v.Value))
			} else {
				fmt.Fprintf(out, "%s%s = %d,\n", indent, v.Name, v.Value)
			}
		}
		if t.Size == 1 {
			return " __attribute__((mode(byte)))"
		}
	case *btf.Union:
		for i := range t.Members {
			member(out, &t.Members[i], depth)
		}
	case *btf.Struct:
		packed := isPacked(t)
		at, field := uint32(0), false // the end of the previous member in bits; it is a bit field
		for i := range t.Members {
			m := &t.Members[i]
			bits, align := uint32(m.BitfieldSize), alignment(m.Type)
			if packed {
				align = 1
			}
			pad(out, indent, at, uint32(m.Offset), align, field && bits != 0)
			member(out, m, depth)
			field = bits != 0
			if !field {
				size, _ := btf.Sizeof(m.Type)
				bits = uint32(size) * 8
			}
			at = uint32(m.Offset) + bits
		}
		pad(out, indent, at, t.Size*8, alignment(t), false)
		if packed {
			return " __attribute__((packed))"
		}
	}
	return ""
}

// member prints a member, with the members of a type that has no name.
func member(out io.Writer, m *btf.Member, depth int) {
	indent := strings.Repeat("\t", depth)
	bits := ""
	if m.BitfieldSize > 0 {
		bits = fmt.Sprintf(": %d", m.BitfieldSize)
	}
	inner, suffix := anonymous(m.Type)
	if inner == nil {
		fmt.Fprintf(out, "%s%s%s;\n", indent, sites.Declare(m.Type, m.Name), bits)
		return
	}
	word := "struct"
	prefix := ""
	if _, is := m.Type.(*btf.Const); is {
		prefix = "const "
	}
	switch inner.(type) {
	case *btf.Union:
		word = "union"
	case *btf.Enum:
		word = "enum"
	}
	if s, ok := inner.(*btf.Struct); ok && len(s.Members) == 0 && s.Size == 0 {
		fmt.Fprintf(out, "%sstruct {}%s;\n", indent, strings.TrimRight(" "+m.Name+suffix, " "))
		return
	}
	fmt.Fprintf(out, "%s%s%s {\n", indent, prefix, word)
	end := typeBody(out, inner, depth+1)
	name := m.Name
	if before, after, pointer := strings.Cut(suffix, "*"); pointer {
		name = before + "*" + name + after
	} else {
		name += suffix
	}
	fmt.Fprintf(out, "%s}%s%s;\n", indent, end, strings.TrimRight(" "+name, " ")+bits)
}

// anonymous returns the type of a member, or that of its array elements or pointee, if the type
// has no name, and what is added to the member's name: "[3]" or "*". It is nil if the type has a
// name.
func anonymous(t btf.Type) (btf.Type, string) {
	switch t := t.(type) {
	case *btf.Struct, *btf.Union, *btf.Enum:
		if t.TypeName() == "" {
			return t, ""
		}
	case *btf.Const:
		return anonymous(t.Type)
	case *btf.Array:
		if inner, suffix := anonymous(t.Type); inner != nil {
			return inner, fmt.Sprintf("[%d]%s", t.Nelems, suffix)
		}
	case *btf.Pointer:
		if inner, suffix := anonymous(t.Target); inner != nil {
			return inner, "*" + suffix
		}
	}
	return nil, ""
}

// alignment returns the alignment of a type in bytes, 1 for a packed one.
func alignment(t btf.Type) uint32 {
	const word = 8
	largest := func(members []btf.Member, size uint32) uint32 {
		most := uint32(1)
		for i := range members {
			a := alignment(members[i].Type)
			if members[i].BitfieldSize == 0 && uint32(members[i].Offset)%(8*a) != 0 {
				return 1
			}
			most = max(most, a)
		}
		if size%most != 0 {
			return 1
		}
		return most
	}
	switch t := t.(type) {
	case *btf.Int:
		return min(max(t.Size, 1), word)
	case *btf.Enum:
		return min(max(t.Size, 1), word)
	case *btf.Float:
		return min(max(t.Size, 1), word)
	case *btf.Pointer:
		return word
	case *btf.Array:
		return alignment(t.Type)
	case *btf.Struct:
		return largest(t.Members, t.Size)
	case *btf.Union:
		return largest(t.Members, t.Size)
	case *btf.Typedef:
		return alignment(t.Type)
	case *btf.Const:
		return alignment(t.Type)
	case *btf.Volatile:
		return alignment(t.Type)
	case *btf.Restrict:
		return alignment(t.Type)
	case *btf.TypeTag:
		return alignment(t.Type)
	}
	return 1
}

// isPacked reports whether a struct is packed: without the attribute a compiler would give its
// members other offsets.
func isPacked(t *btf.Struct) bool {
	most := uint32(1)
	for i := range t.Members {
		m := &t.Members[i]
		a := alignment(m.Type)
		if m.BitfieldSize == 0 && uint32(m.Offset)%(8*a) != 0 {
			return true
		}
		most = max(most, a)
	}
	return t.Size%most != 0
}

// paddings are the types of members without a name, largest first.
var paddings = []struct {
	name string
	bits uint32
}{{"long", 64}, {"int", 32}, {"short", 16}, {"char", 8}}

// pad prints members without a name for a gap, in bits, before a member with an alignment in
// bytes, unless the compiler leaves this gap anyway.
func pad(out io.Writer, indent string, from, to, align uint32, field bool) {
	if from >= to {
		return
	}
	up := func(n, to uint32) uint32 { return (n + to - 1) / to * to }
	size, at := uint32(0), uint32(0)
	name := ""
	for _, p := range paddings { // the largest type whose alignment fits the start of the gap
		if name, size, at = p.name, p.bits, up(from, p.bits); at <= to {
			break
		}
	}
	if at > from && at <= to {
		switch {
		case field:
			fmt.Fprintf(out, "%s%s: %d;\n", indent, name, at-from)
		case at == to && up(from, align*8) != at, at != to && to-at <= at-from:
			fmt.Fprintf(out, "%s%s: 0;\n", indent, name)
		}
		from = at
	}
	for ; to-from >= size; from += size {
		fmt.Fprintf(out, "%s%s: %d;\n", indent, name, size)
	}
	for _, p := range slices.Backward(paddings) { // the smallest type that has room for the rest
		if from < to && p.bits >= to-from {
			fmt.Fprintf(out, "%s%s: %d;\n", indent, p.name, to-from)
			break
		}
	}
}
