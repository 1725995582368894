// SPDX-License-Identifier: Apache-2.0

// Package keep decides which maps of an object go on when another object replaces it: those of the same name and form. It
// takes the manifests of both, and returns names. It reads no maps.
package keep

import (
	"fmt"

	"btc/internal/manifest"
)

// Maps returns the names of the maps of an object that may be those of an older one. fits reports whether the kernel's map
// may be used for a map of the new object. ids means that the numbers of attach points are those of the same ones in both.
func Maps(m, old *manifest.Manifest, ids bool, fits func(m, was *manifest.Map) bool) map[string]bool {
	kept := map[string]bool{}
	same := func(x *manifest.Map) bool {
		was := old.Map(x.Name)
		return was != nil && Same(x, was) && fits(x, was)
	}
	lens := true // the counters of elements are in the same places
	for i := range m.Maps {
		x := &m.Maps[i]
		ok := same(x)
		if x.Shape != "intern" && ok {
			kept[x.Name] = true
		}
		lens = lens && (x.LenKey == 0 || ok && old.Map(x.Name).LenKey == x.LenKey)
	}
	if x := m.Map("len"); x != nil && lens && same(x) {
		kept["len"] = true
	}
	for i := range m.Maps {
		if x := &m.Maps[i]; x.LenKey != 0 && !kept["len"] || !lasts(x.Key, kept, ids) || !lasts(x.Value, kept, ids) {
			delete(kept, x.Name)
		}
	}
	return kept
}

// lasts reports whether bytes of a layout mean the same in both objects.
func lasts(l *manifest.Layout, kept map[string]bool, ids bool) bool {
	if l == nil {
		return true
	}
	switch l.Kind {
	case "kstack", "ustack":
		return kept[l.Stack]
	case "probe", "ksym", "usym": // func is a ksym or usym
		return ids
	}
	for i := range l.Fields {
		if !lasts(&l.Fields[i].Layout, kept, ids) {
			return false
		}
	}
	return lasts(l.Elem, kept, ids)
}

// Same reports whether maps of two objects have the same form, and no per-CPU cache that the loader cannot turn off.
func Same(a, b *manifest.Map) bool {
	return form(a) == form(b)
}

// form describes the form of a map.
func form(m *manifest.Map) string {
	x := *m
	x.Symbol, x.MapNames, x.GenOff, x.Update, x.Pos = "", manifest.MapNames{}, 0, nil, manifest.Pos{}
	x.LenKey = min(x.LenKey, 1)
	if x.Cache != nil && x.Cache.Enable != "" {
		x.Cache = nil // otherwise its address differs: the cache is in another map
	}
	x.Key, x.Value, x.Stored = nil, nil, nil
	text := fmt.Sprintf("%#v", x) + layout(m.Key) + layout(m.Value)
	if m.Stored != nil {
		text += fmt.Sprintf("%#v", *m.Stored)
	}
	return text
}

// layout describes a layout.
func layout(l *manifest.Layout) string {
	if l == nil {
		return "nil "
	}
	x := *l
	x.Elem, x.Fields = nil, nil
	text := fmt.Sprintf("%#v", x) + layout(l.Elem)
	for _, f := range l.Fields {
		text += layout(&f.Layout)
		f.Layout = manifest.Layout{}
		text += fmt.Sprintf("%#v", f)
	}
	return text
}
