// SPDX-License-Identifier: Apache-2.0

// Package check is semantic analysis with type inference: it resolves names, infers the type of every
// expression and the shape of every map, resolves attach points against the target, folds constants,
// and reports all errors of the script at once.
//
// It takes a syntax tree and a target and returns an Info, from which frontend/irgen generates IR without deciding
// anything itself. The tree is not changed: results are in side tables keyed by node pointer, one set of tables for
// each typing of a probe's body (Body).
package check

import (
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/internal/arch"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/ir"
	"btc/targets/kernel"
)

// Info is a checked script. It is complete only if no error was reported.
type Info struct {
	Script *ast.Script
	Target *kernel.Target
	// Arches are the architectures that the object must support, the target's first; if
	// empty, only the target's. Set by the caller of Check.
	Arches []*arch.Arch
	Config Config
	// Maps are the script's maps in the order of first appearance.
	Maps []*Map
	// Params are the positional parameters that are read, by number.
	Params []*Param
	// Options are the named parameters (getopt) in order of first use.
	Options []*Option
	// Subprogs are the functions of the script, called or not.
	Subprogs []*Subprog
	// NeedsValue are the positional parameters whose values must be known at compile time but were not given;
	// NeedsOption are the named ones.
	NeedsValue  map[int]bool
	NeedsOption map[string]bool
	// ParamCount is set when "$#" is read.
	ParamCount bool
	// Programs has one entry for each attach point of each clause, in the order
	// of the script; tracepoint patterns whose body reads args are expanded.
	Programs []*Program
	// Unsafe are the uses of dangerous functions, for --unsafe at load time.
	Unsafe []Use
	// HelperErrors requests code that reports each failing helper (-k). Set by the caller of Check.
	HelperErrors bool
	// NoUnwind leaves out the code that unwinds user stacks by tables. Set by the caller of Check.
	NoUnwind bool
	// For is the program whose map format the object gets (ir.Meta.For). Set by the caller of Check.
	For string
	// SeriesClock names a scalar map that tseries reads the time (ns) from instead
	// of the clock, for tests; "" for none.
	SeriesClock string
}

// Use is a use of a dangerous function ("system", "signal", "override", ...).
type Use struct {
	Name string
	At   diag.Span
}

// Program is one attach point of one clause.
type Program struct {
	Clause int // 0-based number of the clause in the script
	Probe  *ast.Probe
	Point  *Point
	// Body is the typing of predicate and body. Programs of one clause with equal facts share a Body.
	Body *Body
}

// Point is an attach point, split into parts. The fields have the same meaning as in
// manifest.Attach.
type Point struct {
	Kind string      // one of the kinds in package probe
	Type *probe.Type // the row of Kind
	manifest.Attach
	// Pattern is set when Target or Name has a "*" that the host expands.
	Pattern bool
	At      diag.Span
	Label   string // "name=" prefix of the attach point
}

// NamedByHost reports whether only the host knows the name that the builtin probe returns:
// a match of a pattern, the module of a function, the path of a program.
func (p *Point) NamedByHost() bool {
	switch p.Kind {
	case probe.Fentry, probe.Fexit, probe.RawTracepoint:
		if p.Target == "" {
			return true
		}
	case probe.Uprobe, probe.Uretprobe, probe.USDT:
		if !strings.HasPrefix(p.Target, "/") || p.Lang != "" || p.Kind == probe.USDT && !strings.Contains(p.Name, ":") {
			return true
		}
	}
	return p.Pattern || p.Substitute != nil
}

// Space returns the address space of values in the probe's registers: argN, retval, reg().
func (p *Point) Space() types.Space {
	switch p.Type.Space {
	case probe.UserSpace:
		return types.User
	case probe.KernelSpace:
		return types.Kernel
	}
	return types.NoSpace // a sample or a watchpoint: kernel or user code
}

// RecordUse is a field of a tracepoint's record that is read at a fixed offset.
type RecordUse struct {
	At           diag.Span // the first use
	Name         string
	Offset, Size int
	Sign         string // "signed", "unsigned"; "" if not an integer
}

// Body holds the facts of one typing of a clause's predicate and body.
type Body struct {
	// Vars are the variables, in order of first appearance. All are local to a program;
	// unassigned variables read as zero or the empty string.
	Vars []*Var
	// UsesID is set when the body reads the probe builtin, UsesFunc when it reads func.
	UsesID, UsesFunc bool
	// Args are the typed arguments that the body reads, by number (-1 is the return value);
	// the loader compares them with the host's prototype.
	Args map[int]manifest.ArgUse
	// Record are the fields of a tracepoint's record that the body reads and that BTF does not describe; the loader
	// compares them with the host's format file.
	Record []RecordUse
	// Binary identifies the build of the attach points' file whose debug information the body relies on; "" for none.
	Binary string

	exprs map[ast.Expr]*Expr
	decls map[*ast.LetStmt]*Var
	loops map[*ast.ForStmt]*Var
	count map[*ast.UnrollStmt]int
	dead  map[ast.Stmt]bool
}

// Expr returns the facts about x. It is never nil for an expression of the body that is
// evaluated; parentheses share the facts of the expression in them.
func (b *Body) Expr(x ast.Expr) *Expr { return b.exprs[ast.Unparen(x)] }

// Desugared returns x, or the expression that x is short for: args without a field is a record of
// all arguments.
func (b *Body) Desugared(x ast.Expr) ast.Expr {
	if e := b.Expr(x); e != nil && e.ShortFor != nil {
		return e.ShortFor
	}
	return ast.Unparen(x)
}

// Type returns the type of x.
func (b *Body) Type(x ast.Expr) *types.Type { return b.Expr(x).Type }

// Let returns the variable that a let statement declares.
func (b *Body) Let(s *ast.LetStmt) *Var { return b.decls[s] }

// Loop returns the variable of a for statement.
func (b *Body) Loop(s *ast.ForStmt) *Var { return b.loops[s] }

// Unroll returns the number of repetitions of an unroll statement, at most MaxUnroll; 0 if load-time parameters decide.
func (b *Body) Unroll(s *ast.UnrollStmt) int { return b.count[s] }

// Dead reports whether s is unreachable; irgen generates no code for it.
func (b *Body) Dead(s ast.Stmt) bool { return b.dead[s] }

// Taken returns the branch of an "if comptime" that is compiled. The other one is neither
// checked nor compiled.
func (b *Body) Taken(x *ast.IfExpr) (then, known bool) {
	cond, ok := ast.Unparen(x.Cond).(*ast.Comptime)
	if !ok {
		return false, false
	}
	e := b.Expr(cond)
	if e == nil || e.Const == nil || e.Const.IsStr || e.Const.Host {
		return false, false
	}
	return e.Const.Int != 0, true
}

// Var is a variable of a body.
type Var struct {
	Name string // without '$'
	// Type is the promotion of the types of all assigned values. Values of narrower types need no conversion: an
	// integer is an i64, extended according to its own type; strings are copied.
	Type  *types.Type
	Index int // in Body.Vars
	At    diag.Span
	// Addressed: the script takes the variable's address, so it must be in memory.
	Addressed bool
	// Element: the variable is the (key, value) of a loop over a map.
	Element bool

	fixed bool // the let statement declares the type
	text  bool // the let statement declares "string" without a capacity
}

// Expr has the facts about one expression. Which fields are set depends on the node:
//
//	any folded node     Const: irgen uses it instead of the node, which has no effects
//	Ident               Call (builtins), or Const and perhaps Enumerator
//	Var                 Var
//	Map, MapElem        Map (MapElem: keys below)
//	Positional          Param, AsString
//	Unary * , Index, Field, args  Location
//	Index, Field of a value       Location (Root RootValue) or Elem
//	TupleIndex, Field of a record Elem: index of the field
//	Binary              Operands, Scale
//	IncDec              Scale
//	Call                Call
//	Cast                Type; the source type is the operand's own
//	Ternary, IfExpr, Block   Type is the common type of the branches
//
// The key of a MapElem has the type Map.Key. With one key expression its value
// is the key; with several they are the fields of the tuple in order.
//
// A value is converted where it is stored or combined, always without loss: from Expr.Type to Var.Type, Map.Key,
// Map.Value, the common type of branches, or an element of those. Integers need no code for that.
type Expr struct {
	Type  *types.Type
	Const *Const
	// Enumerator is set for a constant of a kernel enum, whose value may differ on the host: the value is relocated,
	// and Const is the target's.
	Enumerator *Enumerator
	// Extent is set for sizeof and offsetof of a kernel type: the value is relocated, and Const is the target's.
	Extent *Extent
	Var    *Var
	Map    *Map
	Param  *Param
	// AsString: the positional parameter is read as a string.
	AsString bool
	Call     *Call
	Location *Location
	// ProbeString is set where the builtin probe, otherwise a number, is read as a string that only the host knows.
	ProbeString bool
	// Elem is the index in the fields of a tuple or record value.
	Elem int
	// Operands is the common type of the operands of a comparison: signedness
	// for integers, strings (compared up to the smaller capacity or NUL), arrays
	// and tuples (by bytes). For arithmetic it is nil: the operands are i64.
	Operands *types.Type
	// Scale is the size in bytes of the pointee in pointer arithmetic: the
	// integer operand (or the step of ++ and --) is multiplied by it; 0 otherwise.
	Scale int
	// Late: the value is computed from literals and from values that are known at load time (parameters, sizes and
	// offsets of kernel types). It is what folding gives when these are literals: /, % and >> are signed.
	Late bool
	// LateSign, of a comparison: one side is Late, the other one is an unsigned number. They are compared as signed
	// numbers if the first is negative.
	LateSign bool
	// Width is the size in bytes in which - or ~ of an unsigned number is computed; 0 for 64 bits.
	Width int
	// Known are the fields of typeinfo() or config.
	Known []KnownField
	// ShortFor is the expression that the node is short for, see Body.Desugared.
	ShortFor ast.Expr
	// Reads is set when an aggregation is read as a number here.
	Reads bool
}

// Const is the value of a constant expression.
type Const struct {
	Int   int64 // Int, Bool (0, 1), Enum, Pointer; uint64 bit for bit
	Str   string
	IsStr bool
	// Host is set if the value depends on kernel enumerators or sizes, whose values may differ on the host: irgen then
	// generates code for the expression. Const is used only where the language requires a constant.
	Host bool

	// lit: a literal, or computed from literals alone. A number is then computed exactly and has the signedness of
	// the other operand, and a ?: of three literals has the type of the chosen one.
	lit bool
}

// Enumerator names a constant of a kernel enum for a relocation.
type Enumerator struct {
	Enum string // "enum tcp_state"; as ir.CORERef.Type
	Name string
}

// Extent names a size or an offset for a relocation: the size of Type when Path
// is empty, else the byte offset of the field.
type Extent struct{ Type, Path string }

// Root is the kind of address at which a Location starts.
type Root uint8

// The roots.
const (
	// RootPointer: the value of Location.Base, a pointer; Space is its address space.
	RootPointer Root = iota
	// RootValue: the value of Location.Base, a struct or array in program memory.
	RootValue
	// RootCtx: the program's context (args, ctx), read by direct loads.
	RootCtx
	// RootArg: argument Location.Arg of a typed probe (fentry, fexit, raw
	// tracepoints): the value itself, no steps. -1 is the return value.
	RootArg
)

// Location is the location (lvalue) of the object of a Field, Index or dereference. The address is the root's plus all
// steps; then the object of type Expr.Type is read (a struct is read only where its value is needed: access to a
// field of it extends the location instead, in a Location with more steps).
//
// An array of char is of type string[n]: it is read as a NUL-terminated string.
type Location struct {
	Root  Root
	Base  ast.Expr // RootPointer, RootValue
	Space types.Space
	Arg   int
	Steps []Step
	// Bits is the position of a bitfield in the storage unit at the address; nil if the last step is relocated,
	// because the relocation contains it.
	Bits *Bits
	// Chars is the length of a char array whose string type has room for one more NUL, so that a string that fills
	// the array is not truncated; 0 for other locations.
	Chars int
}

// Bits is the position of a bitfield in its storage unit of Unit bytes, counted from the
// least significant bit.
type Bits struct{ Unit, Off, Size int }

// Step is one addition to an address. Exactly one of its kinds is set.
type Step struct {
	// CORE and Path name a relocated field, as ir.CORERef.Type and Path do.
	CORE, Path string
	// Off is a fixed number of bytes (CORE, Index and DataLoc unset). Next to
	// CORE it is the offset in the target, for messages and dumps.
	Off int
	// Index times Scale bytes. Len is the number of elements of the array, 0 when
	// not known; an index that is not constant must be checked against it.
	Index ast.Expr
	Scale int
	Len   int
	// DataLoc: the u32 at the address holds {u16 offset, u16 length} (length in the upper half) of the data, counted
	// from the start of the context; the address becomes that of the data. RelLoc: counted from the end of the u32.
	// It is the last step, and the expression's value (int64) is the address itself.
	DataLoc, RelLoc bool
	// Others are alternatives to a relocated step on other kernels, selected by the existence of their fields. CORE,
	// Path and Then are set, and DataLoc where the address becomes that of the data. The first that exists is used.
	Others []Step
	// Flags are bits of the value that are not part of it on some kernels, and Tagged its members by a
	// tag: kernel.Spelling has both. They are set with Others.
	Flags  uint64
	Tagged []kernel.TaggedMember
	// Then continues at the address in the relocated field, a pointer.
	Then *Step
}

// Shape is the shape of a map, as ir.MapShape.String returns it.
type Shape string

// Map is one map of the script.
type Map struct {
	Name string // "@x", "@"
	// The names of the key's parts are those at their first use: the last part of "args.ret", the variable, the
	// builtin. For Help and Unit see mapDocs.
	manifest.MapNames
	ir.MapSpec
	// KeyIDs says, for each part of the key, what its numbers identify in all uses: "cgroup" or "".
	KeyIDs []string
	Shape  Shape // "plain", "count", "sum", "avg", "min", "max", "stats", "hist", "lhist", "tseries"
	Key    *types.Type
	// Value is the type of a plain map's values; for an aggregation, the 64-bit integer type of its numbers.
	Value *types.Type
	At    diag.Span
}

// Scalar reports whether the map has no keys.
func (m *Map) Scalar() bool { return m.Key == nil }

// Param is a positional parameter, read as a number, a string, or both.
type Param struct {
	N        int // number, from 1
	Int, Str bool
	IPv4     bool // read as the bytes of an IPv4 address
	Sign     bool // the program asks whether it is negative
	At       diag.Span
}

// Call is a use of a builtin or function of the table, written as a name or as
// a call.
type Call struct {
	Fn *Function
	// Param is the parameter with pton()'s address, known at load time.
	Param *Param
	// Args are the arguments that are evaluated, in order; constant ones that are in the
	// fields below are omitted.
	Args []ast.Expr
	// Map and Keys are the operands of map functions: print(@m), print(@m[k]),
	// delete(@m, k), has_key(@m, k), clear, zero, len. Keys is nil for the whole
	// map and for scalars.
	Map  *Map
	Keys []ast.Expr
	// Format is the format string of printf and similar functions, time and strftime.
	Format string
	// N is a constant: the argument's number (arg), the maximum number of frames (kstack, ustack), the clock (nsecs:
	// as ir's OpNsecs), the namespace (pid, tid: 0 loader's, 1 initial), the capacity in bytes of the result (str,
	// buf), the length (strncmp), the exit code.
	N int64
	// Text is a constant string: a register, a symbol, a separator.
	Text string
	// From is the string parameter, "$1" or "--name", whose value is Text or Format at load; "": none.
	From string
	// Sub is the function of the script that is called; nil for builtins.
	Sub *Subprog
	// Option is the option of getopt.
	Option *Option
	// Trusted is the argument whose type the kernel verifies (path, socket_cookie,
	// skboutput); it is not one of Args.
	Trusted *Trusted
}

// Config is the config block with its defaults.
type Config struct {
	// Values are the resolved settings by their current name, as strings.
	Values map[string]string
	// MaxStrlen is the capacity in bytes of strings of unknown length, NUL included.
	MaxStrlen  int
	MaxMapKeys int
	Missing    string // missing_probes: error, warn, ignore
	StackMode  string
}
