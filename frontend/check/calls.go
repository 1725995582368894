// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/internal/probe"
	"btc/internal/spell"
)

func nearest(name string, all []string) string { return spell.Nearest(name, all) }

// suggest adds a "did you mean" hint for a misspelt name to a message.
func suggest(d *diag.Diagnostic, name, sigil string, all []string) {
	if near := nearest(name, all); near != "" {
		d.Hint("did you mean %s%s?", sigil, near)
	}
}

// namesOf returns the keys of a table of names, in order.
func namesOf[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// fieldNames returns the names of a record's fields.
func fieldNames(t *types.Type) []string {
	var all []string
	for _, f := range t.Fields {
		all = append(all, f.Name)
	}
	return all
}

// wordArg returns an argument that is one of the given words, not an expression.
func (b *body) wordArg(x ast.Expr, words ...string) (int, string) {
	id, ok := ast.Unparen(x).(*ast.Ident)
	if !ok {
		return -1, x.Span().Text()
	}
	b.set(id, &Expr{Type: types.TNone})
	for i, w := range words {
		if w == id.Name {
			return i, id.Name
		}
	}
	return -1, id.Name
}

// namespace checks pid(curr_ns), tid(init).
func (b *body) namespace(c *callSite) {
	if len(c.args) == 0 {
		return
	}
	n, text := b.wordArg(c.args[0], "curr_ns", "init")
	if n < 0 {
		b.fail(diag.BadArguments, c.args[0], "Invalid PID namespace mode: %s (expects: curr_ns or init)", text)
		return
	}
	c.N = int64(n)
}

// nsecs checks nsecs(mode).
func (b *body) nsecs(c *callSite) {
	if len(c.args) == 0 {
		return
	}
	n, text := b.wordArg(c.args[0], "boot", "monotonic", "tai", "sw_tai")
	if n < 0 {
		b.fail(diag.BadArguments, c.args[0], "Invalid timestamp mode: %s", text).Hint("boot, monotonic, tai or sw_tai")
		return
	}
	c.N = int64(n)
}

func (b *body) curtask(c *callSite) {
	t, ok := b.env.Tagged("struct", "task_struct")
	if !ok {
		c.e.Type = types.TUint64
		return
	}
	c.e.Type = types.MakePointer(t, types.Kernel)
}

// taskFields are the builtins that are fields of a task.
var taskFields = map[string][]string{
	"ppid": {"real_parent", "pid"}, "pcomm": {"real_parent", "comm"},
	"leader_tid": {"group_leader", "pid"}, "leader_comm": {"group_leader", "comm"},
}

// taskField checks ppid, pcomm, leader_tid and leader_comm, of the current task or of the given
// one. The result has the facts of the field.
func (b *body) taskField(c *callSite) {
	ext := ast.Ext(c.at.Span())
	var x ast.Expr = &ast.Ident{Extent: ext, Name: "curtask"}
	if len(c.args) > 0 {
		x = c.args[0]
	}
	for _, name := range taskFields[c.Fn.Name] {
		x = &ast.Field{Extent: ext, X: x, Name: &ast.Name{Extent: ext, Text: name}}
	}
	*c.e = *b.expr(x)
}

func (b *body) comm(c *callSite) {
	if len(c.args) > 0 {
		b.value(c.args[0])
		b.unsupported(c.at, "comm() of another task")
		c.e.Type = types.TInvalid
	}
}

func (b *body) retval(c *callSite) {
	c.e.Type = types.TUint64.WithSpace(b.point.Space())
	if b.point.Kind == probe.Fexit || b.point.Kind == probe.Fentry {
		proto := b.proto()
		if proto == nil {
			b.fail(diag.NoArgs, c.at, "the target has no prototype of %s, so its return value is not known",
				b.point.Name)
			c.e.Type = types.TInvalid
			return
		}
		b.argLocation(c.at, c.e, proto, -1)
	}
}

func (b *body) funcName(c *callSite) {
	b.out.UsesFunc = true
	c.e.Type = types.TKsym
	if b.point.Type.Space == probe.UserSpace {
		c.e.Type = types.TUsym
	}
}

func (b *body) probeName(c *callSite) {
	b.out.UsesID = true
	c.e.Type = types.TProbe
}

func (b *body) probeType(c *callSite) { b.stringConst(c.at, c.e, b.point.Type.TypeName()) }

// maxFrames is the maximum number of frames of a stack; defaultFrames that of a plain
// kstack.
const (
	maxFrames     = 1024
	defaultFrames = 127
)

// stack checks kstack, ustack([mode][, limit]).
func (b *body) stack(c *callSite) {
	if k := b.point.Kind; k == probe.Test || k == probe.Bench {
		b.fail(diag.NotInThisProbe, c.at, "%s can not be used with %q probes", c.Fn.Name, k)
	}
	user := c.Fn.Name != "kstack"
	mode, depth := b.info.Config.StackMode, int64(defaultFrames)
	args := c.args
	if len(args) > 0 {
		if id, ok := ast.Unparen(args[0]).(*ast.Ident); ok && !b.isConstant(id.Name) {
			if n, text := b.wordArg(id, "bpftrace", "perf", "raw", "build_id"); n < 0 {
				b.fail(diag.BadArguments, id, "Invalid stack mode: %s", text).Hint("bpftrace, perf, raw or build_id")
			} else {
				mode = text
			}
			args = args[1:]
		}
	}
	if len(args) > 0 {
		n, ok := b.constInt(args[0], c.Fn.Name)
		switch {
		case ok && n > maxFrames:
			b.fail(diag.BadArguments, args[0], "%s([int limit]): limit shouldn't exceed %d, %d given", c.Fn.Name,
				maxFrames, n)
		case ok && n < 0:
			b.fail(diag.BadArguments, args[0], "%s([int limit]): limit must not be negative, %d given", c.Fn.Name, n)
		case ok:
			depth = n
		}
		if len(args) > 1 {
			b.fail(diag.BadArguments, args[1], "%s() takes a mode and then a limit", c.Fn.Name)
		}
	}
	if mode == "build_id" && !user {
		if mode == b.info.Config.StackMode {
			b.fail(diag.Ignored, c.at, "'build_id' stack mode can only be used for ustack. Falling back to 'raw' mode.")
		} else {
			b.fail(diag.BadArguments, c.at, "'build_id' stack mode can only be used for ustack")
		}
		mode = "raw"
	}
	c.N, c.Text = depth, mode
	c.e.Type = types.MakeStack(user, mode, int(depth))
}

// dwStack checks dw_ustack([mode][, limit]).
func (b *body) dwStack(c *callSite) {
	b.unstable("dw_ustack", c.at)
	b.stack(c)
}

func (b *body) isConstant(name string) bool {
	_, ok, _ := b.env.Constant(name)
	return ok
}

// noRegister reports an unknown register. The hint is the processor's name for it, the nearest name, or all names.
func (b *body) noRegister(at ast.Node, name string) {
	d := b.fail(diag.BadArguments, at, "'%s' is not a valid register on this architecture (%s)", name, b.t.Arch().Name)
	var all []string
	for _, r := range b.t.Arch().Regs {
		all = append(all, r.Name)
	}
	lower := strings.ToLower(name)
	for _, known := range []string{lower, strings.TrimPrefix(lower, "r"), strings.TrimPrefix(lower, "e")} {
		if slices.Contains(all, known) {
			d.Hint("did you mean %s?", known)
			return
		}
	}
	if near := nearest(lower, all); near != "" {
		d.Hint("did you mean %s?", near)
	}
	d.Hint("the registers are %s", strings.Join(all, " "))
}

// register checks argN: the register that holds the argument in the probed code.
func (b *body) register(c *callSite) {
	if c.Fn.Name == "arg" && b.point.Kind == probe.USDT { // the loader extends an argument by the sign in its note
		c.e.Type = types.TInt64
	}
	c.e.Type = c.e.Type.WithSpace(b.point.Space())
}

// usermode checks the builtin usermode. It is the literal 1 in programs that the loader runs itself, and 0 in a program
// without registers, because kernel code calls the program.
func (b *body) usermode(c *callSite) {
	switch t := b.point.Type; {
	case t.Runner == probe.Loader:
		setNumber(c.e, big.NewInt(1), false)
	case !t.Program.HasRegs():
		setNumber(c.e, new(big.Int), false)
	}
}

func (b *body) reg(c *callSite) {
	b.register(c)
	name, ok := b.literal(c, 0)
	if !ok {
		return
	}
	if _, known := b.t.Arch().Reg(name); !known {
		b.noRegister(c.args[0], name)
		return
	}
	c.Text = name
}

// literal returns argument i, which must be a string literal.
func (b *body) literal(c *callSite, i int) (string, bool) {
	t := b.value(c.args[i])
	if k := b.out.Expr(c.args[i]).Const; k != nil && k.IsStr {
		return k.Str, true
	}
	if !invalid(t) {
		ordinal := [...]string{"first", "second", "third", "fourth"}[min(i, 3)]
		b.fail(diag.NotConstant, c.args[i], "%s() expects a string literal as the %s argument", c.Fn.Name, ordinal)
	}
	return "", false
}

// loadString returns argument i, a string that is known when the object is loaded: a literal, or
// the parameter from, as in Call.From.
func (b *body) loadString(c *callSite, i int) (text, from string, ok bool) {
	x := ast.Unparen(c.args[i])
	if call, is := x.(*ast.Call); is && call.Func.Text == "str" {
		if p, is := loneParam(call); is && !invalid(b.value(x)) {
			return "", fmt.Sprintf("$%d", p.N), true
		}
	}
	t := b.value(x)
	if call := b.out.Expr(x).Call; call != nil && call.Option != nil && t.Kind == types.String {
		return "", "--" + call.Option.Name, true
	}
	text, ok = b.literal(c, i)
	return text, "", ok
}

// address checks ksym(n), usym(n).
func (b *body) address(c *callSite) {
	t := b.value(c.args[0])
	if !invalid(t) && !t.IsInteger() && t.Kind != types.Pointer {
		b.fail(diag.BadArguments, c.args[0], "%s() only supports integer and pointer arguments (%s provided)",
			c.Fn.Name, t)
		c.e.Type = types.TInvalid
	}
	c.Args = c.args
}

// setSpace checks kptr(p), uptr(p).
func (b *body) setSpace(c *callSite) {
	t := b.value(c.args[0])
	space := types.Kernel
	if c.Fn.Name == "uptr" {
		space = types.User
	}
	c.Args = c.args
	switch {
	case invalid(t):
		c.e.Type = types.TInvalid
	case t.Kind == types.Pointer:
		c.e.Type = t.WithSpace(space)
	case t.IsInteger():
		c.e.Type = types.MakePointer(types.TNone, space)
	default:
		b.fail(diag.BadArguments, c.args[0], "%s() only supports pointer arguments (%s provided)", c.Fn.Name, t)
	}
}

func (b *body) bswap(c *callSite) {
	t := b.integer(c.args[0], "bswap")
	c.Args = c.args
	if invalid(t) {
		return
	}
	c.e.Type = types.MakeInt(t.Size, false)
}

// str checks str(p[, n]): n counts the NUL.
func (b *body) str(c *callSite) {
	limit := b.info.Config.MaxStrlen
	t := b.strSource(c)
	c.Args = c.args
	c.N = int64(limit)
	if len(c.args) > 1 {
		b.strLength(c, limit)
	}
	c.e.Type = types.MakeString(int(c.N))
	switch {
	case invalid(t):
		c.e.Type = types.TInvalid
	case b.strLiteral(c, t):
	case t.Kind == types.Int, t.Kind == types.Enum, t.Kind == types.Pointer, t.Kind == types.String:
	case t.Kind == types.Array && t.Elem.IsInteger() && t.Elem.Size == 1:
	default:
		b.fail(diag.BadArguments, c.args[0],
			"str() expects an integer or a pointer type as first argument (%s provided)", t)
		c.e.Type = types.TInvalid
	}
}

// strSource types the first argument of str; a literal that str truncates may be longer than max_strlen.
func (b *body) strSource(c *callSite) *types.Type {
	if len(c.args) > 1 && literalString(c.args[0]) {
		b.folding++
		defer func() { b.folding-- }()
	}
	return b.asString(c.args[0])
}

// strLiteral folds str of a literal string or number, truncated to a literal length that does not count the NUL; it
// reports whether c is such a call. A number becomes the string of its digits, not an address.
func (b *body) strLiteral(c *callSite, t *types.Type) bool {
	k := b.out.Expr(c.args[0]).Const
	if k == nil || !k.lit || k.Host || !k.IsStr && t.Kind != types.Int {
		return false
	}
	s := k.Str
	if !k.IsStr {
		s = decimal(k.Int, t)
	}
	if len(c.args) > 1 {
		n := b.out.Expr(c.args[1]).Const
		if n == nil || n.IsStr || n.Host || n.Int < 0 {
			return false
		}
		s = s[:min(len(s), int(min(n.Int, maxString)))]
	}
	b.stringConst(c.at, c.e, s)
	return true
}

// decimal formats a constant of type t in decimal.
func decimal(v int64, t *types.Type) string {
	if t.Signed {
		return strconv.FormatInt(v, 10)
	}
	return strconv.FormatUint(uint64(v), 10)
}

// strLength reads the second argument of str: a constant decides the capacity.
func (b *body) strLength(c *callSite, limit int) {
	t := b.integer(c.args[1], "str")
	k := b.out.Expr(c.args[1]).Const
	switch {
	case invalid(t) || k == nil || k.IsStr || k.Host:
	case k.Int < 0 && t.Signed:
		b.fail(diag.BadArguments, c.args[1], "str cannot use negative length (%d)", k.Int)
	case uint64(k.Int) >= uint64(limit):
		b.fail(diag.LengthShortened, c.args[1],
			"length param (%s) is too long and will be shortened to %d bytes (see BPFTRACE_MAX_STRLEN)",
			decimal(k.Int, t), limit)
	default:
		c.N = k.Int + 1
	}
}

// bufKinds are the kinds of types that buf() reads, apart from integers.
var bufKinds = []types.Kind{types.Pointer, types.String, types.Array, types.Struct}

// buf checks buf(p[, n]).
func (b *body) buf(c *callSite) {
	limit := int64(b.info.Config.MaxStrlen - 4)
	t := b.value(c.args[0])
	c.Args, c.N = c.args, limit
	switch {
	case !invalid(t) && !t.IsInteger() && !slices.Contains(bufKinds, t.Kind):
		b.fail(diag.BadArguments, c.args[0], "buf() expects an integer, string, or array argument but saw %s", t)
	case len(c.args) > 1:
		n := b.value(c.args[1])
		if !b.bareAddress(c.args[1]) { // bpftrace treats uptr(n) as a number
			n = b.integer(c.args[1], "buf")
		}
		switch k := b.out.Expr(c.args[1]).Const; {
		case invalid(n) || k == nil:
		case k.Int < 0 && n.Signed:
			b.fail(diag.BadArguments, c.args[1], "buf cannot use negative length (%d)", k.Int)
		default:
			c.N = max(0, min(k.Int, limit))
		}
	case t.Kind == types.Array || t.Kind == types.String:
		c.N = min(int64(t.Size), limit)
	case !invalid(t):
		b.fail(diag.BadArguments, c.at, "buf() expects a length argument for non-array type %s", t)
	}
	c.e.Type = types.MakeBuffer(int(c.N))
}

func (b *body) strncmp(c *callSite) {
	for _, x := range c.args[:2] {
		if t := b.stringArg(x); !invalid(t) && t.Kind != types.String {
			b.fail(diag.BadArguments, x, "strncmp() only supports string arguments (%s provided)", t)
		}
	}
	n, ok := b.constInt(c.args[2], "strncmp")
	if ok && n < 0 {
		b.fail(diag.BadArguments, c.args[2], "Builtin strncmp requires a non-negative size")
	}
	c.Args, c.N = c.args[:2], n
}

// ntop checks ntop([af,] addr).
func (b *body) ntop(c *callSite) {
	addr := c.args[len(c.args)-1]
	if len(c.args) == 2 {
		b.integer(c.args[0], "ntop")
	}
	t := b.value(addr)
	c.Args, c.N = c.args, int64(t.Size)
	if loc := b.out.Expr(addr).Location; loc != nil && t.Kind == types.String { // char[4] of a C struct
		c.N = int64(cmp.Or(loc.Chars, t.Size))
		if c.N == 4 || c.N == 16 {
			return
		}
	}
	switch {
	case invalid(t), t.IsInteger():
	case t.Kind == types.Array && t.Elem.IsInteger() && (t.Size == 4 || t.Size == 16):
	// struct in_addr, in6_addr
	case t.Kind == types.Struct && (t.Size == 4 || t.Size == 16) && b.out.Expr(addr).Location != nil:
	default:
		b.fail(diag.BadArguments, addr, "ntop() expects an integer or array argument, got %s", t)
	}
}

// strftime checks strftime(format, ns).
func (b *body) strftime(c *callSite) {
	format, from, ok := b.loadString(c, 0)
	t := b.integer(c.args[1], "strftime")
	clock := int64(0)
	if call := b.out.Expr(c.args[1]).Call; call != nil && call.Fn.Name == "nsecs" {
		clock = call.N
	}
	if k := b.out.Expr(c.args[1]).Const; k != nil && k.Int < 0 && t.Signed {
		b.fail(diag.BadArguments, c.args[1], "strftime() can not take a negative timestamp")
		ok = false
	}
	if clock == 1 {
		b.fail(diag.BadArguments, c.args[1], "strftime() can not take a monotonic timestamp")
		ok = false
	}
	if !ok || invalid(t) {
		return
	}
	c.Args, c.Format, c.From, c.N = c.args[1:], format, from, clock
	c.e.Type = types.MakeTimestamp(format, from, int(clock))
}
