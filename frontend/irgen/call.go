// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/types"
	"btc/internal/probe"
	"btc/ir"
)

// callFunc generates the code of a builtin or function. The result is nil if it has no value or its value is in
// memory.
type callFunc func(f *fn, x ast.Expr, c *check.Call) *ir.Value

// tables maps names of rows in the checker's table of functions to code generators: for functions with a scalar value
// or none, for functions that return a string (written to dst with the given capacity), and for functions that return
// an object in memory.
type tables struct {
	calls   map[string]callFunc
	strings map[string]func(f *fn, c *check.Call, dst *ir.Value, capacity int)
	objects map[string]func(f *fn, x ast.Expr, c *check.Call, dst *ir.Value)
}

func newTables() *tables {
	return &tables{
		calls: map[string]callFunc{
			"pid":      immediate(ir.OpPid),
			"tid":      immediate(ir.OpTid),
			"nsecs":    immediate(ir.OpNsecs),
			"uid":      plain(ir.OpUid),
			"gid":      plain(ir.OpGid),
			"elapsed":  plain(ir.OpElapsed),
			"cpu":      plain(ir.OpCPU),
			"rand":     plain(ir.OpRand),
			"cgroup":   plain(ir.OpCgroup),
			"numaid":   plain(ir.OpNumaID),
			"jiffies":  plain(ir.OpJiffies),
			"ncpus":    plain(ir.OpNcpus),
			"cpid":     (*fn).childPID,
			"username": plain(ir.OpUid),
			"curtask":  func(f *fn, _ ast.Expr, _ *check.Call) *ir.Value { return f.Emit(ir.OpCurtask, ir.TKAddr) },
			"arg": func(f *fn, x ast.Expr, c *check.Call) *ir.Value {
				v := f.Emit(ir.OpArg, ir.TI64, f.ctx)
				v.Imm = c.N
				return f.as(irType(f.body.Type(x)), v)
			},
			"ctx":       func(f *fn, _ ast.Expr, _ *check.Call) *ir.Value { return f.Cast(ir.TKAddr, f.ctx) },
			"retval":    fromContext(ir.OpRetval),
			"usermode":  fromContext(ir.OpUsermode),
			"func":      fromContext(ir.OpFuncIP),
			"reg":       (*fn).reg,
			"probe":     (*fn).probeID,
			"kstack":    (*fn).kstack,
			"ksym":      firstArg,
			"kptr":      firstArg,
			"uptr":      firstArg,
			"strftime":  firstArg,
			"bswap":     (*fn).bswap,
			"strncmp":   (*fn).strncmp,
			"printf":    formatted(ir.EvPrintf),
			"errorf":    formatted(ir.EvErrorf),
			"warnf":     formatted(ir.EvWarnf),
			"cat":       formatted(ir.EvCat),
			"system":    formatted(ir.EvSystem),
			"print":     (*fn).print,
			"clear":     mapEvent(ir.EvClear),
			"zero":      mapEvent(ir.EvZero),
			"time":      (*fn).time,
			"exit":      (*fn).exit,
			"delete":    (*fn).delete,
			"has_key":   (*fn).hasKey,
			"len":       (*fn).length,
			"stack_len": (*fn).length,

			"strlen":        (*fn).strlen,
			"strstr":        (*fn).strstr,
			"strcontains":   (*fn).strcontains,
			"kaddr":         hostValue,
			"percpu_kaddr":  (*fn).percpuKaddr,
			"cgroupid":      hostValue,
			"cgroup_path":   firstArg,
			"signal":        signal(0),
			"signal_thread": signal(1),
			"override":      (*fn).override,
			"uaddr":         (*fn).uaddr,
			"unwatch":       (*fn).unwatch,
			"debugf":        (*fn).debugf,
			"kfunc_exist":   hostValue,
			"kfunc_allowed": (*fn).kfuncAllowed,
			"socket_cookie": (*fn).socketCookie,
			"skboutput":     (*fn).skbOutput,
			"write_user":    (*fn).writeUser,
			"memcmp":        (*fn).memcmp,
			"join":          (*fn).join,
			"getopt":        (*fn).getopt,
		},
		strings: map[string]func(f *fn, c *check.Call, dst *ir.Value, capacity int){
			"comm":         func(f *fn, _ *check.Call, dst *ir.Value, _ int) { f.Emit(ir.OpComm, ir.TVoid, dst) },
			"str":          (*fn).str,
			"path":         (*fn).path,
			"str_concat":   (*fn).concat,
			"strerror":     numberName,
			"signal_name":  numberName,
			"syscall_name": numberName,
			"getopt": func(f *fn, c *check.Call, dst *ir.Value, capacity int) {
				f.Emit(ir.OpStrCopy, ir.TI64, dst, f.optionAddr(c.Option)).Imm = int64(capacity)
			},
		},
		objects: map[string]func(f *fn, x ast.Expr, c *check.Call, dst *ir.Value){
			"ustack": func(f *fn, x ast.Expr, _ *check.Call, dst *ir.Value) {
				f.withProcess(dst, f.stackID(f.userStack(ir.OpAnyUstack), x))
			},
			"dw_ustack": func(f *fn, x ast.Expr, _ *check.Call, dst *ir.Value) {
				f.withProcess(dst, f.stackID(f.userStack(ir.OpDwUstack), x))
			},
			"usym": func(f *fn, _ ast.Expr, c *check.Call, dst *ir.Value) { f.withProcess(dst, f.num(c.Args[0])) },
			"func": func(f *fn, _ ast.Expr, _ *check.Call, dst *ir.Value) {
				f.withProcess(dst, f.Emit(ir.OpFuncIP, ir.TI64, f.ctx))
			},
			"ntop":    (*fn).ntop,
			"pton":    (*fn).pton,
			"macaddr": (*fn).macaddr,
			"buf":     (*fn).buf,
		},
	}
}

// call builds a call for its scalar value or its effect.
func (f *fn) call(x ast.Expr, e *check.Expr) *ir.Value {
	defer f.here(x)()
	if e.Call.Sub != nil {
		return f.callSub(e)
	}
	if code := f.tables.calls[e.Call.Fn.Name]; code != nil {
		return code(f, x, e.Call)
	}
	if !e.Type.IsScalar() && e.Type.Kind != types.None {
		f.addr(x)
		return nil
	}
	panic("BUG: no code for function " + e.Call.Fn.Name)
}

func plain(op ir.Op) callFunc {
	return func(f *fn, _ ast.Expr, _ *check.Call) *ir.Value { return f.Emit(op, ir.TI64) }
}

func immediate(op ir.Op) callFunc {
	return func(f *fn, _ ast.Expr, c *check.Call) *ir.Value {
		v := f.Emit(op, ir.TI64)
		v.Imm = c.N
		return v
	}
}

func fromContext(op ir.Op) callFunc {
	return func(f *fn, x ast.Expr, _ *check.Call) *ir.Value {
		return f.as(irType(f.body.Type(x)), f.Emit(op, ir.TI64, f.ctx))
	}
}

func firstArg(f *fn, x ast.Expr, c *check.Call) *ir.Value {
	return f.as(irType(f.body.Type(x)), f.num(c.Args[0]))
}

func (f *fn) reg(_ ast.Expr, c *check.Call) *ir.Value {
	v := f.Emit(ir.OpReg, ir.TI64, f.ctx)
	v.Sym = c.Text
	return v
}

func (f *fn) probeID(ast.Expr, *check.Call) *ir.Value {
	v := f.Emit(ir.OpAttachID, ir.TI64)
	v.Imm = int64(f.f.Prog.FirstID)
	if f.f.Prog.Kind == probe.USDT { // the other bits distinguish the probe's locations
		return f.And(v, ir.Const(1<<20-1))
	}
	return v
}

// probeString writes the name of the probe, truncated to the capacity of dst.
func (f *fn) probeString(x ast.Expr, e *check.Expr, dst *ir.Value, t *types.Type) {
	text := e.Type
	e.Type, e.ProbeString = types.TProbe, false
	number := f.scalar(x)
	e.Type, e.ProbeString = text, true
	n := min(text.Size, t.Size)
	f.Emit(ir.OpProbeName, ir.TVoid, dst, number).Imm = int64(n)
	f.zero(f.AddImm(dst, int64(n)), t.Size-n)
}

// userStack returns the operation for a user stack that would be op. The loaders that other formats are for provide no
// tables.
func (f *fn) userStack(op ir.Op) ir.Op {
	if f.info.NoUnwind || f.info.For != "" {
		return ir.OpUstack
	}
	return op
}

func (f *fn) kstack(x ast.Expr, _ *check.Call) *ir.Value { return f.stackID(ir.OpKstack, x) }

// stackID captures a stack and returns its id, 0 for one without frames.
func (f *fn) stackID(op ir.Op, x ast.Expr) *ir.Value {
	t := f.body.Type(x)
	if t.Depth == 0 {
		return ir.Const(0)
	}
	v := f.Emit(op, ir.TI64, f.ctx)
	v.Imm, v.Sym = int64(t.Depth), f.stackMap(op != ir.OpKstack, t.Depth)
	return v
}

func (f *fn) bswap(x ast.Expr, c *check.Call) *ir.Value {
	size := f.body.Type(x).Size
	if size == 1 {
		return f.Extend(ir.U8, f.num(c.Args[0]))
	}
	v := f.Emit(ir.OpBswap, ir.TI64, f.num(c.Args[0]))
	v.Mem = ir.MemKindOf(size, false)
	return v
}

// strncmp generates strncmp(): 0 if the first N bytes of the strings are equal, else 1; 0 for
// length 0.
func (f *fn) strncmp(_ ast.Expr, c *check.Call) *ir.Value {
	if c.N == 0 {
		f.addr(c.Args[0])
		f.addr(c.Args[1])
		return ir.Const(0)
	}
	eq := f.stringsEqual(c.Args[0], c.Args[1], c.N)
	return f.BoolInt(f.ICmp(ir.EQ, f.BoolInt(eq), ir.Const(0)))
}

func (f *fn) delete(_ ast.Expr, c *check.Call) *ir.Value {
	if c.Map.Shape == "tseries" {
		return f.eachInterval(c.Map, c.Keys,
			func(key *ir.Value) *ir.Value { return f.mapOp(ir.OpMapDel, ir.TI1, c.Map, key) })
	}
	return f.BoolInt(f.mapOp(ir.OpMapDel, ir.TI1, c.Map, f.key(c.Map, c.Keys)))
}

func (f *fn) hasKey(_ ast.Expr, c *check.Call) *ir.Value {
	if c.Map.Shape == "tseries" {
		return f.eachInterval(c.Map, c.Keys,
			func(key *ir.Value) *ir.Value { return f.mapOp(ir.OpMapHas, ir.TI1, c.Map, key) })
	}
	return f.BoolInt(f.mapOp(ir.OpMapHas, ir.TI1, c.Map, f.key(c.Map, c.Keys)))
}

// length returns the number of elements of a map, or of frames of a stack.
func (f *fn) length(_ ast.Expr, c *check.Call) *ir.Value {
	if c.Map == nil {
		id := c.Args[0]
		if f.body.Type(id).Kind == types.Kstack {
			return f.Emit(ir.OpStackLen, ir.TI64, f.num(id))
		}
		return f.Emit(ir.OpStackLen, ir.TI64, f.Load(ir.U64, f.addr(id), 0))
	}
	return f.mapOp(ir.OpMapLen, ir.TI64, c.Map, nil)
}

// stringCall writes the string that a function returns.
func (f *fn) stringCall(x ast.Expr, e *check.Expr, dst *ir.Value, capacity int, exact bool) {
	if e.Call.Sub != nil {
		defer f.here(x)()
		f.inline(e, dst, exact)
		return
	}
	code, ok := f.tables.strings[e.Call.Fn.Name]
	if !ok {
		panic("BUG: no code for string function " + e.Call.Fn.Name)
	}
	defer f.here(x)()
	code(f, e.Call, dst, capacity)
}

// str reads a string: from an address, a parameter, or an object in program memory.
func (f *fn) str(c *check.Call, dst *ir.Value, capacity int) {
	src := f.body.Type(c.Args[0])
	limit := ir.Const(int64(capacity) + 1)
	if len(c.Args) > 1 {
		limit = f.num(c.Args[1])
	}
	if src.IsScalar() {
		f.Emit(ir.OpStr, ir.TI64, dst, f.address(c.Args[0]), limit).Imm = int64(capacity)
		return
	}
	if at := f.flexible(c.Args[0]); at != nil {
		f.Emit(ir.OpStr, ir.TI64, dst, at, limit).Imm = int64(capacity)
		return
	}
	if len(c.Args) > 1 && f.body.Expr(c.Args[1]).Const != nil && f.isConstString(c.Args[0]) {
		limit = ir.Const(limit.Imm + 1)
	}
	if src.Kind == types.Array || src.Full { // there may be no NUL in the object
		limit = f.atMost(limit, int64(src.Size)+1)
	}
	f.Emit(ir.OpStr, ir.TI64, dst, f.Cast(ir.TKAddr, f.addr(c.Args[0])), limit).Imm = int64(capacity)
}

// atMost returns the smaller of two lengths.
func (f *fn) atMost(n *ir.Value, most int64) *ir.Value {
	if n.IsConst() {
		return ir.Const(int64(min(uint64(n.Imm), uint64(most))))
	}
	top := ir.Const(most)
	return f.Select(f.ICmp(ir.UGT, n, top), top, n)
}

// flexible returns the address of a flexible array member of a struct, nil if x is another object: the array has no size,
// and is not copied with the struct.
func (f *fn) flexible(x ast.Expr) *ir.Value {
	e := f.body.Expr(x)
	if e.Type.Kind != types.Array || e.Type.Size > 0 || e.Location == nil || e.Location.Root == check.RootValue {
		return nil
	}
	w := f.locate(e.Location)
	if w.base == f.ctx {
		w.base = f.Cast(ir.TKAddr, f.ctx)
	}
	return f.as(addrType(e.Location.Space), f.apply(w))
}

// isConstString reports whether x is a literal or a parameter. The length given for one does not count the NUL, because
// bpftrace truncates them at compile time.
func (f *fn) isConstString(x ast.Expr) bool {
	_, literal := f.literal(x)
	_, param := ast.Unparen(x).(*ast.Positional)
	return literal || param
}

// objectCall writes the object that a function returns.
func (f *fn) objectCall(x ast.Expr, e *check.Expr, dst *ir.Value, t *types.Type) {
	if e.Call.Sub != nil {
		defer f.here(x)()
		f.inline(e, dst, true)
		return
	}
	code, ok := f.tables.objects[e.Call.Fn.Name]
	if !ok {
		panic("BUG: no code for function " + e.Call.Fn.Name + " of type " + t.String())
	}
	defer f.here(x)()
	code(f, x, e.Call, dst)
}

// withProcess stores {word, tgid, 0}, from which the loader resolves user symbols.
func (f *fn) withProcess(dst, word *ir.Value) {
	f.Emit(ir.OpSeenProc, ir.TVoid)
	f.Store(ir.U64, dst, 0, word)
	f.Store(ir.U64, dst, 8, f.Emit(ir.OpPid, ir.TI64)) // u32 tgid, u32 0
}

// Address families and where an inet object keeps its bytes.
const (
	afInet  = 2
	afInet6 = 10
	inetOff = 4
)

// ntop stores {u32 family, bytes}.
func (f *fn) ntop(_ ast.Expr, c *check.Call, dst *ir.Value) {
	f.zero(dst, types.TInet.Store().Size)
	addr := c.Args[len(c.Args)-1]
	t := f.body.Type(addr)
	family := ir.Const(afInet)
	if len(c.Args) == 2 {
		family = f.num(c.Args[0])
	} else if !t.IsScalar() && c.N == 16 {
		family = ir.Const(afInet6)
	}
	f.Store(ir.U32, dst, 0, family)
	if t.IsScalar() {
		f.Store(ir.U32, dst, inetOff, f.num(addr))
		return
	}
	if t.Kind == types.String {
		f.bytesOf(addr, f.AddImm(dst, inetOff), int(c.N))
		return
	}
	n := min(t.Size, 16)
	if f.body.Expr(addr).Location != nil && n == t.Size {
		f.readObject(f.body.Expr(addr), f.AddImm(dst, inetOff))
		return
	}
	f.copy(f.AddImm(dst, inetOff), f.addr(addr), n)
}
