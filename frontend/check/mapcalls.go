// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
)

// mapArg returns the map argument of a function; it records no use with or without keys. It reports anything else and
// returns nil.
func (b *body) mapArg(c *callSite, x ast.Expr) *mapState {
	name, ok := ast.Unparen(x).(*ast.Map)
	if !ok {
		if b.value(x); true {
			b.fail(diag.BadArguments, x, "%s() expects a map argument", c.Fn.Name)
		}
		c.e.Type = types.TInvalid
		return nil
	}
	m := b.mapNamed(name)
	c.Map = &m.Map
	b.set(name, &Expr{Type: types.TNone, Map: &m.Map})
	b.unknownMap(m, x)
	return m
}

// elemArg splits "@m[k]" into map and keys.
func elemArg(x ast.Expr) (*ast.MapElem, bool) {
	el, ok := ast.Unparen(x).(*ast.MapElem)
	return el, ok
}

// deleteMap checks delete(@m, k), delete(@m[k]) and delete(@scalar).
func (b *body) deleteMap(c *callSite) {
	if el, ok := elemArg(c.args[0]); ok {
		if len(c.args) > 1 {
			b.fail(diag.BadArguments, c.at, "delete() takes one map element, or a map and a key")
		}
		b.elemKeys(c, el)
		c.Map.Deleted = true
		return
	}
	m := b.mapArg(c, c.args[0])
	if m == nil {
		for _, x := range c.args[1:] {
			b.value(x)
		}
		return
	}
	m.Deleted = true
	if len(c.args) == 1 {
		b.scalarUse(m, c.args[0])
		return
	}
	c.Keys = c.args[1:]
	b.key(m, c.args[1], c.Keys)
}

// elemKeys resolves a map element whose value is not read.
func (b *body) elemKeys(c *callSite, el *ast.MapElem) {
	m := b.mapNamed(el.Map)
	c.Map, c.Keys = &m.Map, el.Keys
	b.key(m, el, el.Keys)
	b.set(el, &Expr{Type: types.TNone, Map: &m.Map})
	b.unknownMap(m, el)
}

func (b *body) hasKey(c *callSite) {
	m := b.mapArg(c, c.args[0])
	if m == nil {
		b.value(c.args[1])
		return
	}
	if m.use == keyScalar {
		b.fail(diag.KeyMismatch, c.args[0], "call to has_key() expects a map with explicit keys (non-scalar map)")
		b.value(c.args[1])
		return
	}
	c.Keys = c.args[1:]
	b.key(m, c.args[1], c.Keys)
}

func (b *body) lenMap(c *callSite) {
	if _, ok := ast.Unparen(c.args[0]).(*ast.Map); !ok {
		if t := b.value(c.args[0]); t.IsStack() {
			c.Args = c.args
			return
		} else if !invalid(t) {
			b.fail(diag.BadArguments, c.args[0], "len() expects a map or stack argument, got %s", t)
		}
		c.e.Type = types.TInvalid
		return
	}
	if m := b.mapArg(c, c.args[0]); m.use == keyScalar {
		b.fail(diag.KeyMismatch, c.args[0], "call to len() expects a map with explicit keys (non-scalar map)")
	}
}

// wholeMap checks clear(@m), zero(@m).
func (b *body) wholeMap(c *callSite) {
	if m := b.mapArg(c, c.args[0]); m != nil {
		m.Cleared = true
	}
}

// aggCall returns x as a call of an aggregation, or nil.
func (b *body) aggCall(x ast.Expr) *ast.Call {
	call, ok := ast.Unparen(x).(*ast.Call)
	if !ok {
		if id, isName := ast.Unparen(x).(*ast.Ident); isName && id.Name == "count" {
			return &ast.Call{Extent: id.Extent, Func: &ast.Name{Extent: id.Extent, Text: id.Name}}
		}
		return nil
	}
	if fn := b.functions[call.Func.Text]; fn != nil && fn.Agg {
		return call
	}
	return nil
}

// isAgg reports whether x is an aggregation, or a conditional whose branches all are.
func (b *body) isAgg(x ast.Expr) bool {
	switch x := ast.Unparen(x).(type) {
	case *ast.Ternary:
		return x.Then != nil && b.isAgg(x.Then) && b.isAgg(x.Else)
	case *ast.IfExpr:
		return x.Else != nil && b.isAgg(x.Then) && b.isAgg(x.Else)
	case *ast.Block:
		return x.Value != nil && b.isAgg(x.Value)
	}
	return b.aggCall(x) != nil
}

// assignAggs checks "@m[keys] = x" where isAgg(x) is true.
func (b *body) assignAggs(s *ast.AssignStmt, x ast.Expr) {
	x = ast.Unparen(x)
	switch x := x.(type) {
	case *ast.Ternary:
		b.condition(x.Cond)
		b.assignAggs(s, x.Then)
		b.assignAggs(s, x.Else)
	case *ast.IfExpr:
		b.condition(x.Cond)
		b.assignAggs(s, x.Then)
		b.assignAggs(s, x.Else)
	case *ast.Block:
		b.block(x)
		b.assignAggs(s, x.Value)
	default:
		call := b.aggCall(x)
		b.assignAgg(s, call)
		if x != ast.Expr(call) {
			b.set(x, b.out.exprs[call])
			b.fail(diag.Deprecated, x, "count without its parentheses is deprecated").Hint("write count()")
		}
		return
	}
	b.set(x, &Expr{Type: types.TNone})
}

// aggMisuse reports an aggregation that is not the right side of an assignment
// to a map.
func (b *body) aggMisuse(at ast.Node) {
	name := at.Span().Text()
	if call, ok := at.(*ast.Call); ok {
		name = call.Func.Text
		for _, x := range call.Args {
			b.expr(x)
		}
	}
	b.fail(diag.BadMapUse, at, "%s() must be assigned directly to a map", name)
}

// assignAgg checks "@m[keys] = count()" and the like.
func (b *body) assignAgg(s *ast.AssignStmt, call *ast.Call) {
	fn := b.functions[call.Func.Text]
	e := b.set(call, &Expr{Type: types.TNone, Call: &Call{Fn: fn}})
	var x *ast.Map
	var keys []ast.Expr
	switch left := s.Left.(type) {
	case *ast.Map:
		x = left
	case *ast.MapElem:
		x, keys = left.Map, left.Keys
	}
	if x == nil || s.Op != ast.Assign {
		b.aggMisuse(call)
		return
	}
	m := b.mapNamed(x)
	m.written = true
	e.Call.Map = &m.Map
	b.set(s.Left, &Expr{Type: types.TNone, Map: &m.Map})
	b.key(m, s.Left, keys)
	c := &callSite{Call: e.Call, at: call, name: call.Func, args: call.Args, e: e}
	if fn.unsupported {
		b.unsupported(c.name, "%s", fn.Name)
		return
	}
	if !b.arity(c) {
		return
	}
	b.aggregation(c, m)
}

// aggKinds are the types of aggregations by function.
var aggKinds = map[string]types.Kind{
	"count": types.Count, "sum": types.Sum, "avg": types.Avg, "min": types.Min, "max": types.Max,
	"stats": types.Stats, "hist": types.Hist, "lhist": types.Lhist, "tseries": types.Tseries,
}

func (b *body) aggregation(c *callSite, m *mapState) {
	signed := false
	if len(c.args) > 0 {
		t := b.value(c.args[0])
		if !invalid(t) && (!t.IsInteger() || t.Kind == types.Bool) {
			word, got := "integer", t.String()
			switch c.Fn.Name {
			case "hist", "lhist", "tseries":
				word, got = "int", baseNames[t.Kind]
			}
			b.fail(diag.BadArguments, c.args[0], "%s() only supports %s arguments (%s provided)", c.Fn.Name, word, got)
		}
		signed = t.Signed
		c.Args = c.args[:1]
	}
	b.aggregate(m, c.at, types.MakeAgg(aggKinds[c.Fn.Name], signed))
	switch c.Fn.Name {
	case "hist":
		b.hist(c, m)
	case "lhist":
		b.lhist(c, m)
	case "tseries":
		b.tseries(c, m)
	}
}

func (b *body) hist(c *callSite, m *mapState) {
	bits := int64(0)
	if len(c.args) > 1 {
		n, ok := b.constInt(c.args[1], "hist")
		if !ok {
			return
		}
		if n < 0 || n > 5 {
			b.fail(diag.BadArguments, c.args[1], "hist: bits %d must be 0..5", n)
			return
		}
		bits = n
	}
	if m.params && m.Bits != int(bits) {
		b.fail(diag.BadMapUse, c.at, "Different bits in a single hist unsupported").
			Note(m.valueAt, "the map gets its bits here")
		return
	}
	m.Bits, m.params = int(bits), true
}

// maxBuckets is the maximum number of buckets of lhist.
const maxBuckets = 1000

func (b *body) lhist(c *callSite, m *mapState) {
	var v [3]int64
	for i, x := range c.args[1:4] {
		n, ok := b.constInt(x, "lhist")
		if !ok {
			return
		}
		v[i] = n
	}
	low, high, step := v[0], v[1], v[2]
	switch {
	case step < 1:
		b.fail(diag.BadArguments, c.args[3], "lhist() step must be >= 1 (%d provided)", step)
	case low < 0:
		b.fail(diag.BadArguments, c.args[1], "lhist() min must be non-negative (provided min %d)", low)
	case low >= high:
		b.fail(diag.BadArguments, c.at, "lhist() min must be less than max (provided min %d and max %d)", low, high)
	case (high-low)/step > maxBuckets:
		b.fail(diag.BadArguments, c.at, "lhist() too many buckets, must be <= %d (would need %d)", maxBuckets,
			(high-low)/step)
	case high-low < step:
		b.fail(diag.BadArguments, c.at,
			"lhist() step is too large for the given range (provided step %d for range %d)", step, high-low)
	case m.params && (m.Min != low || m.Max != high || m.Step != step):
		b.fail(diag.BadMapUse, c.at, "Different lhist bounds in a single map unsupported").
			Note(m.valueAt, "the map gets its bounds here")
	default:
		m.Min, m.Max, m.Step, m.params = low, high, step, true
	}
}

// maxIntervals is the maximum number of intervals of tseries.
const maxIntervals = 1000000

// seriesAggs are the aggregations of tseries over an interval; without one it keeps the last value.
var seriesAggs = []string{"avg", "max", "min", "sum"}

// tseries checks tseries(n, interval_ns, num_intervals[, aggregation]).
func (b *body) tseries(c *callSite, m *mapState) {
	b.unstable("tseries", c.at)
	interval, ok1 := b.seriesNumber(c, 1, "interval_ns")
	count, ok2 := b.seriesNumber(c, 2, "num_intervals")
	agg, ok3 := "", true
	if len(c.args) > 3 {
		if agg, ok3 = b.literal(c, 3); ok3 && !slices.Contains(seriesAggs, agg) {
			b.fail(diag.BadArguments, c.at,
				"tseries() expects one of the following aggregation functions: %s (\"%s\" provided)",
				strings.Join(seriesAggs, ", "), agg)
			ok3 = false
		}
	}
	switch {
	case !ok1 || !ok2 || !ok3:
	case interval < 1:
		b.fail(diag.BadArguments, c.at, "tseries() interval_ns must be >= 1 (%d provided)", interval)
	case count < 1:
		b.fail(diag.BadArguments, c.at, "tseries() num_intervals must be >= 1 (%d provided)", count)
	case count > maxIntervals:
		b.fail(diag.BadArguments, c.at, "tseries() num_intervals must be < %d (%d provided)", maxIntervals, count)
	case m.params && (m.Interval != interval || m.Intervals != count || m.Agg != agg):
		b.fail(diag.BadMapUse, c.at, "Different tseries bounds in a single map unsupported").
			Note(m.valueAt, "the map gets its intervals here")
	default:
		m.Interval, m.Intervals, m.Agg, m.params = interval, count, agg, true
	}
}

// seriesNumber returns argument i of tseries, a constant that is not negative.
func (b *body) seriesNumber(c *callSite, i int, what string) (int64, bool) {
	t := b.value(c.args[i])
	k := b.out.Expr(c.args[i]).Const
	switch {
	case invalid(t):
		return 0, false
	case k == nil || k.IsStr || k.Host || !t.IsInteger() || k.Int < 0:
		b.fail(diag.NotConstant, c.args[i], "tseries: invalid %s value (must be non-negative literal)", what)
		return 0, false
	}
	return k.Int, true
}
