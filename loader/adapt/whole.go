// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"btc/internal/manifest"
	"btc/loader/diag"
)

// Values of kernel types that are copied whole (print(*$task), @x = $sock->sk_rcvtimeo) have no relocations: their
// members have the offsets of the compiler's target. On a host with another layout the values would be silently
// wrong.

// WholeTypes names the kernel types of values that are copied whole, without "struct".
func WholeTypes(m *manifest.Manifest) []string {
	var names []string
	m.EachLayout(func(l *manifest.Layout, _ manifest.Pos) {
		if l.CORE != "" {
			names = append(names, bareName(l.CORE))
		}
	})
	slices.Sort(names)
	return slices.Compact(names)
}

func bareName(core string) string {
	return strings.TrimPrefix(strings.TrimPrefix(core, "struct "), "union ")
}

// Whole returns an error if a value is of a kernel type whose members have other offsets on the host.
// Its error is a *diag.Error.
func Whole(m *manifest.Manifest, specs ...*btf.Spec) (err error) {
	m.EachLayout(func(l *manifest.Layout, pos manifest.Pos) {
		if err != nil || l.CORE == "" {
			return
		}
		members, found := hostMembers(l.CORE, specs)
		if !found {
			return // relocation or the verifier reports it
		}
		if where := differs(l, members); where != "" {
			err = &diag.Error{Script: &m.Script, Pos: pos,
				Text: fmt.Sprintf("%s has a different layout on this kernel (%s), and the object copies it whole with the layout of Linux %s",
					l.CORE, where, m.Target),
				Hint: "compile the script for this kernel (--target), or read single members"}
		}
	})
	return err
}

// wholeMember is a member of a struct or of its anonymous members.
type wholeMember struct {
	bits uint64 // offset
	size uint64 // bits of a bitfield, else 0
	typ  btf.Type
}

func hostMembers(core string, specs []*btf.Spec) (map[string]wholeMember, bool) {
	for _, spec := range specs {
		if spec == nil {
			continue
		}
		all, err := spec.AnyTypesByName(bareName(core))
		if err != nil {
			continue
		}
		for _, t := range all {
			if out := map[string]wholeMember{}; flatten(btf.UnderlyingType(t), 0, out) {
				return out, true
			}
		}
	}
	return nil, false
}

// flatten lists the members of a struct or union with those of its anonymous members.
func flatten(t btf.Type, base uint64, out map[string]wholeMember) bool {
	var members []btf.Member
	switch t := t.(type) {
	case *btf.Struct:
		members = t.Members
	case *btf.Union:
		members = t.Members
	default:
		return false
	}
	for _, m := range members {
		at := base + uint64(m.Offset)
		if m.Name == "" {
			flatten(btf.UnderlyingType(m.Type), at, out)
			continue
		}
		out[m.Name] = wholeMember{at, uint64(m.BitfieldSize), m.Type}
	}
	return true
}

// differs returns the name of the first member of a layout that has another offset or size on the host; "" for none.
// Named structs are checked separately.
func differs(l *manifest.Layout, host map[string]wholeMember) string {
	for i := range l.Fields {
		f := &l.Fields[i]
		h, ok := host[f.Name]
		if !ok {
			return "no " + f.Name
		}
		at := uint64(8*f.Off + f.BitOff)
		if h.bits != at || h.size != uint64(f.BitSize) {
			return f.Name
		}
		if f.BitSize != 0 {
			continue
		}
		if size, err := btf.Sizeof(h.typ); err == nil && f.Layout.Kind != "string" && size != f.Layout.Size {
			return f.Name
		}
		if f.Layout.Kind == "record" && f.Layout.CORE == "" {
			inner := map[string]wholeMember{}
			if flatten(btf.UnderlyingType(h.typ), 0, inner) {
				if where := differs(&f.Layout, inner); where != "" {
					return f.Name + "." + where
				}
			}
		}
	}
	return ""
}
