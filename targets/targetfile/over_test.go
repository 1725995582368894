// SPDX-License-Identifier: Apache-2.0

package targetfile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// other returns a target that differs from sample in each way that a delta file must express: new,
// removed, changed and moved types, and entries of all tables.
func other() *Data {
	d := sample()
	d.Meta = Meta{Arch: "aarch64", Release: "6.12-other"}
	// A new type at the start, so that the index of every other type changes.
	moved := func(r Ref) Ref {
		if r.Position() < 0 {
			return r
		}
		return MakeRef(r.Position()+1, r.Pointers())
	}
	move := func(t *Type) {
		t.Elem = moved(t.Elem)
		for i := range t.Members {
			t.Members[i].Type = moved(t.Members[i].Type)
		}
		for i := range t.Params {
			t.Params[i].Type = moved(t.Params[i].Type)
		}
	}
	for i := range d.Types {
		move(&d.Types[i])
	}
	for i := range d.Funcs {
		if d.Funcs[i].Proto != nil {
			move(d.Funcs[i].Proto)
		}
	}
	d.Types = append([]Type{{Kind: Struct, Name: "only_here", Size: 8, Members: []Member{{Name: "s", Type: MakeRef(4, 1)}}}}, d.Types...)
	s := &d.Types[4]
	s.Members = append(slices.Clone(s.Members), Member{Name: "more", BitOffset: 256, Type: MakeRef(0, 1)})
	s.Size = 40
	d.Types[7].Enumerators = []Enumerator{{"MIN", -1 << 63}, {"ONE", 2}, {"TWO", 3}}
	d.Types = slices.Delete(d.Types, len(d.Types)-5, len(d.Types))
	d.Funcs[0].Traceable = false
	d.Funcs = append(d.Funcs[:len(d.Funcs)-7], Func{Name: "a_first", Traceable: true, Proto: &Type{Kind: Proto, Elem: MakeRef(0, 1)}})
	d.Events[0].Fields[0].Size = 8
	d.Syscalls = append(d.Syscalls[:1], Syscall{Name: "mine", Nr: 7, Args: []Arg{}})
	return d
}

// content lists everything in a file, including its types, but without their indices.
func content(t *testing.T, f *File) []string {
	t.Helper()
	var all []string
	no := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	var text func(r Ref, depth int) string
	body := func(typ *Type, depth int) string {
		var b strings.Builder
		fmt.Fprintf(&b, "%d %q %d %d %d %v", typ.Kind, typ.Name, typ.Size, typ.Flags, typ.Len, typ.Enumerators)
		if depth < 5 {
			fmt.Fprintf(&b, " of %s", text(typ.Elem, depth+1))
			for _, m := range typ.Members {
				fmt.Fprintf(&b, "{%s %d %d %s}", m.Name, m.BitOffset, m.BitSize, text(m.Type, depth+1))
			}
			for _, p := range typ.Params {
				fmt.Fprintf(&b, "(%s %s)", p.Name, text(p.Type, depth+1))
			}
		}
		return b.String()
	}
	text = func(r Ref, depth int) string {
		if r.Position() < 0 {
			return "void" + strings.Repeat("*", r.Pointers())
		}
		typ, err := f.Type(r)
		no(err)
		return body(&typ, depth) + strings.Repeat("*", r.Pointers())
	}
	for k := Int; k <= Forward; k++ {
		if k.Letter() == 0 || k == Float { // Int and Float have the same letter
			continue
		}
		no(f.TypeNames(k, "", func(name string) bool {
			refs, err := f.Named(k, name)
			no(err)
			for _, r := range refs {
				all = append(all, "type "+name+" "+text(r, 0))
			}
			return true
		}))
	}
	no(f.Consts("", func(name string) bool {
		refs, err := f.EnumOf(name)
		no(err)
		for _, r := range refs {
			all = append(all, "constant "+name+" "+text(r, 0))
		}
		return true
	}))
	no(f.Funcs("", func(fn Func) bool {
		fn, ok, err := f.Func(fn.Name)
		no(err)
		line := fmt.Sprintf("function %v %s %s %v %v", ok, fn.Name, fn.Module, fn.Traceable, fn.Kfunc)
		if fn.Proto != nil {
			line += body(fn.Proto, 0)
		}
		all = append(all, line)
		return true
	}))
	no(f.Events("", func(name string) bool {
		category, event, _ := strings.Cut(name, ":")
		ev, ok, err := f.Event(category, event)
		no(err)
		all = append(all, fmt.Sprintf("event %v %v", ok, ev))
		return true
	}))
	no(f.Syscalls("", func(name string) bool {
		s, ok, err := f.Syscall(name)
		no(err)
		all = append(all, fmt.Sprintf("call %v %v", ok, s))
		return true
	}))
	return all
}

func TestOver(t *testing.T) {
	open := func(d *Data) *File {
		raw, err := WriteZstd(d)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(raw)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	base := open(sample())
	for name, d := range map[string]*Data{"same": sample(), "other": other()} {
		want := content(t, open(d))
		raw, err := WriteZstdOver(d, base)
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) > 3000 {
			t.Errorf("%s: delta of %d bytes", name, len(raw))
		}
		f, err := OpenOver(raw, open(sample()))
		if err != nil {
			t.Fatal(err)
		}
		if f.Meta.Release != d.Meta.Release || f.NumTypes() < len(d.Types) {
			t.Errorf("%s: release %s, %d types", name, f.Meta.Release, f.NumTypes())
		}
		got := content(t, f)
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("%s: entry %d of %d, want %d:\n%s\nwant\n%s", name, i, len(got), len(want), got[min(i, len(got)-1)], want[min(i, len(want)-1)])
			}
		}
		for _, prefix := range []string{"a", "zz_function_29", "zz_function_2996", "~"} {
			n, m := 0, 0
			_ = f.Funcs(prefix, func(Func) bool { n++; return n < 3 })
			for _, line := range want {
				if strings.HasPrefix(line, "function true "+prefix) && m < 3 {
					m++
				}
			}
			if n != m {
				t.Errorf("%s: %d functions that begin with %s, want %d", name, n, prefix, m)
			}
		}
		if _, err := Open(raw); err == nil {
			t.Error("no error for opening a delta without its base")
		}
		if _, err := OpenOver(raw, open(other())); err == nil {
			t.Error("no error for opening a delta over a different base")
		}
		for at := 0; at < len(raw); at += 7 { // damage must be an error, not a panic
			bad := slices.Clone(raw)
			bad[at] ^= 0x55
			if f, err := OpenOver(bad, base); err == nil {
				for pos := range min(f.NumTypes(), 12) {
					_, _ = f.Type(MakeRef(pos, 0))
				}
				_, _, _ = f.Func("printk")
				_, _ = f.Named(Struct, "s")
			}
		}
	}
}
