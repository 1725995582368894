package passes

import (
	"fmt"
	"slices"
	"strings"

	"btc/ir"
)

// Pass is a row of the pipeline.
type Pass struct {
	Name   string // as --dump and `btc passes` print it
	Run    func(*ir.Module) []ir.Diag
	Before ir.Stage // the stage of the module that the pass takes
	After  ir.Stage // and that it gives
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
	// Verify checks the module after each pass against the rules of its stage;
	// a violation is a panic, for it is always a pass's mistake.
	Verify func(m *ir.Module, s ir.Stage) error
	// Dump is called with the module as it came ("input") and after each pass.
	Dump func(pass string, m *ir.Module)
	// Frame is what memory objects may take of a stack frame, in bytes: for scripts
	// that need the rest of it for other values. 0 means the usual.
	Frame int
}

// Refused is the error of Run: what in the script cannot be compiled, and where.
type Refused []ir.Diag

func (r Refused) Error() string {
	lines := make([]string, len(r))
	for i, d := range r {
		lines[i] = d.Error()
	}
	return strings.Join(lines, "\n")
}

// Run takes m through the whole pipeline. The error is a Refused.
func Run(m *ir.Module, opt Options) error {
	if diags := tooLarge(m); len(diags) > 0 {
		return Refused(diags)
	}
	rows := Pipeline()
	if opt.Frame > 0 {
		i := slices.IndexFunc(rows, func(p Pass) bool { return p.Name == "slots" })
		rows[i].Run = func(m *ir.Module) []ir.Diag { return placeSlotsWithin(m, opt.Frame) }
	}
	return run(m, rows, opt)
}

// maxObject bounds a memory object, in bytes. The rule check holds passes to it.
const maxObject = 1 << 20

// tooLarge reports the memory objects that are beyond maxObject, at their first use.
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
						diags = append(diags, ir.Diag{Pos: v.Pos, Text: fmt.Sprintf("a value of %d bytes is used here, the limit is %d", s.Size, maxObject)})
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
			return Refused(diags)
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

// Pipeline is the table of passes, in the order of their runs.
func Pipeline() []Pass {
	return []Pass{
		{"fold", fold, ir.High, ir.High, "what is constant is computed"},
		{"cse", cse, ir.High, ir.High, "equal values, and builtins that cannot change during a run, are one"},
		{"sccp", sccp, ir.High, ir.High, "what is constant on every path that is taken, also around loops, is computed"},
		{"simplify-cfg", simplifyCFG, ir.High, ir.High, "decided branches and empty blocks go"},
		{"direct-reads", directReads, ir.High, ir.High, "fields of the current task and of typed arguments are loaded, where the kernel can"},
		{"dce", dce, ir.High, ir.High, "what no one uses is dropped"},
		{"large-slots", largeSlots, ir.High, ir.High, "long strings and other large objects are to live in scratch"},
		{"sharing", sharing, ir.High, ir.High, "which programs may run from an attach point that they share is decided"},
		{"map-layout", chooseMaps, ir.High, ir.High, "each map of the script gets its BPF map"},
		{"lower-aggregations", lowerAggregations, ir.High, ir.High, "count .. tseries become in-place changes of map values"},
		{"lower-maps", lowerMaps, ir.High, ir.High, "map reads and writes become helper calls and in-place changes"},
		{"lower-output", lowerOutput, ir.High, ir.High, "events are laid out; emit becomes a ring buffer record"},
		{"lower-strings", lowerStrings, ir.High, ir.High, "string ops become probe reads and compares by words"},
		{"lower-builtins", lowerBuiltins, ir.High, ir.High, "builtins become helper calls and context loads"},
		{"lower-memory", lowerMemory, ir.High, ir.Core, "reads become relocated loads and probe reads"},
		{"fold", fold, ir.Core, ir.Core, "again, for what lowering made"},
		{"cse", cse, ir.Core, ir.Core, "again"},
		{"simplify-cfg", simplifyCFG, ir.Core, ir.Core, "again"},
		{"thread-tests", threadTests, ir.Core, ir.Core, "edges on which a test's answer is known pass it by"},
		{"map-lookups", mergeLookups, ir.Core, ir.Core, "accesses of one element share one look-up"},
		{"range", decideRanges, ir.Core, ir.Core, "repeated null tests and comparisons with one answer are decided"},
		{"simplify-cfg", simplifyCFG, ir.Core, ir.Core, "again, for what range decided"},
		{"fold", fold, ir.Core, ir.Core, "again"},
		{"stores", stores, ir.Core, ir.Core, "constants that a slot holds are not loaded; stores that no one reads go"},
		{"dce", dce, ir.Core, ir.Core, "again"},
		{"architectures", architectures, ir.Core, ir.Core, "what differs between the architectures that the object serves is tested for"},
		{"read-into", readInto, ir.Core, ir.Core, "what is read to be stored in a record or a key is read into it"},
		{"sink", sink, ir.Core, ir.Core, "what is computed early is computed next to its use, past helper calls"},
		{"slots", placeSlots, ir.Core, ir.Core, "memory objects get their place in the frame or in scratch"},
		{"callbacks", callbacks, ir.Core, ir.Core, "walks over maps become subprograms that the kernel calls"},
		{"opaque-values", hideValues, ir.Core, ir.Core, "values that differ by path and would multiply the verifier's states get copies that it knows nothing of"},
		{"layout", layoutBlocks, ir.Core, ir.Core, "cold blocks go last"},
		{"budget", checkBudget, ir.Core, ir.Core, "what no kernel would load is refused"},
	}
}

// Orders lists the constraints on the order of the table; a test checks them.
func Orders() []Order {
	return []Order{
		{"cse", "lower-builtins", "a builtin that has become several blocks is not recognised any more"},
		{"fold", "cse", "equal values have equal operands only once they are folded"},
		{"fold", "sccp", "it knows numbers only, no identities of ops"},
		{"sccp", "simplify-cfg", "the branches that it decides leave blocks to merge"},
		{"sccp", "map-layout", "what no path reaches has no say in how a map is laid out"},
		{"cse", "range", "tests of one value are recognised, tests of equal values not"},
		{"cse", "map-lookups", "keys are equal when they hold the same values"},
		{"large-slots", "lower-maps", "accesses to bytes that may be unwritten are made by the lowerings, and keys are recognised by the map ops"},
		{"cse", "direct-reads", "reads that are one need one chain"},
		{"direct-reads", "dce", "the pointers of a chain are read again where they must be, and dropped where they were"},
		{"dce", "large-slots", "a slot that no one uses needs no scratch"},
		{"dce", "sharing", "a use of the context that is dropped is none"},
		{"sharing", "map-layout", "caches of a CPU are for maps that no program interrupts another at"},
		{"sharing", "lower-aggregations", "what programs that interrupt each other change takes atomics"},
		{"map-layout", "lower-aggregations", "a change in place needs the layout of the value"},
		{"map-layout", "lower-maps", "the same"},
		{"lower-output", "lower-strings", "a string read only for an event is read into the event's tail"},
		{"lower-output", "lower-builtins", "comm is written straight into the record"},
		{"lower-strings", "lower-builtins", "what comm wrote is known to be filled with NULs only while it is an op of its own"},
		{"lower-strings", "lower-memory", "string ops leave memcopy and memzero behind"},
		{"lower-memory", "slots", "all lowerings make slots, and this is the last of them"},
		{"lower-memory", "map-lookups", "it looks at stores and helper calls"},
		{"thread-tests", "map-lookups", "an element lives across a join of its two ways only where they are not led apart"},
		{"map-lookups", "range", "the null tests of look-ups that became one are repeated tests"},
		{"simplify-cfg", "thread-tests", "a block must be the test alone"},
		{"thread-tests", "range", "a null test is repeated only when the edge without an element does not lead to it"},
		{"range", "slots", "the fewer paths, the fewer objects are needed at one time"},
		{"lower-memory", "stores", "it looks at loads and stores"},
		{"map-lookups", "stores", "keys are equal by the stores that write them"},
		{"map-lookups", "slots", "once keys share frame bytes, what one holds cannot be told from its slot"},
		{"cse", "architectures", "equal reads of a register are recognised while they are one op"},
		{"range", "architectures", "the tests have one answer on each host, but not here"},
		{"read-into", "sink", "a load stays where no one needs it any more"},
		{"architectures", "sink", "the loads of each architecture stand side by side then"},
		{"dce", "sink", "what no one uses has no place to go to"},
		{"sink", "slots", "slots that are read later are needed longer"},
		{"architectures", "slots", "what lives across the tests is known then"},
		{"slots", "callbacks", "a callback has no scratch record of its own and reaches its caller's frame by offsets"},
		{"callbacks", "opaque-values", "which loops stay in place is known then, and what they turn by"},
		{"range", "opaque-values", "a test of a copy decides no test of the value"},
		{"opaque-values", "budget", "the copies are instructions"},
		{"callbacks", "layout", "it makes blocks and functions"},
		{"slots", "layout", "slots adds cold blocks where scratch is missing"},
		{"layout", "budget", "budget measures the final code"},
	}
}
