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

	value       bool // may be written without parentheses
	min, max    int  // numbers of arguments
	unsafe      bool
	unsupported bool   // refused by name
	inProbe     bool   // needs the context of a program: not in functions of the script
	text0       bool   // the first argument is a literal for the compiler, to which max_strlen does not apply
	usage       string // of functions with several or unusual arguments, for messages
	in          onlyIn // the kinds of probes that permit it; nil for all
	result      *types.Type
	check       func(b *body, c *callSite) // nil: no arguments, and the result type is result
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

// IsValue reports whether a name is that of a builtin that may be written without parentheses.
func IsValue(name string) bool {
	name = strings.TrimPrefix(name, "__builtin_")
	_, isArg := argNumber(name)
	fn := functionTable()[name]
	return isArg || fn != nil && fn.value
}

// builtinRows returns the builtins with a value: the current process, time, CPU and so on.
func builtinRows() []Function {
	u64 := types.TUint64
	return []Function{
		{Name: "pid", value: true, max: 1, result: types.TUint32, check: (*body).namespace},
		{Name: "tid", value: true, max: 1, result: types.TUint32, check: (*body).namespace},
		{Name: "uid", value: true, result: u64},
		{Name: "gid", value: true, result: u64},
		{Name: "nsecs", value: true, max: 1, result: u64, check: (*body).nsecs},
		{Name: "elapsed", value: true, result: u64},
		{Name: "cpu", value: true, result: u64},
		{Name: "curtask", value: true, check: (*body).curtask},
		{Name: "rand", value: true, result: u64},
		{Name: "cgroup", value: true, result: u64},
		{Name: "numaid", value: true, result: u64},
		{Name: "jiffies", value: true, result: u64},
		{Name: "ncpus", value: true, result: u64},
		{Name: "cpid", value: true, result: u64},
		{Name: "comm", value: true, max: 1, result: types.MakeString(16), check: (*body).comm},
		{Name: "username", value: true, result: types.TUsername},
		{Name: "ppid", value: true, max: 1, check: (*body).taskField},
		{Name: "pcomm", value: true, max: 1, check: (*body).taskField},
		{Name: "leader_tid", value: true, max: 1, check: (*body).taskField},
		{Name: "leader_comm", value: true, max: 1, check: (*body).taskField},
		{Name: "arg", value: true, in: inEntry, result: u64, check: (*body).register},
		{Name: "retval", value: true, in: inReturn, check: (*body).retval},
		{Name: "func", value: true, in: inFunc, check: (*body).funcName},
		{Name: "ctx", value: true, in: inCtx, check: (*body).ctxValue, inProbe: true},
		{Name: "probe", value: true, check: (*body).probeName, inProbe: true},
		{Name: "probetype", value: true, check: (*body).probeType, inProbe: true},
		{Name: "usermode", value: true, result: types.TUint8, check: (*body).usermode},
		{Name: "kstack", value: true, max: 2, check: (*body).stack, inProbe: true, usage: "kstack, kstack(frames) or kstack(mode, frames)"},
		{Name: "ustack", value: true, max: 2, check: (*body).stack, inProbe: true, usage: "ustack, ustack(frames) or ustack(mode, frames)"},
		{Name: "dw_ustack", value: true, max: 2, check: (*body).dwStack, inProbe: true, usage: "dw_ustack, dw_ustack(frames) or dw_ustack(mode, frames)"},
		{Name: "reg", min: 1, max: 1, in: inRegs, result: u64, check: (*body).reg, usage: `reg("ip")`},
		{Name: "ksym", min: 1, max: 1, result: types.TKsym, check: (*body).address, usage: "ksym(address)"},
		{Name: "usym", min: 1, max: 1, result: types.TUsym, check: (*body).address, usage: "usym(address)"},
		{Name: "kptr", min: 1, max: 1, check: (*body).setSpace},
		{Name: "uptr", min: 1, max: 1, check: (*body).setSpace},
		{Name: "bswap", min: 1, max: 1, check: (*body).bswap, usage: "bswap(number)"},
	}
}

// stringRows returns the rows of functions that return strings and addresses.
func stringRows() []Function {
	return []Function{
		{Name: "str", min: 1, max: 2, check: (*body).str, usage: "str(pointer[, length])"},
		{Name: "buf", min: 1, max: 2, check: (*body).buf, usage: "buf(pointer or array[, length])"},
		{Name: "strncmp", min: 3, max: 3, result: types.TUint64, check: (*body).strncmp, usage: "strncmp(string, string, length), which is 0 for equal strings"},
		{Name: "ntop", min: 1, max: 2, result: types.TInet, check: (*body).ntop, usage: "ntop([family, ]address)"},
		{Name: "getopt", min: 1, max: 3, check: (*body).getopt, text0: true, usage: `getopt("name", default[, "what it does"])`},
		{Name: "strftime", min: 2, max: 2, check: (*body).strftime, usage: `strftime("%H:%M:%S", nsecs)`},
	}
}

// mapRows returns the rows of functions on maps.
func mapRows() []Function {
	return []Function{
		{Name: "count", Agg: true, usage: "@x = count()"},
		{Name: "sum", min: 1, max: 1, Agg: true, usage: "@x = sum(number)"},
		{Name: "avg", min: 1, max: 1, Agg: true, usage: "@x = avg(number)"},
		{Name: "min", min: 1, max: 1, Agg: true, usage: "@x = min(number)"},
		{Name: "max", min: 1, max: 1, Agg: true, usage: "@x = max(number)"},
		{Name: "stats", min: 1, max: 1, Agg: true, usage: "@x = stats(number)"},
		{Name: "hist", min: 1, max: 2, Agg: true, usage: "@x = hist(number) or hist(number, bits)"},
		{Name: "lhist", min: 4, max: 4, Agg: true, usage: "@x = lhist(number, min, max, step)"},
		{Name: "tseries", min: 3, max: 4, Agg: true, usage: "@x = tseries(number, interval, intervals[, aggregation]), as in tseries(1, 1s, 10)"},
		{Name: "delete", min: 1, max: 2, result: types.TBool, check: (*body).deleteMap, usage: "delete(@map, key)"},
		{Name: "has_key", min: 2, max: 2, result: types.TBool, check: (*body).hasKey, usage: "has_key(@map, key)"},
		{Name: "len", min: 1, max: 1, result: types.TInt64, check: (*body).lenMap, usage: "len(@map)"},
		{Name: "stack_len", min: 1, max: 1, result: types.TInt64, check: (*body).lenMap, usage: "stack_len(kstack)"},
		{Name: "clear", min: 1, max: 1, result: types.TNone, Effect: true, check: (*body).wholeMap, usage: "clear(@map)"},
		{Name: "zero", min: 1, max: 1, result: types.TNone, Effect: true, check: (*body).wholeMap, usage: "zero(@map)"},
	}
}

// outputRows returns the rows of functions that send events.
func outputRows() []Function {
	none := types.TNone
	return []Function{
		{Name: "printf", min: 1, max: 128, result: none, Effect: true, check: (*body).printf, text0: true, usage: `printf("format", values...)`},
		{Name: "print", min: 1, max: 3, result: none, Effect: true, check: (*body).print, usage: "print(value), print(@map) or print(@map, top, divisor)"},
		{Name: "exit", max: 1, result: none, Effect: true, Exits: true, check: (*body).exit, usage: "exit() or exit(code)"},
		{Name: "time", max: 1, result: none, Effect: true, check: (*body).time},
		{Name: "join", min: 1, max: 2, result: none, Effect: true, check: (*body).join, usage: "join(argv[, separator])"},
		{Name: "cat", min: 1, max: 128, result: none, Effect: true, check: (*body).printf, usage: `cat("/path")`},
		{Name: "system", min: 1, max: 128, result: none, Effect: true, unsafe: true, check: (*body).printf, usage: `system("command", values...)`},
	}
}

// unsupportedRows returns the rows of functions of bpftrace that btc refuses. Each has a row so
// that the error names it.
func unsupportedRows() []Function {
	return []Function{
		{Name: "elf_is_exe", max: 128, unsupported: true},
		{Name: "elf_info", max: 128, unsupported: true},
		{Name: "args", max: 128, value: true}, // (*body).builtin handles it
	}
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
	case fn.unsupported:
		b.unsupported(c.name, "%s", name)
	case fn.Agg:
		b.aggMisuse(at)
	case b.sub != nil && fn.inProbe:
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

// accept runs the row's check.
func (b *body) accept(c *callSite) {
	if c.Fn.unsafe {
		b.info.Unsafe = append(b.info.Unsafe, Use{c.Fn.Name, c.at.Span()})
	}
	if c.Fn.check == nil {
		c.e.Type = c.Fn.result
		return
	}
	if len(c.args) > 0 && c.Fn.text0 {
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
		c.Fn.usage)
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
