// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strconv"
	"strings"
	"sync"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/internal/probe"
)

// Function is one row of the table of builtins and functions, which are used as a plain name, as a call, or as both.
// frontend/irgen finds the code to generate by Name.
type Function struct {
	Name string
	// Agg: an aggregation (count, hist, ...), which is assigned to a map.
	Agg bool
	// Exits: the call ends the program (exit).
	Exits bool
	// Effect: the call has side effects; its result may be ignored.
	Effect bool
	// Supported: the compiler and the loader implement it.
	Supported bool

	value    bool // may be written without parentheses
	min, max int  // numbers of arguments
	unsafe   bool
	in       onlyIn // the kinds of probes that permit it; nil for all
	result   *types.Type
	check    func(b *body, c *callSite) // nil: no arguments, and the result type is result
}

// callSite is one use of a Function while it is checked. Its position and number of
// arguments have been checked.
type callSite struct {
	*Call
	at   ast.Expr // the whole expression
	name ast.Node // the function's name
	args []ast.Expr
	e    *Expr
}

// onlyIn reports whether a kind of probe permits a function.
type onlyIn func(*probe.Type) bool

func inEntry(t *probe.Type) bool  { return t.ArgN }
func inReturn(t *probe.Type) bool { return t.Retval }
func inRegs(t *probe.Type) bool   { return t.Program.HasRegs() }
func inUser(t *probe.Type) bool   { return t.Space == probe.UserSpace }

func inFunc(t *probe.Type) bool {
	return t.Form == probe.Function || t.Form == probe.UserCode || inTyped(t) && t.Program != probe.ProgTPBTF
}

// inSignal: bpf_send_signal needs a current process, so the probe must be in code.
func inSignal(t *probe.Type) bool {
	return t.Space != probe.NoSpace && t.Form != probe.Iterator || t.Kind == probe.Profile
}

func inTyped(t *probe.Type) bool   { return t.Form == probe.Typed }
func inTracing(t *probe.Type) bool { return inTyped(t) || t.Form == probe.Iterator }

// inPath: the kernel allows bpf_d_path in these probes.
func inPath(t *probe.Type) bool { return inTracing(t) && t.Program != probe.ProgTPBTF }

func inPerf(t *probe.Type) bool { return t.Form == probe.Timer || t.Form == probe.Counter }
func inCtx(t *probe.Type) bool {
	return t.Program == probe.ProgKprobe || t.Form == probe.Iterator || inPerf(t)
}

func inKprobe(t *probe.Type) bool { return t.Kind == probe.Kprobe }

// functionTable is the table, by name; it is never written to. argN is one row, "arg".
var functionTable = sync.OnceValue(func() map[string]*Function {
	table := map[string]*Function{}
	for _, group := range [][]Function{
		builtinRows(), stringRows(), mapRows(), outputRows(), searchRows(), hostRows(), metaRows(), unsupportedRows(),
	} {
		for i := range group {
			table[group[i].Name] = &group[i]
		}
	}
	return table
})

// IsBuiltin reports whether a name is that of a builtin or function.
func IsBuiltin(name string) bool {
	_, isArg := argNumber(name)
	return isArg || functionTable()[name] != nil
}

// builtinRows returns the builtins with a value: the current process, time, CPU and so on.
func builtinRows() []Function {
	u64 := types.TUint64
	return []Function{
		{Name: "pid", value: true, max: 1, result: types.TUint32, check: (*body).namespace, Supported: true},
		{Name: "tid", value: true, max: 1, result: types.TUint32, check: (*body).namespace, Supported: true},
		{Name: "uid", value: true, result: u64, Supported: true},
		{Name: "gid", value: true, result: u64, Supported: true},
		{Name: "nsecs", value: true, max: 1, result: u64, check: (*body).nsecs, Supported: true},
		{Name: "elapsed", value: true, result: u64, Supported: true},
		{Name: "cpu", value: true, result: u64, Supported: true},
		{Name: "curtask", value: true, check: (*body).curtask, Supported: true},
		{Name: "rand", value: true, result: u64, Supported: true},
		{Name: "cgroup", value: true, result: u64, Supported: true},
		{Name: "numaid", value: true, result: u64, Supported: true},
		{Name: "jiffies", value: true, result: u64, Supported: true},
		{Name: "ncpus", value: true, result: u64, Supported: true},
		{Name: "cpid", value: true, result: u64, Supported: true},
		{Name: "comm", value: true, max: 1, result: types.MakeString(16), check: (*body).comm, Supported: true},
		{Name: "username", value: true, result: types.TUsername, Supported: true},
		{Name: "ppid", value: true, max: 1, check: (*body).taskField, Supported: true},
		{Name: "pcomm", value: true, max: 1, check: (*body).taskField, Supported: true},
		{Name: "leader_tid", value: true, max: 1, check: (*body).taskField, Supported: true},
		{Name: "leader_comm", value: true, max: 1, check: (*body).taskField, Supported: true},
		{Name: "arg", value: true, in: inEntry, result: u64, check: (*body).register, Supported: true},
		{Name: "retval", value: true, in: inReturn, check: (*body).retval, Supported: true},
		{Name: "func", value: true, in: inFunc, check: (*body).funcName, Supported: true},
		{Name: "ctx", value: true, in: inCtx, check: (*body).ctxValue, Supported: true},
		{Name: "probe", value: true, check: (*body).probeName, Supported: true},
		{Name: "probetype", value: true, check: (*body).probeType, Supported: true},
		{Name: "usermode", value: true, result: types.TUint8, check: (*body).usermode, Supported: true},
		{Name: "kstack", value: true, max: 2, check: (*body).stack, Supported: true},
		{Name: "ustack", value: true, max: 2, check: (*body).stack, Supported: true},
		{Name: "reg", min: 1, max: 1, in: inRegs, result: u64, check: (*body).reg, Supported: true},
		{Name: "ksym", min: 1, max: 1, result: types.TKsym, check: (*body).address, Supported: true},
		{Name: "usym", min: 1, max: 1, result: types.TUsym, check: (*body).address, Supported: true},
		{Name: "kptr", min: 1, max: 1, check: (*body).setSpace, Supported: true},
		{Name: "uptr", min: 1, max: 1, check: (*body).setSpace, Supported: true},
		{Name: "bswap", min: 1, max: 1, check: (*body).bswap, Supported: true},
	}
}

// stringRows returns the rows of functions that return strings and addresses.
func stringRows() []Function {
	return []Function{
		{Name: "str", min: 1, max: 2, check: (*body).str, Supported: true},
		{Name: "buf", min: 1, max: 2, check: (*body).buf, Supported: true},
		{Name: "strncmp", min: 3, max: 3, result: types.TUint64, check: (*body).strncmp, Supported: true},
		{Name: "ntop", min: 1, max: 2, result: types.TInet, check: (*body).ntop, Supported: true},
		{Name: "getopt", min: 1, max: 3, check: (*body).getopt, Supported: true},
		{Name: "strftime", min: 2, max: 2, check: (*body).strftime, Supported: true},
	}
}

// mapRows returns the rows of functions on maps.
func mapRows() []Function {
	return []Function{
		{Name: "count", Agg: true, Supported: true},
		{Name: "sum", min: 1, max: 1, Agg: true, Supported: true},
		{Name: "avg", min: 1, max: 1, Agg: true, Supported: true},
		{Name: "min", min: 1, max: 1, Agg: true, Supported: true},
		{Name: "max", min: 1, max: 1, Agg: true, Supported: true},
		{Name: "stats", min: 1, max: 1, Agg: true, Supported: true},
		{Name: "hist", min: 1, max: 2, Agg: true, Supported: true},
		{Name: "lhist", min: 4, max: 4, Agg: true, Supported: true},
		{Name: "tseries", min: 3, max: 4, Agg: true, Supported: true},
		{Name: "delete", min: 1, max: 2, result: types.TBool, check: (*body).deleteMap, Supported: true},
		{Name: "has_key", min: 2, max: 2, result: types.TBool, check: (*body).hasKey, Supported: true},
		{Name: "len", min: 1, max: 1, result: types.TInt64, check: (*body).lenMap, Supported: true},
		{Name: "stack_len", min: 1, max: 1, result: types.TInt64, check: (*body).lenMap, Supported: true},
		{Name: "clear", min: 1, max: 1, result: types.TNone, Effect: true, check: (*body).wholeMap, Supported: true},
		{Name: "zero", min: 1, max: 1, result: types.TNone, Effect: true, check: (*body).wholeMap, Supported: true},
	}
}

// outputRows returns the rows of functions that send events.
func outputRows() []Function {
	none := types.TNone
	return []Function{
		{Name: "printf", min: 1, max: 128, result: none, Effect: true, check: (*body).printf, Supported: true},
		{Name: "print", min: 1, max: 3, result: none, Effect: true, check: (*body).print, Supported: true},
		{Name: "exit", max: 1, result: none, Effect: true, Exits: true, check: (*body).exit, Supported: true},
		{Name: "time", max: 1, result: none, Effect: true, check: (*body).time, Supported: true},
		{Name: "join", min: 1, max: 2, result: none, Effect: true, check: (*body).join, Supported: true},
		{Name: "cat", min: 1, max: 128, result: none, Effect: true, check: (*body).printf, Supported: true},
		{Name: "system", min: 1, max: 128, result: none, Effect: true, unsafe: true, check: (*body).printf, Supported: true},
	}
}

// unsupportedRows returns the rows of functions of bpftrace that btc refuses. Each has a row so
// that the error names it.
func unsupportedRows() []Function {
	names := "dw_ustack " +
		"elf_is_exe elf_info"
	values := "args"
	var rows []Function
	for _, name := range strings.Fields(names) {
		rows = append(rows, Function{Name: name, max: 128})
	}
	for _, name := range strings.Fields(values) {
		rows = append(rows, Function{Name: name, max: 128, value: true})
	}
	return rows
}

// builtin types a use of the table, a name (args nil) or a call. It reports
// false when the table has no such row.
func (b *body) builtin(at ast.Expr, name string, args []ast.Expr, e *Expr) bool {
	name = strings.TrimPrefix(name, "__builtin_") // as in bpftrace's standard library
	n, isArg := argNumber(name)
	row := name
	if isArg {
		row = "arg"
	}
	fn := b.functions[row]
	_, isCall := at.(*ast.Call)
	if fn == nil || row == "arg" && !isArg || !isCall && !fn.value {
		return false
	}
	c := &callSite{Call: &Call{Fn: fn, N: n}, at: at, name: at, args: args, e: e}
	if call, ok := at.(*ast.Call); ok {
		c.name = call.Func
	}
	e.Call = c.Call
	switch {
	case name == "args":
		if b.argsHere(at) {
			b.allArgs(at, e)
		}
	case !fn.Supported:
		b.unsupported(c.name, "%s", name)
	case fn.Agg:
		b.aggMisuse(at)
	case b.sub != nil && notInSubprog[name]:
		b.fail(diag.NotInThisProbe, at, "%s can only be used inside of a probe.", name)
	case !b.permitted(c, name) || !b.arity(c):
	case isArg && n >= int64(b.argLimit()):
		b.argTooFar(at, n)
	default:
		if isArg {
			b.rawArg(at, n)
		}
		b.accept(c)
		return true
	}
	for _, x := range args { // report errors in the arguments, too
		switch x := ast.Unparen(x).(type) {
		case *ast.Map: // may be valid as a whole map
			b.set(x, &Expr{Type: types.TInvalid})
			continue
		case *ast.Ident:
			if fn.value { // may be a word, as in kstack(perf)
				b.set(x, &Expr{Type: types.TInvalid})
				continue
			}
		}
		b.expr(x)
	}
	return true
}

// compileTimeStrings are functions whose first argument, a literal, is not a value of the program,
// so max_strlen does not apply.
var compileTimeStrings = map[string]bool{
	"printf":   true,
	"errorf":   true,
	"warnf":    true,
	"fail":     true,
	"getopt":   true,
	"cgroupid": true,
}

// accept runs the row's check.
func (b *body) accept(c *callSite) {
	if c.Fn.unsafe {
		b.info.Unsafe = append(b.info.Unsafe, Use{c.Fn.Name, c.at.Span()})
	}
	if c.Fn.check == nil {
		c.e.Type = c.Fn.result
		return
	}
	if len(c.args) > 0 && compileTimeStrings[c.Fn.Name] {
		b.noValue = ast.Unparen(c.args[0])
	}
	if c.Fn.result != nil {
		c.e.Type = c.Fn.result
	}
	c.Fn.check(b, c)
	b.pinnable(c)
}

// argNumber reads "argN".
func argNumber(name string) (int64, bool) {
	digits, ok := strings.CutPrefix(name, "arg")
	if !ok || digits == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 8)
	return int64(n), err == nil
}

// permitted reports whether the builtin is available in the probe.
func (b *body) permitted(c *callSite, name string) bool {
	switch c.Fn.Name {
	case "arg", "retval", "ctx", "reg":
		b.noContext(c.at, name)
	}
	if c.Fn.in == nil || c.Fn.in(b.point.Type) {
		return true
	}
	switch c.Fn.Name {
	case "arg":
		hinted(
			b.fail(diag.NotInThisProbe, c.at,
				"The %s builtin can only be used with 'kprobes', 'uprobes' and 'usdt' probes", name),
			b.point.otherProbe("arg"),
		)
	case "retval":
		d := b.fail(diag.NotInThisProbe, c.at,
			"The retval builtin can only be used with 'kretprobe' and 'uretprobe' and 'fentry' probes")
		if b.point.Kind == probe.Tracepoint {
			d.Message += " (try to use args.ret instead)"
		}
		hinted(d, b.point.otherProbe("retval"))
	case "ctx":
		if b.point.Kind == probe.Tracepoint {
			b.fail(diag.NotInThisProbe, c.at, "Use args instead of ctx in tracepoint")
			return false
		}
		b.fail(diag.NotInThisProbe, c.at, "%s can not be used with \"%s\" probes", name, b.point.Kind)
	case "func":
		b.fail(diag.NotInThisProbe, c.at, "The func builtin can not be used with '%s' probes", b.point.Kind)
	default:
		b.fail(diag.NotInThisProbe, c.at, "%s can not be used with \"%s\" probes", name, b.point.Kind)
	}
	return false
}

// arity checks the number of arguments.
func (b *body) arity(c *callSite) bool {
	n := len(c.args)
	if n >= c.Fn.min && n <= c.Fn.max {
		return true
	}
	want := strconv.Itoa(c.Fn.min)
	if c.Fn.max != c.Fn.min {
		want += " to " + strconv.Itoa(c.Fn.max)
	}
	hinted(b.fail(diag.BadArguments, c.at, "%s() requires %s argument(s), found %d", c.Fn.Name, want, n),
		usage[c.Fn.Name])
	return false
}

// callExpr checks "name(args)".
func (b *body) callExpr(x *ast.Call, e *Expr) {
	name := x.Func.Text
	if b.subprogCall(x, e) {
		return
	}
	if b.builtin(x, name, x.Args, e) || b.oldName(x, name, x.Args, e) {
		return
	}
	for _, a := range x.Args {
		b.expr(a)
	}
	if b.env.Macro(name) {
		b.fail(diag.CSyntax, x.Func, "macro %s is not a function", name)
		return
	}
	d := b.fail(diag.UnknownFunction, x.Func, "Unknown function: '%s'", name)
	if b.final && b.guess() {
		suggest(d, name, "", b.builtinNames())
	}
}
