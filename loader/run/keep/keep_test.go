// SPDX-License-Identifier: Apache-2.0

package keep

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"btc/internal/manifest"
)

// TestKeeps checks which maps of an object its successor uses.
func TestKeeps(t *testing.T) {
	number := func() *manifest.Layout { return &manifest.Layout{Kind: "int", Size: 8, Name: "uint64"} }
	old := func() []manifest.Map {
		return []manifest.Map{
			{Name: "@a", Symbol: "a", Shape: "count", Type: "percpu_hash", KeySize: 8, ValueSize: 8, MaxEntries: 4096, Key: number(), Value: number()},
			{Name: "@hist", Symbol: "hist", Shape: "hist", Type: "array", KeySize: 4, ValueSize: 520, MapParams: manifest.MapParams{Bits: 2}},
			{Name: "@len", Symbol: "l", Shape: "plain", Type: "hash", KeySize: 8, ValueSize: 8, Key: number(), Value: number(), LenKey: 1},
			{Name: "@stack", Symbol: "s", Shape: "count", Type: "hash", KeySize: 8, ValueSize: 8, Key: &manifest.Layout{Kind: "kstack", Size: 8, Stack: "kstack_127", Depth: 127}},
			{Name: "@probe", Symbol: "p", Shape: "count", Type: "hash", KeySize: 16, ValueSize: 8, Key: &manifest.Layout{Kind: "tuple", Size: 16, Fields: []manifest.Field{{Layout: *number()}, {Off: 8, Layout: manifest.Layout{Kind: "probe", Size: 8}}}}},
			{Name: "@cached", Symbol: "c", Shape: "count", Type: "hash", KeySize: 8, ValueSize: 8, Key: number(), Cache: &manifest.PerCPUCache{Enable: "caches"}},
			{Name: "@enum", Symbol: "e", Shape: "plain", Type: "array", KeySize: 4, ValueSize: 8, Value: &manifest.Layout{Kind: "enum", Size: 8, Enum: map[string]string{"1": "one"}}},
			{Name: "kstack_127", Symbol: "k", Shape: "stack", Type: "hash", KeySize: 8, ValueSize: 1016, Depth: 127},
			{Name: "len", Symbol: "len", Shape: "intern", Type: "array", KeySize: 4, ValueSize: 8},
			{Name: "events", Symbol: "events", Shape: "intern", Type: "ringbuf"},
		}
	}
	const all = "@a @cached @enum @hist @len @probe @stack kstack_127 len"
	find := func(list []manifest.Map, name string) *manifest.Map {
		return &list[slices.IndexFunc(list, func(m manifest.Map) bool { return m.Name == name })]
	}
	for what, c := range map[string]struct {
		change func(m []manifest.Map, probes map[int]string) []manifest.Map
		lost   string // of all
	}{
		"nothing": {func(m []manifest.Map, _ map[int]string) []manifest.Map { return m }, ""},
		"symbol":  {func(m []manifest.Map, _ map[int]string) []manifest.Map { find(m, "@a").Symbol = "x"; return m }, ""},
		"names": {func(m []manifest.Map, _ map[int]string) []manifest.Map {
			find(m, "@a").KeyNames = []string{"pid"}
			return m
		}, ""},
		"key": {func(m []manifest.Map, _ map[int]string) []manifest.Map { find(m, "@a").Key.Signed = true; return m }, "@a"},
		"key of part": {func(m []manifest.Map, _ map[int]string) []manifest.Map {
			find(m, "@probe").Key.Fields[0].Layout.Kind = "enum"
			return m
		}, "@probe"},
		"no key": {func(m []manifest.Map, _ map[int]string) []manifest.Map { find(m, "@a").Key = nil; return m }, "@a"},
		"shape":  {func(m []manifest.Map, _ map[int]string) []manifest.Map { find(m, "@a").Shape = "sum"; return m }, "@a"},
		"enumerator": {func(m []manifest.Map, _ map[int]string) []manifest.Map {
			find(m, "@enum").Value.Enum["1"] = "eins"
			return m
		}, "@enum"},
		"bits": {func(m []manifest.Map, _ map[int]string) []manifest.Map { find(m, "@hist").Bits = 3; return m }, "@hist"},
		"type": {func(m []manifest.Map, _ map[int]string) []manifest.Map {
			find(m, "@hist").Type = "percpu_array"
			return m
		}, "@hist"},
		"slots": {func(m []manifest.Map, _ map[int]string) []manifest.Map { find(m, "@hist").Gens = 2; return m }, "@hist"},
		"old cache": {func(m []manifest.Map, _ map[int]string) []manifest.Map {
			find(m, "@cached").Cache.Enable = ""
			return m
		}, "@cached"},
		"stack":   {func(m []manifest.Map, _ map[int]string) []manifest.Map { find(m, "kstack_127").Depth = 5; return m }, "@stack kstack_127"},
		"len key": {func(m []manifest.Map, _ map[int]string) []manifest.Map { find(m, "@len").LenKey = 2; return m }, "@len len"},
		"a map with a counter": {func(m []manifest.Map, _ map[int]string) []manifest.Map {
			return append(m, manifest.Map{Name: "@more", Shape: "plain", LenKey: 2})
		}, "@len len"},
		"a map": {func(m []manifest.Map, _ map[int]string) []manifest.Map {
			return append(m, manifest.Map{Name: "@more", Shape: "plain"})
		}, ""},
		"a probe":          {func(m []manifest.Map, p map[int]string) []manifest.Map { p[3] = "kprobe:b"; return m }, ""},
		"another probe":    {func(m []manifest.Map, p map[int]string) []manifest.Map { p[2] = "kprobe:b"; return m }, "@probe"},
		"kernel's map":     {func(m []manifest.Map, _ map[int]string) []manifest.Map { find(m, "@a").MaxEntries = 1; return m }, "@a"},
		"map is not there": {func(m []manifest.Map, _ map[int]string) []manifest.Map { return m[1:] }, "@a"},
	} {
		probes := map[int]string{2: "kprobe:a"}
		m := &manifest.Manifest{Maps: c.change(old(), probes)}
		kept := Maps(m, &manifest.Manifest{Maps: old()}, probes[2] == "kprobe:a", func(m, was *manifest.Map) bool { return m.MaxEntries == was.MaxEntries })
		want := slices.DeleteFunc(strings.Fields(all), func(name string) bool { return slices.Contains(strings.Fields(c.lost), name) })
		if got := slices.Sorted(maps.Keys(kept)); !slices.Equal(got, want) {
			t.Errorf("%s changed: keeps %q, not %q", what, got, want)
		}
	}
}
