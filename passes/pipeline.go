// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"
	"slices"

	"btc/ir"
)

// Pass is a row of the pipeline.
type Pass struct {
	Name   string // as --dump and `btc passes` print it
	Run    func(*ir.Module) []ir.Diag
	Before ir.Stage // the stage of the module before the pass
	After  ir.Stage // and after it
	Doc    string
}

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
		said := map[*ir.Slot]bool{}
		for _, b := range f.Blocks {
			for _, v := range b.Values {
				for _, a := range v.Args {
					if s := a.Slot; s != nil && s.Size > maxObject && !said[s] {
						said[s] = true
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
		if diags := p.Run(m); len(diags) > 0 {
			return ir.Diags(diags)
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

// Pipeline returns the table of passes, in the order of their runs.
func Pipeline() []Pass {
	return []Pass{
		{"lower-library", lowerLibrary, ir.High, ir.High, "expands searches of strings, names of probes and actions to loops and helper calls"},
		{"fold", fold, ir.High, ir.High, "constant folding and algebraic simplification"},
		{"cse", cse, ir.High, ir.High, "common subexpression elimination, also of builtins that cannot change during a run"},
		{"sccp", sccp, ir.High, ir.High, "sparse conditional constant propagation"},
		{"simplify-cfg", simplifyCFG, ir.High, ir.High, "removes decided branches and empty blocks"},
		{"direct-reads", directReads, ir.High, ir.High, "loads fields of the current task and of typed arguments directly, where the kernel can"},
		{"dce", dce, ir.High, ir.High, "dead code elimination"},
		{"spill-to-scratch", spillToScratch, ir.High, ir.High, "moves long strings and other large objects from the stack to per-CPU scratch"},
		{"sharing", sharing, ir.High, ir.High, "decides which programs may run from an attach point that they share"},
		{"map-layout", chooseMaps, ir.High, ir.High, "chooses a BPF map for each map of the script"},
		{"lower-aggregations", lowerAggregations, ir.High, ir.High, "lowers count .. tseries to in-place updates of map values"},
		{"lower-maps", lowerMaps, ir.High, ir.High, "lowers map reads and writes to helper calls and in-place updates"},
		{"lower-output", lowerOutput, ir.High, ir.High, "lays out events; lowers emit to a ring buffer record"},
		{"lower-strings", lowerStrings, ir.High, ir.High, "lowers string ops to probe reads and comparisons by words"},
		{"lower-builtins", lowerBuiltins, ir.High, ir.High, "lowers builtins to helper calls and context loads"},
		{"lower-memory", lowerMemory, ir.High, ir.Core, "lowers reads to relocated loads and probe reads"},
		{"fold", fold, ir.Core, ir.Core, "again, for the code that lowering added"},
		{"cse", cse, ir.Core, ir.Core, "again"},
		{"simplify-cfg", simplifyCFG, ir.Core, ir.Core, "again"},
		{"jump-threading", jumpThreading, ir.Core, ir.Core, "jump threading: edges on which the result of a test is known skip it"},
		{"lookup-merging", lookupMerging, ir.Core, ir.Core, "merges lookups of the same element"},
		{"range", decideRanges, ir.Core, ir.Core, "range analysis: decides repeated null tests and comparisons"},
		{"simplify-cfg", simplifyCFG, ir.Core, ir.Core, "again, for the branches that range decided"},
		{"fold", fold, ir.Core, ir.Core, "again"},
		{"store-forwarding", forwardStores, ir.Core, ir.Core, "store forwarding: replaces loads of stored constants; dead store elimination"},
		{"dce", dce, ir.Core, ir.Core, "again"},
		{"architectures", architectures, ir.Core, ir.Core, "adds tests for what differs between the architectures of the object"},
		{"read-forwarding", forwardReads, ir.Core, ir.Core, "lets helpers read directly into the record or key where the value is stored"},
		{"sink", sink, ir.Core, ir.Core, "code sinking: moves computations past helper calls, next to their use"},
		{"slots", placeSlots, ir.Core, ir.Core, "assigns memory objects to the stack frame or to scratch"},
		{"loop-outlining", outlineLoops, ir.Core, ir.Core, "loop outlining: moves bodies of loops over maps into subprograms that the kernel calls"},
		{"opaque-values", opaqueValues, ir.Core, ir.Core, "hides from the verifier values that differ by path and would multiply its states"},
		{"layout", layoutBlocks, ir.Core, ir.Core, "block placement: cold blocks last"},
		{"budget", checkBudget, ir.Core, ir.Core, "refuses what no kernel would load"},
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
		{"fold", "sccp", "sccp evaluates constants and knows no algebraic identities"},
		{"sccp", "simplify-cfg", "decided branches leave blocks to merge"},
		{"sccp", "map-layout", "unreachable code must not influence the layout of a map"},
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
		{"read-forwarding", "sink", "it leaves dead loads"},
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
