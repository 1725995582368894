// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"
	"slices"
	"strings"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/ir"
)

// map-layout chooses the BPF map for each map of the script, as docs/layouts.md says.
//
// requires:    Map's language half, filled by frontend/irgen
// establishes: Map.BPF of every map of the script; global "gen" where a scalar
//              has two slots
// invalidates: nothing
//
//	map (name "@", shape count)
//	->
//	map (name "@", shape count, bpf (name "AT_", type percpu_array, key_size 4, value_size 8, max_entries 1, …))

// Sizes that the language does not fix.
const (
	defaultKeys   = 4096 // elements of a keyed map (bpftrace's max_map_keys)
	defaultStacks = 4096 // different stacks of one mode and depth
	maxNameLen    = 15   // BPF_OBJ_NAME_LEN - 1
)

func chooseMaps(m *ir.Module) []ir.Diag {
	var diags []ir.Diag
	names := takenNames(m)
	counted := measured(m)
	adapt := mapAdapter(m)
	setAdds(m)
	nameSections(m)
	for _, x := range m.Maps {
		if x.Shape == ir.ShapeIntern {
			continue
		}
		if d := refuseMap(x); d != nil {
			diags = append(diags, *d)
			continue
		}
		x.BPF = bpfMap(x)
		adapt(x)
		x.BPF.Name = symbol(x, names, m.Meta.For)
		if x.BPF.Gens == 2 {
			x.BPF.GenOff = newGen(m)
		}
		if counted[x.Name] && !strings.HasPrefix(x.BPF.Type, "lru") {
			x.BPF.Len = newLen(m)
		}
		if strings.Contains(x.BPF.Type, "hash") && !strings.HasPrefix(x.BPF.Type, "lru") {
			needLoss(m, x)
		}
	}
	markTaken(m)
	if m.Meta.For == "" {
		addCaches(m, names)
	}
	return diags
}

// refuseMap refuses maps that have no layout.
func refuseMap(x *ir.Map) *ir.Diag {
	if isExtreme(x) && x.Key == nil && x.Deleted {
		return &ir.Diag{
			Pos:  x.Pos,
			Text: fmt.Sprintf("cannot delete %s: it is a %s() map without a key, kept per CPU", x.Name, x.Shape),
			Hint: "use clear(" + x.Name + ")",
		}
	}
	if x.Key != nil && x.Key.Size > maxKeySize {
		return &ir.Diag{
			Pos: x.Pos,
			Text: fmt.Sprintf("the key of %s is %d bytes long; Linux before 5.11 allows at most %d", x.Name,
				x.Key.Size, maxKeySize),
			Hint: "shorten the strings in the key, for example str(x, 128)",
		}
	}
	return nil
}

// maxKeySize is MAX_BPF_STACK, the limit of a hash's key until 5.11.
const maxKeySize = 512

// form is the layout of a shape's value: size, offset of the value proper, and for a scalar
// the offset of the word that says whether it is set (-1: the value itself does).
type form struct{ size, off, present int }

func keyedForm(x *ir.Map) form {
	switch x.Shape {
	case ir.ShapeMin, ir.ShapeMax:
		return form{16, 8, -1}
	case ir.ShapeAvg, ir.ShapeStats:
		return form{16, 0, -1}
	case ir.ShapeHist, ir.ShapeLhist:
		return form{8 * buckets(x), 0, -1}
	case ir.ShapeTseries:
		return form{24, 0, -1}
	case ir.ShapePlain:
		return form{valueSize(x.Value), 0, -1}
	case ir.ShapeStack:
		return form{8 * x.Depth, 0, -1}
	}
	return form{8, 0, -1} // count, sum
}

func scalarForm(x *ir.Map) form {
	switch x.Shape {
	case ir.ShapeCount, ir.ShapeAvg, ir.ShapeStats, ir.ShapeMin, ir.ShapeMax:
		k := keyedForm(x)
		return form{k.size, k.off, 0}
	case ir.ShapeHist, ir.ShapeLhist:
		return keyedForm(x)
	case ir.ShapePlain:
		return form{8 + roundUp(valueSize(x.Value), 8), 8, 0}
	}
	return form{16, 8, 0} // sum
}

// valueSize returns the size of an object in memory: a number takes 8 bytes
// regardless of its type (docs/layouts.md).
func valueSize(l *ir.Layout) int {
	switch l.Kind {
	case ir.LInt, ir.LBool, ir.LPtr, ir.LEnum:
		return 8
	}
	return l.Size
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

func bpfMap(x *ir.Map) ir.BPFMap {
	b := ir.BPFMap{Gens: 1, Loss: -1, MaxEntries: 1, KeySize: 4}
	f := scalarForm(x)
	if x.Key != nil || x.Shape == ir.ShapeStack {
		f = keyedForm(x)
	}
	b.ValueSize, b.ValueOff, b.Present = f.size, f.off, f.present
	switch {
	case x.Shape == ir.ShapeStack:
		b.Type, b.KeySize, b.MaxEntries = "hash", 8, x.MaxEntries
		if b.MaxEntries == 0 {
			b.MaxEntries = defaultStacks
		}
	case x.Key != nil:
		b.KeySize, b.MaxEntries = valueSize(x.Key), x.MaxEntries
		b.Type = keyedType(x)
		if b.MaxEntries == 0 {
			b.MaxEntries = defaultKeys
		}
	default:
		b.Type = "array"
		if perCPU(x) {
			b.Type = "percpu_array"
		}
		if x.Cleared {
			b.Gens, b.MaxEntries = 2, 2
		}
	}
	return b
}

// isExtreme reports whether x is a min() or max() map.
func isExtreme(x *ir.Map) bool { return x.Shape == ir.ShapeMin || x.Shape == ir.ShapeMax }

// perCPU reports whether each CPU has its own value. Plain maps do not; nor do maps that the
// script reads or deletes, because a program cannot read another CPU's value before 5.19 (min and
// max cannot be shared, as no kernel has an atomic one; the script can read them on 5.19 and
// later); nor do keyed histograms, whose value is too large for one per key and CPU (unless the
// script declares it so).
func perCPU(x *ir.Map) bool {
	switch x.Shape {
	case ir.ShapePlain, ir.ShapeStack:
		return false
	case ir.ShapeMin, ir.ShapeMax, ir.ShapeTseries:
		return true
	case ir.ShapeHist, ir.ShapeLhist:
		if x.Key != nil {
			return strings.HasPrefix(x.Declared, "percpu")
		}
	}
	return !x.Read && !(x.Key == nil && x.Deleted)
}

func keyedType(x *ir.Map) string {
	lru := strings.Contains(x.Declared, "lru")
	switch {
	case perCPU(x) && lru:
		return "lru_percpu_hash"
	case perCPU(x):
		return "percpu_hash"
	case lru:
		return "lru_hash"
	}
	return "hash"
}

// buckets returns the number of buckets of a histogram (docs/layouts.md).
func buckets(x *ir.Map) int {
	if x.Shape == ir.ShapeLhist {
		return aggregate.LhistBuckets(x.Min, x.Max, x.Step)
	}
	return aggregate.HistBuckets(x.Bits)
}

// newGen reserves a slot number for a scalar of two slots, a u32 in global "gen".
func newGen(m *ir.Module) int {
	g := global(m, "gen", ir.GlobalData, 0)
	g.Size += 4
	return g.Size - 4
}

// measured lists the maps whose length the script reads.
func measured(m *ir.Module) map[string]bool {
	found := map[string]bool{}
	for _, f := range m.Funcs {
		for _, b := range f.Blocks {
			for _, v := range b.Values {
				if v.Op == ir.OpMapLen {
					found[v.Args[0].Sym] = true
				}
			}
		}
	}
	return found
}

// newLen reserves two words of the map "len": the programs' and the loader's. It returns
// the loader's key.
func newLen(m *ir.Module) int {
	x := intern(m, "len", "array", 4, 8, 0)
	x.BPF.MaxEntries += 2
	return x.BPF.MaxEntries - 1
}

// ownNames are the maps and globals that lowerings create, and bpftool's names for the maps of
// sections. ownPrefixes begin names that end in a number or another name.
var (
	ownNames = []string{
		"events", "len", "seen", usdtSpecs, "lost", "sent", "asleep", "zero", "gen", cachesOn, unknownZero,
		"_license", "data", "bss", "rodata", "rodata_params", "kconfig",
	}
	ownPrefixes = []string{"scratch_", "kstack_", "ustack_", "param_", "opt_", "cache_", "unwind_", "AT_"}
)

// takenNames returns the symbols that a map of the script may not have.
func takenNames(m *ir.Module) map[string]bool {
	taken := map[string]bool{}
	for _, name := range ownNames {
		taken[name] = true
	}
	for _, what := range manifest.HostValues {
		taken[string(what)] = true
	}
	for _, f := range m.Funcs {
		taken[f.Name] = true
	}
	for _, g := range m.Globals {
		taken[g.Name] = true
	}
	for _, x := range m.Maps {
		taken[x.BPF.Name] = true // name of an internal map
	}
	return taken
}

// symbol returns the symbol of a map of the script in the format of a program: "@start" is start, and AT_start
// where that is taken.
func symbol(x *ir.Map, used map[string]bool, format string) string {
	if x.Shape == ir.ShapeStack {
		return unique(x.Name, used)
	}
	s := ir.CIdentifier(strings.TrimPrefix(x.Name, "@"))
	prefixes := ownPrefixes
	if format == ForGadget {
		s, prefixes = gadgetName(s), append(slices.Clip(prefixes), string(ir.EvPrintf)) // prefixes of its ring buffers
	}
	own := func(prefix string) bool { return strings.HasPrefix(s, prefix) }
	if !ir.IsCName(s) || used[s] || slices.ContainsFunc(prefixes, own) {
		s = "AT_" + s
	}
	if format == ForGadget {
		s = gadgetName(s)
	}
	return unique(s, used)
}

// unique makes a name of at most 15 bytes that is not in used.
func unique(s string, used map[string]bool) string {
	s = s[:min(len(s), maxNameLen)]
	for n := 2; used[s]; n++ {
		tail := fmt.Sprintf("_%d", n)
		s = s[:min(len(s), maxNameLen-len(tail))] + tail
	}
	used[s] = true
	return s
}
