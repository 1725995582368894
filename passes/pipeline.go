// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"
	"slices"
	"time"

	"btc/ir"
)

// Pass is a row of the pipeline.
type Pass struct {
	Name   string // as --dump and `btc passes` print it
	Run    func(*ir.Module) []ir.Diag
	Before ir.Stage // the stage of the module before the pass
	After  ir.Stage // and after it
	// Optional says that code is right without the pass, and only larger or slower.
	Optional bool
	Doc      string
}

const (
	required = false
	optional = true
)

// Order says that a pass must run before another: the first row of First comes
// before the first row of Then.
type Order struct {
	First, Then string
	Reason      string
}

// Options of a run. The zero value runs the passes and nothing else.
type Options struct {
	// Verify checks the module after each pass against the rules of its stage; a violation
	// is a panic, because it is always a bug in the pass.
	Verify func(m *ir.Module, s ir.Stage) error
	// Dump is called with the input module ("input") and after each pass.
	Dump func(pass string, m *ir.Module)
	// Frame is how much of a stack frame memory objects may use, in bytes, for scripts that
	// need the rest for other values. 0 means the default.
	Frame int
	// Skip names a pass that does not run, one of those that are optional; "" for none.
	Skip string
	// Measure is called after each pass, with the time it took and the number of functions that it changed, added or
	// removed.
	Measure func(pass string, took time.Duration, changed int)
}

// Optional returns the names of the passes that Options.Skip may name, in the order of their first runs.
func Optional() []string {
	var names []string
	for _, p := range Pipeline() {
		if p.Optional && !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// Run takes m through the whole pipeline. The error is ir.Diags: what in the script cannot
// be compiled, and where.
func Run(m *ir.Module, opt Options) error {
	if diags := tooLarge(m); len(diags) > 0 {
		return ir.Diags(diags)
	}
	rows := Pipeline()
	if opt.Frame > 0 {
		i := slices.IndexFunc(rows, func(p Pass) bool { return p.Name == "slots" })
		rows[i].Run = func(m *ir.Module) []ir.Diag { return placeSlotsWithin(m, opt.Frame) }
	}
	if opt.Skip != "" {
		rows = slices.DeleteFunc(rows, func(p Pass) bool { return p.Optional && p.Name == opt.Skip })
	}
	return run(m, rows, opt)
}

// maxObject bounds a memory object, in bytes. check enforces it after each pass.
const maxObject = 1 << 20

// tooLarge reports the memory objects larger than maxObject, at their first use.
func tooLarge(m *ir.Module) []ir.Diag {
	var diags []ir.Diag
	for _, f := range m.Funcs {
		if !slices.ContainsFunc(f.Slots, func(s *ir.Slot) bool { return s.Size > maxObject }) {
			continue
		}
		reported := map[*ir.Slot]bool{}
		for _, b := range f.Blocks {
			for _, v := range b.Values {
				for _, a := range v.Args {
					if s := a.Slot; s != nil && s.Size > maxObject && !reported[s] {
						reported[s] = true
						diags = append(diags, ir.Diag{
							Pos: v.Pos,
							Text: fmt.Sprintf("a value of %d bytes is used here, the limit is %d", s.Size,
								maxObject),
						})
					}
				}
			}
		}
	}
	return diags
}

func run(m *ir.Module, passes []Pass, opt Options) error {
	if opt.Dump != nil {
		opt.Dump("input", m)
	}
	for _, p := range passes {
		var before map[string]string
		if opt.Measure != nil {
			before = printed(m)
		}
		start := time.Now()
		if diags := p.Run(m); len(diags) > 0 {
			return ir.Diags(diags)
		}
		if opt.Measure != nil {
			took := time.Since(start)
			opt.Measure(p.Name, took, differing(before, printed(m)))
		}
		if opt.Dump != nil {
			opt.Dump(p.Name, m)
		}
		if opt.Verify == nil {
			continue
		}
		if err := opt.Verify(m, p.After); err != nil {
			panic(fmt.Sprintf("BUG: after %s: %v", p.Name, err))
		}
	}
	return nil
}

// printed returns the functions of a module, printed, by name.
func printed(m *ir.Module) map[string]string {
	text := map[string]string{}
	for _, f := range m.Funcs {
		text[f.Name] = f.String()
	}
	return text
}

// differing returns the number of names whose functions differ, or that only one side has.
func differing(before, after map[string]string) int {
	n := 0
	for name, text := range after {
		if old, ok := before[name]; !ok || old != text {
			n++
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			n++
		}
	}
	return n
}

// Pipeline returns the table of passes, in the order of their runs.
func Pipeline() []Pass {
	return []Pass{
		{"lower-library", lowerLibrary, ir.High, ir.High, required, "expands searches of strings, names of probes and actions to loops and helper calls"},
		{"fold", fold, ir.High, ir.High, optional, "constant folding and algebraic simplification"},
		{"cse", cse, ir.High, ir.High, optional, "common subexpression elimination, also of builtins that cannot change during a run"},
		{"simplify-cfg", simplifyCFG, ir.High, ir.High, optional, "removes decided branches and empty blocks"},
		{"direct-reads", directReads, ir.High, ir.High, optional, "loads fields of the current task and of typed arguments directly, where the kernel can"},
		{"dce", dce, ir.High, ir.High, optional, "dead code elimination"},
		{"spill-to-scratch", spillToScratch, ir.High, ir.High, required, "moves long strings and other large objects from the stack to per-CPU scratch"},
		{"sharing", sharing, ir.High, ir.High, required, "decides which programs may run from an attach point that they share"},
		{"map-layout", chooseMaps, ir.High, ir.High, required, "chooses a BPF map for each map of the script"},
		{"lower-aggregations", lowerAggregations, ir.High, ir.High, required, "lowers count .. tseries to in-place updates of map values"},
		{"lower-maps", lowerMaps, ir.High, ir.High, required, "lowers map reads and writes to helper calls and in-place updates"},
		{"lower-output", lowerOutput, ir.High, ir.High, required, "lays out events; lowers emit to a ring buffer record"},
		{"lower-strings", lowerStrings, ir.High, ir.High, required, "lowers string ops to probe reads and comparisons by words"},
		{"lower-builtins", lowerBuiltins, ir.High, ir.High, required, "lowers builtins to helper calls and context loads"},
		{"lower-memory", lowerMemory, ir.High, ir.Core, required, "lowers reads to relocated loads and probe reads"},
		{"fold", fold, ir.Core, ir.Core, optional, "again, for the code that lowering added"},
		{"cse", cse, ir.Core, ir.Core, optional, "again"},
		{"simplify-cfg", simplifyCFG, ir.Core, ir.Core, optional, "again"},
		{"jump-threading", jumpThreading, ir.Core, ir.Core, optional, "jump threading: edges on which the result of a test is known skip it"},
		{"lookup-merging", lookupMerging, ir.Core, ir.Core, optional, "merges lookups of the same element"},
		{"range", decideRanges, ir.Core, ir.Core, optional, "range analysis: decides repeated null tests and comparisons"},
		{"simplify-cfg", simplifyCFG, ir.Core, ir.Core, optional, "again, for the branches that range decided"},
		{"fold", fold, ir.Core, ir.Core, optional, "again"},
		{"store-forwarding", forwardStores, ir.Core, ir.Core, optional, "store forwarding: replaces loads of stored constants; dead store elimination"},
		{"dce", dce, ir.Core, ir.Core, optional, "again"},
		{"architectures", architectures, ir.Core, ir.Core, required, "adds tests for what differs between the architectures of the object"},
		{"sink", sink, ir.Core, ir.Core, optional, "code sinking: moves computations past helper calls, next to their use"},
		{"slots", placeSlots, ir.Core, ir.Core, required, "assigns memory objects to the stack frame or to scratch"},
		{"loop-outlining", outlineLoops, ir.Core, ir.Core, required, "loop outlining: moves bodies of loops over maps into subprograms that the kernel calls"},
		{"opaque-values", opaqueValues, ir.Core, ir.Core, optional, "hides from the verifier values that differ by path and would multiply its states"},
		{"layout", layoutBlocks, ir.Core, ir.Core, optional, "block placement: cold blocks last"},
		{"budget", checkBudget, ir.Core, ir.Core, required, "refuses what no kernel would load"},
	}
}

// Orders lists the constraints on the order of the table; a test checks them.
func Orders() []Order {
	return []Order{
		{"lower-library", "fold", "what it writes is optimized with the rest"},
		{"lower-library", "map-layout", "it adds maps"},
		{"lower-library", "lower-strings", "it writes string ops"},
		{"cse", "lower-builtins", "a builtin that was lowered to several blocks is not recognized"},
		{"fold", "cse", "equal values have equal operands only after folding"},
		{"fold", "simplify-cfg", "decided branches leave blocks to merge"},
		{"simplify-cfg", "map-layout", "unreachable code must not influence the layout of a map"},
		{"cse", "range", "range recognizes tests of one value, not of equal values"},
		{"cse", "lookup-merging", "keys are equal when they hold the same values"},
		{"spill-to-scratch", "lower-maps", "lowering adds reads of bytes that may be uninitialized, and keys are recognized by the map ops"},
		{"cse", "direct-reads", "merged reads need one chain of pointers"},
		{"direct-reads", "dce", "the original reads of the pointers of a chain become dead"},
		{"dce", "spill-to-scratch", "an unused slot needs no scratch"},
		{"dce", "sharing", "dead uses of the context must be gone"},
		{"sharing", "map-layout", "per-CPU caches need programs that do not interrupt each other"},
		{"sharing", "lower-aggregations", "programs that interrupt each other need atomic updates"},
		{"map-layout", "lower-aggregations", "an in-place update needs the layout of the value"},
		{"map-layout", "lower-maps", "an in-place update needs the layout of the value"},
		{"lower-output", "lower-strings", "a string that is only output is read into the end of its event"},
		{"lower-output", "lower-builtins", "comm is written directly into the record"},
		{"lower-strings", "lower-builtins", "the NUL padding of comm is known only while comm is an op"},
		{"lower-strings", "lower-memory", "string ops are lowered to memcopy and memzero"},
		{"lower-memory", "slots", "every lowering adds slots, and this is the last one"},
		{"lower-memory", "lookup-merging", "it works on stores and helper calls"},
		{"jump-threading", "lookup-merging", "threading separates the paths with and without an element, so that fewer elements live across a join"},
		{"lookup-merging", "range", "merged lookups leave repeated null tests"},
		{"simplify-cfg", "jump-threading", "a block that is threaded must hold the test alone"},
		{"jump-threading", "range", "a null test is redundant only if the edge without an element does not reach it"},
		{"range", "slots", "fewer paths leave fewer objects live at a time"},
		{"lower-memory", "store-forwarding", "it works on loads and stores"},
		{"lookup-merging", "store-forwarding", "keys are compared by the stores that write them"},
		{"lookup-merging", "slots", "once keys share stack bytes, a slot does not identify its contents"},
		{"cse", "architectures", "equal reads of a register are recognized while each is one op"},
		{"range", "architectures", "the tests are decided on the host, not at compile time"},
		{"architectures", "sink", "it adds loads for each architecture"},
		{"dce", "sink", "a value without a use cannot be sunk"},
		{"sink", "slots", "sinking extends the live ranges of slots"},
		{"architectures", "slots", "the tests extend live ranges"},
		{"slots", "loop-outlining", "a callback has no scratch record and addresses its caller's frame by offsets"},
		{"loop-outlining", "opaque-values", "it decides which loops stay in place, and their trip counts"},
		{"range", "opaque-values", "a test of an opaque copy does not decide tests of the value"},
		{"opaque-values", "budget", "the copies are instructions, which count"},
		{"loop-outlining", "layout", "it adds blocks and functions"},
		{"slots", "layout", "slots adds cold blocks for missing scratch"},
		{"layout", "budget", "budget counts the final instructions"},
	}
}
