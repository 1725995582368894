// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"
	"slices"
	"strings"

	"btc/internal/probe"
	"btc/ir"
)

// Map formats of other programs (compile --for). A map changes its form only if aggregations are all
// that programs do with it: what reads or deletes an element needs it in one piece.

// Values of Meta.For: programs whose formats map-layout knows.
const (
	ForExporter = "ebpf_exporter"
	ForGadget   = "gadget"
)

// Formats are these programs.
var Formats = []string{ForExporter, ForGadget}

// partsOfKey is the average number of parts of a value for which a keyed map has room.
const partsOfKey = 32

// scalarCPUs is the number of CPUs for whose values a map without a key has room; a keyed map has room for
// partsOfKey of each key.
const scalarCPUs = 1024

// maxParts bounds the elements of a map whose values are split into parts: some 100 MB of kernel
// memory.
const maxParts = 1 << 20

// nameSections puts programs that sample the CPU clock into the section by which Meta.For's program
// attaches them on each CPU. Inspektor Gadget takes the frequency from gadget.yaml.
func nameSections(m *ir.Module) {
	if m.Meta.For == "" {
		return
	}
	for _, f := range m.Funcs {
		if f.Prog == nil || f.Prog.Kind != probe.Profile {
			continue
		}
		hz, ok := f.Prog.Attach.Frequency()
		switch {
		case !ok:
		case m.Meta.For == ForGadget:
			f.Prog.Section = "perf_event/" + f.Name
		default: // PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK
			f.Prog.Section = fmt.Sprintf("perf_event/type=1,config=0,frequency=%d", hz)
		}
	}
}

// mapAdapter returns the function that changes the layout of a map to the format of Meta.For.
func mapAdapter(m *ir.Module) func(x *ir.Map) {
	if m.Meta.For == "" {
		return func(*ir.Map) {}
	}
	other := map[string]bool{} // maps that ops other than aggregations use
	grows := map[string]bool{} // plain maps to which programs add constants
	for _, f := range m.Funcs {
		uses := ir.UseCounts(f)
		for _, b := range f.Blocks {
			for _, v := range b.Values {
				for i, a := range v.Args {
					switch {
					case a.Op != ir.OpMapRef || i == 0 && v.Op.Is(ir.Updates):
					case v.Op == ir.OpMapAdd && uses[v.ID] == 0 && v.Args[1].IsConst() && v.Args[1].Imm > 0:
						grows[a.Sym] = true
					default:
						other[a.Sym] = true
					}
				}
			}
		}
	}
	adapt := exporterForm
	if m.Meta.For == ForGadget {
		adapt = gadgetForm
	}
	return func(x *ir.Map) {
		x.Grows = grows[x.Name] && !other[x.Name] && x.Shape == ir.ShapePlain
		if !other[x.Name] && !strings.HasPrefix(x.BPF.Type, "lru") {
			adapt(x)
		}
	}
}

// setAdds sets Adds of the module's maps.
func setAdds(m *ir.Module) {
	adds, other := map[string]bool{}, map[string]bool{}
	for _, f := range m.Funcs {
		for _, b := range f.Blocks {
			for _, v := range b.Values {
				if len(v.Args) == 0 || v.Args[0].Op != ir.OpMapRef {
					continue
				}
				switch v.Op {
				case ir.OpMapAdd:
					adds[v.Args[0].Sym] = true
				case ir.OpMapSet, ir.OpMapSetMem:
					other[v.Args[0].Sym] = true
				}
			}
		}
	}
	for _, x := range m.Maps {
		x.Adds = adds[x.Name] && !other[x.Name] && x.Shape == ir.ShapePlain && x.Key != nil && holdsStack(x.Key)
	}
}

// exporterForm changes a map to the format of ebpf_exporter, which reads 8-byte numbers: the last
// part of a key is the histogram bucket, and the number after the last bucket is the sum of the
// values. No kernel before 5.12 can change a shared minimum or maximum: the last part of its key is
// the CPU.
func exporterForm(x *ir.Map) {
	switch x.Shape {
	case ir.ShapeMin, ir.ShapeMax:
		inParts(x, scalarCPUs)
	case ir.ShapeHist, ir.ShapeLhist:
		inParts(x, keyedForm(x).size/8+1)
	case ir.ShapeAvg, ir.ShapeStats:
		inParts(x, 2)
	case ir.ShapeSum, ir.ShapePlain:
		if x.Key == nil && (x.Grows || x.Shape == ir.ShapeSum) {
			inHash(x)
		}
	}
}

// gadgetForm changes a map to the format of Inspektor Gadget, which reads and deletes the elements
// of plain hashes.
func gadgetForm(x *ir.Map) {
	switch x.Shape {
	case ir.ShapeCount, ir.ShapeSum, ir.ShapeAvg, ir.ShapeStats, ir.ShapeHist, ir.ShapeLhist:
	case ir.ShapeMin, ir.ShapeMax:
		if x.Key == nil || !holdsStack(x.Key) {
			inParts(x, scalarCPUs)
			x.BPF.Taken = x.BPF.Parts
		}
		return
	case ir.ShapePlain:
		if !x.Grows {
			return
		}
	default:
		return
	}
	switch {
	case x.Key == nil:
		inHash(x)
	case holdsStack(x.Key): // stack frames are not in the key
		return
	}
	x.BPF.Type, x.BPF.Taken = "hash", true
	x.BPF.Low = x.Shape == ir.ShapeHist && x.Bits == 0
}

// gadgetName returns the symbol of a map for Inspektor Gadget, whose names separate their parts by
// "___".
func gadgetName(s string) string {
	for strings.Contains(s, "__") {
		s = strings.ReplaceAll(s, "__", "_")
	}
	s = strings.TrimLeft(s, "_")
	if s = strings.TrimRight(s[:min(len(s), maxNameLen)], "_"); s == "" {
		return "AT"
	}
	return s
}

// markTaken marks the maps whose elements Inspektor Gadget takes, and the parameters that it sets,
// by variables that it looks for.
func markTaken(m *ir.Module) {
	if m.Meta.For != ForGadget {
		return
	}
	for _, g := range slices.Clone(m.Globals) {
		if g.Param != nil && g.Param.Name != "$#" {
			global(m, "gadget_param_"+g.Name, ir.GlobalData, 8).Mark = true
		}
	}
	for _, x := range m.Maps {
		if x.BPF.Taken {
			global(m, "gadget_mapiter_"+x.BPF.Name+"___"+x.BPF.Name, ir.GlobalData, 8).Mark = true
		}
	}
}

// inParts turns each of the n words of a value into an element; of min and max, the value of each of n
// CPUs.
func inParts(x *ir.Map, n int) {
	b, f := &x.BPF, keyedForm(x)
	if x.Key != nil && roundUp(b.KeySize, 8)+8 > maxKeySize {
		return
	}
	keys := 1
	b.ScriptKey, b.ScriptValue = 0, f.size
	if x.Key != nil {
		keys, b.ScriptKey = b.MaxEntries, b.KeySize
		n = min(n, partsOfKey)
	}
	b.Type = "hash"
	switch {
	case isExtreme(x):
	case perCPU(x) && x.Shape != ir.ShapeHist && x.Shape != ir.ShapeLhist, strings.HasPrefix(x.Declared, "percpu"):
		b.Type = "percpu_hash"
	}
	b.Parts, b.KeySize, b.ValueSize = true, roundUp(b.ScriptKey, 8)+8, 8
	b.ValueOff, b.Present, b.Gens = f.off, f.present, 1
	b.MaxEntries = min(keys*n, maxParts)
}

// inHash turns a scalar into element 0 of a hash.
func inHash(x *ir.Map) {
	b, f := &x.BPF, keyedForm(x)
	if perCPU(x) {
		b.Type = "percpu_hash"
	} else {
		b.Type = "hash"
	}
	b.Hashed, b.ScriptKey, b.ScriptValue = true, 0, f.size
	b.KeySize, b.ValueSize, b.ValueOff, b.Present, b.Gens, b.MaxEntries = 4, f.size, f.off, f.present, 1, 1
}
