// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"btc/targets/targetfile"
)

// more adds structs of another kernel, which data's kernel lacks, to data; spec is
// "DIR:NAME,NAME...". Types that they refer to are added, too, unless data has a type of that
// name.
func more(data *targetfile.Data, spec, arch string) error {
	dir, names, ok := strings.Cut(spec, ":")
	if !ok {
		return fmt.Errorf("-more: expected DIR:NAME,NAME..., found %q", spec)
	}
	other, err := describeParts(dir, arch, true)
	if err != nil {
		return err
	}
	g := &graft{data: data, other: other, at: map[int]targetfile.Ref{}, own: map[typeName]targetfile.Ref{}}
	for i := len(data.Types) - 1; i >= 0; i-- { // of several with one name, the first is used
		g.own[nameOf(&data.Types[i])] = targetfile.MakeRef(i, 0)
	}
	for name := range strings.SplitSeq(names, ",") {
		found := false
		for i := range other.Types {
			if nameOf(&other.Types[i]) == (typeName{targetfile.Struct, name}) {
				g.ref(targetfile.MakeRef(i, 0))
				found = true
				break
			}
		}
		if !found {
			return fmt.Errorf("%s: unknown struct %s", dir, name)
		}
	}
	return nil
}

type typeName struct {
	kind targetfile.Kind
	name string
}

func nameOf(t *targetfile.Type) typeName { return typeName{t.Kind, t.Name} }

type graft struct {
	data, other *targetfile.Data
	own         map[typeName]targetfile.Ref
	at          map[int]targetfile.Ref // by position in other
}

// ref translates a reference of the other kernel to data.
func (g *graft) ref(r targetfile.Ref) targetfile.Ref {
	pos := r.Position()
	if pos < 0 {
		return r
	}
	to, ok := g.at[pos]
	if !ok {
		to = g.add(pos)
	}
	return targetfile.MakeRef(to.Position(), r.Pointers())
}

func (g *graft) add(pos int) targetfile.Ref {
	t := g.other.Types[pos]
	if to, ok := g.own[nameOf(&t)]; ok && t.Name != "" {
		g.at[pos] = to
		return to
	}
	to := targetfile.MakeRef(len(g.data.Types), 0)
	g.at[pos] = to
	g.data.Types = append(g.data.Types, t)
	t.Elem = g.ref(t.Elem)
	t.Members = append([]targetfile.Member(nil), t.Members...)
	for i := range t.Members {
		t.Members[i].Type = g.ref(t.Members[i].Type)
	}
	t.Params = append([]targetfile.Param(nil), t.Params...)
	for i := range t.Params {
		t.Params[i].Type = g.ref(t.Params[i].Type)
	}
	g.data.Types[to.Position()] = t
	return to
}
