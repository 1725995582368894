// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"
	"strings"
	"time"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/diag"
	"btc/frontend/expand"
	"btc/frontend/parse"
	"btc/internal/manifest"
)

// call is what the script says about the values that one of its calls reports.
type call struct {
	names []string // of the values, "" for one without a name
	// The indices of values that say where the event was, and which took how long; -1: none.
	pid, tid, cpu, comm, took, clock int
	unit                             time.Duration // of took
	tick                             time.Duration // of clock, a reading of a clock
}

// callsOf returns the calls of an object's script that report values, by their positions. A script that does not parse, as
// one that another version compiled, has none.
func callsOf(m *manifest.Manifest) map[diag.Position]*call {
	src := diag.NewSource(m.Script.File, m.Script.Source)
	script := parse.Script(src, &diag.List{}, expand.Values(check.IsValue))
	if script == nil {
		return nil
	}
	all := map[diag.Position]*call{}
	for _, item := range script.Items {
		v := variables{}
		ast.Inspect(item, func(n ast.Node) bool { v.note(n); return true })
		ast.Inspect(item, func(n ast.Node) bool {
			if c, ok := n.(*ast.Call); ok {
				if values := reported(c); values != nil {
					all[c.Span().Pos()] = v.call(values)
				}
			}
			return true
		})
	}
	return all
}

// reported returns the expressions whose values a call reports.
func reported(c *ast.Call) []ast.Expr {
	switch c.Func.Text {
	case "printf", "cat", "system":
		if len(c.Args) > 1 {
			return c.Args[1:]
		}
	case "print":
		if len(c.Args) != 1 {
			return nil
		}
		switch x := ast.Unparen(c.Args[0]).(type) {
		case *ast.Tuple:
			return x.Elems
		case *ast.Record:
			var all []ast.Expr
			for _, f := range x.Fields {
				all = append(all, f.Value)
			}
			return all
		}
		return c.Args
	}
	return nil
}

// variables are the values that the variables of a probe are set to; nil stands for one that is not an expression.
type variables map[string][]ast.Expr

// note keeps what a statement sets.
func (v variables) note(n ast.Node) {
	set := func(x ast.Expr, value ast.Expr) {
		if x, ok := x.(*ast.Var); ok {
			v[x.Name] = append(v[x.Name], value)
		}
	}
	switch n := n.(type) {
	case *ast.LetStmt:
		if n.Init != nil {
			set(n.Var, n.Init)
		}
	case *ast.AssignStmt:
		if n.Op == ast.Assign {
			set(n.Left, n.Right)
		} else {
			set(n.Left, nil)
		}
	case *ast.IncDec:
		set(n.X, nil)
	case *ast.ForStmt:
		set(n.Var, nil)
	}
}

// value returns what an expression is, apart from casts, and of a variable that is set once, what it is set to.
func (v variables) value(x ast.Expr) ast.Expr {
	for range 10 {
		switch y := x.(type) {
		case *ast.Paren:
			x = y.X
		case *ast.Cast:
			x = y.X
		case *ast.Var:
			if len(v[y.Name]) != 1 || v[y.Name][0] == nil {
				return x
			}
			x = v[y.Name][0]
		default:
			return x
		}
	}
	return x
}

// call returns what values say.
func (v variables) call(values []ast.Expr) *call {
	c := &call{pid: -1, tid: -1, cpu: -1, comm: -1, took: -1, clock: -1}
	for i, x := range values {
		c.names = append(c.names, nameOf(x))
		if b, ok := v.value(x).(*ast.Ident); ok {
			switch b.Name {
			case "pid":
				c.pid = i
			case "tid":
				c.tid = i
			case "cpu":
				c.cpu = i
			case "comm":
				c.comm = i
			}
		}
		if unit := v.duration(x); unit > 0 && c.took < 0 {
			c.took, c.unit = i, unit
		}
		if tick := v.clock(x); tick > 0 && c.clock < 0 {
			c.clock, c.tick = i, tick
		}
	}
	return c
}

// nameOf returns a name for a value: that of a part of a key, or that of the map that it is read from.
func nameOf(x ast.Expr) string {
	switch x := ast.Unparen(x).(type) {
	case *ast.Map:
		return x.Name
	case *ast.MapElem:
		return x.Map.Name
	}
	return check.NameOf(x)
}

// duration returns the unit of an expression that is a duration, 0 if it is not known to be one: the difference of a
// clock and something else, also divided by a constant, or a name such as latency_us.
func (v variables) duration(x ast.Expr) time.Duration {
	for _, x := range []ast.Expr{x, v.value(x)} {
		if b, ok := x.(*ast.Binary); ok && b.Op == ast.Sub {
			return v.clock(b.X)
		}
		if b, ok := x.(*ast.Binary); ok && b.Op == ast.Div {
			return divided(v.duration(b.X), v.value(b.Y))
		}
	}
	if v.clock(x) > 0 {
		return 0 // a time
	}
	return named(nameOf(x))
}

// clock returns the unit of an expression that is the reading of a clock; 0: it is not.
func (v variables) clock(x ast.Expr) time.Duration {
	name := ""
	switch x := v.value(x).(type) {
	case *ast.Ident:
		name = x.Name
	case *ast.Call:
		name = x.Func.Text
	case *ast.Binary:
		if x.Op == ast.Div {
			return divided(v.clock(x.X), v.value(x.Y))
		}
	}
	if name == "nsecs" || name == "elapsed" {
		return time.Nanosecond
	}
	return 0
}

// divided returns a unit after a division by a constant.
func divided(unit time.Duration, by ast.Expr) time.Duration {
	n, ok := by.(*ast.IntLit)
	if !ok || n.Value == 0 || n.Value > uint64(time.Hour) || unit > time.Hour {
		return 0
	}
	if unit *= time.Duration(n.Value); unit > 24*time.Hour || unit < 0 {
		return 0
	}
	return unit
}

// named returns the unit in the name of a duration, such as latency_us.
func named(name string) time.Duration {
	words := strings.Split(strings.ToLower(name), "_")
	last := len(words) - 1
	about := []string{"dur", "duration", "lat", "latency", "delta", "delay", "wait", "waited", "took", "elapsed", "runtime"}
	if !slices.ContainsFunc(words[:last], func(w string) bool { return slices.Contains(about, w) }) {
		return 0
	}
	switch words[last] {
	case "ns", "nsec", "nsecs":
		return time.Nanosecond
	case "us", "usec", "usecs":
		return time.Microsecond
	case "ms", "msec", "msecs":
		return time.Millisecond
	case "s", "sec", "secs":
		return time.Second
	}
	return 0
}
