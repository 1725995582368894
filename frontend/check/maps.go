// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/internal/probe"
)

// keyUse is how a map is used: with keys, without, or not yet known.
type keyUse uint8

const (
	keyUnknown keyUse = iota
	keyScalar
	keyKeyed
)

// mapState is a map while its shape is being inferred.
type mapState struct {
	Map
	use      keyUse
	keyAt    diag.Span   // expression that decided use
	agg      *types.Type // the aggregation, nil for a plain map
	valueAt  diag.Span   // expression that decided the value's type
	params   bool        // the parameters of hist or lhist are known
	decl     *ast.MapDecl
	written  bool
	seen     bool
	onlyRead ast.Node // a read of the map before its type is known
	// wasWritten is the value of written at the end of the previous round; true if a part of the script was skipped,
	// which may write the map.
	wasWritten bool
}

// begin resets what each round computes.
func (m *mapState) begin(cut bool) {
	m.wasWritten = m.written || cut
	m.written, m.seen, m.Read, m.onlyRead = false, false, false, nil
}

// mapKinds are the kinds of a map declaration; true for those with a value for each CPU.
var mapKinds = map[string]bool{"hash": false, "lruhash": false, "percpuhash": true, "percpulruhash": true}

// declareMap reads "let @m = kind(max);".
func (c *checker) declareMap(d *ast.MapDecl) {
	m := c.mapNamed(d.Map)
	if m.decl != nil {
		c.fail(diag.BadMapDecl, d.Map, "Redeclaration of existing variable: %s", m.Name).
			Note(m.decl.At, "This is the initial declaration.")
		return
	}
	m.decl = d
	if _, ok := mapKinds[d.Kind.Text]; !ok {
		c.fail(diag.BadMapDecl, d.Kind, "Invalid bpf map type: %s", d.Kind.Text).
			Hint("Valid map types: hash, lruhash, percpuhash, percpulruhash")
		return
	}
	m.Declared, m.MaxEntries = d.Kind.Text, int(min(d.Max.Value, 1<<31-1))
	if d.Max.Value == 0 {
		c.fail(diag.BadMapDecl, d.Max, "a map needs room for at least one element")
	}
}

// mapNamed finds or creates a map.
func (c *checker) mapNamed(x *ast.Map) *mapState {
	name := "@" + x.Name
	m := c.maps[name]
	if m == nil {
		m = &mapState{}
		m.Name, m.At = name, x.At
		c.maps[name] = m
		c.order = append(c.order, m)
	}
	m.seen = true
	return m
}

// scalarUse records a use without keys; it reports whether that is consistent with earlier uses.
func (c *checker) scalarUse(m *mapState, at ast.Node) bool {
	if m.use == keyUnknown {
		m.use, m.keyAt, c.changed = keyScalar, at.Span(), true
	}
	if m.use == keyKeyed {
		c.fail(diag.KeyMismatch, at, "%s used as a map without an explicit key (scalar map), previously used with an explicit key (non-scalar map)", m.Name).
			Note(m.keyAt, "it has a key here")
	}
	return m.use == keyScalar
}

// keyedUse records a use with keys of type key; it reports whether that is consistent with earlier uses.
func (c *checker) keyedUse(m *mapState, at ast.Node, key *types.Type) bool {
	if m.use == keyUnknown {
		m.use, m.keyAt, c.changed = keyKeyed, at.Span(), true
	}
	if m.use == keyScalar {
		c.fail(diag.KeyMismatch, at, "%s used as a map with an explicit key (non-scalar map), previously used without an explicit key (scalar map)", m.Name).
			Note(m.keyAt, "it has no key here")
		return false
	}
	if invalid(key) {
		return false
	}
	p, ok := types.Promote(m.Key, key)
	if !ok {
		c.fail(diag.KeyMismatch, at, "Argument mismatch for %s: trying to access with arguments: '%s' when map expects arguments: '%s'", m.Name, key, m.Key).
			Note(m.keyAt, "it is used with other keys here")
		return false
	}
	c.grow(&m.Key, p.Type)
	return true
}

// grow replaces a type by a promoted one.
func (c *checker) grow(have **types.Type, now *types.Type) {
	if *have == nil || !types.Equal(*have, now) || !types.SameSpaces(*have, now) || (*have).Flexible && !now.Flexible || (*have).Full != now.Full {
		*have, c.changed = now, true
	}
}

// invalid reports whether t, or a part of it, is the type of an invalid expression.
func invalid(t *types.Type) bool {
	if t.Kind == types.Invalid {
		return true
	}
	for _, f := range t.Fields {
		if invalid(f.Type) {
			return true
		}
	}
	return false
}

// nameKey names parts of the key that have no name yet after their expressions.
func (m *mapState) nameKey(keys []ast.Expr) {
	if tuple, ok := ast.Unparen(keys[0]).(*ast.Tuple); ok && len(keys) == 1 {
		keys = tuple.Elems
	}
	m.KeyNames = nameParts(m.KeyNames, keys)
	m.identify(keys)
}

// nameValue names parts of a value that have no name yet, if it is a tuple.
func (m *mapState) nameValue(value ast.Expr) {
	if tuple, ok := ast.Unparen(value).(*ast.Tuple); ok {
		m.ValueNames = nameParts(m.ValueNames, tuple.Elems)
	}
}

// nameParts adds names of expressions where there are none.
func nameParts(names []string, parts []ast.Expr) []string {
	if names == nil {
		names = make([]string, len(parts))
	}
	for i, p := range parts {
		if i < len(names) && names[i] == "" {
			names[i] = NameOf(p)
		}
	}
	return names
}

// identify notes which parts of the key are always IDs of cgroups.
func (m *mapState) identify(keys []ast.Expr) {
	if m.KeyIDs == nil {
		m.KeyIDs = make([]string, len(keys))
		for i, k := range keys {
			m.KeyIDs[i] = idOf(k)
		}
		return
	}
	for i := range m.KeyIDs {
		if i >= len(keys) || idOf(keys[i]) != m.KeyIDs[i] {
			m.KeyIDs[i] = ""
		}
	}
}

// idOf returns "cgroup" for the builtin cgroup and for cgroupid(), whose values are IDs of cgroups, else "".
func idOf(x ast.Expr) string {
	switch x := ast.Unparen(x).(type) {
	case *ast.Ident:
		if x.Name == "cgroup" {
			return "cgroup"
		}
	case *ast.Call:
		if x.Func.Text == "cgroupid" {
			return "cgroup"
		}
	}
	return ""
}

// NameOf returns a name for an expression's value: "ret" for args.ret, "comm", "x" for $x; for a call, the name of its
// argument or else of the function. Computed values have none.
func NameOf(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.Var:
		return x.Name
	case *ast.Field:
		return x.Name.Text
	case *ast.Positional:
		return fmt.Sprintf("param%d", x.N)
	case *ast.Paren:
		return NameOf(x.X)
	case *ast.Cast:
		return NameOf(x.X)
	case *ast.Index:
		return NameOf(x.X)
	case *ast.Unary:
		return NameOf(x.X)
	case *ast.Call:
		if len(x.Args) > 0 {
			if name := NameOf(x.Args[0]); name != "" {
				return name
			}
		}
		return x.Func.Text
	}
	return ""
}

// key types the key expressions of an access and records the use.
func (b *body) key(m *mapState, at ast.Node, keys []ast.Expr) bool {
	if keys == nil {
		return b.scalarUse(m, at)
	}
	all := make([]*types.Type, len(keys))
	for i, k := range keys {
		all[i] = b.keyPart(k)
	}
	key := all[0]
	if len(all) > 1 {
		key = b.bounded(at, types.MakeTuple(all...))
	}
	if len(all) > 1 && key.Kind == types.Invalid {
		return false
	}
	if !b.keyedUse(m, at, key) {
		return false
	}
	m.nameKey(keys)
	for i, k := range keys {
		has := m.Key
		if len(keys) > 1 {
			has = m.Key.Fields[i].Type
		}
		if c := b.out.Expr(k).Const; c != nil && has.Kind == types.Int && has.Signed && all[i].Kind == types.Int &&
			!all[i].Signed &&
			c.Int < 0 {
			b.fail(diag.KeyMismatch, at, "Type mismatch for %s: trying to assign key of type '%s' when map already has a key type '%s'", m.Name, key, m.Key).
				Hint("the constant is larger than any %s", has)
			return false
		}
	}
	return true
}

// keyPart types an expression that is a key or part of one.
func (b *body) keyPart(x ast.Expr) *types.Type {
	t := b.part("as a key", x, b.value)
	if call := b.out.Expr(x).Call; call != nil && call.Fn != nil && call.Fn.Name == "ctx" &&
		b.point.Kind != probe.Iter {
		b.fail(diag.BadMapUse, x, "context cannot be part of a map key")
		return types.TInvalid
	}
	if agg, ok := b.statsMap(x); ok && !invalid(t) {
		b.fail(diag.BadMapUse, x, "Value '%s' cannot be used as a map key.", agg)
		return types.TInvalid
	}
	if tuple, ok := ast.Unparen(x).(*ast.Tuple); ok && !invalid(t) {
		for _, e := range tuple.Elems {
			if agg, ok := b.statsMap(e); ok {
				b.fail(diag.BadMapUse, e, "%s cannot be part of a map key", agg)
				return types.TInvalid
			}
		}
	}
	switch t.Kind {
	case types.None, types.Func, types.Float:
		b.fail(diag.BadMapUse, x, "Value '%s' cannot be used as a map key.", t)
		return types.TInvalid
	case types.Array:
		if t.Size == 0 {
			b.fail(diag.BadMapUse, x, "Value '%s' cannot be used as a map key.", t).Hint("an array without a length has no bytes; str() reads the string there, buf() bytes")
			return types.TInvalid
		}
	case types.Struct:
		if t.Size > 512 {
			b.fail(diag.BadMapUse, x, "Value '%s' cannot be used as a map key.", t).Hint("it is larger than 512 bytes")
			return types.TInvalid
		}
	}
	return t
}

// plain records that a value of type t is stored in m; it reports whether t fits the map.
func (c *checker) plain(m *mapState, at ast.Node, t *types.Type) bool {
	m.written = true
	if invalid(t) {
		return false
	}
	if t.Kind == types.Array && t.Size == 0 {
		c.fail(diag.BadMapUse, at, "Value '%s' cannot be stored in a map.", t).Hint("an array without a length has no bytes; str() reads the string there, buf() bytes")
		return false
	}
	if m.agg != nil {
		c.fail(diag.TypeMismatch, at, "Type mismatch for %s: trying to assign value of type '%s' when map already has a type '%s'", m.Name, t, m.agg).
			Note(m.valueAt, "the map gets its type here")
		return false
	}
	p, ok := types.Promote(m.Value, t)
	if !ok {
		c.fail(diag.TypeMismatch, at, "Type mismatch for %s: trying to assign value of type '%s' when map already has a type '%s'", m.Name, t, m.Value).
			Note(m.valueAt, "the map gets its type here")
		return false
	}
	if p.Lossy {
		c.lossy(at, t, p.Type)
	}
	if m.Value == nil {
		m.valueAt = at.Span()
	}
	c.grow(&m.Value, p.Type)
	return true
}

// lossy warns where signed and unsigned 64-bit integers are mixed.
func (c *checker) lossy(at ast.Node, from, to *types.Type) {
	c.fail(diag.ImplicitCast, at,
		"Expression of type: %s being cast to type: %s. This may cause unexpected results. Use an explicit cast to suppress this warning.",
		from, to)
}

// aggregate records that an aggregation writes m.
func (c *checker) aggregate(m *mapState, at ast.Node, t *types.Type) bool {
	m.written = true
	if m.Value != nil && m.agg == nil || m.agg != nil && m.agg.Kind != t.Kind {
		have := m.Value
		if m.agg != nil {
			have = m.agg
		}
		c.fail(diag.TypeMismatch, at, "Type mismatch for %s: trying to assign value of type '%s' when map already has a type '%s'", m.Name, t, have).
			Note(m.valueAt, "the map gets its type here")
		return false
	}
	if m.agg == nil {
		m.agg, m.valueAt, c.changed = t, at.Span(), true
	} else if t.Signed && !m.agg.Signed {
		m.agg, c.changed = t, true
	}
	return true
}

// finishMap completes the map's description and reports missing uses.
func (c *checker) finishMap(m *mapState) {
	if m.decl != nil && !m.seen {
		c.fail(diag.UnusedMap, m.decl, "Unused map: %s", m.Name)
		return
	}
	out := &m.Map
	c.info.Maps = append(c.info.Maps, out)
	out.Shape = "plain"
	if m.agg != nil {
		out.Shape = shapes[m.agg.Kind]
		out.Value = types.MakeInt(8, m.agg.Signed)
	}
	if m.Key != nil {
		out.Key = fitKey(m.Key.Fixed(), maxKey)
		if out.Shape == "tseries" { // the interval's number follows the key
			out.Key = fitKey(m.Key.Fixed(), maxKey-8)
		}
	}
	if m.Value != nil {
		out.Value = m.Value.Fixed()
	}
	if out.MaxEntries == 0 {
		out.MaxEntries = c.info.Config.MaxMapKeys
	}
	if m.decl != nil {
		c.finishDeclared(m)
	}
}

// maxKey is the size in bytes of the largest key that Linux allows before 5.11.
const maxKey = 512

// fitKey returns the key type t with strings and buffers shortened so that it has at most n bytes: the longest first,
// to a common capacity.
func fitKey(t *types.Type, most int) *types.Type {
	fit := t
	for limit := most; fit.Store().Size > most && limit >= 8; limit -= 8 {
		fit = cutStrings(t, limit)
	}
	return fit
}

// cutStrings returns t with strings and buffers shortened to at most limit bytes.
func cutStrings(t *types.Type, limit int) *types.Type {
	switch t.Kind {
	case types.String:
		return types.MakeString(min(t.Size, limit))
	case types.Buffer:
		return types.MakeBuffer(min(t.Size, limit))
	case types.Tuple, types.Record:
		fields := make([]types.Field, len(t.Fields))
		for i, f := range t.Fields {
			fields[i] = types.Field{Name: f.Name, Type: cutStrings(f.Type, limit)}
		}
		if t.Kind == types.Record {
			return types.MakeRecord(fields...)
		}
		elems := make([]*types.Type, len(fields))
		for i, f := range fields {
			elems[i] = f.Type
		}
		return types.MakeTuple(elems...)
	}
	return t
}

func (c *checker) finishDeclared(m *mapState) {
	percpu, ok := mapKinds[m.Declared]
	switch {
	case !ok:
	case percpu != (m.agg != nil):
		need, why := "hash", fmt.Sprintf("a value of type %s", m.Value)
		if m.agg != nil {
			need, why = "percpuhash", fmt.Sprintf("%s()", shapes[m.agg.Kind])
		}
		other := map[string]string{"hash": "lruhash", "percpuhash": "percpulruhash"}[need]
		c.fail(diag.BadMapDecl, m.decl, "Incompatible map types. Type from declaration: %s. Type from value/key type: %s", m.Declared, need).
			Hint("%s needs a %s or %s: write let %s = %s(%d)", why, need, other, m.Name, need, m.MaxEntries)
	case m.use == keyScalar:
		m.Declared = "" // a single value needs no hash
	}
}

// shapes are the shapes of aggregations.
var shapes = map[types.Kind]Shape{
	types.Count: "count", types.Sum: "sum", types.Avg: "avg", types.Min: "min", types.Max: "max",
	types.Stats: "stats", types.Hist: "hist", types.Lhist: "lhist", types.Tseries: "tseries",
}
