// SPDX-License-Identifier: Apache-2.0

package ir

// rule checks what is specific to an op, after the checks that its row implies (number and
// kinds of arguments, result type, map reference and key).
type rule func(c *checker, v *Value)

// generic is the rule for ops that need no checks beyond those of their row.
func generic(*checker, *Value) {}

// rules has a rule for each op that can be placed.
var rules = map[Op]rule{
	OpAdd:     ruleArith,
	OpSub:     ruleArith,
	OpMul:     generic,
	OpUDiv:    generic,
	OpUMod:    generic,
	OpAnd:     generic,
	OpOr:      generic,
	OpXor:     generic,
	OpShl:     generic,
	OpLShr:    generic,
	OpAShr:    generic,
	OpBswap:   ruleMem(U16, U32, U64),
	OpZext:    ruleMem(U8, U16, U32),
	OpSext:    ruleMem(S8, S16, S32),
	OpICmp:    ruleICmp,
	OpSelect:  ruleSelect,
	OpBoolInt: generic,
	OpOpaque:  generic,

	OpLoad:       ruleLoad,
	OpStore:      ruleStore,
	OpAtomicAdd:  ruleAtomicAdd,
	OpCall:       ruleCall,
	OpCallSub:    ruleCallSub,
	OpNonNull:    ruleNonNull,
	OpCast:       ruleCast,
	OpCORE:       ruleCORE,
	OpGlobal:     ruleGlobal,
	OpGlobalAddr: ruleGlobal,
	OpAttachID:   ruleProgram,
	OpSaved:      ruleSaved,
	OpPerArch:    rulePerArch,
	OpMapIter:    ruleWalk,
	OpMapNext:    ruleWalk,
	OpMapKey:     ruleElem,
	OpRangeIter:  generic,
	OpRangeNext:  ruleRange,
	OpRangeCut:   ruleCut,
	OpElemGet:    ruleElem,
	OpElemGetMem: ruleElem,

	OpPid:       generic,
	OpTid:       generic,
	OpUid:       generic,
	OpGid:       generic,
	OpNsecs:     ruleImm(0, 3),
	OpElapsed:   generic,
	OpCPU:       generic,
	OpCurtask:   ruleResult(TKAddr),
	OpRand:      generic,
	OpCgroup:    generic,
	OpNumaID:    generic,
	OpJiffies:   generic,
	OpNcpus:     generic,
	OpArg:       ruleFromCtx,
	OpRetval:    ruleFromCtx,
	OpFuncIP:    ruleFromCtx,
	OpProbeIP:   ruleFromCtx,
	OpReg:       ruleFromCtx,
	OpUsermode:  ruleFromCtx,
	OpComm:      ruleBytes(16),
	OpKstack:    ruleStack,
	OpUstack:    ruleStack,
	OpDwUstack:  ruleStack,
	OpAnyUstack: ruleStack,
	OpSeenProc:  generic,
	OpStackLen:  generic,
	OpProbeName: ruleBytesImm(0),

	OpRead:       ruleRead,
	OpReadMem:    ruleBytesImm(0),
	OpFieldAddr:  generic,
	OpMemCopy:    ruleBytesImm(0, 1),
	OpMemZero:    ruleBytesImm(0),
	OpStrLit:     ruleStrLit,
	OpStr:        ruleBytesImm(0),
	OpStrCopy:    ruleBytesImm(0),
	OpStrEq:      generic,
	OpStrEqMem:   ruleImm(1, 1<<20),
	OpMemEq:      ruleBytesImm(0, 1),
	OpStrLen:     ruleImm(1, 1<<20),
	OpStrFind:    ruleFind,
	OpStrFindMem: ruleFind,
	OpStrConcat:  ruleConcat,
	OpMemCmp:     ruleBytesImm(0, 1),
	OpReadBytes:  ruleBytesImm(0),
	OpMapAddr:    ruleMapAddr,

	OpMapGet:    ruleScalarMap,
	OpMapGetMem: ruleMemMap,
	OpMapSet:    ruleScalarMap,
	OpMapSetMem: ruleMemMap,
	OpMapAdd:    ruleScalarMap,
	OpMapDel:    generic,
	OpMapHas:    generic,
	OpMapLen:    generic,
	OpCount:     ruleShape(ShapeCount),
	OpSum:       ruleShape(ShapeSum),
	OpAvg:       ruleShape(ShapeAvg),
	OpMin:       ruleShape(ShapeMin),
	OpMax:       ruleShape(ShapeMax),
	OpStats:     ruleShape(ShapeStats),
	OpHist:      ruleShape(ShapeHist),
	OpLhist:     ruleShape(ShapeLhist),
	OpTseries:   ruleShape(ShapeTseries),
	OpAggGet:    ruleShape(ShapeCount, ShapeSum, ShapeAvg, ShapeMin, ShapeMax, ShapeStats),

	OpSkbOutput:    ruleSkbOutput,
	OpDebugf:       ruleDebugf,
	OpSignal:       ruleImm(0, 1),
	OpOverride:     ruleFromCtx,
	OpWriteUser:    ruleBytesImm(1),
	OpPath:         rulePath,
	OpSocketCookie: ruleTrusted(0),
	OpEmit:         ruleEmit,
	OpJoin:         ruleJoin,
	OpDivZero:      ruleDivZero,
	OpError:        generic,
	OpFailed:       generic,
}

// value checks v by its row and then by its rule.
func (c *checker) value(v *Value) {
	n := len(c.errs)
	c.row(v)
	if len(c.errs) == n {
		rules[v.Op](c, v)
	}
}

func (c *checker) row(v *Value) {
	info := v.Op.Info()
	kinds, ok := argKinds(info, len(v.Args))
	if !ok {
		c.at(v, "%d arguments", len(v.Args))
		return
	}
	for i, a := range v.Args {
		if want := c.argKind(v, kinds[i], a); want != "" {
			c.at(v, "argument %d is %s, not %s", i+1, describe(a.Type), want)
			return
		}
	}
	if info.Attrs&AMem != 0 && v.Mem == MemNone {
		c.at(v, "no width")
	}
	c.result(v, info)
	if len(kinds) > 0 && kinds[0] == MapArg {
		c.mapOperand(v, kinds)
	}
}

// argKinds returns the kinds for n arguments: the variadic kind repeated, an absent key
// omitted.
func argKinds(info *OpInfo, n int) ([]ArgKind, bool) {
	kinds := info.Args
	if info.Variadic {
		last := kinds[len(kinds)-1]
		for len(kinds) < n {
			kinds = append(kinds[:len(kinds):len(kinds)], last)
		}
		return kinds[:n], n >= len(info.Args)-1
	}
	if n == len(kinds)-1 && kinds[n] == KeyArg {
		return kinds[:n], true
	}
	return kinds, n == len(kinds)
}

// argKind returns what the argument should be, "" if it is.
func (c *checker) argKind(v *Value, k ArgKind, a *Value) string {
	t := a.Type
	switch k {
	case IntArg:
		if t != TI64 {
			return "an i64"
		}
	case BoolArg:
		if t != TI1 {
			return "an i1"
		}
	case AddrArg:
		if !t.IsAddr() || t.Nullable {
			return "an address that cannot be null"
		}
	case PtrArg, KeyArg:
		if !t.IsPtr() || t.Nullable {
			return "a pointer that cannot be null"
		}
	case MapArg:
		if a.Op != OpMapRef {
			return "a map"
		}
	case AnyArg:
		if t.Kind == Void {
			return "a value"
		}
	}
	return ""
}

func (c *checker) result(v *Value, info *OpInfo) {
	want := v.Type
	switch info.Result {
	case RVoid:
		want = TVoid
	case RI64:
		want = TI64
	case RI1:
		want = TI1
	case RArg0:
		want = v.Args[0].Type
	case RNonNull:
		want = v.Args[0].Type.NonNull()
	}
	if v.Type != want {
		c.at(v, "result must be %s", want)
	}
}

// mapOperand checks the map reference and that a key is given if and only if the map has
// one.
func (c *checker) mapOperand(v *Value, kinds []ArgKind) {
	x := c.names.maps[v.Args[0].Sym]
	if x == nil {
		c.at(v, "map %s is not declared", v.Args[0].Sym)
		return
	}
	info := v.Op.Info()
	if info.Args[len(info.Args)-1] != KeyArg {
		return
	}
	switch hasKey := kinds[len(kinds)-1] == KeyArg; {
	case hasKey && x.Key == nil:
		c.at(v, "key given for scalar map %s", x.Name)
	case !hasKey && x.Key != nil:
		c.at(v, "missing key for map %s", x.Name)
	case hasKey:
		c.access(v, v.Args[len(v.Args)-1], 0, x.Key.MemSize(), "key of map "+x.Name)
	}
}

func ruleArith(c *checker, v *Value) {
	t := v.Args[0].Type
	switch {
	case isNumber(t) || t.Kind == BTF && !t.Nullable:
	case t.Kind == Ctx:
		c.at(v, "the context must be used without offset; write constant offsets into the load")
	case t.Nullable:
		c.at(v, "arithmetic on %s before it was tested", describe(t))
	case t.IsPtr():
	default:
		c.at(v, "arithmetic on %s", describe(t))
	}
}

func ruleMem(kinds ...MemKind) rule {
	return func(c *checker, v *Value) {
		for _, k := range kinds {
			if v.Mem == k {
				return
			}
		}
		c.at(v, "width %s is not one of %v", v.Mem, kinds)
	}
}

func ruleImm(lo, hi int64) rule {
	return func(c *checker, v *Value) {
		if v.Imm < lo || v.Imm > hi {
			c.at(v, "immediate is not in %d..%d", lo, hi)
		}
	}
}

func ruleResult(types ...Type) rule {
	return func(c *checker, v *Value) {
		for _, t := range types {
			if v.Type == t {
				return
			}
		}
		if v.Type.Kind != BTF {
			c.at(v, "result cannot be %s", v.Type)
		}
	}
}

// isNumber reports whether the kernel verifier sees t as a plain number.
func isNumber(t Type) bool { return t == TI64 || t.IsForeign() }

func ruleICmp(c *checker, v *Value) {
	x, y := v.Args[0], v.Args[1]
	switch {
	case isNumber(x.Type) && isNumber(y.Type), x.Type == TI1 && y.Type == TI1:
	case x.IsConst() && x.Imm == 0 && y.Type.IsPtr(), y.IsConst() && y.Imm == 0 && x.Type.IsPtr():
		if v.Cond != EQ && v.Cond != NE {
			c.at(v, "a pointer is compared with null for eq or ne only")
		}
	default:
		c.at(v, "%s cannot be compared with %s", describe(x.Type), describe(y.Type))
	}
}

func ruleSelect(c *checker, v *Value) {
	x, y := v.Args[1].Type, v.Args[2].Type
	if x != y || x != v.Type || !isNumber(x) && x != TI1 {
		c.at(v, "select of %s and %s to %s", x, y, v.Type)
	}
}

// ruleNonNull requires a dominating branch that proves it.
func ruleNonNull(c *checker, v *Value) {
	p := v.Args[0]
	if !p.Type.IsPtr() {
		c.at(v, "%s needs no test", describe(p.Type))
		return
	}
	if p.Type.Nullable && c.dom.Reachable(v.Block) && !KnownNonNull(c.dom, c.preds, p, v.Block) {
		c.at(v, "%s is not tested on every path to here", p)
	}
}

// KnownNonNull reports whether a branch that dominates b proves the pointer p not null.
func KnownNonNull(d *DomTree, preds [][]Pred, p *Value, b *Block) bool {
	for x := b; x != nil; x = d.Idom(x) {
		if ps := preds[x.ID]; len(ps) == 1 && provesNonNull(ps[0], p) {
			return true
		}
	}
	return false
}

func provesNonNull(way Pred, p *Value) bool {
	t := &way.Block.Term
	if t.Kind != Br || t.Succs[0].To == t.Succs[1].To || t.Arg.Op != OpICmp {
		return false
	}
	x, y, cond := t.Arg.Args[0], t.Arg.Args[1], t.Arg.Cond
	if way.Succ == 1 {
		cond = cond.Negate()
	}
	zero := func(v *Value) bool { return v.IsConst() && v.Imm == 0 }
	return cond == NE && (x == p && zero(y) || y == p && zero(x))
}

func ruleCast(c *checker, v *Value) {
	from, to := v.Args[0].Type, v.Type
	if a := v.Args[0]; a.Op == OpMapRef && to == TKAddr {
		if c.names.maps[a.Sym] == nil {
			c.at(v, "map %s is not declared", a.Sym)
		}
		return
	}
	if isNumber(to) && (isNumber(from) || from.IsPtr() && !from.Nullable && to != TUAddr) {
		return
	}
	c.at(v, "%s cannot become %s", describe(from), to)
}

func ruleCORE(c *checker, v *Value) {
	if v.CORE.Type == "" || v.Kind.String() == "" {
		c.at(v, "relocation without type or kind")
	}
	if onType := v.Kind == TypeExists || v.Kind == TypeSize; onType != (v.CORE.Path == "") {
		c.at(v, "relocation kind %s and path %q do not match", v.Kind, v.CORE.Path)
	}
}

func ruleGlobal(c *checker, v *Value) {
	g := c.names.globals[v.Sym]
	switch {
	case g == nil:
		c.at(v, "global %s is not declared", v.Sym)
	case v.Imm < 0 || int(v.Imm)+v.Mem.Size() > g.Size:
		c.at(v, "outside of the global's %d bytes", g.Size)
	case v.Op == OpGlobalAddr && v.Type.Kind != MapVal:
		c.at(v, "result must be a mapval of the global's section")
	}
}

func ruleProgram(c *checker, v *Value) {
	if c.f.Prog == nil {
		c.at(v, "only in a program, not in a subprogram")
	}
}

// ruleSaved requires a name that each architecture knows.
func ruleSaved(c *checker, v *Value) {
	ruleFromCtx(c, v)
	for _, a := range c.m.Served() {
		if !a.HasSaved(v.Sym) {
			c.at(v, "%s has no %q", a.Label, v.Sym)
		}
	}
}

// rulePerArch requires a number for each architecture.
func rulePerArch(c *checker, v *Value) {
	for _, a := range c.m.Served() {
		if _, ok := PerArchValue(v.Sym, a); !ok {
			c.at(v, "no number for %s in %q", a.Name, v.Sym)
		}
	}
}

func ruleFromCtx(c *checker, v *Value) {
	if v.Args[0].Type != TCtx {
		c.at(v, "reads the context, not %s", describe(v.Args[0].Type))
	}
}

func ruleStack(c *checker, v *Value) {
	ruleFromCtx(c, v)
	x := c.names.maps[v.Sym]
	if x == nil || x.Shape != ShapeStack {
		c.at(v, "%s is not a stack map", v.Sym)
	} else if v.Imm < 1 || int(v.Imm) > x.Depth || x.User == (v.Op == OpKstack) {
		c.at(v, "does not fit stack map %s (depth %d)", v.Sym, x.Depth)
	}
}

func ruleRead(c *checker, v *Value) {
	if !isNumber(v.Type) && v.Type.Kind != BTF {
		c.at(v, "result cannot be %s", v.Type)
	}
}

// ruleBytes requires n accessible bytes at the first argument.
func ruleBytes(n int) rule {
	return func(c *checker, v *Value) { c.access(v, v.Args[0], 0, n, "destination") }
}

// ruleBytesImm requires Imm accessible bytes at the arguments.
func ruleBytesImm(args ...int) rule {
	return func(c *checker, v *Value) {
		if v.Imm < 1 || v.Imm > 1<<20 {
			c.at(v, "%d bytes", v.Imm)
			return
		}
		for _, i := range args {
			c.access(v, v.Args[i], 0, int(v.Imm), "operand")
		}
	}
}

func ruleStrLit(c *checker, v *Value) {
	ruleBytesImm(0)(c, v)
	if len(v.Sym) > int(v.Imm) {
		c.at(v, "literal of %d bytes does not fit in %d", len(v.Sym), v.Imm)
	}
}

// ruleFind requires capacities that are constants.
func ruleFind(c *checker, v *Value) {
	for i := 1; i < len(v.Args); i += 2 {
		c.capacity(v, i)
	}
}

// capacity requires argument i to be a constant number of bytes.
func (c *checker) capacity(v *Value, i int) {
	if n := v.Args[i]; !n.IsConst() || n.Imm < 1 || n.Imm > 1<<20 {
		c.at(v, "argument %d is not a capacity", i+1)
	}
}

func ruleConcat(c *checker, v *Value) {
	ruleBytesImm(0)(c, v)
	c.capacity(v, 2)
	c.capacity(v, 4)
}

func ruleMapAddr(c *checker, v *Value) {
	if v.Type != TKAddr {
		c.at(v, "result cannot be %s", v.Type)
	}
}

// ruleTrusted requires a pointer to a type of the kernel.
func ruleTrusted(i int) rule {
	return func(c *checker, v *Value) {
		if t := v.Args[i].Type; t.Kind != BTF {
			c.at(v, "argument %d is %s, not a pointer to a kernel type", i+1, describe(t))
		}
	}
}

func rulePath(c *checker, v *Value) {
	ruleBytesImm(0)(c, v)
	ruleTrusted(1)(c, v)
}

func ruleSkbOutput(c *checker, v *Value) {
	ruleTrusted(0)(c, v)
	if c.names.events[v.Sym] == nil {
		c.at(v, "event %s is not declared", v.Sym)
	}
}

// ruleDebugf requires arguments that bpf_trace_printk accepts.
func ruleDebugf(c *checker, v *Value) {
	if len(v.Args) > 3 {
		c.at(v, "%d arguments, the helper takes 3", len(v.Args))
	}
	for _, a := range v.Args {
		if !isNumber(a.Type) && (!a.Type.IsPtr() || a.Type.Nullable) {
			c.at(v, "argument cannot be %s", describe(a.Type))
		}
	}
}

func ruleShape(shapes ...MapShape) rule {
	return func(c *checker, v *Value) {
		x := c.names.maps[v.Args[0].Sym]
		for _, s := range shapes {
			if x.Shape == s {
				return
			}
		}
		c.at(v, "map %s is %s", x.Name, x.Shape)
	}
}

func ruleScalarMap(c *checker, v *Value) {
	ruleShape(ShapePlain)(c, v)
	if x := c.names.maps[v.Args[0].Sym]; x.Value == nil || x.Value.MemSize() > 8 {
		c.at(v, "value of map %s is not a scalar", x.Name)
	}
	switch v.Op {
	case OpMapGet:
		if !isNumber(v.Type) {
			c.at(v, "result cannot be %s", v.Type)
		}
	case OpMapSet:
		if !isNumber(v.Args[1].Type) {
			c.at(v, "value cannot be %s", describe(v.Args[1].Type))
		}
	}
}

func ruleMemMap(c *checker, v *Value) {
	x := c.names.maps[v.Args[0].Sym]
	if x.Value == nil {
		c.at(v, "map %s has no value layout", x.Name)
		return
	}
	c.access(v, v.Args[1], 0, x.Value.MemSize(), "value of map "+x.Name)
}

func ruleEmit(c *checker, v *Value) {
	e := c.names.events[v.Sym]
	if e == nil {
		c.at(v, "event %s is not declared", v.Sym)
		return
	}
	if len(v.Args) != len(e.Fields) {
		c.at(v, "event %s has %d fields", e.Name, len(e.Fields))
	}
	for _, a := range v.Args {
		if !isNumber(a.Type) && (!a.Type.IsPtr() || a.Type.Nullable) {
			c.at(v, "field cannot be %s", describe(a.Type))
		}
	}
}

func ruleJoin(c *checker, v *Value) {
	e := c.names.events[v.Sym]
	if e == nil || len(e.Fields) != 1 || e.Fields[0].Layout.Kind != LBuffer {
		c.at(v, "event %s is not declared with a single buffer", v.Sym)
	}
	if v.Imm < 1 {
		c.at(v, "join of %d strings", v.Imm)
	}
}

func ruleDivZero(c *checker, v *Value) {
	if v.Imm < 0 || int(v.Imm) >= len(c.m.Meta.Errors) {
		c.at(v, "no run-time error with index %d", v.Imm)
	}
}
